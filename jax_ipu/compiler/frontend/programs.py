"""The program on its way to the IR: as the client wrote it, as one IPU runs it, in the ops that the importer reads.

Each stage hands its MLIR module on, and may rewrite it in place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jaxlib.mlir import ir as mlir

from jax_ipu.compiler.frontend.large_constants import LargeConstants


@dataclass(frozen=True)
class ParsedProgram:
    """The program as the client wrote it, for `num_replicas * num_partitions` IPUs.

    `options` is the serialised xla.CompileOptionsProto that came with it. `constants` are those that stand-ins replace
    in `source`.
    """

    source: mlir.Module
    name: str
    options: bytes
    num_replicas: int
    num_partitions: int
    constants: LargeConstants = field(default_factory=LargeConstants)


@dataclass(frozen=True)
class WholeSignature:
    """The attributes of the arguments and results of a program before it was partitioned, by position."""

    arguments: list[dict[str, Any]]
    results: list[dict[str, Any]]


@dataclass(frozen=True)
class LocalProgram:
    """The program that each IPU runs. `whole` is the signature that it had for all of them; None for a single one."""

    source: mlir.Module
    whole: WholeSignature | None
    num_replicas: int
    num_partitions: int
    constants: LargeConstants = field(default_factory=LargeConstants)


@dataclass(frozen=True)
class LegalProgram:
    """A LocalProgram in the ops that the importer reads."""

    source: mlir.Module
    whole: WholeSignature | None
    num_replicas: int
    num_partitions: int
    constants: LargeConstants = field(default_factory=LargeConstants)
