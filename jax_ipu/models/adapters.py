"""Models of every kind as one form: a JAX function of weights and inputs.

Frameworks are imported only when a model of theirs is met. The internals they are told apart by were tried with
flax 0.12, equinox 0.13, Keras 3.15, PyTorch 2.11 with torchax 0.0.13, onnx 1.23 with jaxonnxruntime 0.3.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import jax
import numpy as np

KINDS = (
    "a Python function over NumPy-like arrays",
    "a pair (apply_fn, params)",
    "a flax model: a bound linen module, a pair (module, variables), or an nnx module",
    "an equinox module",
    "a Keras 3 model (JAX backend)",
    "a PyTorch nn.Module",
    "an ONNX file (its path, or an onnx.ModelProto)",
    "StableHLO text or bytes",
    "a jax.export.Exported",
)


class Model(NamedTuple):
    """`apply(trainable, frozen, *inputs)` gives the outputs; the weights are pytrees of arrays."""

    kind: str
    apply: Callable[..., Any]
    trainable: Any = ()
    frozen: Any = ()
    fixed_types: bool = False  # a compiled program, whose element types cannot be changed any more


def adapt(model: Any, inputs: tuple[Any, ...]) -> Model:
    """The model as a JAX function.

    Args:
        model: one of KINDS.
        inputs: positional example inputs; only PyTorch and ONNX models look at them.

    Raises:
        TypeError: the model is of no known kind; the message lists them.
        ImportError: the package that reads this kind is missing; the message says what to install.
    """
    for recognise in _RECOGNISERS:
        adapted = recognise(model, inputs)
        if adapted is not None:
            return adapted
    kinds = "".join(f"\n  - {kind}" for kind in KINDS)
    raise TypeError(f"{type(model).__name__} is not a model that GraphCoreManager knows. A model may be:{kinds}")


def _loaded(name: str) -> ModuleType | None:
    """A framework's module when the process has imported it: before that, no model can be of that framework."""
    return sys.modules.get(name)


