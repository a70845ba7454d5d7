"""Registers the ``ipu`` platform with JAX. Only this module and :mod:`jax_ipu.integration` use JAX internals.

Tested with jax 0.10.2 (Python 3.11) and 0.12.0 (Python 3.12). Each internal that is used is named where it is used.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import types
from typing import TYPE_CHECKING, Any

from jax_ipu import environment
from jax_ipu.config import config
from jax_ipu.integration import (
    ahead_of_time,
    approximate_top_k,
    buffer_callback,
    callbacks,
    cost_analysis,
    dlpack,
    error_function,
    ffi,
    fork,
    host_arrays,
    interrupt,
    keras_trainer,
    linear_algebra,
    link,
    memories,
    pallas,
    processes,
    profiler,
    program_dump,
    scans,
    threefry,
    tracebacks,
    transfer_guard,
)
from jax_ipu.machine import memory_bytes

if TYPE_CHECKING:
    from jax_ipu import _ipu

logger = logging.getLogger(__name__)

PLATFORM = "ipu"
# Below that of cpu, which is 0: installing the package must not move programs onto a model.
MODEL_PRIORITY = -1
# How long the end of the process waits for threads that were compiling.
_SECONDS_TO_LEAVE = 2.0


def library_path() -> str:
    """Path of ``libpjrt_ipu.so``, the PJRT plugin, which clients in any language can load; see docs/clients.md.

    Examples:
        >>> import os
        >>> from jax_ipu.plugin import library_path
        >>> os.path.basename(library_path())
        'libpjrt_ipu.so'
    """
    from jax_ipu import _ipu

    return _ipu.library_path()


def initialize() -> None:
    """Called by JAX's plugin discovery (entry point ``jax_plugins``)."""
    from jax._src import xla_bridge

    # JAX warns at start about every platform that is not in this set.
    xla_bridge._nonexperimental_plugins.add(PLATFORM)
    xla_bridge.register_plugin(PLATFORM, priority=MODEL_PRIORITY, library_path=library_path(), options=_create_options)
    _enable_donation()
    _enable_compilation_cache()
    _hide_executable_versions()
    ahead_of_time.enable()
    approximate_top_k.enable()
    buffer_callback.enable()
    callbacks.enable()
    cost_analysis.enable()
    dlpack.enable()
    error_function.enable()
    ffi.enable()
    fork.enable()
    host_arrays.enable()
    interrupt.enable()
    keras_trainer.enable()
    linear_algebra.enable()
    link.enable()
    memories.enable()
    pallas.enable()
    profiler.enable()
    program_dump.enable()
    scans.enable()
    threefry.enable()
    tracebacks.enable()
    transfer_guard.enable()


def _hide_executable_versions() -> None:
    """Keeps ABI versions from jaxlib 0.12, which serialises executables without one, or with that of TPU, CUDA or ROCm.

    See pjrt_executable.cc.
    """
    from jax_ipu import _ipu

    _ipu.hide_executable_versions()


def _create_options() -> dict[str, Any]:
    """Called when JAX creates the client: reads the configuration and makes the compiler ready."""
    from jax_ipu import _ipu

    if not config.use_model:
        raise RuntimeError(
            "JAX_IPU_USE_MODEL is false, but this build of jax_ipu has no Poplar SDK and so no hardware device. "
            "Unset JAX_IPU_USE_MODEL to use the IPU model."
        )
    environment.warn_once(os.environ, config.variables())
    threads = 1 if config.host_threads == 0 and environment.has_one_thread(os.environ) else config.host_threads
    seed = config.stochastic_rounding_seed
    if config.stochastic_rounding and seed:
        threads = 1  # several would draw random numbers in any order
    _ipu.limit_host(config.max_isa, threads, config.machine_code and not config.stochastic_rounding)
    _ipu.set_stochastic_rounding(config.stochastic_rounding, seed or int.from_bytes(os.urandom(8), "little"))
    _ipu.set_device_config(
        version=config.model_version,
        num_tiles=config.model_num_tiles,
        device_ids=config.device_ids(),
        execution=config.model_execution,
        use_model=True,
        monitored=bool(config.monitor),
        usage_folder=config.monitor if isinstance(config.monitor, str) else "",
        synthetic_data=config.synthetic_data,
        link=config.link,
        trace_planes=config.trace_planes,
    )
    if isinstance(config.monitor, str) and not os.access(config.monitor, os.W_OK | os.X_OK):
        logger.warning(
            "JAX_IPU_MONITOR=%r is no folder that this process can write to: jax-ipu monitor does not see it. Give a"
            " folder that exists.",
            config.monitor,
        )
    if config.synthetic_data:
        logger.warning(
            "JAX_IPU_SYNTHETIC_DATA is set: nothing crosses the host link of ipu. Arguments and results of programs"
            " have the right shapes and types, and meaningless values."
        )
    _ipu.set_compiler(_compile)
    _ipu.set_linker(_link)
    options = processes.client_options(config.process_timeout)
    config.freeze()
    # Registered last, so called first: programs end before the connections with other processes are closed.
    atexit.register(_prepare_exit)
    return options


