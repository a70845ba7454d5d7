"""Vertices for primitives of `jax.lax`, and tile primitives that `jax.lax` has not: in place, fills, scaled sums.

`tile_map` takes the elementwise primitives of `expressions.py`, those of `lax_arrays.py`, and the cumulative and
reducing ones in the tables below. Each is a vertex of all six workers, or of one for sums along an axis, in plain C++
that is compiled for the types it gets.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax_ipu.compiler.tile_calls import OPERATIONS
from jax_ipu.integration.tiles import Primitive
from jax_ipu.integration.tracebacks import boundary
from jax_ipu.tile.array import TileShardedArray, checked_tiles
from jax_ipu.tile.expressions import ELEMENTWISE, HELPERS, expression, number
from jax_ipu.tile.lax_arrays import ARRAYS
from jax_ipu.tile.primitives import (
    create_ipu_tile_primitive,
    create_ipu_tile_primitive_v2,
    register_ipu_tile_primitive,
    tile_map,
)
from jax_ipu.tile.vertex import Source, Vertex, default_attributes, primitive_clone, struct, translations, type_name

# The names of functions of jax.lax that are not those of their primitives.
_FUNCTIONS = {
    "and": "bitwise_and",
    "not": "bitwise_not",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "select_n": "select_n",
}
# Primitive -> how an element joins the result so far, and what that is at first.
_CUMULATIVE = {
    "cumsum": "r + a",
    "cumprod": "r * a",
    "cummax": "a != a || a > r ? a : r",
    "cummin": "a != a || a < r ? a : r",
}
_REDUCING = {
    "reduce_and": "r & a",
    "reduce_or": "r | a",
    "reduce_sum": "r + a",
    "reduce_prod": "r * a",
    "reduce_max": "a != a || a > r ? a : r",
    "reduce_min": "a != a || a < r ? a : r",
}
# Primitives whose operation has another name in `tile_calls.OPERATIONS`.
_OPERATIONS = {
    "convert_element_type": "convert",
    "div": "divide",
    "max": "maximum",
    "min": "minimum",
    "mul": "multiply",
    "neg": "negate",
    "population_count": "popcnt",
    "pow": "power",
    "rem": "remainder",
    "select_n": "select",
    "sub": "subtract",
}
_HEAD = """#include <cmath>
#include <limits>
#include <poplar/Vertex.hpp>
using namespace poplar;
"""
# Elementwise primitives whose parameters are part of the vertex.
_PARAMETERS = {"convert_element_type": "new_dtype", "integer_pow": "y", "round": "rounding_method"}


def _identifier(name: str, *types: Any) -> str:
    return "".join([name.title().replace("_", ""), *(np.dtype(t).name.title() for t in types)])


def _suffix(parameter: Any) -> str:
    """A number or an element type as a part of a name."""
    try:
        return f"With{int(parameter)}".replace("-", "Minus")
    except TypeError:
        return f"To{np.dtype(parameter).name.title()}"


def _operation(name_in_lax: str, attributes: dict[str, Any]) -> str:
    """The operation of which the vertex has the cycles; "" where there is none."""
    if name_in_lax == "round":
        return "round_nearest_even" if int(attributes["rounding_method"]) else "round_nearest_afz"
    if name_in_lax == "integer_pow":
        return {2: "square", -1: "inverse"}.get(int(attributes["y"]), "")
    name = _OPERATIONS.get(name_in_lax, name_in_lax)
    return name if name in OPERATIONS else ""


def _elementwise(name_in_lax: str, in_place: bool) -> Callable[..., Vertex]:
    def translate(primitive: Primitive, tiles: tuple[int, ...], avals: list[Any], attributes: dict[str, Any]) -> Vertex:
        operation = _operation(name_in_lax, attributes)
        result, _ = primitive.abstract_eval(*avals, **attributes)
        fields = ["x", "y", "z"][: len(avals)]
        if in_place and result.dtype != avals[0].dtype:
            raise TypeError(f"tile_map of {primitive}: a result of type {result.dtype} has no room in {avals[0].dtype}")
        name = _identifier(primitive.name, *(a.dtype for a in avals))
        if name_in_lax in _PARAMETERS:
            name += _suffix(attributes[_PARAMETERS[name_in_lax]])
        declared = "".join(
            f"  {'InOut' if in_place and i == 0 else 'Input'}<Vector<{type_name(a.dtype)}>> {f};\n"
            for i, (f, a) in enumerate(zip(fields, avals, strict=True))
        )
        out = fields[0] if in_place else "out"
        if not in_place:
            declared += f"  Output<Vector<{type_name(result.dtype)}>> out;\n"
        loads = "".join(
            f"      const {number(a.dtype)} {n} = {f}[{'0' if a.shape != result.shape else 'i'}];\n"
            for n, f, a in zip("abc", fields, avals, strict=False)
        )
        computed = expression(name_in_lax, avals, attributes)
        text = (
            f"{_HEAD}{HELPERS}class {name} : public MultiVertex {{\n public:\n{declared}"
            "  bool compute(unsigned worker) {\n"
            f"    for (unsigned i = worker; i < {out}.size(); i += numWorkers()) {{\n"
            f"{loads}      {out}[i] = {computed};\n    }}\n    return true;\n  }}\n}};\n"
        )
        return Vertex(name, fields, {out: result}, codelets=_source(primitive.name, text), operation=operation)

    return translate


@functools.cache
def _source(name: str, text: str) -> Source:
    return Source(name, text)


def _along_axis(step: str, reduces: bool) -> Callable[..., Vertex]:
    def translate(primitive: Primitive, tiles: tuple[int, ...], avals: list[Any], attributes: dict[str, Any]) -> Vertex:
        result, _ = primitive.abstract_eval(*avals, **attributes)
        (x,) = avals
        axes = sorted(attributes["axes"]) if reduces else [attributes["axis"]]
        if not axes or axes != list(range(axes[0], axes[-1] + 1)):
            raise ValueError(f"tile_map of {primitive}: the axes {axes} are not consecutive; reduce them one by one")
        count = int(np.prod([x.shape[d] for d in axes]))
        if count == 0:
            raise ValueError(f"tile_map of {primitive}: there is nothing along the axes {axes} of {x.shape}")
        inner = int(np.prod(x.shape[axes[-1] + 1 :]))
        name, element, computed = _identifier(primitive.name, x.dtype), type_name(x.dtype), number(x.dtype)
        store = "" if reduces else "          out[at] = r;\n"
        last = "        out[o * inner + i] = r;\n" if reduces else ""
        text = (
            f"{_HEAD}class {name} : public Vertex {{\n public:\n  Input<Vector<{element}>> x;\n"
            f"  Output<Vector<{element}>> out;\n  unsigned count, inner;\n  bool reverse;\n  bool compute() {{\n"
            "    const unsigned outer = x.size() / (count * inner);\n    for (unsigned o = 0; o < outer; ++o) {\n"
            f"      for (unsigned i = 0; i < inner; ++i) {{\n        {computed} r = 0;\n"
            "        for (unsigned k = 0; k < count; ++k) {\n"
            "          const unsigned at = (o * count + (reverse ? count - 1 - k : k)) * inner + i;\n"
            f"          const {computed} a = x[at];\n          r = k == 0 ? a : ({computed})({step});\n{store}"
            f"        }}\n{last}      }}\n    }}\n    return true;\n  }}\n}};\n"
        )
        values = {"count": count, "inner": inner, "reverse": bool(attributes.get("reverse", False))}
        return Vertex(name, ["x"], {"out": result}, values=values, codelets=_source(primitive.name, text))

    return translate


def _bound_attributes(name: str) -> dict[str, Any]:
    """The parameters with which the function of jax.lax binds its primitive, but for those that the user gives."""
    if name == "convert_element_type":  # its function binds nothing where the type stays
        return {"weak_type": False, "sharding": None}
    function = getattr(jax.lax, _FUNCTIONS.get(name, name))
    for count, dtype in ((n, t) for n in (1, 2, 3) for t in (jnp.float32, jnp.int32)):
        operands = [jnp.zeros((), dtype)] * count
        if name == "select_n":
            operands[0] = jnp.zeros((), bool)
        try:
            return dict(jax.make_jaxpr(function)(*operands).eqns[0].params)
        except (TypeError, ValueError, IndexError):
            continue
    return {}


def _reduction_attributes(name: str) -> dict[str, Any]:
    function = getattr(jax.lax, name)
    bound = jax.make_jaxpr(lambda x: function(x, axes=(0,)))(np.zeros(1, np.int32)).eqns[0].params
    return {parameter: value for parameter, value in bound.items() if parameter != "axes"}


def _in_place(name: str) -> Primitive:
    """The elementwise primitive, with its result in the memory of its first operand."""
    clone = primitive_clone(getattr(jax.lax, f"{name}_p"), f"{name}_inplace")
    register_ipu_tile_primitive(clone, _elementwise(name, in_place=True))
    default_attributes[clone] = functools.cache(functools.partial(_bound_attributes, name))
    return clone


def _register() -> None:
    for name, translation, defaults in ARRAYS:
        register_ipu_tile_primitive(getattr(jax.lax, f"{name}_p"), translation)
        default_attributes[getattr(jax.lax, f"{name}_p")] = defaults
    for name in ELEMENTWISE:
        primitive: Primitive = getattr(jax.lax, f"{name}_p")
        register_ipu_tile_primitive(primitive, _elementwise(name, in_place=False))
        default_attributes[primitive] = functools.cache(functools.partial(_bound_attributes, name))
    for table, reduces in ((_CUMULATIVE, False), (_REDUCING, True)):
        for name, step in table.items():
            primitive = getattr(jax.lax, f"{name}_p")
            register_ipu_tile_primitive(primitive, _along_axis(step, reduces))
            default_attributes[primitive] = (
                functools.cache(functools.partial(_reduction_attributes, name))
                if reduces
                else lambda: {"axis": 0, "reverse": False}
            )


_register()

abs_inplace_p = _in_place("abs")
acos_inplace_p = _in_place("acos")
asin_inplace_p = _in_place("asin")
atan_inplace_p = _in_place("atan")
atan2_inplace_p = _in_place("atan2")
add_inplace_p = _in_place("add")
and_inplace_p = _in_place("and")
cbrt_inplace_p = _in_place("cbrt")
ceil_inplace_p = _in_place("ceil")
cos_inplace_p = _in_place("cos")
div_inplace_p = _in_place("div")
erf_inplace_p = _in_place("erf")
exp_inplace_p = _in_place("exp")
expm1_inplace_p = _in_place("expm1")
floor_inplace_p = _in_place("floor")
log_inplace_p = _in_place("log")
log1p_inplace_p = _in_place("log1p")
max_inplace_p = _in_place("max")
min_inplace_p = _in_place("min")
mul_inplace_p = _in_place("mul")
neg_inplace_p = _in_place("neg")
not_inplace_p = _in_place("not")
or_inplace_p = _in_place("or")
population_count_inplace_p = _in_place("population_count")
pow_inplace_p = _in_place("pow")
rem_inplace_p = _in_place("rem")
round_inplace_p = _in_place("round")
rsqrt_inplace_p = _in_place("rsqrt")
shift_left_inplace_p = _in_place("shift_left")
shift_right_arithmetic_inplace_p = _in_place("shift_right_arithmetic")
shift_right_logical_inplace_p = _in_place("shift_right_logical")
sign_inplace_p = _in_place("sign")
sin_inplace_p = _in_place("sin")
sqrt_inplace_p = _in_place("sqrt")
square_inplace_p = _in_place("square")
sub_inplace_p = _in_place("sub")
tan_inplace_p = _in_place("tan")
tanh_inplace_p = _in_place("tanh")
xor_inplace_p = _in_place("xor")

_CODELETS = Path(__file__).parent / "codelets"


def _takes_cycles_of(operation: str, primitive: Primitive) -> None:
    """Gives the vertices of the primitive the cycles of the operation."""
    translation = translations()[primitive]

    def translate(*call: Any) -> Vertex:
        return replace(translation(*call), operation=operation)

    translations()[primitive] = translate


scaled_add_p = create_ipu_tile_primitive(
    "scaled_add", "ScaledAdd<{A}>", ["A", "B", "scaleB"], {"A": 0}, gp_filename=_CODELETS / "arrays.cpp"
)
_takes_cycles_of("scaled_add", scaled_add_p)
scaled_add_p.def_impl(lambda A, B, scaleB: A + scaleB.reshape(()) * B)
scaled_sub_p = create_ipu_tile_primitive(
    "scaled_sub", "ScaledSubtract<{A}>", ["A", "B", "scaleB"], {"A": 0}, gp_filename=_CODELETS / "arrays.cpp"
)
_takes_cycles_of("scaled_subtract", scaled_sub_p)
scaled_sub_p.def_impl(lambda A, B, scaleB: A - scaleB.reshape(()) * B)

copy_p = create_ipu_tile_primitive("tile_copy", "Copy<{x}>", ["x"], {"out": 0}, gp_filename=_CODELETS / "arrays.cpp")
copy_p.def_impl(lambda x: x)

# Rows of x: x[indices]; and A with `updates` in, or added to, the rows `indices`.
gather_rows_p = create_ipu_tile_primitive_v2(
    "gather_rows",
    "GatherRows<{x}>",
    lambda x, indices: ({"out": struct((*indices.shape, *x.shape[1:]), x.dtype)}, None, None, None),
    _CODELETS / "arrays.cpp",
)
gather_rows_p.def_impl(lambda x, indices: x[indices])
scatter_rows_p = create_ipu_tile_primitive(
    "scatter_rows",
    "ScatterRows<{A},false>",
    ["A", "indices", "updates"],
    {"A": 0},
    gp_filename=_CODELETS / "arrays.cpp",
)
scatter_rows_p.def_impl(lambda A, indices, updates: A.at[indices].set(updates))
scatter_add_rows_p = create_ipu_tile_primitive(
    "scatter_add_rows",
    "ScatterRows<{A},true>",
    ["A", "indices", "updates"],
    {"A": 0},
    gp_filename=_CODELETS / "arrays.cpp",
)
scatter_add_rows_p.def_impl(lambda A, indices, updates: A.at[indices].add(updates))


@boundary
def tile_copy(arr: TileShardedArray) -> TileShardedArray:
    """A copy of each part, made on its tile.

    Raises:
        TypeError: the array is not on tiles.

    Examples:
        >>> import numpy as np
        >>> from jax_ipu import tile
        >>> tile.tile_copy(tile.tile_put_sharded(np.ones((2, 3), np.float32), tiles=(0, 4))).tiles
        (0, 4)
    """
    copied: TileShardedArray = tile_map(copy_p, arr)
    return copied


@boundary
def tile_fill(shape: Sequence[int], fill_value: Any, dtype: Any, tiles: Sequence[int]) -> TileShardedArray:
    """An array whose parts have the given shape, and one value in all elements; made on the tiles.

    Args:
        shape: of one part.
        fill_value: the value.
        dtype: the element type.
        tiles: the tiles.

    Examples:
        >>> import jax.numpy as jnp
        >>> from jax_ipu.tile import tile_fill
        >>> tile_fill((2, 3), 1.5, jnp.float32, tiles=(0, 4)).shape
        (2, 2, 3)
    """
    tiles = checked_tiles(tiles)
    filled: TileShardedArray = tile_map(
        _fill_p(tuple(shape), np.dtype(dtype).name), tiles=tiles, value=np.dtype(dtype).type(fill_value).item()
    )
    return filled


@functools.cache
def _fill_p(shape: tuple[int, ...], dtype: str) -> Primitive:
    kind = type_name(dtype)
    fill_p = create_ipu_tile_primitive(
        "tile_fill", f"Fill<{kind}>", [], {"out": struct(shape, dtype)}, gp_filename=_CODELETS / "arrays.cpp"
    )
    _takes_cycles_of("fill", fill_p)
    fill_p.def_impl(lambda value: jnp.full(shape, value, dtype))
    return fill_p
