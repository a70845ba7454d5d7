"""``jax_ipu.split_into_stages``: cuts a loss function into stages of about equal cost for ``jax_ipu.pipeline``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from jax_ipu.compiler.tables import percent_text
from jax_ipu.config import config
from jax_ipu.estimates import WITHOUT_ADVICE, estimate
from jax_ipu.integration.tracebacks import boundary
from jax_ipu.pipelines.shapes import shape_of, struct

if TYPE_CHECKING:
    from jax_ipu.pipelines.chain import Chain, Part, Value

# Where more cuts are possible, pieces are joined until there are about so many; each differing one is estimated.
_PIECES = 32
# Nor are pieces smaller than this, in rough cycles.
_LEAST_CYCLES = 1000.0


@dataclass(frozen=True)
class Stages:
    """A loss function in stages, for :func:`jax_ipu.pipeline`; ``print`` shows a line for each.

    Attributes:
        functions: of each stage, as ``jax_ipu.pipeline`` takes them.
        weights: of each stage, the leaves of the parameters that it reads.
        cycles: the modelled cycles of each stage for a micro-batch, forward and backward.
        sent: the bytes that each stage but the last sends to the next for a micro-batch.

    Examples:
        >>> import jax.numpy as jnp, numpy as np, jax_ipu
        >>> loss = lambda w, x: jnp.mean(jnp.tanh(x @ w["a"]) @ w["b"])
        >>> params = {"a": np.eye(8, dtype=np.float32), "b": np.ones((8, 1), np.float32)}
        >>> stages = jax_ipu.split_into_stages(loss, params, np.ones((4, 8), np.float32), count=2)
        >>> stages.sent, len(stages.cycles)
        ([128], 2)
    """

    functions: list[Callable[..., Any]]
    weights: list[list[Any]]
    cycles: list[int]
    sent: list[int]
    _places: list[list[int]]
    _structure: Any

    def join(self, weights: Sequence[Sequence[Any]]) -> Any:
        """The parameters of the whole function, of those of the stages or of what has their structure.

        Examples:
            >>> import jax.numpy as jnp, numpy as np, jax_ipu
            >>> loss = lambda w, x: jnp.mean(jnp.tanh(x @ w["a"]) @ w["b"])
            >>> params = {"a": np.eye(8, dtype=np.float32), "b": np.ones((8, 1), np.float32)}
            >>> stages = jax_ipu.split_into_stages(loss, params, np.ones((4, 8), np.float32), count=2)
            >>> sorted(stages.join(stages.weights))
            ['a', 'b']
        """
        import jax

        leaves: dict[int, Any] = {}
        for places, values in zip(self._places, weights, strict=True):
            leaves.update(zip(places, values, strict=True))
        return jax.tree.unflatten(self._structure, [leaves[i] for i in range(len(leaves))])

    def __str__(self) -> str:
        lines = []
        for number, (cycles, weights) in enumerate(zip(self.cycles, self.weights, strict=True)):
            held = sum(_bytes_of(w) for w in weights)
            share = percent_text(cycles, sum(self.cycles))
            on = f", sends {self.sent[number]:,} bytes" if number < len(self.sent) else ""
            lines.append(f"stage {number}: {cycles:,} cycles ({share}), {held:,} bytes of weights{on}")
        return "\n".join(lines)


@boundary
def split_into_stages(
    loss: Callable[..., Any], params: Any, x: Any, *targets: Any, count: int, optimizer: Any = None
) -> Stages:
    """Cuts ``loss(params, x, *targets)`` into stages for :func:`jax_ipu.pipeline`, so that the dearest costs least.

    It is cut between operations where few values go on to the next stage. A stage has all operations that read one of
    its weights, so a weight that the first and the last layer share keeps everything between them together. The cost of
    a stage is the model's, forward and backward. Nothing is run.

    Args:
        loss: of the whole model, the mean of the rows of a batch.
        params: a pytree of arrays, or of ``jax.ShapeDtypeStruct``.
        x, targets: a micro-batch, as arrays or their shapes; the stages are for these shapes.
        count: the number of stages.
        optimizer: of optax, whose state counts as memory of the stage.

    Raises:
        ValueError: `loss` returns no scalar of floats or has effects; it cannot be cut into so many stages, or an
            operation does not fit on an IPU.

    Examples:
        >>> import jax, jax.numpy as jnp, numpy as np, optax, jax_ipu
        >>> def loss(params, x, y):
        ...     for w in params:
        ...         x = jnp.tanh(x @ w)
        ...     return jnp.mean((x - y) ** 2)
        >>> params = [np.eye(16, dtype=np.float32)] * 4
        >>> x, y = np.ones((8, 16), np.float32), np.zeros((8, 16), np.float32)
        >>> stages = jax_ipu.split_into_stages(loss, params, x[:2], y[:2], count=2)
        >>> [len(weights) for weights in stages.weights]
        [2, 2]
        >>> ipus = jax.devices("ipu")[:2]
        >>> pipe = jax_ipu.pipeline(stages.functions, devices=ipus, optimizer=optax.sgd(0.1), gradient_accumulation=4)
        >>> state, value = pipe.step(pipe.init(stages.weights), x, y)
        >>> np.allclose(value, loss(params, x, y), rtol=1e-5), len(stages.join(state.params))
        (True, 4)
    """
    import jax

    from jax_ipu.pipelines.chain import Chain

    if not isinstance(count, int) or count < 1:
        raise ValueError(f"count={count!r} is not valid: give a whole number of stages, at least 1")
    leaves, structure = jax.tree.flatten(params)
    if not leaves:
        raise ValueError("the function to split has no parameters")
    chain = Chain(loss, *jax.tree.map(shape_of, (params, x, targets)))
    ends = _ends(chain)
    if len(ends) < count:
        raise ValueError(_why_not(chain, ends, count, jax.tree_util.tree_leaves_with_path(params)))
    pieces = [chain.part(a, b) for a, b in zip([0, *ends], ends, strict=False)]
    costs = _Costs(chain)
    found = [costs.of(piece, number == len(pieces) - 1) for number, piece in enumerate(pieces)]
    sizes = [_bytes_of(leaf) * _copies(leaf, optimizer) for leaf in leaves]
    held = [sum(sizes[i] for i in piece.weights) for piece in pieces]
    sent = [sum(value.size_in_bytes for value in piece.outputs) for piece in pieces]
    cuts = _balanced([cycles for cycles, _ in found], held, [working for _, working in found], sent, count, _capacity())
    bounds = [0, *cuts, len(ends)]
    steps = [0, *(ends[k - 1] for k in bounds[1:])]
    parts = [chain.part(a, b) for a, b in itertools.pairwise(steps)]
    places = [part.weights for part in parts]
    places[0] = sorted({*places[0], *set(range(len(leaves))).difference(*places)})
    functions = [
        _stage(part, own, number == 0, number == count - 1)
        for number, (part, own) in enumerate(zip(parts, places, strict=True))
    ]
    return Stages(
        functions,
        [[leaves[i] for i in own] for own in places],
        [sum(cycles for cycles, _ in found[a:b]) for a, b in itertools.pairwise(bounds)],
        [sum(value.size_in_bytes for value in part.outputs) for part in parts[:-1]],
        places,
        structure,
    )


def _ends(chain: Chain) -> list[int]:
    """The numbers of steps after which a piece may end: the last of all, and places where little goes on."""
    from jax_ipu.pipelines.chain import rough_cycles

    done = list(itertools.accumulate((rough_cycles(step.equation) for step in chain.steps), initial=0.0))
    least = max(done[-1] / _PIECES, _LEAST_CYCLES)
    cuts = {k: sum(value.size_in_bytes for value in values) for k, values in chain.cuts().items()}
    ends = [0]
    for k, size in cuts.items():
        near = (other for j, other in cuts.items() if abs(done[j] - done[k]) < least / 2)
        if min(done[k] - done[ends[-1]], done[-1] - done[k]) >= least and size <= min(near):
            ends.append(k)
    return [*ends[1:], len(chain.steps)]


class _Costs:
    """Cycles and bytes of pieces by ``jax_ipu.estimate``; equal pieces are estimated once."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._known: dict[str, tuple[int, int]] = {}

    def of(self, piece: Part, last: bool) -> tuple[int, int]:
        """The cycles of forward and backward, and the bytes beside weights and their gradients."""
        import jax

        shapes = partial(jax.tree.map, _struct_of, is_leaf=lambda value: hasattr(value, "number"))
        weights = shapes([self._chain.weights[i] for i in piece.weights])
        inputs, outputs = (_sent(shapes(values)) for values in (piece.inputs, piece.outputs))
        inputs = shapes(piece.inputs) if piece.inputs is self._chain.batch else inputs
        targets = shapes(self._chain.targets) if last else []
        floats = [_is_float(a) for a in inputs]

        def both_ways(weights: Any, inputs: Any, targets: Any, gradients: Any) -> Any:
            def forward(weights: Any, moving: Any) -> Any:
                rest = iter(moving)
                arrays = [next(rest) if own else a for own, a in zip(floats, inputs, strict=True)]
                return piece.function(weights, arrays, targets)

            moving = [a for own, a in zip(floats, inputs, strict=True) if own]
            results, back = jax.vjp(forward, weights, moving)
            return back(gradients), results if last else ()

        arguments = (weights, inputs, targets, outputs)
        text = str(jax.make_jaxpr(both_ways)(*arguments))
        if text not in self._known:
            found = estimate(both_ways, *arguments, compiler_options=WITHOUT_ADVICE)
            if found.cycles is None or not found.fits:
                where = _where(self._chain, piece)
                raise ValueError(f"a piece of the model does not fit on an IPU by itself, {where}: {found.reason}")
            held = 2 * sum(value.size_in_bytes for value in map(self._chain.weights.__getitem__, piece.weights))
            whole = (found.fullest_tile_bytes or 0) * _num_tiles()
            self._known[text] = found.cycles, max(0, whole - held)
        return self._known[text]


