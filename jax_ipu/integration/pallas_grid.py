"""Pallas kernels compiled for all points of their grid at once.

A kernel's body becomes a function of blocks, and `vmap` runs it for all grid points whose results go to different
blocks. Grid dimensions along which a result's block stays the same accumulate into it: they are steps of a loop, as
Pallas defines their order. Blocks are views of the arrays where the index maps are those of a tiling, so that a kernel
of `dot` over tiles of two matrices is one product. Tested with jax 0.10.2 and 0.12.0.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax_ipu.integration import folding

# A loop of at most this many steps is unrolled.
_UNROLLED = 8


class NotCompiledError(Exception):
    """Why a kernel is not compiled."""


@dataclasses.dataclass(frozen=True)
class _Blocks:
    """Where the blocks of one operand lie.

    Attributes:
        shape: the array's shape.
        block: the size of a block in each dimension of the array.
        squeezed: the dimensions that the kernel does not see.
        aligned: whether blocks are at multiples of their size; then places count blocks, otherwise elements.
        padding: elements before and after the array, by dimension.
        grid_dims: the grid dimensions that the place depends on.
        places: int (*grid[grid_dims], rank): of each block.
    """

    shape: tuple[int, ...]
    block: tuple[int, ...]
    squeezed: tuple[int, ...]
    aligned: bool
    padding: tuple[tuple[int, int], ...]
    grid_dims: tuple[int, ...]
    places: np.ndarray[Any, Any]

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of blocks in each dimension of the padded array, the last of which may reach over the end."""
        return tuple(-(-(n + sum(p)) // b) for n, p, b in zip(self.shape, self.padding, self.block, strict=True))

    @property
    def whole(self) -> tuple[int, ...]:
        """The shape with padding and whole blocks."""
        return tuple(n * b for n, b in zip(self.counts, self.block, strict=True))

    @property
    def seen(self) -> tuple[int, ...]:
        """The shape of a block in the kernel."""
        return tuple(n for axis, n in enumerate(self.block) if axis not in self.squeezed)

    def tiling(self) -> list[tuple[int, int | None]] | None:
        """For each dimension, the first block and the grid dimension that counts on from it (None: only that block).

        None if the places have another form.
        """
        found: list[tuple[int, int | None]] = []
        used: set[int] = set()
        for axis in range(len(self.shape)):
            place = self.places[..., axis]
            first = int(place.flat[0])
            varying = [d for d in range(place.ndim) if np.any(np.diff(place, axis=d))]
            if len(varying) > 1 or used.intersection(varying):
                return None
            if not varying:
                found.append((first, None))
                continue
            (d,) = varying
            used.add(d)
            line = np.moveaxis(place, d, 0).reshape(place.shape[d], -1)[:, 0]
            if not np.array_equal(line, first + np.arange(len(line))):
                return None
            found.append((first, self.grid_dims[d]))
        return found if len(used) == len(self.grid_dims) else None


def _blocks(mapping: Any, grid: tuple[int, ...], operands: int, core: Any) -> _Blocks:
    """The places of a block mapping. Raises NotCompiledError where they are not known at trace time."""
    if mapping.transforms:
        raise NotCompiledError(f"the reference of {mapping.origin} is transformed")
    ids = [np.asarray(i, np.int32) for i in np.indices(grid)]
    try:
        indices = folding.integers(mapping.index_map_jaxpr, [*ids, *([None] * operands)])
    except folding.Unknown:
        raise NotCompiledError(f"the index map of {mapping.origin} depends on more than the grid") from None
    aligned = all(isinstance(d, core.Blocked | core.Squeezed) for d in mapping.block_shape)
    if not aligned and not all(isinstance(d, core.Blocked | core.Squeezed | core.Element) for d in mapping.block_shape):
        raise NotCompiledError(f"blocks of {mapping.origin} have sizes that depend on the grid point")
    block = tuple(core._get_block_shape(mapping.block_shape))
    places = np.zeros((*grid, len(block)), np.int64)
    for axis, (index, kind) in enumerate(zip(indices, mapping.block_shape, strict=True)):
        scale = 1 if aligned or not isinstance(kind, core.Blocked) else block[axis]
        places[..., axis] = np.broadcast_to(index, grid) * scale
    dims = tuple(d for d in range(len(grid)) if np.any(np.diff(places, axis=d)))
    places = places[tuple(slice(None) if d in dims else 0 for d in range(len(grid)))]
    blocks = _Blocks(
        tuple(mapping.array_aval.shape),
        block,
        tuple(i for i, d in enumerate(mapping.block_shape) if isinstance(d, core.Squeezed)),
        aligned,
        tuple(tuple(getattr(d, "padding", (0, 0))) for d in mapping.block_shape),
        dims,
        places,
    )
    last = np.asarray(blocks.counts) - 1 if aligned else np.asarray(blocks.whole) - block
    if places.size and (np.any(places < 0) or np.any(places > last)):
        raise NotCompiledError(f"a block of {mapping.origin} lies outside of the array")
    return blocks


def _rows(places: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The places of all blocks, one after the other; a scalar has places without indices."""
    return places.reshape(math.prod(places.shape[:-1]), places.shape[-1])


def _padded(array: Any, blocks: _Blocks, fill: Callable[..., Any]) -> Any:
    """The array with whole blocks. What is added is not initialised, as everywhere in Pallas."""
    edges = [
        (low, whole - low - size, 0)
        for (low, _), whole, size in zip(blocks.padding, blocks.whole, blocks.shape, strict=True)
    ]
    return jax.lax.pad(array, fill((), array.dtype), edges) if any(map(any, edges)) else array


def _take(array: Any, blocks: _Blocks, grid: tuple[int, ...], fill: Callable[..., Any]) -> Any:
    """The blocks of an array: (*grid[blocks.grid_dims], *block without squeezed dimensions)."""
    array = _padded(array, blocks, fill)
    depth = len(blocks.grid_dims)
    tiling = blocks.tiling() if blocks.aligned else None
    if tiling is not None:
        split: list[int] = []
        for axis, (first, dim) in enumerate(tiling):
            count, size = 1 if dim is None else grid[dim], blocks.block[axis]
            array = jax.lax.slice_in_dim(array, first * size, (first + count) * size, axis=axis)
            split += [count, size]
        array = array.reshape(split)
        outer = [2 * axis for axis, _ in sorted(enumerate(tiling), key=lambda t: -1 if t[1][1] is None else t[1][1])]
        array = array.transpose(outer + [2 * axis + 1 for axis in range(len(tiling))])
        array = array.reshape([grid[d] for d in blocks.grid_dims] + list(blocks.block))
    else:
        starts = blocks.places * (np.asarray(blocks.block) if blocks.aligned else 1)
        flat = jnp.asarray(_rows(starts), jnp.int32)
        whole = array
        array = jax.vmap(lambda start: jax.lax.dynamic_slice(whole, list(start), blocks.block))(flat)
        array = array.reshape([grid[d] for d in blocks.grid_dims] + list(blocks.block))
    return jax.lax.squeeze(array, [depth + axis for axis in blocks.squeezed])


def _put(results: Any, blocks: _Blocks, grid: tuple[int, ...], initial: Any) -> Any:
    """The array whose blocks are the results, (*grid[blocks.grid_dims], *block); `initial` where no block lies."""
    depth = len(blocks.grid_dims)
    results = jax.lax.expand_dims(results, [depth + axis for axis in blocks.squeezed])
    tiling, counts, rank = blocks.tiling(), blocks.counts, len(blocks.block)
    if tiling is None or any((1 if d is None else grid[d]) != n for (_, d), n in zip(tiling, counts, strict=True)):
        # By the place of each block: which result it is.
        which = np.full(counts, -1)
        for point, place in enumerate(_rows(blocks.places)):
            which[tuple(place)] = point
        stack = results.reshape(math.prod(results.shape[:depth]), *blocks.block)
        taken = jnp.take(stack, np.maximum(which.reshape(-1), 0), axis=0)
        if np.any(which < 0):
            old = initial.reshape([v for pair in zip(counts, blocks.block, strict=True) for v in pair])
            old = old.transpose([2 * a for a in range(rank)] + [2 * a + 1 for a in range(rank)])
            mask = (which >= 0).reshape(which.size, *([1] * rank))
            taken = jnp.where(mask, taken, old.reshape(taken.shape))
        array = taken.reshape(*counts, *blocks.block)
    else:
        position = {d: i for i, d in enumerate(blocks.grid_dims)}
        array = results.transpose([position[d] for _, d in tiling if d is not None] + list(range(depth, depth + rank)))
        array = array.reshape(*counts, *blocks.block)
    array = array.transpose([v for axis in range(rank) for v in (axis, rank + axis)])
    array = array.reshape(blocks.whole)
    return jax.lax.slice(array, [0] * rank, blocks.shape)


@dataclasses.dataclass(frozen=True)
class _Kernel:
    """A kernel as a function of values, its grid, and which of the grid's dimensions are steps of a loop."""

    jaxpr: Any
    consts: Sequence[Any]
    mapping: Any
    grid: tuple[int, ...]
    parallel: tuple[int, ...]
    steps: tuple[int, ...]
    core: Any

    def run(self, ids: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
        """What the references hold after the kernel, at one point of the grid; known ids are NumPy scalars."""
        if self.mapping.local_grid_env is not None:
            axes = self.mapping.local_grid_env(tuple(ids), self.grid)
        else:
            axes = tuple(
                self.core.GridAxis(i, n)
                for d, (i, n) in enumerate(zip(ids, self.grid, strict=True))
                if d not in self.mapping.vmapped_dims
            )

        def read(equation: Any) -> Any:
            if equation.primitive.name not in ("program_id", "num_programs"):
                return None
            axis = axes[equation.params["axis"]]
            return axis.index if equation.primitive.name == "program_id" else np.int32(axis.size)

        with self.core.grid_env(axes):
            return folding.evaluate(self.jaxpr, self.consts, arguments, read)


def _written(jaxpr: Any, parameters: range) -> bool:
    """Whether the kernel writes one of these references."""
    from jax._src.state.types import AccumEffect, WriteEffect

    variables = [jaxpr.invars[i] for i in parameters]
    written = [e.input for e in jaxpr.effects if isinstance(e, WriteEffect | AccumEffect)]
    return any(v in parameters if isinstance(v, int) else any(v is w for w in variables) for v in written)


def _check(jaxpr: Any, mapping: Any, aliases: Sequence[tuple[int, int]], mesh: Any) -> None:
    """Raises NotCompiledError for kernels that only run one point after the other."""
    from jax._src.core import NamedAxisEffect
    from jax._src.state.types import RefEffect

    if mesh is not None:
        raise NotCompiledError("it runs on a mesh of cores")
    if mapping.num_dynamic_grid_bounds:
        raise NotCompiledError("the size of its grid is not known at compile time")
    if not all(mapping.grid):
        raise NotCompiledError("its grid is empty")
    if any(not isinstance(e, RefEffect | NamedAxisEffect) for e in jaxpr.effects):
        raise NotCompiledError("it has effects, such as printing")
    if _written(jaxpr, range(mapping.num_index_operands + mapping.num_inputs)):
        raise NotCompiledError("it writes to an input")
    if aliases and mapping.num_index_operands:
        raise NotCompiledError("it has scalar operands, and results in place of inputs")


def _split(outputs: Sequence[_Blocks], grid: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The dimensions of the grid along which all results move, and the others.

    Raises:
        NotCompiledError: blocks of results overlap, or move along some dimensions of a loop only.
    """
    parallel = tuple(d for d in range(len(grid)) if all(d in o.grid_dims for o in outputs))
    for i, blocks in enumerate(outputs):
        if blocks.grid_dims != parallel:
            (other, *_) = (d for d in blocks.grid_dims if d not in parallel)
            raise NotCompiledError(f"result {i} moves along grid dimension {other}, another result does not")
        if not blocks.aligned:
            raise NotCompiledError(f"blocks of result {i} lie at elements, not at multiples of their size")
        places = _rows(blocks.places)
        if len(np.unique(places, axis=0)) != len(places):
            raise NotCompiledError(f"points of the grid write the same block of result {i} at different steps")
    return parallel, tuple(d for d in range(len(grid)) if d not in parallel)


def _aliases_agree(
    inputs: Sequence[_Blocks], outputs: Sequence[_Blocks], aliases: Sequence[tuple[int, int]], steps: Sequence[int]
) -> bool:
    return not aliases or (
        not steps
        and all(
            inputs[i].grid_dims == outputs[o].grid_dims
            and inputs[i].block == outputs[o].block
            and np.array_equal(inputs[i].places, outputs[o].places)
            for i, o in aliases
        )
    )


def call(
    *arguments: Any,
    jaxpr: Any,
    grid_mapping: Any,
    input_output_aliases: Sequence[tuple[int, int]],
    mesh: Any,
    **_: Any,
) -> list[Any]:
    """The results of a ``pallas_call``; arguments and parameters are those of JAX's primitive.

    Raises:
        NotCompiledError: this kernel has to run one grid point after the other; says why.
    """
    from jax._src import config
    from jax._src.pallas import core, hlo_interpreter, primitives

    uninitialized_value: Any = primitives.uninitialized_value
    _check(jaxpr, grid_mapping, input_output_aliases, mesh)
    grid = tuple(grid_mapping.grid)
    operands = grid_mapping.num_index_operands
    mappings = [_blocks(m, grid, operands, core) for m in grid_mapping.block_mappings]
    inputs, outputs = mappings[: grid_mapping.num_inputs], mappings[grid_mapping.num_inputs :]
    parallel, steps = _split(outputs, grid)
    names = grid_mapping.grid_names
    if names is not None and (steps or grid_mapping.num_scratch_operands):
        raise NotCompiledError("its grid has names, and steps or scratch buffers")
    if not _aliases_agree(inputs, outputs, input_output_aliases, steps):
        raise NotCompiledError("results in place of inputs are written and read in several steps")
    body, consts, scratch_avals = hlo_interpreter.kernel_to_hlo_jaxpr(jaxpr, (), grid_mapping)
    kernel = _Kernel(body, consts, grid_mapping, grid, parallel, steps, core)

    scalars, arrays = arguments[:operands], arguments[operands:]
    taken = [_take(a, b, grid, uninitialized_value) for a, b in zip(arrays, inputs, strict=True)]
    dtypes = [m.array_aval.dtype for m in grid_mapping.block_mappings[len(inputs) :]]
    before = [uninitialized_value(b.whole, d) for b, d in zip(outputs, dtypes, strict=True)]
    first = [uninitialized_value(b.seen, d) for b, d in zip(outputs, dtypes, strict=True)]
    for i, o in input_output_aliases:
        before[o], first[o] = _padded(arrays[i], inputs[i], uninitialized_value), taken[i]
    scratch = [uninitialized_value(a.shape, a.dtype) for a in scratch_avals]
    aliased = [o for _, o in input_output_aliases]
    state = [b if i in aliased else dataclasses.replace(b, grid_dims=()) for i, b in enumerate(outputs)]
    function = functools.partial(_point, kernel, inputs, scalars)
    # Between two steps at one place, points of faster parallel dimensions use the same buffers.
    between = any(grid[d] > 1 and any(grid[s] > 1 for s in steps if s < d) for d in parallel)
    if scratch and (between or _carries_scratch(kernel, inputs, scalars, outputs, dtypes, scratch)):
        raise NotCompiledError("it reads what an earlier grid point left in a scratch buffer")
    for dim in reversed(parallel):
        outer = parallel[: parallel.index(dim)]

        def axis(grid_dims: Sequence[int], dim: int = dim, outer: Sequence[int] = outer) -> int | None:
            left = [d for d in grid_dims if d not in outer]
            return left.index(dim) if dim in left else None

        function = jax.vmap(
            function,
            axis_name=None if names is None else names[dim],
            in_axes=(
                [0 if d == dim else None for d in parallel],
                [axis(b.grid_dims) for b in inputs],
                [axis(b.grid_dims) for b in state] + [None] * len(scratch),
            ),
        )
    ids = [jnp.arange(grid[d], dtype=jnp.int32) for d in parallel]
    # JAX's checks refuse a call with a name, which is what its own discharge of references makes of a nested jit.
    with config.enable_checks(False):
        results = function(ids, taken, [*first, *scratch])[: len(outputs)]
    return [_put(r, b, grid, w) for r, b, w in zip(results, outputs, before, strict=True)]


def _step(
    kernel: _Kernel,
    scalars: Sequence[Any],
    ids: dict[int, Any],
    blocks: Sequence[Any],
    state: Sequence[Any],
) -> list[Any]:
    """The results and scratch buffers after one grid point.

    Args:
        ids: the place in the grid, by dimension.
        blocks: of each input at this place.
        state: results and scratch buffers before.
    """
    results = kernel.run([ids[d] for d in range(len(kernel.grid))], [*scalars, *blocks, *state])
    after = results[len(results) - len(state) :]
    # Without weak types, so that a loop can carry the values.
    return [jax.lax.convert_element_type(a, b.dtype) for a, b in zip(after, state, strict=True)]


def _point(
    kernel: _Kernel,
    inputs: Sequence[_Blocks],
    scalars: Sequence[Any],
    parallel_ids: Sequence[Any],
    blocks: Sequence[Any],
    state: Sequence[Any],
) -> list[Any]:
    """The results and scratch buffers after all steps at one place of the parallel dimensions of the grid."""
    place = dict(zip(kernel.parallel, parallel_ids, strict=True))
    sizes = [kernel.grid[d] for d in kernel.steps]
    total = math.prod(sizes)
    at = np.indices(sizes, np.int32).reshape(len(sizes), total).T
    # The step dimensions of each input.
    moving = [[d for d in b.grid_dims if d in kernel.steps] for b in inputs]

    def step(ids: Sequence[Any], state: Sequence[Any], mapped: dict[int, Any]) -> list[Any]:
        here = place | dict(zip(kernel.steps, ids, strict=True))
        chosen = list(blocks)
        for i, dims in enumerate(moving):
            for dim in dims if i not in mapped else ():
                chosen[i] = jax.lax.dynamic_index_in_dim(chosen[i], here[dim], keepdims=False)
        return _step(kernel, scalars, here, [mapped.get(i, b) for i, b in enumerate(chosen)], state)

    def loop_step(state: Any, each: tuple[Any, dict[int, Any]]) -> tuple[list[Any], None]:
        ids, mapped = each
        return step([ids[d] for d in range(len(sizes))], state, mapped), None

    if total <= _UNROLLED:
        for ids in at:
            state = step(list(ids), state, {})
        return list(state)
    # The first and the last step know where they are, so that they hold only their part of the kernel. Blocks that move
    # with every step are operands of the loop, which needs no gather for them.
    middle = {i: blocks[i][1:-1] for i, dims in enumerate(moving) if len(dims) == len(sizes) == 1}
    state, _ = jax.lax.scan(loop_step, step(list(at[0]), state, {}), (jnp.asarray(at[1:-1]), middle))
    return step(list(at[-1]), state, {})


def _carries_scratch(
    kernel: _Kernel,
    inputs: Sequence[_Blocks],
    scalars: Sequence[Any],
    outputs: Sequence[_Blocks],
    dtypes: Sequence[Any],
    scratch: Sequence[Any],
) -> bool:
    """Whether the first step at a place of the parallel dimensions depends on a scratch buffer's earlier contents."""
    from jax._src.interpreters import partial_eval

    struct: Any = jax.ShapeDtypeStruct

    def first_step(ids: list[Any], scalars: Any, blocks: Any, state: Any) -> list[Any]:
        place = dict(zip(kernel.parallel, ids, strict=True)) | {d: np.int32(0) for d in kernel.steps}
        return _step(kernel, scalars, place, blocks, state)

    kinds = [m.array_aval.dtype for m in kernel.mapping.block_mappings[: len(inputs)]]
    traced = jax.make_jaxpr(first_step)(
        [struct((), np.int32) for _ in kernel.parallel],
        [struct(s.shape, s.dtype) for s in scalars],
        [struct(b.seen, d) for b, d in zip(inputs, kinds, strict=True)],
        [struct(b.seen, d) for b, d in zip(outputs, dtypes, strict=True)] + [struct(s.shape, s.dtype) for s in scratch],
    )
    needed = [True] * len(outputs) + [bool(kernel.steps)] * len(scratch)
    _, used = partial_eval.dce_jaxpr(traced.jaxpr, needed)
    return any(used[len(used) - len(scratch) :])
