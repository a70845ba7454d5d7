"""The largest batch that fits: the search, and what is wrong with its arguments."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

import jax_ipu
from jax_ipu.estimates import search_batch
from support.training_step import abstract_mesh, mlp_step, shape, sharded


def test_largest_batch():
    def estimate(batch):
        return jax_ipu.estimate(mlp_step, [shape(64, 64)], shape(batch, 64), target="ipu2:2")

    arguments = {"batch_axes": (None, 0), "target": "ipu2:2"}
    found = jax_ipu.largest_batch(mlp_step, [shape(64, 64)], shape(800, 64), multiple_of=200, **arguments)
    assert found.batch % 200 == 0 and found == (found.batch, estimate(found.batch))
    assert found.estimate.fits and not estimate(found.batch + 200).fits
    nothing = jax_ipu.largest_batch(jnp.dot, shape(4, 1000), shape(1000, 1000), batch_axes=(0, None), target="ipu2:2")
    assert nothing.batch == 0 and not nothing.estimate.fits and nothing.estimate.reason


@pytest.mark.parametrize("multiple", [1, 3])
@pytest.mark.parametrize("start", [1, 7, 100, 5000])
def test_the_search_finds_every_batch(start, multiple):
    """With estimates that fit up to a known batch."""
    estimates = {True: jax_ipu.estimate(jnp.sin, shape(8), target="ipu2:1")}
    estimates[False] = dataclasses.replace(estimates[True], fits=False)
    for largest in (0, 1, 2, 3, 6, 7, 8, 63, 99, 300, 999, 10000):
        tried = []

        def attempt(batch, largest=largest, tried=tried):
            tried.append(batch)
            return estimates[batch <= largest]

        batch, found = search_batch(attempt, start, multiple, 1000, False)
        assert batch == min(largest, 1000) // multiple * multiple and found.fits == (batch > 0)
        assert all(b % multiple == 0 and 0 < b <= 1000 for b in tried) and len(tried) == len(set(tried)) <= 21


def test_largest_batch_of_trees_static_arguments_and_other_axes():
    f = jax.jit(lambda n, tree: tree["a"].sum(1) * n + tree["b"], static_argnums=0)
    tree = {"a": shape(4, 64), "b": shape(4)}
    same = jax_ipu.largest_batch(f, 3, tree, batch_axes=(None, 0), target="ipu2:1", limit=64)
    assert same.batch == 64
    turned = {"a": shape(64, 4).update(shape=(4, 64)), "b": shape(4)}
    axes = {"a": 0, "b": -1}
    assert jax_ipu.largest_batch(f, 3, turned, batch_axes=(None, axes), target="ipu2:1", limit=64).batch == 64


def test_largest_batch_over_several_ipus():
    parameters, x = sharded(abstract_mesh(4))
    options = {"num_ipus": 4, "target": "ipu2:1", "donate_argnums": 0}
    found = jax_ipu.largest_batch(mlp_step, parameters, x, batch_axes=(None, 0), multiple_of=4, limit=66, **options)
    rows = shape(64, 64, sharding=x.sharding)
    assert found == (64, jax_ipu.estimate(mlp_step, parameters, rows, **options))


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((shape(8, 4), shape(3, 4)), {}, "different batches: 8 .argument 0., 3 .argument 1."),
        ((shape(8, 4),), {"batch_axes": (None,)}, "no batch"),
        ((shape(8, 4),), {"batch_axes": (0, 0)}, "2 entries for 1"),
        ((shape(8, 4),), {"batch_axes": 2}, "no axis 2"),
        ((3,), {}, "no axis 0"),
        (({"a": shape(8)},), {"batch_axes": ({"b": 0},)}, "no prefix"),
        ((shape(8, 4),), {"limit": 0}, "limit=0"),
        ((shape(8, 4),), {"multiple_of": 0}, "multiple_of=0"),
    ],
)
def test_largest_batch_says_what_is_wrong(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        jax_ipu.largest_batch(lambda *args: args, *arguments, **options)


def test_largest_batch_shows_progress(capsys):
    jax_ipu.largest_batch(jnp.sin, shape(8), limit=16, target="ipu2:1", progress=True)
    assert "largest batch" in capsys.readouterr().err
    jax_ipu.largest_batch(jnp.sin, shape(8), limit=16, target="ipu2:1")  # no terminal
    assert capsys.readouterr().err == ""
