"""jax_ipu.estimate and jax_ipu.largest_batch, against counters of real runs and against what jit compiles."""

import dataclasses
import doctest
import functools
import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jax_ipu
from jax_ipu import compiler, estimates
from jax_ipu.chips import chip_names
from jax_ipu.compiler import accuracy
from support.processes import output
from support.training_step import abstract_mesh, floats, mlp_step, shape, sharded

ipu = jax.devices("ipu")[0]


def cubed(x):
    return (x @ x.T) @ x


def attention(q, k, v):
    return jax.nn.softmax(q @ k.swapaxes(-1, -2)) @ v


def convolution(x, w):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


# Function, arguments, donated arguments. Trip counts are known.
PROGRAMS = {
    "elementwise": (lambda x: jnp.sin(x) * 2, (floats(300),), ()),
    "product": (jnp.dot, (floats(64, 128), floats(128, 32)), ()),
    "training step": (mlp_step, ([floats(32, 32), floats(32, 32)], floats(16, 32)), (0,)),
    "attention": (attention, (floats(2, 16, 8), floats(2, 16, 8), floats(2, 16, 8)), ()),
    "convolution": (convolution, (floats(2, 8, 8, 4), floats(3, 3, 4, 8)), ()),
    "sort": (jnp.sort, (floats(200),), ()),
    "gather": (lambda x, i: x[i], (floats(50, 4), np.arange(10)), ()),
    "loop": (lambda x: jax.lax.fori_loop(0, 7, lambda i, y: jnp.cos(y), x), (floats(20),), ()),
    "scan": (lambda x: jax.lax.scan(lambda c, y: (c + y, c * y), x[0], x), (floats(9, 20),), ()),
    "conditional": (lambda c, x: jax.lax.cond(c, jnp.sin, lambda y: y @ y @ y, x), (True, floats(16, 16)), ()),
    "random": (lambda key: jax.random.normal(key, (100,)), (np.zeros(2, np.uint32),), ()),
    "state": (lambda s, t, x: (t + x, s + x.sum()), (floats(40), floats(40), floats(40)), (0, 1)),
    "forwarded": (lambda x, y: (x, y + 1), (floats(30), floats(30)), ()),
    "unused": (lambda x, y: x * 2, (floats(30), floats(500)), ()),
    "nothing": (lambda x: x, (floats(30),), ()),
    "callback": (lambda x: jax.pure_callback(np.sin, x, x + 1), (floats(30),), ()),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_estimates_are_what_counters_count(name):
    function, args, donated = PROGRAMS[name]
    estimate = jax_ipu.estimate(function, *args, donate_argnums=donated)
    assert estimate.fits and estimate.reason is None and estimate.unknown_trip_counts == 0
    f = jax.jit(function, donate_argnums=donated, backend="ipu")
    # The first call sends the state; results replace it for the second.
    results = jax.block_until_ready(f(*args))
    state = dict(zip(donated, results if isinstance(results, tuple) else [results], strict=False))
    before = jax_ipu.counters(ipu)
    jax.block_until_ready(f(*[state.get(i, arg) for i, arg in enumerate(args)]))
    after = jax_ipu.counters(ipu)
    assert estimate.cycles == after.cycles - before.cycles
    assert estimate.compute_cycles + estimate.exchange_cycles + estimate.sync_cycles == estimate.cycles
    assert estimate.host_bytes_in == after.h2d_bytes - before.h2d_bytes
    assert estimate.host_bytes_out == after.d2h_bytes - before.d2h_bytes
    cost = f.lower(*args).compile().cost_analysis()
    assert estimate.cycles == cost["cycles"] and estimate.flops == cost["flops"]
    assert estimate.fullest_tile_bytes == cost["fullest tile bytes"] <= estimate.tile_memory_bytes == ipu.bytes_per_tile
    assert estimate.total_bytes == cost["sram bytes"]


def test_the_first_call_sends_the_state_and_kept_arguments_are_sent_once():
    function, (state, x) = (lambda s, x: s + x.sum()), (floats(1000), floats(500))
    estimate = jax_ipu.estimate(function, state, x, donate_argnums=0)
    assert (estimate.state_bytes, estimate.kept_bytes, estimate.host_bytes_in) == (4000, 2000, 2000)
    assert estimate.host_bytes_out == 0 < estimate.host_seconds
    f = jax.jit(function, donate_argnums=0)
    state, x = jax.device_put((state, x), ipu)
    sent = []
    for _ in range(2):
        before = jax_ipu.counters(ipu).h2d_bytes
        state = f(state, x).block_until_ready()
        sent.append(jax_ipu.counters(ipu).h2d_bytes - before)
    assert sent == [estimate.state_bytes + estimate.host_bytes_in, estimate.host_bytes_in - estimate.kept_bytes]


@pytest.mark.parametrize("chip", chip_names())
def test_every_chip_in_one_process(chip):
    tiles = 100
    described = topologies.get_topology_desc(f"{chip}:{tiles}", platform="ipu", num_devices=1)
    sharding = NamedSharding(topologies.make_mesh(described, (1,), ("x",)), P())
    x = shape(64, 64, dtype=jnp.float16, sharding=sharding)
    cost = jax.jit(attention).lower(x, x, x).compile().cost_analysis()
    estimate = jax_ipu.estimate(attention, *[shape(64, 64, dtype=jnp.float16)] * 3, target=f"{chip}:{tiles}")
    assert (estimate.target, estimate.fits) == (f"{chip}:{tiles}", True)
    assert estimate.cycles == cost["cycles"] and estimate.fullest_tile_bytes == cost["fullest tile bytes"]
    clock = {"ipu1": 1.6e9, "ipu2": 1.325e9, "ipu21": 1.5e9, "bow": 1.85e9}[chip]
    assert estimate.seconds == pytest.approx(estimate.cycles / clock)
    macs = 32 if chip == "ipu1" else 64
    assert estimate.utilisation == pytest.approx(estimate.flops / (estimate.cycles * tiles * 2 * macs))


def test_a_chip_without_a_number_has_all_its_tiles_and_the_default_is_the_configured_one():
    assert jax_ipu.estimate(jnp.sin, shape(8), target="ipu1").target == "ipu1:1216"
    assert jax_ipu.estimate(jnp.sin, shape(8)).target == f"ipu2:{ipu.num_tiles}"
    assert jax_ipu.estimate(jnp.sin, shape(8), target="ipu2:1").target == "ipu2:1"


def test_operations_explain_the_cycles():
    def function(w, x):
        return jax.nn.softmax(x @ w)

    estimate = jax_ipu.estimate(function, floats(256, 256), floats(64, 256))
    assert [o.cycles for o in estimate.operations] == sorted((o.cycles for o in estimate.operations), reverse=True)
    for phase in ("cycles", "compute_cycles", "exchange_cycles", "sync_cycles"):
        assert sum(getattr(o, phase) for o in estimate.operations) == getattr(estimate, phase)
    (product,) = [o for o in estimate.operations if o.kind == "poplin::matMulGrouped"]
    assert "test_estimates.py" in product.source_line and "function" in product.source_line
    assert product.executions == 1 and product.exchange_bytes > 0
    assert any(codelet.startswith("poplin::ConvPartial") for codelet in product.codelets)
    for o in estimate.operations:
        assert o.codelets == tuple(sorted(set(o.codelets))) and 0 < o.tiles
        # At least the control code of each superstep on every tile.
        assert o.code_bytes >= 24 * ipu.num_tiles
    # Codelets that operations share are once in the memory of a tile, and the runtime's code is on each tile.
    assert estimate.report.code_bytes <= sum(o.code_bytes for o in estimate.operations) + 8192 * ipu.num_tiles


def test_executions_are_counted():
    estimate = jax_ipu.estimate(PROGRAMS["loop"][0], floats(20))
    assert 7 in [o.executions for o in estimate.operations]


def test_loops_with_unknown_trip_counts_are_said():
    def function(n, x):
        return jax.lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, s[1] * 2), (n, x))[1]

    estimate = jax_ipu.estimate(function, np.int32(3), floats(4))
    assert estimate.unknown_trip_counts == 1 and "counted as one trip: 1" in repr(estimate)


