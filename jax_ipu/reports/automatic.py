"""A report for every program that the process compiles: JAX_IPU_REPORT_DIR, or autoReport in POPLAR_ENGINE_OPTIONS.

The folder also has an index of them: `jax_ipu.reports.index`.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable
from pathlib import Path

from jax_ipu.compiler.compilation import Compilation
from jax_ipu.compiler.options import compile_options
from jax_ipu.config import config
from jax_ipu.files import explained
from jax_ipu.reports import index, report_of
from jax_ipu.reports.html import NoFrontEnd

logger = logging.getLogger(__name__)
# Why reports of this process were not written, each with one warning.
_reasons: set[str] = set()


def observer(program: bytes, options: bytes, target: str) -> Callable[[Compilation], None] | None:
    """What the configuration wants of a compilation: the function of `writer`, or None. Arguments as for that."""
    folder = config.report_folder()
    return writer(folder, program, options, target) if folder else None


def writer(folder: str, program: bytes, options: bytes, target: str) -> Callable[[Compilation], None]:
    """A function that writes the report of a compilation into `folder`.

    The name of the file is that of the program and a digest of what is compiled: the same program has the same file.
    A report that fails, for whatever reason, is one warning: it does not keep the program from running.

    Args:
        folder: where to write; it is made if it does not exist.
        program, options, target: what is compiled, as for :func:`jax_ipu.compiler.compile`.
    """
    digest = hashlib.sha256()
    # The fields of a serialised message have no fixed order.
    for part in (program, repr(compile_options(options)).encode(), target.encode()):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)

    def write(compilation: Compilation) -> None:
        name = re.sub(r"[^\w.-]+", "_", compilation.name)[:100]
        path = Path(folder) / f"{name}-{digest.hexdigest()[:12]}.html"
        try:
            report = report_of(compilation)
            where = path
            try:
                text = report.text(".html")
            except NoFrontEnd as error:
                where, text = path.with_suffix(".json"), report.text(".json")
                _warn(str(error), "Wrote %s instead of HTML: %s", where, error)
            with explained("a report cannot be written", "set JAX_IPU_REPORT_DIR to another folder"):
                index.write(where, text)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            _warn(reason, "The report of %s was not written: %s", compilation.name, reason)
            return
        try:
            index.add(where, report)
        except (OSError, ValueError) as error:
            _warn(str(error), "%s is not in the index of its folder: %s", where, error)

    return write


def _warn(reason: str, message: str, *values: object) -> None:
    if reason in _reasons:
        return
    _reasons.add(reason)
    logger.warning(message, *values)
