"""What is said of an error in the code of the user: the error, and the line of the user's files that led to it."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

from jax_ipu.compiler.errors import CompileError

# Folders with the code of others: Python's library, and installed packages.
_OF_OTHERS = tuple({str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "purelib", "platlib")})
_THIS = str(Path(__file__).resolve().parents[1])


def message_of(error: BaseException) -> str:
    """The error as a message, with the line of the user that raised it, or called what did.

    Errors of the compiler have the line of the operation that they are about.
    """
    if isinstance(error, CompileError):
        return str(error)
    lines = [f"{type(error).__name__}: {error}" if str(error) else type(error).__name__]
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)]
    if frames:
        frame = frames[-1]
        where = "" if frame.name == "<module>" else f", in {frame.name}"
        lines.append(f"  {_shown(frame.filename)}:{frame.lineno}{where}: {frame.line}")
    return "\n".join(lines)


def _is_users(filename: str) -> bool:
    # Names such as "<frozen importlib._bootstrap>" are no files.
    path = str(Path(filename).resolve())
    return Path(path).is_file() and not path.startswith((_THIS, *_OF_OTHERS))


def _shown(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename
