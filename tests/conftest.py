import collections
import os
import sys
from pathlib import Path

import pytest

# The tests' own helpers; the package under test is the installed one.
sys.path.insert(0, str(Path(__file__).parent))

# For programs over several devices, on IPUs and on the CPU to compare with. Must be set before any client exists.
os.environ.setdefault("JAX_IPU_DEVICE_COUNT", "8")
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"


# The files of few tests that take minutes, the longest first. The run ends when its last file does.
LONG = ("test_cpp.py", "test_report_browser.py", "test_poplar_sdk.py", "test_matmul_planning.py", "test_examples.py")


def long_files_first(items):
    """Sorts files for pytest-xdist (--no-loadscope-reorder): those that are long, then by number of tests."""
    tests = collections.Counter(item.path for item in items if not item.get_closest_marker("nightly"))
    place = {name: at for at, name in enumerate(LONG)}
    items.sort(key=lambda item: (place.get(item.path.name, len(LONG)), -tests[item.path], str(item.path)))


def pytest_collection_modifyitems(items):
    from support import known_failures

    known_failures.mark(items)
    if "PYTEST_XDIST_WORKER" in os.environ:
        long_files_first(items)


@pytest.fixture
def monkeypatch(monkeypatch):
    """A test that changes the package shares no executables with others."""

    def forget():
        if modes := sys.modules.get("support.modes"):
            modes.forget_executables()

    forget()
    yield monkeypatch
    forget()
