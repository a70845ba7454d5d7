"""JAX_IPU_POPLIBS: operations of JAX programs from Graphcore's PopLibs.

What needs PopLibs runs where JAX_IPU_POPLIBS_TEST_FOLDER is a folder of tools/build_poplibs.
"""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jax_ipu
from jax_ipu import _ipu, compiler, poplibs
from jax_ipu.compiler.errors import CompileError
from jax_ipu.compiler.expression import ScalarProgram
from jax_ipu.compiler.lowering.sort_keys import single_key
from jax_ipu.compiler.options import compile_options, serialize_options
from support.modes import lower
from support.poplibs import FOLDER, needs_poplibs


def compiled(fun, *args, folder=FOLDER):
    args = jax.device_put(args, jax.devices("ipu")[0])
    return jax.jit(fun).lower(*args).compile(compiler_options={"ipu_poplibs": str(folder)})


# Folders that do not fit ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"jax_ipu": "0.0.1"}, f"it was built for jax_ipu 0.0.1, this is {jax_ipu.__version__}"),
        ({"python": ".cpython-39.so"}, "it was built for Python .cpython-39.so, this is "),
        ({"headers": "0"}, "it was built for the headers of Poplar 0, this is "),
        ({"chips": ["ipu9"]}, "it was built for the chips ipu9, this is ipu1, ipu2"),
        ({"module": "_poplibs.so"}, "_poplibs.so cannot be loaded: "),
    ],
)
def test_builds_for_something_else(tmp_path, changes, expected):
    (tmp_path / poplibs.STAMP).write_text(json.dumps({**poplibs.own_stamp(), **changes}))
    with pytest.raises(CompileError) as error:
        poplibs.load(str(tmp_path))
    text = str(error.value)
    assert f"PopLibs cannot be taken from {tmp_path}: {expected}" in text
    assert "Build it again: tools/build_poplibs SOURCE FOLDER" in text


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        (None, "it has no poplibs.json"),
        ("{", "poplibs.json cannot be read"),
        ("[]", "poplibs.json is no description of a build"),
    ],
)
def test_folders_that_are_no_builds(tmp_path, stamp, expected):
    if stamp is not None:
        (tmp_path / poplibs.STAMP).write_text(stamp)
    with pytest.raises(CompileError, match=expected):
        poplibs.load(str(tmp_path))


def test_an_error_of_the_folder_reaches_the_user():
    with pytest.raises(jax.errors.JaxRuntimeError, match="/no/such/folder: there is no such folder") as error:
        compiled(jnp.tanh, np.ones(4, np.float32), folder="/no/such/folder")
    assert "INVALID_ARGUMENT" in str(error.value)


def test_the_variable_becomes_an_option_that_a_program_may_change():
    options = jax_ipu.Config()
    assert options.compile_options(b"") == b""
    options.poplibs = "/one"
    assert compile_options(options.compile_options(b"")).poplibs == "/one"
    own = serialize_options({"ipu_poplibs": "/two"})
    assert compile_options(options.compile_options(own)).poplibs == "/two"


LESS = ("total_lt", "f32", "pred")
# (code, operand, the largest first), of a comparator of two pairs of f32; a constant is in register 4.
COMPARATORS = {
    "second operand": ([(*LESS, 2, 3, 0, 0)], (1, False)),
    "largest first": ([(*LESS, 1, 0, 0, 0)], (0, True)),
    "zeros are equal": (
        [
            *(("eq", "f32", "pred", 0, 4, 0, 0), ("select", "f32", "f32", 5, 4, 0, 0)),
            *(("eq", "f32", "pred", 1, 4, 0, 0), ("select", "f32", "f32", 7, 4, 1, 0)),
            (*LESS, 6, 8, 0, 0),
        ],
        (0, False),
    ),
    "different keys": ([("select", "f32", "f32", 0, 4, 0, 0), (*LESS, 5, 1, 0, 0)], None),
    "two operands": ([(*LESS, 0, 3, 0, 0)], None),
    "one element": ([(*LESS, 0, 0, 0, 0)], None),
    "NaN has no place": ([("lt", "f32", "pred", 0, 1, 0, 0)], None),
    "arithmetic": (
        [("negate", "f32", "f32", 0, 0, 0, 0), ("negate", "f32", "f32", 1, 0, 0, 0), (*LESS, 5, 6, 0, 0)],
        None,
    ),
}


