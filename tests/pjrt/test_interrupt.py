"""Ctrl-C ends the run, not only the wait for it, and the device goes on."""

import textwrap

import pytest

from support.processes import output

# The parts that differ: how the program is started and waited for. Every program would run for minutes.
INTERRUPTED = """
    import os, signal, sys, threading, time, warnings
    import jax, jax.numpy as jnp, numpy as np
    import jax_ipu
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
    ipu = jax.devices("ipu")[0]
    signal.alarm(100)

    def interrupt_soon():
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    def forever(x):
        return jax.lax.while_loop(lambda c: c[0] >= 0, lambda c: (jnp.abs(c[0]), jnp.tanh(c[1] @ c[1])), (0, x))[1]

    def forever_small(x):
        return jax.lax.while_loop(lambda c: c >= 0, lambda c: jnp.abs(c), x)

    def calling(x):
        def body(c):
            return jax.pure_callback(lambda v: np.abs(v), c, c)
        return jax.lax.while_loop(lambda c: c >= 0, body, x)

    def repeated(times):
        program = jax.jit(lambda x: jax.lax.fori_loop(0, times, lambda _, y: jnp.tanh(y @ y), x), backend="ipu")
        return program.lower(x).compile()

    x = jax.device_put(np.eye(400, dtype=np.float32), ipu)
    one = jax.device_put(np.float32(1), ipu)
    step = jax.jit(lambda x: x + 1, backend="ipu")
    step(one).block_until_ready()
    {prepare}
    threading.Thread(target=interrupt_soon).start()
    try:
        {wait}
        print("not interrupted")
    except KeyboardInterrupt:
        print("KeyboardInterrupt")
    begin = time.monotonic()
    print(step(one))
    print(jax_ipu.counters(ipu).runs)
    {then}
    assert time.monotonic() - begin < 60
"""


def run(prepare="", wait="", then="", **environment):
    script = INTERRUPTED.format(prepare=prepare, wait=wait, then=then)
    return output(textwrap.dedent(script), **environment).splitlines()


WAITS = {
    "block_until_ready": ("run = jax.jit(forever, backend='ipu').lower(x).compile()", "run(x).block_until_ready()"),
    "jax.block_until_ready": (
        "run = jax.jit(forever, backend='ipu').lower(x).compile()",
        "jax.block_until_ready([run(x), one])",
    ),
    "np.asarray": ("run = jax.jit(forever, backend='ipu').lower(x).compile()", "np.asarray(run(x))"),
    "float": ("run = jax.jit(lambda x: forever(x).sum(), backend='ipu').lower(x).compile()", "float(run(x))"),
    "inline": ("run = jax.jit(forever_small, backend='ipu').lower(one).compile()", "run(one).block_until_ready()"),
    "callback": ("run = jax.jit(calling, backend='ipu').lower(one).compile()", "run(one).block_until_ready()"),
    "counters": ("run = jax.jit(forever, backend='ipu').lower(x).compile()", "y = run(x); jax_ipu.counters(ipu)"),
}


@pytest.mark.parametrize("way", WAITS)
def test_an_interrupted_wait_ends_the_run(way):
    assert run(*WAITS[way])[:2] == ["KeyboardInterrupt", "2.0"]


def test_in_tile_execution():
    lines = run(*WAITS["inline"], JAX_IPU_MODEL_EXECUTION="tile", JAX_IPU_MODEL_NUM_TILES="4")
    assert lines[:2] == ["KeyboardInterrupt", "2.0"]


def test_results_carry_the_error_and_donated_arrays_are_deleted():
    prepare = """
    def train(state, x):
        return state + 1, forever(x) + state[0, 0]
    train = jax.jit(train, donate_argnums=0, backend="ipu")
    state, _ = jax.jit(lambda s, x: (s + 1, x), donate_argnums=0, backend="ipu")(x + 0, x)
    run = train.lower(state, x).compile()
    kept = jax.jit(lambda s: s * 2, backend="ipu")(x)"""
    wait = """new, result = run(state, x); queued = step(result)
        result.block_until_ready()"""
    then = """for array in (new, result, queued):
        try:
            print(np.asarray(array))
        except jax.errors.JaxRuntimeError as error:
            print(str(error)[:100])
    print(state.is_deleted())
    try:
        step(state)
    except (RuntimeError, ValueError) as error:
        print(error)
    print(kept[0, 0])"""
    lines = run(prepare, wait, then)
    assert lines[:2] == ["KeyboardInterrupt", "2.0"]
    assert all("CANCELLED" in line and "Ctrl-C" in line for line in lines[3:6])
    assert lines[6] == "True" and "deleted" in lines[7] and lines[8] == "2.0"


def test_all_replicas_of_a_launch_end():
    prepare = """
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    mesh = Mesh(jax.devices("ipu"), "d")
    def on_each(x):
        def body(c):
            return jnp.abs(c[0]), jax.lax.pcast(jax.lax.psum(jnp.tanh(c[1]), "d"), "d", to="varying")
        return jax.lax.while_loop(lambda c: c[0] >= 0, body, (0, x))[1]
    sharded = jax.device_put(jnp.ones(4), NamedSharding(mesh, P("d")))
    run = jax.jit(jax.shard_map(on_each, mesh=mesh, in_specs=P("d"), out_specs=P("d"))).lower(sharded).compile()"""
    then = "print(jnp.sum(jax.jit(lambda x: x + 1)(sharded)))"
    lines = run(prepare, "run(sharded).block_until_ready()", then, JAX_IPU_DEVICE_COUNT="2")
    assert lines[:2] == ["KeyboardInterrupt", "2.0"] and lines[-1] == "8.0"


def test_runs_of_other_threads_go_on():
    prepare = """
    count = repeated(40)
    results = []
    def work():
        for _ in range(3):
            results.append(count(x))
        results.append(np.asarray(results[-1])[0, 0])
    worker = threading.Thread(target=work)
    run = jax.jit(forever, backend='ipu').lower(x).compile()
    y = run(x)
    worker.start()"""
    lines = run(prepare, "y.block_until_ready()", "worker.join(); print(len(results))")
    assert lines[0] == "KeyboardInterrupt" and lines[-1] == "4"


def test_a_signal_handler_that_does_not_raise_ends_nothing():
    prepare = """
    signal.signal(signal.SIGINT, lambda *_: print("noted"))
    run = repeated(1500)"""
    lines = run(prepare, "print(np.isfinite(np.asarray(run(x))).all()); time.sleep(1)")
    assert sorted(lines[:3]) == ["True", "not interrupted", "noted"]
