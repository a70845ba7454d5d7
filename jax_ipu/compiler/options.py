"""Options of a compilation: `jax.jit(f, compiler_options={"ipu_available_memory_proportion": 0.3})`."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Mapping
from typing import NamedTuple

from jax_ipu import names
from jax_ipu.compiler import xla_options
from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError
from jax_ipu.compiler.proto import message, proto_fields

MAPPINGS = ("demand", "apart", "balanced", "products", "linear")
PARTIALS_TYPES = ("float", "half")
OUTLINING = ("memory", "always", "never")
FITTING = ("on", "off")
# Field of xla.CompileOptionsProto: map<string, OptionOverrideProto> env_option_overrides.
_OVERRIDES_FIELD = 7
# Fields of OptionOverrideProto.
_STRING_FIELD, _BOOL_FIELD, _INT_FIELD, _DOUBLE_FIELD = 1, 2, 3, 4
_PREFIX = "ipu_"
# Options of XLA's compiler have no effect, but are accepted: programs may run on other platforms, too.
_XLA_PREFIX = "xla_"
_XLA_OPTIONS = frozenset(
    ("exec_time_optimization_effort", "memory_fitting_effort", "memory_fitting_level", "optimization_level")
)


class Options(NamedTuple):
    """The options of a compilation. Each field is a compiler option with the prefix ``ipu_``."""

    # Which ops decide the tile mapping: "demand": all that have a wish, "apart": as well, but what a slice wants on one
    # tile has a tile of its own, "balanced": as well, and what ops wish starts on the tiles that have room, "products":
    # only products and convolutions, "linear": none, all tensors are mapped linearly.
    mapping: str = "demand"
    available_memory_proportion: float = 0.6  # of the memory of a tile, for temporaries of a product
    outline: str = "memory"  # outline repeated blocks: if it does not fit otherwise, "always", "never"
    # What the ops of a function of repeated blocks must be worth together, as PopART counts: see passes/outline.py.
    outline_threshold: float = 1.0
    partials_type: str = "float"  # of the partial sums of f16 products and convolutions, or "half"
    # How long to try what makes a program fit that does not, for the error message.
    advice_seconds: float = 20.0
    # A folder of tools/build_poplibs: operations come from Graphcore's PopLibs where that has them.
    poplibs: str = ""
    # Programs of one name share an engine when one takes arrays from the variables of the other: see linking.py.
    link: str = ""
    fit: str = "on"  # save memory for cycles where the program does not fit otherwise, or "off"
    io_tiles: int = 0  # tiles on which nothing computes: what loops read from host memory arrives there
    # Not of users, and the last: base64 of a serialised executable, loaded instead of compiling.
    executable: str = ""

    def planning(self) -> dict[str, str]:
        """The options of PopLibs's planner of matrix products and convolutions."""
        return {
            "availableMemoryProportion": repr(self.available_memory_proportion),
            "partialsType": self.partials_type,
        }


@functools.lru_cache(maxsize=64)
def compile_options(serialized: bytes) -> Options:
    """Reads the options from a serialised xla.CompileOptionsProto; options of XLA's compiler have no effect.

    Raises:
        CompileError: an option does not exist, or a value is not valid (INVALID_ARGUMENT).
    """
    values: dict[str, str] = {}
    for field, value in proto_fields(serialized):
        if field != _OVERRIDES_FIELD or not isinstance(value, bytes):
            continue
        entry = dict(proto_fields(value))
        key, override = entry.get(1, b""), entry.get(2, b"")
        if isinstance(key, bytes) and isinstance(override, bytes):
            name = key.decode(errors="replace")
            if name.startswith(_XLA_PREFIX):
                xla_options.check(name, _value(override))
            elif name not in _XLA_OPTIONS:
                _check_name(name)
                values[name.removeprefix(_PREFIX)] = _text(override)
    defaults = Options()
    return Options(
        _choice("mapping", values.get("mapping", defaults.mapping), MAPPINGS),
        _proportion(values.get("available_memory_proportion", repr(defaults.available_memory_proportion))),
        _choice("outline", values.get("outline", defaults.outline), OUTLINING),
        _threshold(values.get("outline_threshold", repr(defaults.outline_threshold))),
        _choice("partials_type", values.get("partials_type", defaults.partials_type), PARTIALS_TYPES),
        _seconds(values.get("advice_seconds", repr(defaults.advice_seconds))),
        values.get("poplibs", defaults.poplibs),
        values.get("link", defaults.link),
        _choice("fit", values.get("fit", defaults.fit), FITTING),
        _tiles(values.get("io_tiles", str(defaults.io_tiles))),
        values.get("executable", defaults.executable),
    )


def _check_name(name: str) -> None:
    *known, own = (_PREFIX + field for field in Options._fields)
    if name not in (*known, own):
        meant = names.nearest(name, known)
        hint = f"Did you mean {meant}? " if meant else ""
        raise CompileError(
            f"No such compile option: {name!r}. {hint}There are {', '.join(known)}; those of XLA, {_XLA_PREFIX}*, are"
            " accepted and have no effect on IPU.",
            INVALID_ARGUMENT,
        )


def serialize_options(values: Mapping[str, str | float]) -> bytes:
    """A serialised xla.CompileOptionsProto with these options, as JAX makes of `compiler_options`."""
    return b"".join(message(_OVERRIDES_FIELD, _override(name, value)) for name, value in values.items())


def _override(name: str, value: str | float) -> bytes:
    if isinstance(value, str):
        override = message(_STRING_FIELD, value.encode())
    else:
        override = bytes([_DOUBLE_FIELD << 3 | 1]) + struct.pack("<d", value)
    return message(1, name.encode()) + message(2, override)


def _choice(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise CompileError(
            f"compiler option {_PREFIX}{name}={value!r} is not valid; use one of {', '.join(known)}", INVALID_ARGUMENT
        )
    return value


def _proportion(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise CompileError(
            f"compiler option {_PREFIX}available_memory_proportion={text} is not valid; use a number above 0 and at "
            "most 1",
            INVALID_ARGUMENT,
        )
    return value


def _threshold(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not math.isfinite(value):
        raise CompileError(
            f"compiler option {_PREFIX}outline_threshold={text} is not valid; use a number, and"
            f" {_PREFIX}outline=never for no functions",
            INVALID_ARGUMENT,
        )
    return value


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise CompileError(
            f"compiler option {_PREFIX}advice_seconds={text} is not valid; use a number of seconds, 0 for no trials",
            INVALID_ARGUMENT,
        )
    return value


def _tiles(text: str) -> int:
    if not text.isdecimal():
        raise CompileError(
            f"compiler option {_PREFIX}io_tiles={text} is not valid; use a number of tiles, 0 for none",
            INVALID_ARGUMENT,
        )
    return int(text)


def _value(override: bytes) -> str | bool | int | float:
    """The value of an OptionOverrideProto."""
    for field, value in proto_fields(override):
        if field == _STRING_FIELD and isinstance(value, bytes):
            return value.decode(errors="replace")
        if field == _DOUBLE_FIELD and isinstance(value, bytes) and len(value) == 8:
            return float(struct.unpack("<d", value)[0])
        if field == _BOOL_FIELD:
            return bool(value)
        if field == _INT_FIELD and isinstance(value, int):
            return value - (value >> 63 << 64)
    return ""


def _text(override: bytes) -> str:
    """The value of an OptionOverrideProto as text."""
    return str(_value(override))
