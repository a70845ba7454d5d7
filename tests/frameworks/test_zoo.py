"""Models of every framework, unmodified, fit and agree with the framework's own CPU backend."""

import importlib.util

import numpy as np
import pytest

from support.zoo import rows
from support.zoo.measure import largest_error, measure
from support.zoo.row import Row


@pytest.mark.parametrize(
    "row", [pytest.param(r, id=r.name, marks=() if r.small else pytest.mark.nightly) for r in rows()]
)
def test_model_agrees_with_its_framework(row: Row) -> None:
    missing = [p for p in row.packages if importlib.util.find_spec(p) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    measurement = measure(row, steps=3)
    assert measurement.agrees(row.tolerance)
    assert measurement.cycles > 0  # it ran on the IPU


@pytest.mark.parametrize(
    ("actual", "expected", "error"),
    [([1.0, 2.0], [1.0, 2.0], 0.0), ([1.0, 2.5], [1.0, 2.0], 0.25), ([float("inf")], [float("inf")], 0.0)],
)
def test_error_is_relative_to_the_largest_value(actual: list[float], expected: list[float], error: float) -> None:
    assert largest_error([np.array(actual)], [np.array(expected)]) == error


@pytest.mark.parametrize(("actual", "expected"), [(np.nan, 2.0), (2.0, np.nan), (np.inf, 2.0), (np.inf, -np.inf)])
def test_what_is_not_finite_must_be_equal(actual: float, expected: float) -> None:
    with pytest.raises(ValueError, match="on one side only"):
        largest_error([np.array([1.0, actual])], [np.array([1.0, expected])])
