"""What a translation of TessellateIPU returns: a vertex class, its fields, and where it runs."""

from __future__ import annotations

import base64
import enum
import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jax_ipu.tile import ShapedArray, Source, Vertex
from tessellate_ipu.core.tile_common_utils import (
    Base64Data,
    IpuShapedArray,
    IpuType,
    as_json,
    from_ipu_type_to_numpy_dtype,
    from_numpy_dtype_to_ipu_type,
)


class IpuVertexIOType(enum.IntEnum):
    """Whether a field is read, written, or both."""

    In = 0
    Out = 1
    InOut = 2


@dataclass
class IpuTensorSlice:
    """The elements `begin` to `end` of a flat tensor."""

    begin: int
    end: int

    def to_json_str(self) -> str:
        return as_json({"begin": self.begin, "end": self.end})

    @classmethod
    def from_json_str(cls, text: str) -> IpuTensorSlice:
        return cls(**json.loads(text))


@dataclass
class _Attribute:
    name: str = ""
    value: Any = 0

    def to_json_str(self) -> str:
        return as_json({"name": self.name, "value": self.value})

    @classmethod
    def from_json_str(cls, text: str) -> Any:
        return cls(**json.loads(text))


class IpuVertexAttributeI32(_Attribute):
    """A field that is an integer."""


class IpuVertexAttributeF32(_Attribute):
    """A field that is a float."""


class IpuVertexIOInfo:
    """A field of a vertex that is a tensor.

    Args:
        name: of the field.
        iotype: whether it is read, written, or both.
        shape, dtype: of the tensor.
        vertex_dim2: positive: the field is a vector of rows of so many elements; negative: a scalar; 0: a vector.
        constant_data: its value, of a constant.
        slices2d: the rows, where `vertex_dim2` does not say.
    """

    def __init__(
        self,
        name: str,
        iotype: IpuVertexIOType,
        shape: Sequence[int],
        dtype: IpuType,
        vertex_dim2: int = 0,
        constant_data: Base64Data | None = None,
        slices2d: Sequence[IpuTensorSlice] = (),
    ) -> None:
        self.name, self.iotype = name, IpuVertexIOType(iotype)
        self.aval = IpuShapedArray(shape, dtype)
        self.constant_data = constant_data or Base64Data()
        rows = self.aval.size // vertex_dim2 if vertex_dim2 > 0 else 0
        cut = [IpuTensorSlice(i * vertex_dim2, (i + 1) * vertex_dim2) for i in range(rows)]
        self.slices2d = list(slices2d) or cut
        self.is_scalar = vertex_dim2 < 0

    @property
    def shape(self) -> list[int]:
        return self.aval.shape

    @property
    def dtype(self) -> IpuType:
        return self.aval.dtype

    @property
    def is_constant_input(self) -> bool:
        return not self.constant_data.is_empty

    def _data(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "iotype": int(self.iotype),
            "aval": {"shape": self.shape, "dtype": int(self.dtype)},
            "constant_data": self.constant_data.to_data(),
            "slices2d": [{"begin": s.begin, "end": s.end} for s in self.slices2d],
            "is_scalar": self.is_scalar,
        }

    def to_json_str(self) -> str:
        return as_json(self._data())

    @classmethod
    def from_json_str(cls, text: str) -> IpuVertexIOInfo:
        data = json.loads(text)
        constant = Base64Data((data["constant_data"] or {}).get("encoded_data", ""))
        rows = [IpuTensorSlice(**s) for s in data["slices2d"]]
        shape, dtype = data["aval"]["shape"], IpuType(data["aval"]["dtype"])
        scalar = -1 if data.get("is_scalar") else 0
        return cls(data["name"], data["iotype"], shape, dtype, scalar, constant, rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IpuVertexIOInfo) and self._data() == other._data()

    def __hash__(self) -> int:
        return hash(self.to_json_str())


@dataclass
class IpuTileMapEquation:
    """One vertex on each of a list of tiles.

    `sync` has no effect: a compute set begins with a sync of all tiles here.
    """

    vname: str = ""
    pname: str = ""
    tiles: Sequence[int] = ()
    inputs_info: Sequence[IpuVertexIOInfo] = ()
    outputs_info: Sequence[IpuVertexIOInfo] = ()
    attributes_i32: Sequence[IpuVertexAttributeI32] = ()
    attributes_f32: Sequence[IpuVertexAttributeF32] = ()
    tmp_space_name: str = ""
    tmp_space_aval: IpuShapedArray = field(default_factory=lambda: IpuShapedArray((0,)))
    gp_filename: str = ""
    perf_estimate: int = 0
    sync: bool = False

    def __post_init__(self) -> None:
        for name in ("tiles", "inputs_info", "outputs_info", "attributes_i32", "attributes_f32"):
            setattr(self, name, list(getattr(self, name)))

    @property
    def num_inputs(self) -> int:
        return len(self.inputs_info)

    @property
    def num_outputs(self) -> int:
        return len(self.outputs_info)

    @property
    def num_inouts(self) -> int:
        return sum(info.iotype == IpuVertexIOType.InOut for info in self.inputs_info)

    @property
    def use_tmp_space(self) -> bool:
        return self.tmp_space_aval.size > 0

    def vertex(self) -> Vertex:
        """The same as `jax_ipu.tile` has it.

        Raises:
            NotImplementedError: a field has other rows than its array.
        """
        constants = {}
        for info in (*self.inputs_info, *self.outputs_info):
            if any(s.end - s.begin != info.shape[-1] for s in info.slices2d):
                raise NotImplementedError(
                    f"{self.pname}: the field {info.name} of {self.vname} has other rows than those of its array"
                    f" {info.shape}; reshape the array, so that its last dimension is a row"
                )
        for info in self.inputs_info:
            if info.is_constant_input:
                dtype = from_ipu_type_to_numpy_dtype(info.dtype)
                data = np.frombuffer(base64.b64decode(info.constant_data.encoded_data), dtype)
                constants[info.name] = data.reshape(info.shape)
        space = self.tmp_space_aval
        return Vertex(
            name=self.vname,
            inputs=[info.name for info in self.inputs_info if not info.is_constant_input],
            outputs={info.name: _shaped(info.aval) for info in self.outputs_info},
            constants=constants,
            temporaries={self.tmp_space_name: _shaped(space)} if self.use_tmp_space else {},
            values={a.name: a.value for a in (*self.attributes_i32, *self.attributes_f32)},
            codelets=Source(self.pname, self.gp_filename) if self.gp_filename else None,
            cycles=int(self.perf_estimate) or None,
        )