def _balanced(
    cycles: Sequence[int],
    held: Sequence[float],
    working: Sequence[int],
    sent: Sequence[int],
    count: int,
    capacity: float,
) -> list[int]:
    """Where to cut a row of pieces into `count`.

    The part that is most over the capacity is so by as little as possible; then the dearest takes the fewest cycles;
    then the fewest bytes are sent.
    """
    number = len(cycles)

    def over(a: int, b: int) -> float:
        return max(0.0, sum(held[a:b]) + max(working[a:b]) - capacity)

    # best[k][b]: of the first b pieces in k parts.
    best: list[dict[int, tuple[float, int, int]]] = [{0: (0.0, 0, 0)}]
    chosen: list[dict[int, int]] = [{}]
    for k in range(1, count + 1):
        row, cuts = {}, {}
        for b in range(k, number - (count - k) + 1):
            row[b], cuts[b] = min(
                ((max(most, over(a, b)), max(dearest, sum(cycles[a:b])), total + sent[b - 1]), a)
                for a, (most, dearest, total) in best[-1].items()
                if a < b
            )
        best.append(row)
        chosen.append(cuts)
    places, end = [], number
    for k in range(count, 1, -1):
        end = chosen[k][end]
        places.append(end)
    return places[::-1]


def _stage(part: Part, own: list[int], first: bool, last: bool) -> Callable[..., Any]:
    """The function of a stage; `own`: the leaves that it is given, in which are those that it reads."""
    import jax

    read = [own.index(i) for i in part.weights]

    def stage(weights: Any, x: Any, *targets: Any) -> Any:
        inputs = jax.tree.leaves(x) if first else list(x)
        results = part.function([weights[i] for i in read], inputs, jax.tree.leaves(targets))
        return results[0] if last else tuple(results)

    return stage


