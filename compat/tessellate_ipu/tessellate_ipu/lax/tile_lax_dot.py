"""PopLibs' vertices for products, as data: their names, their fields, and the strides that they step by.

`tile_map` runs `dot_general` whatever vertex the attribute `ipu_vertex_type` names; these descriptions are for programs
that read or print them. Source of the strides: PopLibs, `lib/poplin/ConvPartialsStridesPacking.hpp`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import numpy as np

from tessellate_ipu.core.equations import IpuVertexAttributeI32
from tessellate_ipu.core.tile_common_utils import get_ipu_type_name


class IpuConvVertexType(enum.IntEnum):
    """The vertex that TessellateIPU takes for a product."""

    Automatic = 0
    ConvPartial1x1 = 1
    ConvPartialHMAC = 2


@dataclass
class IpuConvPartial1x1StaticArgs:
    """The template arguments of `poplin::ConvPartial1x1Out`.

    Args:
        fp_dtype, accum_dtype: types of the operands and of the sums.
        use_limited_ver: whether fields have 16 bits.
        use_128bit_load: whether weights are loaded by 128 bits.
        num_conv_units: the units of the tile; what the types allow, whatever is given.
        conv_input_load_elems: elements of a load of 64 bits.
        disable_sr: whether stochastic rounding is off.

    Raises:
        ValueError: the vertex has no such types.
    """

    fp_dtype: Any
    accum_dtype: Any
    use_limited_ver: bool = True
    use_128bit_load: bool = True
    num_conv_units: int = 0
    conv_input_load_elems: int = 0
    disable_sr: bool = False

    def __post_init__(self) -> None:
        self.fp_dtype, self.accum_dtype = np.dtype(self.fp_dtype), np.dtype(self.accum_dtype)
        half = np.dtype(np.float16)
        if (self.fp_dtype, self.accum_dtype) == (np.dtype(np.float32), half):
            raise ValueError("ConvPartial1x1Out has no sums in float16 of products in float32")
        self.num_conv_units = 16 if self.accum_dtype == half else 8
        self.conv_input_load_elems = self.conv_input_load_elems or 8 // self.fp_dtype.itemsize

    @property
    def vertex_name(self) -> str:
        arguments = (
            get_ipu_type_name(self.fp_dtype),
            get_ipu_type_name(self.accum_dtype),
            self.use_limited_ver,
            self.use_128bit_load,
            self.num_conv_units,
            self.conv_input_load_elems,
            self.disable_sr,
        )
        return f"poplin::ConvPartial1x1Out<{','.join(str(a).lower() for a in arguments)}>"

    @property
    def worklist_dtype(self) -> Any:
        return np.uint16 if self.use_limited_ver else np.uint32

    @property
    def worklist_num_field_dtype(self) -> Any:
        return np.int16 if self.use_limited_ver else np.int32


@dataclass
class IpuConvPartial1x1Args:
    """The sizes of one `poplin::ConvPartial1x1Out`: groups, strides in rows, channels of a group."""

    num_conv_groups: int
    num_out_groups: int
    num_in_groups: int
    out_stride: int
    in_stride: int
    out_chans_per_group: int
    in_chans_per_group: int
    out_flip: bool


def ipuGetTransformedOutStride(
    outStride: int, outChansPerGroup: int, numConvUnitsRequired: int, isPartialsFloat: bool, flipOut: bool
) -> int:
    """The field for rows of outputs that are `outStride` rows apart."""
    step = outStride * outChansPerGroup
    return _written_ahead(isPartialsFloat, numConvUnitsRequired) + (-step if flipOut else step)


def ipuReverseTransformedOutStride(
    transformedOutStride: int, accumTypeIsFloat: bool, numConvUnits: int, outChansPerGroup: int
) -> tuple[bool, int]:
    """Whether the rows are in reverse order, and how many rows apart."""
    step = transformedOutStride - _written_ahead(accumTypeIsFloat, numConvUnits)
    return step < 0, abs(step) // outChansPerGroup


def ipuGetTransformedInStride(
    convUnitWeightHeight: int, inStride: int, inRowStride: int, convInputLoadElems: int, inChansPerGroup: int
) -> int:
    """The field for inputs that are `inStride` apart, in loads of 64 bits."""
    apart = inStride - 1 - (convUnitWeightHeight - 1) * inRowStride
    return apart * (inChansPerGroup // convInputLoadElems) + 1


def make_conv_partial1x1_attributes(
    static_args: IpuConvPartial1x1StaticArgs, args: IpuConvPartial1x1Args
) -> list[IpuVertexAttributeI32]:
    """The fields of `poplin::ConvPartial1x1Out` that are integers.

    Raises:
        ValueError: the tile's units take another number of input channels at a time.
    """
    channels = 8 if static_args.fp_dtype == np.float32 else 16
    if args.in_chans_per_group != channels:
        raise ValueError(
            f"ConvPartial1x1Out takes {channels} input channels of {static_args.fp_dtype} at a time, not"
            f" {args.in_chans_per_group}"
        )
    values = {
        "numConvGroupsM1": args.num_conv_groups - 1,
        "numOutGroupsM1": args.num_out_groups - 1,
        "numInGroups": args.num_in_groups,
        "transformedOutStride": ipuGetTransformedOutStride(
            args.out_stride,
            args.out_chans_per_group,
            static_args.num_conv_units,
            static_args.accum_dtype == np.float32,
            args.out_flip,
        ),
        "transformedInStride": ipuGetTransformedInStride(
            0, args.in_stride, 0, static_args.conv_input_load_elems, args.in_chans_per_group
        ),
        "outChansPerGroup": args.out_chans_per_group,
        "inChansPerGroup": args.in_chans_per_group,
    }
    return [IpuVertexAttributeI32(name, value) for name, value in values.items()]


def _written_ahead(float_sums: bool, units: int) -> int:
    """What a step between rows is less, as a negative number: the pointer has moved on so far after a row."""
    return (-6 if float_sums else -4) - (8 if units > 8 else 0)
