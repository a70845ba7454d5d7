"""What to say of a name that does not exist: the one that was probably meant, or all that there are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# How alike two names are, where one is meant by the other. Those of one package begin alike and need more.
CLOSE = 0.6


def nearest(name: str, known: Iterable[str], close: float = CLOSE) -> str | None:
    """The known name that is most like this one, in upper or lower case; None if none is like it."""
    names = {one.lower(): one for one in sorted(known)}
    found = difflib.get_close_matches(name.lower(), names, 1, cutoff=close)
    return names[found[0]] if found else None


def suggestion(name: str, known: Iterable[str], close: float = CLOSE) -> str:
    """A sentence for the end of a message: "Did you mean ...?", or "There are ..."."""
    known = list(known)
    found = nearest(name, known, close)
    return f"There are {', '.join(known)}." if found is None else f"Did you mean {found}?"
