"""What crosses the host link has the names of the user's arguments and results: in reports, traces and errors."""

import json
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

import jax_ipu

PARAMS = {"dense": {"kernel": jnp.ones((8, 4)), "bias": jnp.ones(4)}}


class State(NamedTuple):
    mu: dict
    count: jax.Array


def step(params, state, batch):
    x, y = batch

    def loss(p):
        return jnp.mean((x @ p["dense"]["kernel"] + p["dense"]["bias"] - y) ** 2)

    value, gradient = jax.value_and_grad(loss)(params)
    mu = jax.tree.map(lambda m, g: 0.9 * m + g, state.mu, gradient)
    return jax.tree.map(lambda p, m: p - m, params, mu), State(mu, state.count + 1), {"loss": value}


def arguments():
    batch = np.ones((16, 8), np.float32), np.ones((16, 4), np.float32)
    return jax.tree.map(jnp.copy, (PARAMS, State(PARAMS, jnp.zeros((), np.int32)), batch))


IN = {
    *("params['dense']['kernel']", "params['dense']['bias']", "state.mu['dense']['kernel']"),
    *("state.mu['dense']['bias']", "state.count", "batch[0]", "batch[1]"),
}


def test_report_of_one_ipu():
    data = jax_ipu.report(step, *arguments(), donate_argnums=(0, 1), target="ipu2:16").as_dict()
    streams = data["host"]["streams"]
    assert {s["name"] for s in streams if s["direction"] == "in"} == IN
    assert [s["name"] for s in streams if s["direction"] == "out"] == ["result[2]['loss']"]
    assert "result[2]['loss']" in data["steps"]["name"] and "out6" not in data["steps"]["name"]
    assert "result[2]['loss']" in [node["label"] for node in data["tree"]]


def test_report_of_several_ipus():
    mesh = AbstractMesh((2,), ("ipus",))
    rows = NamedSharding(mesh, PartitionSpec("ipus"))
    params, state, batch = arguments()
    batch = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=rows) for x in batch)
    data = jax_ipu.report(step, params, state, batch, target="ipu2:16").as_dict()
    names = {s["name"] for s in data["host"]["streams"]}
    assert names == IN | {
        *("result[0]['dense']['kernel']", "result[0]['dense']['bias']", "result[1].mu['dense']['kernel']"),
        *("result[1].mu['dense']['bias']", "result[1].count", "result[2]['loss']"),
    }


def test_unnamed_arguments_and_results_have_numbers():
    text = """func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.add %a, %b : tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
    executable = jax_ipu.compiler.compile(text.encode(), "mlir", b"", "ipu2:4")
    assert [spec.name for spec in executable.inputs] == ["argument 0", "argument 1"]
    assert [spec.name for spec in executable.outputs] == ["result 0"]


def test_trace_and_donated_error(tmp_path):
    ipu = jax.devices("ipu")[0]
    f = jax.jit(step, donate_argnums=(0, 1))
    params, state, batch = jax.device_put(arguments(), ipu)
    with jax_ipu.trace(tmp_path / "trace.json"):
        new_params, _, losses = f(params, state, batch)
        np.asarray(new_params["dense"]["kernel"]), np.asarray(losses["loss"])
    events = [event["name"] for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]]
    assert {e.removeprefix("from host: ") for e in events if e.startswith("from host")} == IN
    out = {e.removeprefix("to host: ") for e in events if e.startswith("to host")}
    # State of other tests may leave the IPU for this program.
    assert {"result[0]['dense']['kernel']", "result[2]['loss']"} <= out
    assert "result[0]['dense']['bias']" not in out
    with pytest.raises(ValueError, match=r"donated\. It is the argument params\['dense'\]\['bias'\] of jit_step\."):
        f(params, state, batch)


def test_same_array_twice():
    x = jax.device_put(np.ones(3, np.float32), jax.devices("ipu")[0])
    f = jax.jit(lambda old, new: (old["a"] + 1, new["b"] + 1), donate_argnums=(0, 1))
    with pytest.raises(Exception, match=r"same buffer twice .*It is new\['b'\] and old\['a'\]\. Toy example"):
        f({"a": x}, {"b": x})
