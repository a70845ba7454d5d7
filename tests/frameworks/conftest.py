"""What the tests of models share."""

import pytest

from jax_ipu import GraphCoreManager


@pytest.fixture
def manager():
    with GraphCoreManager() as manager:
        yield manager
