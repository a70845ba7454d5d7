"""What a tile primitive runs on the IPU: a vertex class, its fields, and the C++ that defines it."""

from __future__ import annotations

import hashlib
import inspect
import linecache
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from jax_ipu.integration.tiles import Primitive, ShapedArray, clone, own_name
from jax_ipu.integration.tracebacks import is_hidden

# Poplar's names of element types, which templates take.
_POPLAR_NAMES = {
    "pred": "bool",
    "f16": "half",
    "f32": "float",
    "s8": "signed char",
    "u8": "unsigned char",
    "s16": "short",
    "u16": "unsigned short",
    "s32": "int",
    "u32": "unsigned int",
    "f64": "double",
}
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Vertex:
    """The vertex that a primitive runs on each tile, for operands of given types.

    What a translation of `register_ipu_tile_primitive` returns; `create_ipu_tile_primitive` and
    `declare_ipu_tile_primitive` make it from simpler descriptions.

    Attributes:
        name: the vertex class, with its template arguments: "Adder<float>".
        inputs: the fields of the operands, in order.
        outputs: the field and type of each result; a field that is also an input is read and written.
        constants: fields with a value that all vertices take whole.
        temporaries: fields of memory that has no value before and after.
        values: fields that are numbers.
        codelets: a file of C++, or C++ text.
        cycles: of one vertex, on its thread; None for the model's own estimate.
        operation: the elementwise operation of one result that the vertex computes with all six workers; without
            `cycles` it has those of PopLibs' vertex for it. One of `jax_ipu.compiler.tile_calls.OPERATIONS`.

    Examples:
        >>> from jax_ipu import tile
        >>> x = tile.ShapedArray((4,), "float32")
        >>> vertex = tile.Vertex("Scale<float>", ["x"], {"x": x}, values={"factor": 2.0}, cycles=12)
        >>> vertex.configuration("scale", tiles=(0, 1))["aliases"]
        [[0, 0]]
    """

    name: str
    inputs: Sequence[str]
    outputs: Mapping[str, Any]
    constants: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    temporaries: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, bool | int | float] = field(default_factory=dict)
    codelets: Source | None = None
    cycles: int | None = None
    operation: str = ""

    def configuration(self, primitive: str, tiles: Sequence[int]) -> dict[str, Any]:
        """The call as `jax_ipu.compiler.tile_calls` reads it.

        Examples:
            >>> from jax_ipu import tile
            >>> tile.Vertex("Fill", [], {"y": tile.ShapedArray((4,), "int32")}).configuration("fill", (0,))["outputs"]
            ['y']
        """
        outputs = list(self.outputs)
        inputs = list(self.inputs)
        return {
            "primitive": primitive,
            "vertex": self.name,
            "codelets": None if self.codelets is None else self.codelets.read(),
            "tiles": list(tiles),
            "inputs": inputs,
            "constants": list(self.constants),
            "outputs": outputs,
            "aliases": [[i, inputs.index(name)] for i, name in enumerate(outputs) if name in inputs],
            "temporaries": [[name, list(t.shape), own_name(t.dtype)] for name, t in self.temporaries.items()],
            "values": list(self.values.items()),
            "cycles": self.cycles,
            "operation": self.operation,
        }


