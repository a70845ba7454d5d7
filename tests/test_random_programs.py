"""Random programs: ipu (fast) = ipu (tile) = JAX on CPU."""

import warnings

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jax_ipu import _ipu, compiler
from support import program_computation, program_data, program_elementwise
from support.programs import Program, assert_close, programs

OPERATIONS = program_elementwise.OPERATIONS + program_data.OPERATIONS + program_computation.OPERATIONS
TILES = st.sampled_from([8, 3, 64])
# The reference need not be fast: half of the time is its compilation. XLA's algebraic simplifier joins two bit casts to
# narrower types into one of another shape, which its verifier refuses.
REFERENCE = {
    "xla_backend_optimization_level": "0",
    "xla_llvm_disable_expensive_passes": True,
    "xla_disable_hlo_passes": "algsimp",
}
common = settings(deadline=None, suppress_health_check=list(HealthCheck))


def check(program: Program, tiles: int) -> None:
    """The program's results on the model in both modes against those of JAX on CPU."""
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy on NaN and overflow in constants; donated inputs without a use
        arguments = program.arguments()
        donated = tuple(range(len(arguments))) if program.donates else ()
        traced = jax.jit(program.function(), donate_argnums=donated, keep_unused=True).trace(*arguments)
        expected = [np.asarray(x) for x in traced.lower(lowering_platforms=("cpu",)).compile(REFERENCE)(*arguments)]
        text = str(traced.lower(lowering_platforms=("ipu",)).compiler_ir("stablehlo")).encode()
        executable = compiler.compile(text, "mlir", b"", f"ipu2:{tiles}")
        inputs = [a.tobytes() for a in arguments]
        for mode in ("fast", "tile"):
            results = _ipu.run(executable, inputs, mode)
            for value, data, reference in zip(program.outputs, results, expected, strict=True):
                assert_close(value, np.frombuffer(data, reference.dtype).reshape(reference.shape), reference)


# The same examples in every run: a failure can be repeated.
@settings(common, max_examples=200, derandomize=True)
@given(programs(OPERATIONS), TILES)
def test_random_programs(program, tiles):
    check(program, tiles)


@pytest.mark.nightly
@settings(common, max_examples=5000)
@given(programs(OPERATIONS, max_steps=14), TILES)
def test_many_random_programs(program, tiles):
    check(program, tiles)
