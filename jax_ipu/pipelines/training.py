"""``jax_ipu.pipeline``: training of a model whose stages are on IPUs of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jax_ipu.integration.tracebacks import boundary
from jax_ipu.names import nearest
from jax_ipu.pipelines.order import SCHEDULES, Work, most_in_flight, order_of_all
from jax_ipu.pipelines.planned import Planned
from jax_ipu.pipelines.shapes import shape_of


class PipelineState(NamedTuple):
    """What a training step of a pipeline changes, each on the IPU of its stage.

    Attributes:
        params: the weights of each stage.
        optimizer: the optimizer's state for each stage.

    Examples:
        >>> from jax_ipu.pipelines import PipelineState
        >>> PipelineState(params=[], optimizer=[])._fields
        ('params', 'optimizer')
    """

    params: list[Any]
    optimizer: list[Any]


@boundary
def pipeline(
    stages: Sequence[Callable[..., Any]],
    *,
    devices: Sequence[Any],
    optimizer: Any = None,
    gradient_accumulation: int = 1,
    schedule: str = "grouped",
    recompute: bool = True,
    compiler_options: Mapping[str, Any] | None = None,
) -> Pipeline:
    """A model cut into stages, each of which computes on its own IPU while the others compute other micro-batches.

    A batch is cut into `gradient_accumulation` micro-batches. The weights, the sums of gradients and the optimizer
    state of a stage stay in the SRAM of its IPU; activations and their gradients cross the IPU-Links. Losses,
    gradients and weights are those of the whole model, within the rounding of sums.

    Args:
        stages: functions ``stage(params, x) -> x`` of arrays or pytrees of them; activations between stages are
            floats. The last is ``stage(params, x, *targets) -> loss``, the mean loss of a micro-batch, a scalar.
        devices: an IPU for each stage. Or several for each, as many for all: the stage is then on each of them, and the
            rows of a micro-batch are cut over them (data parallel), for example ``np.array(ipus).reshape(4, 2)`` for
            four stages on two IPUs each. A stage sees the rows of its IPU, and their gradients are added once a step.
        optimizer: of optax, or anything with its ``init`` and ``update``, for :meth:`Pipeline.step`. Each stage has
            one, so what looks at all gradients together, such as clipping by their norm, sees those of the stage.
        gradient_accumulation: the number of micro-batches; with one, only one IPU computes at a time.
        schedule: "grouped": all micro-batches forward, then all backward; "interleaved": backward as soon as possible,
            so that a stage keeps activations of as many micro-batches as there are stages from it on; "sequential":
            one micro-batch after the other.
        recompute: whether backward computes a stage's forward again from its input; otherwise all values that backward
            reads are kept.
        compiler_options: for all programs of the stages, as ``jax.jit`` takes them.

    Raises:
        ValueError: no stages, another number of devices than stages, a device twice or that is no IPU, stages on
            different numbers of devices, no such schedule, or no micro-batches.
        TypeError: a stage is no function, or the devices are no list.

    Examples:
        >>> import jax, jax.numpy as jnp, numpy as np, jax_ipu
        >>> def first(w, x): return jnp.tanh(x @ w)
        >>> def last(w, x, y): return jnp.mean((x @ w - y) ** 2)
        >>> ipus = jax.devices("ipu")[:2]
        >>> pipe = jax_ipu.pipeline([first, last], devices=ipus, gradient_accumulation=4)
        >>> weights = [np.eye(8, dtype=np.float32)] * 2
        >>> x, y = np.ones((8, 8), np.float32), np.zeros((8, 8), np.float32)
        >>> loss, gradients = pipe.value_and_grad(weights, x, y)
        >>> whole = lambda w, x, y: last(w[1], first(w[0], x), y)
        >>> expected = jax.jit(jax.value_and_grad(whole), backend="cpu")(weights, x, y)
        >>> np.allclose(loss, expected[0]), np.allclose(gradients[0], expected[1][0])
        (True, True)
    """
    options = dict(compiler_options or {})
    return Pipeline(stages, devices, optimizer, gradient_accumulation, schedule, recompute, options)


class Pipeline(Planned):
    """What :func:`jax_ipu.pipeline` returns.

    Examples:
        >>> import jax, jax.numpy as jnp, jax_ipu
        >>> pipe = jax_ipu.pipeline([lambda w, x: jnp.mean(x * w)], devices=jax.devices("ipu")[:1])
        >>> pipe.schedule, pipe.batches
        ('grouped', 1)
    """

    def __init__(
        self,
        stages: Sequence[Callable[..., Any]],
        devices: Sequence[Any],
        optimizer: Any,
        gradient_accumulation: int,
        schedule: str,
        recompute: bool,
        compiler_options: dict[str, Any],
    ) -> None:
        if callable(stages):
            raise TypeError(
                "the stages of a pipeline are a list of functions; jax_ipu.split_into_stages makes one of a loss"
            )
        if isinstance(devices, str) or not hasattr(devices, "__iter__"):
            raise TypeError(
                f"the devices of a pipeline are a list, of one or several for each stage; this is {devices!r}"
            )
        replicated = [_several(device) for device in devices]
        _check(stages, replicated, gradient_accumulation, schedule)
        from jax_ipu.pipelines.stage import Stage

        self.batches, self.schedule, self.optimizer = gradient_accumulation, schedule, optimizer
        self._options = compiler_options
        last = len(stages) - 1
        self._stages = [
            Stage(function, own, number == 0, number == last, recompute, gradient_accumulation, compiler_options)
            for number, (function, own) in enumerate(zip(stages, replicated, strict=True))
        ]
        self._replicas = len(replicated[0])
        self._updates = [stage.update_with(optimizer) for stage in self._stages] if optimizer is not None else []
        # What each stage keeps between calls; None where a call has failed.
        self._sums: list[Any] | None = None
        self._stashes: list[Any] = []
        self._slots: list[list[Any]] = []
        self._checked: Any = None
        # The shapes that `_checked` had when the updates were compiled.
        self._updates_for: Any = None
        self._updates_may_fail = False

    @boundary
    def place(self, params: Sequence[Any]) -> list[Any]:
        """The weights of each stage on its IPU, or on each of its IPUs.

        Raises:
            ValueError: not as many as there are stages.

        Examples:
            >>> import jax, jax.numpy as jnp, numpy as np, jax_ipu
            >>> pipe = jax_ipu.pipeline([lambda w, x: jnp.mean(x * w)], devices=jax.devices("ipu")[:1])
            >>> pipe.place([np.float32(2)])[0].devices() == {jax.devices("ipu")[0]}
            True
        """
        if len(params) != len(self._stages):
            raise ValueError(f"weights of {len(params)} stages were given to a pipeline of {len(self._stages)}")
        return [stage.put(one) for stage, one in zip(self._stages, params, strict=True)]

    @boundary
    def init(self, params: Sequence[Any]) -> PipelineState:
        """The state for :meth:`step`: the weights, and the optimizer's state for them.

        Raises:
            ValueError: the pipeline has no optimizer, or `params` not as many entries as there are stages.

        Examples:
            >>> import jax, jax.numpy as jnp, numpy as np, optax, jax_ipu
            >>> ipu = jax.devices("ipu")[:1]
            >>> pipe = jax_ipu.pipeline([lambda w, x: jnp.mean(x * w)], devices=ipu, optimizer=optax.sgd(0.5))
            >>> pipe.init([np.float32(2)]).params
            [Array(2., dtype=float32)]
        """
        placed = self.place(params)
        if self.optimizer is None:
            raise ValueError("the pipeline has no optimizer: give jax_ipu.pipeline one")
        import jax

        start = jax.jit(self.optimizer.init)
        return PipelineState(placed, [stage.put(start(one)) for stage, one in zip(self._stages, placed, strict=True)])

    @boundary
    def step(self, state: PipelineState, x: Any, *targets: Any) -> tuple[PipelineState, Any]:
        """A training step: the new state and the mean loss of the batch. The arrays of the old state are given up.

        Args:
            state: of :meth:`init`, or of the step before.
            x, targets: the batch, arrays or pytrees of them whose first dimension are its rows.

        Raises:
            ValueError: the number of micro-batches does not divide the rows, stages do not chain, or the pipeline has
                no optimizer.
            Exception: what a stage or its update fails with. Then no weights have changed, and `state` is as before:
                updates that call functions of the host, and so may fail while they run, work on a copy.

        Examples:
            >>> import jax, jax.numpy as jnp, numpy as np, optax, jax_ipu
            >>> ipu = jax.devices("ipu")[:1]
            >>> pipe = jax_ipu.pipeline([lambda w, x: jnp.mean(x * w)], devices=ipu, optimizer=optax.sgd(0.5))
            >>> state, loss = pipe.step(pipe.init([np.float32(2)]), np.ones(4, np.float32))
            >>> float(loss), float(state.params[0])
            (2.0, 1.5)
        """
        import jax
        import jax.numpy as jnp

        if not self._updates:
            raise ValueError("the pipeline has no optimizer: give jax_ipu.pipeline one")
        sums = self._run(state.params, x, targets)
        self._compile_updates(state, sums)
        old = list(zip(state.params, state.optimizer, strict=True))
        # What is given to an update is gone: a copy, if it may fail when it, or that of a stage before, has run.
        given = jax.tree.map(jnp.copy, old) if self._updates_may_fail else old
        params, optimizer, loss = [], [], None
        for number, update in enumerate(self._updates):
            changed = update(*given[number], sums[number])
            params.append(changed[0])
            optimizer.append(changed[1])
            sums[number], loss = changed[2], changed[3]
        if self._updates_may_fail:
            wait: Any = jax.block_until_ready
            wait((params, optimizer))
            for array in jax.tree.leaves(old):
                array.delete()
        self._sums = sums
        return PipelineState(params, optimizer), loss

    @boundary
    def value_and_grad(self, params: Sequence[Any], x: Any, *targets: Any) -> tuple[Any, list[Any]]:
        """The mean loss of a batch, and its gradient for the weights of each stage.

        Raises:
            ValueError, Exception: as :meth:`step`.

        Examples:
            >>> import jax, jax.numpy as jnp, numpy as np, jax_ipu
            >>> pipe = jax_ipu.pipeline([lambda w, x: jnp.mean(x * w)], devices=jax.devices("ipu")[:1])
            >>> loss, (gradient,) = pipe.value_and_grad([np.float32(2)], np.full(4, 3, np.float32))
            >>> float(loss), float(gradient)
            (6.0, 3.0)
        """
        sums, means = self._run(self.place(params), x, targets), []
        for number, stage in enumerate(self._stages):
            sums[number], mean = stage.gradients(sums[number])
            means.append(mean)
        self._sums = sums
        return means[-1]["loss"], [mean["gradients"] for mean in means]

    @boundary
    def loss(self, params: Sequence[Any], x: Any, *targets: Any) -> Any:
        """The mean loss of a batch, computed forward only.

        Raises:
            ValueError, Exception: as :meth:`step`.

        Examples:
            >>> import jax, jax.numpy as jnp, numpy as np, jax_ipu
            >>> pipe = jax_ipu.pipeline([lambda w, x: jnp.mean(x * w)], devices=jax.devices("ipu")[:1])
            >>> pipe.loss([np.float32(2)], np.ones(4, np.float32))
            2.0
        """
        placed = self.place(params)
        batches = self._micro_batches(x, targets)
        self._check_stages(placed, *self._shapes_of_parts(batches[0]))
        losses = []
        for rows, of_targets in batches:
            value = rows
            for stage, one in zip(self._stages, placed, strict=True):
                extra = stage.put_parts(of_targets) if stage.last else ()
                value = stage.apply(one, stage.put_parts(value), extra)
            losses.append(value)
        return sum(float(value) for value in losses) / self.batches

    # ----------------------------------------------------------------------------------------------------------------

    def _run(self, params: Sequence[Any], x: Any, targets: tuple[Any, ...]) -> list[Any]:
        """The sums of gradients and losses of a batch, after waiting for all stages.

        The caller gives them back to `_sums` when they are zero again: whatever fails before leaves none.
        """
        import jax

        batches = self._micro_batches(x, targets)
        self._prepare(params, *batches[0])
        sums, stashes = self._sums, self._stashes
        assert sums is not None
        self._sums = None
        sent: dict[Work, Any] = {}
        stages = len(self._stages)
        for work in order_of_all(self.schedule, stages, self.batches):
            number, stage = work.stage, self._stages[work.stage]
            slot = self._slots[number][work.batch % len(self._slots[number])] if not stage.last else None
            if work.backward and not stage.last:
                gradient = stage.put_parts(sent.pop(Work(number + 1, True, work.batch)))
                sums[number], back = stage.backward(params[number], sums[number], stashes[number], slot, gradient)
            else:
                rows, of_targets = batches[work.batch]
                value = stage.put_parts(rows if stage.first else sent.pop(Work(number - 1, False, work.batch)))
                if not stage.last:
                    stashes[number], sent[work] = stage.forward(params[number], stashes[number], slot, value)
                    continue
                sums[number], back = stage.backward(params[number], sums[number], value, stage.put_parts(of_targets))
            if not stage.first:
                sent[work] = back
        wait: Any = jax.block_until_ready
        wait(sums)
        return sums

    def _compile_updates(self, state: PipelineState, sums: Sequence[Any]) -> None:
        """Compiles the updates of all stages before one runs, which gives up its part of the state."""
        if self._updates_for is self._checked:
            return
        self._updates_may_fail = False
        for number, stage in enumerate(self._stages):
            calls = stage.compile_update(state.params[number], state.optimizer[number], sums[number])
            self._updates_may_fail |= calls
        self._updates_for = self._checked

    def _micro_batches(self, x: Any, targets: tuple[Any, ...]) -> list[tuple[Any, tuple[Any, ...]]]:
        import jax
        import numpy as np

        arrays = jax.tree.map(np.asarray, (x, targets))
        part = self._rows(arrays) // self.batches
        return [jax.tree.map(lambda a, k=k: a[k * part : (k + 1) * part], arrays) for k in range(self.batches)]

    def _prepare(self, params: Sequence[Any], rows: Any, targets: tuple[Any, ...]) -> None:
        """Makes the sums and stashes that are not there yet."""
        import jax
        import numpy as np

        shapes = (jax.tree.map(shape_of, list(params)), *self._shapes_of_parts((rows, targets)))
        key = jax.tree.flatten(shapes)
        known = self._checked is not None and (self._checked[1], self._checked[0]) == (key[1], key[0])
        if known and self._sums is not None:
            return
        inputs = self._check_stages(*shapes)
        self._checked = key
        self._sums = [stage.put_parts(stage.zeros(one)) for stage, one in zip(self._stages, params, strict=True)]
        self._stashes, self._slots = [], []
        for number, stage in enumerate(self._stages):
            depth = most_in_flight(self.schedule, number, len(self._stages), self.batches)
            self._slots.append([stage.put(np.int32(k)) for k in range(depth)])
            stash = None if stage.last else self._stash_shapes(number, shapes[0][number], inputs[number])
            whole = jax.tree.map(lambda s: np.zeros((s.shape[0] * self._replicas, *s.shape[1:]), s.dtype), stash)
            self._stashes.append(stage.put_parts(whole))


def _several(devices: Any) -> list[Any]:
    """The IPUs of a stage, of one or of a sequence of them."""
    alone = isinstance(devices, str) or not hasattr(devices, "__len__")
    return [devices] if alone else list(devices)


def _check(stages: Sequence[Any], devices: Sequence[list[Any]], batches: int, schedule: str) -> None:
    if not stages:
        raise ValueError("a pipeline has at least one stage")
    for number, stage in enumerate(stages):
        if not callable(stage):
            raise TypeError(f"stage {number} of the pipeline is no function: {stage!r}")
    if len(devices) != len(stages):
        raise ValueError(f"a pipeline of {len(stages)} stages needs as many devices, not {len(devices)}")
    counts = sorted({len(own) for own in devices})
    if len(counts) > 1 or counts[0] == 0:
        raise ValueError(f"the stages of a pipeline have as many IPUs each, at least one; these have {counts}")
    every = [device for own in devices for device in own]
    for device in every:
        # Names take the place of IPUs in what is only estimated.
        if not isinstance(device, str) and getattr(device, "platform", None) != "ipu":
            raise ValueError(f"the stages of a pipeline are on IPUs, of jax.devices('ipu'); {device!r} is none")
    twice = sorted({str(device) for device in every if every.count(device) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)} is given for more than one stage: each needs a device of its own")
    if schedule not in SCHEDULES:
        meant = nearest(str(schedule), SCHEDULES)
        hint = f" Did you mean {meant}?" if meant else ""
        raise ValueError(f"there is no schedule {schedule!r}: give one of {', '.join(SCHEDULES)}.{hint}")
    if not hasattr(batches, "__index__") or batches < 1:
        raise ValueError(f"gradient_accumulation={batches!r}: a step has at least one micro-batch; give a whole number")
