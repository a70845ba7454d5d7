"""Keras training loops: ``steps_per_execution`` as one run of a program, with the fewest programs for an epoch.

Keras itself runs its jitted step once for each of ``steps_per_execution`` batches, and computes the metrics of an epoch
operation by operation; each operation is a program that replaces the training step on the IPU. If the default device is
an IPU, this module does both in one program. Tested with Keras 3.15.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax_ipu.integration import late_imports

PLATFORM = "ipu"
_MODULE = "keras.src.backend.jax.trainer"
_PARAMETERS = ["self", "step_function", "concatenate_outputs"]

# (state, data) -> (outputs, state): a jitted step of Keras.
StepFunction = Callable[[Any, Any], tuple[Any, Any]]


class _Logs(dict[str, Any]):
    """Results of all metrics after the last step."""


def enable() -> None:
    """Changes Keras's trainer as soon as it is imported with the JAX backend."""
    late_imports.when_module_imported(_MODULE, _change_trainer)


def _change_trainer(module: Any) -> None:
    trainer: Any = module.JAXTrainer
    make_function = getattr(trainer, "_make_function", None)
    result_or_logs = getattr(trainer, "_get_metrics_result_or_logs", None)
    # Leave a Keras version with a different trainer unchanged.
    if make_function is None or list(inspect.signature(make_function).parameters) != _PARAMETERS:
        return

    def make(self: Any, step_function: StepFunction, concatenate_outputs: bool = False) -> Any:
        if self.run_eagerly or not self.jit_compile or not _on_ipu():
            return make_function(self, step_function, concatenate_outputs)
        if self.steps_per_execution > 1:
            run = _loop(step_function, self.steps_per_execution, concatenate_outputs)
        else:
            run = make_function(self, step_function, concatenate_outputs)
        return run if concatenate_outputs else _with_logs(self, run)

    trainer._make_function = make
    if result_or_logs is not None:

        def logs_or_result(self: Any, logs: Any) -> Any:
            # The step already computed these values from the current metric variables.
            return dict(logs) if isinstance(logs, _Logs) else result_or_logs(self, logs)

        trainer._get_metrics_result_or_logs = logs_or_result
    ahead = getattr(module.JAXEpochIterator, "_one_batch_ahead_iterator", None)
    if ahead is not None:

        def batches(self: Any, numpy_iterator: Iterator[Any]) -> Iterator[Any]:
            # Several batches go to the IPU as one array.
            together = self.steps_per_execution > 1 and _on_ipu()
            return numpy_iterator if together else ahead(self, numpy_iterator)

        module.JAXEpochIterator._one_batch_ahead_iterator = batches


def _on_ipu() -> bool:
    """Whether uncommitted arrays go to one IPU. Keras distributions over several devices are left to Keras."""
    config: Any = jax.config
    default = config.jax_default_device
    platform = getattr(default, "platform", default) or jax.default_backend()
    distribution: Any = importlib.import_module("keras.distribution")
    return bool(platform == PLATFORM) and distribution.distribution() is None


def _with_logs(trainer: Any, run: Callable[[Any, Iterator[Any]], tuple[Any, Any]]) -> Any:
    """Wraps the function: its logs are marked when they are the results of all metrics of the trainer."""
    own_steps = {"train_step", "test_step", "compute_metrics"}
    base = next(c for c in type(trainer).__mro__ if c.__module__ == _MODULE)
    bases = {name: getattr(base, name) for name in own_steps}
    is_keras = all(getattr(type(trainer), name) is bases[name] for name in own_steps)

    def iterator_step(state: Any, iterator: Iterator[Any]) -> tuple[Any, Any]:
        logs, state = run(state, iterator)
        return (_Logs(logs) if is_keras and isinstance(logs, dict) else logs), state

    return iterator_step


def _loop(step: StepFunction, steps: int, concatenate: bool) -> Callable[[Any, Iterator[Any]], tuple[Any, Any]]:
    """Returns the function that Keras calls with (state, iterator over batches): up to `steps` steps in one run.

    A last batch of another shape is a run of its own.
    """

    def loop(state: Any, stacked: Any, count: Any) -> tuple[Any, Any]:
        leaves, tree = jax.tree.flatten(state)

        def batch(i: Any) -> Any:
            return jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, i, keepdims=False), stacked)

        shapes, states = jax.eval_shape(step, state, batch(0))
        tree = jax.tree.structure(states)
        outputs = jax.tree.map(lambda s: jnp.zeros((steps, *s.shape) if concatenate else s.shape, s.dtype), shapes)

        def body(i: Any, carry: tuple[list[Any], Any]) -> tuple[list[Any], Any]:
            leaves, outputs = carry
            new, state = step(jax.tree.unflatten(tree, leaves), batch(i))
            if concatenate:
                new = jax.tree.map(lambda o, n: jax.lax.dynamic_update_index_in_dim(o, n, i, 0), outputs, new)
            return jax.tree.leaves(state), new

        leaves, outputs = jax.lax.fori_loop(0, count, body, (leaves, outputs))
        return outputs, jax.tree.unflatten(tree, leaves)

    compiled = jax.jit(loop, donate_argnums=0)
    looped = False

    def run(state: Any, batches: list[Any]) -> tuple[Any, Any]:
        """Runs a step for each of `batches`, which have one shape."""
        nonlocal looped
        if len(batches) == 1 and not looped:
            return step(state, batches[0])
        looped = True
        # One program for any number of batches: unused input slots are not read.
        missing = steps - len(batches)
        stacked = jax.tree.map(lambda *x: np.stack([np.asarray(v) for v in (*x, *x[:1] * missing)]), *batches)
        outputs, state = compiled(state, stacked, np.int32(len(batches)))
        if concatenate:
            outputs = jax.tree.map(lambda o: np.asarray(o)[: len(batches)].reshape(-1, *o.shape[2:]), outputs)
        return outputs, state

    def iterator_step(state: Any, iterator: Iterator[Any]) -> tuple[Any, Any]:
        batches = list(itertools.islice(iterator, steps))
        if not batches:
            raise StopIteration
        results = []
        for _, group in itertools.groupby(batches, _shapes):
            result, state = run(state, list(group))
            results.append(result)
        if concatenate and len(results) > 1:
            return jax.tree.map(lambda *x: np.concatenate([np.asarray(v) for v in x]), *results), state
        return results[-1], state

    return iterator_step


def _shapes(batch: Any) -> Any:
    leaves, tree = jax.tree.flatten(batch)
    return tree, [(np.shape(leaf), leaf.dtype) for leaf in leaves]