@pytest.mark.parametrize("name", COMPARATORS)
def test_keys_of_comparators(name):
    code, expected = COMPARATORS[name]
    program = ScalarProgram(["f32"] * 4, [("f32", bytes(4))], code, [4 + len(code)])
    key = single_key(program)
    assert (key and (key.operand, key.largest)) == expected
    if name == "zeros are equal":
        assert key.program.code == [("eq", "f32", "pred", 0, 1, 0, 0), ("select", "f32", "f32", 2, 1, 0, 0)]


# With PopLibs ---------------------------------------------------------------------------------------------------------

rng = np.random.default_rng(0)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


NAN, INF = np.float32("nan"), np.float32("inf")
SPECIAL = np.array([0.0, -0.0, 1.5, -2.5, INF, -INF, NAN, 3e9, -3e9, 5e9], np.float32)
WHOLE = np.array([0, 1, -1, 7, -8, 2**31 - 1, -(2**31), 12345], np.int32)


def layer(x, w, b):
    return jnp.tanh(x @ w + b).sum()


# Ops that change no element: zeros keep their signs.
MOVES = {"gather", "dynamic_slice", "dynamic_update_slice", "sort", "ipu.sort_with_positions"}
# Program, arguments, and the ops that must come from PopLibs.
PROGRAMS = {
    "layer": (layer, (floats(32, 64), floats(64, 48), floats(48)), {"dot_general": 1, "ipu.map": 1, "reduce": 1}),
    "gradient": (jax.grad(layer, (0, 1, 2)), (floats(8, 16), floats(16, 12), floats(12)), {"dot_general": 3}),
    "batched": (jnp.matmul, (floats(3, 8, 16), floats(3, 16, 5)), {"dot_general": 1}),
    "half": (jnp.dot, (floats(16, 32).astype(np.float16), floats(32, 8).astype(np.float16)), {"dot_general": 1}),
    "reductions": (
        lambda x, n: (
            *(x.sum(0), x.sum() + 1, (x > 0).any(1), (x > 0).all(), n.sum(), n.prod(), x[:3].prod(1)),
            *(n.view(np.uint32).sum(), n.view(np.uint32)[1:4].prod()),
        ),
        (floats(6, 10), WHOLE),
        {"reduce": 9},
    ),
    "extremes of rows": (
        lambda x: [
            f(y, axis)
            for y in (x, x.astype(np.float16), x.view(np.int32), x.view(np.uint32))
            for f in (jnp.max, jnp.min)
            for axis in (0, 1, None)
        ],
        (np.array([[INF, 1, -2, INF], [-INF, -INF, -INF, -INF], [NAN, 1, -NAN, 2], [1e30, -1, -0.0, 5]], np.float32),),
        {"reduce": 24},
    ),
    "extremes": (
        lambda x, y: (jnp.maximum(x, 0), jnp.minimum(x, y), jnp.maximum(y, x), jnp.clip(x, -1, 1), jnp.sign(x)),
        (SPECIAL, SPECIAL[::-1].copy()),
        {"ipu.map": 1},
    ),
    "casts": (
        lambda x, n: (
            *(x.astype(t) for t in (np.int32, np.uint32, np.bool_, np.float16)),
            *(n.astype(t) for t in (np.float32, np.uint32, np.bool_, np.float16)),
            (n > 0).astype(np.float32),
        ),
        (SPECIAL, WHOLE),
        {},
    ),
    "unary": (
        lambda x: (jnp.exp(x), jnp.log1p(x * x), jnp.sin(x), jnp.cos(x), jax.nn.sigmoid(x), jnp.sqrt(jnp.abs(x))),
        (floats(40),),
        {"ipu.map": 1},
    ),
    "integers": (
        lambda n, m: (n + m, n * m, n - m, n & m, n | m, n ^ m, ~n, n << 3, n >> 2, abs(n), jnp.maximum(n, m), n < m),
        (WHOLE, WHOLE[::-1].copy()),
        {"ipu.map": 1},
    ),
    "predicates": (
        lambda p, q: (p < q, p <= q, p > q, p >= q, p == q, p != q, p & q, p | q, p ^ q, ~p),
        (np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)),
        {"ipu.map": 1},
    ),
    # By 0, of the least integer by -1, by more bits than there are.
    "division and shifts of integers": (
        lambda n, m: [
            f(a, b)
            for a, b in ((n, m), (n.view(np.uint32), m.view(np.uint32)))
            for f in (lax.div, lax.rem, lax.shift_left, lax.shift_right_logical, lax.shift_right_arithmetic)
        ],
        tuple(np.meshgrid(WHOLE, np.array([0, 1, -1, 2, -7, 31, 32, 33, 2**31 - 1, -(2**31)], np.int32))),
        {"ipu.map": 1},
    ),
    "division and shifts of integers by constants": (
        lambda n: [
            (lax.div(m, c), lax.rem(m, c), m << c, m >> c, lax.shift_right_logical(m, c))
            for m in (n, n.view(np.uint32))
            for c in (m.dtype.type(c % 2**32 if m.dtype == np.uint32 else c) for c in (0, 3, -1, -5, 31, 32, -(2**31)))
        ],
        (WHOLE,),
        {"ipu.map": 1},
    ),
    "constants": (
        lambda x, u: (jnp.where(x > 0, 1.0, 2.0), jnp.where(u > 3, 7, -1), -u, jnp.where(x > 0, True, x < -1)),
        (SPECIAL, WHOLE.view(np.uint32)),
        {"ipu.map": 1},
    ),
    "counting": (
        lambda x: (
            [x.astype(t) + lax.iota(t, 70) for t in (np.float32, np.float16, np.int32, np.uint32)]
            + [lax.broadcasted_iota(t, (3, 4, 5), d) for t in (np.float32, np.int32) for d in range(3)]
        ),
        (np.float32(3),),
        {"iota": 4},
    ),
    "selects": (lambda x, y: jnp.where(x > y, x * 2, y - 1), (floats(5, 7), floats(5, 7)), {"ipu.map": 1}),
    # A value that is read often: as a tree the expression would have 2**20 operations.
    "shared values": (lambda x: _squares(x, 20), (floats(9) * 0.1,), {"ipu.map": 1}),
}


