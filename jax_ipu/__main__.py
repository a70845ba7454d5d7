"""``python -m jax_ipu library-path`` prints where the PJRT plugin is, for clients in other languages."""

from __future__ import annotations

import argparse

from jax_ipu import _ipu


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="python -m jax_ipu", description="JAX on Graphcore IPUs.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("library-path", help="print the path of libpjrt_ipu.so, the PJRT plugin")
    parser.parse_args()
    print(_ipu.library_path())


if __name__ == "__main__":
    main()
