"""Primitives of jax.lax as vertices on tiles, against JAX on CPU: values also where C++ defines none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jax_ipu import tile
from support.modes import array, check

TILES = (5, 0, 3)
MODES = pytest.mark.parametrize("mode", [("fast", 8), ("tile", 8)], ids=lambda mode: mode[0])
MORE = "acos asin atan asinh atanh cosh sinh erfc exp2 lgamma"


def on(array):
    return tile.tile_put_sharded(array, TILES)


def apply(name, *arrays, **attributes):
    return tile.tile_map(getattr(lax, f"{name}_p"), *arrays, **attributes)


def convert(x, dtype):
    return apply("convert_element_type", x, new_dtype=np.dtype(dtype), weak_type=False, sharding=None)


@MODES
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_of_floats(dtype, mode):
    def f(x):
        a = on(x)
        results = [apply(name, a) for name in MORE.split()]
        results += [apply("acosh", apply("exp", apply("abs", a)))]
        results += [apply("integer_pow", a, y=y) for y in (-3, -1, 0, 1, 2, 5)]
        results += [apply("round", a, rounding_method=how) for how in lax.RoundingMethod]
        results += [apply("rem", a, apply("cos", a)), apply("clamp", apply("neg", a), apply("exp", a), a)]
        results += [convert(a, to) for to in ("float16", "float32", "int32", "bool")]
        return [r.array for r in results]

    rtol = 1e-5 if dtype == "float32" else None
    check(f, array(3, 4, 5, dtype=dtype, low=-0.9, high=0.9), mode=mode, rtol=rtol)


@MODES
@pytest.mark.parametrize("dtype", ["int32", "int8", "uint16"])
def test_of_integers(dtype, mode):
    """With divisions by zero and by -1, and shifts by negative numbers and by more bits than there are."""

    def f(x, y, z):
        a, b, c = on(x), on(y), on(z)
        results = [apply(name, a, d) for name in ("div", "rem") for d in (b, c)]
        shifts = ("shift_left", "shift_right_logical", "shift_right_arithmetic")
        results += [apply(name, a, d) for name in shifts for d in (b, c)]
        results += [apply(name, a) for name in ("not", "population_count", "clz")]
        results += [apply("integer_pow", a, y=3)]
        results += [convert(a, to) for to in ("float16", "float32", "int8", "uint8", "bool")]
        return [r.array for r in results]

    x = array(3, 4, 5, dtype=dtype)
    x[0, 0, 0] = np.iinfo(dtype).min
    y = (np.arange(60).reshape(3, 4, 5) % 4).astype(dtype)
    y[0, 0, :3] = np.array([-1, 0, 40]).astype(dtype)
    check(f, x, y, array(3, 4, 5, dtype=dtype, seed=1), mode=mode)


@MODES
def test_of_booleans(mode):
    def f(x):
        a = on(x)
        results = [apply("not", a), apply("reduce_and", a, axes=(0,)), apply("reduce_or", a, axes=(1,))]
        return [r.array for r in [*results, convert(a, "float32"), convert(a, "int8")]]

    check(f, array(3, 4, 5, dtype="bool"), mode=mode)


@MODES
def test_floats_become_the_nearest_integer_that_there_is(mode):
    def f(x):
        return [convert(on(x), to).array for to in ("int32", "int8", "uint8", "uint32", "int16")]

    check(f, np.float32([[1e20, -1e20, np.nan], [300, -300, 3.7], [2**31, -1.5, np.inf]]), mode=mode)


@MODES
def test_of_arrays(mode):
    def f(x):
        a = on(x)
        bits = apply("bitcast_convert_type", a, new_dtype=np.dtype("uint32"))
        results = [bits, apply("bitcast_convert_type", bits, new_dtype=np.dtype("float32"))]
        results += [apply("reshape", a, new_sizes=(20,))]
        results += [apply("iota", dtype=np.dtype("int32"), dimension=1, shape=(3, 4, 2), tiles=TILES)]
        results += [apply("iota", dtype=np.dtype("float16"), dimension=0, shape=(30,), tiles=TILES)]
        return [r.array for r in results]

    check(f, array(3, 4, 5), mode=mode)


@MODES
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "float16"])
def test_copies_and_fills(dtype, mode):
    def f(x):
        return tile.tile_copy(on(x)).array, tile.tile_fill((2, 3), 1, np.dtype(dtype), TILES).array

    check(f, array(3, 4, dtype=dtype), mode=mode)


@MODES
@pytest.mark.parametrize("how", ["clip", "fill", "promise_in_bounds"])
def test_rows_by_their_numbers(how, mode):
    how = lax.GatherScatterMode.from_any(how)

    def rows(x, indices, rank):
        numbers = lax.GatherDimensionNumbers(tuple(range(1, rank)), (0,), (0,))
        sizes = (1, *x.tile_shape[1:])
        return apply("gather", x, indices, dimension_numbers=numbers, slice_sizes=sizes, mode=how)

    def f(x, integers, vector, indices, updates):
        i = on(indices)
        results = [rows(on(x), i, 2), rows(on(integers), i, 2), rows(on(vector), i, 1)]
        numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
        for name in ("scatter_add", "scatter_mul", "scatter_max", "scatter_min"):
            results.append(apply(name, on(x), i, on(updates), dimension_numbers=numbers, mode=how))
        return [r.array for r in results]

    low, high = (0, 4) if how == lax.GatherScatterMode.PROMISE_IN_BOUNDS else (-3, 8)
    indices = np.random.default_rng(0).integers(low, high, (3, 6, 1)).astype(np.int32)
    args = array(3, 4, 5), array(3, 4, 5, dtype="int32"), array(3, 4), indices, array(3, 6, 5, seed=1)
    check(f, *args, mode=mode)


@MODES
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_products_on_each_tile(dtype, mode):
    def f(x, y):
        a, b = on(x), on(y)
        results = [
            apply("dot_general", a, b, dimension_numbers=(((1,), (1,)), ((), ()))),
            apply("dot_general", a, a, dimension_numbers=(([0], [0]), ([], []))),  # lists, as programs write them
            apply("dot_general", b, on(y[:, 0]), dimension_numbers=(((1,), (0,)), ((), ()))),
        ]
        return [r.array for r in results]

    check(f, array(3, 4, 5, dtype=dtype), array(3, 7, 5, dtype=dtype, seed=1), mode=mode)


def test_parameters_of_none_have_their_defaults():
    def f(x, indices, updates):
        numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
        none = {"update_jaxpr": None, "update_consts": None}
        return apply("scatter_add", on(x), on(indices), on(updates), dimension_numbers=numbers, **none).array

    x, indices, updates = array(3, 4, 5), np.zeros((3, 2, 1), np.int32), array(3, 2, 5, seed=1)
    expected = x.copy()
    expected[:, 0] += updates.sum(1)
    np.testing.assert_allclose(jax.jit(f, backend="cpu")(x, indices, updates), expected, rtol=1e-5)
    check(f, x, indices, updates, mode=("fast", 8))


def test_workers_share_vectors():
    assert tile.make_ipu_vector1d_worker_offsets(16).tolist() == [0, 2, 4, 6, 8, 8, 8]
    share = tile.make_ipu_vector1d_worker_offsets_and_sizes(30, 2, grain_size=4, allow_overlap=True)
    assert share.T.tolist() == [[0, 4, 8, 11, 0, 0], [4, 4, 4, 4, 0, 0]]


REFUSED = {
    "batch": (lambda x: apply("dot_general", x, x, dimension_numbers=(((1,), (1,)), ((0,), (0,)))), "no batches"),
    "empty": (
        lambda x: apply(
            "gather",
            tile.tile_constant_replicated(np.zeros((4, 0), np.float32), TILES),
            tile.tile_constant_replicated(np.zeros((2, 1), np.int32), TILES),
            dimension_numbers=lax.GatherDimensionNumbers((1,), (0,), (0,)),
            slice_sizes=(1, 0),
        ),
        "have no elements",
    ),
    "size": (lambda x: apply("bitcast_convert_type", x, new_dtype=np.dtype("uint8")), "other sizes"),
    "columns": (
        lambda x: apply(
            "gather",
            x,
            tile.tile_constant_replicated(np.zeros((2, 1), np.int32), TILES),
            dimension_numbers=lax.GatherDimensionNumbers((0,), (1,), (1,)),
            slice_sizes=(4, 1),
        ),
        "one row of the first dimension",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_vertices_do_not_compute_is_refused(name):
    function, message = REFUSED[name]
    with pytest.raises(NotImplementedError, match=message):
        jax.eval_shape(lambda x: function(on(x)), jnp.zeros((3, 4, 5)))
