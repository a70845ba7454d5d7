"""ONNX files."""

from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np

from jax_ipu.models.model import Model, loaded, required


def onnx_model(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    """The model if it is an `onnx.ModelProto` or the path of an ONNX file."""
    is_path = isinstance(model, os.PathLike) or (isinstance(model, str) and "\n" not in model)
    onnx: Any = loaded("onnx")
    if not (is_path and str(model).endswith(".onnx")) and (onnx is None or not isinstance(model, onnx.ModelProto)):
        return None
    converter = required("jaxonnxruntime.call_onnx", "an ONNX model", "'jax_ipu[onnx]'")
    onnx = required("onnx", "an ONNX model", "'jax_ipu[onnx]'")
    proto = onnx.load(os.fspath(model)) if is_path else model
    names = [i.name for i in proto.graph.input if i.name not in {w.name for w in proto.graph.initializer}]
    outputs = [o.name for o in proto.graph.output]

    def named(inputs: tuple[Any, ...]) -> dict[str, Any]:
        if len(inputs) == 1 and isinstance(inputs[0], dict):
            return dict(inputs[0])
        if len(inputs) != len(names):
            raise ValueError(f"the ONNX model has {len(names)} inputs ({', '.join(names)}), {len(inputs)} were given")
        return dict(zip(names, inputs, strict=True))

    examples = {k: np.zeros(np.shape(v), getattr(v, "dtype", np.float32)) for k, v in named(inputs).items()}
    # Shapes and axes are initializers as well: they must be known when the model is traced.
    importlib.import_module("jaxonnxruntime.config_class").config.update(
        "jaxort_only_allow_initializers_as_static_args", True
    )
    run, params = converter.call_onnx_model(proto, examples)
    weights = {k: np.asarray(v) for k, v in params.items() if np.issubdtype(np.asarray(v).dtype, np.inexact)}
    static = {k: v for k, v in params.items() if k not in weights}

    def apply(weights: Any, frozen: Any, *inputs: Any) -> Any:
        results = run({**static, **weights}, named(inputs))
        return results[0] if len(outputs) == 1 else tuple(results)

    return Model("ONNX", apply, weights)
