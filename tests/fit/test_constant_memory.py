"""How much memory the compilation of a program with a large constant takes, in copies of the constant."""

from support import processes

MIB = 32
PROGRAM = f"""
import resource
import jax, jax.numpy as jnp, numpy as np

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

constant = np.zeros(({MIB}, 1 << 18), np.float32) + np.arange(1 << 18, dtype=np.float32)
with jax.default_device(jax.devices("ipu")[0]):
    jax.jit(lambda x: x + 1)(np.float32(1)).block_until_ready()
    before = peak()
    jax.jit(lambda x: (jnp.asarray(constant) * x).sum()).lower(np.float32(1)).compile()
print((peak() - before) / {MIB})
"""


def test_the_stages_let_their_constants_go_before_the_program_is_stored():
    """Four copies are there before the first stage begins: JAX's, the program's bytes, and two of XLA's."""
    assert float(processes.output(PROGRAM, JAX_PLATFORMS="ipu,cpu")) < 9.5
