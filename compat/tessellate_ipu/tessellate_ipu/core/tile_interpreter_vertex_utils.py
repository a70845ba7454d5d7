"""How workers share the elements of a vector."""

import numpy as np

from jax_ipu.tile import make_ipu_vector1d_worker_offsets, make_ipu_vector1d_worker_offsets_and_sizes

__all__ = [
    "make_ipu_vector1d_worker_offsets",
    "make_ipu_vector1d_worker_offsets_and_sizes",
    "make_num_elements_per_worker",
]


def make_num_elements_per_worker(N: int, num_workers: int) -> np.ndarray:
    """The elements of each worker, int32 (num_workers,): as equal as they can be, the larger numbers first."""
    return np.array([N // num_workers + (i < N % num_workers) for i in range(num_workers)], np.int32)
