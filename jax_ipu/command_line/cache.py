"""``jax-ipu cache``: lists and clears the programs for ``ipu``, and damaged ones, in JAX's compilation cache."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sized
from pathlib import Path
from typing import Any

from jax_ipu.command_line.arguments import add_command, add_json
from jax_ipu.command_line.output import OK, UsageError, print_json
from jax_ipu.compiler.tables import bytes_text, text_table

# How many entries that cannot be used are explained.
_SHOWN = 5
_VARIABLE = "JAX_COMPILATION_CACHE_DIR"


def add_commands(commands: Any) -> None:
    """Adds the commands to the parser."""
    listed, cleared = ["jax-ipu cache list"], ["jax-ipu cache clear --stale", "jax-ipu cache clear --dir /tmp/cache"]
    text = "list or clear the compiled programs in JAX's compilation cache"
    cache = add_command(commands, "cache", text, [*listed, *cleared])
    actions = cache.add_subparsers(required=True, metavar="ACTION")
    listing = add_command(actions, "list", "list the programs for ipu, and damaged entries", listed)
    listing.set_defaults(run=_list)
    text = "remove the programs for ipu and damaged entries; programs for other platforms stay"
    clear = add_command(actions, "clear", text, cleared)
    clear.add_argument("--stale", action="store_true", help="only those that this release cannot read, or nobody")
    clear.set_defaults(run=_clear)
    for parser in (listing, clear):
        parser.add_argument("--dir", metavar="FOLDER", help=f"the folder; by default that of {_VARIABLE}")
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
        rows.append((e.name, bytes_text(e.size), written, e.target or e.state, str(e.num_ipus or "")))
    print("\n".join(text_table(rows, left=(0, 2, 3))))
    print(f"{_count(found)}, {bytes_text(sum(e.size for e in found))} in {folder}")
    if useless := [e for e in found if not e.usable]:
        for e in useless[:_SHOWN]:
            print(f"{e.path.name}: {e.problem}")
        print(f"{len(useless)} cannot be used: jax-ipu cache clear --stale removes them")
    return OK


def _count(found: Sized) -> str:
    return f"{len(found)} program{'' if len(found) == 1 else 's'}"


def _clear(options: argparse.Namespace) -> int:
    from jax_ipu.integration.compilation_cache import entries

    removed = [entry for entry in entries(_folder(options)) if not (options.stale and entry.usable)]
    for entry in removed:
        try:
            entry.remove()
        except OSError as error:
            raise UsageError(f"{entry.path} cannot be removed: {error.strerror}") from error
    size = sum(entry.size for entry in removed)
    if options.json:
        print_json({"removed": len(removed), "bytes": size})
    else:
        print(f"removed {_count(removed)}, {bytes_text(size)}")
    return OK
