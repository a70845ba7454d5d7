"""``jax-ipu info`` and ``jax-ipu library-path``: versions, configuration, and the table of chips."""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
from typing import Any

from jax_ipu.chips import chip_names
from jax_ipu.command_line.arguments import add_command, add_json
from jax_ipu.command_line.output import OK, coloured, print_json
from jax_ipu.compiler.tables import bytes_text, text_table
from jax_ipu.config import config
from jax_ipu.version import __version__

# Packages whose versions matter here.
_PACKAGES = ("jax", "jaxlib", "numpy")


def add_commands(commands: Any) -> None:
    """Adds the commands to the parser."""
    text = "show versions, the configuration, and what is known of each chip"
    info = add_command(commands, "info", text, ["jax-ipu info", "jax-ipu info --json"])
    add_json(info)
    info.set_defaults(run=_info)
    text = "print the path of libpjrt_ipu.so, the PJRT plugin"
    path = add_command(commands, "library-path", text, ["jax-ipu library-path"])
    add_json(path)
    path.set_defaults(run=_library_path)


def _library_path(options: argparse.Namespace) -> int:
    from jax_ipu import _ipu

    print_json({"library_path": _ipu.library_path()}) if options.json else print(_ipu.library_path())
    return OK


def version_of(package: str) -> str | None:
    """The version of an installed package, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def chips() -> dict[str, dict[str, float]]:
    """What the IPU model knows of each chip."""
    from jax_ipu import _ipu

    table = {}
    for version in chip_names():
        chip = _ipu.Target(version)
        table[version] = {
            "tiles": chip.num_tiles,
            "bytes_per_tile": chip.bytes_per_tile,
            "bytes": chip.num_tiles * chip.bytes_per_tile,
            "worker_threads_per_tile": chip.num_worker_contexts,
            "clock_hz": chip.tile_clock_frequency,
            "peak_f16_flops_per_second": chip.peak_flops,
            "exchange_bytes_per_second": chip.num_tiles * chip.exchange_bytes_per_cycle * chip.tile_clock_frequency,
            "ipu_link_bytes_per_second": chip.ipu_link_bytes_per_second,
            "host_link_bytes_per_second": chip.host_link_bytes_per_second,
        }
    return table


def _info(options: argparse.Namespace) -> int:
    from jax_ipu import _ipu

    sources, error = {}, None
    try:
        sources = config.sources()
    except ValueError as invalid:
        error = str(invalid)
    versions = {"jax_ipu": __version__, "python": platform.python_version()}
    versions |= {package: version_of(package) or "not installed" for package in _PACKAGES}
    configured = None if error else _ipu.Target(config.model_version, config.model_num_tiles)
    devices = (
        [
            {"id": number, "chip": configured.version, "tiles": configured.num_tiles, "modelled": config.use_model}
            for number in config.device_ids()
        ]
        if configured is not None
        else []
    )
    facts = {
        "versions": versions,
        "library_path": _ipu.library_path(),
        "host_kernels": _ipu.host_kernels(),
        "devices": devices,
        "configuration": {name: {"value": value, "source": source} for name, (value, source) in sources.items()},
        "configuration_error": error,
        "chips": chips(),
    }
    if options.json:
        print_json(facts)
    else:
        _print(facts)
    return OK


def _print(facts: dict[str, Any]) -> None:
    kernels = facts["host_kernels"]
    rows = [*facts["versions"].items(), ("library", facts["library_path"])]
    rows.append(("host kernels", f"{kernels['isa']}, {kernels['threads']} threads"))
    print("\n".join(text_table(rows, left=(0, 1))))
    if facts["configuration_error"] is not None:
        print(coloured(f"\nthe configuration is not valid: {facts['configuration_error']}", "red"))
    else:
        options = [(name, str(o["value"]), o["source"]) for name, o in facts["configuration"].items()]
        rows = [("option", "value", "from"), *options]
        print("\n" + "\n".join(text_table(rows, left=(0, 1, 2))))
        devices = [(str(d["id"]), d["chip"], str(d["tiles"]), "model") for d in facts["devices"]]
        print("\n" + "\n".join(text_table([("IPU", "chip", "tiles", ""), *devices], left=(1, 3))))
    header = ("chip", "tiles", "per tile", "SRAM", "clock", "f16 peak", "exchange", "IPU-Link", "host link")
    rows = [header]
    for name, chip in facts["chips"].items():
        rows.append(
            (
                name,
                str(chip["tiles"]),
                bytes_text(chip["bytes_per_tile"]),
                bytes_text(chip["bytes"]),
                f"{chip['clock_hz'] / 1e9:.3f} GHz",
                f"{chip['peak_f16_flops_per_second'] / 1e12:.0f} TFLOP/s",
                f"{chip['exchange_bytes_per_second'] / 1e12:.1f} TB/s",
                f"{chip['ipu_link_bytes_per_second'] / 1e9:.0f} GB/s",
                f"{chip['host_link_bytes_per_second'] / 1e9:.1f} GB/s",
            )
        )
    print("\n" + "\n".join(text_table(rows)))