def _required(name: str, kind: str, install: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{kind} needs the package {name}: pip install {install} ({error})") from error


def _flax_linen(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    linen: Any = _loaded("flax.linen")
    if linen is None:
        return None
    if isinstance(model, linen.Module):
        if model.scope is None:
            raise TypeError(
                "a flax.linen module has no weights of its own: give (module, variables) or module.bind(variables)"
            )
        module, variables = model.unbind()
    elif isinstance(model, tuple) and len(model) == 2 and isinstance(model[0], linen.Module):
        module, variables = model
    else:
        return None
    frozen = {name: values for name, values in variables.items() if name != "params"}

    def apply(params: Any, frozen: Any, *inputs: Any) -> Any:
        return module.apply({"params": params, **frozen}, *inputs)

    return Model("flax.linen", apply, variables.get("params", {}), frozen)


def _flax_nnx(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    nnx: Any = _loaded("flax.nnx")
    if nnx is None or not isinstance(model, nnx.Module):
        return None
    graph, params, rest = nnx.split(model, nnx.Param, ...)

    def apply(params: Any, rest: Any, *inputs: Any) -> Any:
        return nnx.merge(graph, params, rest)(*inputs)

    return Model("flax.nnx", apply, params, rest)


def _equinox(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    eqx: Any = _loaded("equinox")
    if eqx is None or not isinstance(model, eqx.Module):
        return None
    params, rest = eqx.partition(model, eqx.is_inexact_array)
    arrays, static = eqx.partition(rest, eqx.is_array)

    def apply(params: Any, arrays: Any, *inputs: Any) -> Any:
        return eqx.combine(params, arrays, static)(*inputs)

    return Model("equinox", apply, params, arrays)


def _keras(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    keras: Any = _loaded("keras")
    if keras is None or not isinstance(model, keras.Layer):
        return None
    if keras.backend.backend() != "jax":
        raise TypeError(
            f"this Keras runs on {keras.backend.backend()}: set KERAS_BACKEND=jax before Keras is first imported"
        )
    if not model.built:
        model(*inputs)

    def values(variables: Sequence[Any]) -> list[Any]:
        return [variable.value for variable in variables]

    def apply(trainable: Any, frozen: Any, *inputs: Any) -> Any:
        outputs, _ = model.stateless_call(trainable, frozen, *inputs, training=False)
        return outputs

    return Model("Keras", apply, values(model.trainable_variables), values(model.non_trainable_variables))


def _torch(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    torch: Any = _loaded("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        return None
    converter = "'jax_ipu[torch]' (torchax 0.0.13 works with PyTorch up to 2.11)"
    try:
        export = _required("torchax.export", "a PyTorch model", converter)
        _required("torchax", "a PyTorch model", converter).default_env()  # its table of operations
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


def _onnx(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    is_path = isinstance(model, os.PathLike) or (isinstance(model, str) and "\n" not in model)
    onnx: Any = _loaded("onnx")
    if not (is_path and str(model).endswith(".onnx")) and (onnx is None or not isinstance(model, onnx.ModelProto)):
        return None
    converter = _required("jaxonnxruntime.call_onnx", "an ONNX model", "'jax_ipu[onnx]'")
    onnx = _required("onnx", "an ONNX model", "'jax_ipu[onnx]'")
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


def _exported(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    from jax import export

    if not isinstance(model, export.Exported):
        return None
    return Model("jax.export.Exported", _call_exported(model), fixed_types=True)


def _call_exported(exported: Any) -> Callable[..., Any]:
    # StableHLO is the same for every platform; what is not portable in it, the compiler refuses by name.
    portable = dataclasses.replace(exported, platforms=("ipu",))

    def apply(trainable: Any, frozen: Any, *inputs: Any) -> Any:
        return portable.call(*inputs)

    return apply


def _stablehlo(model: Any, inputs: tuple[Any, ...]) -> Model | None:
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


def _pair(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    if not (isinstance(model, tuple) and len(model) == 2 and callable(model[0])):
        return None
    function, params = model

    def apply(params: Any, frozen: Any, *inputs: Any) -> Any:
        return function(params, *inputs)

    return Model("(apply_fn, params)", apply, params)


def _function(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    if not callable(model) or isinstance(model, type):
        return None

    def apply(trainable: Any, frozen: Any, *inputs: Any) -> Any:
        return model(*inputs)

    return Model("function", apply)


# Frameworks first: their models are callable as well.
_RECOGNISERS: tuple[Callable[[Any, tuple[Any, ...]], Model | None], ...] = (
    _flax_linen,
    _flax_nnx,
    _equinox,
    _keras,
    _torch,
    _onnx,
    _exported,
    _stablehlo,
    _pair,
    _function,
)


# Inputs and outputs ---------------------------------------------------------------------------------------------------


def arguments(inputs: Any) -> tuple[Any, ...]:
    """Example inputs as positional arguments: a tuple is several of them, anything else is the only one."""
    return inputs if isinstance(inputs, tuple) else (inputs,)


# Kinds of types of NumPy: objects, strings, bytes, records, times.
_NO_NUMBERS = "OUSVMm"


def to_array(leaf: Any) -> Any:
    """A tensor of a framework, or a Python number, as a NumPy array; arrays of JAX and shapes stay as they are."""
    if isinstance(leaf, (np.ndarray, jax.Array, jax.ShapeDtypeStruct)):
        return leaf
    torch: Any = _loaded("torch")
    if torch is not None and isinstance(leaf, torch.Tensor):
        leaf = leaf.detach().cpu().contiguous()
        if leaf.dtype == torch.bfloat16:  # NumPy has no such type, and no way to ask for it
            return leaf.view(torch.uint16).numpy().view(jax.numpy.bfloat16)
        return leaf.numpy()
    array = np.asarray(leaf)
    if array.dtype.kind in _NO_NUMBERS:
        raise TypeError(f"{leaf!r} is not an array of numbers, which all inputs and weights of a model must be")
    return array


def like_inputs(inputs: Any) -> Callable[[np.ndarray[Any, Any]], Any]:
    """How outputs are given back: as tensors of the inputs' framework, else as NumPy arrays."""
    leaves = jax.tree.leaves(inputs)
    torch: Any = _loaded("torch")
    if torch is not None and any(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return lambda array: _to_torch(torch, array)
    if any(isinstance(leaf, jax.Array) for leaf in leaves):
        return jax.numpy.asarray
    return lambda array: array


def _to_torch(torch: Any, array: np.ndarray[Any, Any]) -> Any:
    if array.dtype == jax.numpy.bfloat16:
        return torch.from_numpy(array.view(np.uint16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))
