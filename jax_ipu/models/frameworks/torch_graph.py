"""A PyTorch module as a JAX function: the graph of torch.export, evaluated with torchax's table of operations.

This file imports PyTorch and torchax; `torch.py` imports it after checking that both are there.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import torch
import torchax
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as torch_tree
from torchax import decompositions
from torchax.ops import ops_registry

from jax_ipu.models.arrays import to_array
from jax_ipu.models.frameworks import torch_export, torch_functions, torch_kept, torch_operations, torch_types


def structure(value: Any) -> Any:
    """Returns the TreeSpec that PyTorch has for a pytree."""
    return torch_tree.tree_structure(value)


def register_containers(spec: Any) -> None:
    """Registers the containers in a TreeSpec of PyTorch, such as ModelOutput, as pytrees of JAX."""
    if spec.is_leaf():
        return
    _register(spec.type)
    for child in spec.children():
        register_containers(child)


@functools.cache
def _register(kind: type[Any]) -> None:
    node = torch_tree.SUPPORTED_NODES[kind]

    def flatten(value: Any) -> tuple[list[Any], Any]:
        children, context = node.flatten_fn(value)
        # JAX needs a context that can be compared and hashed.
        return children, tuple(context) if isinstance(context, list) else context

    def unflatten(context: Any, children: Any) -> Any:
        return node.unflatten_fn(list(children), list(context) if isinstance(context, tuple) else context)

    # JAX raises ValueError for classes that are registered already, such as list and dict.
    with contextlib.suppress(ValueError):
        jax.tree_util.register_pytree_node(kind, flatten, unflatten)


class Graph:
    """An exported module."""

    def __init__(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], gradients: bool = True) -> None:
        """Exports the module in the mode in which it is, training or evaluation; with its `gradients`, or without."""
        recording = torch_functions.recorded(model) if gradients else contextlib.nullcontext()
        with warnings.catch_warnings(), torch_export.repaired(), recording as self._calls:
            # PyTorch itself uses a deprecated function when it copies the program.
            warnings.filterwarnings("ignore", "`isinstance", FutureWarning)
            exported = torch_export.export(model, args, kwargs)
            self._expected = _outputs_of(exported)
            # Decompose twice, as torchax does: first with PyTorch's table, then with torchax's own.
            for table in (torch.export.default_decompositions(), dict(decompositions.DECOMPOSITIONS)):
                for module in exported.graph_module.modules():
                    if isinstance(module, torch.fx.GraphModule):
                        _prepare(module)
                for kept in torch_operations.NOT_DECOMPOSED:
                    table.pop(kept, None)
                for target in table.keys() & set(torch_operations.DECOMPOSED_IN_FLOAT32):
                    table[target] = torch_types.in_float32(table[target])
                with torch_export.values_refused():
                    exported = exported.run_decompositions(table)
            self._program = exported
        signature = self._program.graph_signature
        changed = [spec.target for spec in signature.output_specs if spec.kind.name == "PARAMETER_MUTATION"]
        if gradients and changed:
            raise NotImplementedError(
                f"the model changes its parameters {', '.join(changed)} in place, as an embedding with max_norm does, "
                "and a training step changes parameters by the optimizer only: do it after the step"
            )
        self._inputs = [None if spec.kind == InputKind.USER_INPUT else spec.target for spec in signature.input_specs]
        # What keeps the order of operations that act on the outside; there are none but checks.
        self._is_token = [spec.kind == InputKind.TOKEN for spec in signature.input_specs]
        self._outputs = [
            spec.target if spec.kind == OutputKind.BUFFER_MUTATION else None for spec in signature.output_specs
        ]
        self._is_output = [spec.kind == OutputKind.USER_OUTPUT for spec in signature.output_specs]
        self._expected_inputs = [node.meta.get("val") for node in self._program.graph.nodes if node.op == "placeholder"]
        self._keywords = list(self._program.call_spec.in_spec.child(1).context or ())
        # Constant tensors: neither parameters nor buffers.
        self._constants = {
            spec.target: to_array(self._program.constants[spec.target])
            for spec in signature.input_specs
            if spec.kind == InputKind.CONSTANT_TENSOR
        }
        self.constant_tensors = [value for value in self._program.constants.values() if isinstance(value, torch.Tensor)]
        self._out_spec = self._program.call_spec.out_spec
        register_containers(self._out_spec)

    def run(self, values: dict[str, Any], args: Any, kwargs: dict[str, Any], key: Any) -> tuple[Any, dict[str, Any]]:
        """Returns the outputs, and the buffers that the module updates, by name.

        Args:
            values: parameters and buffers, by name.
            args: positional inputs of the structure of the example.
            kwargs: inputs by keyword.
            key: a JAX random key, for modules that draw random numbers.
        """
        ordered = {name: kwargs[name] for name in self._keywords}
        values = {**self._constants, **values}
        inputs = iter(torch_tree.tree_flatten((tuple(args), ordered))[0])
        # Convert to JAX arrays: operations of torchax may index operands with traced indices.
        operands = [
            jnp.zeros(0) if is_token else jnp.asarray(next(inputs) if name is None else values[name])
            for name, is_token in zip(self._inputs, self._is_token, strict=True)
        ]
        operands = [torch_types.widened(x, of) for x, of in zip(operands, self._expected_inputs, strict=True)]
        interpreter = _Interpreter(self._program.graph_module)
        with torchax.default_env().override_property(prng=key), warnings.catch_warnings():
            # Operations without operands of 64 bits are traced without these types.
            warnings.filterwarnings("ignore", "Explicitly requested dtype", UserWarning)
            results = interpreter.run(*operands, enable_io_processing=False)
        changed = {name: value for name, value in zip(self._outputs, results, strict=True) if name is not None}
        outputs = [value for value, is_output in zip(results, self._is_output, strict=True) if is_output]
        outputs = [
            torch_types.fitted(result, expected, None, f"the result {name} of the model")
            for result, (name, expected) in zip(outputs, self._expected, strict=True)
        ]
        return torch_tree.tree_unflatten(outputs, self._out_spec), changed


def _scope(node: torch.fx.Node) -> str:
    """The module that a node comes from, as flax names its modules: "Model/layers/0"."""
    stack = node.meta.get("nn_module_stack") or {}
    names: list[str] = []
    known = ""
    for path, kind in stack.values():
        if not path:
            names.append(str(kind).rsplit(".", 1)[-1].strip("'>"))
        elif path.startswith(f"{known}.") or not known:
            names += path.removeprefix(f"{known}.").split(".")
        known = path or known
    return "/".join(names)


class _Interpreter(torch.fx.Interpreter):
    """Evaluates the nodes of a graph with JAX."""

    def run_node(self, n: torch.fx.Node) -> Any:
        with jax.named_scope(scope) if (scope := _scope(n)) else contextlib.nullcontext():
            if n.op != "call_function":
                return super().run_node(n)
            expected = n.meta.get("val")
            if n.target is torch.ops.aten.as_strided.default:
                _check_memory(*n.args, **n.kwargs)
            with torch_types.context_of(n.target, self.fetch_args_kwargs_from_env(n), expected):
                try:
                    result = super().run_node(n)
                except (jax.errors.ConcretizationTypeError, jax.errors.NonConcreteBooleanIndexError) as error:
                    if n.target is torch.ops.aten._local_scalar_dense.default:
                        raise NotImplementedError(f"the model {torch_export.asks_for_values()}") from error
                    if not torch_types.depends_on_values(expected):
                        raise
                    raise NotImplementedError(torch_operations.not_fixed(n.target)) from error
            return torch_types.fitted(result, expected, n.target, f"PyTorch's operation {n.target}")

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = torch_types.computed(target, (args, kwargs))
        if target is torch_functions.OPERATION:
            tensors, number = args
            return torch_functions.evaluate(tensors, number, Graph)
        if target is torch.ops.higher_order.with_effects and args[1] is torch.ops.aten._linalg_check_errors.default:
            return args[0], None  # a singular matrix gives what is not a number, as in JAX
        own = torch_operations.OPERATIONS.get(target)
        if own is not None:
            return own(*args, **kwargs)
        if not isinstance(target, (torch._ops.OpOverloadPacket, torch._ops.OpOverload)):
            return super().call_function(target, args, kwargs)
        table = ops_registry.all_aten_ops
        operation = table.get(target) or table.get(getattr(target, "overloadpacket", target))
        if operation is None or not operation.is_jax_function:
            raise NotImplementedError(
                f"PyTorch's operation {target} has no counterpart in torchax {torchax.__version__}: write it in other "
                "operations"
            )
        if operation.needs_env:
            environment = torchax.default_env()
            if environment.param.prng is None:
                raise ValueError(
                    f"the model draws random numbers ({target}) outside of training: there is no random key for them. "
                    "Give it the numbers as an input"
                )
            kwargs = {**kwargs, "env": environment}
        wrapped = torch_operations.WRAPPED.get(target)
        if wrapped is not None:
            return wrapped(*args, **kwargs, general=operation.func)
        return operation.func(*args, **kwargs)


def _check_memory(operand: torch.fx.Node, size: Any, stride: Any, storage_offset: int | None = None, **_: Any) -> None:
    """Raises NotImplementedError: a view by strides sees memory in which the operand lies in another order."""
    of = operand.meta["val"]
    last = (storage_offset or 0) + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    begins = storage_offset is None or of.storage_offset() == 0
    if not (of.is_contiguous() and begins and last < max(of.numel(), 1)):
        raise NotImplementedError(
            "PyTorch's operation as_strided is applied to a tensor that is not contiguous or is a part of another, "
            "whose memory a program for the IPU does not have: apply it to x.contiguous().clone()"
        )


def _outputs_of(exported: Any) -> list[tuple[str, Any]]:
    """What PyTorch says of each output of the module, before anything is decomposed."""
    (output,) = (node for node in exported.graph.nodes if node.op == "output")
    return [
        (str(node), node.meta.get("val") if isinstance(node, torch.fx.Node) else None)
        for node, spec in zip(output.args[0], exported.graph_signature.output_specs, strict=True)
        if spec.kind == OutputKind.USER_OUTPUT
    ]


def _prepare(module: torch.fx.GraphModule) -> None:
    """Replaces operations that decompositions would not preserve.

    Some become operations of ours, which decompositions keep: `detach` and the results of `torch.no_grad()` become
    `stop_gradient`. A `view` becomes a `reshape`, because the strides of its operand depend on how other operations are
    decomposed.
    """
    graph = module.graph
    written = _written(graph)
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if node.target in torch_kept.RENAMED and node not in written:
            node.target = torch_kept.RENAMED[node.target]
        elif node.target is torch.ops.aten.view.default:
            node.target = torch.ops.aten.reshape.default
        elif node.target is torch.ops.higher_order.wrap_with_set_grad_enabled and not node.args[0]:
            for result in list(node.users):
                if result.target is operator.getitem:
                    _stop_after(graph, result)
    module.recompile()


def _written(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """The nodes whose values an operation changes in place, also as a view of them."""
    found: set[torch.fx.Node] = set()
    for node in reversed(graph.nodes):
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        for argument, value in zip(node.target._schema.arguments, node.args, strict=False):
            alias = argument.alias_info
            if isinstance(value, torch.fx.Node) and alias is not None and (alias.is_write or node in found):
                found.add(value)
    return found


def _stop_after(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    with graph.inserting_after(node):
        stopped = graph.call_function(torch_kept.STOP_GRADIENT, (node,))
    stopped.meta = dict(node.meta)
    node.replace_all_uses_with(stopped, delete_user_cb=lambda user: user is not stopped)
