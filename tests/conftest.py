import os
import sys
from pathlib import Path

import pytest

# The tests' own helpers; the package under test is the installed one.
sys.path.insert(0, str(Path(__file__).parent))

# For programs over several devices, on IPUs and on the CPU to compare with. Must be set before any client exists.
os.environ.setdefault("JAX_IPU_DEVICE_COUNT", "8")
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"


def pytest_collection_modifyitems(items):
    from support import known_failures

    known_failures.mark(items)


@pytest.fixture
def monkeypatch(monkeypatch):
    """A test that changes the package shares no executables with others."""

    def forget():
        if modes := sys.modules.get("support.modes"):
            modes.forget_executables()

    forget()
    yield monkeypatch
    forget()
