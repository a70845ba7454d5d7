"""``jax-ipu doctor``: finds what is wrong with an installation, and says what to do."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import operator
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from jax_ipu import environment
from jax_ipu.command_line.arguments import add_command, add_json
from jax_ipu.command_line.info import version_of
from jax_ipu.command_line.output import NO, OK, coloured, print_json
from jax_ipu.config import Config, config

_PLATFORM = "ipu"
_OK, _WARNING, _ERROR = "ok", "warning", "error"
_COLOURS = {_OK: "green", _WARNING: "yellow", _ERROR: "red"}
_SECONDS = 120
# Name and versions in a line of a package's requirements, e.g. "jax<0.13,>=0.10".
_REQUIREMENT = re.compile(r"([\w.-]+)\s*\(?([^;)]*)")
# The interpreter that compiles for processes without Python.
_COMPILER = "JAX_IPU_PYTHON"
# Prints "works" when a program was compiled and run, and gave the right result.
_PROGRAM = (
    "import jax, numpy as np\n"
    "device = jax.devices('ipu')[0]\n"
    "x = jax.device_put(np.arange(8, dtype=np.float32), device)\n"
    "assert float(jax.jit(lambda x: (x * x).sum())(x)) == 140.0\n"
    "print('works')\n"
)


class Finding(NamedTuple):
    """The result of one check: "ok", "warning" or "error", what was found, and what to do, or ""."""

    state: str
    what: str
    action: str = ""


def add_commands(commands: Any) -> None:
    """Adds the command to the parser."""
    text = "find what is wrong with an installation, and say what to do"
    doctor = add_command(commands, "doctor", text, ["jax-ipu doctor"])
    add_json(doctor)
    doctor.set_defaults(run=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    findings = [finding for check in CHECKS for finding in check()]
    if options.json:
        print_json([finding._asdict() for finding in findings])
    else:
        for state, what, action in findings:
            print(f"{coloured(state.rjust(7), _COLOURS[state])}  {what}")
            if action:
                print(f"         {action}")
    return NO if any(finding.state == _ERROR for finding in findings) else OK


def check_versions() -> Iterator[Finding]:
    """The versions of JAX and jaxlib, against those that jax_ipu and JAX ask for."""
    if version_of("jax_ipu") is None:
        yield Finding(
            _WARNING,
            "jax_ipu is imported but not installed, so JAX does not find its platform by itself",
            "install it: pip install jax_ipu-*.whl, or pip install . in the checkout",
        )
    for package in ("jax", "jaxlib"):
        found = version_of(package)
        if found is None:
            yield Finding(_ERROR, f"{package} is not installed", "pip install jax")
            continue
        wrong = [
            Finding(_ERROR, f"{package} {found} does not work with {other}", f"pip install '{package}{specifier}'")
            for other in ("jax_ipu", "jax")
            if not satisfies(found, specifier := _wanted(other, package))
        ]
        yield from wrong or [Finding(_OK, f"{package} {found}")]


def _wanted(package: str, other: str) -> str:
    """The versions of another package that an installed one asks for, such as "<0.13,>=0.10"; "" for any."""
    try:
        lines = importlib.metadata.requires(package) or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    for line in lines:
        match = _REQUIREMENT.match(line)
        if match is not None and match[1] == other and "extra" not in line:
            return match[2].strip()
    return ""


def satisfies(version: str, specifier: str) -> bool:
    """Whether a version is within the bounds of a specifier such as ">=0.10,<0.13"; other operators are ignored."""

    def key(text: str) -> tuple[int, ...]:
        return tuple(int(part) for part in re.findall(r"\d+", text)[:3])

    known = {">=": operator.ge, "<=": operator.le, "<": operator.lt, ">": operator.gt}
    bounds = re.findall(r"(<=|>=|<|>)\s*([\d.]+)", specifier)
    return all(known[sign](key(version), key(bound)) for sign, bound in bounds)


def check_library() -> Iterator[Finding]:
    """The extension module, and the library beside it."""
    try:
        native: Any = importlib.import_module("jax_ipu._ipu")
    except ImportError as error:
        yield Finding(
            _ERROR,
            f"the extension module does not load in Python {sys.version_info.major}.{sys.version_info.minor}: {error}",
            "install the wheel for this Python: pip install --force-reinstall jax_ipu-*.whl",
        )
        return
    package, library = Path(native.__file__).parent, Path(native.library_path())
    if library.resolve().parent != package.resolve():
        yield Finding(
            _ERROR,
            f"the extension module is in {package}, but the library that it uses is {library}",
            "one process has two versions: remove LD_PRELOAD and LD_LIBRARY_PATH, and install jax_ipu again",
        )
    else:
        yield Finding(_OK, f"library {library}")


def check_packages() -> Iterator[Finding]:
    """Other copies of this package."""
    import jax_ipu

    used = Path(str(jax_ipu.__file__)).resolve().parent
    folders = {Path(entry or ".").resolve() / "jax_ipu" for entry in sys.path}
    others = sorted(f for f in folders if (f / "__init__.py").is_file() and f.resolve() != used)
    for other in others:
        yield Finding(
            _WARNING,
            f"jax_ipu is used from {used}; there is another one in {other}",
            "uninstall one, or start Python in another folder",
        )


def check_plugins() -> Iterator[Finding]:
    """Other plugins for the same platform: JAX loads each of them, and the last one wins."""
    found: dict[str, str] = {}
    for point in importlib.metadata.entry_points(group="jax_plugins"):
        if point.name == _PLATFORM:
            found.setdefault(point.value, point.dist.name if point.dist is not None else "an unknown package")
    spec = importlib.util.find_spec("jax_plugins")
    for module in pkgutil.iter_modules(spec.submodule_search_locations if spec is not None else None):
        if spec is not None and _PLATFORM in re.split(r"\W|_", module.name):
            found[f"jax_plugins.{module.name}"] = "the namespace package jax_plugins"
    others = {value: where for value, where in found.items() if value != "jax_ipu.plugin"}
    if "jax_ipu.plugin" not in found:
        yield Finding(
            _ERROR,
            "JAX does not find the platform: there is no entry point jax_plugins of jax_ipu",
            "install the package: pip install jax_ipu-*.whl, or pip install . in the checkout",
        )
    for value, where in others.items():
        yield Finding(_ERROR, f"there is another plugin for {_PLATFORM}: {value} of {where}", "uninstall one of them")
    if found.keys() == {"jax_ipu.plugin"}:
        yield Finding(_OK, "JAX finds the platform")


def check_configuration() -> Iterator[Finding]:
    """The environment variables."""
    try:
        config.sources()
    except ValueError as error:
        yield Finding(_ERROR, f"the configuration is not valid: {error}", "docs/environment.md has the valid values")
    else:
        if not config.use_model:
            yield Finding(
                _ERROR, "JAX_IPU_USE_MODEL is false, but this build has no Poplar SDK", "unset JAX_IPU_USE_MODEL"
            )
    try:
        for line in environment.without_effect(os.environ, Config.variables()):
            yield Finding(_WARNING, f"an environment variable has no effect: {line}")
    except ValueError as error:
        yield Finding(_ERROR, f"the configuration is not valid: {error}", "docs/environment.md has the valid values")
    platforms = [p.strip() for p in os.environ.get("JAX_PLATFORMS", "").split(",") if p.strip()]
    if platforms and _PLATFORM not in platforms:
        yield Finding(
            _WARNING,
            f"JAX_PLATFORMS={','.join(platforms)} hides the platform {_PLATFORM}",
            f"unset it, or JAX_PLATFORMS={','.join([*platforms, _PLATFORM])}",
        )


def check_cache() -> Iterator[Finding]:
    """The persistent compilation cache."""
    folder = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    if not folder:
        return
    if Path(folder).exists() and not Path(folder).is_dir():
        yield Finding(_WARNING, f"the compilation cache {folder} is no folder", "choose another name")
        return
    if not os.access(folder, os.W_OK) and Path(folder).exists():
        yield Finding(_WARNING, f"the compilation cache {folder} cannot be written", "choose another folder")
        return
    from jax_ipu.integration.compilation_cache import DAMAGED, STALE, entries

    states = [entry.state for entry in entries(Path(folder))]
    for state, what in ((STALE, "that another release wrote"), (DAMAGED, "with damage, which JAX warns about")):
        if number := states.count(state):
            counted = "1 entry" if number == 1 else f"{number} entries"
            yield Finding(
                _WARNING, f"the compilation cache {folder} has {counted} {what}", "jax-ipu cache clear --stale"
            )
    if not any(states):
        yield Finding(_OK, f"compilation cache {folder}")


def check_compiler() -> Iterator[Finding]:
    """The interpreter that is named for clients in other languages."""
    python = os.environ.get(_COMPILER)
    if not python:
        return
    # -P, as for the compile server: the working directory does not count.
    command = [python, "-P", "-c", "import jax_ipu.compile_server, jax_ipu.compiler.api"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding(_ERROR, f"{_COMPILER}={python} cannot be run: {error}", "name a Python with jax_ipu, or unset it")
        return
    if done.returncode != 0:
        yield Finding(
            _ERROR,
            f"{_COMPILER}={python} has no compiler: {_last_line(done.stderr)}",
            "install jax_ipu there, or unset the variable",
        )
    else:
        yield Finding(_OK, f"{python} compiles for clients in other languages")


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "no message")


def check_program() -> Iterator[Finding]:
    """Compiles and runs a program in a new process, with the default platforms."""
    environ = {name: value for name, value in os.environ.items() if name != "JAX_PLATFORMS"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=_SECONDS, env=environ
        )
    except subprocess.TimeoutExpired:
        yield Finding(_ERROR, f"a small program did not end within {_SECONDS} s", "report it, with the output of info")
        return
    if done.returncode == 0 and done.stdout.strip().endswith("works"):
        yield Finding(_OK, "a program was compiled and run on the platform")
        return
    how = f"was ended by signal {-done.returncode}" if done.returncode < 0 else "failed"
    yield Finding(
        _ERROR,
        f"a program {how}: {_last_line(done.stderr)}",
        "docs/troubleshooting.md lists messages, each with what to do",
    )


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    check_versions,
    check_library,
    check_packages,
    check_plugins,
    check_configuration,
    check_cache,
    check_compiler,
    check_program,
)
