"""Estimates: whether a function fits on an IPU and what it costs there, without running it and without a device."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple, overload

from jax_ipu.compiler.estimates import Estimate
from jax_ipu.compiler.estimates import estimate as _estimate
from jax_ipu.compiler.progress import Status, part_of
from jax_ipu.compiler.tables import Row, html_table, percent_text, seconds_text, text_table
from jax_ipu.config import config
from jax_ipu.integration.tracebacks import boundary
from jax_ipu.names import nearest

__all__ = ["Comparison", "Estimate", "LargestBatch", "estimate", "largest_batch"]


# Options of compilations that may fail: without advice on what would help.
WITHOUT_ADVICE: Mapping[str, Any] = {"ipu_advice_seconds": 0.0}


class Comparison:
    """Estimates of one program for several targets: a mapping from each target, as it was given, to its estimate.

    ``print`` shows it as a table, a notebook as one of HTML.

    Attributes:
        estimates: the mapping as a dictionary.

    Examples:
        >>> import jax, jax.numpy as jnp, jax_ipu
        >>> x = jax.ShapeDtypeStruct((256, 256), jnp.float16)
        >>> comparison = jax_ipu.estimate(jnp.dot, x, x, compare=("ipu2", "bow"))
        >>> list(comparison), comparison["bow"].seconds < comparison["ipu2"].seconds
        (['ipu2', 'bow'], True)
    """

    def __init__(self, estimates: Mapping[str, Estimate]) -> None:
        self.estimates = dict(estimates)

    def __getitem__(self, target: str) -> Estimate:
        return self.estimates[target]

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def as_dict(self) -> dict[str, Any]:
        """The dictionaries of all estimates, by target: what ``json.dumps`` takes.

        Examples:
            >>> import jax.numpy as jnp, jax_ipu
            >>> comparison = jax_ipu.estimate(jnp.sin, jnp.ones(8), compare=("ipu2", "bow"))
            >>> comparison.as_dict()["bow"]["fits"]
            True
        """
        return {target: one.as_dict() for target, one in self.estimates.items()}

    def table(self) -> list[Row]:
        """A header and a row for each estimate.

        "call" is the time on the chip and over the host link together, with new arguments. The last two columns
        compare the time on the chip, and that of a call, with the first estimate that fits.

        Examples:
            >>> import jax.numpy as jnp, jax_ipu
            >>> header, *rows = jax_ipu.estimate(jnp.sin, jnp.ones(8), compare=("ipu2", "bow")).table()
            >>> header[:2], [row[:2] for row in rows]
            (('target', 'fits'), [('ipu2', 'yes'), ('bow', 'yes')])
        """
        columns = ("target", "fits", "cycles", "time", "host link", "call", "peak", "fullest tile")
        rows: list[Row] = [(*columns, "chip speed", "call speed")]
        fitting = [e for e in self.estimates.values() if e.fits]

        def speed(one: Estimate, seconds: Callable[[Estimate], float | None]) -> str:
            first = next((known for e in fitting if (known := seconds(e))), None)
            own = seconds(one)
            return f"{first / own:.2f} x" if one.fits and first and own else ""

        for target, e in self.estimates.items():
            rows.append(
                (
                    target,
                    "yes" if e.fits else "no",
                    "" if e.cycles is None else f"{e.cycles:,}",
                    "" if e.seconds is None else seconds_text(e.seconds),
                    "" if e.host_seconds is None else seconds_text(e.host_seconds),
                    "" if e.call_seconds is None else seconds_text(e.call_seconds),
                    "" if e.utilisation is None else f"{100 * e.utilisation:.2g} %",
                    "" if e.fullest_tile_bytes is None else percent_text(e.fullest_tile_bytes, e.tile_memory_bytes),
                    speed(e, lambda one: one.seconds),
                    speed(e, lambda one: one.call_seconds),
                )
            )
        return rows

    def __repr__(self) -> str:
        return "\n".join(text_table(self.table(), left=(0, 1)))

    def _repr_html_(self) -> str:
        return html_table(self.table(), left=(0, 1))


class LargestBatch(NamedTuple):
    """The largest batch that fits, and its estimate; (0, that of the smallest batch) if none fits.

    Attributes:
        batch: the largest batch, 0 if none fits.
        estimate: the estimate of that batch.

    Examples:
        >>> import jax, jax.numpy as jnp, jax_ipu
        >>> rows = jax.ShapeDtypeStruct((8, 1000), jnp.float32)
        >>> batch, estimate = jax_ipu.largest_batch(jnp.sin, rows, target="ipu2:1", limit=64)
        >>> batch, estimate.fits
        (64, True)
    """

    batch: int
    estimate: Estimate


@overload
def estimate(
    fun: Callable[..., Any],
    *args: Any,
    target: str | None = None,
    num_ipus: int | None = None,
    donate_argnums: int | tuple[int, ...] = (),
    compiler_options: Mapping[str, Any] | None = None,
    compare: None = None,
    **kwargs: Any,
) -> Estimate: ...
@overload
def estimate(
    fun: Callable[..., Any],
    *args: Any,
    target: str | None = None,
    num_ipus: int | None = None,
    donate_argnums: int | tuple[int, ...] = (),
    compiler_options: Mapping[str, Any] | None = None,
    compare: Sequence[str],
    **kwargs: Any,
) -> Comparison: ...
@boundary
def estimate(
    fun: Callable[..., Any],
    *args: Any,
    target: str | None = None,
    num_ipus: int | None = None,
    donate_argnums: int | tuple[int, ...] = (),
    compiler_options: Mapping[str, Any] | None = None,
    compare: Sequence[str] | None = None,
    **kwargs: Any,
) -> Estimate | Comparison:
    """Says whether ``jax.jit(fun)(*args, **kwargs)`` fits on an IPU, and what a call costs. Nothing is run.

    The program is compiled as ``jit`` compiles it, with the same attempts to make it fit, for any chip, whatever this
    process is configured for. It is not loaded, and no device is used.

    Args:
        fun: a function that ``jax.jit`` can trace; or a jitted one, which may have static arguments, shardings and
            options of its own.
        args, kwargs: its arguments, or ``jax.ShapeDtypeStruct`` in their place, with shardings for several IPUs: a mesh
            of devices or a ``jax.sharding.AbstractMesh``, which needs none.
        target: a chip of those that ``jax-ipu info`` lists, "bow", or a chip and its number of tiles, "ipu2:1"; by
            default the one that :data:`jax_ipu.config` names.
        num_ipus: for how many IPUs the program must be, by its shardings; by default for as many as they say.
        donate_argnums: as in ``jax.jit``; ignored when ``fun`` is jitted already.
        compiler_options: as in ``jax.jit``: docs/environment.md has a table.
        compare: several targets, instead of `target`.

    Returns:
        An :class:`Estimate`, also for a program that does not fit; with `compare` a :class:`Comparison`.

    Raises:
        jax_ipu.compiler.CompileError: the function uses something that IPU does not support, or a target or an option
            is not valid.
        ValueError: the program is for another number of IPUs than `num_ipus`; or both `target` and `compare` are given.
        TypeError: as ``jax.jit``, for arguments that it does not take.

    Examples:
        >>> import jax, jax.numpy as jnp, jax_ipu
        >>> x = jax.ShapeDtypeStruct((512, 512), jnp.float16)
        >>> jax_ipu.estimate(jnp.dot, x, x, target="bow").fits
        True
    """
    from jax_ipu.integration.programs import program_of

    if target is not None and compare is not None:
        raise ValueError("give either target, for one estimate, or compare, for several")
    if compare is not None and (isinstance(compare, str) or not compare):
        raise ValueError(f'compare={compare!r}: give several targets, as in compare=("ipu2", "bow")')
    check_keywords(fun, kwargs, estimate)
    program = program_of(fun, args, kwargs, donate_argnums, compiler_options)
    check_num_ipus(program.num_ipus, num_ipus)

    def for_target(chip: str) -> Estimate:
        return _estimate(program.mlir, "mlir", program.options, chip)

    if compare is not None:
        return Comparison({chip: for_target(chip) for chip in compare})
    return for_target(configured_target() if target is None else target)


def check_keywords(fun: Callable[..., Any], kwargs: Mapping[str, Any], own: Callable[..., Any]) -> None:
    """Raises TypeError for a keyword that the function does not take, and that one of `own` was probably meant by."""
    try:
        parameters = inspect.signature(fun).parameters
    except (TypeError, ValueError):
        return  # the signature of the function is not known
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    known = [p.name for p in inspect.signature(own).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name in kwargs:
        if name not in parameters and (meant := nearest(name, known)):
            raise TypeError(
                f"{own.__name__} has no argument {name!r}, nor has {getattr(fun, '__name__', 'the function')}. Did you"
                f" mean {meant}?"
            )


def check_num_ipus(found: int, wanted: int | None) -> None:
    """Raises ValueError if the shardings of a program are over another number of IPUs than the wanted one."""
    if wanted is not None and wanted != found:
        raise ValueError(
            f"the shardings of the program are over {found} IPU{'s' if found > 1 else ''}, not over {wanted}. Give"
            f" arguments with shardings over a mesh of {wanted}, for example"
            f' jax.sharding.AbstractMesh(({wanted},), ("ipus",)), or a jitted function with in_shardings'
        )


def configured_target() -> str:
    """The chip that the configuration names, and its number of tiles unless it is all."""
    return config.model_version + (f":{config.model_num_tiles}" if config.model_num_tiles else "")


@boundary
def largest_batch(
    fun: Callable[..., Any],
    *args: Any,
    batch_axes: Any = 0,
    multiple_of: int = 1,
    limit: int = 1 << 20,
    target: str | None = None,
    num_ipus: int | None = None,
    donate_argnums: int | tuple[int, ...] = (),
    compiler_options: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    **kwargs: Any,
) -> LargestBatch:
    """Finds the largest batch with which ``jax.jit(fun)`` fits on an IPU, by doubling and bisection.

    The arguments have some batch, with which the search starts. Memory does not grow with the batch without exception:
    the result fits, and the next larger multiple does not.

    Args:
        fun, args, kwargs: as in :func:`estimate`. `kwargs` have no batch.
        batch_axes: which axis of each argument is the batch: an axis for all, or a tuple with an axis, a pytree of axes
            or None (without a batch) for each argument, as ``in_axes`` of ``jax.vmap``.
        multiple_of: only batches that are a multiple of this are tried: the number of IPUs, if the batch is sharded.
        limit: the largest batch to try.
        target, num_ipus, donate_argnums, compiler_options: as in :func:`estimate`.
        progress: whether to show what is tried, and the stage of its compilation; by default on terminals after two
            seconds.

    Returns:
        The batch and its estimate; 0 and the estimate of the smallest batch, if not even that fits.

    Raises:
        ValueError: no argument has a batch, arguments have different batches, or a number is not valid.
        jax_ipu.compiler.CompileError, TypeError: as :func:`estimate`.

    Examples:
        >>> import jax, jax.numpy as jnp, jax_ipu
        >>> w, x = jax.ShapeDtypeStruct((64, 64), jnp.float32), jax.ShapeDtypeStruct((16, 64), jnp.float32)
        >>> found = jax_ipu.largest_batch(jnp.dot, x, w, batch_axes=(0, None), target="ipu2:4", multiple_of=64)
        >>> found.batch > 64 and found.estimate.fits
        True
    """
    check_keywords(fun, kwargs, largest_batch)
    sizes = _Batches(args, batch_axes)

    def of_batch(batch: int, advice: Mapping[str, Any]) -> Estimate:
        try:
            found: Estimate = estimate(
                fun,
                *sizes.with_batch(batch),
                target=target,
                num_ipus=num_ipus,
                donate_argnums=donate_argnums,
                compiler_options={**advice, **(compiler_options or {})},
                **kwargs,
            )
        except (TypeError, ValueError) as error:
            if batch != sizes.batch:
                error.add_note(
                    f"This is with a batch of {batch} in place of {sizes.batch}: batch_axes={batch_axes!r} says which"
                    " axis of each argument is the batch; None for an argument without one"
                )
            raise
        return found

    found = search_batch(lambda batch: of_batch(batch, WITHOUT_ADVICE), sizes.batch, multiple_of, limit, progress)
    return found if found.batch else LargestBatch(0, of_batch(multiple_of, {}))


def search_batch(
    attempt: Callable[[int], Estimate], start: int, multiple_of: int, limit: int, progress: bool | None
) -> LargestBatch:
    """Finds the largest batch whose estimate fits: doubles or halves `start`, then bisects.

    Arguments and errors as for :func:`largest_batch`; `attempt` returns the estimate for a batch.
    """
    for name, value in (("limit", limit), ("multiple_of", multiple_of)):
        if not hasattr(value, "__index__"):
            raise TypeError(f"{name}={value!r} is no whole number")
    if multiple_of < 1 or limit < multiple_of:
        raise ValueError(f"limit={limit} and multiple_of={multiple_of} are not valid: 1 <= multiple_of <= limit")
    most = limit // multiple_of
    low, high = 0, most + 1  # low fits, high does not; in multiples
    guess = min(max(1, start // multiple_of), most)
    with closing(Status(shown=progress)) as status:
        while True:
            with part_of(status, f"largest batch, trying {guess * multiple_of:,}"):
                found = attempt(guess * multiple_of)
            if found.fits:
                low, best = guess, found
            else:
                high, smallest = guess, found
            if high - low == 1:
                nearest: Estimate = best if low else smallest
                return LargestBatch(low * multiple_of, nearest)
            if high > most:
                guess = min(2 * low, most)
            else:
                guess = (low + high) // 2  # halves while nothing fits


class _Batches:
    """The arguments with other batches: leaves with a batch become shapes."""

    def __init__(self, args: tuple[Any, ...], batch_axes: Any) -> None:
        import jax

        axes = batch_axes if isinstance(batch_axes, (tuple, list)) else (batch_axes,) * len(args)
        if len(axes) != len(args):
            raise ValueError(f"batch_axes has {len(axes)} entries for {len(args)} arguments; give one for each")
        self._leaves: list[tuple[Any, int | None]] = []
        self._trees = []
        sizes: dict[int, str] = {}
        for number, (arg, axis) in enumerate(zip(args, axes, strict=True)):
            # An argument without a batch stays as it is: it may be static, and no pytree.
            tree = None if axis is None else jax.tree.structure(arg)
            leaves = [arg] if tree is None else jax.tree.leaves(arg)
            of_leaves = _prefix_axes(axis, arg, number) if tree is not None else [None]
            self._trees.append((tree, len(leaves)))
            for leaf, one in zip(leaves, of_leaves, strict=True):
                if one is not None:
                    shape = getattr(leaf, "shape", ())
                    if not -len(shape) <= one < len(shape):
                        raise ValueError(
                            f"argument {number} has a value of shape {tuple(shape)} and so no axis {one}; give"
                            " batch_axes, with None for arguments without a batch"
                        )
                    sizes.setdefault(shape[one], f"{shape[one]} (argument {number})")
                self._leaves.append((leaf, one))
        if len(sizes) != 1:
            what = f"different batches: {', '.join(sizes.values())}" if sizes else "no batch"
            raise ValueError(
                f"the arguments have {what}. Give batch_axes, with None for arguments without a batch, for example"
                " batch_axes=(None, 0)"
            )
        (self.batch,) = sizes

    def with_batch(self, batch: int) -> list[Any]:
        import jax

        resized = iter([leaf if axis is None else _resized(leaf, axis, batch) for leaf, axis in self._leaves])
        return [
            next(resized) if tree is None else jax.tree.unflatten(tree, [next(resized) for _ in range(count)])
            for tree, count in self._trees
        ]


def _prefix_axes(axis: Any, arg: Any, number: int) -> list[int | None]:
    """The axis of each leaf of an argument; `axis` is a prefix of its pytree."""
    import jax

    def is_leaf(value: Any) -> bool:
        return value is None

    axes: list[int | None] = []

    def extend(one: int | None, subtree: Any) -> None:
        axes.extend([one] * len(jax.tree.leaves(subtree)))

    try:
        jax.tree.map(extend, axis, arg, is_leaf=is_leaf)
    except ValueError as error:
        raise ValueError(f"batch_axes of argument {number} is no prefix of its pytree: {error}") from None
    return axes


def _resized(leaf: Any, axis: int, batch: int) -> Any:
    import jax

    struct: Any = jax.ShapeDtypeStruct
    shape = list(leaf.shape)
    shape[axis] = batch
    if isinstance(leaf, struct):
        return leaf.update(shape=tuple(shape))
    # An array that is not committed to its device says nothing of where the program runs.
    sharding = leaf.sharding if getattr(leaf, "committed", False) else None
    return struct(tuple(shape), leaf.dtype, sharding=sharding)
