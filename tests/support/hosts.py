"""Hosts of a small network, as Linux network namespaces with a bridge between them: each has an address of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from support.wires import Wire, make_plain

_NETWORK = "10.117.3"


def why_not() -> str:
    """Why this machine cannot have them; "" where it can."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "network namespaces need root and the command ip"
    name = f"j{os.getpid()}probe"
    try:
        _ip("netns", "add", name)
        _ip("netns", "del", name)
    except subprocess.CalledProcessError as error:
        return f"no network namespace can be made: {error.stderr.decode().strip()}"
    return ""


class Host:
    """A host that runs one process at a time."""

    def __init__(self, network: str, number: int) -> None:
        self.name = f"{network}h{number}"
        self.address = f"{_NETWORK}.{number + 1}"
        self._link = f"{network}v{number}"
        self.process: subprocess.Popen[str] | None = None
        self._output: IO[str] | None = None
        self.wire: Wire | None = None
        self.path = Path()

    def start(self, code: str, path: Path, **environment: str) -> None:
        """Runs Python code; what it prints goes to a file."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
        self.path = path
        self._output = path.open("w")
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", self.name, sys.executable, "-P", "-u", "-c", textwrap.dedent(code)],
            env={**inherited, **environment},
            stdout=self._output,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait_for(self, text: str, seconds: float) -> None:
        """Waits until the process has printed the text."""
        end = time.monotonic() + seconds
        while text not in self.path.read_text():
            assert self.process is not None and time.monotonic() < end, (
                f"{self.name} did not say {text!r}: {self.said()}"
            )
            ended = self.process.poll()
            assert ended is None or text in self.path.read_text(), f"{self.name} ended with {ended}: {self.said()}"
            time.sleep(0.05)

    def said(self) -> str:
        return self.path.read_text()[-3000:]

    def end(self, seconds: float) -> int:
        """Waits for the process; returns its exit code."""
        assert self.process is not None
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} has not ended within {seconds} s: {self.said()}") from None

    def unplug(self) -> None:
        """Nothing arrives and nothing leaves: the others are not told."""
        _ip("link", "set", self._link, "down")

    def plug(self) -> None:
        _ip("link", "set", self._link, "up")

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        if self._output is not None:
            self._output.close()


@contextmanager
def hosts(count: int, delay: float = 0.0, loss: float = 0.0) -> Iterator[list[Host]]:
    """So many hosts that reach each other.

    `delay`: seconds from each host to the middle of the network, and back; `loss`: the part of frames lost on the way.
    """
    network = f"j{os.getpid() % 100000}"
    bridge = f"{network}b"
    made = [Host(network, number) for number in range(count)]
    wires = ExitStack()
    try:
        _ip("link", "add", bridge, "type", "bridge")
        _ip("link", "set", bridge, "up")
        for number, host in enumerate(made):
            inside = f"{network}p{number}"
            _ip("netns", "add", host.name)
            _ip("link", "add", host._link, "type", "veth", "peer", "name", inside)
            _ip("link", "set", host._link, "up")
            _ip("link", "set", inside, "netns", host.name)
            _ip("-n", host.name, "address", "add", f"{host.address}/24", "dev", inside)
            for link in ("lo", inside):
                _ip("-n", host.name, "link", "set", link, "up")
            if not delay and not loss:
                _ip("link", "set", host._link, "master", bridge)
                continue
            make_plain(host.name, inside)
            far, near = f"{network}f{number}", f"{network}n{number}"
            _ip("link", "add", far, "type", "veth", "peer", "name", near)
            _ip("link", "set", near, "master", bridge)
            for end in (far, near):
                _ip("link", "set", end, "up")
            wires.callback(_ip, "link", "del", far)
            host.wire = wires.enter_context(Wire(host._link, far, delay, loss, number))
        yield made
    finally:
        wires.close()
        for host in made:
            host.close()
            # A namespace ends with its last connection: until then, the next host could not have a link of this name.
            for command in (("link", "del", host._link), ("netns", "del", host.name)):
                with suppress(subprocess.CalledProcessError):
                    _ip(*command)
        with suppress(subprocess.CalledProcessError):
            _ip("link", "del", bridge)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
