"""Models that are programs already: jax.export.Exported, StableHLO text and bytes."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jax_ipu.models.model import Model


def exported_model(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    """The model if it is a `jax.export.Exported`."""
    from jax import export

    if not isinstance(model, export.Exported):
        return None
    return Model("jax.export.Exported", _call_exported(model), fixed_types=True)


def _call_exported(exported: Any) -> Callable[..., Any]:
    # StableHLO does not depend on the platform; the compiler refuses custom calls of other platforms by name.
    portable = dataclasses.replace(exported, platforms=("ipu",))

    def apply(trainable: Any, frozen: Any, *inputs: Any) -> Any:
        return portable.call(*inputs)

    return apply


def stablehlo_model(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    """The model if it is StableHLO text or bytes, or the path of a file with them."""
    if isinstance(model, os.PathLike) or (isinstance(model, str) and "\n" not in model):
        path = Path(model)
        if path.suffix not in (".mlir", ".stablehlo") or not path.is_file():
            return None
        model = path.read_bytes()
    if not isinstance(model, (str, bytes)):
        return None
    program = model.encode() if isinstance(model, str) else model
    if not program.startswith(b"ML\xefR") and b"func.func" not in program and b"@main" not in program:
        return None
    from jax_ipu.models.stablehlo import exported_of

    return Model("StableHLO", _call_exported(exported_of(program)), fixed_types=True)
