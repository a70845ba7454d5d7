"""The entries of JAX's persistent compilation cache that are programs for ``ipu``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jax_ipu import _ipu

# The first bytes of a stored executable: pjrt_plugin/runtime/executable.cc. jaxlib puts a description before it.
_MAGIC = b"JAXIPUEX"
# Files of one entry in jax._src.lru_cache.
_ENTRY, _LAST_USE = "-cache", "-atime"


@dataclass(frozen=True)
class Entry:
    """A program in the cache.

    Attributes:
        path: its file.
        name: the name of the program.
        size: bytes of the file.
        written: when, in seconds since 1970.
        target: for which chip and how many tiles, e.g. "ipu2:1472"; "" if it is not usable.
        num_ipus: for how many IPUs; 0 if it is not usable.
        usable: whether this release can read it.
    """

    path: Path
    name: str
    size: int
    written: float
    target: str
    num_ipus: int
    usable: bool

    def remove(self) -> None:
        """Removes the files of the entry."""
        self.path.unlink(missing_ok=True)
        self.path.with_name(self.path.name.removesuffix(_ENTRY) + _LAST_USE).unlink(missing_ok=True)


def entries(folder: Path) -> Iterator[Entry]:
    """Yields the entries for ``ipu`` in a folder, by name; those of other platforms and damaged ones are left out."""
    for path in sorted(folder.glob(f"*{_ENTRY}")):
        entry = _read(path)
        if entry is not None:
            yield entry


def _read(path: Path) -> Entry | None:
    from jax._src import compilation_cache

    try:
        data = path.read_bytes()
        stored = compilation_cache.decompress_executable(data)
    except Exception:  # removed by another process, or no file of JAX
        return None
    start = stored.find(_MAGIC)
    if start < 0:
        return None
    # The name of the file is that of the program and a hash.
    name = path.name.removesuffix(_ENTRY).rpartition("-")[0]
    size, written = len(data), path.stat().st_mtime
    try:
        executable = _ipu.Executable.deserialize(stored[start:])
    except _ipu.Error:
        return Entry(path, name, size, written, "", 0, usable=False)
    num_ipus = executable.num_replicas * executable.num_partitions
    return Entry(path, name, size, written, executable.target, num_ipus, usable=True)
