"""The JAX primitives behind :mod:`jax_ipu.tile`.

On ``ipu`` each is a custom call whose configuration is JSON (`jax_ipu.compiler.tile_calls`); other platforms run the
reference implementation of each primitive on all tiles by `vmap`. Tested with jax 0.10.2 and 0.12.0.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    # JAX's own are not typed.
    Primitive = Any
    ShapedArray = Any
else:
    from jax.core import ShapedArray
    from jax.extend.core import Primitive

PLATFORM = "ipu"


class Constant:
    """A NumPy array as a parameter of a primitive: equal where type and elements are."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = np.ascontiguousarray(array)
        self._key = (self.array.shape, self.array.dtype.str, self.array.tobytes())

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._key == other._key

    def __repr__(self) -> str:
        return f"Constant({self.array.dtype}{list(self.array.shape)})"


Attributes = tuple[tuple[str, bool | int | float], ...]


def put(array: Any, tiles: tuple[int, ...]) -> Any:
    """The array, with part [i] on tiles[i]."""
    return _primitives().put.bind(array, tiles=tiles)


def constant(array: np.ndarray[Any, Any], tiles: tuple[int, ...]) -> Any:
    """A constant whose part [i] is on tiles[i]."""
    return _primitives().constant.bind(data=Constant(array), tiles=tiles)


def gather(array: Any, indices: tuple[int, ...], tiles: tuple[int, ...]) -> Any:
    """Parts [indices[i]] of the array on tiles[i]."""
    return _primitives().gather.bind(array, indices=indices, tiles=tiles)


def vertices(
    primitive: Primitive,
    arrays: Sequence[Any],
    constants: Sequence[np.ndarray[Any, Any]],
    attributes: Attributes,
    tiles: tuple[int, ...],
    configuration: dict[str, Any],
) -> list[Any]:
    """The results of one vertex on each tile.

    Args:
        primitive: what a vertex computes, for types, derivatives and other platforms.
        arrays: the sharded operands.
        constants: operands that every vertex takes whole.
        attributes: parameters of the primitive.
        tiles: the tile of each vertex.
        configuration: as `jax_ipu.compiler.tile_calls.VertexCall`.
    """
    return list(
        _primitives().map.bind(
            *arrays,
            of=primitive,
            attributes=attributes,
            tiles=tiles,
            constants=tuple(map(Constant, constants)),
            configuration=json.dumps(configuration),
        )
    )


def cycles(arrays: Sequence[Any], tiles: tuple[int, ...], sync: bool) -> Any:
    """The cycles since the program began, uint32 (tiles, 2), once the arrays are ready; `sync`: on all tiles."""
    return _primitives().cycles.bind(*arrays, tiles=tiles, sync=sync)


def barrier(arrays: Sequence[Any]) -> list[Any]:
    """The arrays, each ready when all are."""
    wait: Any = jax.lax.optimization_barrier
    return list(wait(tuple(arrays)))


def clone(primitive: Primitive, name: str) -> Primitive:
    """A primitive with the same rules, under another name."""
    from jax._src.interpreters import ad, batching

    made = copy.copy(primitive)
    made.name = name
    tables: tuple[dict[Any, Any], ...] = (
        ad.primitive_jvps,
        ad.primitive_transposes,
        batching.fancy_primitive_batchers,
    )
    for rules in tables:
        if primitive in rules:
            rules[made] = rules[primitive]
    return made


def new_primitive(name: str) -> Primitive:
    """A primitive of JAX without rules."""
    from jax._src import core

    primitive: Any = core.Primitive(name)
    return primitive


def own_name(dtype: Any) -> str:
    """The compiler's name of an element type. Raises KeyError for one that it does not know."""
    return _own_names()[np.dtype(dtype).name]


@functools.cache
def _own_names() -> dict[str, str]:
    from jax_ipu.compiler.types import SIZE, numpy_dtype

    return {numpy_dtype(name).name: name for name in SIZE}


def has_batching_rule(primitive: Primitive) -> bool:
    """Whether `jax.vmap` knows the primitive."""
    from jax._src.interpreters import batching

    return primitive in batching.fancy_primitive_batchers


def has_reference(primitive: Primitive) -> bool:
    """Whether the primitive has a reference implementation: a function of arrays."""
    from jax._src import core

    return getattr(primitive.impl, "__func__", None) is not core.Primitive.impl


