"""What is concatenated is computed in its place in the result: the steps that remain, and values in every mode."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jax_ipu
from jax_ipu.compiler import ir
from jax_ipu.compiler.passes import cse, dce
from jax_ipu.compiler.passes.arithmetic import simplify
from jax_ipu.compiler.passes.expansions import inline
from support.modes import array, check, each_mode
from support.stages import imported

X, Y = array(40, 3), array(40, 3, seed=1)
IMAGE = array(2, 9, 8, 3)
# More than 256 KiB.
LARGE = array(3000, 40)


def _lorenz(x):
    return jnp.stack([10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]])


def _steps(x):
    return lax.scan(lambda x, _: (x + 0.01 * _lorenz(x), x), x, None, length=5)


def _read_twice(x, y):
    negative = -x
    return jnp.concatenate([negative, y * 2]), negative


def _branches_between(x, y):
    return jnp.concatenate([x * 2, lax.cond(y[0, 0] > 0, lambda y: y + 1, lambda y: y - 1, y)])


def _nested(x, y):
    inner = jnp.concatenate([x + 1, y * y], 1)
    return jnp.concatenate([jnp.concatenate([inner, inner * 0.5], 0)[:-1], 3 - inner], 0)


def _same_value_twice(x, y):
    total = x + y
    return jnp.concatenate([total, total, x - y], 1)


def _both_results_of_one_op(x, y):
    return jnp.concatenate([jnp.sin(x) * y, jnp.sin(x) + y], -1)


def _rotated(x):
    one, other = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([one * 2 - other, other * 2 + one], -1)


def _in_a_state(x, y):
    return lax.fori_loop(0, 3, lambda _, s: jnp.concatenate([s[1:] * 0.5, y[:1] + s[:1]]), x)


PROGRAMS = {
    "stacked": (lambda x, y: jnp.stack([x * y, x - y, jnp.float32(2) + x], -1), X, Y),
    "cross product": (jnp.cross, X, Y),
    "parts of other types": (lambda x, y: jnp.concatenate([(x * y).astype(jnp.int32), jnp.int32(y)]), X, Y),
    "scalars": (_lorenz, array(3)),
    "steps": (_steps, array(3)),
    "steps of rows": (jax.vmap(_steps), X),
    "read twice": (_read_twice, X, Y),
    "branches between": (_branches_between, X, Y),
    "nested": (_nested, X, Y),
    "the same value twice": (_same_value_twice, X, Y),
    "both results of one op": (_both_results_of_one_op, X, Y),
    "in a state": (_in_a_state, X, Y),
    "no elements": (lambda x, y: jnp.concatenate([x[:0] * 2, x + y, y[:0]]), X, Y),
    "halves of large lines": (_rotated, LARGE),
    "most of what is large": (lambda x: jnp.gradient(x, axis=0), LARGE),
    "parts of large lines": (lambda x: jnp.stack([x + 1, x * 2, -x], -1), LARGE),
    "large rows": (lambda x: jnp.concatenate([x[:2] + 1, x * 2, x[3:] - 1]), LARGE),
    **{
        f"padded {mode}": (lambda x, mode=mode: jnp.pad(x, ((0, 0), (2, 1), (3, 2), (0, 0)), mode=mode), IMAGE)
        for mode in ("edge", "reflect", "symmetric", "wrap", "linear_ramp", "maximum")
    },
}


@each_mode
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name, mode):
    """As on the CPU."""
    function, *arguments = PROGRAMS[name]
    check(function, *arguments, mode=mode)


def _names_of_steps(function, *arguments) -> list[str]:
    return [step.kind for step in jax_ipu.debug.profile(function, *arguments)]


WITHOUT_COPIES = (
    *("stacked", "cross product", "scalars", "both results of one op"),
    *("halves of large lines", "parts of large lines"),
)


@pytest.mark.parametrize("name", WITHOUT_COPIES)
def test_no_copies(name):
    """Nothing is copied that was computed for the concatenation alone."""
    function, *arguments = PROGRAMS[name]
    assert "poplar::copy" not in _names_of_steps(function, *arguments)


def test_most_of_a_large_result_is_computed_in_its_place():
    """Of the differences along the first axis, the two at the ends are copied."""
    function, *arguments = PROGRAMS["most of what is large"]
    assert _names_of_steps(function, *arguments).count("poplar::copy") == 1


def _simplified(function, *arguments) -> list[ir.Op]:
    module = imported(str(jax.jit(function).lower(*arguments).compiler_ir()))
    for step in (inline, simplify, cse, dce):
        step.run(module)
    return [op for op in module.main.block.ops if op.name == "concatenate"]


def test_padding_is_one_concatenation_for_each_dimension():
    """jnp.pad adds the elements before and after one after the other; a slice of a part is one of the part."""
    (joined,) = _simplified(lambda x: jnp.pad(x, 4, mode="reflect"), array(50))
    assert [o.shape for o in joined.operands] == [(4,), (50,), (4,)]
    assert len(_simplified(lambda x: jnp.pad(x, 2, mode="symmetric"), array(20, 30))) == 2


def test_slice_across_parts_stays():
    """A slice that needs more than one of the parts reads the whole."""
    (joined,) = _simplified(lambda x, y: jnp.concatenate([x, y])[39:42], X, Y)
    assert len(joined.operands) == 2


def test_slice_with_steps():
    """Steps of a slice go on in the part."""
    assert not _simplified(lambda x, y: jnp.concatenate([x, y])[41:77:3], X, Y)
    check(lambda x, y: jnp.concatenate([x, y])[41:77:3], X, Y, mode=("fast", 8))
    assert np.array_equal(jax.jit(lambda x, y: jnp.concatenate([x, y])[39:41], backend="ipu")(X, Y), [X[39], Y[0]])
