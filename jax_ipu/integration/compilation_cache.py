"""The entries of JAX's persistent compilation cache that are programs for ``ipu``, or that JAX cannot read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from jax_ipu import _ipu

# The first bytes of a stored executable: pjrt_plugin/runtime/executable/executable.cc. jaxlib puts a description before
# it.
_MAGIC = b"JAXIPUEX"
# Files of one entry in jax._src.lru_cache.
_ENTRY, _LAST_USE = "-cache", "-atime"
# In the error for another version: ipu_model/core/sealed.cc.
_OTHER_VERSION = "format version"


STALE, DAMAGED = "stale", "damaged"


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
        state: "" if it is usable; STALE, if another release wrote it; DAMAGED, if none can read it.
        problem: why it is not usable; "" if it is.
    """

    path: Path
    name: str
    size: int
    written: float
    target: str = ""
    num_ipus: int = 0
    usable: bool = False
    state: str = ""
    problem: str = ""

    def remove(self) -> None:
        """Removes the files of the entry."""
        self.path.unlink(missing_ok=True)
        self.path.with_name(self.path.name.removesuffix(_ENTRY) + _LAST_USE).unlink(missing_ok=True)


def entries(folder: Path) -> Iterator[Entry]:
    """Yields the entries for ``ipu`` in a folder, by name, and damaged ones; readable ones of others are left out.

    JAX keeps an entry that it cannot read, and warns of it in every process. Of which platform it was is not known.
    """
    for path in sorted(folder.glob(f"*{_ENTRY}")):
        entry = _read(path)
        if entry is not None:
            yield entry


def _read(path: Path) -> Entry | None:
    from jax._src import compilation_cache

    # The name of the file is that of the program and a hash.
    name = path.name.removesuffix(_ENTRY).rpartition("-")[0]
    try:
        status = path.stat()
    except FileNotFoundError:  # removed by another process
        return None
    found = Entry(path, name, status.st_size, status.st_mtime)
    try:
        stored = compilation_cache.decompress_executable(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        return replace(found, state=DAMAGED, problem=f"the file cannot be read: {error.strerror}")
    except Exception as error:  # of zlib or zstandard, whichever JAX uses
        return replace(found, state=DAMAGED, problem=f"JAX cannot decompress it: {error}")
    start = stored.find(_MAGIC)
    if start < 0:
        return None
    try:
        executable = _ipu.Executable.deserialize(stored[start:])
    except _ipu.Error as error:
        # The first thing after the magic number is the version of the format, which differs between releases.
        state = STALE if _OTHER_VERSION in str(error) else DAMAGED
        return replace(found, state=state, problem=str(error))
    num_ipus = executable.num_replicas * executable.num_partitions
    return replace(found, target=executable.target, num_ipus=num_ipus, usable=True)
