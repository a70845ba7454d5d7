"""``jax.transfer_guard_device_to_host`` for results that are already on the host.

Results are streamed to the host when they are computed, and jaxlib reads them there without a transfer that it could
guard. So the plugin is told when the guard is active, and then makes jaxlib request a copy.
Tested with jax 0.10.2 and 0.12.0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax_ipu import _ipu


def enable() -> None:
    """Wraps the functions that JAX calls when the option changes, for the process and for a thread."""
    from jax._src import config

    state: Any = config.transfer_guard_device_to_host
    if getattr(state._update_global_hook, "__module__", None) == __name__:
        return
    state._update_global_hook = _after(state._update_global_hook, _guard_process)
    state._update_thread_local_hook = _after(state._update_thread_local_hook, _guard_thread)
    _guard_process(state.get_global())
    local = state.get_local()
    _guard_thread(local if isinstance(local, str) else None)


def _guard_process(level: str | None) -> None:
    _ipu.guard_reads(level not in (None, "allow"))


def _guard_thread(level: str | None) -> None:
    _ipu.guard_reads_of_thread(None if level is None else level != "allow")


def _after(original: Callable[[str | None], None], then: Callable[[str | None], None]) -> Callable[[str | None], None]:
    def update(level: str | None) -> None:
        original(level)
        then(level)

    return update
