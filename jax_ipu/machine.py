"""The memory of the machine that this process runs on."""

from __future__ import annotations

import os
import resource
from pathlib import Path

# What a container may use, of either version of control groups; without a limit "max", or a number beyond any memory.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_bytes() -> int:
    """Bytes of memory that this process can have at most: those of the machine, its container, or a limit of its own.

    Memory that others use at the moment is not taken off: it may be free when a program runs.
    """
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") + _swap()]
    for path in _LIMITS:
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text.isdecimal():
            found.append(int(text))
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        if (soft := resource.getrlimit(kind)[0]) != resource.RLIM_INFINITY:
            found.append(soft)
    return min(found)


def _swap() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 0
    sizes = [int(line.split()[1]) * 1024 for line in lines if line.startswith("SwapTotal:")]
    return sum(sizes)
