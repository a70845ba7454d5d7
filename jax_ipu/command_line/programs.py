"""The programs that commands name: functions of modules, files of MLIR or HLO, and files of ``jax.export``."""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from jax_ipu import names
from jax_ipu.command_line.failures import message_of
from jax_ipu.command_line.output import UsageError
from jax_ipu.names import suggestion

if TYPE_CHECKING:
    from jax_ipu.integration.programs import Program

WHAT = (
    "module:function or file.py:function; a file with StableHLO (text, bytecode or portable artifact), with an HLO"
    " proto (.hlo.pb), or written by jax.export"
)
_MLIR_BYTECODE = b"ML\xefR"
_HLO_SUFFIXES = (".pb", ".hlo")
# Files that are often given in place of a program: the end of the name, and what to give.
_JSON, _PAGE, _MODEL, _NOTEBOOK = (
    "jax-ipu compare and report take what jax-ipu wrote as .json",
    "of a report, jax-ipu compare and report take the data, which jax-ipu report -o NAME.json writes",
    "jax_ipu.GraphCoreManager runs models of other frameworks",
    "write the function of the notebook to a file, and give FILE.py:FUNCTION; in the notebook, jax_ipu.estimate and"
    " jax_ipu.report take it as it is",
)
_NO_PROGRAMS = {
    **{".json": _JSON, ".html": _PAGE, ".htm": _PAGE, ".ipynb": _NOTEBOOK},
    **dict.fromkeys((".onnx", ".pt", ".pth", ".pt2", ".keras", ".h5", ".safetensors"), _MODEL),
}
_ARGUMENT = re.compile(r"(\w+)\[([^\[\]]*)\]")
_BATCH = "b"
# What returns a function, as jax.jit does; for the list of those in a file.
_MAKE_FUNCTIONS = ("jit", "filter_jit", "pmap", "vmap", "grad", "value_and_grad", "checkpoint", "partial", "shard_map")
_TYPES = {"f": "float", "i": "int", "s": "int", "u": "uint", "c": "complex"}
_SHORT_TYPES = ("f32", "f16", "bf16", "s32", "s8", "u32", "u8", "pred")
# The function of a module that returns the arguments of its other functions.
_EXAMPLE_ARGUMENTS = "example_args"


class Refusal(UsageError):
    """A function does not take the arguments, or the batch, that the command line gives."""


class Bytes(NamedTuple):
    """A program as the compiler takes it: `options` is a serialised xla.CompileOptionsProto."""

    program: bytes
    format: str
    options: bytes


