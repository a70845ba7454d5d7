"""Tests that need Graphcore's PopLibs."""

from __future__ import annotations

import os

import pytest

# A folder of tools/build_poplibs; "" if there is none.
FOLDER = os.environ.get("JAX_IPU_POPLIBS_TEST_FOLDER", "")
needs_poplibs = pytest.mark.skipif(
    not FOLDER, reason="JAX_IPU_POPLIBS_TEST_FOLDER is not set to a folder of tools/build_poplibs"
)
