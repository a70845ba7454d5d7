"""The operators of ONNX that have graphs as attributes: If, Loop and Scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_ipu.models.frameworks.onnx_table import NeedsValueError

# A graph of a node as a function of its inputs, which also sees the values around the node.
Body = Callable[[Sequence[Any]], list[Any]]
# A loop of which the body does not have one form for all steps is written out, up to so many times.
_MAX_UNROLLED = 256
_LENGTH = (
    "the length of its result is known only when it has run, and the IPU's memory is planned by shapes. A loop with a "
    "number of steps that follows from shapes and constants can be run"
)


def branch(attributes: dict[str, Any], inputs: Sequence[Any], body_of: Callable[[Any], Body]) -> Sequence[Any]:
    """If: one of two graphs. The other one is not even compiled where the condition is a constant."""
    (condition,) = inputs
    then, otherwise = body_of(attributes["then_branch"]), body_of(attributes["else_branch"])
    if isinstance(condition, np.ndarray):
        return then(()) if bool(condition.reshape(())) else otherwise(())
    result: Sequence[Any] = lax.cond(
        jnp.reshape(condition, ()),
        lambda: list(map(jnp.asarray, then(()))),
        lambda: list(map(jnp.asarray, otherwise(()))),
    )
    return result


def loop(attributes: dict[str, Any], inputs: Sequence[Any], body_of: Callable[[Any], Body]) -> Sequence[Any]:
    """Loop: a counted loop where the number of steps is a constant, else a loop without scan outputs.

    Raises NotImplementedError: a scan output whose length depends on values.
    """
    count, condition, *state = inputs
    graph, body = attributes["body"], body_of(attributes["body"])
    scanned = len(graph.output) - 1 - len(state)
    known = (count is not None and isinstance(count, np.ndarray)) and _is_known(condition)
    if known:
        steps = int(count.reshape(())) if condition is None or bool(condition.reshape(())) else 0
        if _goes_on(body, state):
            return _counted(body, steps, state)
        if steps <= _MAX_UNROLLED:
            unrolled = _unrolled(body, steps, state, scanned)
            if unrolled is not None:
                return unrolled
    if scanned:
        raise NotImplementedError(_LENGTH)
    return _until(body, count, condition, state)


def scan(attributes: dict[str, Any], inputs: Sequence[Any], body_of: Callable[[Any], Body]) -> Sequence[Any]:
    """Scan, as it is defined since version 9."""
    body, graph = body_of(attributes["body"]), attributes["body"]
    count = attributes["num_scan_inputs"]
    state, arrays = list(inputs[: len(inputs) - count]), inputs[len(inputs) - count :]
    outputs = len(graph.output) - len(state)
    axes = attributes.get("scan_input_axes", [0] * count)
    backwards = attributes.get("scan_input_directions", [0] * count)
    columns = [
        jnp.flip(moved, 0) if back else moved
        for moved, back in zip(
            (jnp.moveaxis(x, axis, 0) for x, axis in zip(arrays, axes, strict=True)), backwards, strict=True
        )
    ]

    def step(carry: list[Any], parts: list[Any]) -> tuple[list[Any], list[Any]]:
        results = list(map(jnp.asarray, body([*carry, *parts])))
        return results[: len(carry)], results[len(carry) :]

    final, stacked = lax.scan(step, list(map(jnp.asarray, state)), columns)
    axes = attributes.get("scan_output_axes", [0] * outputs)
    backwards = attributes.get("scan_output_directions", [0] * outputs)
    results = [
        jnp.moveaxis(jnp.flip(y, 0) if back else y, 0, axis)
        for y, axis, back in zip(stacked, axes, backwards, strict=True)
    ]
    return [*final, *results]


def _is_known(condition: Any) -> bool:
    return condition is None or isinstance(condition, np.ndarray)


def _goes_on(body: Body, state: Sequence[Any]) -> bool:
    """Whether the body has one form for all steps: its condition is always true, and its state keeps its types."""
    found: list[Any] = []

    def first(index: Any, state: list[Any]) -> list[Any]:
        found[:] = body([index, np.array(True), *state])
        return list(map(jnp.asarray, found[1 : 1 + len(state)]))

    arrays = list(map(jnp.asarray, state))
    try:
        shapes = jax.eval_shape(first, _number(0), arrays)
    except NeedsValueError:
        return False
    goes_on = isinstance(found[0], np.ndarray) and bool(found[0].reshape(()))
    return goes_on and all((s.shape, s.dtype) == (a.shape, a.dtype) for s, a in zip(shapes, arrays, strict=True))


def _counted(body: Body, steps: int, state: Sequence[Any]) -> list[Any]:
    def step(carry: list[Any], index: Any) -> tuple[list[Any], list[Any]]:
        results = list(map(jnp.asarray, body([_number(index), np.array(True), *carry])))[1:]
        return results[: len(carry)], results[len(carry) :]

    final, stacked = lax.scan(step, list(map(jnp.asarray, state)), jnp.arange(steps, dtype=jnp.int32))
    return [*final, *stacked]


def _unrolled(body: Body, steps: int, state: Sequence[Any], scanned: int) -> list[Any] | None:
    """Step after step, with constants known in each; None where a step's condition depends on values."""
    values, rows = list(state), []
    for index in range(steps):
        condition, *results = body([np.array(index, np.int64), np.array(True), *values])
        values = results[: len(state)]
        rows.append(results[len(state) :])
        if not isinstance(condition, np.ndarray):
            return None
        if not bool(condition.reshape(())):
            break
    if scanned and not rows:
        raise NotImplementedError(_LENGTH)
    return [*values, *(jnp.stack(list(map(jnp.asarray, column))) for column in zip(*rows, strict=True))]


def _until(body: Body, count: Any, condition: Any, state: Sequence[Any]) -> list[Any]:
    """As long as the condition holds, at most `count` times."""
    limit = None if count is None else jnp.reshape(jnp.asarray(_as_int32(count)), ())

    def goes_on(carry: Any) -> Any:
        index, condition, _ = carry
        return condition if limit is None else condition & (index < limit)

    def step(carry: Any) -> Any:
        index, condition, values = carry
        condition, *results = body([_number(index), condition, *values])
        return index + 1, jnp.reshape(jnp.asarray(condition, bool), ()), list(map(jnp.asarray, results))

    begin = jnp.asarray(True) if condition is None else jnp.reshape(jnp.asarray(condition, bool), ())
    carry = (jnp.zeros((), jnp.int32), begin, list(map(jnp.asarray, state)))
    results: list[Any] = lax.while_loop(goes_on, step, carry)[2]
    return results


def _number(index: Any) -> Any:
    """The number of a step as the body gets it, int64 where the program has such types."""
    return jnp.asarray(index).astype(jax.dtypes.canonicalize_dtype(np.int64))


def _as_int32(count: Any) -> Any:
    """Exporters write the largest int64 for a loop without a limit."""
    return np.minimum(count, np.iinfo(np.int32).max) if isinstance(count, np.ndarray) else count


# Operator -> (the first version that the function is written for, function(attributes, inputs, body_of)).
CONTROL: dict[str, tuple[int, Callable[..., Sequence[Any]]]] = {
    "If": (1, branch),
    "Loop": (1, loop),
    "Scan": (9, scan),
}
