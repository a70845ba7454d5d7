"""StableHLO's self-checking programs: one program returns the checked values, a second one the expected values.

Files are those of openxla/stablehlo: ``stablehlo/testdata`` and ``stablehlo/tests/interpret``. The checks are
either ops of the dialect ``check``, which jaxlib does not have, or custom calls with the same names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxlib.mlir import ir as mlir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, stablehlo
from jaxlib.mlir.passmanager import PassManager

SPLIT = re.compile(r"^// -----.*$", re.MULTILINE)
_CHECK_OP = re.compile(
    r'(?P<quote>"?)check\.(?P<kind>expect_(?:almost_)?eq_const|expect_(?:almost_)?eq|expect_close)\b"?'
)
_CHECK_LINE = re.compile(r"^.*stablehlo\.custom_call @check\..*\n", re.MULTILINE)
# The tolerances of StableHLO's interpreter: two absolute differences, and a number of units in the last place.
_ALMOST, _ALMOST_CUSTOM_CALL, _CLOSE_ULP = 1e-4, 1e-3, 3


class Check(NamedTuple):
    """The comparison of a result. `kind` is eq, almost_eq or close; `tolerance` is absolute, or in ULP for close."""

    kind: str
    tolerance: float


class Program(NamedTuple):
    """A program of a file. `actual` and `expected` are MLIR texts; main returns one side of each check."""

    name: str
    actual: str
    expected: str
    checks: list[Check]


class NotSelfChecking(Exception):
    """A program that cannot be judged alone, with the reason."""


def names(root: Path) -> list[str]:
    """Returns the programs of a checkout as ``path`` or ``path#index``, sorted."""
    found = []
    for folder in ("testdata", "tests/interpret"):
        for path in sorted((root / folder).rglob("*.mlir")):
            parts = len(SPLIT.findall(path.read_text()))
            relative = path.relative_to(root).as_posix()
            found += [relative] if not parts else [f"{relative}#{i}" for i in range(parts + 1)]
    return found


def load(root: Path, name: str) -> Program:
    """Reads one program. Raises NotSelfChecking, or an error of MLIR's parser."""
    relative, _, index = name.partition("#")
    text = (root / relative).read_text()
    if index:
        text = SPLIT.split(text)[int(index)]
    if "check." not in text:
        raise NotSelfChecking("checks nothing")
    for word in ("interpreter.", "check.expect_serialized_eq", "--args"):
        if word in text:
            raise NotSelfChecking(f"uses {word.strip('.-')}")
    text = "".join(_generic_checks(text))
    sides = [_returning(text, side) for side in (0, 1)]
    return Program(name, sides[0][0], sides[1][0], sides[0][1])


def _generic_checks(text: str) -> Iterator[str]:
    """Returns the text with each check op in generic form with two operands: constants become ops."""
    position = count = 0
    while (match := _CHECK_OP.search(text, position)) is not None:
        if text[match.start() - 1] == "@":
            yield text[position : match.end()]
            position = match.end()
            continue
        yield text[position : match.start()]
        kind = match["kind"]
        if match["quote"]:
            operands, position = _until(text, match.end(), ")")
            operand = operands.strip("( ")
            attributes, position = _until(text, position, "}")
            _, position = _until(text, position, "->")
            position = text.index(")", position) + 1
            value = attributes[attributes.index("=") + 1 :].strip()
        else:
            operand, position = _until(text, match.end(), ",")
            operand = operand.strip()
            end = _end_of_type(text, position)
            value, position = text[position:end].strip(), end
        tolerance = ""
        if kind.endswith("_const"):
            constant = f"%expected__{count}"
            count += 1
            trailing = re.match(r"\s*\{tolerance = ([^ }]+)[^}]*\}", text[position:])
            if trailing is not None:
                tolerance = trailing[1]
                position += trailing.end()
            kind_type = value[value.rindex(">", 0, value.rindex(" : ")) + 1 :].removeprefix(" : ")
            yield f"{constant} = stablehlo.constant {value}\n"
            yield _check_text(kind.removesuffix("_const"), operand, constant, kind_type, tolerance)
            continue
        other, _, checked_type = value.partition(" : ")
        other, _, limit = other.partition(",")
        yield _check_text(kind, operand, other.strip(), checked_type.split(", ")[0], limit.rpartition("=")[2].strip())
    yield text[position:]


def _check_text(kind: str, actual: str, expected: str, checked_type: str, limit: str) -> str:
    config = f'{{backend_config = "{limit}"}} ' if limit else '{backend_config = "default"} '
    types = f"({checked_type}, {checked_type}) -> ()"
    return f"stablehlo.custom_call @check.{kind}({actual}, {expected}) {config}: {types}"


def _until(text: str, position: int, stop: str) -> tuple[str, int]:
    end = text.index(stop, position)
    return text[position:end], end + len(stop)


def _end_of_type(text: str, position: int) -> int:
    """Returns the end of ``dense<...> : type`` or ``%value ... : type`` that starts at `position`."""
    depth = 0
    colon = False
    for i in range(position, len(text)):
        c = text[i]
        depth += (c in "<([{") - (c in ">)]}" and text[i - 1] != "-")
        colon = colon or (c == ":" and depth == 0)
        if colon and depth == 0 and c == ">" and text[i + 1 : i + 2] != ",":
            return i + 1
    raise NotSelfChecking("a check has no type")


