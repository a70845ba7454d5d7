"""Functions of PyTorch with a backward pass of their own (`torch.autograd.Function`), as functions of JAX.

torch.export keeps the forward pass of such a function and drops its backward pass. While a module is exported for
training, each call is therefore recorded as one operation. When the graph is computed, the operation becomes a
`jax.custom_vjp`, of which both passes are graphs that are exported for themselves.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import torch
import torchax
from torch.utils import _pytree as torch_tree

from jax_ipu.models.sharing import identity

_NUMBERS = itertools.count()
# Calls by number. The graph in which a call occurs keeps it alive.
_CALLS: weakref.WeakValueDictionary[int, FunctionCall] = weakref.WeakValueDictionary()


@torch.library.custom_op("jax_ipu::own_gradient", mutates_args=())
def _own_gradient(tensors: Sequence[torch.Tensor], call: int) -> list[torch.Tensor]:
    """The recorded call with this number, on its tensors."""
    return [x.clone() for x in _CALLS[call].forward(tensors)]


@_own_gradient.register_fake
def _(tensors: Sequence[torch.Tensor], call: int) -> list[torch.Tensor]:
    return [torch.empty_like(x) for x in _CALLS[call].forward(tensors)]


OPERATION = torch.ops.jax_ipu.own_gradient.default


class _Context:
    """What a function's passes get as `ctx`: its attributes and saved tensors."""

    def __init__(self, arguments: Sequence[Any]) -> None:
        self.saved_tensors: tuple[Any, ...] = ()
        self.needs_input_grad = tuple(_is_differentiable(x) for x in arguments)
        self._no_gradient: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Only forward-mode differentiation uses them."""

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self._no_gradient = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Gradients of unused outputs are always zeros here, never None."""

    def mark_dirty(self, *tensors: Any) -> None:
        raise NotImplementedError("it changes its inputs in place (mark_dirty): return a new tensor")


class FunctionCall:
    """One call of a function in a module that is exported."""

    def __init__(self, function: Any, arguments: Sequence[Any], state: set[Any]) -> None:
        """`state`: the identities of the module's parameters and buffers."""
        self.number = next(_NUMBERS)
        _CALLS[self.number] = self
        self._function, self._state = function, state
        leaves, self._structure = torch_tree.tree_flatten(list(arguments))
        self.tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        self._examples = [(tuple(x.shape), x.dtype) for x in self.tensors]
        # None in the place of a tensor, whose value comes later.
        self._leaves = [None if isinstance(x, torch.Tensor) else x for x in leaves]
        self._is_tensor = [isinstance(x, torch.Tensor) for x in leaves]
        # Which of the arguments each tensor is; PyTorch does not look for gradients inside of lists.
        positions = {id(x): i for i, x in enumerate(arguments) if isinstance(x, torch.Tensor)}
        self._argument_of = [positions.get(id(x)) for x in self.tensors]
        self._outputs: Any = None
        self._no_gradient: list[bool] = []

    def record(self) -> Any:
        """The operation on the call's tensors; gives what the call gives."""
        results = iter(OPERATION(self.tensors, self.number))
        self.tensors = []  # of the export, which ends
        leaves = [next(results) if x is _TENSOR else x for x in self._outputs[0]]
        return torch_tree.tree_unflatten(leaves, self._outputs[1])

    def forward(self, tensors: Sequence[Any]) -> list[Any]:
        """The tensors among the outputs of the forward pass."""
        return self._forward(tensors)[0]

    def _forward(self, tensors: Sequence[Any]) -> tuple[list[Any], _Context]:
        remaining = iter(tensors)
        leaves = [next(remaining) if t else x for x, t in zip(self._leaves, self._is_tensor, strict=True)]
        arguments = torch_tree.tree_unflatten(leaves, self._structure)
        context = _Context(arguments)
        if _has_context_apart(self._function):
            outputs = self._function.forward(*arguments)
            self._function.setup_context(context, tuple(arguments), outputs)
        else:
            outputs = self._function.forward(context, *arguments)
        found, structure = torch_tree.tree_flatten(outputs)
        results = [x for x in found if isinstance(x, torch.Tensor)]
        self._outputs = [_TENSOR if isinstance(x, torch.Tensor) else x for x in found], structure
        self._no_gradient = [any(x is y for y in context._no_gradient) for x in results]
        del context._no_gradient
        return results, context

    def evaluate(self, tensors: Sequence[Any], graph_of: Callable[..., Any]) -> list[Any]:
        """The outputs as arrays of JAX, with the gradient of the function's backward pass.

        Args:
            tensors: arrays of JAX, in the order of the recorded tensors.
            graph_of: exports a module for example arguments, as `torch_graph.Graph` does.

        Raises NotImplementedError: a pass cannot be exported, or reads weights that are not among the arguments.
        """
        environment = torchax.default_env()
        key = None if environment.param.prng is None else environment.get_and_rotate_prng_key()
        passes = _Passes(self, graph_of)

        @jax.custom_vjp
        def function(key: Any, tensors: list[Any]) -> Any:
            return passes.forward(key, tensors)[0]

        def forward(key: Any, tensors: list[Any]) -> Any:
            outputs, saved = passes.forward(key, tensors)
            return outputs, (tensors, saved)

        def backward(residuals: Any, gradients: Any) -> Any:
            tensors, saved = residuals
            found = passes.backward(saved, gradients)
            return None, [_fitting(g, x) for g, x in zip(found, tensors, strict=True)]

        function.defvjp(forward, backward)
        outputs = function(key, list(tensors))
        return [
            jax.lax.stop_gradient(x) if stopped else x for x, stopped in zip(outputs, self._no_gradient, strict=True)
        ]


