"""Models of Hugging Face with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.zoo.row import Case, Row


def _case(name: str, make: str, rows: int, length: int, precision: str, training: bool) -> Callable[[], Case]:
    def build() -> Case:
        import torch
        import transformers

        from support import huggingface_models
        from support.zoo.torch import compiled_case, training_case

        torch.manual_seed(0)
        model: Any = getattr(huggingface_models, make)(transformers, name)
        batch = huggingface_models.batch_for(torch, name, model, rows, length)
        if training:
            return training_case(model, None, batch, precision, ("AdamW", 1e-3))
        del batch["labels"]
        if name == "T5":
            batch["decoder_input_ids"] = batch["input_ids"]
        return compiled_case(model, batch, precision)

    return build


_NEEDS = ("torch", "torchax", "optax", "transformers")


def _row(
    name: str, make: str, rows: int, length: int, precision: str, task: str, tolerance: float, small: bool = False
) -> Row:
    size = {"tiny": "tiny", "full_size": "base"}[make] if name != "GPT-2" or make == "tiny" else "small"
    shape = f"{rows} x {length}" if name != "ViT" else f"b{rows}"
    build = _case(name, make, rows, length, precision, task == "training")
    return Row(f"{name} {size}, {shape}", "Hugging Face", task, precision, 1, tolerance, build, _NEEDS, small)


_TINY = ("GPT-2", "BERT", "DistilBERT", "ViT", "T5")
_FULL = (("GPT-2", 1, 128), ("BERT", 1, 128), ("DistilBERT", 2, 128), ("ViT", 1, 0))
ROWS = [
    *[_row(name, "tiny", 2, 8, "float32", "inference", 1e-4, small=True) for name in _TINY],
    *[_row(name, "tiny", 2, 8, "float32", "training", 1e-3, small=name == "GPT-2") for name in _TINY],
    *[_row(name, "full_size", rows, length, "float32", "inference", 1e-3) for name, rows, length in _FULL],
    *[_row(name, "full_size", rows, length, "float16", "inference", 5e-2) for name, rows, length in _FULL],
]
