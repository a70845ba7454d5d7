"""The programs of one stage of a pipeline: they share an engine, so its weights and sums stay in SRAM."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax_ipu.integration.link import member, new_group


class Stage:
    """A function of the model with its IPU.

    The sums of a stage are a dictionary: "gradients", of all micro-batches since they were zero, and "loss", which is
    None but for the last stage. Its stash has what backward reads of the micro-batches that are under way.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        device: Any,
        first: bool,
        last: bool,
        recompute: bool,
        batches: int,
        compiler_options: Mapping[str, Any],
    ) -> None:
        self.function, self.device = function, device
        self.first, self.last, self.recompute, self.batches = first, last, recompute, batches
        # How backward is rebuilt from the values that forward keeps, and which of these are weights.
        self._kept: Any = None
        # A function of this stage as a program of its IPU.
        self._jit = functools.partial(jax.jit, compiler_options=dict(compiler_options))
        programs = [
            self._jit(self.run_forward, donate_argnums=1),
            self._jit(self.run_last if last else self.run_backward, donate_argnums=1),
            self._jit(self.mean, donate_argnums=0),
            self._jit(function),
        ]
        self._group = new_group()
        self.forward, self.backward, self.gradients, self.apply = (member(p, self._group) for p in programs)

    def put(self, tree: Any) -> Any:
        """The arrays on the stage's IPU."""
        return jax.device_put(tree, self.device)

    # Forward --------------------------------------------------------------------------------------------------------

    def run_forward(self, params: Any, stash: Any, slot: Any, x: Any) -> tuple[Any, Any]:
        """The stash with what backward needs of a micro-batch, and the activations for the next stage."""
        kept, y = self.keep(params, x)
        store = jax.lax.dynamic_update_index_in_dim
        return jax.tree.map(lambda s, value: store(s, value, slot, 0), stash, kept), y

    def keep(self, params: Any, x: Any) -> tuple[Any, Any]:
        """What backward needs beside the weights, and the activations."""
        if self.recompute:
            return x, self.function(params, x)
        y, vjp = self._vjp(params, x)
        leaves, structure = jax.tree.flatten(vjp)
        weights = jax.tree.leaves(params)
        places = [next((i for i, w in enumerate(weights) if w is leaf), None) for leaf in leaves]
        self._kept = structure, places
        return [leaf for leaf, place in zip(leaves, places, strict=True) if place is None], y

    def _vjp(self, params: Any, x: Any) -> tuple[Any, Any]:
        if self.first:  # its input may be of integers, and nobody wants its gradient
            return jax.vjp(lambda p: self.function(p, x), params)[:2]
        return jax.vjp(self.function, params, x)[:2]

    # Backward -------------------------------------------------------------------------------------------------------

    def run_backward(self, params: Any, sums: Any, stash: Any, slot: Any, gradient: Any) -> tuple[Any, Any]:
        """The sums with those of a micro-batch, and the gradient for the stage before."""
        kept = jax.tree.map(lambda s: jax.lax.dynamic_index_in_dim(s, slot, 0, keepdims=False), stash)
        if self.recompute:
            vjp = self._vjp(params, kept)[1]
        else:
            structure, places = self._kept
            weights, values = jax.tree.leaves(params), iter(kept)
            vjp = jax.tree.unflatten(structure, [next(values) if i is None else weights[i] for i in places])
        of_params, *of_input = vjp(gradient)
        return self.add(sums, of_params, None), of_input[0] if of_input else None

    def run_last(self, params: Any, sums: Any, x: Any, targets: Any) -> tuple[Any, Any]:
        """The sums with those of a micro-batch, and the gradient for the stage before."""
        wrt = 0 if self.first else (0, 1)
        value, found = jax.value_and_grad(lambda p, a: self.function(p, a, *targets), argnums=wrt)(params, x)
        of_params, of_input = (found, None) if self.first else found
        return self.add(sums, of_params, value), of_input

    # Sums -----------------------------------------------------------------------------------------------------------

    def zeros(self, params: Any) -> Any:
        """Sums of no micro-batch, of NumPy; those of f16 and bf16 are in f32."""
        gradients = jax.tree.map(lambda p: np.zeros(np.shape(p), _sum_type(p.dtype)), params)
        return {"gradients": gradients, "loss": np.float32(0) if self.last else None}

    @staticmethod
    def add(sums: Any, gradients: Any, loss: Any) -> Any:
        """The sums with those of one more micro-batch."""
        added = jax.tree.map(lambda s, g: s + g.astype(s.dtype), sums["gradients"], gradients)
        return {"gradients": added, "loss": None if loss is None else sums["loss"] + loss.astype(jnp.float32)}

    def mean(self, sums: Any) -> tuple[Any, Any]:
        """Sums of no micro-batch, and the means over all."""
        return jax.tree.map(jnp.zeros_like, sums), jax.tree.map(lambda s: s / self.batches, sums)

    def update_with(self, optimizer: Any) -> Callable[..., Any]:
        """A program that changes weights and optimizer state: it returns them, the sums of none, and the mean loss."""

        def update(params: Any, optimizer_state: Any, sums: Any) -> tuple[Any, Any, Any, Any]:
            zeros, means = self.mean(sums)
            gradients = jax.tree.map(lambda g, p: g.astype(p.dtype), means["gradients"], params)
            updates, optimizer_state = optimizer.update(gradients, optimizer_state, params)
            params = jax.tree.map(lambda p, u: (p + u).astype(p.dtype), params, updates)
            return params, optimizer_state, zeros, means["loss"]

        return member(self._jit(update, donate_argnums=(0, 1, 2)), self._group)


def _sum_type(dtype: Any) -> Any:
    return np.promote_types(dtype, np.float32) if jnp.dtype(dtype).itemsize < 4 else dtype
