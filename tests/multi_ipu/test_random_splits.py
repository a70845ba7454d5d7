"""Random programs whose arguments are split over IPUs: what XLA's partitioner makes of them = JAX on one CPU device."""

import warnings

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jax_ipu import _ipu, compiler
from support import reference
from support.programs import Program, assert_close, programs
from support.random_programs import OPERATIONS, program_control

# Without callbacks: all IPUs would call the same one.
SPLIT = tuple(operation for operation in OPERATIONS if operation is not program_control.callback)
IPUS = st.sampled_from([2, 4])
# For each argument: which of its dimensions that can be split is, and none from 12 on.
CHOICES = st.lists(st.integers(0, 15), min_size=4, max_size=4)
common = settings(deadline=None, suppress_health_check=list(HealthCheck))


def _spec(shape: tuple[int, ...], choice: int, ipus: int) -> P:
    dims = [dim for dim, size in enumerate(shape) if size and size % ipus == 0]
    return P(*[None] * dims[choice % len(dims)], "a") if dims and choice < 12 else P()


def _parts(array: np.ndarray, spec: P, ipus: int) -> list[bytes]:
    parts = np.split(array, ipus, list(spec).index("a")) if "a" in spec else [array] * ipus
    return [np.ascontiguousarray(part).tobytes() for part in parts]


def check(program: Program, ipus: int, choices: list[int]) -> None:
    """Compares the results, which every IPU has as a whole, with those of one CPU device."""
    mesh = Mesh(np.array(jax.devices("ipu")[:ipus]), ("a",))
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = program.arguments()
        specs = [_spec(a.shape, choice, ipus) for a, choice in zip(arguments, choices, strict=False)]
        places = [NamedSharding(mesh, spec) for spec in specs]
        whole = NamedSharding(mesh, P())
        jitted = jax.jit(program.function(), keep_unused=True, in_shardings=places, out_shardings=whole)
        text = str(jitted.trace(*arguments).lower(lowering_platforms=("ipu",)).compiler_ir("stablehlo"))
    try:
        executable = compiler.compile(text.encode(), "mlir", b"", "ipu2:8")
    except compiler.CompileError as error:
        if "its partitioner stopped" not in str(error):
            raise
        reject()  # XLA splits no such program
    split = [_parts(a, spec, ipus) for a, spec in zip(arguments, specs, strict=True)]
    of_ipus = _ipu.run_replicas(executable, [list(each) for each in zip(*split, strict=True)])

    def agree(expected: list[np.ndarray]) -> None:
        for results in of_ipus:
            for value, data, e in zip(program.outputs, results, expected, strict=True):
                assert_close(value, np.frombuffer(data, e.dtype).reshape(e.shape), e)

    try:
        agree(reference.on_cpu(program, Program.arguments, reference.FAST))
    except AssertionError:
        agree(reference.on_cpu(program, Program.arguments, reference.USUAL))


@settings(common, derandomize=True, max_examples=12)
@given(programs(SPLIT), IPUS, CHOICES)
def test_random_splits(program, ipus, choices):
    check(program, ipus, choices)


@pytest.mark.nightly
@settings(common, max_examples=2000)
@given(programs(SPLIT, max_steps=14), IPUS, CHOICES)
def test_many_random_splits(program, ipus, choices):
    check(program, ipus, choices)