def _conv(strides, padding, **how):
    dims = ("NHWC", "HWIO", "NHWC")
    return lambda x, w: lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=dims, **how)


def _gradients(fun):
    return lambda *args: jax.grad(lambda *args: (fun(*args) ** 2).sum(), tuple(range(len(args))))(*args)


def _systems(a, b):
    solve = lax.linalg.triangular_solve
    return (
        solve(a, b, left_side=True, lower=True),
        solve(a, b, left_side=True, lower=True, transpose_a=True),
        solve(a, b.T, lower=False, unit_diagonal=True),
    )


IMAGES, KERNEL = floats(2, 9, 8, 4), floats(3, 3, 4, 6)
MATRIX = floats(6, 6)
POSITIVE = MATRIX @ MATRIX.T + 6 * np.eye(6, dtype=np.float32)
# With NaN, infinities, both zeros and equal elements.
RANKED = np.array([[1, -2, NAN, INF, -INF, 0.0, -0.0, 1, 5, 1], [3, 3, 3, 1, 2, -1, -2, -3, NAN, 0]], np.float32)
PROGRAMS |= {
    "convolution": (_conv((2, 2), "SAME"), (IMAGES, KERNEL), {"convolution": 1}),
    "convolution that cuts its input": (_conv((2, 1), [(-1, 2), (1, -2)]), (IMAGES, KERNEL), {"convolution": 1}),
    "convolution of groups": (
        _conv((1, 1), "VALID", feature_group_count=2),
        (IMAGES, KERNEL[:, :, :2]),
        {"convolution": 1},
    ),
    "gradients of a convolution": (_gradients(_conv((2, 2), "SAME")), (IMAGES, KERNEL), {"convolution": 3}),
    "cholesky": (jnp.linalg.cholesky, (POSITIVE,), {"cholesky": 1}),
    "triangular systems": (_systems, (POSITIVE, floats(6, 3)), {"triangular_solve": 3}),
    "top-k": (
        lambda x, n: (*lax.top_k(x, 4), *lax.top_k(n, 3)),
        (RANKED, np.arange(60, dtype=np.int32).reshape(3, 20) * 7 % 11),
        {"chlo.top_k": 2},
    ),
    "sorts": (
        lambda n: (jnp.sort(n), jnp.sort(n, 0, descending=True), jnp.sort(n.astype(np.uint32))),
        (np.array([[5, -3, 2**31 - 1], [0, -(2**31), 5]], np.int32),),
        {"sort": 3},
    ),
    # Stable, with NaN last and -0 equal to 0.
    "sorts of keys with values": (
        lambda x, n, v: (
            jnp.sort(x),
            jnp.sort(x.astype(np.float16), descending=True),
            jnp.argsort(x, axis=0),
            jnp.argsort(n, descending=True),
            *lax.sort((x, v, x > 0), dimension=1),
            *lax.sort((n % 3, v.astype(np.float16), n), dimension=0),
            jnp.sort(x[0]),
        ),
        (RANKED, np.arange(20, dtype=np.int32).reshape(2, 10) * 7 % 11, floats(2, 10)),
        {"sort": 5, "ipu.sort_with_positions": 2},
    ),
    "sums of windows": (
        lambda x: (
            lax.reduce_window(x, np.float32(0), lax.add, (1, 3, 2, 1), (1, 2, 1, 1), "SAME"),
            lax.reduce_window(x[0, :, :, 0], np.float32(0), lax.add, (2, 3), (2, 3), "VALID"),
        ),
        (IMAGES,),
        {"reduce_window": 2},
    ),
    "sums of windows with NaN and infinities": (
        lambda x: [
            lax.reduce_window(y, y.dtype.type(0), lax.add, (3, 2), strides, padding)
            for y in (x, x.astype(np.float16))
            for strides, padding in (((1, 1), "SAME"), ((2, 3), [(-1, 4), (2, -1)]))
        ],
        (np.array([[1, NAN, 2, -0.0, -0.0], [INF, 3, 4, -0.0, -0.0], [-INF, 5, 6, 7, 8]] * 2, np.float32),),
        {"reduce_window": 4},
    ),
    "gradient of an average": (
        jax.grad(
            lambda x: (lax.reduce_window(x, np.float32(0), lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "SAME") ** 2).sum()
        ),
        (IMAGES,),
        {"reduce_window": 1},
    ),
    # Positions outside are clamped, negative ones count from the end.
    "lookups": (
        lambda table, rows: (table[rows], table[:, rows[0]], table.at[rows].get(mode="clip"), table[rows, rows]),
        (floats(12, 8), np.array([[0, 11, -1], [5, -12, 40]], np.int32)),
        {"gather": 3},
    ),
    "lookups of each type": (
        lambda x, rows: [
            table.at[places].get(mode="clip")
            for table in (x, x.astype(np.float16), x > 0, x.view(np.int32), x.view(np.uint32))
            for places in (rows, rows.view(np.uint32))
        ],
        (SPECIAL.reshape(5, 2), np.array([0, 4, 5, -1, -(2**31), 2**31 - 1, 3], np.int32)),
        {"gather": 8},
    ),
    "a gradient of lookups": (
        lambda table, rows: jax.grad(lambda table: (table[rows] ** 2).sum())(table),
        (floats(12, 8), np.array([[0, 11, -1], [5, -12, 0]], np.int32)),
        {"gather": 1},
    ),
    # Positions outside are left out, negative ones count from the end; rows are updated twice.
    "updates of rows": (
        lambda x, rows, updates: [
            combined
            for y, u in ((x, updates), *((t.view(n), updates.view(n)) for n in (np.int32, np.uint32) for t in (x,)))
            for at in (y.at[rows],)
            for combined in (at.add(u), at.mul(u), at.max(u), at.min(u), y.at[rows[:3]].set(u[:3]))
        ],
        (floats(9, 4), np.array([3, -9, 8, 3, 9, -10, 40, 3, 0], np.int32), floats(9, 4)),
        {"scatter": 15},
    ),
    "updates of elements in two dimensions, of columns and parts of rows": (
        lambda x, rows, columns, updates: (
            x.at[rows, columns].add(updates[:, 0]),
            x.at[:, columns].add(updates.T[:5, :7]),
            x.at[:, rows[:4]].max(updates[:5, :1] * 2),
            x.astype(np.float16).at[rows, columns].add(updates[:, 1].astype(np.float16)),
            (x > 0).at[rows, columns[:1]].set(True),
            x.at[rows.view(np.uint32), columns.view(np.uint32)].multiply(updates[:, 2]),
            lax.scatter_add(
                x,
                rows[:, None],
                updates[:, :3],
                lax.ScatterDimensionNumbers((1,), (0,), (0,)),
                mode=lax.GatherScatterMode.FILL_OR_DROP,
            ),
        ),
        (
            floats(5, 6),
            np.array([0, 4, -1, 0, 5, -6, 2**31 - 1], np.int32),
            np.array([5, 0, -6, 5, 1, 1, -7], np.int32),
            floats(7, 8),
        ),
        {"scatter": 7},
    ),
    # The second index of `three` is along a batching dimension of both; positions outside give NaN and are left out.
    "lookups and updates along an axis": (
        lambda x, three, columns, updates: (
            jnp.take_along_axis(x, columns, 1),
            jnp.take_along_axis(three, columns[:, None, :3], 2),
            jax.vmap(lambda row, at: row[at])(x, columns.view(np.uint32)[:, 0]),
            jax.vmap(lambda row, at, u: row.at[at].add(u))(x, columns, updates),
            jax.vmap(lambda rows, at: rows.at[at].max(0.5), (1, None), 2)(three, columns[0]),
            jax.grad(lambda x: (jnp.take_along_axis(x, columns, 1) ** 2).sum())(x),
        ),
        (floats(5, 6), floats(5, 2, 6), np.array([[5, 0, -1, 5]] * 4 + [[-7, 6, 2, 2]], np.int32), floats(5, 4)),
        {"gather": 3, "scatter": 3},
    ),
    "extremes of rows with NaN and infinities": (
        lambda x, rows, updates: [
            f
            for t in (np.float32, np.float16)
            for at in (x.astype(t).at[rows],)
            for f in (at.max(updates.astype(t)), at.min(updates.astype(t)))
        ],
        (SPECIAL[:8].reshape(4, 2), np.array([0, 3, 3, 1, 2], np.int32), np.resize(SPECIAL[3:], (5, 2))),
        {"scatter": 4},
    ),
    "slices at positions of run time": (
        lambda x, i: (
            lax.dynamic_slice(x, (i, 0), (3, 7)),
            lax.dynamic_slice(x, (i, i), (2, 4)),
            lax.dynamic_update_slice(x, x[:2, :3] * 2, (i, i + 1)),
        ),
        (floats(9, 7), np.int32(8)),
        {"dynamic_slice": 2, "dynamic_update_slice": 1},
    ),
    "slices of each type, at positions outside": (
        lambda x, places: [
            moved
            for table in (x, x.astype(np.float16), x > 0, x.view(np.int32), x.view(np.uint32))
            for i in (places[0], places[1], places[2].view(np.uint32))
            for moved in (lax.dynamic_slice(table, (i, i), (2, 1)), lax.dynamic_update_slice(table, table[1:3], (i, i)))
        ],
        (SPECIAL.reshape(5, 2), np.array([-(2**31), 2, -1], np.int32)),
        {"dynamic_slice": 10, "dynamic_update_slice": 10},
    ),
    "nothing": (
        lambda x, i: (x[i], lax.dynamic_slice(x, (i[0], 0), (2, 0)), jnp.sort(x, 0), x.sum(1) + i[0]),
        (np.ones((3, 0), np.int32), np.array([1, 2], np.int32)),
        {},
    ),
}


