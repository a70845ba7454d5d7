"""Training steps: weights and optimiser state stay on the IPU, per call only the batch goes there and the loss back."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jax_ipu.models.arrays import arguments, to_array
from jax_ipu.models.compiled import CompiledModel
from jax_ipu.models.model import Model
from jax_ipu.models.precision import retyped, storage_dtype
from jax_ipu.models.program import Array, Program, Signature, no_run, shape_of, spec_of

# What a step may compute again in the backward pass instead of keeping it.
RECOMPUTE = {
    "nothing": None,
    "all but products": "dots_saveable",
    "all but products without a batch": "dots_with_no_batch_dims_saveable",
    "everything": "nothing_saveable",
}


class TrainingStep(CompiledModel):
    """A compiled training step: ``loss = step(batch)``. Each call updates the weights on the IPU."""

    weights_of: Callable[[list[Any]], Any]

    def __call__(self, *batch: Any) -> Any:
        """One step on a batch (inputs, targets) like the example; returns the loss before the step."""
        return self.execute(batch[0] if len(batch) == 1 else batch)

    def execute(self, inputs: Any) -> Any:
        """The same."""
        batch = _parts(inputs)
        (loss,) = self._step(self._signature.flatten(batch))
        return float(np.asarray(loss))

    def weights(self) -> Any:
        """The weights now, as NumPy arrays in the structure of the model's."""
        with self._lock:
            self._check()
            return self.weights_of([np.array(w) for w in self._weights])


class Optimizer(NamedTuple):
    """As an optax.GradientTransformation."""

    init: Callable[[Any], Any]
    update: Callable[..., tuple[Any, Any]]


def optimizer_of(optimizer: Any, learning_rate: float) -> Any:
    """A name, or an object with `init` and `update` such as an optax optimiser, which is given back.

    Raises:
        ImportError: the named optimiser needs optax, which is not installed.
        ValueError, TypeError: there is no such optimiser.
    """
    if not isinstance(optimizer, str):
        if not (hasattr(optimizer, "init") and hasattr(optimizer, "update")):
            raise TypeError(
                f"an optimizer is a name or has init and update, as those of optax; {type(optimizer).__name__} has not"
            )
        return optimizer
    if optimizer == "sgd":
        return Optimizer(lambda params: (), _descend(learning_rate))
    try:
        optax: Any = importlib.import_module("optax")
    except ImportError as error:
        raise ImportError(
            f'the optimizer "{optimizer}" needs optax: pip install \'jax_ipu[training]\'; "sgd" needs nothing'
        ) from error
    if optimizer == "momentum":
        return optax.sgd(learning_rate, momentum=0.9)
    known = ("adam", "adamw", "adagrad", "rmsprop", "lamb", "lion", "nadam")
    if optimizer not in known:
        raise ValueError(f'there is no optimizer "{optimizer}": use sgd, momentum, {", ".join(known)}, or one of optax')
    return getattr(optax, optimizer)(learning_rate)


def _descend(learning_rate: float) -> Callable[..., tuple[Any, Any]]:
    def update(gradients: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        return jax.tree.map(lambda g: -learning_rate * g, gradients), state

    return update


def mean_squared_error(outputs: Any, targets: Any) -> Any:
    """Mean over all elements of (outputs - targets)^2."""
    return jnp.mean((outputs - targets) ** 2)


def cross_entropy(outputs: Any, targets: Any) -> Any:
    """Mean over the batch of the softmax cross entropy of logits [..., classes] with class numbers [...]."""
    log_probabilities = jax.nn.log_softmax(outputs)
    return -jnp.mean(jnp.take_along_axis(log_probabilities, targets[..., None], axis=-1))


LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "mean_squared_error": mean_squared_error,
    "cross_entropy": cross_entropy,
}


class Step(NamedTuple):
    """A training step before it is compiled: `step(state, batch)` gives the new state and [loss]."""

    program: Program
    step: Callable[[list[Any], list[Any]], tuple[list[Any], list[Any]]]
    weights_of: Callable[[list[Any]], Any]


