"""Plans: the distribution of a traced model over IPUs and slices of the batch, and its lowering for a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from jax_ipu.models.traced_model import TracedModel, shape_of
from jax_ipu.models.wide import types_kept

_AXIS = "ipus"
# Memory proportions that a search tries besides that of the manager.
PROPORTIONS = (0.1, 0.2, 0.3, 0.6, 0.9)
# The largest number of batch slices that a search tries.
MAX_SLICES = 64


class Plan(NamedTuple):
    """One way to compile a traced model.

    Attributes:
        memory_proportion: part of a tile's memory for the temporaries of a product or convolution, 0 to 1.
        half_partials: whether partial sums of half products are half.
        batch_slices: into how many slices the batch is cut, which are computed one after the other.
        recompute: which activations the backward pass of a training step computes again.
        distribution: over the IPUs: "none", "batch" (every IPU has all weights), "weights" (weights are sharded) or
            "stages" (every IPU has some layers).
        num_ipus: over how many IPUs.

    Examples:
        >>> from jax_ipu.models.plans import Plan
        >>> str(Plan(batch_slices=4, distribution="batch", num_ipus=2))
        'memory_proportion 0.6, batch in 4 slices, batch over 2 IPUs'
    """

    memory_proportion: float = 0.6
    half_partials: bool = False
    batch_slices: int = 1
    recompute: str = "nothing"  # a key of training.RECOMPUTE
    distribution: str = "none"
    num_ipus: int = 1

    def compiler_options(self) -> dict[str, Any]:
        """What ``jax.jit(..., compiler_options=...)`` takes for this plan.

        Examples:
            >>> from jax_ipu.models.plans import Plan
            >>> Plan(half_partials=True).compiler_options()
            {'ipu_available_memory_proportion': 0.6, 'ipu_partials_type': 'half'}
        """
        return {
            "ipu_available_memory_proportion": self.memory_proportion,
            "ipu_partials_type": "half" if self.half_partials else "float",
        }

    def __str__(self) -> str:
        parts = [f"memory_proportion {self.memory_proportion:g}"]
        if self.half_partials:
            parts.append("half partials")
        if self.batch_slices > 1:
            parts.append(f"batch in {self.batch_slices} slices")
        if self.recompute != "nothing":
            parts.append(f"recomputation of {self.recompute}")
        if self.num_ipus > 1:
            parts.append(f"{self.distribution} over {self.num_ipus} IPUs")
        return ", ".join(parts)


class Cost(NamedTuple):
    """The cost of one call on each IPU, as the IPU model computes it.

    Attributes:
        cycles: tile clock cycles.
        fullest_tile_bytes: bytes on the fullest tile at its fullest moment.

    Examples:
        >>> from jax_ipu.models.plans import Cost
        >>> min(Cost(900, 5000), Cost(800, 9000))  # the fewest cycles
        Cost(cycles=800, fullest_tile_bytes=9000)
    """

    cycles: int
    fullest_tile_bytes: int

    @staticmethod
    def of(analysis: dict[str, float]) -> Cost:
        """The cost of a program of JAX, from its ``cost_analysis()``.

        Examples:
            >>> from jax_ipu.models.plans import Cost
            >>> Cost.of({"cycles": 900.0, "fullest tile bytes": 5000.0})
            Cost(cycles=900, fullest_tile_bytes=5000)
        """
        return Cost(int(analysis["cycles"]), int(analysis["fullest tile bytes"]))


class Shardings(NamedTuple):
    """The shardings of all weights and inputs."""

    weights: list[Any]
    inputs: list[Any]
    description: list[str]  # for each IPU
    outputs: Any = None  # None: chosen by JAX


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a compilation failed because the program does not fit into memory."""
    return "RESOURCE_EXHAUSTED" in str(error) or getattr(error, "code", None) == 8


def shardings_of(traced: TracedModel, plan: Plan, devices: Sequence[Any]) -> Shardings:
    """Returns the shardings for a plan.

    Raises ValueError: the batch is not divisible by the number of IPUs.
    """
    inputs = traced.signature.inputs
    if plan.num_ipus == 1:
        single = SingleDeviceSharding(devices[0])
        return Shardings([single] * len(traced.weights), [single] * len(inputs), ["the whole model"], single)
    return _shardings_over(traced, plan, Mesh(np.array(devices[: plan.num_ipus]), (_AXIS,)))


def _shardings_over(traced: TracedModel, plan: Plan, mesh: Mesh | AbstractMesh) -> Shardings:
    inputs = traced.signature.inputs
    whole = NamedSharding(mesh, _spec())
    if plan.distribution == "batch":
        if traced.batch == 0 or traced.batch % plan.num_ipus:
            raise ValueError(f"a batch of {traced.batch} does not divide over {plan.num_ipus} IPUs")
        rows = NamedSharding(mesh, _spec(_AXIS))
        each = traced.batch // plan.num_ipus
        description = [f"replica {i}: batch {i * each} to {(i + 1) * each - 1}" for i in range(plan.num_ipus)]
        return Shardings(
            [whole] * len(traced.weights), [rows if cut else whole for cut in traced.batched()], description
        )
    weights = [_cut(mesh, weight.shape, plan.num_ipus, whole) for weight in traced.weights]
    description = [f"shard {i} of {plan.num_ipus} of the weights" for i in range(plan.num_ipus)]
    return Shardings(weights, [whole] * len(inputs), description)


def _spec(*axes: str | None) -> Any:
    """Returns a PartitionSpec, for whose constructor JAX declares no types."""
    spec: Any = PartitionSpec
    return spec(*axes)