def _squares(x, times):
    for _ in range(times):
        x = x * x + x
    return x


@needs_poplibs
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_the_cpu(name):
    fun, args, taken = PROGRAMS[name]
    with jax.default_device(jax.devices("cpu")[0]):
        expected = jax.jit(fun)(*args)
    found = compiled(fun, *args)(*args)
    for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert mine.dtype == theirs.dtype
        tolerance = 2e-2 if mine.dtype == np.float16 else 2e-5
        np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), rtol=tolerance, atol=tolerance)
        if taken.keys() <= MOVES:
            np.testing.assert_array_equal(np.signbit(mine), np.signbit(theirs))
    libraries = jax_ipu.report(fun, *args, compiler_options={"ipu_poplibs": FOLDER}).as_dict()["libraries"]
    counts = {}
    for row in libraries:
        assert row["library"] == "PopLibs" or row["reason"], row
        assert not str(row["reason"]).startswith("PopLibs: "), row  # an error of its
        if row["library"] == "PopLibs":
            counts[row["op"]] = counts.get(row["op"], 0) + row["count"]
    for op, count in taken.items():
        assert counts.get(op, 0) >= count, libraries


@needs_poplibs
def test_a_gradient_of_weights_that_does_not_fit_at_once():
    """PopLibs' plan for all three products of this layer would read slices before they are made: the gradient was 0."""
    w, x, h = floats(784, 128), floats(32, 784), floats(32, 128)
    program, _ = lower(lambda w, x, h: (w - x.T @ h, x @ w), w, x, h)
    options = serialize_options({"ipu_poplibs": FOLDER, "ipu_available_memory_proportion": 0.05})
    executable = compiler.compile(program, "mlir", options, "ipu2:16")
    made = _ipu.run(executable, [a.tobytes() for a in (w, x, h)], "fast")
    for result, expected in zip(made, (w - x.T @ h, x @ w), strict=True):
        np.testing.assert_allclose(np.frombuffer(result, np.float32), expected.ravel(), rtol=1e-3, atol=1e-3)