class _Passes:
    """Both passes of one call as graphs; the forward pass is exported first."""

    def __init__(self, call: FunctionCall, graph_of: Callable[..., Any]) -> None:
        self._call, self._graph_of = call, graph_of
        self._kept: Any = None  # the context's leaves, with _TENSOR in the place of tensors, and its structure
        self._saved_examples: list[Any] = []
        self._output_examples: list[Any] = []
        self._gradients: list[bool] = []

    def forward(self, key: Any, tensors: list[Any]) -> tuple[list[Any], list[Any]]:
        """(outputs, saved tensors)."""
        (outputs, saved), _ = self._forward.run({}, (tensors,), {}, key)
        return list(outputs), list(saved)

    def backward(self, saved: list[Any], gradients: list[Any]) -> list[Any]:
        """Gradients of the tensors; None where there is none."""
        # The gradient of an integer is of a type that only JAX has.
        given = [
            jnp.zeros(shape, _dtype(dtype)) if g.dtype == jax.dtypes.float0 else g
            for g, (shape, dtype) in zip(gradients, self._output_examples, strict=True)
        ]
        graph = self._backward
        found = iter(graph.run({}, (saved, given), {}, None)[0])
        return [next(found) if there else None for there in self._gradients]

    @functools.cached_property
    def _forward(self) -> Any:
        passes, call = self, self._call

        class Forward(torch.nn.Module):
            def forward(self, tensors: Any) -> Any:
                outputs, context = call._forward(tensors)
                leaves, structure = torch_tree.tree_flatten(dict(vars(context)))
                saved = [x for x in leaves if isinstance(x, torch.Tensor)]
                passes._kept = [_TENSOR if isinstance(x, torch.Tensor) else x for x in leaves], structure
                passes._saved_examples = [(tuple(x.shape), x.dtype) for x in saved]
                passes._output_examples = [(tuple(x.shape), x.dtype) for x in outputs]
                return outputs, saved

        return self._export(Forward(), (_zeros(call._examples),), "forward")

    @functools.cached_property
    def _backward(self) -> Any:
        passes, call = self, self._call

        class Backward(torch.nn.Module):
            def forward(self, saved: Any, gradients: Any) -> Any:
                remaining = iter(saved)
                leaves = [next(remaining) if x is _TENSOR else x for x in passes._kept[0]]
                context = _Context(())
                vars(context).update(torch_tree.tree_unflatten(leaves, passes._kept[1]))
                outputs, structure = call._outputs
                remaining = iter(gradients)
                by_output = [next(remaining) if x is _TENSOR else None for x in outputs]
                given = torch_tree.tree_unflatten(by_output, structure)
                found = call._function.backward(context, *(given if isinstance(given, (tuple, list)) else [given]))
                found = found if isinstance(found, tuple) else (found,)
                results = [None if i is None else found[i] for i in call._argument_of]
                passes._gradients = [x is not None for x in results]
                return [x for x in results if x is not None]

        return self._export(Backward(), (_zeros(self._saved_examples), _zeros(self._output_examples)), "backward")

    def _export(self, module: Any, examples: tuple[Any, ...], which: str) -> Any:
        name = self._call._function.__name__
        try:
            graph = self._graph_of(module, examples, {}, gradients=False)
        except Exception as error:
            raise NotImplementedError(
                f"the {which} pass of the autograd.Function {name} cannot be exported: {error}"
            ) from error
        if any(identity(constant) in self._call._state for constant in graph.constant_tensors):
            raise NotImplementedError(
                f"the {which} pass of the autograd.Function {name} reads a parameter or buffer of the model that is "
                "not among its arguments, and would see its first value only: give it as an argument of apply"
            )
        return graph


