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


# Files of few tests that take minutes count as if they had more. The browser's come after the C++ tests are built.
COUNTS_AS = {
    "test_cpp.py": 1000,
    "test_poplar_sdk.py": 900,
    "test_report_browser.py": 50,
}


def long_files_first(items):
    """Sorts files by their number of tests, for pytest-xdist (--no-loadscope-reorder): the last file ends the run."""
    at_night = ("nightly", "long")
    tests = collections.Counter(item.path for item in items if not any(map(item.get_closest_marker, at_night)))
    items.sort(key=lambda item: (-COUNTS_AS.get(item.path.name, tests[item.path]), str(item.path)))


def pytest_collection_modifyitems(items):
    from support import known_failures, long_tests

    known_failures.mark(items)
    long_tests.mark(items)
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


@pytest.fixture(scope="module", autouse=True)
def empty_devices(request):
    """What tests of other files left in SRAM makes room before a file that counts bytes, not while it counts."""
    if "counters(" in Path(request.module.__file__).read_text():
        from support import devices

        devices.make_room()