@needs_poplibs
def test_what_poplibs_lacks_comes_from_the_own_library_with_a_reason():
    def program(n, x):
        return jnp.sort(x > 0), (x > 0).at[n].max(True), lax.reduce_window(x, -INF, lax.max, (2,), (1,), "VALID")

    report = jax_ipu.report(program, WHOLE, SPECIAL, compiler_options={"ipu_poplibs": FOLDER})
    reasons = {row["op"]: row["reason"] for row in report.as_dict()["libraries"] if row["library"] == "hlo"}
    assert "popops sorts no pred" in reasons["sort"]
    assert "popnn's maximum of floats has no NaN" in reasons["reduce_window"]
    assert "updates no pred by maximum" in reasons["scatter"]


@needs_poplibs
def test_steps_of_poplibs_have_their_line_and_codelet():
    args = PROGRAMS["layer"][1]
    report = jax_ipu.report(layer, *args, compiler_options={"ipu_poplibs": FOLDER}).as_dict()
    codelets = [codelet for row in report["operations"] for codelet in row["codelets"]]
    for name in ("poplin::ConvPartial1x1Out<float,float", "popops::"):
        assert any(codelet.startswith(name) for codelet in codelets), codelets
    for row in report["operations"]:
        if row["kind"] == "poplar::execute":
            assert row["line"] is not None and row["scope"].startswith("jit("), row


@needs_poplibs
def test_a_broadcast_leaves_the_rest_of_its_group_to_one_codelet():
    args = floats(32, 64), floats(64)
    found = jax_ipu.report(lambda x, b: jnp.maximum(x + b, 0) * 2, *args, compiler_options={"ipu_poplibs": FOLDER})
    codelets = [codelet for row in found.as_dict()["operations"] for codelet in row["codelets"]]
    assert any(codelet.startswith("popops::map::") for codelet in codelets), codelets


def test_without_poplibs_reports_say_nothing_of_libraries():
    assert jax_ipu.report(jnp.tanh, np.ones(4, np.float32)).as_dict()["libraries"] is None
