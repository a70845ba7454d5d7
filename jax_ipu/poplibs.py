"""A folder of tools/build_poplibs: Graphcore's PopLibs, from which a compilation may take its operations.

The folder has an extension module with the operations, which is linked to this package's library, and poplibs.json, by
which this module sees whether it fits.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from jax_ipu import _ipu
from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError
from jax_ipu.version import __version__

STAMP = "poplibs.json"
_BUILD = "tools/build_poplibs SOURCE FOLDER"
# What a module must share with this package, and how messages name it.
_SHARED = {"jax_ipu": "jax_ipu", "python": "Python", "headers": "the headers of Poplar", "chips": "the chips"}


def own_stamp() -> dict[str, Any]:
    """What poplibs.json says of a folder that fits this package."""
    return {
        "jax_ipu": __version__,
        "python": sysconfig.get_config_var("EXT_SUFFIX"),
        "headers": _headers(),
        "chips": _ipu.chip_names(),
    }


@functools.cache
def _headers() -> str:
    """A digest of the headers through which the module uses this package's library."""
    package = Path(__file__).resolve().parent
    folders = (package / "include", package.parent / "ipu_model" / "include")
    include = next((folder for folder in folders if (folder / "poplar").is_dir()), None)
    digest = hashlib.sha256()
    if include is not None:
        for part in ("poplar", "ipu_model", "hlo"):
            for path in sorted((include / part).glob("*")):
                digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def load(folder: str) -> ModuleType:
    """The module of a folder.

    Raises:
        CompileError: the folder is not there, has no module, or one for another version, Python or set of chips
            (INVALID_ARGUMENT).
    """
    path = Path(folder)
    if not path.is_dir():
        raise _refused(folder, "there is no such folder", f"Make it: {_BUILD}")
    stamp = path / STAMP
    if not stamp.is_file():
        raise _refused(
            folder, f"it has no {STAMP}: nothing for JAX was built there", f"Build it with this Python: {_BUILD}"
        )
    try:
        found = json.loads(stamp.read_text())
    except (OSError, ValueError) as error:
        raise _refused(folder, f"{STAMP} cannot be read: {error}", f"Build it again: {_BUILD}") from None
    if not isinstance(found, dict):
        raise _refused(folder, f"{STAMP} is no description of a build", f"Build it again: {_BUILD}")
    for key, wanted in own_stamp().items():
        if found.get(key) != wanted:
            raise _refused(
                folder,
                f"it was built for {_SHARED[key]} {_text(found.get(key))}, this is {_text(wanted)}",
                f"Build it again: {_BUILD}",
            )
    module = path / str(found.get("module"))
    try:
        loader = importlib.machinery.ExtensionFileLoader("_poplibs", str(module))
        spec = importlib.util.spec_from_file_location("_poplibs", module, loader=loader)
        assert spec is not None
        loaded = importlib.util.module_from_spec(spec)
        loader.exec_module(loaded)
    except ImportError as error:
        raise _refused(folder, f"{module.name} cannot be loaded: {error}", f"Build it again: {_BUILD}") from error
    # What the build has compiled of PopLibs' codelets, which takes minutes.
    os.environ.setdefault("IPU_MODEL_CODELET_CACHE", str(path / "codelet_cache"))
    return loaded


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _refused(folder: str, reason: str, advice: str) -> CompileError:
    return CompileError(f"PopLibs cannot be taken from {folder}: {reason}. {advice}.", INVALID_ARGUMENT)
