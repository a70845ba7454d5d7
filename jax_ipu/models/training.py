"""Training steps: weights and optimiser state stay on the IPU; a call sends the batch and returns the loss."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from jax_ipu.integration.tracebacks import boundary
from jax_ipu.models.arrays import arguments
from jax_ipu.models.compiled import CompiledModel
from jax_ipu.models.model import Model
from jax_ipu.models.optimizers import BoundLater, Optimizer
from jax_ipu.models.precision import retyped, storage_dtype
from jax_ipu.models.state import TrainingWeights
from jax_ipu.models.traced_model import Array, Signature, TracedModel, no_run, shape_of, spec_of
from jax_ipu.models.wide import is_wide, types_kept, types_narrowed

# Which activations the backward pass recomputes, with the name of the policy in jax.checkpoint_policies.
RECOMPUTE = {
    "nothing": None,
    "all but products": "dots_saveable",
    "all but products without a batch": "dots_with_no_batch_dims_saveable",
    "everything": "nothing_saveable",
}


class Batches(NamedTuple):
    """The interpretation of the batches of a training step."""

    own_loss: bool = False  # the model computes its loss itself, and a batch is its inputs
    rates: Callable[[], Sequence[float]] = tuple  # returns the optimiser's current learning rates
    rate_type: Any = np.float32

    def split(self, batch: Any) -> tuple[tuple[Any, ...], Any]:
        """Returns (the model's arguments, the targets).

        Raises ValueError: the batch has another form.
        """
        if self.own_loss:
            return arguments(tuple(batch) if isinstance(batch, list) else batch), ()
        if isinstance(batch, Mapping) and "labels" in batch:
            return arguments({name: value for name, value in batch.items() if name != "labels"}), batch["labels"]
        if not isinstance(batch, (tuple, list)) or len(batch) != 2:
            raise ValueError(
                "a batch is a pair (inputs, targets), in which several inputs are a tuple, or a dict with the targets "
                'under "labels"; where the model computes its loss itself (loss=None) it is the model\'s inputs'
            )
        return arguments(batch[0]), batch[1]

    def leaves(self, batch: Any) -> tuple[tuple[Any, ...], Any, list[Array]]:
        """Returns all inputs of a step: arguments, targets and learning rates."""
        return *self.split(batch), [np.asarray(rate, self.rate_type) for rate in self.rates()]


class TrainingStep(CompiledModel):
    """A compiled training step: ``loss = step(batch)`` updates the weights on the IPU.

    Attributes:
        batches: how a batch is taken apart.
        weights_of: makes what ``weights()`` returns of the state on the IPU.

    Examples:
        >>> import numpy as np
        >>> from jax_ipu import get_graphcore_manager
        >>> params, apply = [np.zeros((4, 1), np.float32)], lambda p, x: x @ p[0]
        >>> batch = np.eye(4, dtype=np.float32), np.ones((4, 1), np.float32)
        >>> step = get_graphcore_manager().compile_training_step(
        ...     (apply, params), "mean_squared_error", "sgd", batch, learning_rate=0.5
        ... )
        >>> step(batch), step(*batch) < 1.0
        (1.0, True)
    """

    batches: Batches
    weights_of: Callable[[list[Any]], Any]

    @boundary
    def __call__(self, *batch: Any) -> Any:
        """Runs a step on a batch (inputs, targets) with the example's shapes; returns the loss before the update."""
        return self.execute(batch[0] if len(batch) == 1 else batch)

    @boundary
    def execute(self, inputs: Any) -> Any:
        """As calling the step with one batch.

        Raises:
            ValueError: the structure or shape of the batch differs from the example.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu import get_graphcore_manager
            >>> params, apply = [np.zeros((4, 1), np.float32)], lambda p, x: x @ p[0]
            >>> batch = np.eye(4, dtype=np.float32), np.ones((4, 1), np.float32)
            >>> step = get_graphcore_manager().compile_training_step(
            ...     (apply, params), "mean_squared_error", "sgd", batch, learning_rate=0.5
            ... )
            >>> step.execute(batch)
            1.0
        """
        (loss,) = self._step(self._signature.flatten(self.batches.leaves(inputs)))
        return float(np.asarray(loss))

    @boundary
    def fit(self, batches: Iterable[Any], epochs: int = 1) -> list[float]:
        """Steps over all batches, `epochs` times; returns the mean loss of each epoch.

        Args:
            batches: an iterable of batches with the shapes of the example, such as a list or a DataLoader of PyTorch.
                It is iterated over once per epoch. A DataLoader needs drop_last=True where the last batch is smaller.
            epochs: the number of epochs.

        Raises:
            ValueError: there is no batch, or the structure or shape of a batch differs from the example.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu import get_graphcore_manager
            >>> params, apply = [np.zeros((4, 1), np.float32)], lambda p, x: x @ p[0]
            >>> batch = np.eye(4, dtype=np.float32), np.ones((4, 1), np.float32)
            >>> step = get_graphcore_manager().compile_training_step(
            ...     (apply, params), "mean_squared_error", "sgd", batch, learning_rate=0.5
            ... )
            >>> losses = step.fit([batch, batch], epochs=3)
            >>> len(losses), losses == sorted(losses, reverse=True)
            (3, True)
        """
        means = []
        for _ in range(epochs):
            losses = [self.execute(batch) for batch in batches]
            if not losses:
                raise ValueError("there are no batches: an iterator gives them once only, a list or DataLoader again")
            means.append(sum(losses) / len(losses))
        return means

    def weights(self) -> Any:
        """Returns the current weights as NumPy arrays in the structure of the model's weights.

        For a PyTorch model, these are all entries of its ``state_dict()`` under the same names.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu import get_graphcore_manager
            >>> params, apply = [np.zeros((4, 1), np.float32)], lambda p, x: x @ p[0]
            >>> batch = np.eye(4, dtype=np.float32), np.ones((4, 1), np.float32)
            >>> step = get_graphcore_manager().compile_training_step(
            ...     (apply, params), "mean_squared_error", "sgd", batch, learning_rate=0.5
            ... )
            >>> step.weights()[0].ravel().tolist()
            [0.0, 0.0, 0.0, 0.0]
        """
        with self._lock:
            self._check()
            return self.weights_of([np.array(w) for w in self._weights])


def mean_squared_error(outputs: Any, targets: Any) -> Any:
    """Returns the mean over all elements of (outputs - targets)^2.

    Raises ValueError: they have not one shape, so that a difference would be of other elements than the user means.
    """
    if jnp.shape(outputs) != jnp.shape(targets):
        raise ValueError(
            f"mean_squared_error: the outputs have the shape {jnp.shape(outputs)}, the targets {jnp.shape(targets)};"
            " they are compared element by element"
        )
    return jnp.mean((outputs - targets) ** 2)


def cross_entropy(outputs: Any, targets: Any) -> Any:
    """Returns the mean softmax cross entropy of logits [..., classes] with class numbers [...].

    Raises ValueError: the shapes are others.
    """
    if jnp.shape(targets) != jnp.shape(outputs)[:-1]:
        raise ValueError(
            f"cross_entropy: outputs of the shape {jnp.shape(outputs)} take class numbers of the shape"
            f" {jnp.shape(outputs)[:-1]}, not targets of {jnp.shape(targets)}"
        )
    log_probabilities = jax.nn.log_softmax(outputs)
    return -jnp.mean(jnp.take_along_axis(log_probabilities, targets[..., None], axis=-1))


def own_loss(outputs: Any, targets: Any) -> Any:
    """Returns the loss that the model computed: its output, or the entry or attribute `loss` of its output.

    Raises ValueError: there is no scalar loss.
    """
    loss: Any = outputs.get("loss") if isinstance(outputs, Mapping) else getattr(outputs, "loss", outputs)
    if not hasattr(loss, "shape") or loss.shape != ():
        raise ValueError(
            f'with loss=None the model\'s output is the loss or has it under "loss"; {type(outputs).__name__} has not. '
            'Models of Hugging Face compute it when the batch has "labels"'
        )
    return loss


LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "mean_squared_error": mean_squared_error,
    "cross_entropy": cross_entropy,
}


