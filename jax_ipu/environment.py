"""Environment variables that seem to affect the ``ipu`` platform but do not.

These are the variables of Graphcore's SDK and of its versions of frameworks, and misspelled variables of this package.
docs/environment.md has the same table.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping

from jax_ipu import names

logger = logging.getLogger(__name__)

OWN_PREFIX = "JAX_IPU_"

_NOTHING = "nothing replaces it"
_CACHE = "use JAX_COMPILATION_CACHE_DIR"
_AUTO_REPORT = "use autoReport.all and autoReport.directory, or JAX_IPU_REPORT_DIR"
_REPORTS = "use jax_ipu.debug.profile, jax_ipu.debug.tile_map and compiled.memory_analysis()"
_MODEL = "nothing is needed: programs run on the IPU model unless JAX_IPU_USE_MODEL=0"
_OPTIONS = "use the compiler options ipu_* of jax.jit, see docs/environment.md"
_KNOWN = "the model knows the cycles of every step, see jax_ipu.report"
_ALWAYS_FREE = "nothing is needed: the IPUs of the model are always free"

# Pattern of the whole name -> what to use instead. The first match applies.
INSTEAD: tuple[tuple[str, str], ...] = (
    ("JAX_IPU_NUM_TILES", "use JAX_IPU_MODEL_NUM_TILES"),
    ("JAX_IPU_USE_LEGACY_CLIENT", "nothing is needed: there is one client"),
    ("XLA_IPU_PLATFORM_DEVICE_COUNT", "use JAX_IPU_DEVICE_COUNT"),
    ("XLA_IPU_PLATFORM_.*", _NOTHING),
    ("POPLAR_TARGET_OPTIONS", "use JAX_IPU_MODEL_VERSION and JAX_IPU_MODEL_NUM_TILES"),
    ("POP(TORCH|ART)_LOG_(LEVEL|DEST)", "use POPLAR_LOG_LEVEL, POPLIBS_LOG_LEVEL and POPLAR_LOG_DEST"),
    ("POPLAR_.*_LOG_LEVEL", "the model has no such module: use POPLAR_LOG_LEVEL"),
    ("POPLIBS_.*_LOG_LEVEL", "the model has no such library: use POPLIBS_LOG_LEVEL"),
    ("POP(LAR|LIBS)_.*", _NOTHING),
    ("POP(TORCH|ART)_CACHE_DIR", _CACHE),
    ("POPTORCH_(USE_)?IPU_MODEL", _MODEL),
    ("POPTORCH_WAIT_FOR_IPU", _ALWAYS_FREE),
    ("POPTORCH_.*", "for PyTorch models use jax_ipu.GraphCoreManager, see docs/graphcore_manager.md"),
    ("POPART_.*", "for ONNX models use jax_ipu.GraphCoreManager, see docs/graphcore_manager.md"),
)
# Variables of the SDK that have an effect: those of the log (ipu_model/include/ipu_model/Log.hpp), and options as JSON.
ENGINE_OPTIONS = "POPLAR_ENGINE_OPTIONS"
RUNTIME_OPTIONS = "POPLAR_RUNTIME_OPTIONS"
_LOG = re.compile(
    "POPLAR_((ENGINE|GRAPH|TARGET)_)?LOG_LEVEL|POPLIBS_((POPLIN|POPNN|POPOPS|OTHER)_)?LOG_LEVEL|POP(LAR|LIBS)_LOG_DEST"
)
_REPORT_SWITCHES = ("autoReport.all", "autoReport.outputGraphProfile", "autoReport.outputExecutionProfile")
_REPORT_FOLDER = "autoReport.directory"
_REPORT_OPTIONS = "|".join(map(re.escape, (*_REPORT_SWITCHES, _REPORT_FOLDER)))
_MULTI_THREAD = "debug.cpuMultiThreadExecution"
# The same for the options of engines; "" for those that have an effect.
INSTEAD_OF_ENGINE_OPTIONS: tuple[tuple[str, str], ...] = (
    (re.escape(_MULTI_THREAD), ""),
    (r"(debug\.instrument|debug\.compute|debug\.external|debug\.retain|profiler\.).*", "nothing is needed: " + _KNOWN),
    (r"debug\.allowOutOfMemory", "use JAX_IPU_REPORT_DIR: there are also reports on programs that do not fit"),
    (r"debug\.(graphReportDestination|executionReport.*)", _REPORTS),
    (_REPORT_OPTIONS, ""),
    (r"autoReport\..*", _AUTO_REPORT),
    (r"opt\.maxCompilationThreads", "use JAX_IPU_HOST_THREADS for the threads of kernels; the compiler has one"),
    (r"target\.(deterministicWorkers|sync.*)", "nothing is needed: the model is deterministic"),
    (r"target\.saveArchive", "use XLA_FLAGS=--xla_dump_to=FOLDER"),
    (r"target\.hostSyncTimeout", "use JAX_IPU_PROCESS_TIMEOUT for other processes; nothing else can hang"),
    (r"(target|streamCallbacks|exchange|prng)\..*", _NOTHING),
    (".*", _OPTIONS),
)
# The same for flags in TF_POPLAR_FLAGS.
TF_POPLAR_FLAGS = "TF_POPLAR_FLAGS"
INSTEAD_OF_FLAGS: tuple[tuple[str, str], ...] = (
    ("use_ipu_model", _MODEL),
    ("ipu_model_tiles", "use JAX_IPU_MODEL_NUM_TILES"),
    ("executable_cache_path", _CACHE),
    ("use_synthetic_data|synthetic_data_.*", "use JAX_IPU_SYNTHETIC_DATA=1"),
    ("log_cycle_count", "use jax_ipu.counters(device).cycles"),
    ("tensor_map_file_path", "use jax_ipu.debug.tile_map"),
    ("dump_schedule_as_dot", "use XLA_FLAGS=--xla_dump_to=FOLDER"),
    ("show_progress_bar", "nothing is needed: a terminal shows what a long compilation does"),
    ("on_demand_device_.*", _ALWAYS_FREE),
    (".*", _NOTHING),
)
# From this similarity on, of whole names, an unknown variable is taken for a misspelt one of this package.
_CLOSE = 0.75
# These are read by C++, in other processes (docs/clients.md), by what runs codelets, and by tests.
_OF_OTHER_CLIENTS = ("JAX_IPU_CODELETS", "JAX_IPU_PYTHON", "JAX_IPU_POPLIBS_TEST_FOLDER")
_warned = False
# Set by the activation script of the SDK, not by the user: no warning.
_SDK = re.compile("POP(LAR|LIBS|TORCH|ART)(_SDK)?_(ENABLED|ROOT|HOME|PATH|DIR|VERSION)")


def engine_options(environ: Mapping[str, str], variable: str = ENGINE_OPTIONS) -> dict[str, str]:
    """Poplar's options of engines, or those of another variable of the same form.

    Raises:
        ValueError: the variable is not a JSON object of strings.
    """
    text = environ.get(variable) or "{}"
    try:
        options = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{variable}={text!r} is not JSON: {error}") from None
    if not isinstance(options, dict) or not all(isinstance(value, (str, int)) for value in options.values()):
        raise ValueError(f'{variable}={text!r} is not valid. Give an object, e.g. {{"autoReport.all":"true"}}.')
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}


def has_one_thread(environ: Mapping[str, str]) -> bool:
    """Whether Poplar's options ask for one thread of the host's kernels.

    Raises:
        ValueError: POPLAR_ENGINE_OPTIONS is not valid.
    """
    return engine_options(environ).get(_MULTI_THREAD) == "false"


def report_folder(environ: Mapping[str, str]) -> str:
    """Where Poplar would write the report of every program; "" where it would not.

    Raises:
        ValueError: POPLAR_ENGINE_OPTIONS is not valid.
    """
    options = engine_options(environ)
    wanted = any(options.get(name) == "true" for name in _REPORT_SWITCHES)
    return options.get(_REPORT_FOLDER, ".") if wanted else ""


def without_effect(environ: Mapping[str, str], known: Iterable[str]) -> list[str]:
    """Returns a line for each variable that is set and has no effect: its name, and what to use instead.

    Args:
        environ: the environment.
        known: the names that have an effect.
    """
    known = sorted(known)
    return [line for name in sorted(environ) if environ[name] for line in _lines(name, environ[name], known)]


def warn_once(environ: Mapping[str, str], known: Iterable[str]) -> None:
    """Logs a warning of the variables without effect, at the first call in a process. Arguments as above."""
    global _warned
    if _warned:
        return
    _warned = True
    try:
        lines = without_effect(environ, known)
    except ValueError as error:  # an error only for what reads the variable
        lines = [str(error)]
    if lines:
        logger.warning("These environment variables have no effect on ipu.\n  %s", "\n  ".join(lines))


def _lines(name: str, value: str, known: list[str]) -> Iterator[str]:
    if name in known or name in _OF_OTHER_CLIENTS or _SDK.fullmatch(name):
        return
    if _LOG.fullmatch(name):
        return
    if name in (ENGINE_OPTIONS, RUNTIME_OPTIONS):
        for option in sorted(engine_options({name: value}, name)):
            if instead := _instead(option, INSTEAD_OF_ENGINE_OPTIONS):
                yield f"{name} ({option}): {instead}"
    elif name == TF_POPLAR_FLAGS:
        for flag in re.findall(r"--(\w+)", value) or [""]:
            yield f"{name}{f' (--{flag})' if flag else ''}: {_instead(flag, INSTEAD_OF_FLAGS)}"
    elif (instead := _instead(name, INSTEAD)) is not None:
        yield f"{name}: {instead}"
    elif name.upper().startswith(OWN_PREFIX):
        close = names.nearest(name.upper(), known, _CLOSE)
        yield f"{name}: " + (f"did you mean {close}?" if close else f"there are {', '.join(known)}")


def _instead(name: str, table: tuple[tuple[str, str], ...]) -> str | None:
    return next((instead for pattern, instead in table if re.fullmatch(pattern, name)), None)
