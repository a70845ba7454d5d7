"""The error that every stage of the compiler raises, with its PJRT status code (PJRT_Error_Code)."""

from __future__ import annotations

CANCELLED = 1
INVALID_ARGUMENT = 3
RESOURCE_EXHAUSTED = 8
UNIMPLEMENTED = 12
INTERNAL = 13


class CompileError(Exception):
    """A program that cannot be compiled.

    The message says what happened, where, and what to do.

    Attributes:
        code: the PJRT status that JAX shows with it, e.g. 8 for RESOURCE_EXHAUSTED.

    Examples:
        >>> import jax.numpy as jnp, jax_ipu
        >>> from jax_ipu.compiler import CompileError
        >>> try:
        ...     jax_ipu.estimate(jnp.sin, jnp.ones(8), target="ipu9")
        ... except CompileError as error:
        ...     print(error.code)
        3
    """

    def __init__(self, message: str, code: int = UNIMPLEMENTED) -> None:
        super().__init__(message)
        self.code = code
