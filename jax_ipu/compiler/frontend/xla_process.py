"""Runs XLA's partitioner in a process of its own: what it cannot partition may end its process.

This file is also what that process runs: it compiles for a CPU client, with a dump after the pass that partitions. Only
the dump is used. The client stops before it generates code, and never runs a program.
"""

from __future__ import annotations

import functools
import os
import pickle
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Any

from jaxlib import _jax, xla_client

# Custom calls whose partitioner is a Python function of the process that lowered the program.
_OF_PYTHON = ("@CustomSPMDPartitioning(", "@InspectSharding(")
_PASS = "spmd-partitioning"
# A line by which XLA says why it ends the process, and what is of no use to the reader of a message.
_FATAL = re.compile(rb"^F[\d.: ]+\S+:\d+\] (.*)$", re.MULTILINE)


class PartitionerEnded(Exception):
    """XLA ended its process; the message is its last words."""


class _Process:
    """One process, which partitions one program at a time."""

    def __init__(self) -> None:
        # What XLA prints, for the message of a process that has ended.
        self._log: IO[bytes] = tempfile.TemporaryFile()
        paths = os.pathsep.join(path for path in sys.path if path)
        # In a session of its own, so that Ctrl-C in a terminal reaches this process alone.
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=os.environ | {"PYTHONPATH": paths},
            start_new_session=True,
        )

    def partition(self, text: str, options: bytes, devices: int, batched: list[str]) -> tuple[bytes | None, str]:
        """As the function `partition`."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            pickle.dump((text, options, devices, batched), self._process.stdin)
            self._process.stdin.flush()
            answer: tuple[bytes | None, str] = pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            self._process.wait()
            raise PartitionerEnded(self._last_words()) from error
        return answer

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended, as it may while it waits: of a signal, or for want of memory."""
        return self._process.poll() is None

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        self.forget()

    def forget(self) -> None:
        """Closes this process's ends of the pipes."""
        for file in (self._process.stdin, self._process.stdout, self._log):
            if file is not None:
                try:
                    file.close()
                except BrokenPipeError:  # what was not sent is lost with the process
                    pass

    def _last_words(self) -> str:
        self._log.seek(0)
        said = _FATAL.findall(self._log.read())
        return said[-1].decode(errors="replace") if said else f"exit status {self._process.returncode}"


_idle: list[_Process] = []
_lock = threading.Lock()


def _forget_all() -> None:
    """The processes belong to the parent of a fork."""
    global _lock
    _lock = threading.Lock()
    while _idle:
        _idle.pop().forget()


os.register_at_fork(after_in_child=_forget_all)


def partition(text: str, options: bytes, devices: int, batched: list[str]) -> tuple[bytes | None, str]:
    """The serialised HloModuleProto after XLA's partitioner, or None; and why XLA compiled no further.

    Args:
        text: the module in MLIR's text form.
        options: an xla.CompileOptionsProto.
        devices: for how many devices it is.
        batched: the targets of its custom calls that say how many of their dimensions are a batch.

    Raises:
        PartitionerEnded: XLA ended the process.
    """
    # An application that contains Python is no interpreter.
    alone = "python" in Path(sys.executable or "").name
    if not alone or any(target in text for target in _OF_PYTHON):
        return _partitioned(text, options, devices, batched)
    process = _take()
    try:
        answer = process.partition(text, options, devices, batched)
    except BaseException:  # an interrupt, too: an answer may come that nobody waits for
        process.close()
        raise
    with _lock:
        _idle.append(process)
    return answer


def _take() -> _Process:
    """A process that waits for a program, or a new one."""
    with _lock:
        while _idle:
            process = _idle.pop()
            if process.is_alive:
                return process
            process.close()
    return _Process()


def _serve() -> None:
    """Partitions what comes from standard input until it ends."""
    # XLA may print: it prints to the log.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(_partitioned(*request), answers)
        answers.flush()


@functools.cache
def _register(target: str) -> None:
    xla_client.register_custom_call_as_batch_partitionable(target)


@functools.cache
def _client(devices: int) -> Any:
    return _jax.get_tfrt_cpu_client(num_devices=devices)


def _partitioned(text: str, serialized: bytes, devices: int, batched: list[str]) -> tuple[bytes | None, str]:
    for target in batched:
        _register(target)
    client, failure = _client(devices), ""
    with tempfile.TemporaryDirectory(prefix="jax_ipu_partition_") as folder:
        options = _jax.CompileOptions.ParseFromString(serialized)
        debug = options.executable_build_options.debug_options
        debug.xla_dump_to = folder
        debug.xla_dump_hlo_pass_re = f"^{re.escape(_PASS)}$"
        debug.xla_dump_hlo_as_proto = True
        # Optimisation would take most of the time, and its result is not used.
        debug.xla_backend_optimization_level = 0
        try:
            client.compile_and_load(text, client.devices(), options)
        except _jax.JaxRuntimeError as error:  # of the partitioner, or the expected one for the end
            failure = str(error)
        dumps = sorted(Path(folder).glob(f"*.after_{_PASS}*.hlo.pb"))
        return (dumps[-1].read_bytes() if dumps else None), failure


if __name__ == "__main__":
    _serve()