def _cut(mesh: Mesh | AbstractMesh, shape: tuple[int, ...], parts: int, whole: NamedSharding) -> NamedSharding:
    """Shards a weight along its longest divisible dimension, and of equal ones along the last.

    Sharded columns of a matrix need no sum over the IPUs after a product.
    """
    divisible = [d for d in range(len(shape)) if shape[d] % parts == 0 and shape[d] > 0]
    if not divisible or len(shape) < 2:
        return whole
    longest = max(divisible, key=lambda d: (shape[d], d))
    return NamedSharding(mesh, _spec(*[None] * longest, _AXIS))


def example_slice(traced: TracedModel, slices: int) -> tuple[Any, ...]:
    """Returns the shapes of the inputs of one of `slices` slices of the batch."""
    each = traced.batch // slices
    leaves = [
        shape_of((each, *spec.shape[1:]) if cut else spec.shape, dtype)
        for spec, cut, dtype in zip(traced.signature.inputs, traced.batched(), traced.signature.declared, strict=True)
    ]
    inputs: tuple[Any, ...] = jax.tree.unflatten(traced.signature.in_tree, leaves)
    return inputs


def sliced(traced: TracedModel, piece: TracedModel) -> TracedModel:
    """Returns the model as a loop of `piece`, the model of one slice, over the slices of the batch."""
    batched, each = traced.batched(), piece.batch
    slices = traced.batch // each

    def run(weights: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        def one(rows: list[Any]) -> list[Any]:
            remaining = iter(rows)
            return piece.run(weights, [next(remaining) if cut else x for x, cut in zip(inputs, batched, strict=True)])

        cut = [x.reshape(slices, each, *x.shape[1:]) for x, is_cut in zip(inputs, batched, strict=True) if is_cut]
        return [o.reshape(traced.batch, *o.shape[2:]) for o in jax.lax.map(one, cut)]

    return traced._replace(run=run)


def step_of(traced: TracedModel) -> Callable[[list[Any], list[Any]], tuple[list[Any], list[Any]]]:
    """Returns step(weights, inputs) -> (weights, outputs); weights that a step returns stay on the IPU."""

    def step(weights: list[Any], inputs: list[Any]) -> tuple[list[Any], list[Any]]:
        return weights, traced.run(weights, inputs)

    step.__name__ = traced.kind.replace(" ", "_")
    return step


def lower(traced: TracedModel, shardings: Shardings, step: Callable[..., Any]) -> Any:
    """Lowers the step for the devices of the shardings."""
    with types_kept(traced.wide):
        return _jitted(step, shardings).lower(*_arguments(traced))


def lower_for_target(traced: TracedModel, plan: Plan, step: Callable[..., Any]) -> Any:
    """Lowers the step for `plan.num_ipus` IPUs without choosing devices."""
    shardings = _shardings_over(traced, plan, AbstractMesh((plan.num_ipus,), (_AXIS,))) if plan.num_ipus > 1 else None
    with types_kept(traced.wide):
        return _jitted(step, shardings).trace(*_arguments(traced)).lower(lowering_platforms=("ipu",))


def _jitted(step: Callable[..., Any], shardings: Shardings | None) -> Any:
    options: dict[str, Any] = {}
    if shardings is not None:
        options = {
            "in_shardings": (shardings.weights, shardings.inputs),
            "out_shardings": (shardings.weights, shardings.outputs),
        }
    return jax.jit(step, donate_argnums=0, keep_unused=True, **options)


def _arguments(traced: TracedModel) -> tuple[list[Any], list[Any]]:
    return [shape_of(w.shape, w.dtype) for w in traced.weights], traced.signature.inputs


def distributions(traced: TracedModel, num_ipus: int) -> Iterator[tuple[str, int]]:
    """Yields (distribution, IPUs) in the order in which they are tried: the batch first, then the weights."""
    if num_ipus == 1:
        yield "none", 1
        return
    if traced.batch and traced.batch % num_ipus == 0 and any(traced.batched()):
        yield "batch", num_ipus
    yield "weights", num_ipus


def rows_are_independent(traced: TracedModel, slices: int, compile_piece: Callable[[tuple[Any, ...]], Any]) -> bool:
    """Whether each row of the outputs depends only on the same row of the inputs.

    The test runs the model on one slice of the batch, replaces a row by other numbers and by NaN, and requires that all
    other rows stay the same bit for bit.
    """
    each = traced.batch // slices
    random = np.random.default_rng(0)

    def values(spec: jax.ShapeDtypeStruct) -> np.ndarray[Any, Any]:
        floating = np.issubdtype(spec.dtype, np.floating)
        return (random.normal(size=spec.shape) if floating else np.zeros(spec.shape)).astype(spec.dtype)

    first, tree = jax.tree.flatten(jax.tree.map(values, example_slice(traced, slices)))
    small = compile_piece(jax.tree.unflatten(tree, first))
    try:
        expected = jax.tree.leaves(small.execute(jax.tree.unflatten(tree, first)))
        if any(not o.shape or o.shape[0] != each for o in expected):
            return False
        for replacement in (7.5, np.nan):
            changed = [x.copy() for x in first]
            for x, cut in zip(changed, traced.batched(), strict=True):
                if cut:
                    x[0] = replacement if np.issubdtype(x.dtype, np.floating) else 0
            actual = jax.tree.leaves(small.execute(jax.tree.unflatten(tree, changed)))
            if any(a[1:].tobytes() != e[1:].tobytes() for a, e in zip(actual, expected, strict=True)):
                return False
        return True
    finally:
        small.release()


def slice_counts(traced: TracedModel) -> Iterator[int]:
    """Yields the powers of two that cut the batch into slices of equal size with at least two rows."""
    slices = 2
    while slices <= min(traced.batch // 2, MAX_SLICES):
        if traced.batch % slices == 0:
            yield slices
        slices *= 2
