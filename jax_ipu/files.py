"""Errors of files that say what could not be written or read, why, and what to do."""

from __future__ import annotations

import errno
from types import TracebackType
from typing import NamedTuple

_REASONS = {
    errno.EEXIST: "there is a file where its folder would be",
    errno.ENOTDIR: "there is a file where its folder would be",
    errno.EISDIR: "there is a folder of that name",
    errno.ENOENT: "there is no such file or folder",
    errno.EACCES: "this process may not do that there",
    errno.EPERM: "this process may not do that there",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "the disk is full",
}


class explained(NamedTuple):  # in lower case: it reads as a function
    """A context whose errors of files are of the same class, and say `what` failed, why, and the `advice`.

    Examples:
        >>> with explained("the report cannot be written", "give another path"):
        ...     open("/no/such/folder/report.html", "w")
        Traceback (most recent call last):
        FileNotFoundError: [Errno 2] the report cannot be written: there is no such file or folder; give another path: \
'/no/such/folder/report.html'
    """

    what: str
    advice: str

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, OSError) and error.errno is not None:
            reason = _REASONS.get(error.errno, error.strerror)
            raise type(error)(error.errno, f"{self.what}: {reason}; {self.advice}", error.filename) from None
