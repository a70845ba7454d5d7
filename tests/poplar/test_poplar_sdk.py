"""The build against a Poplar SDK, as far as it can be checked without one: its sources compile for Poplar's API."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_sources_compile_for_the_api_of_poplar():
    """The model's headers, without what Poplar lacks, stand for the SDK's. All that is called must be defined."""
    # Below the sources, where a compiler cache finds what other clones have compiled.
    command = [sys.executable, "tools/poplar_sdk_check.py", "--work", "build/poplar_sdk", "--objects", "--jobs", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 errors" in done.stdout


def test_a_folder_without_an_sdk_is_refused(tmp_path):
    command = ["cmake", "-S", str(ROOT), "-B", str(tmp_path), "-DJAX_IPU_POPLAR_SDK=/nowhere"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "/nowhere has no include/poplar/Graph.hpp" in " ".join(done.stderr.split())