@pytest.mark.parametrize(
    ("function", "size", "planned"),
    [
        # Planned, and too large with temporaries and buffers; variables alone too large; one operation too large.
        (cubed, (324, 324), True),
        (lambda x: jnp.sort(x * 2, 0) + x[::-1], (600, 600), None),
        (lambda x: jnp.outer(x, x) @ jnp.outer(x, x), (32768,), False),
    ],
    ids=["planned", "variables", "one operation"],
)
def test_what_does_not_fit_is_no_exception(function, size, planned):
    estimate = jax_ipu.estimate(function, shape(*size), target="ipu2:2")
    assert not estimate.fits
    assert "out of IPU memory" in estimate.reason and "What helps" in estimate.reason
    assert "test_estimates.py" in estimate.reason
    assert estimate.fullest_tile_bytes > estimate.tile_memory_bytes == 624 * 1024
    assert estimate.total_bytes >= estimate.fullest_tile_bytes
    if planned is not None:
        assert (estimate.cycles is not None) == planned
    if not planned:
        assert estimate.kept_bytes is None
    assert estimate.reason.splitlines()[0] in repr(estimate) and "no" in repr(estimate)
    assert json.loads(json.dumps(estimate.as_dict()))["fits"] is False
    assert "<pre>" in estimate._repr_html_()


