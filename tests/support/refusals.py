"""Whether the compiler refuses a program with a message."""

from jax_ipu import compiler
from jax_ipu.compiler import CompileError


def refused(program_bytes):
    """True for a CompileError that says what is wrong, False for a program that compiles; other errors are raised."""
    try:
        compiler.compile(bytes(program_bytes), "mlir", b"", "ipu2:4")
    except CompileError as error:
        assert error.code in (3, 12), error  # INVALID_ARGUMENT or UNIMPLEMENTED
        assert len(str(error)) > 20
        return True
    return False
