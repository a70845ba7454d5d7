"""``jax-ipu cache``: lists and clears the programs for ``ipu`` in JAX's persistent compilation cache."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

from jax_ipu.command_line.output import OK, UsageError, add_json, print_json
from jax_ipu.compiler.tables import bytes_text, text_table

_VARIABLE = "JAX_COMPILATION_CACHE_DIR"


def add_commands(commands: Any) -> None:
    """Adds the commands to the parser."""
    cache = commands.add_parser("cache", help="list or clear the compiled programs in JAX's compilation cache")
    actions = cache.add_subparsers(required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list the programs for ipu")
    listing.set_defaults(run=_list)
    clear = actions.add_parser("clear", help="remove the programs for ipu; those for other platforms stay")
    clear.add_argument("--stale", action="store_true", help="only those that this release cannot read")
    clear.set_defaults(run=_clear)
    for parser in (listing, clear):
        parser.add_argument("--dir", help=f"the folder; by default that of {_VARIABLE}")
        add_json(parser)


def _folder(options: argparse.Namespace) -> Path:
    folder = options.dir or os.environ.get(_VARIABLE)
    if not folder:
        raise UsageError(f"there is no compilation cache: set {_VARIABLE}, or give --dir")
    if not Path(folder).is_dir():
        raise UsageError(f"there is no folder {folder}")
    return Path(folder)


def _list(options: argparse.Namespace) -> int:
    from jax_ipu.integration.compilation_cache import entries

    folder = _folder(options)
    found = list(entries(folder))
    if options.json:
        print_json([{**vars(entry), "path": str(entry.path)} for entry in found])
        return OK
    rows = [("program", "size", "written", "target", "IPUs")]
    for e in found:
        written = time.strftime("%Y-%m-%d %H:%M", time.localtime(e.written))
        rows.append((e.name, bytes_text(e.size), written, e.target or "stale", str(e.num_ipus or "")))
    print("\n".join(text_table(rows, left=(0, 2, 3))))
    print(f"{len(found)} programs, {bytes_text(sum(e.size for e in found))} in {folder}")
    return OK


def _clear(options: argparse.Namespace) -> int:
    from jax_ipu.integration.compilation_cache import entries

    removed = [entry for entry in entries(_folder(options)) if not (options.stale and entry.usable)]
    for entry in removed:
        entry.remove()
    size = sum(entry.size for entry in removed)
    if options.json:
        print_json({"removed": len(removed), "bytes": size})
    else:
        print(f"removed {len(removed)} programs, {bytes_text(size)}")
    return OK
