"""The IPU model as a library of its own: installed, and used by a project that knows nothing of this tree."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.nightly
def test_foreign_project_finds_the_package(tmp_path):
    """README of ipu_model: install, find_package, run a product. Builds the whole model."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def run(*command):
        result = subprocess.run([str(c) for c in command], env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
        return result.stdout

    build, prefix, user = tmp_path / "build", tmp_path / "prefix", tmp_path / "user"
    run("cmake", "-S", ROOT / "ipu_model", "-B", build, "-G", "Ninja", f"-DCMAKE_INSTALL_PREFIX={prefix}")
    run("cmake", "--build", build, "--target", "install")
    assert {path.name for path in (prefix / "include").iterdir()} == {
        path.name for path in (ROOT / "ipu_model" / "include").iterdir()
    }
    run("cmake", "-S", ROOT / "tests/cpp_package", "-B", user, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", user)
    assert re.fullmatch(r"[1-9]\d* cycles\n", run(user / "matmul"))