class Step(NamedTuple):
    """A training step before compilation: `step(state, batch)` returns (new state, [loss])."""

    traced: TracedModel
    step: Callable[[list[Any], list[Any]], tuple[list[Any], list[Any]]]
    weights_of: Callable[[list[Any]], Any]


class Trainer:
    """A model with its loss and optimiser, from which steps for several plans are traced."""

    def __init__(
        self,
        model: Model,
        loss: Callable[[Any, Any], Any] | str | None,
        optimizer: Any,
        example_batch: Any,
        gradient_accumulation: int,
        precision: str,
        seed: int,
    ) -> None:
        """Raises ValueError: unknown loss, no weights, or a batch that gradient_accumulation does not divide."""
        if isinstance(loss, str):
            if loss not in LOSSES:
                raise ValueError(
                    f'there is no loss "{loss}": use {", ".join(LOSSES)}, a function (outputs, targets), or None for a '
                    "model that computes its loss itself"
                )
            loss = LOSSES[loss]
        if loss is not None and not callable(loss):
            raise TypeError(
                f"loss={loss!r} is not valid: give a function (outputs, targets), or one of {', '.join(LOSSES)}"
            )
        self._model, self._loss = model, loss or own_loss
        self._precision, self._accumulation, self._seed = precision, gradient_accumulation, seed
        with types_kept(model.wide):
            self._weights = TrainingWeights(model)
        self.learned = self._weights.learned
        self._wide_weights = any(is_wide(weight.dtype) for weight in self.learned)
        self.optimizer: Any = optimizer.bind(self._weights) if isinstance(optimizer, BoundLater) else optimizer
        self._rates = getattr(self.optimizer, "rates", None)
        self.batches = Batches(loss is None, self._rates or tuple, np.float64 if self._wide_weights else np.float32)
        inputs, self._batch_tree = jax.tree.flatten(self.batches.split(example_batch))
        with types_kept(model.wide):
            self._specs = [spec_of(leaf) for leaf in inputs]
        self._micro = _micro_batches(self._specs, gradient_accumulation)

    def step(self, moments: Any, recompute: str) -> Step:
        """Returns the step; `moments` is the initial state of the optimiser."""
        gradient, used, loss_type = self._gradient(recompute)
        key = np.asarray(jax.random.key_data(jax.random.key(self._seed))) if self._model.train else None
        initial, state_tree = jax.tree.flatten((self.learned, self._weights.kept, moments, key))
        count = len(self._specs)

        def step(state: list[Any], batch: list[Any]) -> tuple[list[Any], list[Any]]:
            learned, kept, moments, key = jax.tree.unflatten(state_tree, state)
            batch, rates = batch[:count], batch[count:]
            loss, gradients, kept, key = self._mean(gradient, learned, kept, key, batch, loss_type)
            with self._types_of_optimizer():
                if self._rates:
                    updates, moments = self.optimizer.update(gradients, moments, learned, rates, used)
                else:
                    updates, moments = self.optimizer.update(gradients, moments, learned)
            learned = [(w + u).astype(w.dtype) for w, u in zip(learned, updates, strict=True)]
            return jax.tree.leaves((learned, kept, moments, key)), [loss]

        def weights_of(state: list[Any]) -> Any:
            learned, kept, *_ = jax.tree.unflatten(state_tree, state)
            return self.weights_of(learned, kept)

        weights = [np.asarray(w) for w in initial]
        traced = TracedModel(self.kind, no_run, weights, self.signature(loss_type), wide=self._model.wide)
        return Step(traced, step, weights_of)

    @property
    def kind(self) -> str:
        """The kind of the step, e.g. "PyTorch step"."""
        return f"{self._model.kind} step"

    def signature(self, loss_type: Any) -> Signature:
        """The inputs of a step, which are those of `Batches.leaves`, and its loss."""
        rates = [shape_of((), self.batches.rate_type) for _ in self.batches.rates()]
        specs = [*self._specs, *rates]
        in_tree = jax.tree.structure((*jax.tree.unflatten(self._batch_tree, self._specs), rates))
        declared = [np.dtype(spec.dtype) for spec in specs]
        return Signature(in_tree, specs, declared, jax.tree.structure(0), [shape_of((), loss_type)])

    def weights_of(self, learned: Sequence[Any], kept: Sequence[Any] | None = None) -> Any:
        """The weights in the model's own structure; `kept`: by default as they were at the beginning."""
        trainable, frozen = self._weights.unflatten(learned, self._weights.kept if kept is None else kept)
        return self._model.weights(trainable, frozen) if self._model.weights else trainable

    # Without a step ---------------------------------------------------------------------------------------------------

    def types(self) -> contextlib.AbstractContextManager[Any]:
        """While it lasts, JAX has the types of the model."""
        return types_kept(self._model.wide)

    def micro_batch(self, leaves: Sequence[Any] | None = None) -> tuple[Any, tuple[Any, ...]]:
        """Arguments and targets of :meth:`as_loss`, of leaves of a batch; by default the shapes of a micro-batch."""
        inputs, targets = jax.tree.unflatten(self._batch_tree, list(leaves or self._micro))
        return inputs, () if self.batches.own_loss else (targets,)

    def as_loss(self) -> Callable[..., Any]:
        """The loss of a micro-batch as a function of the learned weights, arguments and targets.

        Raises ValueError: a training step does more than to compute this loss and to update the weights.
        """
        if self._rates:
            raise ValueError("the learning rates of the optimiser can change from step to step")

        def with_changes(learned: list[Any], key: Any, batch: list[Any]) -> Any:
            inputs, targets = jax.tree.unflatten(self._batch_tree, batch)
            outputs, changes = self._apply(learned, self._weights.kept, key, inputs)
            return self._loss(outputs, targets), changes

        key = shape_of((2,), np.uint32) if self._model.train else None
        arguments = (_specs(self.learned), key, self._micro)
        with self.types():
            closed, (_, changes) = jax.make_jaxpr(with_changes, return_shape=True)(*arguments)
        if changes:
            raise ValueError("the model changes arrays of its own in training, such as running statistics")
        before = len(self.learned)
        if key is not None and _depend_on(closed.jaxpr, closed.jaxpr.invars[before : before + 1], 1)[0]:
            raise ValueError("the model draws random numbers in training")
        evaluate = retyped(closed, self._precision)

        def loss_of(learned: list[Any], inputs: Any, *targets: Any) -> Any:
            leaves = jax.tree.leaves((inputs, *(targets or ((),))))
            keys = [] if key is None else [np.zeros(2, np.uint32)]
            values = [*_in(self._precision, learned), *keys, *_in(self._precision, leaves)]
            loss = evaluate(closed.consts, values)[0]
            return loss if loss.dtype == np.float64 else loss.astype(np.float32)

        return loss_of

    def narrow_optimizer(self) -> Optimizer:
        """The optimiser, which computes in the types of the weights wherever it is called."""

        def init(params: Any) -> Any:
            with self._types_of_optimizer():
                return self.optimizer.init(params)

        def update(gradients: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
            with self._types_of_optimizer():
                result: tuple[Any, Any] = self.optimizer.update(gradients, state, params)
                return result

        return Optimizer(init, update)

    def initial_state(self, device: Any) -> Any:
        """Returns the initial state of the optimiser, which the IPU computes."""
        sharding = jax.sharding.SingleDeviceSharding(device)
        init = jax.jit(self.optimizer.init, in_shardings=sharding, out_shardings=sharding)
        with self._types_of_optimizer():
            return jax.tree.map(np.asarray, init(list(self.learned)))

    def _types_of_optimizer(self) -> contextlib.AbstractContextManager[Any]:
        """Learning rates and powers of decays are of 64 bits only for weights that are."""
        if not self._model.wide:
            return contextlib.nullcontext()
        return types_kept() if self._wide_weights else types_narrowed()

    def _gradient(self, recompute: str) -> tuple[Callable[..., Any], list[bool], Any]:
        """Returns (learned, kept, key, batch) -> (loss, gradients, kept), its dependence on each weight, and its type.

        The function computes in the chosen precision; the loss is float64 or float32, gradients have the types of the
        weights.
        """
        policy = RECOMPUTE[recompute]
        apply: Callable[..., Any] = self._apply
        if policy is not None:
            apply = jax.checkpoint(apply, policy=getattr(jax.checkpoint_policies, policy))

        def loss_of(learned: list[Any], kept: list[Any], key: Any, batch: list[Any]) -> Any:
            inputs, targets = jax.tree.unflatten(self._batch_tree, batch)
            outputs, changes = apply(learned, kept, key, inputs)
            return self._loss(outputs, targets), changes

        key = shape_of((2,), np.uint32) if self._model.train else None
        arguments = (*map(_specs, (self.learned, self._weights.kept)), key, self._micro)
        function = jax.value_and_grad(loss_of, has_aux=True)
        with types_kept(self._model.wide):
            closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
        tree = jax.tree.structure(shapes)
        is_double = shapes[0][0].dtype == np.float64 and self._precision == "float32"
        loss_type: Any = np.float64 if is_double else np.float32
        evaluate = retyped(closed, self._precision)

        def gradient(learned: list[Any], kept: list[Any], key: Any, batch: list[Any]) -> Any:
            keys = [] if key is None else [key]
            flat = evaluate(
                closed.consts, [*_in(self._precision, [*learned, *kept]), *keys, *_in(self._precision, batch)]
            )
            (loss, changes), gradients = jax.tree.unflatten(tree, flat)
            same = [g.astype(w.dtype) for g, w in zip(gradients, learned, strict=True)]
            new = [changes[i].astype(w.dtype) if i in changes else w for i, w in enumerate(kept)]
            return loss.astype(loss_type), same, new

        return gradient, _depend_on(closed.jaxpr, closed.jaxpr.invars, len(self.learned)), loss_type

    def _apply(self, learned: list[Any], kept: list[Any], key: Any, inputs: tuple[Any, ...]) -> tuple[Any, Any]:
        """Returns the outputs and the arrays of `kept` that the model updated, by index."""
        trainable, frozen = self._weights.unflatten(learned, kept)
        if self._model.train is None:
            return self._model.apply(trainable, frozen, *inputs), {}
        outputs, after = self._model.train(trainable, frozen, jax.random.wrap_key_data(key), *inputs)
        return outputs, self._weights.changed(frozen, after)

    def _mean(
        self, gradient: Callable[..., Any], learned: Any, kept: Any, key: Any, batch: list[Any], loss_type: Any
    ) -> Any:
        """Returns (loss, gradients, kept, key): means over the micro-batches, and the updated arrays and random key."""
        count = self._accumulation
        keys = None
        if key is not None:
            key, *rest = jax.random.key_data(jax.random.split(jax.random.wrap_key_data(key), count + 1))
            keys = jnp.stack(rest)
        if count == 1:
            return *gradient(learned, kept, None if keys is None else keys[0], batch), key
        parts = [x.reshape(count, *spec.shape) for x, spec in zip(batch, self._micro, strict=True)]

        def add(carry: Any, micro: Any) -> tuple[Any, None]:
            total, kept = carry
            loss, gradients, kept = gradient(learned, kept, *micro)
            return (jax.tree.map(jnp.add, total, (loss, gradients)), kept), None

        zero = (jnp.zeros((), loss_type), [jnp.zeros_like(w) for w in learned])
        (total, kept), _ = jax.lax.scan(add, (zero, kept), (keys, parts))
        loss, gradients = jax.tree.map(lambda x: (x / count).astype(x.dtype), total)
        return loss, gradients, kept, key


def _depend_on(jaxpr: Any, inputs: Sequence[Any], count: int) -> list[bool]:
    """Whether each of the last `count` results depends on any of `inputs`.

    A gradient that depends on no input is a constant zero.
    """
    known = set(inputs)
    for eqn in jaxpr.eqns:
        if any(not isinstance(atom, Literal) and atom in known for atom in eqn.invars):
            known.update(eqn.outvars)
    return [not isinstance(atom, Literal) and atom in known for atom in jaxpr.outvars[-count:]]


def _specs(arrays: Sequence[Any]) -> list[jax.ShapeDtypeStruct]:
    return [shape_of(a.shape, a.dtype) for a in arrays]


def _in(precision: str, values: Sequence[Any]) -> list[Any]:
    """Converts state and batch to the types in which the model computes."""
    return [jnp.asarray(v, storage_dtype(np.dtype(v.dtype), precision)) for v in values]


def _micro_batches(specs: Sequence[Any], count: int) -> list[jax.ShapeDtypeStruct]:
    if not hasattr(count, "__index__") or count < 1:
        raise ValueError(f"gradient_accumulation={count!r} is not valid: give a whole number of at least 1")
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