def batched(primitive: Primitive, attributes: dict[str, Any], tiles: int) -> Callable[..., list[Any]]:
    """The reference implementation of a primitive on the tiles, as a function of the sharded operands.

    Raises:
        NotImplementedError: the primitive has none.
    """
    if has_batching_rule(primitive):
        function: Callable[..., Any] = functools.partial(primitive.bind, **attributes)
    elif has_reference(primitive):
        function = functools.partial(primitive.impl, **attributes)
    else:
        raise NotImplementedError(
            f"The tile primitive '{primitive}' has no reference implementation, so it runs on ipu only: give one by "
            f"{primitive}_p.def_impl(function), a function of the arrays of one tile."
        )

    def run(*arrays: Any) -> list[Any]:
        results = jax.vmap(function, axis_size=tiles)(*arrays)
        return list(results) if primitive.multiple_results else [results]

    return run


class _Primitives:
    def __init__(self) -> None:
        from jax._src import source_info_util
        from jax._src import xla_bridge as typed_bridge

        xla_bridge: Any = typed_bridge

        # Locations are lines of the user's.
        package = Path(__file__).parents[1]
        for own in (package / "tile", package / "integration"):
            source_info_util.register_exclusion(str(own))
        # Lowerings are registered for known platforms only; plugins are found when JAX starts its backends.
        if not xla_bridge.is_known_platform(PLATFORM):
            xla_bridge._discover_and_register_pjrt_plugins()
        self.put = _primitive("tile_put", _put_type, _put_reference, "ipu_tile_put", _put_configuration)
        self.constant = _primitive(
            "tile_constant", _constant_type, _constant_reference, "ipu_tile_put", _constant_configuration
        )
        self.gather = _primitive(
            "tile_gather", _gather_type, _gather_reference, "ipu_tile_gather", _gather_configuration
        )
        self.cycles = _primitive(
            "ipu_cycle_count", _cycles_type, _cycles_reference, "ipu_cycle_count", _cycles_configuration, effect=True
        )
        self.map = _primitive("tile_map", _map_types, _map_reference, "ipu_tile_map", None)
        self._derive()

    def _derive(self) -> None:
        from jax._src.interpreters import batching

        ad = _ad()
        ad.deflinear2(self.put, lambda cotangent, _, tiles: [put(cotangent, tiles)])
        ad.deflinear2(self.gather, _gather_transpose)
        ad.primitive_jvps[self.map] = _map_jvp
        ad.primitive_jvps[self.cycles] = _cycles_jvp
        for primitive in (self.put, self.gather, self.map):
            batching.primitive_batchers[primitive] = functools.partial(_one_after_another, primitive)


@functools.cache
def _primitives() -> _Primitives:
    return _Primitives()


def _primitive(
    name: str,
    types: Callable[..., Any],
    reference: Callable[..., Any],
    target: str,
    configuration: Callable[..., dict[str, Any]] | None,
    *,
    effect: bool = False,
) -> Primitive:
    from jax._src import dispatch
    from jax._src.export import _export
    from jax._src.interpreters import mlir

    primitive = new_primitive(name)
    several = configuration is None
    primitive.multiple_results = several
    primitive.def_abstract_eval(types)
    primitive.def_impl(functools.partial(dispatch.apply_primitive, primitive))

    def lower(ctx: Any, *operands: Any, **parameters: Any) -> Any:
        held = [parameters["data"]] if "data" in parameters else parameters.get("constants", ())
        operands = (*operands, *(mlir.ir_constant(constant.array) for constant in held))
        text = parameters["configuration"] if configuration is None else json.dumps(configuration(**parameters))
        aliases = json.loads(text)["aliases"] if several else ()
        return mlir.custom_call(
            target,
            result_types=[mlir.aval_to_ir_type(ctx.module_context, aval) for aval in ctx.avals_out],
            operands=operands,
            backend_config=text,
            has_side_effect=effect,
            operand_output_aliases={operand: result for result, operand in aliases},
        ).results

    mlir.register_lowering(primitive, mlir.lower_fun(reference, multiple_results=several))
    mlir.register_lowering(primitive, lower, platform=PLATFORM)
    # Exported programs hold the whole configuration.
    _export._CUSTOM_CALL_TARGETS_GUARANTEED_STABLE.add(target)
    return primitive


def _ad() -> Any:
    from jax._src.interpreters import ad

    return ad


def _put_type(array: Any, *, tiles: tuple[int, ...]) -> Any:
    return ShapedArray(array.shape, array.dtype)