def test_the_reason_is_what_jit_says():
    def function(x):
        return (jnp.outer(x, x) @ jnp.outer(x, x)).sum()

    estimate = jax_ipu.estimate(function, floats(32768))
    with pytest.raises(jax.errors.JaxRuntimeError) as error:
        jax.jit(function, backend="ipu")(floats(32768))
    assert estimate.reason in str(error.value)


def test_retries_for_memory_are_those_of_jit():
    """A program that only fits with less memory for its products."""

    def estimate(**options):
        return jax_ipu.estimate(cubed, shape(308, 308), target="ipu2:2", compiler_options=options)

    assert not estimate(ipu_available_memory_proportion=0.61).fits  # a choice of the user is kept
    frugal = estimate(ipu_available_memory_proportion=0.1)
    by_itself = estimate()
    assert by_itself.savings.startswith("less memory for products")
    assert frugal.fits and dataclasses.replace(by_itself, savings=frugal.savings) == frugal


def test_options_of_the_call_and_of_the_jitted_function():
    option = {"ipu_mapping": "linear"}
    x = shape(64, 64)
    default = jax_ipu.estimate(jnp.dot, x, x)
    linear = jax_ipu.estimate(jnp.dot, x, x, compiler_options=option)
    assert linear.cycles != default.cycles
    assert jax_ipu.estimate(jax.jit(jnp.dot, compiler_options=option), x, x).cycles == linear.cycles
    with pytest.raises(compiler.CompileError, match="ipu_nothing"):
        jax_ipu.estimate(jnp.dot, x, x, compiler_options={"ipu_nothing": 1})


def test_everything_that_jit_accepts():
    x = floats(30)
    expected = jax_ipu.estimate(lambda x: jnp.sin(x) * 3, x).cycles
    scaled = jax.jit(lambda x, n, *, f: f(x) * n, static_argnums=1, static_argnames="f")
    assert jax_ipu.estimate(scaled, x, 3, f=jnp.sin).cycles == expected
    assert jax_ipu.estimate(functools.partial(lambda n, x: jnp.sin(x) * n, 3), x).cycles == expected
    assert jax_ipu.estimate(lambda tree: jnp.sin(tree["x"][0]) * 3, {"x": [jnp.asarray(x)]}).cycles == expected
    assert jax_ipu.estimate(lambda x, *, n: jnp.sin(x) * 3, x, n=2).cycles == expected
    assert jax_ipu.estimate(jax.vmap(lambda x: jnp.sin(x) * 3), jax.device_put(x, ipu)).cycles == expected
    assert jax_ipu.estimate(jax.jit(lambda x: jnp.sin(x) * 3, backend="ipu"), x).cycles == expected
    with pytest.raises(TypeError):
        jax_ipu.estimate(jnp.sin, "text")


