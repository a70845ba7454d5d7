"""Compilations that run: one status line on a terminal where they take long, and how they are ended early.

Logs, pipes and notebooks get no status line.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TextIO

from jax_ipu.compiler.errors import CANCELLED, CompileError

# Shorter compilations show nothing.
_PATIENCE_SECONDS = 2.0
_INTERVAL_SECONDS = 0.2
_CLEAR = "\r\x1b[K"

_lock = threading.Lock()
_running: set[Progress] = set()


def cancel_all() -> None:
    """Ends all compilations of the process, each where it next says how far it is, with an error of code CANCELLED."""
    with _lock:
        for progress in _running:
            progress.cancelled = True


class Progress:
    """`with Progress(name) as progress:` clears the line at the end, however the compilation ends.

    It has no thread: the line appears and changes when the compiler says where it is. Every method raises CompileError
    (CANCELLED) after `cancel_all`.
    """

    def __init__(self, name: str, stream: TextIO | None = None) -> None:
        """`name`: of the program; `stream`: stderr by default."""
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
        """A further attempt begins, with another way to compile."""
        self._attempt = f" (attempt {number}: {what})"

    def stage(self, stage: str) -> None:
        self._stage = stage
        self._show(stage)

    def step(self, done: int, total: int) -> None:
        """Of the stage."""
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
