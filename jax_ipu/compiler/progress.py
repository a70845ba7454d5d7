"""Progress of long tasks: a status line or a progress bar on a terminal after a few seconds, and cancellation.

There is none where stderr is no terminal: in logs, pipes and notebooks. With tqdm installed there is a bar where the
number of steps is known, without it a line of text.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Protocol, TextIO

from jax_ipu import _ipu
from jax_ipu.compiler.errors import CANCELLED, CompileError

# Shorter tasks show nothing.
_PATIENCE_SECONDS = 2.0
_INTERVAL_SECONDS = 0.2
_CLEAR = "\r\x1b[K"
# The clock of what is shown. Not time.monotonic, which JAX's tests replace by a few numbers.
_clock = time.perf_counter

_lock = threading.Lock()
_running: set[Progress] = set()


def cancel_all() -> None:
    """Cancels all compilations of the process: each raises CompileError (CANCELLED) when it next reports progress."""
    with _lock:
        for progress in _running:
            progress.cancelled = True


class _Display(Protocol):
    def show(self, text: str, done: int, total: int) -> None: ...
    def close(self) -> None: ...


class _Line:
    """A line of text that replaces itself."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, text: str, done: int, total: int) -> None:
        self._stream.write(f"{_CLEAR}{text}{f' {done} of {total}' if total else ''}")
        self._stream.flush()

    def close(self) -> None:
        self._stream.write(_CLEAR)
        self._stream.flush()


class _Bar:
    """A bar of tqdm."""

    def __init__(self, stream: TextIO, since: float, text: str) -> None:
        """Raises ImportError without tqdm."""
        from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]

        class Bar(tqdm):  # type: ignore[misc, unused-ignore]
            """Without tqdm's thread, and without its lock between processes."""

            monitor_interval = 0

        Bar.set_lock(threading.RLock())
        width = {"dynamic_ncols": True} if _columns(stream) else {"ncols": 80}
        self._bar: Any = Bar(file=stream, desc=text, leave=False, bar_format="{desc} [{elapsed}]", **width)
        self._bar.start_t -= _clock() - since

    def show(self, text: str, done: int, total: int) -> None:
        steps = " {n_fmt}/{total_fmt} |{bar}|" if total else ""
        self._bar.bar_format = f"{{desc}}{steps} [{{elapsed}}]"
        self._bar.total, self._bar.n = total or None, done
        self._bar.set_description_str(text)

    def close(self) -> None:
        self._bar.close()


def _columns(stream: TextIO) -> int:
    """The width of a terminal; 0 where it is not known."""
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 0


class Status:
    """What a task does, on a terminal, once it has taken two seconds. It has no thread: `show` changes it."""

    def __init__(self, stream: TextIO | None = None, shown: bool | None = None) -> None:
        """`stream`: by default stderr; `shown`: True, at once, also where that is no terminal; False, never."""
        self._stream = sys.stderr if stream is None else stream
        self._begin = _clock()
        terminal = self._stream is not None and self._stream.isatty()
        self._next = self._begin if shown else self._begin + _PATIENCE_SECONDS
        self._wanted = terminal if shown is None else shown
        self._display: _Display | None = None

    def show(self, text: str, done: int = 0, total: int = 0) -> None:
        """Shows a text, and that `done` of `total` steps are done; without steps, `total` is 0."""
        if not self._wanted or (now := _clock()) < self._next:
            return
        self._next = now + _INTERVAL_SECONDS
        if self._display is None:
            try:
                self._display = _Bar(self._stream, self._begin, text)
            except ImportError:
                self._display = _Line(self._stream)
        self._display.show(text, done, total)

    def close(self) -> None:
        """Clears what is shown."""
        if self._display is not None:
            self._display.close()
            self._display = None


# The task that compiles several programs: its status, and what it does.
_task: ContextVar[tuple[Status, str] | None] = ContextVar("jax_ipu_task", default=None)


@contextmanager
def part_of(status: Status, text: str) -> Iterator[None]:
    """Compilations inside of the `with` block show in the status of their task, after its text."""
    token = _task.set((status, text))
    try:
        status.show(text)
        yield
    finally:
        _task.reset(token)


class Progress:
    """The status of one compilation: `with Progress(name) as progress:` clears it at the end.

    Every method raises CompileError (CANCELLED) after `cancel_all`. Stages are lines of Poplar's log at level DEBUG.
    """

    def __init__(self, name: str, stream: TextIO | None = None) -> None:
        """`name`: the name of the program; `stream`: where the status appears, by default stderr."""
        self.cancelled = False
        self._name = name
        self._status = Status(stream)
        self._attempt = ""
        self._stage = ""
        self._stages: list[tuple[str, float]] = []

    def __enter__(self) -> Progress:
        with _lock:
            _running.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with _lock:
            _running.discard(self)
        self._status.close()

    def attempt(self, number: int, what: str) -> None:
        """Attempt `number` begins; `what` says how it compiles."""
        self._attempt = f" (attempt {number}: {what})"

    def made_to_fit(self, savings: str) -> None:
        """The program fits with what `savings` says: a line of the log."""
        _ipu.log_stage(f"{self._name}: made to fit with {savings}")

    def stage(self, stage: str) -> None:
        """A stage begins."""
        self._stage = stage
        self._stages.append((stage, time.perf_counter()))
        _ipu.log_stage(f"{self._name}: {stage}{self._attempt}")
        self._show(0, 0)

    def phases(self) -> dict[str, float]:
        """The seconds of each stage until now, those of all attempts together, in the order in which they began."""
        seconds: dict[str, float] = {}
        ends = [start for _, start in self._stages[1:]] + [time.perf_counter()]
        for (stage, start), end in zip(self._stages, ends, strict=True):
            seconds[stage] = seconds.get(stage, 0.0) + end - start
        return seconds

    def step(self, done: int, total: int) -> None:
        """`done` of `total` steps of the stage are done."""
        self._show(done, total)

    def _show(self, done: int, total: int) -> None:
        if self.cancelled:
            raise CompileError(f"the compilation of {self._name} was interrupted", CANCELLED)
        text = f"{self._name} for ipu: {self._stage}{self._attempt}"
        if (task := _task.get()) is not None:
            status, before = task
            status.show(f"{before}: {text}", done, total)
        else:
            self._status.show(f"compiling {text}", done, total)


class Trial(Progress):
    """The progress of a trial compilation inside of another one, whose status shows it and which ends it, too."""

    def __init__(self, whole: Progress, what: str, deadline: float) -> None:
        """`deadline`: when the trial raises _ipu.OutOfTime, by time.perf_counter()."""
        super().__init__(whole._name)
        self._whole = whole
        self._deadline = deadline
        whole.stage(f"trying what helps ({what})")

    def check(self) -> None:
        """Raises _ipu.OutOfTime after the deadline, and CompileError (CANCELLED) if the compilation was ended."""
        self._show(0, 0)

    def _show(self, done: int, total: int) -> None:
        self._whole._show(done, total)
        if time.perf_counter() > self._deadline:
            raise _ipu.OutOfTime
