"""Loops with a search for each row of large arrays are run for parts of the rows, where memory comes first."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu
from jax_ipu.compiler import pipeline
from support.modes import array, check, forget_executables, lower
from support.stages import imported

TABLE = np.sort(np.round(array(300) * 20))
QUERIES = np.round(array(60_000, seed=1) * 25)
QUERIES[::7_777] = np.nan


def halvings(x, scale):
    """A loop of its own for each row, with a scalar that all trips share and results of three kinds."""

    def trip(i, carry):
        low, pairs, power = carry
        return low + (x > low * scale) * power, pairs * 0.5 + low[:, None], power * 0.5

    start = (jnp.zeros_like(x), jnp.ones((x.size, 2)), jnp.float32(8))
    low, pairs, _ = jax.lax.fori_loop(0, 5, trip, start)
    return low * 2, pairs, jnp.zeros(40).at[low.astype(int)].add(x)


def halved(x, scale):
    """A loop for each row until it is small, after and before what is computed of the rows."""

    def until_small(row):
        return jax.lax.while_loop(
            lambda c: c[0] > 1, lambda c: (c[0] * scale, c[1] + 1, c[2] * 2), (row, 0, jnp.ones(2))
        )

    size, trips, pairs = jax.vmap(until_small)(jnp.abs(jnp.nan_to_num(x)))
    return size + 1, trips * 2, pairs


def nested(x):
    """Loops in loops, each until no row goes on."""

    def inner(row):
        return jax.lax.while_loop(lambda v: v > 8, lambda v: v - 7, row)

    def outer(row):
        return jax.lax.while_loop(lambda c: c[1] < 3, lambda c: (inner(c[0]) + row, c[1] + (c[0] > 2) + 1), (row, 0))

    return jax.vmap(outer)(jnp.nan_to_num(x))


def limited(x, stops=3.0):
    """A loop with a limit of the trips beside the condition of elements, as `jax.scipy.special.gammainc` has."""

    def goes_on(c):
        return (c[0] < 12) & jnp.any(c[1])

    def trip(c):
        count, active, value, power = c
        longer = value + power / (count + 1)
        following = jnp.where(active, power * x, power)
        return count + 1, active & (longer < stops), jnp.where(active, longer, value), following

    start = (jnp.float32(0), x > -9, jnp.zeros_like(x), jnp.ones_like(x))
    return jax.lax.while_loop(goes_on, trip, start)[2]


def by_count(x):
    """Whether an element goes on depends on the trip, so that one which is done may go on later."""

    def trip(c):
        count, value = c
        return count + 1, jnp.where(value % 7 > count % 3, value - 1, value)

    def goes_on(c):
        return (c[1] % 7 > c[0] % 3).any()

    return jax.lax.while_loop(goes_on, trip, (0, jnp.nan_to_num(x).astype(int)))[1]


def with_trips(x):
    """The number of trips that all elements take together is a result."""

    def trip(c):
        return c[0] + 1, jnp.where(c[1] > 1, c[1] * 0.5, c[1])

    return jax.lax.while_loop(lambda c: (c[1] > 1).any() & (c[0] < 20), trip, (0, x))


SMALL = np.nan_to_num(QUERIES) / 30

# Functions and arguments.
CASES = {
    "searchsorted": (jnp.searchsorted, TABLE, QUERIES),
    "from the right": (lambda a, v: jnp.searchsorted(a, v, side="right"), TABLE, QUERIES),
    "in as many": (lambda v: jnp.searchsorted(jnp.sort(v), v), QUERIES),
    "no number of parts": (jnp.searchsorted, TABLE, QUERIES[:59_999]),
    "digitize": (jnp.digitize, QUERIES, TABLE),
    "histogram": (lambda v: jnp.histogram(jnp.sin(jnp.nan_to_num(v)), bins=50)[0], QUERIES),
    "weights": (lambda v: jnp.histogram(jnp.nan_to_num(v), 9, weights=jnp.abs(v) > 3)[0], QUERIES),
    "and others": (lambda a, v: (i := jnp.searchsorted(a, v), a[i] - 1, i.sum(), (i * 2)[::-1]), TABLE, QUERIES),
    "of a loop": (lambda a, v: jnp.searchsorted(a, jnp.searchsorted(a, v).astype(float)), TABLE, QUERIES),
    "own loop": (halvings, QUERIES, np.float32(1.5)),
    "constant state": (
        lambda v: jax.lax.fori_loop(0, 4, lambda i, c: (c[0] + c[1], jnp.full_like(v, 2)), (v, v * 3))[0],
        QUERIES,
    ),
    "table that changes": (
        lambda v, t: jax.lax.fori_loop(0, 4, lambda i, c: (c[0] + c[1][c[0].astype(int) % 300], c[1] * 2), (v, t))[0],
        np.nan_to_num(QUERIES),
        TABLE,
    ),
    "until each is done": (halved, QUERIES, np.float32(0.5)),
    "until each is done, nested": (nested, QUERIES),
    "gamma": (lambda k: jax.random.gamma(k, 2.0, (9_000,)), np.array([1, 2], np.uint32)),
    "beta": (lambda k: jax.random.beta(k, 2.0, 0.5, (9_000,)), np.array([1, 2], np.uint32)),
    "with a limit": (limited, SMALL),
    "with a limit, of a matrix": (limited, SMALL.reshape(1_000, 60)),
    "gammainc": (lambda x: jax.scipy.special.gammainc(jnp.abs(x) + 1, jnp.abs(x) * 2), SMALL),
    "exp1": (lambda x: jax.scipy.special.exp1(jnp.abs(x) + 0.1), SMALL),
    "rows": (lambda a, v: jax.vmap(lambda q: jnp.searchsorted(a, q))(v.reshape(-1, 2)), TABLE, QUERIES),
}
# Rows that depend on others, or the order of rows.
WHOLE = {
    "neighbours": (lambda v: jax.lax.fori_loop(0, 9, lambda i, v: v + v[::-1], v), QUERIES),
    "sums": (lambda v: jax.lax.fori_loop(0, 9, lambda i, v: v / v.sum(), v), QUERIES),
    "lookups in itself": (lambda v: jax.lax.fori_loop(0, 9, lambda i, v: v[v.astype(int)], jnp.nan_to_num(v)), QUERIES),
    "one element": (lambda v: jax.lax.fori_loop(0, 5, lambda i, s: s + v * v[i], v * 2), np.nan_to_num(QUERIES)),
    "columns": (
        lambda v: jax.lax.fori_loop(0, 5, lambda i, s: s + (v[:300, None] * v[None, :300])[:, 5], v[:300]),
        np.nan_to_num(QUERIES),
    ),
    "until all are done": (
        lambda v: jax.lax.while_loop(lambda v: (v > 1).any(), lambda v: v * 0.5, v),
        np.nan_to_num(QUERIES),
    ),
    "done by another measure": (
        lambda v: jax.lax.while_loop(lambda v: (v > 1).any(), lambda v: jnp.where(v > 1.5, v * 0.5, v - 0.1), v),
        np.nan_to_num(QUERIES),
    ),
    "done as others are": (
        lambda v: jax.lax.while_loop(lambda v: (v > v.sum()).any(), lambda v: jnp.where(v > v.sum(), v * 0.5, v), v),
        np.nan_to_num(QUERIES),
    ),
    "done for a trip": (by_count, QUERIES),
    "number of trips": (with_trips, np.nan_to_num(QUERIES)),
    "small": (jnp.searchsorted, TABLE, QUERIES[:2_000]),
}


def loops(function, *args):
    module = imported(lower(function, *args)[0])
    module.memory, module.frugal = 638976 * 2, True
    count = 0
    for name, run in pipeline.PASSES:
        before = sum(op.name == "ipu.repeat" for op in module.main.block.walk())
        run(module)
        if name == "row loops":
            count = sum(op.name == "ipu.repeat" for op in module.main.block.walk()) - before
    return count


@pytest.fixture
def always_frugal(monkeypatch):
    """All programs are compiled as where memory comes first."""
    forget_executables()
    monkeypatch.setattr(pipeline, "_SAVE_MEMORY", frozenset())
    yield
    forget_executables()


@pytest.mark.parametrize("execution", ["fast", "tile"])
@pytest.mark.parametrize("case", CASES)
def test_equal_to_the_whole(case, execution, always_frugal):
    function, *args = CASES[case]
    assert loops(function, *args) > 0
    check(function, *args, mode=(execution, 2), rtol=1e-4)


@pytest.mark.parametrize("case", WHOLE)
def test_what_is_not_of_rows_stays_whole(case, always_frugal):
    function, *args = WHOLE[case]
    assert loops(function, *args) == 0
    check(function, *args, mode=("fast", 4))


def _array(size, dtype="float32"):
    return jax.ShapeDtypeStruct((size,), np.dtype(dtype))


# Operands and results take half of the memory.
FITTING = {
    "digitize": (jnp.digitize, _array(58_000_000), _array(100)),
    "histogram": (lambda x: jnp.histogram(x, bins=50)[0], _array(110_000_000)),
    "searchsorted": (jnp.searchsorted, _array(1_000), _array(58_000_000)),
    "in as many": (jnp.searchsorted, _array(39_000_000), _array(39_000_000)),
    "exp1": (jax.scipy.special.exp1, _array(55_000_000)),
    "expi": (jax.scipy.special.expi, _array(55_000_000)),
    "gammainc": (lambda x: jax.scipy.special.gammainc(x + 1, x), _array(55_000_000)),
    "gradient of ndtri": (jax.grad(lambda x: jax.scipy.special.ndtri(x).sum()), _array(55_000_000)),
    "gradient of spence": (jax.grad(lambda x: jax.scipy.special.spence(x).sum()), _array(55_000_000)),
}


@pytest.mark.parametrize(
    "sample", [lambda k, n: jax.random.gamma(k, 2.0, (n,)), lambda k, n: jax.random.t(k, 3.0, (n,))]
)
def test_random_numbers_of_a_loop_for_each(sample):
    key = _array(2, "uint32")
    estimates = [jax_ipu.estimate(lambda k, n=n: sample(k, n), key) for n in (1_000_000, 30_000_000)]
    assert estimates[1].fits
    assert estimates[1].cycles < 45 * estimates[0].cycles


@pytest.mark.parametrize("case", FITTING)
def test_half_of_the_memory_fits(case):
    function, *args = FITTING[case]
    estimate = jax_ipu.estimate(function, *args)
    assert estimate.fits
    if case == "in as many":
        return  # each part goes over all of the table
    # A tenth of it costs as much for each row, with all rows at once.
    largest = args.index(max(args, key=lambda a: a.size))
    args[largest] = _array(args[largest].size // 10)
    assert estimate.cycles < 15 * jax_ipu.estimate(function, *args).cycles
