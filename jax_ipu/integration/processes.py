"""Several processes of ``jax.distributed``: gloo carries tensors from one process to another.

The transport is gloo's over TCP, from the package xoscar. Processes find each other through the key-value store of
``jax.distributed``; two processes connect when a program first communicates between them. Tested with jax 0.10.2 and
0.12.0, and xoscar 0.12.2.
"""

from __future__ import annotations

import atexit
import datetime
import importlib
import importlib.util
import socket
import threading
from collections.abc import Sequence
from typing import Any

PACKAGE = "xoscar"
HOW_TO_INSTALL = "pip install 'jax_ipu[distributed]'"

# PJRT status codes.
_DEADLINE_EXCEEDED, _FAILED_PRECONDITION, _ABORTED, _INTERNAL, _UNAVAILABLE = 4, 9, 10, 13, 14

# Process; tag, address and number of bytes to send; tag, address and number of bytes to receive.
Message = tuple[int, int, int, int, int, int, int]


class TransportError(RuntimeError):
    """A message to or from another process failed. ``code`` is the PJRT status."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def client_options(timeout_seconds: int) -> dict[str, Any]:
    """Returns the options of this process's PJRT client; with several processes, also prepares the transport.

    Args:
        timeout_seconds: how long a process waits for another.
    """
    from jax._src import distributed

    from jax_ipu import _ipu

    state = distributed.global_state
    if state.client is None or (state.num_processes or 1) <= 1:
        return {}
    missing = "" if importlib.util.find_spec(PACKAGE) else HOW_TO_INSTALL
    if not missing:
        address = own_address(str(state.coordinator_address))
        transport = ProcessTransport(state.client, state.process_id, address, timeout_seconds)
        _ipu.set_process_transport(transport.carry, transport.fail)
        atexit.register(transport.close)
    return {"process_timeout": timeout_seconds, "missing_process_transport": missing}


def count() -> int:
    """The number of processes that `jax.distributed` knows."""
    from jax._src import distributed

    return distributed.global_state.num_processes or 1


def own_address(coordinator: str) -> str:
    """The numeric address of this machine that the machine of ``coordinator`` ("host:port") can reach."""
    host, _, port = coordinator.rpartition(":")
    found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)
    family, kind, protocol, _, target = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(target)  # connecting a datagram socket only looks up the route
        return str(probe.getsockname()[0])


def _without_advice(error: Exception) -> str:
    """The message of a gloo error, without its guesses about workers and applications."""
    return str(error).partition(". This is typically caused")[0]


class _Store:
    """gloo's address store on top of the key-value store of ``jax.distributed``."""

    def __init__(self, client: Any, prefix: str, timeout_seconds: int) -> None:
        self._client, self._prefix, self._timeout_ms = client, prefix, timeout_seconds * 1000

    def set_tcp(self, key: str, value: bytes) -> None:
        self._client.key_value_set_bytes(self._prefix + key, value)

    def get_tcp(self, key: str) -> bytes:
        value: bytes = self._client.blocking_key_value_get_bytes(self._prefix + key, self._timeout_ms)
        return value

    def wait(self, keys: Sequence[str], *timeout: Any) -> None:
        for key in keys:
            self.get_tcp(key)


