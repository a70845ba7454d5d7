"""Builds and runs the C++ tests; one Python test for each C++ test program.

IPU_MODEL_TEST_PRESET names the preset of CMakePresets.json that they are built with: "tests" (the default), or "asan".
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "cpp"
PRESET = os.environ.get("IPU_MODEL_TEST_PRESET", "tests")
NAMES = sorted(
    "_".join(path.relative_to(package).with_suffix("").parts)
    for package in (ROOT / "ipu_model", ROOT / "hlo", ROOT / "pjrt_plugin")
    for path in package.rglob("*_test.cc")
)


ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    # By default, the sanitizer ends the process where an allocation that is too large would return null, and a tenth of
    # the time goes into stacks of allocations with 30 calls.
    "ASAN_OPTIONS": "allocator_may_return_null=1:malloc_context_size=8",
}


def run(*command):
    """Runs a command that must succeed; returns what it prints."""
    result = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    return result.stdout


def build_tool(variable, name):
    """The tool that built the wheel in the folder, where it still exists: another version rebuilds everything."""
    cache = BUILD / "CMakeCache.txt"
    known = re.search(rf"^{variable}:\w+=(.*)$", cache.read_text(), re.MULTILINE) if cache.exists() else None
    return known[1] if known and Path(known[1]).exists() else shutil.which(name, path=ENVIRONMENT["PATH"])


@pytest.fixture(scope="session")
def programs():
    """The folder that has all test programs."""
    presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    (folder,) = (preset["binaryDir"] for preset in presets if preset["name"] == PRESET)
    build = Path(folder.replace("${sourceDir}", str(ROOT)))
    cmake, ninja = build_tool("CMAKE_COMMAND", "cmake"), build_tool("CMAKE_MAKE_PROGRAM", "ninja")
    run(cmake, "-S", ROOT, "--preset", PRESET, f"-DCMAKE_MAKE_PROGRAM={ninja}")
    run(cmake, "--build", build)
    return build


@pytest.fixture(scope="session")
def model():
    """The folder of the wheel's build, with the model as the product is compiled."""
    cmake, ninja = build_tool("CMAKE_COMMAND", "cmake"), build_tool("CMAKE_MAKE_PROGRAM", "ninja")
    run(cmake, "-S", ROOT, "--preset", "tests", f"-DCMAKE_MAKE_PROGRAM={ninja}")
    run(cmake, "--build", BUILD, "--target", "ipu_model")
    return BUILD


@pytest.mark.parametrize("name", NAMES)
def test_program(programs, name):
    result = subprocess.run([programs / name], env=ENVIRONMENT, capture_output=True, text=True, timeout=1800)
    assert result.returncode == 0 and " passed, 0 failed" in result.stdout, (
        result.stdout[-4000:] + result.stderr[-4000:]
    )


def test_wide_instructions_stay_in_their_namespace(model):
    """A shared inline function compiled for AVX-512 could be the one the linker keeps for machines without it."""
    objects = list(model.glob("ipu_model/CMakeFiles/*_avx512.dir/**/*.o"))
    assert objects
    symbols = subprocess.run(
        ["nm", "-C", "--defined-only", *objects], capture_output=True, text=True, check=True
    ).stdout
    weak = re.findall(r"^[0-9a-f]{16} [WVu] (.*)$", symbols, re.MULTILINE)
    assert weak and [name for name in weak if "avx512::" not in name and not name.startswith("DW.ref.")] == []


def use_package(prefix, user):
    """A project that knows nothing of this tree finds the installed model, computes a product and runs a codelet."""
    assert {path.name for path in (prefix / "include").iterdir()} == {
        path.name for path in (ROOT / "ipu_model/include").iterdir()
    }
    run("cmake", "-S", ROOT / "tests/cpp_package", "-B", user, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", user)
    assert re.fullmatch(r"[1-9]\d* cycles\n", run(user / "matmul"))
    assert run(user / "hello", ROOT / "tests/cpp_package/adder.cpp") == "0.5 1.5 2.5 3.5 4.5 5.5 6.5 7.5 \n"


def test_package_for_other_projects(model, tmp_path):
    run("cmake", "--install", model, "--component", "ipu_model", "--prefix", tmp_path / "prefix")
    use_package(tmp_path / "prefix", tmp_path / "user")


@pytest.mark.nightly
def test_model_is_a_project_of_its_own(tmp_path):
    """The commands of ipu_model/README.md, in a folder that holds nothing else of the tree."""
    source, build, prefix = tmp_path / "ipu_model", tmp_path / "build", tmp_path / "prefix"
    shutil.copytree(ROOT / "ipu_model", source)
    run("cmake", "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_INSTALL_PREFIX={prefix}")
    run("cmake", "--build", build, "--target", "install")
    use_package(prefix, tmp_path / "user")
