"""XLA's options for dumps of programs (``xla_dump_to``), from ``compiler_options`` or from ``XLA_FLAGS``."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jax_ipu.integration.tracebacks import unseen

PLATFORM = "ipu"


@dataclass(frozen=True)
class DumpOptions:
    """Folder and formats of dumps. Without a format a dump is text, as in XLA."""

    folder: str
    as_text: bool
    as_proto: bool

    @classmethod
    def read(cls, compile_options: Any) -> DumpOptions:
        """Reads a ``CompileOptions`` of jaxlib: options of a program take precedence over the process's flags."""
        overrides = dict(compile_options.env_option_overrides)
        flags = compile_options.executable_build_options.debug_options
        folder, text, proto = (
            overrides.get(name, getattr(flags, name))
            for name in ("xla_dump_to", "xla_dump_hlo_as_text", "xla_dump_hlo_as_proto")
        )
        return cls(folder, text or not proto, proto)


def enable() -> None:
    """Dumps the optimised program of each executable, compiled or cached, when the options ask for it."""
    from jax._src import compiler

    compile_or_get_cached: Any = compiler.compile_or_get_cached
    numbers = itertools.count()

    @unseen
    def compile_and_dump(backend: Any, computation: Any, devices: Any, options: Any, *rest: Any) -> Any:
        executable = compile_or_get_cached(backend, computation, devices, options, *rest)
        if backend.platform == PLATFORM and (dump := DumpOptions.read(options)).folder:
            _write(executable, dump, next(numbers))
        return executable

    replacement: Any = compile_and_dump
    compiler.compile_or_get_cached = replacement


def _write(executable: Any, options: DumpOptions, number: int) -> None:
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    for module in executable.hlo_modules():
        stem = f"module_{number:04}.{module.name}.{PLATFORM}_after_optimizations"
        if options.as_text:
            (folder / f"{stem}.txt").write_text(module.to_string())
        if options.as_proto:
            (folder / f"{stem}.hlo.pb").write_bytes(module.as_serialized_hlo_module_proto())
