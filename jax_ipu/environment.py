"""Environment variables that seem to affect the ``ipu`` platform but do not.

These are the variables of Graphcore's SDK and of its versions of frameworks, and misspelled variables of this package.
docs/environment.md has the same table.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping

OWN_PREFIX = "JAX_IPU_"

_NOTHING = "nothing replaces it"
_CACHE = "use JAX_COMPILATION_CACHE_DIR"
_REPORTS = "use jax_ipu.debug.profile, jax_ipu.debug.tile_map and compiled.memory_analysis()"
_MODEL = "nothing is needed: programs run on the IPU model unless JAX_IPU_USE_MODEL=0"
_OPTIONS = "use the compiler options ipu_* of jax.jit, see docs/environment.md"
_ALWAYS_FREE = "nothing is needed: the IPUs of the model are always free"

# Pattern of the whole name -> what to use instead. The first match applies.
INSTEAD: tuple[tuple[str, str], ...] = (
    ("JAX_IPU_NUM_TILES", "use JAX_IPU_MODEL_NUM_TILES"),
    ("JAX_IPU_USE_LEGACY_CLIENT", "nothing is needed: there is one client"),
    ("XLA_IPU_PLATFORM_DEVICE_COUNT", "use JAX_IPU_DEVICE_COUNT"),
    ("XLA_IPU_PLATFORM_.*", _NOTHING),
    ("POPLAR_ENGINE_OPTIONS", f"for reports {_REPORTS}; else {_OPTIONS}"),
    ("POPLAR_TARGET_OPTIONS", "use JAX_IPU_MODEL_VERSION and JAX_IPU_MODEL_NUM_TILES"),
    ("POP(LAR|LIBS|TORCH|ART)_(.*_)?LOG_(LEVEL|DEST)", _REPORTS),
    ("POP(LAR|LIBS)_.*", _NOTHING),
    ("POP(TORCH|ART)_CACHE_DIR", _CACHE),
    ("POPTORCH_(USE_)?IPU_MODEL", _MODEL),
    ("POPTORCH_WAIT_FOR_IPU", _ALWAYS_FREE),
    ("POPTORCH_.*", "for PyTorch models use jax_ipu.GraphCoreManager, see docs/graphcore_manager.md"),
    ("POPART_.*", "for ONNX models use jax_ipu.GraphCoreManager, see docs/graphcore_manager.md"),
)
# The same for flags in TF_POPLAR_FLAGS.
TF_POPLAR_FLAGS = "TF_POPLAR_FLAGS"
INSTEAD_OF_FLAGS: tuple[tuple[str, str], ...] = (
    ("use_ipu_model", _MODEL),
    ("ipu_model_tiles", "use JAX_IPU_MODEL_NUM_TILES"),
    ("executable_cache_path", _CACHE),
    ("use_synthetic_data|synthetic_data_.*", "make the data on the device, with jax.random"),
    ("log_cycle_count", "use jax_ipu.counters(device).cycles"),
    ("tensor_map_file_path", "use jax_ipu.debug.tile_map"),
    ("dump_schedule_as_dot", "use XLA_FLAGS=--xla_dump_to=FOLDER"),
    ("show_progress_bar", "nothing is needed: a terminal shows what a long compilation does"),
    ("on_demand_device_.*", _ALWAYS_FREE),
    (".*", _NOTHING),
)
# These have an effect on other processes only: docs/clients.md.
_OF_OTHER_CLIENTS = ("JAX_IPU_PYTHON",)
# Set by the activation script of the SDK, not by the user: no warning.
_SDK = re.compile("POP(LAR|LIBS|TORCH|ART)(_SDK)?_(ENABLED|ROOT|HOME|PATH|DIR|VERSION)")


def without_effect(environ: Mapping[str, str], known: Iterable[str]) -> list[str]:
    """Returns a line for each variable that is set and has no effect: its name, and what to use instead.

    Args:
        environ: the environment.
        known: the names that have an effect.
    """
    known = sorted(known)
    return [line for name in sorted(environ) if environ[name] for line in _lines(name, environ[name], known)]


def _lines(name: str, value: str, known: list[str]) -> Iterator[str]:
    if name in known or name in _OF_OTHER_CLIENTS or _SDK.fullmatch(name):
        return
    if name == TF_POPLAR_FLAGS:
        for flag in re.findall(r"--(\w+)", value) or [""]:
            yield f"{name}{f' (--{flag})' if flag else ''}: {_instead(flag, INSTEAD_OF_FLAGS)}"
    elif (instead := _instead(name, INSTEAD)) is not None:
        yield f"{name}: {instead}"
    elif name.startswith(OWN_PREFIX):
        close = difflib.get_close_matches(name, known, 1)
        yield f"{name}: " + (f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}")


def _instead(name: str, table: tuple[tuple[str, str], ...]) -> str | None:
    return next((instead for pattern, instead in table if re.fullmatch(pattern, name)), None)
