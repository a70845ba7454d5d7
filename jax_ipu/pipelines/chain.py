"""A loss function as a chain of steps, which can be cut where few values go on.

The steps of the chain are the operations that depend on the batch, in the order of the program. What depends on
weights, targets or constants alone is no step: it is computed in each part that reads it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal, jaxprs_in_params

from jax_ipu.integration.equations import at_source_line

_CALLS = ("jit", "pjit", "closed_call", "core_call")
# Types whose values float32 holds exactly; values of others do not go from stage to stage, which takes floats.
_EXACT_IN_FLOAT = ("bool", "int8", "uint8", "int16", "uint16")


class Value(NamedTuple):
    """A value of the program: `shape` and `dtype` of its array."""

    number: int
    shape: tuple[int, ...]
    dtype: Any

    @property
    def size_in_bytes(self) -> int:
        return math.prod(self.shape) * int(np.dtype(self.dtype).itemsize)


class Step(NamedTuple):
    """An equation of a jaxpr with its operands, of which some are literals, and its results."""

    equation: Any
    operands: tuple[Any, ...]
    results: tuple[Value, ...]


class Part(NamedTuple):
    """A piece of the chain: `function(weights, inputs, targets)` returns its outputs, all lists of arrays.

    `weights` are numbers of leaves; `inputs` and `outputs` are values, none the batch's or the loss.
    """

    function: Callable[[list[Any], list[Any], list[Any]], list[Any]]
    weights: list[int]
    inputs: list[Value]
    outputs: list[Value]


class Chain:
    """The steps of ``loss(params, x, *targets)``, traced for the shapes of its arguments.

    Attributes:
        steps: the steps of the chain.
        batch: the leaves of x.
        weights: the leaves of params.
        targets: the leaves of targets.
        loss: the result.
    """

    def __init__(self, loss: Callable[..., Any], params: Any, x: Any, targets: tuple[Any, ...]) -> None:
        closed, result = jax.make_jaxpr(loss, return_shape=True)(params, x, *targets)
        if getattr(result, "shape", None) != () or not jnp.issubdtype(result.dtype, jnp.floating):
            raise ValueError("the function to split returns a loss: a scalar of floats, and nothing else")
        if closed.effects:
            raise ValueError("the function to split has effects, such as callbacks, whose order stages would not keep")
        self._count = 0
        self._constants: dict[int, Any] = {}
        self._producer: dict[int, Step] = {}
        self._order: list[Step] = []
        jaxpr = closed.jaxpr
        arguments = [self._new(v.aval) for v in jaxpr.invars]
        parts = [len(jax.tree.leaves(tree)) for tree in (params, x)]
        self.weights = arguments[: parts[0]]
        self.batch = arguments[parts[0] : sum(parts)]
        self.targets = arguments[sum(parts) :]
        (self.loss,) = self._add(jaxpr, closed.consts, arguments)
        self._find_dependencies()

    # The program ----------------------------------------------------------------------------------------------------

    def _new(self, aval: Any) -> Value:
        self._count += 1
        return Value(self._count, tuple(aval.shape), aval.dtype)

    def _add(self, jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
        """Adds the equations of a jaxpr, those of the functions that it calls included; returns its results."""
        values: dict[Any, Any] = dict(zip(jaxpr.invars, arguments, strict=True))
        for variable, constant in zip(jaxpr.constvars, consts, strict=True):
            values[variable] = value = self._new(variable.aval)
            self._constants[value.number] = constant

        def read(atom: Any) -> Any:
            return atom if isinstance(atom, Literal) else values[atom]

        for equation in jaxpr.eqns:
            operands = [read(atom) for atom in equation.invars]
            if equation.primitive.name in _CALLS:
                inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
                opened, captured = getattr(inner, "jaxpr", inner), getattr(inner, "consts", ())
                values.update(zip(equation.outvars, self._add(opened, captured, operands), strict=True))
                continue
            results = tuple(self._new(v.aval) for v in equation.outvars)
            step = Step(equation, tuple(operands), results)
            self._producer.update((value.number, step) for value in results)
            self._order.append(step)
            values.update(zip(equation.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _find_dependencies(self) -> None:
        """Which values depend on the batch or the targets, and which weights and targets a step reads indirectly."""
        of_batch = {value.number for value in self.batch}
        of_targets = {value.number for value in self.targets}
        # Of values that do not depend on the batch: the numbers of the weights that they are made of.
        made_of = {value.number: frozenset((i,)) for i, value in enumerate(self.weights)}
        self.steps: list[Step] = []
        self.weights_of: list[frozenset[int]] = []
        self.reads_targets: list[bool] = []
        for step in self._order:
            operands = _values(step.operands)
            numbers = {value.number for value in operands}
            made = frozenset().union(*(made_of.get(n, frozenset()) for n in numbers))
            results = {value.number for value in step.results}
            if numbers & of_targets:
                of_targets |= results
            if numbers & of_batch:
                of_batch |= results
                self.steps.append(step)
                self.weights_of.append(made)
                self.reads_targets.append(bool(numbers & of_targets))
            else:
                made_of.update((n, made) for n in results)
        if not isinstance(self.loss, Value) or self.loss.number not in of_batch:
            raise ValueError("the loss does not depend on the batch")
        self._of_batch = of_batch

    # Where it can be cut ----------------------------------------------------------------------------------------------

    def live(self) -> list[list[Value]]:
        """For each number of steps from 0 on, the values of the batch that later steps read."""
        last: dict[int, int] = {self.loss.number: len(self.steps)}
        for i, step in enumerate(self.steps):
            for value in _values(step.operands):
                if value.number in self._of_batch:
                    last[value.number] = max(i, last.get(value.number, 0))
        alive = {value.number: value for value in self.batch if value.number in last}
        found = [list(alive.values())]
        for i, step in enumerate(self.steps):
            alive.update((value.number, value) for value in step.results if value.number in last)
            alive = {n: value for n, value in alive.items() if last[n] > i}
            found.append(list(alive.values()))
        return found

    def cuts(self) -> dict[int, list[Value]]:
        """The numbers of steps after which the chain can be cut, with the values that go on.

        Not within the steps that read one weight, nor after one that reads targets; and only where values go on that
        are floats, or that float32 holds exactly.
        """
        shut = {k for first, last in self.readers().values() for k in range(first + 1, last + 1)}
        end = next((i for i, reads in enumerate(self.reads_targets) if reads), len(self.steps) - 1)
        live = self.live()
        return {k: live[k] for k in range(1, end + 1) if k not in shut and live[k] and all(map(_crosses, live[k]))}

    def readers(self) -> dict[int, tuple[int, int]]:
        """The first and the last step that reads each weight."""
        found: dict[int, tuple[int, int]] = {}
        for i, weights in enumerate(self.weights_of):
            for weight in weights:
                found[weight] = (found.get(weight, (i, i))[0], i)
        return found

    # Parts --------------------------------------------------------------------------------------------------------

    def part(self, first: int, last: int) -> Part:
        """The steps from `first` up to and without `last`; the first has the batch as its inputs, the last the loss."""
        live = self.live()
        inputs = self.batch if first == 0 else live[first]
        outputs = [self.loss] if last == len(self.steps) else live[last]
        weights = sorted(frozenset().union(*self.weights_of[first:last]))
        steps = self.steps[first:last]

        def run(values: list[Any], arrays: list[Any], targets: list[Any]) -> list[Any]:
            if first:
                arrays = [_arrived(a, v) for a, v in zip(arrays, inputs, strict=True)]
            environment: dict[int, Any] = dict(self._constants)
            environment.update((self.weights[i].number, a) for i, a in zip(weights, values, strict=True))
            environment.update((v.number, a) for v, a in zip(self.targets, targets, strict=False))
            environment.update((v.number, a) for v, a in zip(inputs, arrays, strict=True))
            for step in steps:
                self._need(environment, step)
                _apply(environment, step)
            results = [environment[value.number] for value in outputs]
            if last == len(self.steps):
                return results
            return [_leaving(a, v) for a, v in zip(results, outputs, strict=True)]

        return Part(run, weights, inputs, outputs)

    def _need(self, environment: dict[int, Any], step: Step) -> None:
        """Computes what a step reads and no step of the chain has computed."""
        pending = [step]
        while pending:
            missing = [
                self._producer[value.number]
                for value in _values(pending[-1].operands)
                if value.number not in environment
            ]
            if missing:
                pending += missing
                continue
            done = pending.pop()
            if done is not step and done.results[0].number not in environment:
                _apply(environment, done)


def rough_cycles(equation: Any) -> float:
    """A guess that only says how fine the chain is cut: a fixed cost of each operation, and its arithmetic."""
    inner = [e for jaxpr in jaxprs_in_params(equation.params) for e in jaxpr.eqns]
    if inner:
        return float(equation.params.get("length", 1) * sum(map(rough_cycles, inner)))
    size = float(sum(math.prod(v.aval.shape) for v in equation.outvars))
    if equation.primitive.name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        size *= 2 * math.prod(equation.invars[0].aval.shape[d] for d in contracted)
    elif equation.primitive.name == "conv_general_dilated":
        kernel = equation.invars[1].aval.shape
        size *= 2 * math.prod(kernel) / kernel[equation.params["dimension_numbers"].rhs_spec[0]]
    return 500.0 + size / 16384


def _values(operands: Iterable[Any]) -> list[Value]:
    return [operand for operand in operands if isinstance(operand, Value)]


def _apply(environment: dict[int, Any], step: Step) -> None:
    equation = step.equation
    operands = [environment[a.number] if isinstance(a, Value) else a.val for a in step.operands]
    with at_source_line(equation):
        results = equation.primitive.bind(*operands, **equation.primitive.get_bind_params(equation.params))
    if not equation.primitive.multiple_results:
        results = [results]
    environment.update((value.number, a) for value, a in zip(step.results, results, strict=True))


def _crosses(value: Value) -> bool:
    return jnp.issubdtype(value.dtype, jnp.floating) or str(value.dtype) in _EXACT_IN_FLOAT


def _leaving(array: Any, value: Value) -> Any:
    return array if jnp.issubdtype(value.dtype, jnp.floating) else jnp.asarray(array, jnp.float32)


def _arrived(array: Any, value: Value) -> Any:
    return array if jnp.issubdtype(value.dtype, jnp.floating) else jnp.asarray(array).astype(value.dtype)
