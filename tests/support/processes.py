"""Runs code in a separate interpreter, because failures of a plugin can show when the process ends."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

# For code that `run` takes: its peak of resident memory, in KiB. `ru_maxrss` has that of its parent, too.
PEAK = """
def peak():
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1])
"""


def run(code: str, directory: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `code` without JAX or XLA variables, except those in `environment`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    # -P: the installed package, not a checkout in the working directory.
    return subprocess.run(
        [sys.executable, "-P", "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(code)],
        cwd=directory,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def output(code: str, directory: Path | None = None, **environment: str) -> str:
    """Returns what `code` prints. The code must end with exit code 0."""
    done = run(code, directory, **environment)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout
