"""Evaluates the nodes of an ONNX graph with JAX.

Values that depend only on shapes and constants are computed during tracing, by ONNX's reference evaluator.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jax_ipu.models.frameworks import onnx_layers, onnx_ops, onnx_quantised, onnx_recurrent, onnx_shapes, onnx_types
from jax_ipu.models.frameworks.onnx_control import CONTROL, Body
from jax_ipu.models.frameworks.onnx_table import OPERATORS, Call, NeedsValueError
from jax_ipu.models.model import required

# Importing these modules fills the table of operators.
__all__ = ["Graph", "onnx_layers", "onnx_ops", "onnx_quantised", "onnx_recurrent", "onnx_shapes"]
# The newest opset with whose definitions the functions of the table were compared.
_KNOWN_OPSET = 28
_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
_NOT_FOLDED = (*_RANDOM, "GatherElements")  # the reference evaluator of onnx 1.23 fails where axes differ in size
_GENERAL_ADVICE = (
    "Give the model that the file was exported from (PyTorch, Keras, flax), or export it again with other operators, "
    "for example with another opset_version of torch.onnx.export"
)
_SHAPES = (
    "Shapes, axes and counts must follow from constants and from the shapes of the inputs: export the model so that "
    "they do, or give the model that the file was exported from"
)
_BY_VALUES = (
    "The shape of its result depends on values, and the IPU's memory is planned by shapes: use a mask with Where"
)
_ADVICE = {
    **dict.fromkeys(("NonZero", "Unique", "Compress", "NonMaxSuppression"), _BY_VALUES),
}


class Graph:
    """A sequence of nodes with their operator sets and the functions that the model defines."""

    def __init__(self, nodes: Iterable[Any], opsets: Mapping[str, int], functions: Mapping[tuple[str, str], Any]):
        """`functions`: the functions that the model defines, by domain and name."""
        self._onnx = required("onnx", "an ONNX model", "'jax_ipu[onnx]'")
        self._reference = required("onnx.reference", "an ONNX model", "'jax_ipu[onnx]'")
        self._nodes, self._opsets, self._functions = list(nodes), dict(opsets), functions

    def evaluate(self, values: dict[str, Any]) -> None:
        """Adds the results of all nodes to `values`, which maps names to arrays; NumPy arrays are constants.

        Raises:
            NotImplementedError: an operator, or a variant of it, is not implemented.
            NeedsValueError: a shape or an axis depends on the values of inputs.
            ValueError: an operator refuses its inputs.
        """
        for node, run in self._steps(values):
            try:
                run()
            except NeedsValueError as error:
                raise NeedsValueError(f"{self._describe(node)} cannot be run: {error}. {_SHAPES}") from error
            except NotImplementedError as error:
                advice = _ADVICE.get(node.op_type, _GENERAL_ADVICE)
                raise NotImplementedError(f"{self._describe(node)} cannot be run: {error}. {advice}") from error
            except (TypeError, ValueError, KeyError, IndexError) as error:
                raise ValueError(f"{self._describe(node)} does not accept its inputs: {error}") from error

    def _steps(self, values: dict[str, Any]) -> Iterator[tuple[Any, Callable[[], None]]]:
        """Yields each node with a function that evaluates it."""
        values.setdefault("", None)
        for node in self._nodes:

            def run(node: Any = node) -> None:
                outputs = self._node(node, [values[name] for name in node.input], values)
                values.update(zip(node.output, outputs, strict=False))

            yield node, run

    def _run(self, values: dict[str, Any]) -> None:
        """As `evaluate`, for nodes inside of another node; errors then name that outer node."""
        for _, run in self._steps(values):
            run()

    def _node(self, node: Any, inputs: list[Any], values: Mapping[str, Any]) -> Sequence[Any]:
        control = CONTROL.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if control is not None and control[0] <= self._schema(node.op_type, self._opset(node)).since_version:
            return control[1](self._attributes(node), inputs, functools.partial(self._graph_of, values))
        own = self._functions.get((node.domain, node.op_type))
        if own is not None:
            defaults = {a.name: a for a in own.attribute_proto}
            return self._function(own, node, inputs, defaults, {})
        if node.domain not in ("", "ai.onnx"):
            raise NotImplementedError(
                f"its domain {node.domain} is no part of ONNX, and the file has no function for it"
            )
        try:
            schema = self._schema(node.op_type, self._opset(node))
        except self._onnx.defs.SchemaError as error:
            raise NotImplementedError("ONNX has no such operator in this opset") from error
        if node.op_type not in _NOT_FOLDED and all(x is None or isinstance(x, np.ndarray) for x in inputs):
            # The reference evaluator lacks some operators; the IPU computes these.
            with contextlib.suppress(Exception):
                return self._constant(node, inputs)
        entry = OPERATORS.get(node.op_type)
        if entry is not None and entry[0] <= schema.since_version and self._unchanged(node.op_type, schema):
            types: Callable[[int], Any] = self._onnx.helper.tensor_dtype_to_np_dtype
            resized = functools.partial(self._resized, node)
            attributes = {**self._defaults(schema), **self._attributes(node)}
            call = Call(attributes, schema.since_version, len(node.output), types, resized)
            imports = [self._onnx.helper.make_opsetid("", self._opset(node))]
            expected = onnx_types.expected_types(schema, node, inputs, imports)
            with onnx_types.context_of(node.op_type, inputs, expected):
                outputs = entry[1](call, *inputs)
            return onnx_types.fitted(node.op_type, outputs if isinstance(outputs, tuple) else (outputs,), expected)
        body = self._body(schema, node, inputs)
        if body is None:
            raise NotImplementedError(
                f"version {schema.since_version} of the operator {node.op_type} is not implemented"
                + (f", only {entry[0]} and later ones" if entry is not None else "")
            )
        defaults = {name: a.default_value for name, a in schema.attributes.items() if a.default_value.type}
        return self._function(body, node, inputs, defaults, {"": self._opset(node)})

    def _describe(self, node: Any) -> str:
        name = node.name or f"that gives {', '.join(node.output)}"
        domain = f"{node.domain}." if node.domain else ""
        return f"the ONNX node {name} ({domain}{node.op_type}, opset {self._opset(node)})"

    def _opset(self, node: Any) -> int:
        return self._opsets.get(node.domain, self._opsets.get("ai.onnx", 0) if not node.domain else 0)

    def _schema(self, name: str, opset: int) -> Any:
        return self._onnx.defs.get_schema(name, max_inclusive_version=opset, domain="")

    def _unchanged(self, name: str, schema: Any) -> bool:
        """Whether a definition is known, or differs from the newest known one only in its types."""
        if schema.since_version <= _KNOWN_OPSET:
            return True
        known = self._schema(name, _KNOWN_OPSET)
        return bool(_form(known) == _form(schema))

    def _attributes(self, node: Any) -> dict[str, Any]:
        return {attribute.name: self._plain(attribute) for attribute in node.attribute}

    def _defaults(self, schema: Any) -> dict[str, Any]:
        """The attributes that a definition gives: numbers are those of float32."""
        given = {name: a.default_value for name, a in schema.attributes.items() if a.default_value.type}
        return {name: self._plain(value) for name, value in given.items()}

    def _plain(self, attribute: Any) -> Any:
        value = self._onnx.helper.get_attribute_value(attribute)
        return value.decode() if isinstance(value, bytes) else value

    def _constant(self, node: Any, inputs: list[Any]) -> Sequence[Any]:
        """Returns the results of a node with constant inputs, computed by ONNX's reference evaluator."""
        helper = self._onnx.helper

        def info(name: str, value: Any = None) -> Any:
            kind = 0 if value is None else helper.np_dtype_to_tensor_dtype(value.dtype)
            return helper.make_tensor_value_info(name, kind, None)

        given = {name: value for name, value in zip(node.input, inputs, strict=True) if name}
        graph = helper.make_graph(
            [node],
            "constant",
            [info(name, value) for name, value in given.items()],
            [info(o) for o in node.output if o],
        )
        opsets = [helper.make_opsetid(domain, version) for domain, version in self._opsets.items()]
        results = self._reference.ReferenceEvaluator(helper.make_model(graph, opset_imports=opsets)).run(None, given)
        found = iter([np.asarray(result) for result in results])
        return [next(found) if name else None for name in node.output]

    def _resized(self, node: Any, matrix: Any, amount: Any, by_size: bool) -> Any:
        """Resizes the rows of a matrix as the given Resize node does, by a scale or to a size."""
        amounts = np.array([len(matrix), amount], np.int64) if by_size else np.array([1, amount], np.float32)
        names = ["matrix", "", "", "amounts"] if by_size else ["matrix", "", "amounts"]
        along = self._onnx.helper.make_node("Resize", names, ["resized"])
        along.attribute.extend(a for a in node.attribute if a.name != "axes")
        return self._constant(along, [{"matrix": matrix, "amounts": amounts}.get(name) for name in names])[0]

    def _body(self, schema: Any, node: Any, inputs: list[Any]) -> Any:
        """Returns ONNX's definition of the operator as a function of other operators, or None."""
        if schema.has_function:
            return schema.function_body
        if not schema.has_context_dependent_function:
            return None
        helper = self._onnx.helper

        def type_of(value: Any) -> bytes:
            if value is None:
                empty: bytes = self._onnx.TypeProto().SerializeToString()
                return empty
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
            data: bytes = helper.make_tensor_type_proto(kind, value.shape).SerializeToString()
            return data

        data = schema.get_context_dependent_function(node.SerializeToString(), [type_of(value) for value in inputs])
        body = self._onnx.FunctionProto()
        body.ParseFromString(data)
        return body

    def _function(
        self, body: Any, node: Any, inputs: list[Any], defaults: dict[str, Any], opsets: dict[str, int]
    ) -> Sequence[Any]:
        attributes = {**defaults, **{a.name: a for a in node.attribute}}
        opsets = {**opsets, **{o.domain: o.version for o in body.opset_import}}
        nodes = [_with_attributes(inner, attributes) for inner in body.node]
        values: dict[str, Any] = dict.fromkeys(body.input)
        values.update(zip(body.input, inputs, strict=False))
        Graph(nodes, opsets, self._functions)._run(values)
        return [values.get(name) for name in body.output]

    def _graph_of(self, values: Mapping[str, Any], graph: Any) -> Body:
        """Returns a graph attribute of a node as a function, which also sees the values outside of the node."""

        def results(inputs: Sequence[Any]) -> list[Any]:
            inner = dict(values)
            inner.update((w.name, self._onnx.numpy_helper.to_array(w)) for w in graph.initializer)
            inner.update((i.name, value) for i, value in zip(graph.input, inputs, strict=True))
            Graph(graph.node, self._opsets, self._functions)._run(inner)
            return [inner[output.name] for output in graph.output]

        return results


def _form(schema: Any) -> Any:
    """Returns the attributes and parameters of a definition without their types."""
    attributes = {name: (a.required, a.default_value.SerializeToString()) for name, a in schema.attributes.items()}
    return attributes, [(p.name, p.option) for p in (*schema.inputs, *schema.outputs)]


def _with_attributes(node: Any, given: Mapping[str, Any]) -> Any:
    """Returns a node of a function with its references to attributes of the function resolved."""
    if not any(a.ref_attr_name for a in node.attribute):
        return node
    filled = type(node)()
    filled.CopyFrom(node)
    del filled.attribute[:]
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            filled.attribute.append(attribute)
        elif attribute.ref_attr_name in given:
            named = type(attribute)()
            named.CopyFrom(given[attribute.ref_attr_name])
            named.name = attribute.name
            filled.attribute.append(named)
    return filled
