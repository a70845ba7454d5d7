"""Devices and types."""

import enum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from jax_ipu.tile import is_ipu_model


class IpuTargetType(enum.StrEnum):
    """What a device's attribute `target_type` is."""

    IPU = "IPU"
    IPU_MODEL = "IPU_MODEL"


DType = np.dtype[Any]
__all__ = ["ArrayLike", "DType", "DTypeLike", "IpuTargetType", "NDArray", "is_ipu_model"]
