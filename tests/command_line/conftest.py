"""A module with functions, and what runs a command in its folder."""

import os
import sys

import pytest

from jax_ipu import command_line
from support.commands import MODULE


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The path of a module with functions; other tests have no module of this name."""
    path = tmp_path_factory.mktemp("command_line") / "command_line_program.py"
    path.write_text(MODULE)
    return path


@pytest.fixture
def run(capsys, monkeypatch, program):
    """Runs a command in the folder of the module; returns its exit code, standard output and stderr."""
    monkeypatch.chdir(program.parent)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("JAX_IPU_DEVICE_COUNT", os.environ["JAX_IPU_DEVICE_COUNT"])  # restored afterwards
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)

    def main(*arguments):
        try:
            code = command_line.main(arguments)
        except SystemExit as error:  # of argparse
            code = error.code
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return main
