"""ONNX files as today's PyTorch exports them; the framework's own CPU is PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from support.zoo.row import Case, Row

# (torch module, example inputs)
Exported = tuple[Any, tuple[Any, ...]]


def _case(build: Callable[[], Exported]) -> Case:
    def ipu() -> Any:
        import torch

        from jax_ipu import GraphCoreManager

        model, inputs = build()
        proto = torch.onnx.export(model, inputs, dynamo=True, verbose=False).model_proto
        manager = GraphCoreManager()
        compiled = manager.compile_model(proto, inputs)
        return lambda: np.asarray(compiled(*inputs))

    def cpu() -> Any:
        import torch

        model, inputs = build()

        def step() -> Any:
            with torch.no_grad():
                return model(*inputs).numpy()

        return step

    return Case(ipu, cpu)


def _images(name: str, size: int, batch: int, **settings: Any) -> Callable[[], Exported]:
    def build() -> Exported:
        import torch
        import torchvision

        torch.manual_seed(0)
        model = getattr(torchvision.models, name)(**settings)
        head = getattr(getattr(model, "heads", None), "head", None)
        if head is not None:  # torchvision initialises it with zeros
            torch.nn.init.normal_(head.weight, std=0.05)
        return model.eval(), (torch.randn(batch, 3, size, size),)

    return build


def _bert(length: int, **settings: Any) -> Callable[[], Exported]:
    def build() -> Exported:
        import torch
        import transformers

        class Logits(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = transformers.BertForMaskedLM(transformers.BertConfig(**settings))

            def forward(self, ids: Any, mask: Any) -> Any:
                return self.model(input_ids=ids, attention_mask=mask).logits

        torch.manual_seed(0)
        model = Logits().eval()
        words = model.model.config.vocab_size
        mask = torch.ones(1, length, dtype=torch.long)
        mask[:, -length // 4 :] = 0
        return model, (torch.randint(0, words, (1, length)), mask)

    return build


def _row(name: str, build: Callable[[], Exported], package: str, *, small: bool = False) -> Row:
    packages = ("onnx", "onnxscript", "torch", package)
    return Row(name, "ONNX", "inference", "float32", 1, 1e-3, lambda: _case(build), packages, small=small)


ROWS = [
    _row(
        "BERT 2 x 32, 1 x 16",
        _bert(16, vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64),
        "transformers",
        small=True,
    ),
    _row("MobileNetV3 small 64x64 b2", _images("mobilenet_v3_small", 64, 2, num_classes=10), "torchvision", small=True),
    _row("ResNet50 b1", _images("resnet50", 224, 1), "torchvision"),
    _row("MobileNetV3 large b4", _images("mobilenet_v3_large", 224, 4), "torchvision"),
    _row("ViT-B/16 b1", _images("vit_b_16", 224, 1), "torchvision"),
    _row("BERT-base, 1 x 128", _bert(128), "transformers"),
]
