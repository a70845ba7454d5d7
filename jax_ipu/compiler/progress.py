"""Progress of running compilations: a status line on a terminal after a few seconds, and cancellation.

There is no status line where stderr is no terminal: in logs, pipes and notebooks.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TextIO

from jax_ipu.compiler.errors import CANCELLED, CompileError

# Shorter compilations show no line.
_PATIENCE_SECONDS = 2.0
_INTERVAL_SECONDS = 0.2
_CLEAR = "\r\x1b[K"

_lock = threading.Lock()
_running: set[Progress] = set()


def cancel_all() -> None:
    """Cancels all compilations of the process: each raises CompileError (CANCELLED) when it next reports progress."""
    with _lock:
        for progress in _running:
            progress.cancelled = True


class Progress:
    """The status line of one compilation: `with Progress(name) as progress:` clears it at the end.

    It has no thread: the line changes when the compiler reports progress. Every method raises CompileError (CANCELLED)
    after `cancel_all`.
    """

    def __init__(self, name: str, stream: TextIO | None = None) -> None:
        """`name`: the name of the program; `stream`: where the line appears, by default stderr."""
        self.cancelled = False
        self._name = name
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream is not None and self._stream.isatty()
        self._next = time.monotonic() + _PATIENCE_SECONDS
        self._shown = False
        self._attempt = ""
        self._stage = ""

    def __enter__(self) -> Progress:
        with _lock:
            _running.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with _lock:
            _running.discard(self)
        if self._shown:
            self._stream.write(_CLEAR)
            self._stream.flush()

    def attempt(self, number: int, what: str) -> None:
        """Attempt `number` begins; `what` says how it compiles."""
        self._attempt = f" (attempt {number}: {what})"

    def stage(self, stage: str) -> None:
        """A stage begins."""
        self._stage = stage
        self._show(stage)

    def step(self, done: int, total: int) -> None:
        """`done` of `total` steps of the stage are done."""
        self._show(f"{self._stage} {done} of {total}")

    def _show(self, text: str) -> None:
        if self.cancelled:
            raise CompileError(f"the compilation of {self._name} was interrupted", CANCELLED)
        if not self._terminal or (now := time.monotonic()) < self._next:
            return
        self._next = now + _INTERVAL_SECONDS
        self._shown = True
        self._stream.write(f"{_CLEAR}compiling {self._name} for ipu: {text}{self._attempt}")
        self._stream.flush()
