"""Models as users of each framework write them: one file per framework, each with a list `ROWS`.

`tests/frameworks/test_zoo.py` checks them; `tools/ecosystem.py` measures them and writes the table of
docs/ecosystem.md.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from support.zoo.row import Row

_NO_ROWS = ("row", "measure")


def rows() -> Iterator[Row]:
    """Rows of all frameworks, by file name; a framework is imported only when one of its rows is built."""
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name):
        if module.name not in _NO_ROWS:
            yield from importlib.import_module(f"{__name__}.{module.name}").ROWS
