"""Ctrl-C: ends the compilations and runs of the interrupted thread; without this they would go on.

jaxlib raises KeyboardInterrupt from its wait and leaves the work to its own threads. Tested with jax 0.10.2 and 0.12.0.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from jax_ipu.integration.tracebacks import leave_out, unseen

PLATFORM = "ipu"


def enable() -> None:
    """Cancels compilations and runs on the platform when Ctrl-C interrupts the wait; other platforms are untouched."""
    _cancel_compilations()
    _cancel_runs()


def _cancel_compilations() -> None:
    """Cancels a compilation on ``ipu`` whose caller was interrupted."""
    from jax._src import compiler

    from jax_ipu.compiler import progress

    original: Any = compiler.backend_compile_and_load
    lock = threading.Lock()
    callers = 0

    @unseen
    def compile_until_interrupted(backend: Any, *args: Any, **options: Any) -> Any:
        nonlocal callers
        if backend.platform != PLATFORM:
            return original(backend, *args, **options)
        with lock:
            callers += 1
        try:
            return original(backend, *args, **options)
        except KeyboardInterrupt:
            with lock:
                alone = callers == 1
            if alone:  # with several, it is not known which one belongs to this caller
                progress.cancel_all()
            raise
        finally:
            with lock:
                callers -= 1

    replacement: Any = compile_until_interrupted
    compiler.backend_compile_and_load = replacement


def _cancel_runs() -> None:
    """Wraps the functions of jaxlib that wait for arrays: block_until_ready, and the copy that np.asarray makes."""
    from jax._src import array
    from jax._src.lib import xla_client  # type: ignore[attr-defined]

    owner: Any = array.ArrayImpl
    block_until_ready = owner.block_until_ready = _cancelling(owner.block_until_ready)
    copy_out: Any = owner._single_device_array_to_np_array_did_copy
    if hasattr(owner, "_to_np_array_did_copy"):  # jax 0.12's np.asarray; its wait raises KeyboardInterrupt itself
        owner._to_np_array_did_copy = _cancelling(owner._to_np_array_did_copy)
    batched: Any = _cancelling(xla_client.batched_block_until_ready)
    xla_client.batched_block_until_ready = batched

    def copy_when_ready(self: Any) -> Any:
        # jaxlib's wait for a copy ignores signals, its wait for an array does not. The copy is queued first.
        try:
            if not self.is_ready() and any(device.platform == PLATFORM for device in self.devices()):
                self._copy_single_device_array_to_host_async()
                block_until_ready(self)
            return copy_out(self)
        except Exception as error:
            leave_out(error)
            raise

    owner._single_device_array_to_np_array_did_copy = copy_when_ready


def _cancelling(wait: Callable[..., Any]) -> Callable[..., Any]:
    import jax

    from jax_ipu import _ipu

    @functools.wraps(wait, assigned=("__name__", "__doc__"))
    def wait_until_interrupted(*args: Any) -> Any:
        try:
            return wait(*args)
        except KeyboardInterrupt:
            if any(device.platform == PLATFORM for x in jax.tree.leaves(args) for device in x.devices()):
                _ipu.cancel_runs()
            raise
        except Exception as error:
            leave_out(error)
            raise

    return wait_until_interrupted
