"""The error that every stage of the compiler raises, with its PJRT status code (PJRT_Error_Code)."""

from __future__ import annotations

CANCELLED = 1
INVALID_ARGUMENT = 3
RESOURCE_EXHAUSTED = 8
UNIMPLEMENTED = 12
INTERNAL = 13


class CompileError(Exception):
    """A program that cannot be compiled.

    The message says what happened, where, and what to do; `code` is the PJRT status that JAX shows with it.
    """

    def __init__(self, message: str, code: int = UNIMPLEMENTED) -> None:
        super().__init__(message)
        self.code = code
