"""The last part of the message for a program that does not fit: changes that were compiled and fit.

Each change alone: all tiles, half precision, activations computed again, another batch, several IPUs; their pairs where
none of them is enough. What there was no time for, and what no compiler can try, is said to be untried, with a way to
try it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import log2
from typing import NamedTuple

from jax_ipu import _ipu
from jax_ipu.compiler import pipeline
from jax_ipu.compiler.cuts import Cuttable
from jax_ipu.compiler.frontend.programs import LegalProgram, ParsedProgram
from jax_ipu.compiler.ir import ARGUMENT_NAME, Module, Value
from jax_ipu.compiler.location import file_of, operation_path
from jax_ipu.compiler.options import Options
from jax_ipu.compiler.out_of_memory import NoFit, lacks_code
from jax_ipu.compiler.pipeline import Change
from jax_ipu.compiler.progress import Progress
from jax_ipu.compiler.shardings import replicated_arguments
from jax_ipu.compiler.trials import Outcome, Trials
from jax_ipu.compiler.variants.batch import find_batch
from jax_ipu.compiler.variants.checkpoint import Checkpoints, NoParts, checkpointed, find_checkpoints
from jax_ipu.compiler.variants.half_precision import halve, has_wide

_MOST_IPUS = 64
_IPU_TRIALS = 3  # numbers of IPUs, each twice the one before
_STEPS = 8  # a batch is found to an eighth of the power of two below it
_WORTH = 0.1  # computing activations again is not mentioned where they are a smaller part of the need
_HALF = "half precision"
_LESS_CODE = (
    "a loop (jax.lax.scan or jax.lax.fori_loop) over layers or steps that are alike, instead of one copy of their code"
    " for each",
    "several functions under jax.jit, called one after the other: each has the code memory for itself",
)
_FIT = "the default of ipu_fit instead of off: values in parts, repeated blocks as functions, smaller buffers"
_LAST_RESORT = "smaller arrays, or computing in parts (jax.lax.map, jax.lax.scan)"


def advice(
    parsed: ParsedProgram,
    legal: LegalProgram,
    settings: Options,
    target: _ipu.Target,
    failure: NoFit,
    progress: Progress,
) -> str:
    """The text, to be added to the message of `failure`.

    Args:
        parsed, legal: the program; both stay as they are.
        settings: `advice_seconds` bounds the time of all trials.
        target: the IPU.
        failure: of the program.
        progress: of its compilation.

    Raises:
        CompileError: the compilation was cancelled (CANCELLED).
    """
    if isinstance(failure.error, _ipu.OutOfMemory) and lacks_code(failure.error, target):
        return Findings(untried=[*_fitting(settings), *_LESS_CODE]).text()
    module = pipeline.without_calls(legal)
    try:
        trials = Trials(parsed, legal, settings, target, progress)
        findings = _Adviser(module, trials, target, failure).findings()
        findings.untried[:0] = _fitting(settings)
        return findings.text()
    finally:
        module.release()


@dataclass
class Findings:
    """The lines of the advice: what fits, what does not, and what was not tried."""

    helps: list[str] = field(default_factory=list)
    too_large: list[str] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)

    def text(self) -> str:
        """The advice as a part of the message."""
        tried = "; ".join(self.too_large)
        if self.helps:
            text = "\nWhat helps: each of these was compiled, and fits:" + _listed(self.helps)
            text += f"\nDoes not help alone: {tried}." if tried else ""
        else:
            text = f"\nWhat helps: nothing that was tried ({tried})." if tried else "\nWhat helps: nothing was tried."
        return text + ("\nNot tried:" + _listed(self.untried) if self.untried else "")


def _fitting(settings: Options) -> list[str]:
    return [_FIT] if settings.fit == "off" else []


def _listed(lines: list[str]) -> str:
    return ";".join(f"\n  * {line}" for line in lines) + "."


def _type_name(value: Value, half: bool) -> str:
    """The type of an argument; `half`: float16 in place of float32."""
    return "f16" if half and value.dtype == "f32" else value.dtype


def _checkpoint_text(found: Checkpoints) -> str:
    return f"jax.checkpoint around {found.text()}: the backward pass computes activations again"


class Largest(NamedTuple):
    """The largest number of rows that fits, as far as that was tried; `outcome`: whether any fits."""

    outcome: Outcome
    rows: int = 0
    complete: bool = True


def largest(size: int, attempt: Callable[[int], Outcome]) -> Largest:
    """The largest number of rows below `size` that fits, to an eighth of the power of two below it."""
    first = attempt(1)
    if first != Outcome.FITS:
        return Largest(first)
    low, high = 1, size  # low fits, high does not
    while high - low > (grain := max(1, (1 << low.bit_length() - 1) // _STEPS)):
        if high > 2 * low:
            guess = min(high - 1, 1 << round((log2(low) + log2(high)) / 2))
            guess = guess if guess > low else 2 * low
        else:
            guess = (low + high) // 2 // grain * grain
        guess = max(guess, low + 1)
        outcome = attempt(guess)
        if outcome == Outcome.UNKNOWN:
            return Largest(first, low, False)
        low, high = (guess, high) if outcome == Outcome.FITS else (low, guess)
    return Largest(first, low)


class _Adviser:
    """Tries what may help, the cheapest first."""

    def __init__(self, module: Module, trials: Trials, target: _ipu.Target, failure: NoFit) -> None:
        self._module, self._trials, self._target, self._need = module, trials, target, failure.need
        main = module.main
        self._batch = find_batch(module)
        self._num_ipus = module.num_replicas * module.num_partitions
        names = [attrs.get(ARGUMENT_NAME) or f"argument {i}" for i, attrs in enumerate(main.arg_attrs)]
        used = [a.index for a in failure.signature.arguments if a.used and not a.in_host_memory]
        if self._num_ipus > 1:  # what is cut already stays so
            whole = replicated_arguments(module)
            used = [i for i in used if whole[i]]
        batch = self._batch if self._num_ipus == 1 else None
        self._cuttable = Cuttable({i: main.block.args[i] for i in used}, names, batch)
        self._names = Cuttable({}, names, self._batch)
        self._found = Findings()
        self._checkpoint: tuple[Change, str] | None = None  # that is not enough alone

    def findings(self) -> Findings:
        """What helps, what does not, and what was not tried."""
        found = self._found
        self._all_tiles()
        of_tiles = len(found.helps)  # who compiles for few tiles wants to know what else helps
        self._half()
        self._again()
        self._smaller_batch()
        parts = self._more_ipus()
        if len(found.helps) == of_tiles:
            self._pairs(parts)
        if not found.helps and (self._batch is None or not found.untried):
            found.untried.append(_LAST_RESORT)
        return found

    def _note(self, outcome: Outcome, text: str, too_large: str, command: str) -> None:
        """Adds the line for a way that was tried, or was to be."""
        if outcome == Outcome.FITS:
            self._found.helps.append(text)
        elif outcome == Outcome.TOO_LARGE:
            self._found.too_large.append(too_large)
        else:
            self._found.untried.append(command)

    def _all_tiles(self) -> None:
        whole = _ipu.Target(self._target.version).num_tiles
        if whole > self._target.num_tiles:
            outcome = self._trials.compile("all tiles", num_tiles=whole)
            text = f"all {whole} tiles of the IPU instead of {self._target.num_tiles}"
            command = f"{text}: {self._estimate(tiles=whole)}"
            self._note(outcome, text, f"all {whole} tiles", command)

    def _half(self) -> None:
        if has_wide(self._module):
            outcome = self._trials.compile(_HALF, halve)
            text = f"{_HALF}: float16 arrays in place of float32"
            with_types = "" if self._is_flat() else ", with arguments of that type"
            self._note(outcome, text, _HALF, f"{text}: {self._estimate(half=True)}{with_types}")

    def _again(self) -> None:
        if not self._keeps_activations():
            return
        layers = "jax.checkpoint around each layer, which computes activations again in the backward pass"
        command = f"{layers}: then {self._estimate()}"
        try:
            choices = find_checkpoints(self._module, self._batch)
        except NoParts:
            self._found.untried.append(command)
            return
        for choice, checkpoints in enumerate(choices):
            again, text = checkpointed(self._batch, choice), _checkpoint_text(checkpoints)
            outcome = self._trials.compile("activations computed again", again)
            if outcome != Outcome.TOO_LARGE:
                break
            self._checkpoint = again, text  # perhaps with another change
        self._note(outcome, text, "jax.checkpoint", command)

    def _smaller_batch(self) -> None:
        batch = self._batch
        if batch is None or batch.size < 2:
            return
        found = largest(batch.size, lambda rows: self._trials.compile(f"a batch of {rows}", batch.resized(rows)))
        command = f"a smaller batch ({self._names.batch_names()}): {self._largest_batch()}"
        self._note(found.outcome, self._batch_text(found), f"a batch of 1 instead of {batch.size}", command)

    def _batch_text(self, found: Largest, parts: int = 1) -> str:
        assert self._batch is not None
        each = " on each IPU" if self._num_ipus > 1 else ""
        more = "" if found.complete else "; more rows were not tried"
        names = self._names.batch_names()
        return f"a batch of {found.rows * parts} instead of {self._batch.size}{each} ({names}{more})"

    def _more_ipus(self) -> int:
        """Tries several IPUs; returns the most that were tried."""
        tried, outcome = [], Outcome.UNKNOWN
        counts = list(self._counts())
        for parts in counts:
            if (outcome := self._on_ipus(parts)) == Outcome.UNKNOWN:
                break
            tried.append(parts)
            if outcome == Outcome.FITS:
                break
        if self._num_ipus > 1:
            large = self._cuttable.large_text(self._num_ipus)
            if large:
                text = f"cutting over the {self._num_ipus} IPUs what each of them holds whole: {large}"
                self._note(outcome, text, "cutting more arguments", f"{text}: {self._estimate_sharded()}")
            else:
                more = f"more than the {self._num_ipus} IPUs that it is for"
                self._found.untried.append(f"{more}: {self._estimate_sharded()}")
        elif counts:
            shown = " or ".join(", ".join(map(str, tried)).rsplit(", ", 1))
            command = f"several IPUs: {self._estimate_sharded()}"
            if outcome == Outcome.UNKNOWN and tried:
                outcome = Outcome.TOO_LARGE
            self._note(outcome, self._cuttable.text((tried or counts)[-1]), f"{shown} IPUs", command)
        return tried[-1] if tried else 0

    def _counts(self) -> Iterator[int]:
        """The numbers of IPUs to try: at least so many as the need of one is larger than its memory."""
        if self._num_ipus > 1:
            if self._cuttable.cuts(self._num_ipus):
                yield self._num_ipus
            return
        parts = 2
        while parts * self._need.limit < self._need.total:
            parts *= 2
        for _ in range(_IPU_TRIALS):
            if parts <= _MOST_IPUS and self._cuttable.cuts(parts):
                yield parts
            parts *= 2

    def _on_ipus(self, parts: int, *changes: Change) -> Outcome:
        cuttable = self._cuttable
        what = f"{parts} IPUs{' and another change' if changes else ''}"
        return self._trials.compile_sharded(what, parts, cuttable.cuts(parts), cuttable.shapes(), *changes)

    def _pairs(self, parts: int) -> None:
        """Tries two changes together, of those of which each alone is not enough."""
        batch, wide = self._batch, has_wide(self._module)
        ended: list[Outcome] = []

        def note(outcome: Outcome, line: str) -> None:
            ended.append(outcome)
            if outcome == Outcome.FITS:
                self._found.helps.append(line)

        if batch is not None and batch.size > 1 and wide:
            resized = batch.resized
            found = largest(
                batch.size, lambda rows: self._trials.compile(f"{_HALF}, a batch of {rows}", halve, resized(rows))
            )
            note(found.outcome, f"{_HALF} and {self._batch_text(found)}")
        again, checkpoint = self._checkpoint or (None, "")
        if again and wide:
            outcome = self._trials.compile(f"{_HALF}, activations computed again", again, halve)
            note(outcome, f"{_HALF} and {checkpoint}")
        if self._num_ipus == 1 and parts > 1:
            text = self._cuttable.text(parts)
            if wide:
                note(self._on_ipus(parts, halve), f"{_HALF} and {text}")
            if again:
                note(self._on_ipus(parts, again), f"{checkpoint} and {text}")
            if Outcome.FITS not in ended and batch is not None and batch.size % parts == 0 and batch.size > parts:
                local = batch.of_size(batch.size // parts)
                found = largest(local.size, lambda rows: self._on_ipus(parts, local.resized(rows)))
                note(found.outcome, f"{self._batch_text(found, parts)} and {text}")
        if Outcome.FITS not in ended and Outcome.UNKNOWN in ended:
            of_rows = batch is not None and batch.size > 1 and wide
            command = self._largest_batch(half=True) if of_rows else self._estimate_sharded()
            what = f"two of these together, such as {_HALF} and a smaller batch" if of_rows else "two of these together"
            self._found.untried.append(f"{what}: {command}")

    def _keeps_activations(self) -> bool:
        """Whether the program is a gradient that recomputes nothing, and has more in memory than state."""
        paths = [operation_path(op.location) for op in self._module.main.block.walk()]
        if any("checkpoint" in path or "rematted" in path for path in paths):
            return False
        kept = sum(t.bytes_on_tile for t in self._need.tensors if not t.lasting)
        return any("transpose(" in path for path in paths) and kept > _WORTH * self._need.total

    # What the user can call to try it.

    def _function(self) -> str:
        """As the command line takes it; with the user's file where the function is at the top of one."""
        name = self._module.name.removeprefix("jit_")
        if name.startswith("_") or not name.isidentifier():
            return "FILE.py:FUNCTION"
        paths = (file_of(name, op.location) for op in self._module.main.block.walk())
        return f"{shlex.quote(next(filter(None, paths), 'FILE.py'))}:{name}"

    def _estimate(self, half: bool = False, tiles: int | None = None) -> str:
        """The command; `half`: with arguments of float16 in place of float32; `tiles`: for so many tiles."""
        types = [
            f" --arg '{_type_name(value, half)}[{','.join(map(str, value.shape))}]'"
            for value in self._module.main.block.args
        ]
        arguments = "".join(types) if self._is_flat() else ""
        return f"jax-ipu estimate {self._function()}{arguments} --target {self._chip(tiles)}"

    def _estimate_sharded(self) -> str:
        """The command for arguments that are sharded, which only a function can give it."""
        command = f"jax-ipu estimate {self._function()} --args-from SHARDED --target {self._chip()}"
        return f"{command}, where SHARDED() returns the arguments sharded over a jax.sharding.AbstractMesh"

    def _chip(self, tiles: int | None = None) -> str:
        """The target, or one with so many tiles."""
        version, number = self._target.version, tiles or self._target.num_tiles
        return version if number == _ipu.Target(version).num_tiles else f"{version}:{number}"

    def _is_flat(self) -> bool:
        """Whether the arguments are few and no pytrees, so that a command can name their types."""
        names = self._names.names
        return len(names) <= 4 and not any("[" in name or "." in name for name in names)

    def _largest_batch(self, half: bool = False) -> str:
        """The command, with the types of the arguments where these are few and no pytrees; `half` as above."""
        assert self._batch is not None
        args = self._module.main.block.args
        if not self._is_flat():
            return f"jax-ipu largest-batch {self._function()} --args-from FUNCTION --target {self._chip()}"
        types = []
        for i, value in enumerate(args):
            dims = ["b" if self._batch.axes.get(i) == d else str(n) for d, n in enumerate(value.shape)]
            types.append(f" --arg '{_type_name(value, half)}[{','.join(dims)}]'")
        return f"jax-ipu largest-batch {self._function()}{''.join(types)} --target {self._chip()}"
