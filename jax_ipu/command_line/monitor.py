"""``jax-ipu monitor``: a live view of the processes that use IPUs."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jax_ipu.command_line.arguments import add_command, add_json, positive
from jax_ipu.command_line.output import OK, coloured, print_json
from jax_ipu.command_line.usage import DeviceUse, ProcessUse, running
from jax_ipu.compiler.tables import Row, bytes_text, percent_text, text_table

_NONE = "no process of this user has IPUs"
_EXAMPLE = "jax-ipu monitor --json --interval 10 --count 6 > minute.json"
_NONE_ADVICE = "a process is seen from its first jax.devices('ipu') on, unless it has JAX_IPU_MONITOR=0"
# Totals of a device whose changes per second are shown.
_COUNTERS = ("runs", "cycles", "h2d_bytes", "d2h_bytes", "link_bytes")


def add_commands(commands: Any) -> None:
    """Adds the command to the parser."""
    text = "show the processes that use IPUs, and what they do, while they run; q or Ctrl-C ends it"
    monitor = add_command(commands, "monitor", text, ["jax-ipu monitor", "jax-ipu monitor --once", _EXAMPLE])
    monitor.add_argument("--once", action="store_true", help="print one measurement and end")
    monitor.add_argument("--interval", type=_seconds, default=1.0, metavar="SECONDS", help="between measurements (1)")
    monitor.add_argument("--count", type=positive, metavar="N", help="end after N measurements")
    add_json(monitor)
    monitor.set_defaults(run=_monitor)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.05 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0.05 to 3600")
    return value


class Measurement(NamedTuple):
    """The processes at a time, and the changes per second since the measurement before, in the order of the devices."""

    seconds: float
    processes: list[ProcessUse]
    rates: list[list[dict[str, float]]]


def measure(before: Measurement | None) -> Measurement:
    """What processes do now; the rates of those that were not there before are 0."""
    now, processes = time.monotonic(), running()
    old: dict[tuple[int, int, int], DeviceUse] = {}
    if before is not None:
        old = {(p.pid, p.start_ticks, d.id): d for p in before.processes for d in p.devices}

    def rate(process: ProcessUse, device: DeviceUse) -> dict[str, float]:
        last = old.get((process.pid, process.start_ticks, device.id))
        if last is None or before is None:
            return dict.fromkeys(_COUNTERS, 0.0)
        passed = max(now - before.seconds, 1e-9)
        return {name: max(0, getattr(device, name) - getattr(last, name)) / passed for name in _COUNTERS}

    return Measurement(now, processes, [[rate(p, d) for d in p.devices] for p in processes])


def as_dict(measurement: Measurement) -> dict[str, Any]:
    """A measurement as JSON has it."""
    processes = []
    for process, rates in zip(measurement.processes, measurement.rates, strict=True):
        fields = {**dataclasses.asdict(process), "uptime_seconds": _uptime(process)}
        del fields["start_ticks"]
        for device, rate in zip(fields["devices"], rates, strict=True):
            device.update({f"{name}_per_second": value for name, value in rate.items()})
        processes.append(fields)
    return {"processes": processes}


def lines(measurement: Measurement) -> list[str]:
    """The tables of IPUs and of processes; their headers are the first lines after an empty one."""
    if not measurement.processes:
        return ["", _NONE, _NONE_ADVICE]
    ipus: list[Row] = [("PID", "IPU", "chip", "program", "runs/s", "in", "out", "IPU-Links", "cycles/s", "SRAM", "")]
    rows: list[Row] = [("PID", "running", "programs", "compiled", "command")]
    for process, rates in zip(measurement.processes, measurement.rates, strict=True):
        for device, rate in zip(process.devices, rates, strict=True):
            ipus.append(
                (
                    str(process.pid),
                    str(device.id),
                    f"{device.chip}:{device.tiles}",
                    _cut(device.program, 32),
                    f"{rate['runs']:,.1f}",
                    f"{bytes_text(rate['h2d_bytes'])}/s",
                    f"{bytes_text(rate['d2h_bytes'])}/s",
                    f"{bytes_text(rate['link_bytes'])}/s",
                    f"{rate['cycles']:,.0f}",
                    bytes_text(device.bytes_in_use),
                    percent_text(device.bytes_in_use, device.memory_bytes),
                )
            )
        compiled = f"{process.compilations} in {process.compile_seconds:.1f} s"
        compiled += f", {process.compiling} running" if process.compiling else ""
        command = process.command + ("  (synthetic data)" if process.synthetic_data else "")
        rows.append((str(process.pid), _time(_uptime(process)), str(process.programs), compiled, command))
    return ["", *text_table(ipus, left=(2, 3)), "", *text_table(rows, left=(3, 4))]


def _uptime(process: ProcessUse) -> float:
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    return max(0.0, since_boot - process.start_ticks / os.sysconf("SC_CLK_TCK"))


def _time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _monitor(options: argparse.Namespace) -> int:
    count = 1 if options.once or (options.json and options.count is None) else options.count
    try:
        if options.json or count is not None or not (sys.stdout.isatty() and sys.stdin.isatty()):
            _print(options, count)
        else:
            _show(options.interval)
    except KeyboardInterrupt:  # how a live view is ended
        pass
    return OK


def _print(options: argparse.Namespace, count: int | None) -> None:
    """Measurements as text, or as JSON documents, one after the other."""
    before = measure(None)
    while count is None or count > 0:
        if before.processes or count != 1:  # no rates without processes
            time.sleep(options.interval)
        before = measure(before)
        if options.json:
            print_json(as_dict(before))
        else:
            _print_table(before)
        sys.stdout.flush()
        count = None if count is None else count - 1


def _print_table(measurement: Measurement) -> None:
    empty, *rest = lines(measurement)
    print(time.strftime("%H:%M:%S"))
    header = True
    for line in rest:
        print(coloured(line, "bold") if header and measurement.processes else line)
        header = line == empty
    print()


def _show(interval: float) -> None:
    """The live view; where the terminal cannot move its cursor, one table after the other."""
    try:
        import curses

        curses.setupterm()
        if not curses.tigetstr("cup"):
            raise curses.error("the terminal cannot move its cursor")
    except (ImportError, curses.error):
        _print(argparse.Namespace(json=False, interval=interval), None)
        return
    for variable in ("LINES", "COLUMNS"):  # with these, curses would not follow the size of the terminal
        os.environ.pop(variable, None)
    curses.wrapper(lambda screen: _View(screen, interval).run())


class _View:
    """The tables on a screen of curses. Keys: q ends it, arrows and page keys scroll."""

    def __init__(self, screen: Any, interval: float) -> None:
        import curses

        self._curses = curses
        self._screen = screen
        self._interval = interval
        self._top = self._left = 0
        try:
            curses.curs_set(0)
        except curses.error:  # the terminal always shows its cursor
            pass

    def run(self) -> None:
        measurement = measure(None)
        following = time.monotonic() + min(self._interval, 0.2)  # the first rates come soon
        while True:
            self._draw(lines(measurement))
            self._screen.timeout(max(0, round(1000 * (following - time.monotonic()))))
            key = self._screen.getch()
            if key in (ord("q"), ord("Q")):
                return
            self._scroll(key)
            if time.monotonic() >= following:
                measurement = measure(measurement)
                following = time.monotonic() + self._interval

    def _scroll(self, key: int) -> None:
        curses, (height, width) = self._curses, self._screen.getmaxyx()
        steps: dict[int, Callable[[], tuple[int, int]]] = {
            curses.KEY_UP: lambda: (-1, 0),
            curses.KEY_DOWN: lambda: (1, 0),
            curses.KEY_PPAGE: lambda: (-height // 2, 0),
            curses.KEY_NPAGE: lambda: (height // 2, 0),
            curses.KEY_LEFT: lambda: (0, -width // 2),
            curses.KEY_RIGHT: lambda: (0, width // 2),
        }
        down, right = steps.get(key, lambda: (0, 0))()
        self._top, self._left = max(0, self._top + down), max(0, self._left + right)

    def _draw(self, text: Sequence[str]) -> None:
        curses, screen = self._curses, self._screen
        height, width = screen.getmaxyx()
        self._top = max(0, min(self._top, len(text) + 1 - height))
        self._left = max(0, min(self._left, max(map(len, text)) - width + 1))
        screen.erase()
        title = f"jax-ipu monitor  {time.strftime('%H:%M:%S')}  every {self._interval:g} s  q: end"
        self._line(0, title, curses.A_REVERSE)
        header = False
        for number, line in enumerate(text):
            if number >= self._top:
                self._line(1 + number - self._top, line[self._left :], curses.A_BOLD if header else 0)
            header = line == ""
        screen.refresh()

    def _line(self, y: int, text: str, attribute: int) -> None:
        height, width = self._screen.getmaxyx()
        if y < height and width > 1:
            try:
                self._screen.addnstr(y, 0, text, width - 1, attribute)
            except self._curses.error:  # the terminal became smaller meanwhile
                pass
