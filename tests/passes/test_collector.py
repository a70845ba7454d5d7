"""Python's garbage collector is paused while a program is compiled, and only then."""

import gc
import threading

import jax
import pytest
from jax import numpy as jnp

from jax_ipu.compiler import CompileError
from jax_ipu.compiler import compile as compile_program
from jax_ipu.compiler.collector import collector_paused


@pytest.fixture
def collections():
    """The generations of the collections since the test began."""
    seen = []

    def note(phase, info):
        if phase == "start":
            seen.append(info["generation"])

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


def program(ops):
    def chain(x):
        for i in range(ops):
            x = jnp.roll(x, i) * x
        return x

    return str(jax.jit(chain).lower(jax.ShapeDtypeStruct((8,), "float32")).compiler_ir("stablehlo")).encode()


def make_garbage():
    for _ in range(20 * gc.get_threshold()[0] + 100_000):
        pair = []
        pair.append(pair)


def test_no_collection_while_compiling(collections):
    text = program(200)
    before = gc.get_threshold()
    del collections[:]
    compile_program(text, "mlir", b"", "ipu2:4")
    # One may come just before the pause, and one at its end, for what was allocated meanwhile.
    assert len(collections) <= 2
    assert gc.get_threshold() == before
    del collections[:]
    make_garbage()
    assert collections != []


def test_collections_go_on_after_an_error(collections):
    before = gc.get_threshold()
    with pytest.raises(CompileError):
        compile_program(b"not a program", "mlir", b"", "ipu2:4")
    assert gc.get_threshold() == before
    del collections[:]
    make_garbage()
    assert collections != []


def test_the_last_pause_of_all_threads_counts():
    before = gc.get_threshold()
    entered, leave = threading.Event(), threading.Event()

    def pause():
        with collector_paused():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=pause)
    with collector_paused():
        thread.start()
        entered.wait()
    assert gc.get_threshold()[0] == 0
    leave.set()
    thread.join()
    assert gc.get_threshold() == before


def test_the_users_own_settings_stay():
    before = gc.get_threshold()
    try:
        with collector_paused():
            gc.disable()
        assert not gc.isenabled()
        gc.enable()
        with collector_paused():
            gc.set_threshold(123, 4, 5)
        assert gc.get_threshold() == (123, 4, 5)
    finally:
        gc.enable()
        gc.set_threshold(*before)
