"""Vertices for primitives of `jax.lax` that move elements or multiply parts.

They are iota, reshape, bitcast_convert_type, gather, scatter and its kin, and dot_general.

Gathers and scatters take rows of the first dimension, one for each index. Each vertex is plain C++ in
`codelets/lax.cpp`, which is compiled for the types that it gets; the primitives are in one table at the end.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jax_ipu.integration.tiles import Primitive
from jax_ipu.tile.vertex import Source, Vertex, make_ipu_vertex_name_templated

_CODELETS = Path(__file__).parent / "codelets" / "lax.cpp"
_Avals = Sequence[Any]
_Attributes = dict[str, Any]
_Translation = Callable[[Primitive, tuple[int, ...], list[Any], _Attributes], Vertex]


def _refused(primitive: Primitive, what: str) -> NotImplementedError:
    return NotImplementedError(f"tile_map of {primitive}: {what}")


def _result(primitive: Primitive, avals: _Avals, attributes: _Attributes) -> Any:
    result, _ = primitive.abstract_eval(*avals, **attributes)
    return result


@functools.cache
def _source(name: str) -> Source:
    """The codelets, with the template of this name and these arguments instantiated."""
    return Source(name, f"{_CODELETS.read_text()}\ntemplate class {name};\n")


def _iota(primitive: Primitive, tiles: tuple[int, ...], avals: list[Any], attributes: _Attributes) -> Vertex:
    result = _result(primitive, avals, attributes)
    dimension = attributes["dimension"]
    values = {"inner": math.prod(result.shape[dimension + 1 :]), "count": result.shape[dimension]}
    name = make_ipu_vertex_name_templated("Iota", result.dtype)
    return Vertex(name, [], {"out": result}, values=values, codelets=_source(name))


def _reshape(primitive: Primitive, tiles: tuple[int, ...], avals: list[Any], attributes: _Attributes) -> Vertex:
    if attributes.get("dimensions") is not None:
        raise _refused(primitive, "`dimensions` would transpose the part first; give None")
    result = _result(primitive, avals, attributes)
    name = make_ipu_vertex_name_templated("Bits", avals[0].dtype, result.dtype)
    return Vertex(name, ["x"], {"out": result}, codelets=_source(name))


def _bitcast(primitive: Primitive, tiles: tuple[int, ...], avals: list[Any], attributes: _Attributes) -> Vertex:
    result = _result(primitive, avals, attributes)
    if result.dtype.itemsize != avals[0].dtype.itemsize:
        raise _refused(primitive, f"{avals[0].dtype} and {result.dtype} have other sizes")
    name = make_ipu_vertex_name_templated("Bits", avals[0].dtype, result.dtype)
    return Vertex(name, ["x"], {"out": result}, codelets=_source(name))


def _row(primitive: Primitive, operand: Any, indices: Any, numbers: Any, dims: tuple[Any, Any, Any]) -> int:
    """The elements of a row of the first dimension, of which each index is the number.

    Args:
        primitive: for messages.
        operand, indices: the types of the operands.
        numbers: the dimension numbers, for messages.
        dims: of these, the dimensions that indices are of, that a row lacks, and that rows have in the other array.

    Raises:
        NotImplementedError: the indices are of something else.
    """
    inner = tuple(range(indices.ndim - 1, indices.ndim + operand.ndim - 2))
    if tuple(map(tuple, dims)) != ((0,), (0,), inner) or indices.shape[-1] != 1:
        raise _refused(primitive, f"each index must be of one row of the first dimension; the numbers are {numbers}")
    if numbers.operand_batching_dims if hasattr(numbers, "operand_batching_dims") else numbers.input_batching_dims:
        raise _refused(primitive, "there are no batches on a tile")
    row: int = math.prod(operand.shape[1:])
    if row == 0:
        raise _refused(primitive, f"the rows of {operand.shape} have no elements")
    return row


def _mode(attributes: _Attributes) -> Any:
    return jax.lax.GatherScatterMode.from_any(attributes.get("mode"))


def _gather(primitive: Primitive, tiles: tuple[int, ...], avals: list[Any], attributes: _Attributes) -> Vertex:
    operand, indices = avals
    numbers, mode = attributes["dimension_numbers"], _mode(attributes)
    dims = numbers.start_index_map, numbers.collapsed_slice_dims, numbers.offset_dims
    row = _row(primitive, operand, indices, numbers, dims)
    if tuple(attributes["slice_sizes"]) != (1, *operand.shape[1:]):
        raise _refused(primitive, f"slices {attributes['slice_sizes']} are not whole rows of {operand.shape}")
    fills = mode == jax.lax.GatherScatterMode.FILL_OR_DROP
    fill = attributes.get("fill_value")
    if fills and fill is None:
        fill = _fill_of(operand.dtype)
    values: dict[str, Any] = {"row": row, "fills": fills, "fill": fill if fills else 0}
    values["fill"] = np.asarray(values["fill"], operand.dtype).item()
    name = make_ipu_vertex_name_templated("GatherFirst", operand.dtype, indices.dtype)
    result = _result(primitive, avals, attributes)
    return Vertex(name, ["x", "indices"], {"out": result}, values=values, codelets=_source(name))


def _fill_of(dtype: Any) -> Any:
    """What JAX gives for indices outside: NaN, the smallest signed integer, the largest unsigned one, or True."""
    if np.issubdtype(dtype, np.floating):
        return np.nan
    if dtype == np.bool_:
        return True
    limits = np.iinfo(dtype)
    return limits.min if limits.min < 0 else limits.max


def _scatter(how: str) -> _Translation:
    def translate(primitive: Primitive, tiles: tuple[int, ...], avals: list[Any], attributes: _Attributes) -> Vertex:
        operand, indices, updates = avals
        numbers, mode = attributes["dimension_numbers"], _mode(attributes)
        dims = numbers.scatter_dims_to_operand_dims, numbers.inserted_window_dims, numbers.update_window_dims
        row = _row(primitive, operand, indices, numbers, dims)
        if math.prod(updates.shape) != math.prod(indices.shape[:-1]) * row:
            raise _refused(primitive, f"updates {updates.shape} are not whole rows of {operand.shape}")
        clips = mode == jax.lax.GatherScatterMode.CLIP
        name = make_ipu_vertex_name_templated("ScatterFirst", operand.dtype, indices.dtype, f"Scatter::{how}")
        fields, values = ["x", "indices", "updates"], {"row": row, "clips": clips}
        return Vertex(name, fields, {"x": operand}, values=values, codelets=_source(name))

    return translate


def _dot(primitive: Primitive, tiles: tuple[int, ...], avals: list[Any], attributes: _Attributes) -> Vertex:
    (contracted, batched), (lhs, rhs) = attributes["dimension_numbers"], avals
    if any(batched):
        raise _refused(primitive, "there are no batches on a tile")
    if len(contracted[0]) != 1:
        raise _refused(primitive, f"one dimension of each side is summed over, not {len(contracted[0])}")
    result = _result(primitive, avals, attributes)
    values = {"count": lhs.shape[contracted[0][0]]}
    for side, aval, dim in (("lhs", lhs, contracted[0][0]), ("rhs", rhs, contracted[1][0])):
        values[f"{side}Outer"] = math.prod(aval.shape[:dim])
        values[f"{side}Inner"] = math.prod(aval.shape[dim + 1 :])
    name = make_ipu_vertex_name_templated("Dot", lhs.dtype, rhs.dtype, result.dtype)
    return Vertex(name, ["lhs", "rhs"], {"out": result}, values=values, codelets=_source(name))


def _defaults_of(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Callable[[], _Attributes]:
    """The parameters with which a function of jax.lax binds its primitive."""

    def found() -> _Attributes:
        jaxpr = jax.make_jaxpr(function)(*(np.zeros(s, np.float32) for s in shapes))
        return dict(jaxpr.eqns[-1].params)

    return found


def _only(names: str, parameters: Callable[[], _Attributes]) -> Callable[[], _Attributes]:
    """Those of the parameters with these names: the user gives the others."""
    return lambda: {name: value for name, value in parameters().items() if name in names.split()}


_ROWS = jax.lax.ScatterDimensionNumbers((1,), (0,), (0,))
_SCATTERS = {"scatter": "kSet", "scatter_add": "kAdd", "scatter_mul": "kMultiply"}
_SCATTERS |= {"scatter_max": "kMax", "scatter_min": "kMin"}


def _scatter_defaults(name: str) -> Callable[[], _Attributes]:
    def scatter(x: Any, updates: Any) -> Any:
        return getattr(jax.lax, name)(x, np.zeros((1, 1), np.int32), updates, _ROWS)

    given = "update_jaxpr update_consts indices_are_sorted unique_indices mode"
    return _only(given, _defaults_of(scatter, (2, 3), (1, 3)))


# Primitive, how its vertex is made, and the parameters that it has where the user gives none.
ARRAYS: tuple[tuple[str, _Translation, Callable[[], _Attributes]], ...] = (
    ("iota", _iota, lambda: {"sharding": None}),
    ("reshape", _reshape, lambda: {"dimensions": None, "sharding": None}),
    ("bitcast_convert_type", _bitcast, dict),
    (
        "gather",
        _gather,
        lambda: {"unique_indices": False, "indices_are_sorted": False, "mode": None, "fill_value": None},
    ),
    ("dot_general", _dot, lambda: {"precision": None, "preferred_element_type": None, "out_sharding": None}),
    *((name, _scatter(how), _scatter_defaults(name)) for name, how in _SCATTERS.items()),
)
