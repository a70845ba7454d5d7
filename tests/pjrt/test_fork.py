"""Forked children of a process that uses IPUs: an error that names spawn, never a hang."""

import textwrap

import pytest

from support.processes import output

# `use` in a child, with what the parent made before the fork; the parent prints what the child reports.
FORK = """
    import os, signal, sys, warnings
    import jax, jax.numpy as jnp, numpy as np
    import jax_ipu
    warnings.simplefilter("ignore")
    ipu = jax.devices("ipu")[0]
    x = jax.device_put(np.arange(4, dtype=np.float32), ipu)
    step = jax.jit(lambda x: x + 1, backend="ipu")
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, 2000, lambda _, y: jnp.tanh(y @ y), x), backend="ipu").lower(
        jnp.eye(128)).compile()
    y = step(x).block_until_ready()
    state = jax.jit(lambda x: x * 2, donate_argnums=0, backend="ipu")(jax.device_put(x, ipu) + 0)
    state.block_until_ready()  # the last program: its state is still in SRAM
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a child that hangs
        try:
            {use}
            text = "nothing"
        except BaseException as error:
            text = f"{{type(error).__name__}}: {{error}}"
        os.write(write, text.encode())
        {leave}
    os.close(write)
    with os.fdopen(read) as pipe:
        print(pipe.read())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(step(y)[0])
"""

REFUSED = {
    "a compiled program": "step(x)",
    "a new program": "jax.jit(lambda x: x - 1, backend='ipu')(x)",
    "a transfer to the device": "jax.device_put(np.ones(3), ipu)",
    "state in SRAM": "np.asarray(state)",
    "counters": "jax_ipu.counters(ipu)",
    "a new client": "jax.clear_caches(); __import__('jax.extend').extend.backend.clear_backends(); jax.devices('ipu')",
}


def run(use, leave="os._exit(0)"):
    return output(textwrap.dedent(FORK.format(use=use, leave=leave))).splitlines()


@pytest.mark.parametrize("use", REFUSED)
def test_a_child_that_uses_the_device_gets_an_error_that_names_spawn(use):
    *message, code, in_parent = run(REFUSED[use])
    assert "forked from one that already used the IPU" in "".join(message) and "'spawn'" in "".join(message)
    assert code == "0" and in_parent == "2.0"


@pytest.mark.parametrize("leave", ["os._exit(0)", "sys.exit(0)"])
def test_a_child_reads_drops_and_deletes_what_it_inherited(leave):
    use = "assert np.asarray(y)[1] == 2; y.delete(); del x, state, step, loop; import gc; gc.collect()"
    assert run(use, leave) == ["nothing", "0", "2.0"]


def test_a_child_waits_for_nothing_that_was_pending_at_the_fork():
    script = FORK.replace("    read, write", "    z = loop(jnp.eye(128))\n    read, write", 1)
    script = script.format(use="z.block_until_ready()", leave="sys.exit(0)")
    *message, code, _ = output(textwrap.dedent(script)).splitlines()
    assert "'spawn'" in "".join(message) and code == "0"


def test_workers_that_only_inherit_arrays_work_as_before():
    script = """
        import multiprocessing, warnings
        import jax, jax.numpy as jnp, numpy as np
        warnings.simplefilter("ignore")
        weights = jax.jit(lambda x: x * 2, backend="ipu")(np.arange(4.0)).block_until_ready()

        def load(i):  # sees `weights`, and does not touch them
            return int(np.full(3, i).sum())

        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(pool.map(load, range(4)))
        print(weights[3])
    """
    assert output(textwrap.dedent(script)).splitlines() == ["[0, 3, 6, 9]", "6.0"]


def test_a_child_of_a_process_without_a_client_may_use_the_device():
    script = """
        import os, signal, warnings
        import jax, numpy as np
        import jax_ipu
        warnings.simplefilter("ignore")
        if (child := os.fork()) == 0:
            signal.alarm(60)
            print(jax.jit(lambda x: x + 1, backend="ipu")(np.float32(1)), flush=True)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert output(textwrap.dedent(script)).splitlines() == ["2.0", "0"]
