"""Lookups and updates of elements at several indices: on which dimensions they work, and values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jax_ipu
from support.modes import array, check, each_mode
from support.stages import optimized_ops

N = 1100
RANDOM = np.random.default_rng(5)
X, CUBE = array(7, 9), array(5, 6, 4)


def _indices(*extents, dtype=np.int32):
    """Some are outside on either side."""
    return tuple(RANDOM.integers(-2 * n, 2 * n, N).astype(dtype) for n in extents)


ROW, COLUMN, PLACE = _indices(7, 9, 6)
BYTES = tuple(v.astype(np.int8) for v in (ROW, COLUMN))
UNSIGNED = tuple(abs(v).astype(np.uint8) for v in (ROW, COLUMN))
FAR = tuple(np.where(v < 0, v - np.int32(2**31 - 50), v) for v in (ROW, COLUMN))
V, ROWS = array(N), array(N, 4)


def _loop(x, i, j):
    return lax.fori_loop(0, 3, lambda k, s: s.at[i, j].add(s[j % 7, i % 9] * 0.1), x)


def _fill(x, i, j):
    return x.at[i, j].get(mode="fill", fill_value=-5)


def _backwards(x, i, j):
    numbers = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0, 1), start_index_map=(1, 0))
    return lax.gather(x, jnp.stack([j, i], -1), numbers, (1, 1), mode="clip")


def _each_once(x, i, j, v):
    """Most rows are outside."""
    numbers = lax.ScatterDimensionNumbers((), (0, 1), (0, 1))
    once = jnp.stack([jnp.arange(N) // 9, jnp.arange(N) % 9], -1)
    return lax.scatter_add(x, once, v, numbers, mode=lax.GatherScatterMode.FILL_OR_DROP, unique_indices=True)


def _each_row(x, i, v):
    """Sums, what is set and the largest at indices of each row, of which some are outside."""
    updates = (
        lambda x, i, v: x.at[i].add(v),
        lambda x, i, v: x.at[i].set(v),
        lambda x, i, v: x.at[i].max(v, mode="clip"),
    )
    return [jax.vmap(update)(x, i, v) for update in updates]


OF_ROWS = RANDOM.integers(-3000, 3000, (3, 1100)).astype(np.int32)
LONG = array(3, 2000)


# Each with the number of index components that its gathers and scatters have, in their order.
PROGRAMS = {
    "lookups": (lambda x, i, j: x[i, j], (X, ROW, COLUMN), [1]),
    "filled": (_fill, (X, ROW, COLUMN), [1]),
    "far outside": (_fill, (X, *FAR), [1]),
    "bytes": (lambda x, i, j: x[i, j], (X, *BYTES), [1]),
    "unsigned bytes": (lambda x, i, j: x[i, j], (X, *UNSIGNED), [1]),
    "backwards": (_backwards, (X, ROW, COLUMN), [1]),
    "rows": (lambda x, i, j: x[i, j], (CUBE, ROW, PLACE), [1]),
    "columns": (lambda x, i, j: x[:, i, j], (CUBE, ROW, COLUMN), [1]),
    "three indices": (lambda x, i, j, k: x[i, j, k], (CUBE, ROW, PLACE, COLUMN), [1]),
    "with a matrix of indices": (lambda x, i, j: x[i.reshape(50, 22), j.reshape(50, 22)], (X, ROW, COLUMN), [1]),
    "one column for all": (lambda x, i: x[i, 3], (X, ROW), [1]),
    "of several types": (lambda x, i, j: x.astype("float16")[i, j], (X, ROW, COLUMN), [1]),
    "gradient": (jax.grad(lambda x, i, j: (x[i, j] ** 2).sum()), (X, ROW, COLUMN), [1, 1]),
    "sums": (lambda x, i, j, v: x.at[i, j].add(v), (X, ROW, COLUMN, V), [1]),
    "sums far outside": (lambda x, i, j, v: x.at[i, j].add(v), (X, *FAR, V), [1]),
    "sums at bytes": (lambda x, i, j, v: x.at[i, j].add(v), (X, *BYTES, V), [1]),
    "sums at unsigned bytes": (lambda x, i, j, v: x.at[i, j].add(v), (X, *UNSIGNED, V), [1]),
    "sums of rows": (lambda x, i, j, v: x.at[i, j].add(v), (CUBE, ROW, PLACE, ROWS), [1]),
    "sums of columns": (lambda x, i, j, v: x.at[:, i, j].add(v), (CUBE, ROW, COLUMN, V), [1]),
    "largest": (lambda x, i, j, v: x.at[i, j].max(v), (X, ROW, COLUMN, V), [1]),
    "products": (lambda x, i, j, v: x.at[i, j].mul(v), (X, ROW, COLUMN, 1 + V / 100), [1]),
    "one value": (lambda x, i, j: x.at[i, j].set(2.0), (X, ROW, COLUMN), [1]),
    "each once": (_each_once, (X, ROW, COLUMN, V), [1]),
    "state in a loop": (_loop, (X, ROW, COLUMN), [1, 1]),
    "updates of each row": (_each_row, (LONG, OF_ROWS, array(3, N)), [1, 1, 1]),
    "updates of each row at bytes": (
        _each_row,
        (LONG[:2, :90], *(v[None].repeat(2, 0) for v in (BYTES[0], V))),
        [1] * 3,
    ),
    "rows of rows": (jax.vmap(_each_row, (0, None, None)), (array(2, 3, 2000), OF_ROWS, array(3, N)), [1, 1, 1]),
    "rows set at a matrix": (lambda x, i, v: x.at[i].set(v), (ROWS[:50], ROW.reshape(50, 22), array(50, 22, 4)), [1]),
    "few": (lambda x, i, j: x[i[:1000], j[:1000]], (X, ROW, COLUMN), [2]),
    "not neighbours": (lambda x, i, j: x[i, :, j], (CUBE, ROW, COLUMN), [2]),
    "of each row": (lambda x, j: jnp.take_along_axis(x, j, 1), (X, COLUMN[: 7 * 157].reshape(7, 157)), [1]),
    "of what a product reads": (lambda x, i, j: x[i, j].sum() + x @ x.T, (X, ROW, COLUMN), [2]),
}


@pytest.mark.parametrize("name", PROGRAMS)
@each_mode
def test_values(name, mode):
    function, arguments, _ = PROGRAMS[name]
    check(function, *arguments, mode=mode)


def _components(op):
    """The number of components of the index vectors of a gather or scatter."""
    indices = op.operands[1 if op.name == "gather" else len(op.results)]
    numbers = op.attrs["dimension_numbers" if op.name == "gather" else "scatter_dimension_numbers"]
    axis = numbers["index_vector_dim"]
    return indices.shape[axis] if axis < len(indices.shape) else 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_number_of_components(name):
    function, arguments, components = PROGRAMS[name]
    ops = optimized_ops(function, *arguments)
    indexed = [op for op in ops if op.name in ("gather", "scatter")]
    assert [_components(op) for op in indexed] == components


LARGE, MANY = array(70_000), _indices(50)[0].repeat(9)
WRAPPED = {
    "lookups in a large table": (lambda x, i: x[i], (LARGE, *_indices(70_000)), False),
    "few lookups in it": (lambda x, i: x[i[:99]], (LARGE, *_indices(70_000)), True),
    "lookups in a table": (lambda x, i: x[i], (array(2000), *_indices(2000)), True),
    "updates of a large table": (lambda x, i: x.at[i].set(1.0), (LARGE, *_indices(70_000)), False),
    "many sums": (lambda x, i: x.at[i].add(1.0), (array(50), MANY), False),
    "sums": (lambda x, i: x.at[i].add(1.0), (array(50), *_indices(50)), True),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_who_wraps(name):
    function, arguments, inside = WRAPPED[name]
    check(function, *arguments, mode=("tile", 8))
    ops = optimized_ops(function, *arguments)
    (op,) = (op for op in ops if op.name in ("gather", "scatter"))
    assert ("index_wraps" in op.attrs) == inside


@pytest.mark.parametrize("shape", [(7, 150_000), (100, 10_000), (1050, 1000)])
@pytest.mark.parametrize("name", ["add", "set"])
def test_cycles_of_many_updates_do_not_depend_on_the_shape_of_the_indices(name, shape):
    def update(x, i, v):
        return getattr(x.at[i], name)(v)

    def estimate(function, *shapes):
        types = (jnp.float32, jnp.int32, jnp.float32)
        return jax_ipu.estimate(function, *map(jax.ShapeDtypeStruct, shapes, types))

    size = shape[0] * shape[1]
    flat = estimate(update, (size,), (size,), (size,))
    cut = estimate(update, (size,), shape, shape)
    assert cut.fits and cut.cycles < 1.1 * flat.cycles
    if shape[1] >= 10_000:
        of_rows = estimate(jax.vmap(update), shape, shape, shape)
        assert of_rows.fits and of_rows.cycles < 1.3 * flat.cycles
