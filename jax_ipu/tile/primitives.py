"""Tile primitives: their vertices, and `tile_map`, which runs one on each tile."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jax_ipu.integration import tiles as primitives
from jax_ipu.integration.tiles import Primitive, ShapedArray, new_primitive
from jax_ipu.integration.tracebacks import boundary
from jax_ipu.tile.array import TileShardedArray, check_arrays, checked_tiles
from jax_ipu.tile.vertex import Source, Translation, Vertex, checked_values, default_attributes, template, translations

# (types of the inputs, types of the outputs, attributes) -> a value
ConstantFactory = Callable[[Sequence[Any], Sequence[Any], dict[str, Any]], Any]
# What the function of a declared primitive returns: outputs, constants, temporaries, cycles.
Description = tuple[Mapping[str, Any], Mapping[str, Any] | None, Mapping[str, Any] | None, int | None]


@boundary
def register_ipu_tile_primitive(primitive: Primitive, translation: Translation) -> None:
    """Gives a JAX primitive a vertex, so that `tile_map` runs it.

    Args:
        primitive: any primitive with an abstract evaluation rule.
        translation: (primitive, tiles, types of the operands on one tile, attributes) -> `Vertex`.

    Raises:
        KeyError: the primitive has a vertex.

    Examples:
        >>> import jax, numpy as np
        >>> from jax_ipu import tile
        >>> def vertex(primitive, tiles, avals, attributes):
        ...     name = tile.make_ipu_vertex_name_templated("Reverse", avals[0].dtype)
        ...     return tile.Vertex(name, ["x"], {"y": avals[0]}, codelets=tile.Source("reverse", '''
        ... #include <poplar/Vertex.hpp>
        ... template <typename T> struct Reverse : poplar::Vertex {
        ...   poplar::Input<poplar::Vector<T>> x;
        ...   poplar::Output<poplar::Vector<T>> y;
        ...   bool compute() {
        ...     for (unsigned i = 0; i < x.size(); ++i) y[i] = x[x.size() - 1 - i];
        ...     return true;
        ...   }
        ... };
        ... template class Reverse<float>;
        ... '''))
        >>> tile.register_ipu_tile_primitive(jax.lax.rev_p, vertex)
        >>> def f(x):
        ...     return tile.tile_map(jax.lax.rev_p, tile.tile_put_sharded(x, tiles=(0,)), dimensions=(0,)).array
        >>> np.asarray(jax.jit(f, backend="ipu")(np.float32([[-1, 0.5, 3]])))
        array([[ 3. ,  0.5, -1. ]], dtype=float32)
    """
    if primitive in translations():
        raise KeyError(f"the primitive '{primitive}' has a vertex already")
    translations()[primitive] = translation


@boundary
def create_ipu_tile_primitive(
    pname: str,
    vname: str,
    inputs: Sequence[str],
    outputs: Mapping[str, Any],
    constants: Mapping[str, ConstantFactory] | None = None,
    tmp_space: Any = None,
    gp_filename: str | Path | None = None,
    perf_estimate: int = 0,
) -> Primitive:
    """A primitive that is one vertex on a tile.

    Args:
        pname: its name.
        vname: the vertex class; "{x}" in it becomes the element type of input x.
        inputs: the vertex' fields for the operands.
        outputs: its fields for the results, with the type of each, or the number of the input that has the same type.
            A field that is also an input is read and written in place.
        constants: fields with a value that is known when the program is traced, and the functions that make it.
        tmp_space: the type, or the number of an input of the same type, of the memory for the field `tmp`.
        gp_filename: a file of C++ codelets, or C++ text.
        perf_estimate: the cycles of a vertex, on its thread; 0 for the model's own estimate.

    Returns:
        The primitive, for `tile_map`. `def_impl` gives it a reference implementation in JAX, for other platforms and
        for derivatives.

    Raises:
        ValueError: an output or `tmp_space` has the number of no input, or `gp_filename` is compiled code.
        FileNotFoundError: there is no such file.

    Examples:
        >>> import jax, numpy as np
        >>> from jax_ipu import tile
        >>> twice_p = tile.create_ipu_tile_primitive("twice", "Twice<{x}>", ["x"], {"y": 0}, gp_filename='''
        ... #include <poplar/Vertex.hpp>
        ... template <typename T> struct Twice : poplar::Vertex {
        ...   poplar::Input<poplar::Vector<T>> x;
        ...   poplar::Output<poplar::Vector<T>> y;
        ...   bool compute() {
        ...     for (unsigned i = 0; i < x.size(); ++i) y[i] = 2 * x[i];
        ...     return true;
        ...   }
        ... };
        ... template class Twice<float>;
        ... ''')
        >>> def f(x):
        ...     return tile.tile_map(twice_p, tile.tile_put_sharded(x, tiles=(0, 1))).array
        >>> np.asarray(jax.jit(f, backend="ipu")(np.arange(4, dtype=np.float32).reshape(2, 2)))
        array([[0., 2.],
               [4., 6.]], dtype=float32)
    """
    fields = tuple(inputs)

    def type_of(what: str, given: Any, avals: Sequence[Any]) -> Any:
        if not isinstance(given, int):
            return ShapedArray(tuple(given.shape), np.dtype(given.dtype))
        if not 0 <= given < len(fields):
            raise ValueError(
                f"the primitive {pname}: {what} has the type of input {given}, and there are {len(fields)}"
            )
        return avals[given]

    def describe(avals: Sequence[Any], attributes: dict[str, Any]) -> Description:
        results = {name: type_of(f"the output '{name}'", given, avals) for name, given in outputs.items()}
        made = {
            name: factory(list(avals), list(results.values()), attributes)
            for name, factory in (constants or {}).items()
        }
        temporaries = {} if tmp_space is None else {"tmp": type_of("tmp_space", tmp_space, avals)}
        return results, made, temporaries, perf_estimate

    for what, given in (*((f"the output '{n}'", g) for n, g in outputs.items()), ("tmp_space", tmp_space)):
        if isinstance(given, int):
            type_of(what, given, fields)
    return _make(pname, vname, fields, describe, gp_filename, len(outputs) > 1)


@boundary
def create_ipu_tile_primitive_v2(
    pname: str, vname: str, initializer_fn: Callable[..., Description], gp_filename: str | Path | None = None
) -> Primitive:
    """A primitive that is one vertex on a tile, described by a function of the operands' types.

    Args:
        pname: its name.
        vname: the vertex class; "{x}" in it becomes the element type of input x.
        initializer_fn: called when the program is traced, with the type of each operand on a tile; the names of its
            parameters are the vertex' fields. Parameters that are keywords only get the attributes of `tile_map` of
            their names. Returns the types of the outputs, the values of the constants and the types of the
            temporaries, all dictionaries by field, and the cycles of a vertex (None for the model's own estimate).
        gp_filename: a file of C++ codelets, or C++ text.

    Raises:
        ValueError, FileNotFoundError: as for `create_ipu_tile_primitive`.

    Examples:
        >>> from jax_ipu import tile
        >>> def describe(x, *, rows=1):
        ...     return {"y": tile.ShapedArray((rows, *x.shape), x.dtype)}, None, {"tmp": x}, 8 * rows
        >>> repeat_p = tile.create_ipu_tile_primitive_v2("repeat", "Repeat<{x}>", describe)
        >>> repeat_p.abstract_eval(tile.ShapedArray((4,), "float32"), rows=2)[0]
        ShapedArray(float32[2,4])
    """
    parameters = inspect.signature(initializer_fn).parameters.values()
    fields = tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))
    keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]

    def describe(avals: Sequence[Any], attributes: dict[str, Any]) -> Description:
        return initializer_fn(*avals, **{name: attributes[name] for name in keywords if name in attributes})

    return _make(pname, vname, fields, describe, gp_filename, None)


@boundary
def declare_ipu_tile_primitive(
    vname: str, gp_filename: str | Path | None = None
) -> Callable[[Callable[..., Description]], Primitive]:
    """Makes a function the description of a primitive: `create_ipu_tile_primitive_v2` as a decorator.

    The name of the function ends in "_p"; the primitive has the name before it.

    Args:
        vname: the vertex class; "{x}" in it becomes the element type of input x.
        gp_filename: a file of C++ codelets, or C++ text.

    Raises:
        ValueError: the name does not end in "_p"; others as for `create_ipu_tile_primitive`.

    Examples:
        >>> import jax, numpy as np
        >>> from jax_ipu import tile
        >>> @tile.declare_ipu_tile_primitive("AdderVertex", gp_filename='''
        ... #include <poplar/Vertex.hpp>
        ... class AdderVertex : public poplar::Vertex {
        ...  public:
        ...   poplar::Input<float> x, y;
        ...   poplar::Output<float> sum;
        ...   bool compute() {
        ...     *sum = x + y;
        ...     return true;
        ...   }
        ... };
        ... ''')
        ... def adder_p(x, y):
        ...     return {"sum": x}, None, None, 12
        >>> def add(x, y):
        ...     x, y = (tile.tile_put_sharded(v, tiles=(0, 1)) for v in (x, y))
        ...     return tile.tile_map(adder_p, x, y).array
        >>> np.asarray(jax.jit(add, backend="ipu")(np.float32([1, 2]), np.float32([3, 5])))
        array([4., 7.], dtype=float32)
    """

    def decorate(function: Callable[..., Description]) -> Primitive:
        name, ends = re.subn(r"_p$", "", function.__name__)
        if not ends:
            raise ValueError(f"the name of a tile primitive ends in '_p', as in {function.__name__}_p")
        return create_ipu_tile_primitive_v2(name, vname, function, gp_filename)

    return decorate


def _make(
    pname: str,
    vname: str,
    fields: tuple[str, ...],
    describe: Callable[[Sequence[Any], dict[str, Any]], Description],
    codelets: str | Path | None,
    several: bool | None,
) -> Primitive:
    """A primitive; `several`: whether it has several results, None if that is known only when it is traced."""
    source = None if codelets is None else Source(pname, codelets)
    primitive = new_primitive(pname)
    primitive.multiple_results = bool(several)

    def results(*avals: Any, **attributes: Any) -> Any:
        if len(avals) != len(fields):
            raise TypeError(f"{pname} takes {len(fields)} arrays ({', '.join(fields)}), not {len(avals)}")
        outputs = [ShapedArray(tuple(t.shape), np.dtype(t.dtype)) for t in describe(avals, attributes)[0].values()]
        if not outputs:
            raise ValueError(f"{pname} has no outputs")
        primitive.multiple_results = len(outputs) > 1
        return outputs if len(outputs) > 1 else outputs[0]

    def translate(_: Primitive, tiles: tuple[int, ...], avals: list[Any], attributes: dict[str, Any]) -> Vertex:
        outputs, constants, temporaries, cycles = describe(avals, attributes)
        return Vertex(
            name=template(vname, fields, avals),
            inputs=fields,
            outputs=outputs,
            constants={name: np.asarray(value) for name, value in (constants or {}).items()},
            temporaries=temporaries or {},
            values=checked_values(pname, attributes),
            codelets=source,
            cycles=int(cycles) if cycles else None,
        )

    primitive.def_abstract_eval(results)
    register_ipu_tile_primitive(primitive, translate)
    return primitive


@boundary
def tile_map(
    primitive: Primitive | None,
    *args: TileShardedArray,
    tiles: Sequence[int] | None = None,
    sync: bool = False,
    **attributes: Any,
) -> Any:
    """Runs a primitive on each tile, on the parts of the arrays there: one superstep.

    Args:
        primitive: one with a vertex (`create_ipu_tile_primitive` and its like, or one of `jax.lax`'s elementwise
            primitives); None returns the arrays.
        *args: arrays on the same tiles.
        tiles: the tiles, if there are no arrays.
        sync: whether all tiles meet before. On the model they do before and after every superstep.
        **attributes: numbers: the parameters of the primitive, and fields of the vertex.

    Returns:
        The result on the same tiles, or a tuple of them.

    Raises:
        TypeError: an argument is not on tiles, an attribute is no number, or the primitive takes other arguments.
        KeyError: the primitive has no vertex.
        ValueError: the arrays are on different tiles.

    Examples:
        >>> import jax, numpy as np
        >>> from jax_ipu import tile
        >>> x = tile.tile_put_sharded(np.arange(4, dtype=np.float32).reshape(2, 2), tiles=(0, 1))
        >>> np.asarray(tile.tile_map(jax.lax.add_p, x, x))
        array([[0., 2.],
               [4., 6.]], dtype=float32)
    """
    check_arrays(f"tile_map of {primitive}", args)
    if primitive is None:
        return args
    translation = translations().get(primitive)
    if translation is None:
        if callable(primitive):  # a function of JAX: primitives are no functions
            raise TypeError(f"tile_map takes a primitive, such as jax.lax.sin_p, not {primitive!r:.80}")
        raise KeyError(
            f"the primitive '{primitive}' has no vertex; give it one with register_ipu_tile_primitive, or make a"
            " primitive with create_ipu_tile_primitive"
        )
    # JAX compares the parameters of calls, so lists, as of dimensions, become tuples.
    attributes = {name: _as_tuples(value) for name, value in attributes.items()}
    if primitive in default_attributes:
        # None is no value of a parameter that has one: a scatter without its update would replace, not add.
        given = {name: value for name, value in attributes.items() if value is not None}
        attributes = {**attributes, **default_attributes[primitive](), **given}
    if tiles is None and not args:
        raise ValueError(f"tile_map of {primitive}: without arrays, `tiles` says on which tiles it runs")
    where = args[0].tiles if args else checked_tiles(tiles or ())
    for i, arg in enumerate(args):
        if arg.tiles != where:
            raise ValueError(
                f"tile_map of {primitive}: argument {i} is on the tiles {_text(arg.tiles)}, argument 0 on"
                f" {_text(where)}; tile_gather moves parts to other tiles"
            )
    if tiles is not None and args and checked_tiles(tiles) != where:
        raise ValueError(
            f"tile_map of {primitive}: the arrays are on the tiles {_text(where)}, not {_text(checked_tiles(tiles))}"
        )
    avals = [a.tile_aval for a in args]
    # Sets whether there are several results.
    primitive.abstract_eval(*avals, **attributes)
    vertex = translation(primitive, where, avals, attributes)
    results = primitives.vertices(
        primitive,
        [a.array for a in args],
        list(vertex.constants.values()),
        tuple(sorted(attributes.items())),
        where,
        vertex.configuration(primitive.name, where),
    )
    sharded = tuple(TileShardedArray(array, where) for array in results)
    return sharded if primitive.multiple_results else sharded[0]


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if type(value) in (list, tuple) else value


def _text(tiles: tuple[int, ...]) -> str:
    return f"{tiles[:4]}... ({len(tiles)})".replace(")...", ", ...)") if len(tiles) > 4 else str(tiles)
