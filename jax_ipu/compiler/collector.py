"""Python's garbage collector, paused while a program is compiled."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pausing: set[object] = set()  # one entry for each pause that is in force, of any thread
_before = gc.get_threshold()
# The first threshold of a paused collector: it stays apart from `gc.disable`, which is the user's.
_NEVER = 0


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pauses automatic collections, until the last pause of all threads has ended.

    The compiler makes many small objects that live until it ends: each collection would visit them all and free none.
    The pause changes no `gc.disable` or `gc.enable` of the user, and does not undo thresholds that were set meanwhile.
    """
    pause = object()
    try:
        _begin(pause)
        yield
    finally:
        _end(pause)


def _begin(pause: object) -> None:
    global _before
    with _lock:
        if not _pausing:
            _before = gc.get_threshold()
            gc.set_threshold(_NEVER, *_before[1:])
        _pausing.add(pause)


def _end(pause: object) -> None:
    with _lock:
        _pausing.discard(pause)
        if not _pausing and gc.get_threshold() == (_NEVER, *_before[1:]):
            gc.set_threshold(*_before)
