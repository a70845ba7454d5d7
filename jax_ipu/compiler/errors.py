"""The error every compiler stage raises, with the PJRT status code that JAX shows."""

from __future__ import annotations

CANCELLED = 1
INVALID_ARGUMENT = 3
RESOURCE_EXHAUSTED = 8
UNIMPLEMENTED = 12
INTERNAL = 13


class CompileError(Exception):
    """A program that cannot be compiled. `code` is the PJRT status, the text says what, where and what to do."""

    def __init__(self, message: str, code: int = UNIMPLEMENTED) -> None:
        super().__init__(message)
        self.code = code