def test_a_jitted_function_keeps_its_donation():
    function, args, _ = PROGRAMS["training step"]
    donated = jax_ipu.estimate(function, *args, donate_argnums=0)
    assert jax_ipu.estimate(functools.partial(jax.jit(function, donate_argnums=0), args[0]), args[1]) == donated


def test_shapes_and_arrays_have_one_estimate():
    function, args, donated = PROGRAMS["training step"]
    shapes = jax.tree.map(lambda a: shape(*a.shape), args)
    assert jax_ipu.estimate(function, *args, donate_argnums=donated) == jax_ipu.estimate(
        function, *shapes, donate_argnums=donated
    )


def test_donation():
    function, args, donated = PROGRAMS["training step"]
    kept, moved = jax_ipu.estimate(function, *args, donate_argnums=donated), jax_ipu.estimate(function, *args)
    assert kept.host_bytes_out == 4 and moved.host_bytes_out == 4 + 2 * 32 * 32 * 4
    assert kept.state_bytes == 2 * 32 * 32 * 4 and moved.state_bytes == 0
    assert jax_ipu.estimate(jax.jit(function, donate_argnums=0), *args) == kept


def test_host_memory():
    """An argument in host memory is streamed by every call."""
    host = jax.sharding.SingleDeviceSharding(ipu, memory_kind="pinned_host")
    x, y = shape(1000, sharding=host), shape(1000)

    def add(x, y):
        return jax.device_put(x, jax.memory.Space.Device) + y

    estimate = jax_ipu.estimate(add, x, y)
    assert (estimate.host_bytes_in, estimate.kept_bytes) == (8000, 4000)
    f = jax.jit(add)
    x, y = jax.device_put(floats(1000), host), jax.device_put(floats(1000), ipu)
    f(x, y).block_until_ready()
    before = jax_ipu.counters(ipu)
    f(x, y).block_until_ready()
    after = jax_ipu.counters(ipu)
    assert after.h2d_bytes - before.h2d_bytes == 4000 and after.cycles - before.cycles == estimate.cycles
    found = jax_ipu.largest_batch(add, x, y, limit=2000)
    assert (found.batch, found.estimate.host_bytes_in, found.estimate.kept_bytes) == (2000, 16000, 8000)


def test_shardings_as_jit_runs_them():
    mesh = Mesh(np.array(jax.devices("ipu")[:4]), ("ipus",))
    expected = jax_ipu.estimate(mlp_step, *sharded(mesh), donate_argnums=0)
    assert expected.num_ipus == 4 and expected.link_bytes > 0 and "4 IPUs" in repr(expected)
    parameters, x = jax.tree.map(lambda s: jax.device_put(floats(*s.shape), s.sharding), sharded(mesh))
    f = jax.jit(mlp_step, donate_argnums=0)
    parameters, _ = jax.block_until_ready(f(parameters, x))
    before = [jax_ipu.counters(device) for device in mesh.devices]
    jax.block_until_ready(f(parameters, x))
    for device, old in zip(mesh.devices, before, strict=True):
        new = jax_ipu.counters(device)
        assert new.cycles - old.cycles == expected.cycles and new.link_bytes - old.link_bytes == expected.link_bytes
        # x is the same array as before.
        assert new.h2d_bytes - old.h2d_bytes == expected.host_bytes_in - expected.kept_bytes
    # Without devices, and for any chip.
    abstract = sharded(abstract_mesh(4))
    assert jax_ipu.estimate(mlp_step, *abstract, donate_argnums=0, num_ipus=4) == expected
    bow = jax_ipu.estimate(mlp_step, *abstract, donate_argnums=0, target="bow")
    assert (bow.num_ipus, bow.target) == (4, "bow:1472")


