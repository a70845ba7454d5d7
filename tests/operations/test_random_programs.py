"""Random programs: ipu (fast) = ipu (tile) = JAX on CPU."""

import os
import warnings

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption

from jax_ipu import _ipu, compiler
from jax_ipu.compiler.passes.indices import partial_reads
from support import reference
from support.programs import Program, Value, assert_close, assert_same_bits, bit_patterns, programs
from support.random_programs import (
    DATA,
    MOVES,
    OPERATIONS,
    program_collectives,
    program_control,
    program_elementwise,
    program_reduce,
    program_state,
    program_window,
)
from support.replicas import run_cpu

# Without callbacks, because the client of CPU devices would keep them alive.
WITH_COLLECTIVES = (
    program_collectives.OPERATIONS * 4
    + program_elementwise.OPERATIONS
    + DATA
    + (program_reduce.reduce, program_window.window_by_body, program_window.select_and_scatter)
    + tuple(o for o in program_control.OPERATIONS if o is not program_control.callback)
)
REPLICAS = (2, 3, 4, 8)
TILES = st.sampled_from([8, 3, 64])
# For programs whose sizes lie in five decades.
MANY_TILES = st.sampled_from([1472, 256])
# The number of elements from which on tensors are read in parts: that of programs, and one for those of the tests.
READ_IN_PARTS = st.sampled_from([partial_reads.LARGE, 1])
# XLA:CPU moves transposes past the square root until its stack overflows.
TRANSPOSES = Program(
    lines=(
        "v1 = lax.dynamic_update_slice(v0, fit(v0, (1, 2, 1, 1)), (0, -1, 4, 0))",
        "v2 = lax.gather(v0, np.asarray([[6], [-1]]), lax.GatherDimensionNumbers((0, 1, 2), (2,), (2,)), (1, 3, 1, 3))",
        "v3 = lax.neg(lax.sqrt(lax.abs(v2)))",
        "v4 = lax.top_k(lax.cummin(lax.concatenate([v1, fit(v1, (1, 3, 3, 3)), fit(v0, (1, 3, 1, 3))], 2), 2), 1)",
    ),
    inputs=(Value("v0", (1, 3, 3, 3), "bfloat16", 8.0, 0.0, False),),
    outputs=(Value("v3", (1, 3, 3, 2), "bfloat16", 9.0, 0.3, False),),
    donates=True,
    seed=2442,
)
common = settings(deadline=None, suppress_health_check=list(HealthCheck))


def check(program: Program, tiles: int, arguments_of=Program.arguments, compare=assert_close, on_cpu=reference.on_cpu):
    """Compares the program's results on the model, in both modes, with JAX on CPU.

    One of two CPU compilations must agree, because XLA's passes have errors with its simplifier and without it.
    """
    expected = on_cpu(program, arguments_of, reference.FAST)
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = arguments_of(program)
        lowered = reference.traced(program, arguments).lower(lowering_platforms=("ipu",))
        text = str(lowered.compiler_ir("stablehlo")).encode()
    executable = compiler.compile(text, "mlir", b"", f"ipu2:{tiles}")
    inputs = [a.tobytes() for a in arguments]
    results = [_ipu.run(executable, inputs, mode) for mode in ("fast", "tile")]

    def agree(expected):
        for of_mode in results:
            for value, data, e in zip(program.outputs, of_mode, expected, strict=True):
                compare(value, np.frombuffer(data, e.dtype).reshape(e.shape), e)

    try:
        agree(expected)
    except AssertionError as disagreement:
        try:
            agree(on_cpu(program, arguments_of, reference.USUAL))
        except UnsatisfiedAssumption:  # the process ended, which is no reason to reject the example here
            raise disagreement from None


def check_replicas(program: Program, tiles: int) -> None:
    """The same for a program on several IPUs, each with other arguments."""
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = [program.arguments(replica) for replica in range(program.replicas)]
        donated = tuple(range(len(program.inputs))) if program.donates else ()
        traced = jax.jit(program.function(), donate_argnums=donated, keep_unused=True).trace(*arguments[0])
        texts = {}
        for platform in ("cpu", "ipu"):
            text = str(traced.lower(lowering_platforms=(platform,)).compiler_ir("stablehlo"))
            texts[platform] = text.replace("mhlo.num_replicas = 1 ", f"mhlo.num_replicas = {program.replicas} ")
        expected = run_cpu(texts["cpu"], program.replicas, arguments)
        executable = compiler.compile(texts["ipu"].encode(), "mlir", b"", f"ipu2:{tiles}")
        for mode in ("fast", "tile"):
            by_replica = _ipu.run_replicas(executable, [[a.tobytes() for a in each] for each in arguments], mode)
            for results, references in zip(by_replica, expected, strict=True):
                for value, data, e in zip(program.outputs, results, references, strict=True):
                    assert_close(value, np.frombuffer(data, e.dtype).reshape(e.shape), e)