class _Marker:
    """In the place of a tensor."""


_TENSOR = _Marker()


@contextlib.contextmanager
def recorded(model: Any) -> Iterator[list[FunctionCall]]:
    """While `model` is exported, calls of functions with a backward pass of their own are recorded in the list."""
    original = torch.autograd.Function.__dict__["apply"]
    state = {identity(x) for x in (*model.parameters(), *model.buffers())}
    calls: list[FunctionCall] = []

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if cls.__module__.startswith("torch."):
            return original.__get__(None, cls)(*args, **kwargs)
        if _has_context_apart(cls):
            bound = inspect.signature(cls.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        if kwargs:
            raise TypeError(f"{cls.__name__}.apply takes keyword arguments only with a setup_context of its own")
        calls.append(FunctionCall(cls, args, state))
        return calls[-1].record()

    torch.autograd.Function.apply = classmethod(apply)
    try:
        yield calls
    finally:
        torch.autograd.Function.apply = original


def evaluate(tensors: Sequence[Any], call: int, graph_of: Callable[..., Any]) -> list[Any]:
    """The recorded call with this number; see `FunctionCall.evaluate`."""
    return _CALLS[call].evaluate(tensors, graph_of)


def _has_context_apart(function: Any) -> bool:
    """Whether forward has no `ctx`, which `setup_context` fills."""
    return function.setup_context is not torch.autograd.Function.setup_context


def _is_differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _zeros(examples: Sequence[tuple[Any, Any]]) -> list[Any]:
    return [torch.zeros(shape, dtype=dtype) for shape, dtype in examples]


def _dtype(dtype: Any) -> Any:
    """The type of JAX for one of PyTorch."""
    return jax.dtypes.canonicalize_dtype(torch.zeros((), dtype=dtype).numpy().dtype)


def _fitting(gradient: Any, like: Any) -> Any:
    """The gradient with shape and type of what it is of, summed where it was broadcast, as PyTorch does it."""
    if not jnp.issubdtype(like.dtype, jnp.inexact):
        return None
    if gradient is None:
        return jnp.zeros_like(like)
    if gradient.shape != like.shape:
        more = gradient.ndim - like.ndim
        longer = [more + i for i, size in enumerate(like.shape) if size == 1 and gradient.shape[more + i] != 1]
        gradient = jnp.sum(gradient, (*range(more), *longer)).reshape(like.shape)
    return gradient.astype(like.dtype)
