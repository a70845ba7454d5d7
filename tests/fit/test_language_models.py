"""Full-size GPT-2 and BERT training steps fit and spend few cycles on tables; tests/support/zoo checks the values."""

import jax
import numpy as np
import pytest

import jax_ipu
from jax_ipu.debug import OperationCost
from support.zoo import language

# Upper bound of the share of a step's cycles for lookups, their gradients and the loss together.
MOST = 0.1


def is_of_tables(operation: OperationCost) -> bool:
    return operation.operation in ("gather", "scatter") or operation.source_line.endswith("(loss)")


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