# The same examples in every run, so that a failure can be reproduced.
in_every_run = settings(common, derandomize=True)


@settings(in_every_run, max_examples=25)
@example(TRANSPOSES, 64)
@given(programs(OPERATIONS), TILES)
def test_random_programs(program, tiles):
    check(program, tiles)


@settings(in_every_run, max_examples=10)
@given(programs(MOVES), TILES)
def test_random_moves_of_any_bits(program, tiles):
    check(program, tiles, bit_patterns, assert_same_bits)


@settings(in_every_run, max_examples=12)
@given(programs(program_state.OPERATIONS, max_steps=3), TILES, READ_IN_PARTS)
def test_random_changes_of_state(program, tiles, large):
    """Loops that change parts of their state under masks and in branches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partial_reads, "LARGE", large)
        check(program, tiles)


@settings(in_every_run, max_examples=20)
@given(programs(WITH_COLLECTIVES, replicas=REPLICAS), TILES)
def test_random_programs_of_several_ipus(program, tiles):
    check_replicas(program, tiles)


def test_reference_that_ends_its_process():
    with reference.Isolated(os._exit) as worker, pytest.warns(UserWarning, match="ended on \\(3,\\)"):
        with pytest.raises(UnsatisfiedAssumption):
            worker(3)
        worker.function = abs
        assert worker(-3) == 3
        worker.function = os._exit
        with pytest.raises(AssertionError, match="2 of 3 calls"):
            worker(3)


@pytest.fixture(scope="module")
def isolated():
    """Runs XLA:CPU in a separate process, because one in a few thousand programs ends it."""
    with reference.Isolated(reference.on_cpu) as worker:
        yield worker


@pytest.mark.nightly
@settings(common, max_examples=5000)
@given(program=programs(OPERATIONS, max_steps=14), tiles=TILES)
def test_many_random_programs(program, tiles, isolated):
    check(program, tiles, on_cpu=isolated)


@pytest.mark.nightly
@settings(common, max_examples=500)
@given(program=programs(OPERATIONS, max_steps=6, decades=True), tiles=MANY_TILES)
def test_random_programs_of_many_sizes(program, tiles, isolated):
    check(program, tiles, on_cpu=isolated)


@pytest.mark.nightly
@settings(common, max_examples=300)
@given(program=programs(MOVES, max_steps=6, decades=True), tiles=MANY_TILES)
def test_random_moves_of_many_sizes(program, tiles, isolated):
    check(program, tiles, bit_patterns, assert_same_bits, isolated)


@pytest.mark.nightly
@settings(common, max_examples=300)
@given(program=programs(program_state.OPERATIONS, max_steps=3, decades=True), tiles=MANY_TILES)
def test_random_changes_of_state_of_many_sizes(program, tiles, isolated):
    check(program, tiles, on_cpu=isolated)


@pytest.mark.nightly
@settings(common, max_examples=1000)
@given(program=programs(MOVES, max_steps=14), tiles=TILES)
def test_many_random_moves_of_any_bits(program, tiles, isolated):
    check(program, tiles, bit_patterns, assert_same_bits, isolated)


@pytest.mark.nightly
@settings(common, max_examples=1000)
@given(program=programs(program_state.OPERATIONS, max_steps=5), tiles=TILES, large=READ_IN_PARTS)
def test_many_random_changes_of_state(program, tiles, large, isolated):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partial_reads, "LARGE", large)
        check(program, tiles, on_cpu=isolated)


@pytest.mark.nightly
@settings(common, max_examples=1000)
@given(programs(WITH_COLLECTIVES, max_steps=14, replicas=REPLICAS), TILES)
def test_many_random_programs_of_several_ipus(program, tiles):
    check_replicas(program, tiles)
