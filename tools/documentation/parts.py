"""Parts of documents that tools make, between two lines."""

from __future__ import annotations

import sys
from pathlib import Path


def write_part(document: Path, begin: str, end: str, text: str) -> None:
    """Replaces what a document has between two lines; exits where it lacks the first."""
    whole = document.read_text()
    if begin not in whole:
        sys.exit(f"{document} has no line {begin}")
    before, rest = whole.split(begin)
    document.write_text(f"{before}{begin}\n\n{text}\n{end}{rest.split(end)[1]}")
