"""The programs that make expected values: compiled by JAX for the CPU, quickly and seldom."""

from __future__ import annotations

import collections
import functools
import hashlib
import os
import pickle
import platform
from pathlib import Path
from typing import Any

import jax
import jaxlib
import numpy as np
from jax.experimental import serialize_executable

# A reference runs once: unoptimised code takes two thirds of the time to compile.
QUICK: dict[str, str | bool] = {"xla_backend_optimization_level": "0", "xla_llvm_disable_expensive_passes": True}
# XLA's earlier loops, which jax 0.10 still has, take half of that again; they are wrong for narrow types.
QUICKER = {**QUICK, "xla_cpu_use_fusion_emitters": False} if jax.__version_info__ < (0, 11) else QUICK

# By text, arguments and XLA's options: each mode of a test makes the same program, often of a new function.
_latest: collections.OrderedDict[str, jax.stages.Compiled] = collections.OrderedDict()


def compiled(lowered: jax.stages.Lowered, args: Any, options: dict[str, str | bool]) -> jax.stages.Compiled:
    """Returns the program for the CPU.

    The folder IPU_TEST_REFERENCES, where that is set, keeps programs from one run of the tests to the next.
    """
    text = lowered.as_text()
    key = _key(text, args, options)
    if key not in _latest:
        _latest[key] = _kept(key, lowered, options) if _can_be_kept(text) else lowered.compile(options)
        if len(_latest) > 16:
            _latest.popitem(last=False)
    return _latest[key]


def _key(text: str, args: Any, options: dict[str, str | bool]) -> str:
    leaves, structure = jax.tree.flatten(args)
    shapes = [(np.shape(x), np.result_type(x).name) for x in leaves]
    used = (
        jax.__version__,
        jaxlib.__version__,
        platform.machine(),
        _processor(),
        os.environ.get("XLA_FLAGS"),
        sorted(options.items()),
    )
    return hashlib.sha256(repr((text, str(structure), shapes, used)).encode()).hexdigest()


@functools.cache
def _processor() -> str:
    """Returns what code for this processor may use."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def _can_be_kept(text: str) -> bool:
    """Whether a folder is given; a callback is an address in this process."""
    return "IPU_TEST_REFERENCES" in os.environ and "callback" not in text


def _kept(key: str, lowered: jax.stages.Lowered, options: dict[str, str | bool]) -> jax.stages.Compiled:
    file = Path(os.environ["IPU_TEST_REFERENCES"], key)
    if file.exists():
        device = jax.devices("cpu")[:1]
        return serialize_executable.deserialize_and_load(*pickle.loads(file.read_bytes()), execution_devices=device)
    program = lowered.compile(options)
    file.parent.mkdir(parents=True, exist_ok=True)
    # Another worker may write the same program.
    part = file.with_suffix(f".{os.getpid()}")
    part.write_bytes(pickle.dumps(serialize_executable.serialize(program)))
    part.replace(file)
    return program
