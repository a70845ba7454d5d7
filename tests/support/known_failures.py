"""Tests that fail on the newest JAX, with reasons. Each must fail there: one that passes has to leave the list."""

from __future__ import annotations

from typing import NamedTuple

import jax
import pytest


class KnownFailure(NamedTuple):
    """`test` is a node id without the parameters in brackets, or with them; `since` the first JAX that it fails on."""

    test: str
    since: tuple[int, ...]
    reason: str


_NARROW_LU = "jax.lax.linalg.lu takes no floats of 16 bits since JAX 0.12"

KNOWN_FAILURES = (
    KnownFailure("tests/operations/test_features_linalg.py::test_lu_of_narrow_floats", (0, 12), _NARROW_LU),
    KnownFailure(
        "tests/frontend/test_symbolic_sizes.py::test_the_result_is_that_of_known_sizes[lu of bfloat16]",
        (0, 12),
        _NARROW_LU,
    ),
)


def mark(items: list[pytest.Item]) -> None:
    """Marks the collected tests that are known to fail on the installed JAX."""
    version = jax.__version_info__
    for item in items:
        for known in KNOWN_FAILURES:
            if version >= known.since and known.test in (item.nodeid, item.nodeid.partition("[")[0]):
                item.add_marker(pytest.mark.xfail(reason=known.reason, strict=True))
