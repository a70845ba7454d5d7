"""Conversion of PyTorch modules by torch.export and torchax."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from jax_ipu.models.arrays import to_array
from jax_ipu.models.frameworks import huggingface
from jax_ipu.models.model import Model, loaded, required
from jax_ipu.models.sharing import identity

# PyPI's PyTorch for Linux is the CUDA build.
_CONVERTER = (
    "'jax_ipu[torch]'; torchax 0.0.13 works with PyTorch up to 2.13. PyPI's torch brings gigabytes of CUDA: the one "
    "without comes with `pip install 'torch<2.14' --index-url https://download.pytorch.org/whl/cpu`, before this"
)


def torch_model(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    """Returns the model if it is a `torch.nn.Module`, exported with `inputs` as example.

    Raises ImportError: torchax is missing or does not fit this PyTorch.
    """
    torch: Any = loaded("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        return None
    import_torchax(torch)
    graphs: Any = importlib.import_module("jax_ipu.models.frameworks.torch_graph")
    huggingface.register_caches()
    graphs.register_containers(graphs.structure(inputs))
    by_keyword = _are_keywords(model, inputs)

    def call(inputs: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return ((), inputs[0]) if by_keyword else (inputs, {})

    examples = jax.tree.map(lambda leaf: _torch_example(torch, leaf), inputs)

    @functools.cache
    def graph(evaluation: bool, shapes: tuple[tuple[int, ...], ...]) -> Any:
        """Exports the module at its first use; with evaluation=False in its current mode, for training."""
        leaves, tree = jax.tree.flatten(examples)
        fitting = [
            x if tuple(x.shape) == shape else x.new_zeros(shape) for x, shape in zip(leaves, shapes, strict=True)
        ]
        args, kwargs = call(jax.tree.unflatten(tree, fitting))
        mode = _evaluation_mode(model) if evaluation else contextlib.nullcontext()
        with mode, huggingface.prepared(model, kwargs):
            return graphs.Graph(model, args, kwargs, gradients=not evaluation)

    # All names, including further names of a tied tensor.
    parameters = dict(model.named_parameters(remove_duplicate=False))
    buffers = dict(model.named_buffers(remove_duplicate=False))
    trainable = {name: value for name, value in parameters.items() if value.requires_grad}
    frozen = {name: value for name, value in {**parameters, **buffers}.items() if name not in trainable}
    state = model.state_dict(keep_vars=True)

    def apply(trainable: Any, frozen: Any, *inputs: Any) -> Any:
        _warn_of_mode(torch, model)
        return graph(True, _shapes(inputs)).run({**trainable, **frozen}, *call(inputs), None)[0]

    def train(trainable: Any, frozen: Any, key: Any, *inputs: Any) -> tuple[Any, Any]:
        _warn_of_unregistered(torch, model)
        outputs, changed = graph(False, _shapes(inputs)).run({**trainable, **frozen}, *call(inputs), key)
        return outputs, {**frozen, **changed}

    def weights(trainable: Any, frozen: Any) -> dict[str, Any]:
        values = {**trainable, **frozen}
        return {name: np.asarray(values[name]).astype(to_array(old).dtype) for name, old in state.items()}

    return Model("PyTorch", apply, trainable, frozen, shared=True, train=train, weights=weights, wide=True)


def torch_loss(loss: Any) -> Callable[[Any, Any], Any] | None:
    """Returns a JAX function of (outputs, targets) if the loss is a module or function of torch.nn, else None."""
    torch: Any = loaded("torch")
    if torch is None:
        return None
    if not isinstance(loss, torch.nn.Module):
        if not str(getattr(loss, "__module__", "")).startswith("torch."):
            return None
        function = loss

        class Loss(torch.nn.Module):  # type: ignore[misc]
            def forward(self, outputs: Any, targets: Any) -> Any:
                return function(outputs, targets)

        loss = Loss()
    import_torchax(torch)

    def of_arrays(outputs: Any, targets: Any) -> Any:
        graphs: Any = importlib.import_module("jax_ipu.models.frameworks.torch_graph")
        examples = [torch.from_numpy(np.zeros(x.shape, x.dtype)) for x in (outputs, targets)]
        # Class numbers are int64 in PyTorch.
        examples = [x.long() if x.dtype == torch.int32 else x for x in examples]
        state = {name: to_array(value) for name, value in (*loss.named_parameters(), *loss.named_buffers())}
        return graphs.Graph(loss, tuple(examples), {}).run(state, (outputs, targets), {}, None)[0]

    return of_arrays


def import_torchax(torch: Any) -> None:
    """Imports torchax, with its table of operations.

    Raises ImportError, with the command to install, where torchax is missing or does not fit this PyTorch.
    """
    try:
        with _named_tensors(torch):
            required("torchax", "a PyTorch model", _CONVERTER).default_env()
    except AttributeError as error:
        raise ImportError(
            f"torchax does not import with PyTorch {torch.__version__}: pip install {_CONVERTER} ({error})"
        ) from error


@contextlib.contextmanager
def _named_tensors(torch: Any) -> Iterator[None]:
    """While torchax is imported, operations of named tensors have stand-ins where PyTorch does not have them.

    torchax 0.0.13 lists them among operations that are written in others; PyTorch 2.13 dropped them.
    """
    packet: Any = torch._ops.OpOverloadPacket
    original = packet.__getattr__

    def overload(self: Any, name: str) -> Any:
        try:
            return original(self, name)
        except AttributeError:
            if "dimname" not in name.lower() and "names" not in name:
                raise
            return object()

    packet.__getattr__ = overload
    try:
        yield
    finally:
        packet.__getattr__ = original


def _are_keywords(model: Any, inputs: tuple[Any, ...]) -> bool:
    """Whether the inputs are one dict of keyword arguments.

    That is so for models of Hugging Face, and where all its names are parameters of `forward`.
    """
    if len(inputs) != 1 or not isinstance(inputs[0], dict) or not all(isinstance(name, str) for name in inputs[0]):
        return False
    if huggingface.is_pretrained(model):
        settings = [name for name, value in inputs[0].items() if isinstance(value, (bool, str))]
        if settings:
            raise TypeError(
                f"{', '.join(settings)} is a setting, not an array: give it in model.config, and only arrays as inputs"
            )
        return True
    try:
        inspect.signature(model.forward).bind(**inputs[0])
    except TypeError:
        return False
    return True


@contextlib.contextmanager
def _evaluation_mode(model: Any) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def _warn_of_mode(torch: Any, model: Any) -> None:
    other = (torch.nn.modules.dropout._DropoutNd, torch.nn.modules.batchnorm._BatchNorm)
    if any(module.training and isinstance(module, other) for module in model.modules()):
        warnings.warn(
            f"{type(model).__name__} is in training mode, and is compiled as after model.eval(): without dropout, with "
            "the running statistics",
            stacklevel=2,
        )


def _warn_of_unregistered(torch: Any, model: Any) -> None:
    """Warns of parameters in plain lists or dicts, which PyTorch does not register and which are not trained."""
    known = {identity(value) for value in model.parameters()}
    for path, module in model.named_modules():
        for name, held in vars(module).items():
            values = held.values() if isinstance(held, dict) else held if isinstance(held, (list, tuple)) else ()
            for value in values if not name.startswith("_") else ():
                is_parameter = isinstance(value, torch.nn.Parameter) and value.requires_grad
                if is_parameter and identity(value) not in known:
                    where = f"{path}.{name}".lstrip(".")
                    warnings.warn(
                        f"a parameter in {where} is not trained, as the module does not know it: use "
                        "torch.nn.ParameterList or ParameterDict",
                        stacklevel=2,
                    )


def _shapes(inputs: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(np.shape(leaf) for leaf in jax.tree.leaves(inputs))


def _torch_example(torch: Any, leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf
    return torch.from_numpy(np.zeros(np.shape(leaf), leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype))
