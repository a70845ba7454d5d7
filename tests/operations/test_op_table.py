"""Every row of the op table against JAX on CPU, in both execution modes: one compilation for all types and shapes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ipu import _ipu
from jax_ipu.compiler.errors import UNIMPLEMENTED
from support.modes import MODES, array, close, on_cpu, run_ipu
from support.op_table import NARROW_INTEGER, ROWS, STORED_FLOAT, Row, codelet_types

# A few tiles suffice to test the mapping; large tensors need all of them.
FEW_TILES, ALL_TILES = MODES[::2], MODES[1::2]
NAMES = [f"{i}-{row.op} {row.note}".strip().replace(" ", "_") for i, row in enumerate(ROWS)]
each_row = pytest.mark.parametrize("index", range(len(ROWS)), ids=NAMES)


def _argument(spec, dtype: str, row: Row, seed: int):
    if not isinstance(spec, tuple):
        return np.asarray(spec)
    # e8m0 has neither a sign nor zero.
    low = 1 if dtype == "float8_e8m0fnu" else row.low
    return array(*spec, dtype=dtype, seed=seed, low=low, high=row.high)


def _calls(row: Row, dtype: str, large: bool, everything: bool):
    """Returns the arguments of each call. Without `everything`, types after the first have only the first case."""
    cases = row.cases if everything or row.kind == "pointwise" or dtype == row.dtypes[0] else row.cases[:1]
    if large and row.large is not None:
        cases = (*cases, row.large)
    return [[_argument(spec, dtype, row, seed) for seed, spec in enumerate(specs)] for specs in cases]


def _in_numpy(row: Row, dtype: str) -> bool:
    """XLA:CPU's product of narrow types is not always the nearest to the exact one."""
    return row.kind == "products" and dtype in STORED_FLOAT


def _as_bytes(row: Row, dtype: str) -> bool:
    """XLA:CPU cannot compile some moves of narrow types; moving their bytes is equivalent."""
    return row.kind == "moves" and dtype in NARROW_INTEGER + STORED_FLOAT


def _product(row: Row, calls):
    """Returns the flat results of each call, computed in f64 and rounded once."""
    kinds = [jax.eval_shape(row.function, *arguments).dtype for arguments in calls]
    wide = [row.function(*[a.astype(np.float64) for a in arguments]) for arguments in calls]
    return [[np.asarray(r).astype(kind)] for r, kind in zip(wide, kinds, strict=True)]


def _on_cpu(row: Row, dtype: str, calls):
    """Returns the calls to make on the CPU instead: one for all, or with bytes."""
    if row.kind == "pointwise":
        return [[np.concatenate([np.ravel(a) for a in arguments]) for arguments in zip(*calls, strict=True)]]
    if _as_bytes(row, dtype):
        return [[a.view(np.uint8) if a.dtype == jnp.dtype(dtype) else a for a in arguments] for arguments in calls]
    return calls


def _of_calls(row: Row, dtype: str, calls, results):
    """Returns the flat results of each call from those of the calls that were made on the CPU."""
    results = [[np.asarray(r) for r in of_call] for of_call in results]
    if row.kind == "pointwise":
        shapes = [arguments[0].shape for arguments in calls]
        cuts = np.cumsum([np.prod(s, dtype=int) for s in shapes])[:-1]
        pieces = [np.split(r, cuts) for r in results[0]]
        return [[p[i].reshape(shape) for p in pieces] for i, shape in enumerate(shapes)]
    if _as_bytes(row, dtype):
        return [[r.view(jnp.dtype(dtype)) for r in of_call] for of_call in results]
    return results


@functools.lru_cache(maxsize=8)
def _expected(index: int, dtypes: tuple[str, ...], large: bool, everything: bool):
    """Returns calls and flat results of each type, computed by JAX on CPU in one program for all types."""
    row = ROWS[index]
    calls = {dtype: _calls(row, dtype, large, everything) for dtype in dtypes}
    made = {dtype: _on_cpu(row, dtype, calls[dtype]) for dtype in dtypes if not _in_numpy(row, dtype)}

    def program(made):
        return {dtype: [jax.tree.leaves(row.function(*a)) for a in calls] for dtype, calls in made.items()}

    results = on_cpu(program, (made,))
    of_types = {dtype: _of_calls(row, dtype, calls[dtype], results[dtype]) for dtype in made}
    of_types |= {dtype: _product(row, calls[dtype]) for dtype in dtypes if dtype not in made}
    return [(calls[dtype], of_types[dtype]) for dtype in dtypes]


def _tolerance(row: Row, dtype) -> float | None:
    """The row's tolerance is for f32; halves and doubles keep their default."""
    return row.rtol if row.rtol is not None and dtype.name in ("float32", "complex64") else None


def check_row(index: int, dtypes, mode, large: bool = False, everything: bool = False) -> None:
    """Runs all calls in one program, and again with operands stored in reverse order of dimensions."""
    row = ROWS[index]
    with jax.enable_x64(True):
        known = _expected(index, tuple(dtypes), large, everything)
        calls = [arguments for arguments_of, _ in known for arguments in arguments_of]
        expected = [results for _, results_of in known for results in results_of]
        turned = [[np.array(a.T, order="C") for a in arguments] for arguments in calls]

        def program(calls, turned):
            plain = [row.function(*arguments) for arguments in calls]
            return plain, [row.function(*[a.T for a in arguments]) for arguments in turned]

        actual = run_ipu(program, (calls, turned), mode)
        flat = [r for results in expected for r in results]
        for a, e in zip(actual, [*flat, *flat], strict=True):
            close(a, e, _tolerance(row, e.dtype))


@pytest.mark.parametrize("mode", FEW_TILES, ids=lambda mode: f"{mode[0]}{mode[1]}")
@each_row
def test_row(index, mode):
    check_row(index, ROWS[index].dtypes, mode)


WITH_CODELETS = [i for i, row in enumerate(ROWS) if codelet_types(row)]
EXAMPLES = ("add", "iota", "tanh", "cholesky", "triangular_solve")


@pytest.mark.parametrize("index", [i for i in WITH_CODELETS if ROWS[i].op in EXAMPLES], ids=lambda i: NAMES[i])
def test_codelets(index):
    check_row(index, codelet_types(ROWS[index])[:1], ("codelets", 8))


@pytest.mark.nightly
@pytest.mark.parametrize("index", WITH_CODELETS, ids=lambda i: NAMES[i])
def test_codelets_of_every_type(index):
    for dtype in codelet_types(ROWS[index]):
        check_row(index, (dtype,), ("codelets", 8), everything=True)


@pytest.mark.nightly
@pytest.mark.parametrize("index", WITH_CODELETS, ids=lambda i: NAMES[i])
def test_types_without_codelets_are_refused(index):
    row = ROWS[index]
    for dtype in (d for d in row.dtypes if d not in codelet_types(row)):
        with pytest.raises(_ipu.Error, match="is not expanded into vertices yet") as caught:
            check_row(index, (dtype,), ("codelets", 8))
        assert caught.value.code == UNIMPLEMENTED


@each_row
def test_tensors_larger_than_a_tile(index):
    if ROWS[index].large is not None:
        check_row(index, ROWS[index].dtypes[:1], ("fast", 1472), large=True)


@pytest.mark.nightly
@pytest.mark.parametrize("mode", ALL_TILES, ids=lambda mode: f"{mode[0]}{mode[1]}")
@each_row
def test_every_type_on_all_tiles(index, mode):
    for dtype in ROWS[index].dtypes:
        check_row(index, (dtype,), mode, large=True, everything=True)