def _why_not(chain: Chain, ends: list[int], count: int, leaves: list[Any]) -> str:
    import jax

    text = f"the function cannot be cut into {count} stages, but into {len(ends)}"
    readers = chain.readers()
    far = max(readers, key=lambda weight: readers[weight][1] - readers[weight][0], default=None)
    if far is not None and 4 * (readers[far][1] - readers[far][0]) > len(chain.steps):
        path = jax.tree_util.keystr(leaves[far][0])
        text += f": its parameter {path or 'params'} is read at both ends of it, and so would be needed on several IPUs"
    return text


def _where(chain: Chain, piece: Part) -> str:
    shapes = ", ".join(f"{value.dtype}{list(value.shape)}" for value in piece.inputs)
    return f"between {shapes} and " + ", ".join(f"{value.dtype}{list(value.shape)}" for value in piece.outputs)


def _copies(leaf: Any, optimizer: Any) -> float:
    """How much memory a weight takes, in its own size: itself, the sum of its gradients, the optimizer's state."""
    import jax

    if optimizer is None:
        return 2.0
    state = jax.eval_shape(optimizer.init, [shape_of(leaf)])
    return 2.0 + sum(_bytes_of(a) for a in jax.tree.leaves(state)) / max(1, _bytes_of(leaf))


def _sent(shapes: list[Any]) -> list[Any]:
    """As they go from stage to stage: all are floats."""
    return [a if _is_float(a) else struct(a.shape, "float32") for a in shapes]


def _is_float(array: Any) -> bool:
    import jax.numpy as jnp

    return bool(jnp.issubdtype(array.dtype, jnp.floating))


def _num_tiles() -> int:
    from jax_ipu import _ipu

    return _ipu.Target(config.model_version, config.model_num_tiles).num_tiles


def _capacity() -> float:
    from jax_ipu import _ipu

    target = _ipu.Target(config.model_version, config.model_num_tiles)
    return float(target.num_tiles * target.bytes_per_tile)


def _bytes_of(array: Any) -> int:
    return int(array.size) * int(array.dtype.itemsize)


def _struct_of(value: Value) -> Any:
    return struct(value.shape, value.dtype)
