"""Conversion of ONNX files: selects the initialisers that are weights, and evaluates the graph with JAX."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from jax_ipu.files import explained
from jax_ipu.models.frameworks import onnx_types
from jax_ipu.models.frameworks.onnx_graph import Graph
from jax_ipu.models.model import Model, loaded, required

# Metadata in which torch.onnx.export writes the kind of an initialiser.
_KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
_MASK = float(np.finfo(np.float16).max) / 2  # an initialiser with larger values is taken for a mask
_STATISTICS = {"BatchNormalization": (3, 4)}
_WITH_SIZES = ("Resize", "Upsample")  # whose operands, other than the first, say the shape of the result


def onnx_model(model: Any, inputs: tuple[Any, ...]) -> Model | None:
    """Returns the model if it is an `onnx.ModelProto` or the path of an ONNX file.

    Raises ImportError: the package onnx is missing.
    """
    is_path = isinstance(model, os.PathLike) or (isinstance(model, str) and "\n" not in model)
    onnx: Any = loaded("onnx")
    if not (is_path and str(model).endswith(".onnx")) and (onnx is None or not isinstance(model, onnx.ModelProto)):
        return None
    onnx = required("onnx", "an ONNX model", "'jax_ipu[onnx]'")
    proto, places = _load(onnx, os.fspath(model)) if is_path else (model, {})
    graph = proto.graph
    arrays = {w.name: np.asarray(onnx.numpy_helper.to_array(w)) for w in graph.initializer}
    declared = {
        i.name: np.dtype(onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type))
        for i in graph.input
        if i.name not in arrays and i.type.tensor_type.elem_type not in (0, onnx.TensorProto.STRING)
    }
    names = [i.name for i in graph.input if i.name not in arrays]
    outputs = [o.name for o in graph.output]
    steps, statistics = _with_statistics_apart(graph.node, arrays)
    nodes = Graph(
        steps,
        {o.domain: o.version for o in proto.opset_import},
        {(f.domain, f.name): f for f in proto.functions},
    )
    trainable, frozen = _weights(proto, arrays, statistics)
    owners = {place: name for name, place in reversed(places.items())}

    def first_name(name: str) -> str:
        """Returns the first initialiser with the same location in the external data."""
        return owners.get(places.get(name, ()), name)

    constants = {name: a for name, a in arrays.items() if name not in trainable and name not in frozen}

    def named(inputs: tuple[Any, ...]) -> dict[str, Any]:
        if len(inputs) == 1 and isinstance(inputs[0], dict):
            if set(inputs[0]) != set(names):
                raise ValueError(f"the ONNX model has the inputs {', '.join(names)}, not {', '.join(inputs[0])}")
            return dict(inputs[0])
        if len(inputs) != len(names):
            raise ValueError(f"the ONNX model has {len(names)} inputs ({', '.join(names)}), {len(inputs)} were given")
        return dict(zip(names, inputs, strict=True))

    def apply(trainable: Any, frozen: Any, *inputs: Any) -> Any:
        given = {
            name: onnx_types.as_declared(x, declared[name], name) if name in declared else x
            for name, x in named(inputs).items()
        }
        values = {**constants, **frozen, **trainable, **given}
        # Nodes without operands of 64 bits are traced without these types, and JAX warns of constant indices.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Explicitly requested dtype")
            nodes.evaluate(values)
        results = tuple(values[name] for name in outputs)
        return results[0] if len(results) == 1 else results

    def train(trainable: Any, frozen: Any, key: Any, *inputs: Any) -> tuple[Any, Any]:
        if equal:
            pairs = ", ".join(f"{one} and {other}" for one, other in equal)
            warnings.warn(
                f"equal matrices are trained as separate weights: {pairs}. If they were one in the framework that "
                "wrote the file, export it so that the file has it once (torch.onnx.export(..., optimize=False))",
                stacklevel=2,
            )
        return apply(trainable, frozen, *inputs), frozen

    named(inputs)
    weights = {name: arrays[first_name(name)] for name in trainable}
    equal = _equal_matrices(weights)
    held = {name: arrays[name] for name in frozen}
    return Model("ONNX", apply, weights, held, shared=True, train=train, wide=True)


def _load(onnx: Any, path: str) -> tuple[Any, dict[str, tuple[str, ...]]]:
    """Returns the model with its external data, and the file, offset, type and shape of each external initialiser."""
    with explained("the model cannot be read", "give the path of an .onnx file"):
        proto = onnx.load(path, load_external_data=False)
    places: dict[str, tuple[str, ...]] = {}
    for tensor in proto.graph.initializer:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if entries:
            shape = "x".join(map(str, tensor.dims))
            places[tensor.name] = (entries["location"], entries.get("offset", "0"), str(tensor.data_type), shape)
    onnx.load_external_data_for_model(proto, os.path.dirname(os.path.abspath(path)))
    return proto, places


def _with_statistics_apart(nodes: Iterable[Any], arrays: dict[str, Any]) -> tuple[list[Any], set[str]]:
    """Returns the nodes with separate initialisers for running statistics, and the names of these.

    Exporters write initialisers of equal values once. In an untrained network these are the running statistics, which
    are not trained, and the scale and bias of the layers, which are. The new initialisers are added to `arrays`.
    """
    found: list[Any] = []
    statistics = set()
    for node in nodes:
        copy = node
        for i in _STATISTICS.get(node.op_type, ()):
            if i < len(node.input) and node.input[i] in arrays:
                if copy is node:
                    copy = type(node).FromString(node.SerializeToString())
                copy.input[i] = f"{node.input[i]} (running statistics)"
                arrays[copy.input[i]] = arrays[node.input[i]].copy()
                statistics.add(copy.input[i])
        found.append(copy)
    return found, statistics


def _weights(proto: Any, arrays: Mapping[str, Any], statistics: set[str]) -> tuple[list[str], list[str]]:
    """Returns the names of the initialisers that are trained, and of those that the IPU holds without training them.

    A file does not say which initialisers are parameters. Floating-point initialisers with more than one element are
    trained, except running statistics, masks (values beyond _MASK), sizes, and those that PyTorch marked as other than
    parameters. An initialiser with one element is trained only where PyTorch marked it as a parameter.
    """
    sizes = {name for node in proto.graph.node if node.op_type in _WITH_SIZES for name in node.input[1:]}
    kinds = {
        value.name: entry.value
        for value in proto.graph.value_info
        for entry in value.metadata_props
        if entry.key == _KIND
    }
    trainable, frozen = [], []
    for name, array in arrays.items():
        if name in sizes:
            continue
        if not np.issubdtype(array.dtype, np.floating):
            # Shapes and indices have more bits: those of 8 are quantised weights.
            if array.dtype in (np.int8, np.uint8) and array.ndim > 1:
                frozen.append(name)
            continue
        kind = kinds.get(name, "PARAMETER" if array.size > 1 else "CONSTANT")
        finite = bool(np.all(np.abs(array.astype(np.float64)) < _MASK))
        if kind == "PARAMETER" and name not in statistics and finite:
            trainable.append(name)
        elif array.size > 1:
            frozen.append(name)
    return trainable, frozen


def _equal_matrices(weights: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns pairs of separate weights that have the same values, possibly transposed.

    Such a pair may be two layers that were copied before training, which are independent, or one matrix that two layers
    share, which an exporter wrote twice because it transposed it for one of them. The file does not distinguish these.
    """
    first: dict[Any, str] = {}
    pairs = []
    for name, array in weights.items():
        if array.ndim != 2 or np.unique(array).size <= 2:
            continue
        key, turned = _digest(array), _digest(array.T)
        same = first.get(key) or first.get(turned)
        if same is None:
            first[key] = name
        elif weights[same] is not array:
            pairs.append((same, name))
    return pairs


def _digest(array: Any) -> tuple[tuple[int, ...], str, bytes]:
    return array.shape, str(array.dtype), hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest()
