"""One compilation and how it ended: estimates and reports are also of programs that do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jax_ipu import _ipu
from jax_ipu.compiler.build import BuiltProgram
from jax_ipu.compiler.errors import CompileError
from jax_ipu.compiler.frontend.programs import LegalProgram
from jax_ipu.compiler.options import Options


@dataclass(frozen=True)
class Compilation:
    """A compilation that built a program, or found that it does not fit.

    Attributes:
        name: the name of the program.
        num_ipus: for how many IPUs it is.
        target: the IPU.
        settings: the options of the user.
        built: the program; None where it does not fit.
        error: why it does not fit: _ipu.OutOfMemory, or capacity.TooLarge and others for what is seen early.
        phases: seconds of each stage of the compiler.
        legal: the program before the passes; None where it is not legal.
    """

    name: str
    num_ipus: int
    target: _ipu.Target
    settings: Options
    built: BuiltProgram | None = None
    error: _ipu.OutOfMemory | CompileError | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    legal: LegalProgram | None = None