class Loaded(NamedTuple):
    """A program that a command names. `at(batch)` makes it for a batch; None for the one that it has.

    `half(batch)` makes it for arguments of type float16 in place of float32, or returns None if there are none; it may
    raise what the function does. A file has its types, and no `half`.
    """

    name: str
    at: Callable[[int | None], Bytes]
    half: Callable[[int | None], Program | None] | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say how a program is made."""
    parser.add_argument(
        "--arg",
        action="append",
        metavar="TYPE[SHAPE]",
        help="the type of an argument, such as f32[128,784], i32[] or f16[b,784], where b is the batch; once for each",
    )
    parser.add_argument(
        "--args-from",
        metavar="FUNCTION",
        help="a function that returns the tuple of arguments, arrays or jax.ShapeDtypeStruct; it gets the batch if"
        f" there is one. A name in the module of the function, or module:name; by default {_EXAMPLE_ARGUMENTS}",
    )
    parser.add_argument("--donate", metavar="N,N", default="", help="positions of donated arguments, as donate_argnums")
    option = "a compiler option, such as ipu_outline=always"
    parser.add_argument("--option", action="append", metavar="NAME=VALUE", default=[], help=option)


def load(what: str, options: argparse.Namespace) -> Loaded:
    """The program that `what` names.

    Raises:
        UsageError: there is no such program, or it needs other options.
    """
    given = _options(options.option)
    path = Path(what)
    if path.suffix == ".py" or what.endswith(".py:"):
        raise UsageError(_without_function(Path(what.removesuffix(":"))))
    if path.is_file():
        return _file(path, options, given)
    if "::" in what:
        raise UsageError(f"{what}: write one colon, {what.replace('::', ':')}")
    source, colon, name = what.rpartition(":")
    if not colon or not name:
        raise UsageError(_no_program(what.removesuffix(":")))
    module = _module(source)
    function = _attribute(module, name, source)
    arguments = _arguments_of(module, source, options)
    donated = _numbers(options.donate)
    if donated and _is_jitted(function):
        raise UsageError(f"--donate {options.donate}: {what} is jitted already, with donate_argnums of its own")

    def at(batch: int | None) -> Bytes:
        from jax_ipu.integration.programs import program_of

        values = arguments(batch)
        _check_call(what, function, values, donated)
        with _refusals(what, options.arg, batch):
            program = program_of(function, values, {}, donated, given)
        return Bytes(program.mlir, "mlir", program.options)

    def half(batch: int | None) -> Program | None:
        from jax_ipu.integration.programs import program_of
        from jax_ipu.reports.alternatives import in_half_precision

        values = in_half_precision(arguments(batch))
        return None if values is None else program_of(function, values, {}, donated, given)

    return Loaded(name, at, half)


def _is_jitted(function: Callable[..., Any]) -> bool:
    from jax_ipu.integration.jitted import is_jitted

    return is_jitted(function)


@contextmanager
def _refusals(what: str, texts: list[str] | None, batch: int | None) -> Iterator[None]:
    """Turns an error of shapes, types or assertions into a Refusal, where shapes or a batch were given as text.

    Whether the function or what it was given is wrong nobody can tell; it is called as the command line says.
    """
    try:
        yield
    except (TypeError, ValueError, IndexError, AssertionError) as error:
        import jax

        given = [f"--arg {text}" for text in texts or ()] + ([] if batch is None else [f"a batch of {batch}"])
        if not given or isinstance(error, (jax.errors.JAXTypeError, jax.errors.JAXIndexError)):  # no error of shapes
            raise
        raise Refusal(f"{what} does not take {', '.join(given)}: {message_of(error)}") from error


def refuse_options_of_programs(options: argparse.Namespace, what: str) -> None:
    """Raises UsageError where an option says how a program is compiled, which `what` was already."""
    named = ("arg", "args_from", "donate", "option", "batch", "target", "num_ipus", "advice")
    given = [
        f"--{name.replace('_', '-')}" for name in named if getattr(options, name, None) not in (None, "", [], False)
    ]
    if given:
        raise UsageError(f"{what} is compiled already: leave out {', '.join(given)}")


def check_ipus(found: int, wanted: int | None) -> None:
    """Raises UsageError where --num-ipus is not the number of IPUs that the program is for."""
    if wanted is not None and found != wanted:
        ipus = f"{found} IPU{'s' if found > 1 else ''}"
        raise UsageError(f"the shardings of the program are over {ipus}, not over {wanted}")


def with_file(what: str, message: str) -> str:
    """The message of a parser, which calls its input "-", with the name of the file."""
    return message.replace('error: "-":', f'error: "{what}":') if Path(what).is_file() else message


def _no_program(what: str) -> str:
    """Why `what` names no program."""
    if Path(what).is_dir():
        return f"{what} is a folder: name a file in it, or FILE.py:FUNCTION"
    source, _, name = what.rpartition(".")
    if "/" not in what and name in _functions_of_module(source):
        return f"there is no file {what}: write {source}:{name} for the function"
    if "/" in what or Path(what).suffix:
        return f"there is no file {what}"
    try:
        spec = importlib.util.find_spec(what)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.has_location or spec.origin is None:
        return f"{what} is no file, and not module:function"
    return _without_function(Path(spec.origin), what)


def _functions_of_module(source: str) -> list[str]:
    """The functions of a module that is a file, which is not run; none if there is no such module."""
    try:
        spec = importlib.util.find_spec(source) if source else None
        return functions_in(Path(spec.origin).read_text("utf-8")) if spec is not None and spec.origin else []
    except (ImportError, OSError, ValueError, SyntaxError):
        return []


def _without_function(path: Path, source: str | None = None) -> str:
    """What to give instead of a file of Python, or a module `source`, alone. The file is not run."""
    source = source or str(path)
    if not path.is_file():
        return f"there is no file {path}"
    asked = f"{source} is Python: give {source}:FUNCTION"
    try:
        found = functions_in(path.read_text("utf-8"))
    except (OSError, ValueError, SyntaxError) as error:  # SyntaxError has the file's name only where it was compiled
        return f"{asked}. Which functions it has is not known: {error}"
    if not found:
        return f"{asked}. It defines no function at its top level"
    return f"{asked}, one of {', '.join(f'{source}:{name}' for name in found)}"


def functions_in(text: str) -> list[str]:
    """The functions at the top level of a Python file: defined there, or made by ``jax.jit`` and the like."""
    found = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            called = ast.unparse(node.value.func).rpartition(".")[2]
            if called in _MAKE_FUNCTIONS:
                found += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [name for name in found if not name.startswith("_") and name != _EXAMPLE_ARGUMENTS]


def _check_call(what: str, function: Callable[..., Any], values: tuple[Any, ...], donated: tuple[int, ...]) -> None:
    """Raises UsageError if the function cannot be called with so many arguments, or does not have the donated ones."""
    if wrong := [number for number in donated if not 0 <= number < len(values)]:
        raise UsageError(f"--donate {wrong[0]}: {what} gets {_arguments(len(values))}, numbered from 0")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions in C have none
        return
    try:
        signature.bind(*values)
    except TypeError as error:
        given = _arguments(len(values))
        raise UsageError(
            f"{what} takes {signature}, but gets {given}: {error}. Give --arg once for each argument, as in"
            f" --arg f32[128,784], or a function {_EXAMPLE_ARGUMENTS} that returns them"
        ) from None


def _arguments(number: int) -> str:
    return f"{number} argument{'' if number == 1 else 's'}"


def _options(texts: list[str]) -> dict[str, str]:
    """The compiler options, which are checked before anything is traced."""
    from jax_ipu.compiler.errors import CompileError
    from jax_ipu.compiler.options import compile_options, serialize_options

    given = dict(_option(text) for text in texts)
    try:
        compile_options(serialize_options(given))
    except CompileError as error:
        raise UsageError(f"--option: {error}") from None
    return given


def _option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--option {text}: write NAME=VALUE")
    return name, value


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part)
    except ValueError:
        raise UsageError(f"--donate {text}: write positions separated by commas, e.g. 0,1") from None


def _module(source: str) -> ModuleType:
    if "/" in source and Path(f"{source}.py").is_file():
        raise UsageError(f"there is no module {source}: write {source}.py for the file")
    if not source or source.startswith("."):
        raise UsageError(f"there is no module {source or 'without a name'}: write module:function or file.py:function")
    if source.endswith(".py"):
        path = Path(source)
        if not path.is_file():
            raise UsageError(f"there is no file {source}")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        sys.path.insert(0, str(path.resolve().parent))
        try:
            with _no_script(source):
                spec.loader.exec_module(module)
        except PermissionError as error:
            raise UsageError(f"{source} cannot be read: {error.strerror}") from error
        return module
    if Path(source).is_file():
        why = _NO_PROGRAMS.get(Path(source).suffix, "a program in a file is named without a function")
        raise UsageError(f"{source} is no Python: {why}")
    try:
        with _no_script(source):
            return importlib.import_module(source)
    except ModuleNotFoundError as error:
        if error.name is not None and (source == error.name or source.startswith(f"{error.name}.")):
            raise UsageError(f"there is no module {source}") from error
        raise


@contextmanager
def _no_script(source: str) -> Iterator[None]:
    """While a file is imported that may be a script as well: it does not see the arguments of this command."""
    arguments, sys.argv = sys.argv, [source]
    try:
        yield
    except SystemExit as error:
        raise UsageError(
            f"{source} ends Python when it is imported: {message_of(error)}\nPut what it does as a script under"
            ' if __name__ == "__main__":'
        ) from error
    finally:
        sys.argv = arguments


def _attribute(module: ModuleType, name: str, source: str) -> Callable[..., Any]:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            functions = [key for key, value in vars(module).items() if _is_function_of(value, key, module)]
            hint = names.suggestion(name, functions) if functions else "It has no functions."
            raise UsageError(f"{source} has no {name}. {hint}")
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(f"{source}:{name} is no function, but a {type(found).__name__}")
    function: Callable[..., Any] = found
    return function


def _is_function_of(value: Any, name: str, module: ModuleType) -> bool:
    """Whether it can be called, and was not imported from elsewhere; a callable object has no module of its own."""
    imported = isinstance(value, type) or inspect.isroutine(value)
    own = not imported or getattr(value, "__module__", None) == module.__name__
    return callable(value) and own and not name.startswith("_")


def _arguments_of(
    module: ModuleType, module_name: str, options: argparse.Namespace
) -> Callable[[int | None], tuple[Any, ...]]:
    if options.arg is not None and options.args_from is not None:
        raise UsageError("give --arg or --args-from, not both")
    if options.arg is not None:
        return lambda batch: _shapes(options.arg, batch)
    if options.args_from is None and not hasattr(module, _EXAMPLE_ARGUMENTS):
        return lambda batch: _without_arguments(batch)
    source, _, name = (options.args_from or _EXAMPLE_ARGUMENTS).rpartition(":")
    make = _attribute(_module(source) if source else module, name, source or module_name)

    def arguments(batch: int | None) -> tuple[Any, ...]:
        if batch is not None and not _takes(make, batch):
            raise UsageError(f"{name} takes no batch: give it a parameter, as in def {name}(batch=64)")
        if batch is None and not _takes(make):
            wanted = "needs a batch: give its size with --batch" if _takes(make, 1) else "needs arguments of its own"
            raise UsageError(f"{name} returns arguments, and {wanted}")
        made = make() if batch is None else make(batch)
        return tuple(made) if isinstance(made, (tuple, list)) else (made,)

    return arguments


def _without_arguments(batch: int | None) -> tuple[Any, ...]:
    if batch is not None:
        raise UsageError("no argument has a batch; give --arg with the letter b for the batch, or --args-from")
    return ()


def _takes(make: Callable[..., Any], *values: int) -> bool:
    try:
        inspect.signature(make).bind(*values)
    except TypeError:
        return False
    except ValueError:  # a function in C has no signature
        pass
    return True


def _shapes(texts: list[str], batch: int | None) -> tuple[Any, ...]:
    """The types of arguments, such as "f32[b,784]"."""
    shapes = [_shape(text, batch) for text in texts]
    if batch is not None and not any(_BATCH in text.partition("[")[2] for text in texts):
        raise UsageError(
            "no --arg has a batch: write the letter b where a shape has the size of the batch, e.g. f32[b,784]"
        )
    return tuple(shapes)


def _shape(text: str, batch: int | None) -> Any:
    """The type of an argument, such as "f32[b,784]"."""
    import jax

    match = _ARGUMENT.fullmatch(text)
    if match is None:
        raise UsageError(f"--arg {text}: write a type and a shape, e.g. f32[128,784] or i32[]")
    shape: list[int] = []
    sizes = [part.strip() for part in match[2].split(",")]
    if not sizes[-1]:  # f32[] and, as in Python, f32[3,]
        sizes.pop()
    for part in sizes:
        if part == _BATCH:
            if batch is None:
                raise UsageError(f"--arg {text} has a batch: give its size with --batch")
            shape.append(batch)
        elif part.isdecimal():
            shape.append(int(part))
        else:
            what = f"{part} is no size" if part else "a size is missing between commas"
            raise UsageError(f"--arg {text}: {what}; the batch is the letter b")
    if math.prod(shape) >= 1 << 63:
        raise UsageError(f"--arg {text} has more elements than any array")
    struct: Any = jax.ShapeDtypeStruct
    return struct(tuple(shape), _dtype(text, match[1]))


def _dtype(text: str, name: str) -> Any:
    import jax
    import jax.numpy as jnp

    short = re.fullmatch(r"([fisuc])(\d+)(e\w+)?", name)
    long = {"bf16": "bfloat16", "pred": "bool"}.get(name, name)
    if short:
        long = _TYPES[short[1]] + short[2] + (f"_{short[3]}" if short[3] else "")
    try:
        found = jnp.dtype(long)
    except TypeError:
        found = jnp.dtype(object)
    if not any(jnp.issubdtype(found, kind) for kind in (jnp.number, jnp.bool_)):  # NumPy has more types than JAX
        raise UsageError(f"--arg {text}: there is no type {name}. {suggestion(name, _SHORT_TYPES)}")
    if (taken := jax.dtypes.canonicalize_dtype(found)) != found:
        raise UsageError(f"--arg {text}: JAX would take {taken} for {found}. Set JAX_ENABLE_X64=1 for 64 bits")
    return found


def _file(path: Path, options: argparse.Namespace, given: dict[str, str]) -> Loaded:
    if path.suffix in _NO_PROGRAMS:
        raise UsageError(f"{path} is no program: {_NO_PROGRAMS[path.suffix]}")
    if options.arg is not None or options.args_from is not None:
        raise UsageError(f"{path} says itself which arguments it has: leave out --arg and --args-from")
    from jax_ipu.compiler.options import serialize_options

    try:
        data, serialized = path.read_bytes(), serialize_options(given)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    if not data:
        raise UsageError(f"{path} is empty")
    if path.suffix in _HLO_SUFFIXES:
        return Loaded(path.name, _fixed(path, Bytes(data, "hlo", serialized), options))
    if data.startswith(_MLIR_BYTECODE) or b"\0" not in data:  # bytecode or text
        return Loaded(path.name, _fixed(path, Bytes(data, "mlir", serialized), options))
    return _exported(path, data, options, given)


def _fixed(path: Path, program: Bytes, options: argparse.Namespace) -> Callable[[int | None], Bytes]:
    """A program as it is in its file."""
    if options.donate:
        raise UsageError(f"{path} says itself which arguments are donated: leave out --donate")

    def at(batch: int | None) -> Bytes:
        if batch is not None:
            raise UsageError(f"{path} has a fixed batch: export it with a symbolic one (jax.export.symbolic_shape)")
        return program

    return at


def _exported(path: Path, data: bytes, options: argparse.Namespace, given: dict[str, str]) -> Loaded:
    import jax

    from jax_ipu.compiler.options import serialize_options

    try:
        exported = jax.export.deserialize(bytearray(data))
    except Exception as error:
        # Anything may come of bytes that are something else; only JAX's own errors say what is wrong.
        why = f": {error}" if isinstance(error, ValueError) and str(error) else ""
        raise UsageError(
            f"{path} is no StableHLO, no HLO proto (.hlo.pb), and was not written by jax.export{why}"
        ) from error
    struct: Any = jax.ShapeDtypeStruct
    symbols = {v for a in exported.in_avals for d in a.shape if not isinstance(d, int) for v in d._get_vars()}
    if not symbols and (exported.nr_devices > 1 or "ipu" not in exported.platforms):
        program = Bytes(exported.mlir_module_serialized, "mlir", serialize_options(given))
        return Loaded(path.name, _fixed(path, program, options))
    donated = _numbers(options.donate)

    def at(batch: int | None) -> Bytes:
        from jax_ipu.integration.programs import program_of

        if symbols and batch is None:
            raise UsageError(f"{path} has the symbolic size {', '.join(sorted(symbols))}: give it with --batch")
        if len(symbols) != 1 and batch is not None:
            raise UsageError(f"{path} has {len(symbols)} symbolic sizes; the batch must be the only one")
        sizes = dict.fromkeys(symbols, batch)
        leaves = [
            struct([d if isinstance(d, int) else int(d._evaluate(sizes)) for d in a.shape], a.dtype)
            for a in exported.in_avals
        ]
        args, kwargs = jax.tree.unflatten(exported.in_tree, leaves)
        with _refusals(str(path), None, batch):
            program = program_of(exported.call, args, kwargs, donated, given)
        return Bytes(program.mlir, "mlir", program.options)

    return Loaded(path.name, at)
