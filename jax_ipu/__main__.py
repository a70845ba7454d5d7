"""``python -m jax_ipu``: the command line, which is also installed as ``jax-ipu``."""

from __future__ import annotations

import sys

from jax_ipu.command_line import main

if __name__ == "__main__":
    sys.exit(main())
