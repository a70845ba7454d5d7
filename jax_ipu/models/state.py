"""The weights of a model in training: learned arrays, other arrays, and their names."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jax_ipu.models.model import Model
from jax_ipu.models.sharing import partly_shared, share
from jax_ipu.models.traced_model import Array


class TrainingWeights:
    """The weights as two lists of arrays, `learned` and `kept`, in which a tied weight occurs once.

    Attributes:
        learned: the arrays that the optimiser updates.
        kept: all others.
        tensors: for each array in `learned`, the framework's own tensors that are stored in it.
    """

    def __init__(self, model: Model) -> None:
        """Raises ValueError: there are no weights to train, or two weights overlap only partly in memory."""
        paths, self._tree = jax.tree_util.tree_flatten_with_path((model.trainable, model.frozen))
        leaves = [leaf for _, leaf in paths]
        # The first key of a path selects `trainable` or `frozen` and is no part of the name.
        self.names = [jax.tree_util.keystr(path[1:], simple=True, separator=".") for path, _ in paths]
        self._trainable = len(jax.tree.leaves(model.trainable))
        flagged = [i < self._trainable for i in range(len(leaves))]
        if model.shared:
            self._refuse_partly_shared(leaves, flagged)
        self._shared = share(leaves, () if model.shared else range(self._trainable))
        arrays = [_canonical(a) for a in self._shared.arrays]
        self._is_learned = [False] * len(arrays)
        for view, flag in zip(self._shared.views, flagged, strict=True):
            inexact = np.issubdtype(arrays[view.slot].dtype, np.inexact)
            self._is_learned[view.slot] |= flag and inexact
        self._warn_of_untrained(flagged if model.shared else [])
        if not any(self._is_learned):
            raise ValueError(
                f"a {model.kind} has no weights that can be trained: give (apply_fn, params), or a model of a framework"
            )
        self.learned = [a for a, learned in zip(arrays, self._is_learned, strict=True) if learned]
        self.kept = [a for a, learned in zip(arrays, self._is_learned, strict=True) if not learned]
        # A frozen name of a learned array has its current value, but passes no gradient.
        self._stop = [
            not flag and self._is_learned[v.slot] for flag, v in zip(flagged, self._shared.views, strict=True)
        ]
        slots = [slot for slot, learned in enumerate(self._is_learned) if learned]
        self.tensors = [
            [leaf for leaf, view in zip(leaves, self._shared.views, strict=True) if view.slot == slot] for slot in slots
        ]
        self._kept_slots = [slot for slot, learned in enumerate(self._is_learned) if not learned]

    def learned_names(self, index: int) -> list[str]:
        """Returns all names of one array in `learned`."""
        slot = [slot for slot, learned in enumerate(self._is_learned) if learned][index]
        return [name for name, view in zip(self.names, self._shared.views, strict=True) if view.slot == slot]

    def unflatten(self, learned: Sequence[Any], kept: Sequence[Any]) -> tuple[Any, Any]:
        """Returns (trainable, frozen) in the structure of the model."""
        remaining = {True: iter(learned), False: iter(kept)}
        leaves = self._shared.expand([next(remaining[is_learned]) for is_learned in self._is_learned])
        stopped = [
            jax.lax.stop_gradient(x) if s and isinstance(x, jax.Array) else x
            for x, s in zip(leaves, self._stop, strict=True)
        ]
        trainable, frozen = jax.tree.unflatten(self._tree, stopped)
        return trainable, frozen

    def changed(self, before: Any, after: Any) -> dict[int, Any]:
        """Returns the arrays of `kept` that the model updated itself, by index.

        Args:
            before: `frozen` as the model received it.
            after: `frozen` as the model returned it.

        Raises ValueError: the model updates an array that the optimiser updates as well.
        """
        changes: dict[int, Any] = {}
        leaves = zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
        for i, (old, new) in enumerate(leaves, self._trainable):
            if new is old:
                continue
            slot = self._shared.views[i].slot
            if self._is_learned[slot]:
                raise ValueError(
                    f"the model changes {self.names[i]} itself, and so does the optimiser, as it is stored in a weight "
                    "that is trained: give it memory of its own"
                )
            index = self._kept_slots.index(slot)
            changes[index] = self._shared.stored(i, new).astype(self.kept[index].dtype)
        return changes

    def _refuse_partly_shared(self, leaves: Sequence[Any], flagged: Sequence[bool]) -> None:
        for one, other in partly_shared(leaves):
            if flagged[one] or flagged[other]:
                raise ValueError(
                    f"the weights {self.names[one]} and {self.names[other]} have some of their memory in common, but "
                    "not all: a change of one would change the other. Make one of them a copy, or both the same tensor"
                )

    def _warn_of_untrained(self, flagged: Sequence[bool]) -> None:
        views = self._shared.views
        names = [self.names[i] for i, flag in enumerate(flagged) if flag and not self._is_learned[views[i].slot]]
        if names:
            warnings.warn(f"these weights are not trained, as they are no floats: {', '.join(names)}", stacklevel=2)


def _canonical(array: Any) -> Array:
    # Copy: the array goes to the IPU with the first step, and its owner may change the original before it.
    return np.array(array, jax.dtypes.canonicalize_dtype(array.dtype))
