"""PyTorch modules."""

from __future__ import annotations

import copy
from typing import Any

from support.zoo.row import Case, Row


def compiled_case(model: Any, inputs: Any, precision: str, ipus: int = 1) -> Case:
    """One call of a module in evaluation mode; `inputs` is an argument, a tuple of them, or a dict of keywords."""
    import torch

    from jax_ipu import GraphCoreManager

    def on_ipu() -> Any:
        compiled = GraphCoreManager(ipus, precision).compile_model(model, inputs)
        return lambda: _result(compiled.execute(inputs))

    def on_cpu() -> Any:
        def step() -> Any:
            with torch.no_grad():
                return _result(model(**inputs) if isinstance(inputs, dict) else model(inputs))

        return step

    return Case(on_ipu, on_cpu)


def training_case(
    model: Any, loss: str | None, batch: Any, precision: str, settings: Any = ("SGD", 0.1), *, exact: bool = False
) -> Case:
    """One training step. With loss=None, the module computes its loss itself.

    `exact`: the reference is PyTorch in float64.
    """
    import torch

    from jax_ipu import GraphCoreManager

    name, rate = settings
    ours = copy.deepcopy(model)

    def on_ipu() -> Any:
        optimizer = getattr(torch.optim, name)(ours.parameters(), rate)
        step = GraphCoreManager(1, precision).compile_training_step(ours, loss, optimizer, batch)
        return lambda: step.execute(batch)

    def on_cpu(wide: bool) -> Any:
        theirs = copy.deepcopy(model)
        inputs, labels = (None, None) if loss is None else batch
        if wide:
            theirs, inputs = theirs.double(), inputs.double()
        optimizer = getattr(torch.optim, name)(theirs.parameters(), rate)

        def step() -> Any:
            optimizer.zero_grad()
            if loss is None:
                value = theirs(**batch).loss
            else:
                value = torch.nn.functional.cross_entropy(theirs(inputs), labels)
            value.backward()
            optimizer.step()
            return value.item()

        return step

    return Case(on_ipu, lambda: on_cpu(False), (lambda: on_cpu(True)) if exact else None)


def _result(outputs: Any) -> Any:
    """The logits in the output of a Hugging Face model; other outputs are returned as they are."""
    return getattr(outputs, "logits", outputs)


def _tied() -> Case:
    import torch

    from support.torch_models import language_model

    torch.manual_seed(0)
    model = language_model(torch, vocabulary=1000, width=64)
    batch = torch.randint(0, 1000, (256,)), torch.randint(0, 1000, (256,))
    return training_case(model, "cross_entropy", batch, "float32", ("AdamW", 1e-2))


def _resnet(training: bool) -> Case:
    import torch
    import torchvision

    torch.manual_seed(0)
    model = torchvision.models.resnet18()
    images, labels = torch.randn(4, 3, 224, 224), torch.arange(4)
    if training:
        # Rounding decides whether activations near zero pass a ReLU: on the CPU, float32 differs from float64 as much.
        return training_case(model, "cross_entropy", (images, labels), "float32", ("SGD", 0.01), exact=True)
    return compiled_case(model.eval(), images, "float32")


_NEEDS = ("torch", "torchax", "optax")
ROWS = [
    Row("tied language model, 256 tokens", "PyTorch", "training", "float32", 1, 1e-4, _tied, _NEEDS, small=True),
    Row("ResNet-18 b4", "PyTorch", "inference", "float32", 1, 1e-4, lambda: _resnet(False), (*_NEEDS, "torchvision")),
    Row("ResNet-18 b4", "PyTorch", "training", "float32", 1, 1e-3, lambda: _resnet(True), (*_NEEDS, "torchvision")),
]
