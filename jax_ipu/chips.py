"""The chips that the IPU model knows. Their table is in ipu_model/core/target/target_model.cc, and nowhere else."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from jax_ipu.names import nearest

if TYPE_CHECKING:
    from jax_ipu import _ipu

# What the generations and their chips are called elsewhere.
_ALSO_CALLED = {"mk1": "ipu1", "gc2": "ipu1", "mk2": "ipu2", "gc200": "ipu2"}


@functools.cache
def chip_names() -> tuple[str, ...]:
    """The names of the chips, the oldest first. Loads the extension, so nothing calls it when it is imported."""
    from jax_ipu import _ipu

    return tuple(_ipu.chip_names())


@functools.cache
def most_tiles() -> int:
    """The most tiles that a chip has."""
    from jax_ipu import _ipu

    return _ipu.most_tiles()


def target_of(text: str) -> _ipu.Target:
    """The target of a text like "ipu2" or "ipu2:1472" (chip and number of tiles).

    Raises:
        ValueError: there is no such chip, or it has not as many tiles.
    """
    from jax_ipu import _ipu

    version, colon, tiles = text.partition(":") if isinstance(text, str) else ("", ":", "")
    if colon and not (tiles.isdecimal() and len(tiles) < 9 and int(tiles) > 0):
        raise ValueError(f"target {text!r} is not valid; write e.g. ipu2 or ipu2:1472")
    try:
        return _ipu.Target(version, int(tiles or 0))
    except RuntimeError as error:
        reason = str(error).removeprefix("Target::createIPUTarget: ")
        meant = _ALSO_CALLED.get(version.lower()) or nearest(
            version, re.findall(r"\w+", reason.partition("known are:")[2])
        )
        hint = f". Did you mean {meant}?" if meant else ""
        raise ValueError(f"target {text!r} is not valid: {reason}{hint}") from None
