"""Quotients and remainders of integers by constants: which divisions remain, and values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jax_ipu.compiler.passes.arithmetic import intervals, simplify
from jax_ipu.compiler.passes.expansions import canonicalize, inline
from support.modes import check, each_mode
from support.stages import imported, optimized_ops

WORDS = np.array([0, 1, 7, 9, 10, 11, 12345, -1, -9, -10, -11, -12345, 2**31 - 1, -(2**31)], np.int32)
BYTES, SHORTS = np.arange(-128, 128).astype(np.int8), np.arange(-(2**15), 2**15, 7).astype(np.int16)


# Each with how many divisions and remainders remain.
PROGRAMS = {
    "rounded down": (lambda x: x // 10, (WORDS,), 1),
    "modulo": (lambda x: x % 10, (WORDS,), 1),
    "both": (lambda x: jnp.divmod(x, 7), (WORDS,), 1),
    "rounded to zero": (lambda x: lax.div(x, 10), (WORDS,), 1),
    "remainder": (lambda x: lax.rem(x, 10), (WORDS,), 1),
    "remainder and quotient": (lambda x: (lax.rem(x, 10), lax.div(x, 10)), (WORDS,), 1),
    "by a power": (lambda x: x // 8, (WORDS,), 0),
    "modulo a power": (lambda x: x % 8, (WORDS,), 0),
    "to zero by a power": (lambda x: lax.div(x, 8), (WORDS,), 1),
    "remainder of a power": (lambda x: lax.rem(x, 8), (WORDS,), 1),
    "by a negative number": (lambda x: (x // -10, x % -10, lax.div(x, -10), lax.rem(x, -10)), (WORDS,), 1),
    "by the smallest number": (lambda x: (lax.div(x, -(2**31)), lax.rem(x, -(2**31))), (WORDS,), 1),
    "by one, minus one and zero": (
        lambda x: [op(x, d) for op in (lax.div, lax.rem) for d in (1, -1, 0)],
        (WORDS,),
        4,
    ),
    "without a sign": (lambda x: (x // 10, x % 10), (WORDS.astype(np.uint32),), 1),
    "without a sign by a power": (lambda x: (x // 16, x % 16), (WORDS.astype(np.uint32),), 0),
    "bytes": (lambda x: (x // 10, x % 10, x // 7, lax.rem(x, np.int8(-3))), (BYTES,), 3),
    "bytes without a sign": (lambda x: (x // 10, x % 7, x % 128), (BYTES.astype(np.uint8),), 2),
    "shorts": (lambda x: (x // 100, x % 7, x // 128, lax.div(x, np.int16(-128))), (SHORTS,), 3),
    "shorts without a sign": (lambda x: (x // 100, x % 7), (SHORTS.astype(np.uint16),), 2),
    "four bits": (lambda x: lax.rem(x, jnp.int4(3)), (BYTES[120:136].astype(jnp.int4),), 1),
    "by a vector": (lambda x: x // jnp.arange(1, 1 + x.size), (WORDS,), 2),
    "places": (lambda x: x + jnp.arange(x.size) % 1000 + jnp.arange(x.size) // 1000, (WORDS,), 0),
    "rows and columns": (lambda x: (jnp.arange(14) % 5 + x, jnp.arange(14) // 5), (WORDS,), 1),
    "pages": (lambda x: jnp.where(x > 0, x, 1 - x) % 8, (WORDS,), 0),
    "of several bytes": (
        lambda x: lax.bitcast_convert_type((x.astype("uint8") & 7)[:12].reshape(3, 4), "int32") % 1000,
        (WORDS,),
        1,
    ),
    "in a loop": (lambda x: lax.fori_loop(0, 3, lambda i, s: s // 3 + i, x), (WORDS,), 1),
    "random integers": (lambda k: jax.random.randint(k, (50,), -3, 97), (jax.random.key_data(jax.random.key(0)),), 3),
    "another correction": (lambda x: jnp.where((lax.rem(x, 10) != 0) & (x < 9), lax.div(x, 10) - 1, 0), (WORDS,), 1),
    "a correction up": (
        lambda x: jnp.where((lax.rem(x, 10) != 0) & (jnp.sign(x) != -1), lax.div(x, 10) + 1, lax.div(x, 10)),
        (WORDS,),
        1,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@each_mode
def test_values(name, mode):
    function, arguments, _ = PROGRAMS[name]
    check(function, *arguments, mode=mode)


@pytest.mark.parametrize("name", PROGRAMS)
def test_divisions_that_remain(name):
    function, arguments, count = PROGRAMS[name]
    ops = optimized_ops(function, *arguments)
    found = 0
    for op in ops:
        if op.name == "ipu.map":
            found += sum(name in ("divide", "remainder") for name in op.attrs["names"])
    assert found == count


NUMBERS = np.arange(100, dtype=np.int32)
# Where the numbers of s32 values of an argument x and i, an iota, lie; None: anywhere.
INTERVALS = {
    "iota": (lambda x, i: i, (0, 99)),
    "shifted": (lambda x, i: i - 50, (-50, 49)),
    "product": (lambda x, i: i * -3, (-297, 0)),
    "masked": (lambda x, i: x & 7, (0, 7)),
    "masked by a negative number": (lambda x, i: x & -8, None),
    "masked by what is not negative": (lambda x, i: x & i, (0, 99)),
    "clamped": (lambda x, i: lax.clamp(2, x, 9), (2, 9)),
    "clamped from below": (lambda x, i: jnp.maximum(x, -3), (-3, 2**31 - 1)),
    "constants": (lambda x, i: jnp.array([4, -1, 9]), (-1, 9)),
    "moved": (lambda x, i: lax.rev(lax.broadcast(i[5:7], (3,)), (0,)).T, (0, 99)),
    "wraps": (lambda x, i: i + (2**31 - 50), None),
    "converted": (lambda x, i: x.astype("uint8").astype("int32"), (0, 255)),
    "converted from floats": (lambda x, i: x.astype("float32").astype("int32"), None),
    "chosen": (lambda x, i: jnp.where(x > 3, i, 500), (0, 500)),
    "quotient": (lambda x, i: lax.div(i, 10), (0, 9)),
    "remainder": (lambda x, i: lax.rem(i, 10), (0, 9)),
    "remainder of few": (lambda x, i: lax.rem(i, 1000), (0, 99)),
    "remainder of any number": (lambda x, i: lax.rem(x, 10), None),
    "halves": (lambda x, i: i >> 1, (0, 49)),
    "the same bits": (lambda x, i: lax.bitcast_convert_type(i.astype("uint32"), "int32"), (0, 99)),
    "bits of a negative number": (lambda x, i: lax.bitcast_convert_type(i - 1, "uint32").astype("int32"), None),
    "bits of several numbers": (
        lambda x, i: lax.bitcast_convert_type(i.astype("uint8").reshape(25, 4), "int32"),
        None,
    ),
    "of predicates": (lambda x, i: (x > 3).astype("int32") * 2, (0, 2)),
    "negative": (lambda x, i: -1 - i, (-100, -1)),
    "unknown": (lambda x, i: x, None),
}


@pytest.mark.parametrize("name", INTERVALS)
def test_intervals(name):
    function, expected = INTERVALS[name]
    program = str(jax.jit(lambda x: function(x, lax.iota("int32", 100))).lower(NUMBERS).compiler_ir())
    module = imported(program)
    for change in (inline, canonicalize, simplify):
        change.run(module)
    found = intervals.interval_of(module.main.block.ops[-1].operands[0])
    assert tuple(found) == (expected or (-(2**31), 2**31 - 1))
