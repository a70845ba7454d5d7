"""How the workers of a tile share the elements of a vector."""

from __future__ import annotations

from typing import Any

import numpy as np

_WORKERS = 6


def make_ipu_vector1d_worker_offsets(
    size: int,
    vector_size: int = 2,
    num_workers: int = _WORKERS,
    wdtype: Any = np.uint16,
    grain_size: int | None = None,
) -> np.ndarray[Any, Any]:
    """Where the share of each worker begins, and the end: (num_workers + 1,), in vectors of `vector_size` elements.

    Worker i takes the vectors from [i] up to [i + 1]. The first workers take equal shares; where the size does not
    divide, the next one takes the rest, and those after it nothing.

    Args:
        size: elements to share.
        vector_size: elements of one load.
        num_workers: workers of a tile.
        wdtype: element type of the result.
        grain_size: elements that stay together, a multiple of `vector_size`, which it is by default.

    Raises:
        ValueError: the size is no multiple of `grain_size`, or that none of `vector_size`.

    Examples:
        >>> from jax_ipu.tile import make_ipu_vector1d_worker_offsets
        >>> make_ipu_vector1d_worker_offsets(16, vector_size=2).tolist()
        [0, 2, 4, 6, 8, 8, 8]
    """
    shares = _shares(size, vector_size, num_workers, grain_size or vector_size, allow_overlap=False)
    return np.cumsum([0, *shares]).astype(wdtype)


def make_ipu_vector1d_worker_offsets_and_sizes(
    size: int,
    vector_size: int = 2,
    num_workers: int = _WORKERS,
    wdtype: Any = np.uint16,
    allow_overlap: bool = False,
    grain_size: int | None = None,
) -> np.ndarray[Any, Any]:
    """Where the share of each worker begins, and how long it is: (num_workers, 2), in vectors.

    Args:
        size: elements to share.
        vector_size: elements of one load.
        num_workers: workers of a tile.
        wdtype: element type of the result.
        allow_overlap: whether the last share may begin in the one before, if the size is no multiple of `grain_size`.
        grain_size: elements that stay together, a multiple of `vector_size`, which it is by default.

    Raises:
        ValueError: the size is no multiple of `grain_size` and shares may not overlap, or no multiple of `vector_size`.

    Examples:
        >>> from jax_ipu.tile import make_ipu_vector1d_worker_offsets_and_sizes
        >>> make_ipu_vector1d_worker_offsets_and_sizes(16, vector_size=2)[:2].tolist()
        [[0, 2], [2, 2]]
    """
    shares = _shares(size, vector_size, num_workers, grain_size or vector_size, allow_overlap)
    begins = np.cumsum([0, *shares])[:-1]
    # As TessellateIPU has it, the worker after those with a whole share begins near the end; idle ones after it at 0.
    rest = np.arange(num_workers) == size // (int(shares[0]) * vector_size)
    begins = np.where((shares > 0) | rest, np.minimum(begins, size // vector_size - shares), 0)
    return np.stack([begins, shares], axis=1).astype(wdtype)


def _shares(
    size: int, vector_size: int, num_workers: int, grain_size: int, allow_overlap: bool
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The vectors of each worker."""
    if grain_size % vector_size or size % vector_size or size < grain_size or (size % grain_size and not allow_overlap):
        raise ValueError(
            f"{size} elements cannot be shared in grains of {grain_size} elements, as vectors of {vector_size}"
        )
    grains, per_grain = -(-size // grain_size), grain_size // vector_size
    share = -(-grains // num_workers)
    left = grains - share * np.arange(num_workers)
    shares: np.ndarray[Any, np.dtype[np.int64]] = np.clip(left, 0, share) * per_grain
    return shares
