"""PyTorch modules, through torch.export and torchax."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jax_ipu.models.arrays import to_array
from jax_ipu.models.model import Model, loaded, required


def torch_model(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    """The model if it is a `torch.nn.Module`; exported with `inputs` as the example."""
    torch: Any = loaded("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        return None
    converter = "'jax_ipu[torch]' (torchax 0.0.13 works with PyTorch up to 2.11)"
    try:
        export = required("torchax.export", "a PyTorch model", converter)
        required("torchax", "a PyTorch model", converter).default_env()  # its table of operations
    except AttributeError as error:
        raise ImportError(
            f"torchax does not import with PyTorch {torch.__version__}: pip install {converter} ({error})"
        ) from error
    examples = jax.tree.map(lambda leaf: _torch_example(torch, leaf), inputs)
    exported = torch.export.export(model, examples)
    names, values, run = export.exported_program_to_jax(exported, export_raw=True)
    learned = {name for name, value in model.named_parameters() if value.requires_grad}
    weights = [(name, to_array(value)) for name, value in zip(_all_names(names, len(values)), values, strict=True)]
    trainable = {name: value for name, value in weights if name in learned}
    frozen = {name: value for name, value in weights if name not in learned}
    order = [name for name, _ in weights]
    out_spec = exported.call_spec.out_spec

    def apply(trainable: Any, frozen: Any, *inputs: Any) -> Any:
        every = {**trainable, **frozen}
        results = run([every[name] for name in order], inputs)
        return importlib.import_module("torch.utils._pytree").tree_unflatten(list(results), out_spec)

    return Model("PyTorch", apply, trainable, frozen)


def _all_names(names: Sequence[str], count: int) -> list[str]:
    """The converter appends constants without a name to the named weights."""
    return [*names, *(f"constant {i}" for i in range(count - len(names)))]


def _torch_example(torch: Any, leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf
    return torch.from_numpy(np.zeros(np.shape(leaf), leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype))
