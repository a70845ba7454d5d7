"""Full-size GPT-2 and BERT training steps fit and spend few cycles on tables; tests/support/zoo checks the values."""

from functools import partial

import jax
import numpy as np
import pytest

import jax_ipu
from jax_ipu.debug import OperationCost
from support import bert
from support.zoo import language

# Upper bound of the share of a step's cycles for lookups, their gradients and the loss together.
MOST = 0.1


def is_of_tables(operation: OperationCost) -> bool:
    return operation.operation in ("gather", "scatter") or operation.source_line.endswith(("(loss)", "(masked_loss)"))


def profiled(training: language.Training, ipus: int) -> tuple[OperationCost, ...]:
    step, _ = language.jitted(training, jax.devices("ipu")[:ipus])
    estimate = jax_ipu.estimate(step, training.state, *training.batch, target="ipu2", num_ipus=ipus)
    assert estimate.fits, estimate.reason
    return estimate.operations


def test_tiny_models_are_made_of_these_operations() -> None:
    """The operations that the nightly test counts exist in the models."""
    for build in (language.GPT_TINY, language.BERT_TINY):
        operations = profiled(build(dtype=np.float16), 1)
        names = {o.operation for o in operations if is_of_tables(o)}
        assert {"gather", "scatter", "map", "reduce"} <= names and "dot_general" not in names


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "build", "precision", "ipus", "tolerance"), language.FULL)
def test_full_size_fits_and_spends_little_on_tables(name, build, precision, ipus, tolerance) -> None:
    operations = profiled(build(), ipus)
    total = sum(o.cycles for o in operations)
    tables = sum(o.cycles for o in operations if is_of_tables(o))
    assert 0 < tables <= MOST * total


@pytest.mark.nightly
@pytest.mark.parametrize(("ipus", "cut_batch"), [(4, True), (8, False)])
def test_gpt2_trains_in_float32_with_its_state_cut_over_the_ipus(ipus, cut_batch) -> None:
    """Layers become functions, as their collectives differ in their channels only."""
    training = language.gpt((), np.float32, 128, batch=4, recompute=True)
    step, _ = language.jitted(training, jax.devices("ipu")[:ipus], cut_batch)
    estimate = jax_ipu.estimate(step, training.state, *training.batch, target="ipu2", num_ipus=ipus)
    assert estimate.fits, estimate.reason


@pytest.mark.nightly
def test_bert_base_trains_on_one_ipu_with_its_moments_in_host_memory() -> None:
    """In float32: 418 MiB of weights in SRAM, and twice as much that is on the tiles one leaf at a time."""
    import optax

    config = bert.Config()
    batch = bert.batch(1, 1, 128, config)
    weights = bert.init(0, config, np.float32)
    optimizer = optax.adamw(1e-3, eps=1e-5)
    sram = jax.sharding.SingleDeviceSharding(jax.devices("ipu")[0])
    host = sram.with_memory_kind("pinned_host")

    def step(weights, moments, *batch):
        loss = partial(bert.loss, config=config, recompute=True)
        value, gradients = jax.value_and_grad(loss)(weights, *batch)
        moments = jax.device_put(moments, jax.memory.Space.Device)
        changes, moments = optimizer.update(gradients, moments, weights)
        return optax.apply_updates(weights, changes), jax.device_put(moments, jax.memory.Space.Host), value

    def of(tree, sharding):
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding), tree)

    moments = jax.eval_shape(optimizer.init, weights)
    jitted = jax.jit(step, donate_argnums=0, out_shardings=(sram, host, sram))
    estimate = jax_ipu.estimate(jitted, of(weights, sram), of(moments, host), *of(batch, sram))
    assert estimate.fits, estimate.reason
    size = sum(4 * a.size for a in jax.tree.leaves(moments))
    assert size <= estimate.host_bytes_out < 1.01 * size
