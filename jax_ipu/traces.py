"""Traces of what the IPUs do, in modelled time, as files for Perfetto, Chrome and XProf."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from jax_ipu.files import explained
from jax_ipu.integration.tracebacks import unseen

__all__ = ["trace"]

_XSPACE = ".xplane.pb"
_JSON = (".json", ".json.gz")


@unseen
def trace(path: str | os.PathLike[str]) -> AbstractContextManager[None]:
    """Records what all IPUs of this process do inside a ``with`` block, and writes it to a file at its end.

    For each IPU there are lines of programs, operations, phases (sync, exchange, compute), transfers over the host
    link, communication over the IPU-Links, and loops. Times are those of the IPU model: docs/profiling.md explains
    them. The file is written even if the block raises. `jax.profiler.trace` records the same together with the host.

    Args:
        path: where to write: a name that ends with ".json" or ".json.gz" for ui.perfetto.dev and chrome://tracing; with
            ".xplane.pb" for XProf and `jax.profiler.ProfileData`, without the host.

    Raises:
        ValueError: the name ends with something else.
        OSError: the file cannot be written.

    Example:
        >>> import jax, jax.numpy as jnp, jax_ipu, tempfile
        >>> f = jax.jit(jnp.dot, backend="ipu")
        >>> with tempfile.TemporaryDirectory() as folder, jax_ipu.trace(f"{folder}/trace.json.gz"):
        ...     y = f(jnp.ones((8, 8)), jnp.ones((8, 8)))
    """
    name = os.fspath(path)
    if not name.endswith((*_JSON, _XSPACE)):
        raise ValueError(f"the name of a trace ends with {', '.join(_JSON)} or {_XSPACE}; {name!r} does not")
    return _recorded(name)


@contextmanager
def _recorded(name: str) -> Iterator[None]:
    from jax_ipu import _ipu

    with explained("the trace cannot be written", "give another path"), open(name, "wb"):
        pass  # what cannot be written is an error before the block runs
    recording = _ipu.Trace()
    try:
        yield
    finally:
        _ipu.finish_work()  # runs that the block started and did not wait for
        recording.stop()
        data = recording.xspace() if name.endswith(_XSPACE) else recording.chrome_trace()
        with gzip.open(name, "wb") if name.endswith(".gz") else open(name, "wb") as file:
            file.write(data)