class ProcessTransport:
    """The connections of this process with the others. Thread safe; every method may be called on any thread.

    After a failure nothing can be carried any more: messages of the program that failed may still be under way.

    Args:
        client: the client of ``jax.distributed``.
        process: the number of this process.
        address: the numeric address at which others reach this machine.
        timeout_seconds: how long a message waits for the other process.
    """

    def __init__(self, client: Any, process: int, address: str, timeout_seconds: int) -> None:
        self._client, self._process, self._address, self._timeout = client, process, address, timeout_seconds
        self._gloo: Any = None
        self._lock = threading.Lock()
        self._connecting: dict[int, threading.Lock] = {}
        self._contexts: dict[int, Any] = {}
        self._failure: str | None = None

    def carry(self, messages: Sequence[Message]) -> None:
        """Returns when all messages are sent and received.

        Raises:
            TransportError: a process did not answer in time (DEADLINE_EXCEEDED), has gone (UNAVAILABLE) or gave up
                (ABORTED), or there was a failure before (FAILED_PRECONDITION).
        """
        # A send blocks until it is received: all processes use one order, and the lower process of a pair sends first.
        for message in sorted(messages, key=self._pair):
            if self._failure is not None:
                raise self._failed_before()
            try:
                self._carry(*message)
            except Exception as error:
                raise self._failed(message[0], error) from None

    def _pair(self, message: Message) -> tuple[int, int]:
        return min(self._process, message[0]), max(self._process, message[0])

    def _carry(
        self, other: int, send_tag: int, out: int, out_bytes: int, receive_tag: int, into: int, in_bytes: int
    ) -> None:
        context = self._context(other)
        peer = self._process < other
        byte = self._gloo.GlooDataType_t.glooUint8

        def send() -> None:
            if out_bytes:
                self._gloo.send(context, out, out_bytes, byte, int(peer), send_tag)

        def receive() -> None:
            if in_bytes:
                self._gloo.recv(context, into, in_bytes, byte, int(peer), receive_tag)

        for step in (send, receive) if peer else (receive, send):
            step()

    def _context(self, other: int) -> Any:
        """The connection with another process: made by the first program that needs it, on both sides."""
        with self._lock:
            if other in self._contexts:
                return self._contexts[other]
            connecting = self._connecting.setdefault(other, threading.Lock())
        with connecting:
            if other in self._contexts:
                return self._contexts[other]
            gloo = importlib.import_module(f"{PACKAGE}.collective.xoscar_pygloo")
            low, high = sorted((self._process, other))
            context = gloo.rendezvous.Context(int(self._process == high), 2)
            context.setTimeout(datetime.timedelta(seconds=self._timeout))
            device = gloo.transport.tcp.CreateDevice(gloo.transport.tcp.attr(self._address))
            store = _Store(self._client, f"jax_ipu/gloo/{low}-{high}/", self._timeout)
            context.connectFullMesh(gloo.rendezvous.CustomStore(store), device)
            with self._lock:
                self._gloo = gloo
                self._contexts[other] = context
            if self._failure is not None:  # the failure came before this connection existed, so it was not closed
                context.closeConnections()
            return context

    def _failed_before(self) -> TransportError:
        return TransportError(
            "Programs over several processes cannot run any more, since one of them failed: "
            f"{self._failure}. Start all processes again",
            _FAILED_PRECONDITION,
        )

    def _failed(self, other: int, error: Exception) -> TransportError:
        """Returns the exception to raise for an error of gloo or the store, and ends the transport."""
        if self._failure is not None:  # on another thread, which has closed the connections
            return self._failed_before()
        reason = self._reason_of(other)
        if reason is not None:
            result = TransportError(f"process {other} gave up {reason}", _ABORTED)
        elif "imed out" in str(error) or "DEADLINE_EXCEEDED" in str(error):
            result = TransportError(
                f"process {other} did not take part in a collective within {self._timeout} s. All processes must run "
                "the same programs over shared IPUs in the same order; JAX_IPU_PROCESS_TIMEOUT sets how many seconds "
                f"they wait for each other ({_without_advice(error)})",
                _DEADLINE_EXCEEDED,
            )
        elif "onnection" in str(error) or "roken pipe" in str(error):
            result = TransportError(
                f"process {other} has closed the connection: it has ended or crashed, see its output "
                f"({_without_advice(error)})",
                _UNAVAILABLE,
            )
        else:
            result = TransportError(
                f"the transport to process {other} failed: {type(error).__name__}: {error}", _INTERNAL
            )
        self.fail(str(result))
        return result

    def _key(self, process: int) -> str:
        return f"jax_ipu/failed/{process}"

    def _reason_of(self, other: int) -> str | None:
        try:
            return str(self._client.key_value_try_get(self._key(other)))
        except Exception:  # NOT_FOUND, or the key-value service has ended as well
            return None

    def fail(self, reason: str) -> None:
        """Makes current and later messages of this process fail; processes that wait for it get the reason."""
        with self._lock:
            if self._failure is not None:
                return
            self._failure = reason
        try:
            self._client.key_value_set(self._key(self._process), reason)
        except Exception:  # without the reason the others still see that the connection is closed
            pass
        self.close()

    def close(self) -> None:
        """Closes the connections: a process that waits for this one gets an error."""
        with self._lock:
            contexts = list(self._contexts.values())
        for context in contexts:
            context.closeConnections()
