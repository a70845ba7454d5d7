"""The recurrent layers of ONNX: RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_ipu.models.frameworks.onnx_table import Call, operator

# Activation -> (function of x and its parameters, defaults of alpha and beta as far as it has them).
_ACTIVATIONS: dict[str, tuple[Callable[..., Any], tuple[float, ...]]] = {
    "affine": (lambda x, a, b: a * x + b, (1.0, 0.0)),
    "elu": (lambda x, a: jnp.where(x < 0, a * jnp.expm1(jnp.minimum(x, 0)), x), (1.0,)),
    "hardsigmoid": (lambda x, a, b: jnp.clip(a * x + b, 0, 1), (0.2, 0.5)),
    "leakyrelu": (lambda x, a: jnp.where(x < 0, a * x, x), (0.01,)),
    "relu": (lambda x: jnp.maximum(x, 0), ()),
    "scaledtanh": (lambda x, a, b: a * jnp.tanh(b * x), (1.0, 1.0)),
    "sigmoid": (jax.nn.sigmoid, ()),
    "softplus": (jax.nn.softplus, ()),
    "softsign": (jax.nn.soft_sign, ()),
    "tanh": (jnp.tanh, ()),
    "thresholdedrelu": (lambda x, a: jnp.where(x > a, x, 0), (1.0,)),
}


class _Direction(NamedTuple):
    """The weights and activations of one direction; `inputs` are the projected inputs with the biases in them."""

    inputs: Any  # [time, batch, gates * hidden]
    recurrent: Any  # [gates * hidden, hidden]
    recurrent_bias: Any  # [gates * hidden], not yet in `inputs`, or None
    peepholes: Any  # [3 * hidden] or None
    activations: Sequence[Callable[[Any], Any]]


# (a direction, its projected inputs at one time, state) -> the new state, of which the first array is the output.
_Cell = Callable[[_Direction, Any, tuple[Any, ...]], tuple[Any, ...]]


@operator("RNN", 7)
def _rnn(call: Call, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None) -> Any:
    def cell(direction: _Direction, projected: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        (f,) = direction.activations
        return (f(projected + state[0] @ direction.recurrent.T),)

    return _recurrent(call, cell, ("Tanh",), x, w, r, b, lengths, (h,))


@operator("GRU", 7)
def _gru(call: Call, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None) -> Any:
    linear_first = bool(call.attributes.get("linear_before_reset", 0))

    def cell(direction: _Direction, projected: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        f, g = direction.activations
        (old,), size = state, state[0].shape[-1]
        bias = direction.recurrent_bias
        update_reset = projected[:, : 2 * size] + old @ direction.recurrent[: 2 * size].T
        if bias is not None:
            update_reset += bias[: 2 * size]
        update, reset = jnp.split(f(update_reset), 2, -1)
        last, last_bias = direction.recurrent[2 * size :].T, 0 if bias is None else bias[2 * size :]
        hidden = reset * (old @ last + last_bias) if linear_first else (reset * old) @ last + last_bias
        return ((1 - update) * g(projected[:, 2 * size :] + hidden) + update * old,)

    return _recurrent(call, cell, ("Sigmoid", "Tanh"), x, w, r, b, lengths, (h,), bias_apart=True)


@operator("LSTM", 7)
def _lstm(
    call: Call,
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    h: Any = None,
    c: Any = None,
    peepholes: Any = None,
) -> Any:
    coupled = bool(call.attributes.get("input_forget", 0))

    def cell(direction: _Direction, projected: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        f, g, activation = direction.activations
        hidden, memory = state
        i, o, forget, candidate = jnp.split(projected + hidden @ direction.recurrent.T, 4, -1)
        if direction.peepholes is not None:
            by_input, by_output, by_forget = jnp.split(direction.peepholes, 3)
            i, forget = i + by_input * memory, forget + by_forget * memory
        i = f(i)
        memory = (1 - i if coupled else f(forget)) * memory + i * g(candidate)
        if direction.peepholes is not None:
            o = o + by_output * memory
        return f(o) * activation(memory), memory

    return _recurrent(call, cell, ("Sigmoid", "Tanh", "Tanh"), x, w, r, b, lengths, (h, c), peepholes=peepholes)


def _recurrent(
    call: Call,
    cell: _Cell,
    activations: tuple[str, ...],
    x: Any,
    w: Any,
    r: Any,
    b: Any,
    lengths: Any,
    initial: tuple[Any, ...],
    *,
    peepholes: Any = None,
    bias_apart: bool = False,
) -> tuple[Any, ...]:
    """All outputs of a layer, of one direction or two: Y, and the last value of each array of the state.

    `activations` are the defaults; `bias_apart` leaves the recurrent bias to the cell.
    """
    batch_first = bool(call.attributes.get("layout", 0))
    if batch_first:
        x = jnp.swapaxes(x, 0, 1)
    directions, _, hidden = r.shape
    if lengths is not None and isinstance(lengths, np.ndarray) and (lengths == x.shape[0]).all():
        lengths = None
    kind = call.attributes.get("direction", "forward")
    reverse = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[kind]
    functions = _activations(call, activations * directions)
    outputs, last = [], []
    for d in range(directions):
        biases = None if b is None else jnp.split(b[d], 2)
        projected = x @ w[d].T
        if biases is not None:
            projected += biases[0] if bias_apart else biases[0] + biases[1]
        state = tuple(
            jnp.zeros((x.shape[1], hidden), x.dtype) if s is None else s[:, d] if batch_first else s[d] for s in initial
        )
        direction = _Direction(
            projected,
            r[d],
            biases[1] if biases is not None and bias_apart else None,
            None if peepholes is None else peepholes[d],
            [next(functions) for _ in activations],
        )
        y, final = _run(cell, direction, state, lengths, reverse[d])
        outputs.append(y)
        last.append(final)
    axis = 1 if batch_first else 0
    y = jnp.stack(outputs, 1)  # [time, directions, batch, hidden]
    y = jnp.transpose(y, (2, 0, 1, 3)) if batch_first else y
    return (y, *(jnp.stack(arrays, axis) for arrays in zip(*last, strict=True)))[: call.outputs]


def _run(cell: _Cell, direction: _Direction, state: tuple[Any, ...], lengths: Any, reverse: bool) -> Any:
    """(outputs [time, batch, hidden], last state). Rows end after `lengths` steps, with outputs of zero from there."""
    steps = direction.inputs.shape[0]
    if lengths is None:

        def step(state: tuple[Any, ...], projected: Any) -> tuple[Any, Any]:
            state = cell(direction, projected, state)
            return state, state[0]

        final, y = lax.scan(step, state, direction.inputs, reverse=reverse)
        return y, final

    time = jnp.arange(steps)[:, None]
    lengths = jnp.asarray(lengths)[None, :]
    # In reverse each row begins with its own last step.
    order = jnp.where(time < lengths, lengths - 1 - time, time)[..., None]
    inputs = jnp.take_along_axis(direction.inputs, order, 0) if reverse else direction.inputs

    def masked(state: tuple[Any, ...], at: tuple[Any, Any]) -> tuple[Any, Any]:
        runs = at[1][:, None]
        new = cell(direction, at[0], state)
        return tuple(jnp.where(runs, n, o) for n, o in zip(new, state, strict=True)), jnp.where(runs, new[0], 0)

    final, y = lax.scan(masked, state, (inputs, time < lengths))
    return jnp.take_along_axis(y, order, 0) if reverse else y, final


def _activations(call: Call, defaults: tuple[str, ...]) -> Iterator[Callable[[Any], Any]]:
    """The functions of all directions in order, each with its alpha and beta, after the clipping of their inputs."""
    alphas = iter(call.attributes.get("activation_alpha", ()))
    betas = iter(call.attributes.get("activation_beta", ()))
    clip = call.attributes.get("clip", 0.0)
    for name in call.attributes.get("activations", defaults):
        text = name.decode() if isinstance(name, bytes) else name
        if text.lower() not in _ACTIVATIONS:
            raise NotImplementedError(f"ONNX has no activation {text} for it")
        function, values = _ACTIVATIONS[text.lower()]
        parameters = [next(given, value) for given, value in zip((alphas, betas), values, strict=False)]

        def activation(x: Any, function: Any = function, parameters: Any = parameters) -> Any:
            limited = jnp.clip(x, -clip, clip) if clip else x
            return function(limited, *parameters).astype(x.dtype)

        yield activation
