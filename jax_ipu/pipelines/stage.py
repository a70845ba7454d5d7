"""The programs of one stage of a pipeline: they share an engine, so its weights and sums stay in SRAM.

A stage on several IPUs has its weights on each, and cuts the rows of a micro-batch over them. Each adds its own
gradients; only the end of a step adds those of all, so a micro-batch needs no collective.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxprs_in_params
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jax_ipu.integration.link import compile_member, member, new_group

_AXIS = "replica"
# What every IPU of a stage has as a whole, and what has a part for each.
_spec: Any = PartitionSpec
_WHOLE, _PARTS = _spec(), _spec(_AXIS)


class Stage:
    """A function of the model with its IPU, or with several that compute parts of a micro-batch.

    The sums of a stage are a dictionary: "gradients", of all micro-batches since they were zero, and "loss", which is
    None but for the last stage. Its stash has what backward reads of the micro-batches that are under way.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        devices: Sequence[Any],
        first: bool,
        last: bool,
        recompute: bool,
        batches: int,
        options: dict[str, Any],
    ) -> None:
        self.function, self._devices = function, devices
        self.first, self.last, self.recompute, self.batches = first, last, recompute, batches
        # How backward is rebuilt from the values that forward keeps, and which of these are weights.
        self._kept: Any = None
        self._update: Any = None
        self._group, self._options = new_group(), options
        w, p = _WHOLE, _PARTS
        self.forward = self._program(self.run_forward, 1, (w, p, w, p), (p, p))
        of_batch = (p, p) if last else (p, w, p)
        self.backward = self._program(self.run_last if last else self.run_backward, 1, (w, p, *of_batch), (p, p))
        self.gradients = self._program(self.mean, 0, (p,), (p, w))
        self.apply = self._program(self.run_apply, (), (w, p, p), w if last else p)

    @property
    def replicas(self) -> int:
        """The number of IPUs."""
        return len(self._devices)

    def _program(
        self, function: Callable[..., Any], donated: int | tuple[int, ...], given: tuple[Any, ...], results: Any
    ) -> Callable[..., Any]:
        return member(self._jitted(function, donated, given, results), self._group)

    def _jitted(
        self, function: Callable[..., Any], donated: int | tuple[int, ...], given: tuple[Any, ...], results: Any
    ) -> Any:
        if self.replicas > 1 and not isinstance(self._devices[0], str):
            # Each IPU differentiates for itself: JAX would add the gradients of weights that all have.
            function = jax.shard_map(function, mesh=self._mesh(), in_specs=given, out_specs=results, check_vma=False)
        return jax.jit(function, donate_argnums=donated, compiler_options=self._options or None)

    def _mesh(self) -> Mesh:
        return Mesh(np.array(self._devices), (_AXIS,))

    def put(self, tree: Any) -> Any:
        """The arrays on the stage's IPU, or on each of them; raises ValueError if it has only names."""
        if isinstance(self._devices[0], str):
            raise ValueError(
                f"{self._devices[0]!r} is a name, for estimates alone; a pipeline runs on devices of jax.devices('ipu')"
            )
        return jax.device_put(tree, self._devices[0] if self.replicas == 1 else NamedSharding(self._mesh(), _WHOLE))

    def put_parts(self, tree: Any) -> Any:
        """The arrays on the stage's IPU, or cut over them along the first dimension."""
        return jax.device_put(tree, self._devices[0] if self.replicas == 1 else NamedSharding(self._mesh(), _PARTS))

    def _over_all(self, reduce: Callable[..., Any], value: Any) -> Any:
        return value if self.replicas == 1 else jax.tree.map(lambda leaf: reduce(leaf, _AXIS), value)

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

    def run_apply(self, params: Any, x: Any, targets: Any) -> Any:
        """The activations, or the loss of the last stage."""
        result = self.function(params, x, *targets)
        return self._over_all(jax.lax.pmean, result) if self.last else result

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
        """Sums of no micro-batch, of NumPy; those of f16 and bf16 are in f32. Of several IPUs, stacked."""
        each = () if self.replicas == 1 else (self.replicas,)
        gradients = jax.tree.map(lambda p: np.zeros((*each, *np.shape(p)), _sum_type(p.dtype)), params)
        return {"gradients": gradients, "loss": np.zeros(each, np.float32) if self.last else None}

    @staticmethod
    def add(sums: Any, gradients: Any, loss: Any) -> Any:
        """The sums with those of one more micro-batch."""
        added = jax.tree.map(lambda s, g: s + g.astype(s.dtype), sums["gradients"], gradients)
        return {"gradients": added, "loss": None if loss is None else sums["loss"] + loss.astype(jnp.float32)}

    def mean(self, sums: Any) -> tuple[Any, Any]:
        """Sums of no micro-batch, and the means over all."""
        own = sums if self.replicas == 1 else jax.tree.map(lambda s: s[0], sums)
        count = self.batches * self.replicas
        means = jax.tree.map(lambda s: s / count, self._over_all(jax.lax.psum, own))
        return jax.tree.map(jnp.zeros_like, sums), means

    def update_with(self, optimizer: Any) -> Callable[..., Any]:
        """A program that changes weights and optimizer state: it returns them, the sums of none, and the mean loss."""

        def update(params: Any, optimizer_state: Any, sums: Any) -> tuple[Any, Any, Any, Any]:
            zeros, means = self.mean(sums)
            gradients = jax.tree.map(lambda g, p: g.astype(p.dtype), means["gradients"], params)
            updates, optimizer_state = optimizer.update(gradients, optimizer_state, params)
            params = jax.tree.map(lambda p, u: (p + u).astype(p.dtype), params, updates)
            return params, optimizer_state, zeros, means["loss"]

        given, results = (_WHOLE, _WHOLE, _PARTS), (_WHOLE, _WHOLE, _PARTS, _WHOLE)
        self._update = self._jitted(update, (0, 1, 2), given, results)
        return member(self._update, self._group)

    def compile_update(self, params: Any, optimizer_state: Any, sums: Any) -> bool:
        """Compiles the program of `update_with` for these arguments, which stay as they are.

        Returns whether it calls functions of the host, so that it may fail while it runs.
        """
        compile_member(self._update, self._group, params, optimizer_state, sums)
        return _calls_the_host(self._update.trace(params, optimizer_state, sums).jaxpr.jaxpr)


def _calls_the_host(jaxpr: Any) -> bool:
    return any(
        "callback" in equation.primitive.name
        or equation.primitive.name == "ffi_call"
        or any(map(_calls_the_host, jaxprs_in_params(equation.params)))
        for equation in jaxpr.eqns
    )


def _sum_type(dtype: Any) -> Any:
    return np.promote_types(dtype, np.float32) if jnp.dtype(dtype).itemsize < 4 else dtype
