"""What a report advises: when, how urgently, and with which savings."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import jax_ipu
from jax_ipu.reports import alternatives
from jax_ipu.reports.insights import what_helps, what_was_not_tried
from support.report_programs import MESH, TARGET, shape


def test_advice_where_links_take_most_of_the_time():
    x = shape(4, 30_000, sharding=NamedSharding(MESH, P("ipus")))
    report = jax_ipu.report(lambda x: x.sum(0), x, target=TARGET)
    assert 2 * report.link_cycles > report.estimate.cycles
    (limit,) = [one for one in report.insights if one["id"] == "limit"]
    # What crosses between IPUs does not depend on the order of dimensions.
    assert limit["title"].startswith("IPU-Links") and "order of dimensions" not in limit["action"]


def test_advice_that_was_given_is_not_asked_for():
    found = {i["id"]: i for i in jax_ipu.report(jnp.dot, *[shape(256, 256)] * 2, target=TARGET, advice=True).insights}
    assert "not tried" not in found["alternatives"]["title"]
    assert "advice=True" not in found["float32 products"]["action"]


@pytest.mark.parametrize(
    ("size", "severity"),
    [(700, "info"), (1024, "info"), (1536, "advice"), (2048, "advice")],
    ids=["64 % full", "84 % full", "90 % full", "does not fit"],
)
def test_exchange_buffers_are_advice_where_memory_is_full(size, severity):
    x = jax.ShapeDtypeStruct((size, size), jnp.float32)
    report = jax_ipu.report(lambda x: x @ x, x, target="ipu2:64")
    (one,) = [one for one in report.insights if one["id"] == "exchange buffers"]
    assert one["severity"] == severity and (one["action"] is None) == (severity == "info")
    if severity == "advice":
        data = report.as_dict()
        peak = data["memory"]["peak_step"]
        held = [data["variables"][i] for i in one["variables"]]
        assert all(v["first_step"] <= peak <= v["last_step"] for v in held)


def test_products_of_float32_are_flagged():
    def found(dtype):
        report = jax_ipu.report(jnp.dot, shape(256, 256, dtype=dtype), shape(256, 256, dtype=dtype), target=TARGET)
        return [one for one in report.insights if one["id"] == "float32 products"]

    (wide,) = found(jnp.float32)
    assert wide["severity"] == "advice" and wide["operations"] == [0] and "100.0 %" in wide["title"]
    assert not found(jnp.float16)


def test_lists_of_what_helps():
    reason = "too large\n  1 KiB: x\nWhat helps:\n  * one;\n  * two\n    lines.\nNot tried:\n  * three."
    assert what_helps(reason) == ["one", "two lines"] and what_was_not_tried(reason) == ["three"]
    assert what_helps("too large") == what_was_not_tried("too large") == []
    nothing = "too large\nWhat helps: nothing was tried.\nNot tried:\n  * three."
    assert what_helps(nothing) == [] and what_was_not_tried(nothing) == ["three"]


def test_savings_are_those_of_compiled_alternatives():
    def product(w, x):
        return jnp.tanh(x @ w)

    args = shape(256, 256, dtype=jnp.float16), shape(64, 256, dtype=jnp.float16)
    report = jax_ipu.report(product, *args, target=TARGET, advice=True)
    found = {one["id"]: one for one in report.insights if one["saving"] is not None}
    base = jax_ipu.estimate(product, *args, target=TARGET)
    half = jax_ipu.estimate(product, *args, target=TARGET, compiler_options={"ipu_partials_type": "half"})
    assert found["half partials"]["saving"]["cycles"] == base.cycles - half.cycles
    assert found["half partials"]["saving"]["bytes"] == base.total_bytes - half.total_bytes
    smaller = jax_ipu.estimate(product, args[0], shape(32, 256, dtype=jnp.float16), target=TARGET)
    assert found["smaller batch"]["saving"]["cycles"] == base.cycles - smaller.cycles
    assert found["smaller batch"]["title"] == "A batch of 32 instead of 64"
    # Half of the work in more than half of the time is no advice, however many cycles less it is.
    rows = found["smaller batch"]["rows"]
    assert rows["batch"] == [64, 32] and rows["cycles"] == [base.cycles / 64, smaller.cycles / 32]
    assert rows["seconds"] == [base.seconds / 64, smaller.seconds / 32]
    assert rows["cycles"][1] > rows["cycles"][0] and found["smaller batch"]["severity"] == "info"
    assert "more" in found["smaller batch"]["detail"] and "a row" in found["smaller batch"]["detail"]
    assert found["larger batch"]["severity"] == "advice"
    (tried,) = [one for one in report.insights if one["id"] == "alternatives"]
    assert found["half partials"]["title"] in tried["detail"] and "not tried" not in tried["title"]


# Cycles of 10,000 and bytes of the fullest tile's 10,000 by which an alternative is cheaper.
@pytest.mark.parametrize(
    "cycles, tile_bytes, found",
    [(-1, 8, []), (-1, 500, ["advice"]), (24, -500, []), (200, -500, ["advice"]), (0, 8, []), (24, 24, [])],
)
def test_what_saves_next_to_nothing_is_no_advice(cycles, tile_bytes, found):
    base = jax_ipu.estimate(jnp.sin, shape(64), target=TARGET)
    base = replace(base, cycles=10_000, fullest_tile_bytes=10_000)
    other = replace(base, cycles=10_000 - cycles, fullest_tile_bytes=10_000 - tile_bytes)
    trials = alternatives._Trials(base)
    trials.add("id", "Title", "Action", other)
    assert [one["severity"] for one in trials.found] == found


def test_savings_of_a_program_that_does_not_fit():
    args = shape(512, 512), shape(4096, 512)
    report = jax_ipu.report(lambda w, x: jnp.tanh(x @ w) @ w.T, *args, target="ipu2:16", advice=True)
    assert not report.fits
    first, *_ = (one for one in report.insights if one["saving"] is not None)
    assert first["severity"] == "problem" and "It fits then" in first["detail"]


def test_half_precision_of_numpy_arrays():
    x = np.ones((64, 64), np.float32)
    found = {i["id"]: i for i in jax_ipu.report(jnp.dot, x, x, target="ipu2:4", advice=True).insights}
    assert found["half precision"]["saving"]["cycles"] > 0