class Trainer:
    """A model with its loss and optimiser, traced once for steps of several plans."""

    def __init__(
        self,
        model: Model,
        loss: Callable[[Any, Any], Any] | str,
        optimizer: Any,
        example_batch: Any,
        gradient_accumulation: int,
        precision: str,
    ) -> None:
        """Raises ValueError: an unknown loss, a model without weights, or a batch that cannot be cut as asked."""
        if isinstance(loss, str):
            if loss not in LOSSES:
                raise ValueError(
                    f'there is no loss "{loss}": use {", ".join(LOSSES)}, or a function (outputs, targets)'
                )
            loss = LOSSES[loss]
        self._model, self._loss, self._optimizer = model, loss, optimizer
        self._precision, self._accumulation = precision, gradient_accumulation
        leaves, self._tree = jax.tree.flatten((model.trainable, model.frozen))
        arrays = [_canonical(to_array(leaf)) for leaf in leaves]
        count = len(jax.tree.leaves(model.trainable))
        self._learned = [i < count and np.issubdtype(a.dtype, np.inexact) for i, a in enumerate(arrays)]
        if not any(self._learned):
            raise ValueError(
                f"a {model.kind} has no weights that can be trained: give (apply_fn, params), or a model of a framework"
            )
        self.learned = [a for a, learned in zip(arrays, self._learned, strict=True) if learned]
        self._rest = [a for a, learned in zip(arrays, self._learned, strict=True) if not learned]
        inputs, self._batch_tree = jax.tree.flatten(_parts(example_batch))
        self._specs = [spec_of(leaf) for leaf in inputs]
        self._micro = _micro_batches(self._specs, gradient_accumulation)

    def step(self, moments: Any, recompute: str) -> Step:
        """The step with the optimiser state `moments` to begin with."""
        gradient = self._gradient(recompute)
        initial, state_tree = jax.tree.flatten((self.learned, self._rest, moments))

        def step(state: list[Any], batch: list[Any]) -> tuple[list[Any], list[Any]]:
            learned, rest, moments = jax.tree.unflatten(state_tree, state)
            loss, gradients = self._mean(gradient, learned, rest, batch)
            updates, moments = self._optimizer.update(gradients, moments, learned)
            learned = [(w + u).astype(w.dtype) for w, u in zip(learned, updates, strict=True)]
            return jax.tree.leaves((learned, rest, moments)), [loss]

        def weights_of(state: list[Any]) -> Any:
            learned, rest, _ = jax.tree.unflatten(state_tree, state)
            return self._model_weights(learned, rest)[0]

        declared = [np.dtype(spec.dtype) for spec in self._specs]
        signature = Signature(
            self._batch_tree, self._specs, declared, jax.tree.structure(0), [shape_of((), np.float32)]
        )
        weights = [np.asarray(w) for w in initial]
        return Step(Program(f"{self._model.kind} step", no_run, weights, signature), step, weights_of)

    def _model_weights(self, learned: Sequence[Any], rest: Sequence[Any]) -> Any:
        """(trainable, frozen) as the model has them."""
        remaining = {True: iter(learned), False: iter(rest)}
        return jax.tree.unflatten(self._tree, [next(remaining[is_learned]) for is_learned in self._learned])

    def _gradient(self, recompute: str) -> Callable[..., Any]:
        """(learned, rest, batch) -> (loss, gradients), computed in the precision asked for, given in float32."""
        policy = RECOMPUTE[recompute]
        apply = self._model.apply
        if policy is not None:
            apply = jax.checkpoint(apply, policy=getattr(jax.checkpoint_policies, policy))

        def loss_of(learned: list[Any], rest: list[Any], batch: list[Any]) -> Any:
            inputs, targets = jax.tree.unflatten(self._batch_tree, batch)
            return self._loss(apply(*self._model_weights(learned, rest), *inputs), targets)

        closed = jax.make_jaxpr(jax.value_and_grad(loss_of))(*map(_specs, (self.learned, self._rest)), self._micro)
        evaluate = retyped(closed, self._precision)

        def gradient(learned: list[Any], rest: list[Any], batch: list[Any]) -> tuple[Any, list[Any]]:
            loss, *gradients = evaluate(closed.consts, [*_in(self._precision, [*learned, *rest, *batch])])
            same = [g.astype(w.dtype) for g, w in zip(gradients, learned, strict=True)]
            return loss.astype(jnp.float32), same

        return gradient

    def _mean(self, gradient: Callable[..., Any], learned: Any, rest: Any, batch: list[Any]) -> tuple[Any, list[Any]]:
        """Loss and gradients, the means of those of the micro-batches."""
        count = self._accumulation
        if count == 1:
            result: tuple[Any, list[Any]] = gradient(learned, rest, batch)
            return result
        parts = [x.reshape(count, *spec.shape) for x, spec in zip(batch, self._micro, strict=True)]

        def add(total: tuple[Any, list[Any]], micro: list[Any]) -> tuple[tuple[Any, list[Any]], None]:
            return jax.tree.map(jnp.add, total, gradient(learned, rest, micro)), None

        zero = (jnp.zeros((), jnp.float32), [jnp.zeros_like(w) for w in learned])
        total, _ = jax.lax.scan(add, zero, parts)
        mean: tuple[Any, list[Any]] = jax.tree.map(lambda x: (x / count).astype(x.dtype), total)
        return mean


def example_inputs(batch: Any) -> tuple[Any, ...]:
    """The model's arguments in an example batch."""
    return _parts(batch)[0]


def initial_state(optimizer: Any, learned: Sequence[Any], device: Any) -> Any:
    """The optimiser's state before the first step, made on the IPU."""
    sharding = jax.sharding.SingleDeviceSharding(device)
    init = jax.jit(optimizer.init, in_shardings=sharding, out_shardings=sharding)
    return jax.tree.map(np.asarray, init(list(learned)))


def _canonical(array: Any) -> Array:
    return np.asarray(array, jax.dtypes.canonicalize_dtype(array.dtype))


def _specs(arrays: Sequence[Any]) -> list[jax.ShapeDtypeStruct]:
    return [shape_of(a.shape, a.dtype) for a in arrays]


def _in(precision: str, values: Sequence[Any]) -> list[Any]:
    """Values of the state and the batch as the model computes with them."""
    return [jnp.asarray(v, storage_dtype(np.dtype(v.dtype), precision)) for v in values]


def _parts(batch: Any) -> tuple[tuple[Any, ...], Any]:
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        raise ValueError("a batch is a pair (inputs, targets); several inputs are a tuple in its first place")
    return arguments(batch[0]), batch[1]


def _micro_batches(specs: Sequence[Any], count: int) -> list[jax.ShapeDtypeStruct]:
    if count < 1:
        raise ValueError(f"gradient_accumulation is {count}, but must be at least 1")
    micro = []
    for i, spec in enumerate(specs):
        if count > 1 and (not spec.shape or spec.shape[0] % count):
            raise ValueError(
                f"gradient_accumulation={count} does not divide the leading dimension of array {i} of the batch, which "
                f"has the shape {spec.shape}"
            )
        shape = (spec.shape[0] // count, *spec.shape[1:]) if count > 1 else spec.shape
        micro.append(shape_of(shape, spec.dtype))
    return micro