def test_shardings_of_a_jitted_function_and_shard_map():
    mesh = abstract_mesh(16)  # more than this process has
    rows = NamedSharding(mesh, P("ipus"))
    f = jax.jit(lambda x: x - x.sum(0), in_shardings=rows, out_shardings=rows)
    assert jax_ipu.estimate(f, shape(64, 8), num_ipus=16).link_bytes > 0
    g = jax.shard_map(lambda x: jax.lax.psum(x, "ipus"), mesh=mesh, in_specs=P("ipus"), out_specs=P())
    over_abstract = jax_ipu.estimate(g, shape(64, 8))
    assert over_abstract.num_ipus == 16 and over_abstract.link_bytes > 0
    by_arguments = jax_ipu.estimate(g, shape(64, 8, sharding=rows))
    assert by_arguments.cycles == over_abstract.cycles


def test_pmap():
    f = jax.pmap(lambda x: jax.lax.psum(x, "ipus"), axis_name="ipus", backend="ipu")
    estimate = jax_ipu.estimate(f, floats(8, 4))
    before = jax_ipu.counters(ipu).cycles
    jax.block_until_ready(f(floats(8, 4)))
    assert estimate.num_ipus == 8 and estimate.cycles == jax_ipu.counters(ipu).cycles - before
    with pytest.raises(ValueError, match=r'for cpu, not for ipu.*backend="ipu"'):
        jax_ipu.estimate(jax.pmap(lambda x: x), floats(1, 4))


def test_the_number_of_ipus_is_checked():
    with pytest.raises(ValueError, match=r"over 1 IPU, not over 4.*AbstractMesh\(\(4,\)"):
        jax_ipu.estimate(jnp.sin, shape(8), num_ipus=4)
    with pytest.raises(ValueError, match="over 4 IPUs, not over 1"):
        jax_ipu.estimate(mlp_step, *sharded(abstract_mesh(4)), num_ipus=1)


def test_errors_that_are_no_matter_of_memory_are_raised():
    with pytest.raises(compiler.CompileError, match="ipu2000"):
        jax_ipu.estimate(jnp.sin, shape(8), target="ipu2000")
    with pytest.raises(compiler.CompileError, match="1473"):
        jax_ipu.estimate(jnp.sin, shape(8), target="ipu2:1473")
    call = jax.ffi.ffi_call("target_of_another_library", shape(4), custom_call_api_version=2)
    with pytest.raises(compiler.CompileError, match="target_of_another_library"):
        jax_ipu.estimate(lambda x: call(x), shape(4))
    with pytest.raises(ValueError, match="compare"):
        jax_ipu.estimate(jnp.sin, shape(8), target="bow", compare=("ipu2",))


def test_nothing_is_run():
    before = jax_ipu.counters(ipu)
    jax_ipu.estimate(PROGRAMS["product"][0], *PROGRAMS["product"][1])
    assert jax_ipu.counters(ipu) == before


def test_no_device_is_needed():
    """In a process in which the platform cannot be used."""
    code = """
import jax.numpy as jnp, numpy as np, jax, jax_ipu
x = np.ones((64, 64), np.float32)
print(jax_ipu.estimate(jnp.dot, x, jnp.asarray(x), target="bow").cycles)
try:
    jax.devices("ipu")
except RuntimeError:
    print("no device")
"""
    x = shape(64, 64)
    assert output(code, JAX_PLATFORMS="cpu") == f"{jax_ipu.estimate(jnp.dot, x, x, target='bow').cycles}\nno device\n"


def test_what_an_estimate_shows():
    estimate = jax_ipu.estimate(mlp_step, [floats(32, 32)], floats(16, 32))
    values = estimate.as_dict()
    names = {f.name for f in dataclasses.fields(estimate)} - {"report"}
    assert set(values) == names and json.loads(json.dumps(values)) == values | {
        "operations": json.loads(json.dumps(values["operations"]))
    }
    assert jax_ipu.Estimate.from_dict(json.loads(json.dumps(values))) == estimate
    with pytest.raises(TypeError, match="no operations"):
        jax_ipu.Estimate.from_dict({})
    assert values["cycles"] == estimate.cycles and values["operations"][0]["kind"].count("::") == 1
    text, page = repr(estimate), estimate._repr_html_()
    for part in (f"{estimate.cycles:,}", "jit_mlp_step on ipu2:1472", "fullest tile", "host link", "dot_general"):
        assert part in text and part in page
    assert "<table>" in page and "training_step.py" in page