def _put_reference(array: Any, *, tiles: tuple[int, ...]) -> Any:
    return array


def _put_configuration(tiles: tuple[int, ...]) -> dict[str, Any]:
    return {"tiles": tiles}


def _constant_type(*, data: Constant, tiles: tuple[int, ...]) -> Any:
    return ShapedArray(data.array.shape, data.array.dtype)


def _constant_reference(*, data: Constant, tiles: tuple[int, ...]) -> Any:
    return jnp.asarray(data.array)


def _constant_configuration(data: Constant, tiles: tuple[int, ...]) -> dict[str, Any]:
    return {"tiles": tiles}


def _gather_type(array: Any, *, indices: tuple[int, ...], tiles: tuple[int, ...]) -> Any:
    return ShapedArray((len(indices), *array.shape[1:]), array.dtype)


def _gather_reference(array: Any, *, indices: tuple[int, ...], tiles: tuple[int, ...]) -> Any:
    return array[np.array(indices, np.int32)]


def _gather_configuration(indices: tuple[int, ...], tiles: tuple[int, ...]) -> dict[str, Any]:
    return {"tiles": tiles, "indices": indices}


def _gather_transpose(cotangent: Any, array: Any, *, indices: tuple[int, ...], tiles: tuple[int, ...]) -> list[Any]:
    zeros = jnp.zeros(array.aval.shape, array.aval.dtype)
    return [zeros.at[np.array(indices, np.int32)].add(cotangent)]


def _cycles_type(*arrays: Any, tiles: tuple[int, ...], sync: bool) -> Any:
    return ShapedArray((len(tiles), 2), np.dtype(np.uint32))


def _cycles_reference(*arrays: Any, tiles: tuple[int, ...], sync: bool) -> Any:
    return jnp.zeros((len(tiles), 2), np.uint32)


def _cycles_configuration(tiles: tuple[int, ...], sync: bool) -> dict[str, Any]:
    return {"tiles": tiles, "sync": sync}


def _cycles_jvp(primals: Any, tangents: Any, *, tiles: tuple[int, ...], sync: bool) -> Any:
    ad: Any = _ad()
    count = _primitives().cycles.bind(*primals, tiles=tiles, sync=sync)
    return count, ad.p2tz(count)


def _map_types(*arrays: Any, of: Primitive, attributes: Attributes, tiles: tuple[int, ...], **_: Any) -> list[Any]:
    parts = [ShapedArray(a.shape[1:], a.dtype) for a in arrays]
    results, _effects = of.abstract_eval(*parts, **dict(attributes))
    results = results if of.multiple_results else [results]
    return [ShapedArray((len(tiles), *r.shape), r.dtype) for r in results]


def _map_reference(*arrays: Any, of: Primitive, attributes: Attributes, tiles: tuple[int, ...], **_: Any) -> list[Any]:
    return batched(of, dict(attributes), len(tiles))(*arrays)


def _map_jvp(primals: Any, tangents: Any, *, of: Primitive, **parameters: Any) -> Any:
    """The derivative that the user gave for the primitive, else that of its reference implementation."""
    ad: Any = _ad()
    results = _primitives().map.bind(*primals, of=of, **parameters)
    directions = [ad.instantiate_zeros(t) for t in tangents]
    attributes, tiles = dict(parameters["attributes"]), len(parameters["tiles"])
    rule = ad.primitive_jvps.get(of)
    if rule is None:
        return results, jax.jvp(batched(of, attributes, tiles), tuple(primals), tuple(directions))[1]

    def on_one_tile(values: Any, along: Any) -> Any:
        outputs = rule(values, along, **attributes)[1]
        outputs = outputs if of.multiple_results else [outputs]
        return [ad.instantiate_zeros(t) for t in outputs]

    return results, jax.vmap(on_one_tile, axis_size=tiles)(list(primals), directions)


def _one_after_another(primitive: Primitive, arrays: Any, dims: Any, **parameters: Any) -> Any:
    """Under vmap, the members of the batch use the tiles one after the other."""
    batched_at = [i for i, d in enumerate(dims) if d is not None]
    moved = [jnp.moveaxis(arrays[i], dims[i], 0) for i in batched_at]

    def one(members: list[Any]) -> Any:
        operands = list(arrays)
        for i, member in zip(batched_at, members, strict=True):
            operands[i] = member
        return primitive.bind(*operands, **parameters)

    results = jax.lax.map(one, moved)
    return results, [0] * len(results) if primitive.multiple_results else 0
