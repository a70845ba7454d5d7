"""Loops of random programs whose trips change parts of their state: under a mask, in branches, or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from support.programs import INTS, Drawer, Step, Unsuitable, Value
from support.stablehlo_text import region, tensor

# New values of the state x, where y is the other state, r a row, i the trip and n the number of rows.
_UPDATES = (
    "x.at[i].set(r)",
    "x.at[i].max(r)",
    "lax.dynamic_update_slice(x, r[None], (i,) + (0,) * (x.ndim - 1))",
    "x.at[1].set(y[i])",
    "x.at[i + 1].set(x[i])",
    "x.at[jnp.array([i, 0, i])].set(jnp.stack([r, y[0], r]), mode='drop')",
    "x.at[i, ..., :1].set(r[..., :1])",
    "x.at[0].set(r).at[i].set(y[-1])",
    "lax.fori_loop(0, i, lambda j, z: z.at[j].set(r), x)",
    "x.at[jnp.arange(2), i % x.shape[1]].set(y[:2, 0])",
    "x.at[jnp.array([i, 1]), 0].min(y[:2, 0])",
    "lax.max(x, y)",
    "lax.rev(x, (0,))",
)
# Those whose gradient is a part of what flows back.
_LINEAR = _UPDATES[:1] + _UPDATES[2:3] + (_UPDATES[6],)
# Predicates: of the trip, of the state, and of every row.
_PREDICATES = ("i % 2 == 0", "done", "jnp.any(r > y[0])", "~done", "i > 0")
_MASKS = (
    "(r > y[1])",
    "jnp.reshape(jnp.arange(n) < i, (-1,) + (1,) * (x.ndim - 1))",
    "(x > y)",
    "(x[:, :1] > r[:1])",
    "(y[:1] > x[:1, :1])",
)
# What a trip reads of its states, old and new, into its row: whole rows, and single elements.
_READS = (
    *("(r := x[i])", "(r := lax.max(s[0][0], r))", "(r := s[1][i])", "(r := jnp.where(x[i, 0] > y[0, 0], r, y[1]))"),
    *("(r := jnp.where(s[0][i, 0] > x[0, 0], x[1], r))", "(r := jnp.where(s[0][(x[i] > y[0]).sum()] > 1, x[1], r))"),
)


def _update(d: Drawer, x: str = "x", y: str = "y") -> str:
    return f"(lambda x, y: {d.pick(_UPDATES)})({x}, {y})"


def _select(d: Drawer) -> str:
    """A masked update of x."""
    mask = d.pick((*_PREDICATES, *_PREDICATES, *_MASKS))
    kind = d.integer(0, 5)
    if kind == 0:
        return f"jnp.where({mask}, {_update(d)}, {_update(d)})"
    if kind == 1:
        return f"jnp.where({mask}, x, jnp.where({d.pick(_PREDICATES)}, x, {_update(d)}))"
    if kind == 2:
        return f"jnp.where({mask}, {_update(d, _update(d))}, x)"
    if kind == 3:  # the new state is read, whether it stays or not
        return f"(lambda z: jnp.where({mask}, x, z).at[0].max(z[i]))({_update(d)})"
    a, b = ("x", _update(d)) if d.flag() else (_update(d), "x")
    return f"jnp.where({mask}, {a}, {b})"


def scatter_of_two(shape: Sequence[int], dtype: str) -> str:
    """A scatter that sets a row of its first operand and takes the largest elements in the same row of its second."""
    whole, row, one = tensor(shape, dtype), tensor(shape[1:], dtype), tensor((), dtype)
    names = ("%a", "%b", "%c", "%d")
    body = f'%m = "stablehlo.maximum"(%b, %d) : ({one}, {one}) -> {one}'
    combined = region([(name, one) for name in names], body, [("%c", one), ("%m", one)])
    numbers = f"update_window_dims = {list(range(len(shape) - 1))}, inserted_window_dims = [0]"
    numbers += ", scatter_dims_to_operand_dims = [0], index_vector_dim = 0"
    attributes = f"{{scatter_dimension_numbers = #stablehlo.scatter<{numbers}>}}"
    types = f"({whole}, {whole}, tensor<1xi32>, {row}, {row}) -> ({whole}, {whole})"
    return f'%r:2 = "stablehlo.scatter"(%0, %1, %2, %3, %4) {combined} {attributes} : {types}'


def _scatter_of_two(d: Drawer, v: Value) -> str:
    """Both states changed by one scatter, under one mask or two."""
    types = [(tuple(v.shape), v.dtype)] * 2
    new = f"hlo({scatter_of_two(v.shape, v.dtype)!r}, {types}, x, y, jnp.int32(i).reshape(1), r, y[1])"
    masks = [d.pick(_PREDICATES)] * 2 if d.flag() else [d.pick((*_PREDICATES, *_MASKS)) for _ in range(2)]
    kept = [f"jnp.where({mask}, {old}, _[{i}])" for i, (mask, old) in enumerate(zip(masks, "xy", strict=True))]
    return f"_ := {new}), (_ := ({', '.join(kept)})), (x := _[0]), (y := _[1]"


def _gradient(d: Drawer) -> str:
    """What flows back through masked updates: into the state, through trips, or into a row."""
    mask = d.pick((*_PREDICATES, *_MASKS))
    update = f"jnp.where({mask}, x, {d.pick(_LINEAR)})"
    kind = d.integer(0, 2)
    if kind == 0:
        return f"x := jax.vjp(lambda x: {update}, x)[1](y)[0]"
    if kind == 1:
        return f"r := jax.vjp(lambda r: {update}[1], r)[1](y[0])[0]"
    return f"x := jax.vjp(lambda x: lax.fori_loop(0, 3, lambda i, x: {update}, x), x)[1](y)[0]"


_RESULTS = ("(x, y)", "(x, y)", "(y, x)", "(U, y)", "(U, y)", "(x, U)", "(y, U)", "(U, x)", "(x, x)", "(U, U)")


def _branch(d: Drawer) -> str:
    result = d.pick(_RESULTS)
    while "U" in result:
        result = result.replace("U", _update(d, *d.pick((("x", "y"), ("y", "x")))), 1)
    return f"lambda x, y: {result}"


def _statement(d: Drawer, v: Value, batched: bool) -> str:
    """One change of the variables x, y, r and done of a trip; x and y are like v."""
    kind = d.integer(0, 8)
    if kind == 7 and not batched:
        return _scatter_of_two(d, v)
    if kind == 8 and v.dtype == "float32":
        return _gradient(d)
    if kind < 2:
        return f"x := {_select(d)}"
    if kind < 4:
        branches = ", ".join(_branch(d) for _ in range(2))
        return f"_ := lax.cond({d.pick(_PREDICATES)}, {branches}, x, y)), (x := _[0]), (y := _[1]"
    if kind == 4:
        branches = ", ".join(_branch(d) for _ in range(3))
        return f"_ := lax.switch(i % 4, [{branches}], x, y)), (x := _[0]), (y := _[1]"
    if kind == 5:
        return d.pick(("_ := (x, y)), (x := _[1]), (y := _[0]", "done := done | (i == 2)", "r := y[i]", "r := x[0]"))
    return f"x := {_update(d)}"


def state(d: Drawer) -> Step:
    """A loop over two states, once or for every element of a batch."""
    v = d.value((*INTS, "float32"), exact=True, finite=True, min_rank=2)
    if v.shape[0] < 2 or 0 in v.shape:
        raise Unsuitable
    other, w = d.partner(v, exact=True, finite=True)
    batched = d.flag()
    after = d.pick(("", *_READS))
    body = "".join(f"({_statement(d, v, batched)}), " for _ in range(d.integer(1, 3))) + (after and f"{after}, ")
    start = "(x := s[0]), (y := s[1]), (r := s[2]), (done := s[3]), (n := len(x))"
    trip = f"lambda i, s: ({start}, {body}(x, y, r, done))[-1]"
    loop = f"lambda x, y, m: lax.fori_loop(0, {d.integer(1, 4)}, {trip}, (x, y, y[0], m > 1))"
    if batched:
        batch = "lambda f, a, b: jax.vmap(f)(jnp.stack([a, b]), jnp.stack([b, a]), jnp.arange(2))"
        text = f"({batch})({loop}, {v.name}, {other})"
    else:
        text = f"({loop})({v.name}, {other}, 0)"
    return Step(text, max(v.bound, w.bound), 0.0)


OPERATIONS = (state,)
