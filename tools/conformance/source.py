"""The source of JAX's tests: a given folder, or the tag of the installed version on GitHub."""

from __future__ import annotations

import subprocess
from importlib.metadata import version
from pathlib import Path

REPOSITORY = "https://github.com/jax-ml/jax"
FOLDERS = (".", "pallas")  # folders of tests; other folders need several hosts, or other hardware
# Modules of JAX that its tests import and that the package does not contain: they come from the checkout.
MODULES = ("jax/_src/hypothesis_test_util.py", "jax/_src/pallas/pallas_test_util.py")


def test_files(tests: Path) -> dict[str, Path]:
    """Returns name -> file of all test files, for example `api_test` and `pallas/ops_test`."""
    files = (file for folder in FOLDERS for file in (tests / folder).glob("*_test.py"))
    return {file.relative_to(tests).with_suffix("").as_posix(): file for file in files}


def find_tests(folder: Path) -> Path:
    """Returns the folder of the `*_test.py` files, given a checkout of JAX or that folder itself."""
    for candidate in (folder / "tests", folder):
        if any(candidate.glob("*_test.py")):
            return candidate.resolve()
    raise SystemExit(
        f"{folder} holds no *_test.py, nor does {folder / 'tests'}. Give a checkout of JAX or its tests folder."
    )


def checkout_of(file: Path) -> Path:
    """Returns the checkout whose test folder contains `file`."""
    tests = next((folder for folder in file.parents if folder.name == "tests"), file.parent)
    return tests.parent


def fetch_tests(work: Path) -> Path:
    """Clones the tests of the installed version of JAX into `work`, once."""
    tag = f"jax-v{version('jax')}"
    checkout = work / tag
    if not (checkout / "tests").exists():
        clone = ["git", "clone", "--quiet", "--depth=1", "--filter=blob:none", "--sparse", "--branch", tag]
        _git([*clone, REPOSITORY, str(checkout)], tag)
        _git(["git", "-C", str(checkout), "sparse-checkout", "set", "--no-cone", "/tests/", *MODULES], tag)
    return find_tests(checkout)


def _git(command: list[str], tag: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        message = getattr(error, "stderr", "") or str(error)
        raise SystemExit(
            f"Could not fetch {tag} from {REPOSITORY}: {message.strip()}\n"
            "Without network, give a checkout of that tag: --tests FOLDER."
        ) from error
