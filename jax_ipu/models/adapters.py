"""Recognises the framework of a model and converts the model to a JAX function.

A framework is never imported to recognise a model. The framework internals used here were tested with
flax 0.12, equinox 0.13, Keras 3.15, PyTorch 2.13 with torchax 0.0.13, transformers 5.23, onnx 1.23.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax_ipu.models.frameworks.compiled import exported_model, stablehlo_model
from jax_ipu.models.frameworks.equinox import equinox_model
from jax_ipu.models.frameworks.flax import linen_model, nnx_model
from jax_ipu.models.frameworks.functions import function_model, pair_model
from jax_ipu.models.frameworks.keras import keras_model
from jax_ipu.models.frameworks.onnx import onnx_model
from jax_ipu.models.frameworks.torch import torch_loss, torch_model
from jax_ipu.models.model import Model

KINDS = (
    "a Python function over NumPy-like arrays",
    "a pair (apply_fn, params)",
    "a flax model: a bound linen module, a pair (module, variables), or an nnx module",
    "an equinox module",
    "a Keras 3 model (JAX backend)",
    "a PyTorch nn.Module, also of Hugging Face",
    "an ONNX file (its path, or an onnx.ModelProto)",
    "StableHLO text or bytes",
    "a jax.export.Exported",
)

# Frameworks come before plain functions, because their models are callable as well.
_RECOGNISERS: tuple[Callable[[Any, tuple[Any, ...]], Model | None], ...] = (
    linen_model,
    nnx_model,
    equinox_model,
    keras_model,
    torch_model,
    onnx_model,
    exported_model,
    stablehlo_model,
    pair_model,
    function_model,
)


def adapt(model: Any, inputs: tuple[Any, ...]) -> Model:
    """The model as a JAX function.

    Args:
        model: one of KINDS.
        inputs: positional example inputs; only PyTorch and ONNX models use them.

    Raises:
        TypeError: the model is of no known kind; the message lists them.
        ImportError: the package that reads this kind is missing; the message says what to install.
    """
    for recognise in _RECOGNISERS:
        adapted = recognise(model, inputs)
        if adapted is not None:
            return adapted
    if isinstance(model, type):
        raise TypeError(
            f"{model.__name__} is a class, not a model: give an instance of it, as in {model.__name__}(...)"
        )
    kinds = "".join(f"\n  - {kind}" for kind in KINDS)
    raise TypeError(f"{type(model).__name__} is not a model that GraphCoreManager knows. A model may be:{kinds}")


def adapt_loss(loss: Any) -> Any:
    """Converts a loss of PyTorch to a function of JAX arrays; returns any other loss unchanged."""
    return torch_loss(loss) or loss
