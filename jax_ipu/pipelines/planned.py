"""What is known of a pipeline before anything runs: the shapes of its stages, their programs, time and memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jax_ipu.config import config
from jax_ipu.estimates import WITHOUT_ADVICE, Estimate, estimate
from jax_ipu.integration.tracebacks import boundary
from jax_ipu.pipelines.order import most_in_flight
from jax_ipu.pipelines.shapes import shape_of, struct
from jax_ipu.pipelines.timeline import Timeline, timeline

if TYPE_CHECKING:
    from jax_ipu.pipelines.stage import Stage
    from jax_ipu.reports import Report


class _Program(NamedTuple):
    """A program of a stage, as `jax.jit` takes it; its second argument is donated."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class Planned:
    """The part of a :class:`~jax_ipu.pipelines.Pipeline` that nothing runs for: its time, memory and report.

    Examples:
        >>> from jax_ipu.pipelines import Pipeline
        >>> from jax_ipu.pipelines.planned import Planned
        >>> issubclass(Pipeline, Planned)
        True
    """

    batches: int
    """The number of micro-batches of a step."""
    schedule: str
    """In which order a stage computes them: "grouped", "interleaved" or "sequential"."""
    _options: dict[str, Any]
    _stages: list[Stage]
    _replicas: int

    @boundary
    def timeline(self, params: Sequence[Any], x: Any, *targets: Any) -> Timeline:
        """When each stage computes which micro-batch in a step, by the estimates of its programs. Nothing is run.

        Args:
            params, x, targets: arrays, or ``jax.ShapeDtypeStruct`` in their place.

        Raises:
            ValueError: a program of a stage does not fit, stages do not chain, or the batch cannot be cut.

        Examples:
            >>> import jax, jax.numpy as jnp, numpy as np, jax_ipu
            >>> stages = [lambda w, x: x @ w, lambda w, x: jnp.mean(x @ w)]
            >>> w, x = jax.ShapeDtypeStruct((64, 64), "float32"), jax.ShapeDtypeStruct((32, 64), "float32")
            >>> pipe = jax_ipu.pipeline(stages, devices=["IPU 0", "IPU 1"], gradient_accumulation=4)
            >>> found = pipe.timeline([w, w], x)
            >>> len(found.starts), 0 < found.idle < 1
            (12, True)
        """
        found, inputs = self._estimates(params, x, targets)
        return self._timeline(found, inputs)

    def _timeline(self, found: Mapping[tuple[int, bool], Estimate], inputs: Sequence[Any]) -> Timeline:
        from jax_ipu import _ipu

        rate = _ipu.Target(config.model_version, config.model_num_tiles).ipu_link_bytes_per_second
        sent = [sum(leaf.size * leaf.dtype.itemsize for leaf in _leaves(y)) for y in inputs[1:]]
        send = {number: size / rate if rate else 0.0 for number, size in enumerate(sent)}
        seconds = {key: one.seconds or 0.0 for key, one in found.items()}
        return timeline(self.schedule, len(self._stages), self.batches, seconds, send)

    @boundary
    def report(
        self,
        params: Sequence[Any],
        x: Any,
        *targets: Any,
        stage: int | None = None,
        backward: bool | None = None,
        path: str | Path | None = None,
    ) -> Report:
        """The :func:`jax_ipu.report` on a program of a stage, with the schedule of the pipeline. Nothing is run.

        The view Schedule shows a row for each IPU: which micro-batch it computes, copies and waits. All other views are
        of one program, by default of the one that takes most of the time of the slowest stage.

        Args:
            params, x, targets: arrays, or ``jax.ShapeDtypeStruct`` in their place.
            stage: the stage whose program the report is on.
            backward: whether it is the program for the gradients; the last stage has only that one.
            path: where to save the report: .html, or .json for its data; by default it is not saved.

        Raises:
            ValueError: there is no such stage or program, a program of a stage does not fit, or the name in `path`
                ends in neither .html nor .json.

        Examples:
            >>> import jax, jax.numpy as jnp, jax_ipu
            >>> stages = [lambda w, x: x @ w, lambda w, x: jnp.mean(x @ w)]
            >>> w, x = jax.ShapeDtypeStruct((64, 64), "float32"), jax.ShapeDtypeStruct((32, 64), "float32")
            >>> pipe = jax_ipu.pipeline(stages, devices=["IPU 0", "IPU 1"], gradient_accumulation=4)
            >>> schedule = pipe.report([w, w], x).as_dict()["schedule"]
            >>> [row["stage"] for row in schedule["rows"]], 0 < schedule["idle"] < 1
            ([0, 1], True)
        """
        from jax_ipu.reports import checked_path, report

        if path is not None:
            checked_path(path)  # before the programs are compiled, which may take long
        programs, inputs = self._programs(params, x, targets)
        chosen = [key for key in programs if stage in (None, key[0]) and backward in (None, key[1])]
        if not chosen:
            known = ", ".join(f"stage {number} {'backward' if b else 'forward'}" for number, b in programs)
            raise ValueError(
                f"the pipeline has no program of stage={stage!r}, backward={backward!r}; it has these: {known}"
            )
        found = {key: self._fitting(*one) for key, one in programs.items()}
        spent = {key: one.seconds or 0.0 for key, one in found.items()}
        of_stage = [sum(s for key, s in spent.items() if key[0] == number) for number in range(len(self._stages))]
        key = max(chosen, key=lambda one: (of_stage[one[0]], spent[one]))
        options = {**self._options, **WITHOUT_ADVICE}
        function, arguments = programs[key]
        result = report(function, *arguments, donate_argnums=1, compiler_options=options)
        clock = float(result.as_dict()["chip"]["clock_hz"])
        result = result.with_schedule(
            self._timeline(found, inputs).schedule(self.schedule, self.batches, self._replicas, clock)
        )
        if path is not None:
            result.save(path)
        return result

    @boundary
    def fullest_tile_bytes(self, params: Sequence[Any], x: Any, *targets: Any) -> int:
        """Bytes on the fullest tile of any stage at its fullest moment, by the estimates. Nothing is run.

        Args:
            params, x, targets: arrays, or ``jax.ShapeDtypeStruct`` in their place.

        Raises:
            ValueError: a program of a stage does not fit.

        Examples:
            >>> import jax, jax.numpy as jnp, jax_ipu
            >>> w, x = jax.ShapeDtypeStruct((64, 64), "float32"), jax.ShapeDtypeStruct((32, 64), "float32")
            >>> pipe = jax_ipu.pipeline([lambda w, x: jnp.mean(x @ w)], devices=["IPU 0"])
            >>> pipe.fullest_tile_bytes([w], x) > 0
            True
        """
        found, _ = self._estimates(params, x, targets)
        return max(one.fullest_tile_bytes or 0 for one in found.values())

    def _estimates(
        self, params: Sequence[Any], x: Any, targets: Any
    ) -> tuple[dict[tuple[int, bool], Estimate], list[Any]]:
        """The estimates of the stages' programs, and what each stage is given."""
        programs, inputs = self._programs(params, x, targets)
        return {key: self._fitting(*one) for key, one in programs.items()}, inputs

    def _programs(
        self, params: Sequence[Any], x: Any, targets: Any
    ) -> tuple[dict[tuple[int, bool], _Program], list[Any]]:
        """The stages' programs, by stage and whether they go backward, and what each stage is given."""
        import jax

        params, (x, targets) = jax.tree.map(shape_of, list(params)), jax.tree.map(shape_of, (x, targets))
        self._rows((x, targets))
        x, targets = self._shapes_of_parts((x, targets), self.batches)
        inputs = self._check_stages(params, x, targets)[:-1]
        found: dict[tuple[int, bool], _Program] = {}
        slot = struct((), "int32")
        for number, stage in enumerate(self._stages):
            own, given = params[number], inputs[number]
            sums = jax.tree.map(self._of_one_ipu, stage.zeros(own))
            if stage.last:
                found[number, True] = _Program(stage.run_last, (own, sums, given, targets))
                continue
            stash = self._stash_shapes(number, own, given)
            found[number, False] = _Program(stage.run_forward, (own, stash, slot, given))
            found[number, True] = _Program(stage.run_backward, (own, sums, stash, slot, inputs[number + 1]))
        return found, inputs

    def _fitting(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Estimate:
        options = {**self._options, **WITHOUT_ADVICE}
        found = estimate(function, *arguments, donate_argnums=1, compiler_options=options)
        if found.seconds is None or not found.fits:
            raise ValueError(f"a program of the pipeline does not fit on an IPU: {found.reason}")
        return found

    def _rows(self, batch: Any) -> int:
        """The rows of a batch; raises where its arrays differ in them, or they cannot be cut."""
        leaves = _leaves(batch)
        sizes = {leaf.shape[:1] for leaf in leaves}
        if len(sizes) != 1 or () in sizes:
            found = ", ".join(sorted(str(leaf.shape) for leaf in leaves))
            raise ValueError(f"arguments of a batch have one first dimension, its rows; these have shapes {found}")
        ((rows,),) = sizes
        self._check_rows(rows)
        return int(rows)

    def _check_rows(self, rows: int) -> None:
        if rows == 0 or rows % self.batches:
            raise ValueError(f"a batch of {rows} rows cannot be cut into {self.batches} equal micro-batches")
        if rows // self.batches % self._replicas:
            raise ValueError(
                f"micro-batches of {rows // self.batches} rows cannot be cut over the {self._replicas} IPUs of a stage"
            )

    def _shapes_of_parts(self, tree: Any, batches: int = 1) -> Any:
        """The shapes of what one IPU has of arrays that are cut into micro-batches, and over the IPUs of a stage."""
        import jax

        def part(array: Any) -> Any:
            self._check_rows(array.shape[0] * self.batches // batches)
            return struct((array.shape[0] // batches // self._replicas, *array.shape[1:]), array.dtype)

        return jax.tree.map(part, tree)

    def _of_one_ipu(self, array: Any) -> Any:
        """The shape of its part of what has a first dimension for the IPUs of a stage, if these are several."""
        shape, first = tuple(array.shape), 0 if self._replicas == 1 else 1
        return struct((1,) * first + shape[first:], array.dtype)

    def _stash_shapes(self, number: int, params: Any, x: Any) -> Any:
        import jax

        depth = most_in_flight(self.schedule, number, len(self._stages), self.batches)
        kept, _ = jax.eval_shape(self._stages[number].keep, params, x)
        return jax.tree.map(lambda a: struct((depth, *a.shape), a.dtype), kept)

    def _check_stages(self, params: Sequence[Any], x: Any, targets: tuple[Any, ...]) -> list[Any]:
        """What each stage is given; raises where a stage does not take it."""
        import jax
        import jax.numpy as jnp

        inputs = [jax.tree.map(shape_of, x)]
        for number, (stage, one) in enumerate(zip(self._stages, params, strict=True)):
            if whole := [leaf for leaf in jax.tree.leaves(one) if not jnp.issubdtype(leaf.dtype, jnp.inexact)]:
                raise ValueError(
                    f"stage {number} has weights of {_described(whole)}, which have no gradient: weights are floats; a"
                    " function may use other arrays without being given them"
                )
            extra = targets if stage.last else ()
            try:
                result = jax.eval_shape(stage.function, one, inputs[number], *extra)
            except Exception as error:
                given = _described(inputs[number])
                raise ValueError(f"stage {number} does not take {given}: {type(error).__name__}: {error}") from error
            if stage.last:
                if getattr(result, "shape", None) != () or not jnp.issubdtype(result.dtype, jnp.floating):
                    raise ValueError(f"the last stage returns {_described(result)}, not a loss: a scalar of floats")
            elif not (leaves := jax.tree.leaves(result)) or not all(
                jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves
            ):
                raise ValueError(f"stage {number} returns {_described(result)}: activations between stages are floats")
            inputs.append(result)
        return inputs


def _leaves(tree: Any) -> list[Any]:
    import jax

    return jax.tree.leaves(tree)


def _described(tree: Any) -> str:
    import jax

    return ", ".join(f"{leaf.dtype}{list(leaf.shape)}" for leaf in jax.tree.leaves(tree)) or "nothing"
