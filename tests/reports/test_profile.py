"""Costs of single operations, and cycle counters of programs with loops."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu.debug
from jax_ipu.compiler import fit

ipu = jax.devices("ipu")[0]


def double_n_times(n, x):
    return jax.lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, s[1] * 2), (n, x))[1]


def test_profile_lists_operations_by_cost(capsys):
    def function(w, x):
        return jax.nn.softmax(x @ w).sum()

    w, x = np.ones((512, 512), np.float32), np.ones((128, 512), np.float32)
    operations = jax_ipu.debug.profile(function, w, x, top=2)
    assert [o.cycles for o in operations] == sorted((o.cycles for o in operations), reverse=True)
    (product,) = [o for o in operations if o.operation == "dot_general"]
    assert product.flops == 2 * 128 * 512 * 512 and product.exchange_bytes > 0 and product.tiles > 100
    assert "test_profile.py" in product.source_line and "function)" in product.source_line
    total = jax.jit(function, backend="ipu").lower(w, x).compile().cost_analysis()["cycles"]
    assert sum(o.cycles for o in operations) == total
    header, *rows, summary = capsys.readouterr().out.splitlines()
    for column in ("compute", "exchange", "sync", "exchange bytes", "share", "source line"):
        assert column in header
    assert len(rows) == 2 and str(operations[0].cycles) in rows[0] and "%" in rows[0]
    assert str(int(total)) in summary


def test_profile_compiles_what_jit_compiles(monkeypatch):
    """Also programs that fit only in a later attempt, which needs less memory."""
    attempts = []

    def build(*args, original=fit.build):
        attempts.append(args)
        return original(*args)

    def layers(weights, x):
        for w in weights:
            x = jnp.tanh(x @ w)
        return x

    monkeypatch.setattr(fit, "build", build)
    monkeypatch.setattr("jax_ipu.estimates.configured_target", lambda: "ipu2:90")
    fitted = []
    # From a batch that does not fit to one that fits at once.
    for batch in range(256, 192, -16):
        attempts.clear()
        weights = [jax.ShapeDtypeStruct((1024, 1024), jnp.float32)] * 12
        with contextlib.suppress(RuntimeError):
            assert jax_ipu.debug.profile(layers, weights, jax.ShapeDtypeStruct((batch, 1024), jnp.float32))
            fitted.append(len(attempts))
    assert max(fitted) > 1  # a second attempt; more are seldom needed, as products are processed in steps


def test_profile_counts_executions_of_known_loops():
    def function(x):
        return jax.lax.fori_loop(0, 7, lambda i, y: jnp.sin(y), x)

    executions = [o.executions for o in jax_ipu.debug.profile(function, np.ones(4, np.float32))]
    assert 7 in executions


def test_profile_of_shapes_only_and_of_nothing(capsys):
    shape = jax.ShapeDtypeStruct((16,), jnp.float32)
    assert len(jax_ipu.debug.profile(lambda x: x + 1, shape)) == 1
    assert jax_ipu.debug.profile(lambda x: x, shape) == []
    assert "0 operations" in capsys.readouterr().out


def test_profile_tells_of_loops_with_unknown_trip_count(capsys):
    assert jax_ipu.debug.profile(double_n_times, np.int32(3), np.ones(4, np.float32))
    assert "counted as one trip each: 1\n" in capsys.readouterr().out


def test_profile_refuses_what_does_not_fit():
    with pytest.raises(RuntimeError, match="out of IPU memory"):
        jax_ipu.debug.profile(jnp.outer, *[jax.ShapeDtypeStruct((32768,), jnp.float32)] * 2)


def test_counters_count_the_trips_of_loops():
    f = jax.jit(double_n_times, backend="ipu")
    x = np.ones(300, np.float32)

    def cycles(trips):
        before = jax_ipu.counters(ipu).cycles
        assert np.asarray(f(np.int32(trips), x))[0] == 2.0**trips
        return jax_ipu.counters(ipu).cycles - before

    reported = f.lower(np.int32(0), x).compile().cost_analysis()["cycles"]  # condition and body once each
    trip = cycles(20) - cycles(19)
    assert 0 < trip <= reported
    assert cycles(20) - cycles(10) == 10 * trip
    assert cycles(0) < reported < cycles(1)  # one trip tests the condition twice
    assert cycles(1) - cycles(0) == trip


def convolution(x, w):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@pytest.mark.parametrize("kernel", [1, 3])
def test_the_gradient_of_weights_costs_about_as_much_as_its_convolution(kernel):
    def total(function):
        x = jax.ShapeDtypeStruct((8, 28, 28, 64), np.float32)
        w = jax.ShapeDtypeStruct((kernel, kernel, 64, 128), np.float32)
        return sum(o.cycles for o in jax_ipu.debug.profile(function, x, w) if o.operation == "convolution")

    def gradient(x, w):
        return jax.vjp(lambda w: convolution(x, w), w)[1](jnp.ones((8, 28, 28, 128)))

    assert total(gradient) < 2 * total(convolution)


def test_the_input_of_a_convolution_is_spread_over_all_tiles_that_read_it():
    x = jax.ShapeDtypeStruct((8, 28, 28, 256), np.float32)
    w = jax.ShapeDtypeStruct((1, 1, 256, 64), np.float32)
    (row,) = jax_ipu.debug.profile(convolution, x, w)
    placed = next(p for p in jax_ipu.debug.tile_map(convolution, x, w) if p.name == "x")
    assert placed.tiles >= 0.9 * row.tiles
