"""Builds and runs the C++ tests; one Python test for each C++ test program."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build" / "cpp"
NAMES = sorted(
    "_".join(path.relative_to(package).with_suffix("").parts)
    for package in (ROOT / "ipu_model", ROOT / "pjrt_plugin")
    for path in package.rglob("*_test.cc")
)


@pytest.fixture(scope="session")
def programs():
    scripts = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}"}
    configure = [
        "cmake",
        "-S",
        ROOT,
        "-B",
        BUILD,
        "-G",
        "Ninja",
        # A folder that built the wheel names the ninja of an environment that is gone.
        f"-DCMAKE_MAKE_PROGRAM={shutil.which('ninja', path=environment['PATH'])}",
        "-DJAX_IPU_BUILD_PYTHON=OFF",
        "-DJAX_IPU_BUILD_TESTS=ON",
    ]
    for command in (configure, ["cmake", "--build", BUILD]):
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    return BUILD


@pytest.mark.parametrize("name", NAMES)
def test_program(programs, name):
    result = subprocess.run([programs / name], capture_output=True, text=True, timeout=600)
    assert result.returncode == 0 and " passed, 0 failed" in result.stdout, (
        result.stdout[-4000:] + result.stderr[-4000:]
    )


def test_wide_instructions_stay_in_their_namespace(programs):
    """A shared inline function compiled for AVX-512 could be the one the linker keeps for machines without it."""
    objects = list(programs.glob("ipu_model/CMakeFiles/*_avx512.dir/**/*.o"))
    assert objects
    symbols = subprocess.run(
        ["nm", "-C", "--defined-only", *objects], capture_output=True, text=True, check=True
    ).stdout
    weak = re.findall(r"^[0-9a-f]{16} [WVu] (.*)$", symbols, re.MULTILINE)
    assert weak and [name for name in weak if "avx512::" not in name and not name.startswith("DW.ref.")] == []