def _shaped(aval: IpuShapedArray) -> ShapedArray:
    return ShapedArray(tuple(aval.shape), from_ipu_type_to_numpy_dtype(aval.dtype))


class TileDataBarrierParams:
    """Which tiles wait for each other."""

    def __init__(self, vname: str, inputs_tiles: Sequence[Sequence[int]], max_tile: int) -> None:
        self.vname, self.max_tile = vname, max_tile
        self.inputs_tiles = [list(tiles) for tiles in inputs_tiles]

    def to_json_str(self) -> str:
        return as_json(vars(self))


def make_ipu_vertex_io_info(name: str, iotype: IpuVertexIOType, aval: Any, vertex_dim2: int = 0) -> IpuVertexIOInfo:
    """A field that holds an array of the type `aval`."""
    return IpuVertexIOInfo(name, iotype, aval.shape, from_numpy_dtype_to_ipu_type(aval.dtype), int(vertex_dim2))


def make_ipu_vertex_in_info(name: str, aval: Any, vertex_dim2: int = 0) -> IpuVertexIOInfo:
    """A field that is read."""
    return make_ipu_vertex_io_info(name, IpuVertexIOType.In, aval, vertex_dim2)


def make_ipu_vertex_out_info(name: str, aval: Any, vertex_dim2: int = 0) -> IpuVertexIOInfo:
    """A field that is written."""
    return make_ipu_vertex_io_info(name, IpuVertexIOType.Out, aval, vertex_dim2)


def make_ipu_vertex_inout_info(name: str, aval: Any, vertex_dim2: int = 0) -> IpuVertexIOInfo:
    """A field that is read and written."""
    return make_ipu_vertex_io_info(name, IpuVertexIOType.InOut, aval, vertex_dim2)


def make_ipu_vertex_constant_info(name: str, data: Any, vertex_dim2: int = 0) -> IpuVertexIOInfo:
    """A field with a constant value."""
    data = np.asarray(data)
    ipu_type = from_numpy_dtype_to_ipu_type(data.dtype)
    encoded = Base64Data(base64.b64encode(np.ascontiguousarray(data).tobytes()))
    return IpuVertexIOInfo(name, IpuVertexIOType.In, data.shape, ipu_type, vertex_dim2, encoded)


def _infos(
    avals: Mapping[str, Any], inout: Set[str], rows: Mapping[str, int], iotype: IpuVertexIOType
) -> list[IpuVertexIOInfo]:
    kinds = {name: IpuVertexIOType.InOut if name in inout else iotype for name in avals}
    return [make_ipu_vertex_io_info(name, kinds[name], aval, rows.get(name, 0)) for name, aval in avals.items()]


def make_ipu_vertex_inputs(
    inavals: Mapping[str, Any], inout_names: Set[str] = frozenset(), vertex_dims2: Mapping[str, int] | None = None
) -> list[IpuVertexIOInfo]:
    """The fields that are read, those of `inout_names` also written; `vertex_dims2`: the length of their rows."""
    return _infos(inavals, inout_names, vertex_dims2 or {}, IpuVertexIOType.In)


def make_ipu_vertex_outputs(
    outavals: Mapping[str, Any], inout_names: Set[str] = frozenset(), vertex_dims2: Mapping[str, int] | None = None
) -> list[IpuVertexIOInfo]:
    """The fields that are written, those of `inout_names` also read."""
    return _infos(outavals, inout_names, vertex_dims2 or {}, IpuVertexIOType.Out)


def make_ipu_vertex_attributes(
    **attributes: Any,
) -> tuple[list[IpuVertexAttributeI32], list[IpuVertexAttributeF32]]:
    """The integers and the floats among the attributes. Raises TypeError for other values."""
    integers, floats = [], []
    for name, value in attributes.items():
        if isinstance(value, int | np.integer):
            integers.append(IpuVertexAttributeI32(name, int(value)))
        elif isinstance(value, float | np.floating):
            floats.append(IpuVertexAttributeF32(name, float(value)))
        else:
            raise TypeError(f"the attribute {name} is a {type(value).__name__}; fields of vertices are numbers")
    return integers, floats
