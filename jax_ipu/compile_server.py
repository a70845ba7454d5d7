"""Compiles programs for a process that runs no Python: ``python -m jax_ipu.compile_server SOCKET HOST``.

``libpjrt_ipu.so`` starts it, at the first compilation of a process that has not imported ``jax_ipu``, and talks to it
over a socket; ``pjrt_plugin/runtime/process/compile_server.h`` describes the protocol. It ends when its host ends.

Args on the command line:
    SOCKET: file descriptor of the server's end of the socket.
    HOST: process id of the host, the process that wants programs compiled.
"""

from __future__ import annotations

import importlib.util
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GREETING = b"jax_ipu compile server 1"
# PJRT status codes.
_OK, _FAILED_PRECONDITION, _INTERNAL = 0, 9, 13
# How often the server checks that its host is alive: a fork of the host may keep the socket open.
_INTERVAL_MILLISECONDS = 1000


def main(arguments: list[str]) -> int:
    """Serves the host until it closes its end of the socket; returns the exit status."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    descriptor, host = (int(argument) for argument in arguments)
    _close_others(descriptor)
    # Printing the progress line must not stop a process that is not in the terminal's foreground.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    connection = socket.socket(fileno=descriptor)
    threading.Thread(target=_end_with_host, args=(descriptor, host), daemon=True).start()
    try:
        compile = _compiler()
    except Exception as error:
        _answer(connection, _FAILED_PRECONDITION, f"{type(error).__name__}: {error}".encode())
        return 1
    _answer(connection, _OK, GREETING)
    from jax_ipu.machine import memory_bytes

    for program, program_format, options, target in _requests(connection):
        try:
            chip = target.decode()
            options = _with_defaults(options)
            observe = _observer(program, options, chip)
            executable = compile(
                program, program_format.decode(errors="replace"), options, chip, observe, memory_bytes()
            )
            code, text = _OK, executable.serialize()
        except BaseException as error:
            code, text = _error(error)
        try:
            _answer(connection, code, text)
        except (BrokenPipeError, ConnectionResetError):  # the host has ended meanwhile
            break
    return 0


def _close_others(kept: int) -> None:
    """Closes the host's open files, on systems that could not do that when the server was started."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != kept:
            try:
                os.close(int(name))
            except OSError:  # the descriptor of the listing itself, which is closed already
                pass


def _end_with_host(descriptor: int, host: int) -> None:
    """Ends this process, even in a compilation, as soon as the host has ended or closed its end of the socket."""
    poll = select.poll()
    poll.register(descriptor, select.POLLRDHUP)
    while not poll.poll(_INTERVAL_MILLISECONDS) and os.getppid() == host:
        pass
    os._exit(0)


def _compiler() -> Any:
    """The compile function of this file's package, even if the interpreter would import another one."""
    if not __package__:
        folder = Path(__file__).parent
        spec = importlib.util.spec_from_file_location(
            folder.name, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        assert spec is not None and spec.loader is not None
        package = importlib.util.module_from_spec(spec)
        sys.modules[folder.name] = package
        spec.loader.exec_module(package)
    from jax_ipu.compiler import compile

    return compile


def _with_defaults(options: bytes) -> bytes:
    """With the options of compilations that the host's environment sets."""
    from jax_ipu.config import config

    return config.compile_options(options)


def _observer(program: bytes, options: bytes, target: str) -> Any:
    """Writes a report on the program, if the host's environment asks for it."""
    from jax_ipu.config import config

    if not config.report_folder():
        return None
    from jax_ipu.reports.automatic import observer

    return observer(program, options, target)


def _error(error: BaseException) -> tuple[int, bytes]:
    """Returns the same status code and message as a compilation in the host's process."""
    code = getattr(error, "code", None)
    if isinstance(error, Exception) and isinstance(code, int):
        return code, str(error).encode(errors="replace")
    return _INTERNAL, f"the compiler failed: {''.join(traceback.format_exception(error))}".encode(errors="replace")


def _requests(connection: socket.socket) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
    while True:
        try:
            yield _text(connection), _text(connection), _text(connection), _text(connection)
        except (EOFError, ConnectionResetError):  # reset if the host has not read the last answer
            return


def _text(connection: socket.socket) -> bytes:
    return _receive(connection, int.from_bytes(_receive(connection, 8), "little"))


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = connection.recv_into(view)
        if count == 0:
            raise EOFError
        view = view[count:]
    return bytes(data)


def _answer(connection: socket.socket, code: int, text: bytes) -> None:
    connection.sendall(code.to_bytes(8, "little") + len(text).to_bytes(8, "little"))
    connection.sendall(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