def _returning(text: str, side: int) -> tuple[str, list[Check]]:
    """Returns the program whose main returns operand number `side` of each of its checks."""
    registry = mlir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = mlir.Context()
    context.append_dialect_registry(registry)
    context.enable_multithreading(False)
    stablehlo.register_dialect(context)
    chlo.register_dialect(context)
    with context, mlir.Location.unknown():
        if "!quant." in text:
            # jaxlib has no other way to load the dialect of quantised types.
            stablehlo.register_stablehlo_passes()
            empty = mlir.Module.parse("module {}")
            PassManager.parse("builtin.module(vhlo-legalize-to-stablehlo)").run(empty.operation)
        module = mlir.Module.parse(text)
        functions = [f for f in module.body.operations if f.operation.name == "func.func" and _checks(f)]
        if not functions:
            raise NotSelfChecking("checks nothing")
        if len(functions) > 1:
            raise NotSelfChecking("has several functions with checks")
        function = functions[0]
        if len(function.operation.regions[0].blocks[0].arguments):
            raise NotSelfChecking("takes arguments")
        checks, values = [], []
        for op in _checks(function):
            checks.append(_check(op))
            # In check.eq, the expectation is the first operand.
            values.append(op.operands[1 - side if len(op.results) else side])
        block = function.operation.regions[0].blocks[0]
        terminator = block.operations[len(block.operations) - 1].operation
        terminator.erase()
        mlir.Operation.create("func.return", operands=values, ip=mlir.InsertionPoint(block))
        attributes = function.operation.attributes
        function_type = mlir.FunctionType.get([], [v.type for v in values])
        attributes["function_type"] = mlir.TypeAttr.get(function_type)
        attributes["sym_name"] = mlir.StringAttr.get("main")
        attributes["sym_visibility"] = mlir.StringAttr.get("public")
        if "res_attrs" in attributes:
            del attributes["res_attrs"]
        # Removing the checks from the text is safe. Erasing an op whose results Python has accessed is not.
        text = _CHECK_LINE.sub("", str(module))
        if side:
            # What remains are constants, which the CPU backend can return even if it cannot run the program.
            module = mlir.Module.parse(text)
            PassManager.parse("builtin.module(func.func(canonicalize))").run(module.operation)
            text = str(module)
        return text, checks


def _checks(function: Any) -> list[Any]:
    block = function.operation.regions[0].blocks[0]
    calls = [op.operation for op in block.operations if op.operation.name == "stablehlo.custom_call"]
    return [op for op in calls if op.attributes["call_target_name"].value.startswith("check.")]


def _check(op: Any) -> Check:
    kind = op.attributes["call_target_name"].value.removeprefix("check.").removeprefix("expect_")
    if kind == "eq" and len(op.results):
        # check.eq compares all types except integers with a tolerance.
        element = str(op.operands[0].type.element_type).removeprefix("u")
        return Check("eq", 0) if element.startswith("i") else Check("almost_eq", _ALMOST)
    limit = op.attributes["backend_config"].value if "backend_config" in op.attributes else ""
    if kind == "close":
        return Check(kind, float(limit or _CLOSE_ULP) if limit != "default" else 1)
    if kind == "almost_eq":
        return Check(kind, _ALMOST_CUSTOM_CALL if not limit else _ALMOST if limit == "default" else float(limit))
    return Check(kind, 0)


def difference(check: Check, actual: Any, expected: Any) -> str:
    """Returns a description of the difference; "" if there is none."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return f"{actual.dtype}{list(actual.shape)} instead of {expected.dtype}{list(expected.shape)}"
    if actual.dtype.kind == "c":
        parts = [(actual.real, expected.real), (actual.imag, expected.imag)]
    else:
        parts = [(actual, expected)]
    for a, e in parts:
        wrong = np.atleast_1d(_wrong(check, a, e))
        if wrong.any():
            at = tuple(int(i[0]) for i in np.nonzero(wrong))
            pair = f"{np.atleast_1d(actual)[at]} instead of {np.atleast_1d(expected)[at]}"
            return f"{int(wrong.sum())} of {wrong.size} elements ({check.kind}), first at {list(at)}: {pair}"
    return ""


def _wrong(check: Check, actual: Any, expected: Any) -> Any:
    integers = actual.dtype.kind in "biu" or actual.dtype.name.startswith(("int", "uint"))
    if integers:
        return actual.astype(np.int64) != expected.astype(np.int64)
    both_nan = np.isnan(actual.astype(np.float64)) & np.isnan(expected.astype(np.float64))
    if check.kind == "close":
        finite = np.isfinite(actual.astype(np.float64)) & np.isfinite(expected.astype(np.float64))
        far = _ulp(actual, expected) > check.tolerance
        return ~both_nan & np.where(finite, far, actual.astype(np.float64) != expected.astype(np.float64))
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(a - e) <= check.tolerance
    return ~both_nan & (a != e) & ~(near & np.isfinite(a) & np.isfinite(e))


def _ulp(actual: Any, expected: Any) -> Any:
    """Returns the distance in representable numbers, counted through zero."""

    def ordered(x: Any) -> Any:
        bits = np.ascontiguousarray(x).view(f"i{x.dtype.itemsize}").astype(object)
        sign = 1 << (8 * x.dtype.itemsize - 1)
        return np.where(bits >= 0, bits, -(bits + sign))

    return np.abs(ordered(actual) - ordered(expected)).reshape(actual.shape)