def test_comparison():
    x = shape(128, 128, dtype=jnp.float16)
    comparison = jax_ipu.estimate(attention, x, x, x, compare=("ipu2", "bow", "ipu1:1"))
    assert list(comparison) == ["ipu2", "bow", "ipu1:1"] and len(comparison) == 3
    assert comparison["bow"] == jax_ipu.estimate(attention, x, x, x, target="bow")
    assert comparison["bow"].cycles == comparison["ipu2"].cycles
    header, *rows = repr(comparison).splitlines()
    assert header.split()[:3] == ["target", "fits", "cycles"]
    assert [row.split()[0] for row in rows] == ["ipu2", "bow", "ipu1:1"]
    assert "1.40 x" in rows[1] and "1.00 x" in rows[0]  # 1.85 GHz and 1.325 GHz
    # The host link is as fast for both.
    calls = [estimate.seconds + estimate.host_seconds for estimate in comparison.estimates.values()]
    assert comparison.table()[2][-1] == f"{calls[0] / calls[1]:.2f} x" != "1.40 x"
    assert rows[2].split()[1] == ("yes" if comparison["ipu1:1"].fits else "no")
    assert json.loads(json.dumps(comparison.as_dict()))["bow"]["target"] == "bow:1472"
    assert "<table>" in comparison._repr_html_()


MANUAL = Path(__file__).parents[2] / "docs" / "estimates.md"


@pytest.mark.parametrize("number", range(3))
def test_manual(number, capsys):
    blocks = re.findall(r"```python\n(.*?)```", MANUAL.read_text(), re.S)
    assert len(blocks) == 3
    exec(compile(blocks[number], "manual.py", "exec"), {})
    printed = capsys.readouterr().out
    assert re.search((r"jit_step on bow:1472", r"^\d+ \d+$", r"(?m)^ipu2:8 .*yes")[number], printed)


def test_examples_of_docstrings():
    result = doctest.testmod(estimates)
    assert result.attempted >= 5 and result.failed == 0


def test_errors_are_those_of_the_kinds_of_operations():
    """A program's expected error is the mean of its operations', and it says of which part of the program it is."""
    x, w = jax.ShapeDtypeStruct((64, 128), np.float32), jax.ShapeDtypeStruct((128, 32), np.float32)
    product = jax_ipu.estimate(lambda x, w: jnp.tanh(x @ w), x, w)
    assert product.cycles_error == pytest.approx(0.11) and product.cycles_error_known == 1
    assert 0 <= product.memory_error < 0.3 and 0 < product.memory_error_known < 1
    assert "cycles 11 %" in dict(product.summary())["expected error"]
    transform = jax_ipu.estimate(lambda x: jnp.fft.fft(x), x)
    assert transform.cycles_error is None or transform.cycles_error_known < 0.5
    refused = jax_ipu.estimate(lambda x: jnp.outer(x, x), jax.ShapeDtypeStruct((100_000,), np.float32))
    assert refused.cycles_error is None and refused.cycles_error_known is None


def test_most_of_a_convolutional_network_has_an_error():
    def loss(kernel, images):
        maps = jax.nn.relu(jax.lax.conv_general_dilated(images, kernel, (1, 1), "SAME"))
        return jax.lax.reduce_window(maps, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID").sum()

    shapes = [jax.ShapeDtypeStruct(s, np.float32) for s in ((8, 3, 3, 3), (4, 3, 16, 16))]
    assert jax_ipu.estimate(jax.grad(loss), *shapes).cycles_error_known > 0.9


def test_an_error_that_is_known_of_next_to_nothing_is_unknown():
    assert str(accuracy.memory_band({"variables": 1, "code": 1000})) == "unknown"
    assert str(accuracy.memory_band({"variables": 1, "code": 100})).endswith("for 1 % of it")