def _compile(program: bytes | memoryview, program_format: str, options: bytes, target: str) -> _ipu.Executable:
    """Compiles, and loads the compiler for the first program. The exit of the process cancels either."""
    from jax_ipu.compiler.progress import Progress

    with _compilations:
        with Progress("a program") as progress:
            from jax_ipu import compiler

            progress.stage("loading the compiler")
        options = config.compile_options(options)
        observe = None
        if config.report_folder():
            from jax_ipu.reports.automatic import observer

            observe = observer(bytes(program), options, target)
        # A program over several processes is taken to run on as many machines.
        machine = memory_bytes() * processes.count()
        executable = compiler.compile(program, program_format, options, target, observe, machine)
        if executable.link_group and (reason := _hinders_linking(executable)):
            logger.warning("%s takes turns with the programs that it is to be linked with: %s", executable.name, reason)
        return executable


def _hinders_linking(executable: _ipu.Executable) -> str:
    """Why a program cannot share an engine; "" for one that can."""
    if executable.host_callbacks or executable.ffi_calls:
        return "it calls functions of the host"
    return ""


def _link(parts: list[tuple[bytes, str, bytes, tuple[int, ...]]], target: str) -> _ipu.LinkedProgram:
    """Compiles programs as one, and says where they do not fit together; called on the device's thread."""
    from jax_ipu.compiler import linking
    from jax_ipu.compiler.errors import CANCELLED, RESOURCE_EXHAUSTED, CompileError

    with _compilations:
        try:
            made = [linking.Part(code, form, config.compile_options(own), ids) for code, form, own, ids in parts]
            return linking.link(made, target)
        except CompileError as error:
            asked = any(b"ipu_link" in options for _, _, options, _ in parts)
            if error.code == RESOURCE_EXHAUSTED or (asked and error.code != CANCELLED):
                logger.warning("%s", error)
            raise
        except Exception:
            logger.warning("programs could not be linked, and take turns; this is an error of jax_ipu", exc_info=True)
            raise


class _Compilations:
    """Counts the compilations that are running."""

    def __init__(self) -> None:
        self.running = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.running += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self.running -= 1


_compilations = _Compilations()


def _await_daemon_threads() -> None:
    """Lets the threads whose compilations were cancelled leave jaxlib, which needs the interpreter, and end."""
    deadline = time.monotonic() + _SECONDS_TO_LEAVE
    for thread in threading.enumerate():
        # jaxlib's own threads have no Thread object and cannot be joined.
        if thread.daemon and thread is not threading.current_thread() and type(thread) is not threading._DummyThread:
            thread.join(max(0.0, deadline - time.monotonic()))


def _prepare_exit() -> None:
    """Stops everything that needs the interpreter: compilations, callbacks of running programs, daemon threads.

    A daemon thread that returns from a call into jaxlib while the interpreter ends would abort the process.
    """
    from jax_ipu import _ipu
    from jax_ipu.compiler import progress

    if _ipu.is_forked_child():
        return  # the work is the parent's
    compiling = _compilations.running > 0
    progress.cancel_all()
    _ipu.finish_work()
    if compiling:
        _await_daemon_threads()
    if threading.active_count() > 1:
        _ipu.prepare_exit()


def _enable_donation() -> None:
    """Adds ipu to the list of platforms on which JAX keeps donate_argnums; on others it drops them with a warning."""
    from jax._src.interpreters import mlir

    if PLATFORM not in mlir._platforms_with_donation:
        mlir._platforms_with_donation.append(PLATFORM)


def _enable_compilation_cache() -> None:
    """Adds ipu to the platforms of JAX's persistent cache, a fixed list inside is_cache_used."""
    from jax._src import compilation_cache
    from jax._src import config as jax_config

    original = compilation_cache.is_cache_used

    def is_cache_used(backend: Any) -> bool:
        # Without a directory or a cache of the user nothing is stored, but JAX would compute the key of every program.
        stored = jax_config.compilation_cache_dir.value or compilation_cache._cache is not None
        not_in_key = config.poplibs or config.io_tiles
        if backend.platform == PLATFORM and (not stored or not_in_key):
            return False
        # JAX checks only the platform's name: pass a listed one, and its own rules and counters apply.
        listed = backend.platform != PLATFORM
        return bool(original(backend if listed else types.SimpleNamespace(platform="cpu")))

    if getattr(original, "__module__", None) != __name__:
        compilation_cache.is_cache_used = is_cache_used