class Source:
    """C++ source of codelets: a file, or text (with more than one line).

    Args:
        primitive: a name, for messages.
        codelets: the file, or the text; messages of the compiler name the line of Python where the text stands.

    Raises:
        ValueError: the file is compiled code.
        FileNotFoundError: there is no such file.

    Examples:
        >>> from jax_ipu.tile import Source
        >>> Source("nothing", "struct Nothing {};\\n").read()[2]
        ''
    """

    def __init__(self, primitive: str, codelets: str | Path) -> None:
        self._path: Path | None = None
        self._text = str(codelets)
        self._name = f"the codelets of {primitive}"
        if isinstance(codelets, str) and "\n" in codelets:
            self._find_place()
            return
        self._path = Path(codelets).absolute()
        if self._path.suffix == ".gp":
            raise ValueError(
                f"the codelets of {primitive}: {codelets} is compiled for IPUs, and the model compiles C++: give the"
                " source"
            )
        if not self._path.is_file():
            raise FileNotFoundError(f"the codelets of {primitive}: there is no file {self._path}")

    def read(self) -> list[str]:
        """The text, its name for messages, and the compiler's flags.

        Raises:
            ValueError: the source includes other files, and the name of its folder has a space.

        Examples:
            >>> from jax_ipu.tile import Source
            >>> len(Source("nothing", "struct Nothing {};\\n").read())
            3
        """
        if self._path is None:
            return [self._text, self._name, ""]
        text = self._path.read_text()
        included = self._included(text, self._path.parent, {})
        if not included:
            return [text, str(self._path), ""]
        folder = str(self._path.parent)
        if any(c.isspace() for c in folder):
            raise ValueError(f"{self._path} includes other files, and its folder has a space in its name")
        # A change of what is included makes another program.
        digest = hashlib.sha256("".join(f"{path}\n{body}" for path, body in sorted(included.items())).encode())
        return [f"{text}\n// {digest.hexdigest()}\n", str(self._path), f"-iquote{folder}"]

    def _included(self, text: str, folder: Path, found: dict[Path, str]) -> dict[Path, str]:
        for name in _INCLUDE.findall(text):
            path = (folder / name).resolve()
            if path not in found and path.is_file():
                found[path] = path.read_text()
                self._included(found[path], path.parent, found)
        return found

    def _find_place(self) -> None:
        """Makes messages name the file and line of Python where the text stands."""
        for frame in inspect.stack(context=0):
            if is_hidden(frame.filename):
                continue
            before, found, _ = "".join(linecache.getlines(frame.filename)).partition(self._text)
            if found:
                name = frame.filename.replace("\\", "\\\\").replace('"', '\\"')
                self._text = f'#line {before.count(chr(10)) + 1} "{name}"\n{self._text}'
            return


def type_name(dtype: Any) -> str:
    """Poplar's name of an element type, as templates have it. Raises TypeError for one that vertices cannot have."""
    try:
        return _POPLAR_NAMES[own_name(dtype)]
    except KeyError:
        raise TypeError(f"vertices have no elements of type {np.dtype(dtype).name}") from None


def make_ipu_vertex_name_templated(basename: str, *args: Any) -> str:
    """The name of a vertex class with template arguments: element types, numbers, booleans and names.

    Raises:
        TypeError: an argument is none of these.

    Examples:
        >>> import numpy as np
        >>> from jax_ipu.tile import make_ipu_vertex_name_templated
        >>> make_ipu_vertex_name_templated("Adder", np.float32, True)
        'Adder<float,true>'
    """

    def argument(value: Any) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, bool | int):
            return str(value).lower()
        return type_name(value)

    return f"{basename}<{','.join(map(argument, args))}>" if args else basename


def template(vertex: str, inputs: Sequence[str], types: Sequence[Any]) -> str:
    """`vertex` with the element type of input x in place of "{x}".

    Raises:
        ValueError: there is no input of that name.
    """
    known = dict(zip(inputs, types, strict=True))

    def element_type(match: re.Match[str]) -> str:
        if match[1] not in known:
            raise ValueError(f"{vertex} names {match[0]}, and the inputs are {', '.join(inputs) or 'none'}")
        return type_name(known[match[1]].dtype)

    return re.sub(r"\{(\w+)\}", element_type, vertex)


def checked_values(primitive: str, attributes: Mapping[str, Any]) -> dict[str, bool | int | float]:
    """The attributes as Python numbers. Raises TypeError for other things."""
    values: dict[str, bool | int | float] = {}
    for name, value in attributes.items():
        if isinstance(value, np.generic):
            value = value.item()
        if not isinstance(value, bool | int | float):
            raise TypeError(
                f"tile_map of {primitive}: the attribute {name} is a {type(value).__name__}; the fields of a vertex"
                " that are no arrays take numbers that are known when the program is traced"
            )
        values[name] = value
    return values


def primitive_clone(p: Primitive, name: str) -> Primitive:
    """A primitive that computes the same under another name, with the same rules for derivatives and batches.

    Raises:
        ValueError: the name is that of the primitive.

    Examples:
        >>> import jax
        >>> from jax_ipu.tile import primitive_clone
        >>> primitive_clone(jax.lax.add_p, "add_on_tiles")
        add_on_tiles
    """
    if name == p.name:
        raise ValueError(f"the clone of {p} needs another name")
    return clone(p, name)


Translation = Callable[[Primitive, tuple[int, ...], list[Any], dict[str, Any]], Vertex]
_translations: dict[Primitive, Translation] = {}
# Primitive -> the parameters that it has where the user gives none.
default_attributes: dict[Primitive, Callable[[], dict[str, Any]]] = {}


def translations() -> dict[Primitive, Translation]:
    """The primitives that have vertices, and how these are made."""
    return _translations


def struct(shape: Sequence[int], dtype: Any) -> ShapedArray:
    """A type, for outputs and temporaries."""
    return ShapedArray(tuple(shape), np.dtype(dtype))
