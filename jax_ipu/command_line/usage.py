"""What running processes do with their IPUs: the files that ``pjrt_plugin/runtime/recording/usage.h`` describes.

Only files of this user are read, in folders that nobody else can write to.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"IPUSAGE1"
# magic, bytes of the header and of a device, devices, synthetic data, pid, start, namespace; then the counters.
_HEADER = struct.Struct("<8s4IqQQ4Q")
# Eight counters, memory, clock, device, tiles, chip, changes of the name, name.
_DEVICE = struct.Struct("<8QQdiI16sQ96s")
_FILE = re.compile(r"\d+-\d+-\d+\.usage")
_MOST_BYTES = 1 << 22
# How often a file is read again whose program changes meanwhile.
_ATTEMPTS = 5


@dataclass(frozen=True)
class DeviceUse:
    """One IPU of a process. Counters are totals since the process created its devices, as those of
    :func:`jax_ipu.counters`; `memory_bytes` is the SRAM of all tiles."""

    id: int
    chip: str
    tiles: int
    program: str  #: the name of the loaded program; "" before the first
    runs: int
    engine_loads: int
    cycles: int
    h2d_bytes: int
    d2h_bytes: int
    link_bytes: int
    bytes_in_use: int
    peak_bytes_in_use: int
    memory_bytes: int
    clock_hz: float


@dataclass(frozen=True)
class ProcessUse:
    """A process with IPUs, or one of its clients, if it has several."""

    pid: int
    start_ticks: int  #: clock ticks from the start of the machine to that of the process
    command: str  #: the command line; "" if the process has ended
    compilations: int
    compile_seconds: float
    compiling: int  #: compilations that are running
    programs: int  #: programs that are ready to run
    synthetic_data: bool
    devices: tuple[DeviceUse, ...]


def folders() -> list[Path]:
    """Where processes of this user publish their counters by default."""
    candidates = [Path(f"/run/user/{os.geteuid()}/jax_ipu"), *_candidates()]
    return list(dict.fromkeys(folder for folder in candidates if _is_own(folder)))


def _candidates() -> list[Path]:
    """The folders of which a process takes the first that is its user's alone; it makes it if it does not exist."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    shared = [Path(folder, f"jax_ipu-{os.geteuid()}") for folder in ("/dev/shm", "/tmp")]
    return [Path(runtime, "jax_ipu"), *shared] if runtime.startswith("/") else shared


def run_folder() -> Path | None:
    """Makes a folder for the processes that this one starts, in which :func:`running` sees them, too.

    Their counters stay there until the caller removes the folder. None if there is no place for it.
    """
    for folder in _candidates():
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            if _is_own(folder):
                own = folder / f"run-{os.getpid()}-{start_ticks(os.getpid())}"
                own.mkdir(mode=0o700)
                return own
        except OSError:
            continue
    return None


def _is_own(folder: Path) -> bool:
    try:
        info = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & 0o022


def running() -> list[ProcessUse]:
    """The running processes of this user that have IPUs, in the order of their pids.

    Removes the files of processes that ended without doing so. A process in another container is not seen.
    """
    namespace = os.stat("/proc/self/ns/pid").st_ino
    found = []
    for folder in folders():
        runs = _runs(folder)
        for path in (path for part in (folder, *runs) for path in _files(part)):
            if (read := _read(path)) is None or read[1] != namespace:
                continue
            use = read[0]
            if start_ticks(use.pid) == use.start_ticks:
                found.append(use)
            elif path.parent == folder:  # others are for the process that made their folder
                path.unlink(missing_ok=True)
    return sorted(found, key=lambda use: (use.pid, [device.id for device in use.devices]))


def _runs(folder: Path) -> list[Path]:
    """The folders that :func:`run_folder` made; removes those of processes that ended without doing so."""
    runs = []
    for path in folder.glob("run-*-*"):
        _, pid, start = path.name.split("-", 2)
        if pid.isdecimal() and str(start_ticks(int(pid))) == start:
            runs.append(path)
        elif not any(
            (read := _read(file)) and start_ticks(read[0].pid) == read[0].start_ticks for file in _files(path)
        ):
            shutil.rmtree(path, ignore_errors=True)
    return runs


def kept(folder: Path) -> list[ProcessUse]:
    """The processes that left their counters in a folder, as ``JAX_IPU_MONITOR=FOLDER`` asks for."""
    read = (_read(path) for path in _files(folder))
    return sorted((use for use, _ in filter(None, read)), key=lambda use: use.pid)


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since the machine did; None if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name, which may hold anything, is in parentheses; after it, the start is field 20.
    after_name = fields[fields.rindex(")") + 1 :].split()
    return None if after_name[0] in "ZX" else int(after_name[19])


def _files(folder: Path) -> Iterator[Path]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    yield from (folder / name for name in names if _FILE.fullmatch(name))


def _read(path: Path) -> tuple[ProcessUse, int] | None:
    """The contents of a file and its namespace of pids; None if it is no such file, or not this user's."""
    for _ in range(_ATTEMPTS):
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            info = os.fstat(file)
            if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid() or info.st_size > _MOST_BYTES:
                return None
            data, after = os.pread(file, info.st_size, 0), os.pread(file, info.st_size, 0)
        finally:
            os.close(file)
        parsed = _parse(data)
        if parsed is None or _changes(data) == _changes(after):
            return parsed
    return parsed


def _changes(data: bytes) -> list[int]:
    """How often the names of the programs changed; odd while one changes, and then different from any other."""
    numbers = [values[-2] for values in _DEVICE.iter_unpack(_devices(data))]
    return [number if number % 2 == 0 else -1 - position for position, number in enumerate(numbers)]


def _devices(data: bytes) -> bytes:
    count = _HEADER.unpack_from(data)[3]
    return data[_HEADER.size : _HEADER.size + count * _DEVICE.size]


def _parse(data: bytes) -> tuple[ProcessUse, int] | None:
    if len(data) < _HEADER.size:
        return None
    magic, header, device, count, synthetic, pid, start, namespace, compilations, nanoseconds, compiling, programs = (
        _HEADER.unpack_from(data)
    )
    if magic != _MAGIC or (header, device) != (_HEADER.size, _DEVICE.size) or len(data) < header + count * device:
        return None
    devices = []
    for values in _DEVICE.iter_unpack(_devices(data)):
        h2d, d2h, loads, runs, cycles, link, used, peak, memory, clock, number, tiles, chip, _, name = values
        devices.append(
            DeviceUse(
                id=number,
                chip=_text(chip),
                tiles=tiles,
                program=_text(name),
                runs=runs,
                engine_loads=loads,
                cycles=cycles,
                h2d_bytes=h2d,
                d2h_bytes=d2h,
                link_bytes=link,
                bytes_in_use=used,
                peak_bytes_in_use=peak,
                memory_bytes=memory,
                clock_hz=clock,
            )
        )
    use = ProcessUse(
        pid=pid,
        start_ticks=start,
        command=_command(pid),
        compilations=compilations,
        compile_seconds=nanoseconds / 1e9,
        compiling=compiling,
        programs=programs,
        synthetic_data=bool(synthetic),
        devices=tuple(devices),
    )
    return use, namespace


def _command(pid: int) -> str:
    try:
        return _printable(Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" "))
    except OSError:
        return ""


def _text(data: bytes) -> str:
    return _printable(data.split(b"\0", 1)[0])


def _printable(data: bytes) -> str:
    """Text without characters that change what a terminal does."""
    return "".join(c if c.isprintable() else "?" for c in data.decode(errors="replace"))
