"""The list of tests that are known to fail, each with a reason."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path


@dataclass(frozen=True)
class KnownFailure:
    """Tests of one file, as globs over `Class::test`, that fail for one reason."""

    reason: str
    tests: tuple[str, ...]
    columns: tuple[str, ...] = ()

    def matches(self, test: str, column: str) -> bool:
        """Whether this entry lists a test in one of the report's columns; without `columns`, in all."""
        return column in (self.columns or (column,)) and any(fnmatchcase(test, pattern) for pattern in self.tests)


class KnownFailures:
    """Known failures by file stem, and the files that are not run at all."""

    def __init__(self, files: dict[str, list[KnownFailure]], excluded: dict[str, str]):
        self.files = files
        self.excluded = excluded

    @classmethod
    def read(cls, path: Path) -> KnownFailures:
        """Reads the list. Raises ValueError for an entry without reason or tests."""
        table = tomllib.loads(path.read_text())
        excluded = table.pop("excluded", {})
        files: dict[str, list[KnownFailure]] = {}
        for stem, entries in table.items():
            for entry in entries:
                if not entry.get("reason") or not entry.get("tests"):
                    raise ValueError(f"{path}: an entry of {stem} has no reason or no tests")
                columns = tuple(entry.get("columns", ()))
                files.setdefault(stem, []).append(KnownFailure(entry["reason"], tuple(entry["tests"]), columns))
        return cls(files, excluded)

    def reason(self, stem: str, test: str, column: str) -> str | None:
        """Returns why this test is known to fail in a column of the report; None if it is not."""
        return next((known.reason for known in self.files.get(stem, []) if known.matches(test, column)), None)
