"""A wire between two network devices that takes its time and loses frames, where the kernel has no netem."""

from __future__ import annotations

import heapq
import itertools
import random
import select
import socket
import subprocess
import sys
import threading
import time
from types import TracebackType

_ALL_PROTOCOLS = 3
_OUTGOING = 4  # socket.PACKET_OUTGOING: what this machine sends, which another wire or the kernel has sent
_LONGEST_FRAME = 1 << 16
# Without what a device would do to frames that leave it: a wire carries them as they are.
_PLAIN = """
import array, fcntl, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
    for command in (0x17, 0x19, 0x1F, 0x24):  # checksums, scattered frames, segments of TCP, of others
        value = array.array("I", [command, 0])
        fcntl.ioctl(control, 0x8946, struct.pack("16sP16x", sys.argv[1].encode(), value.buffer_info()[0]))
"""


def make_plain(namespace: str, device: str) -> None:
    """Makes a device of a namespace send whole frames, with their checksums."""
    command = ["ip", "netns", "exec", namespace, sys.executable, "-c", _PLAIN, device]
    subprocess.run(command, check=True, capture_output=True)


class Wire:
    """Carries the frames that arrive at one device to the other, in a thread, while it is entered."""

    def __init__(self, one: str, other: str, delay: float, loss: float, seed: int = 0) -> None:
        """`delay`: seconds in each direction; `loss`: the part of the frames that are lost, from 0 to 1."""
        self._devices, self._delay, self._loss = (one, other), delay, loss
        self._random, self._ended = random.Random(seed), threading.Event()
        self._sockets: list[socket.socket] = []
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self.carried = self.lost = 0

    def __enter__(self) -> Wire:
        for device in self._devices:
            end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
            self._sockets.append(end)
            end.bind((device, 0))
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()
        for end in self._sockets:
            end.close()

    def _carry(self) -> None:
        one, other = self._sockets
        order = itertools.count()
        waiting: list[tuple[float, int, socket.socket, bytes]] = []
        while not self._ended.is_set():
            pause = min(waiting[0][0] - time.monotonic(), 0.1) if waiting else 0.1
            for end in select.select([one, other], [], [], max(0.0, pause))[0]:
                frame, address = end.recvfrom(_LONGEST_FRAME)
                if address[2] == _OUTGOING:
                    continue
                if self._random.random() < self._loss:
                    self.lost += 1
                    continue
                to = other if end is one else one
                heapq.heappush(waiting, (time.monotonic() + self._delay, next(order), to, frame))
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, to, frame = heapq.heappop(waiting)
                try:
                    to.send(frame)
                    self.carried += 1
                except OSError:  # the device is down
                    self.lost += 1
