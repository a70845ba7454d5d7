"""Random programs: straight-line code over jax.lax whose every result carries a bound on its rounding error.

A program is Python text, so that a counterexample can be read and pasted. Values that only exact operations made must
be equal everywhere; the others may differ by what the error analysis allows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from hypothesis import strategies as st
from jax import lax

from support.stablehlo_text import hlo

INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
REAL = (*INTS, *FLOATS)
ORDERED = ("bool", *REAL)
EVERY = ("bool", *REAL, *COMPLEX)
# One unit in the last place, relative, and the largest finite value; for a complex type, those of its parts.
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-22, "float64": 2.0**-50}
EPSILON |= {"complex64": EPSILON["float32"], "complex128": EPSILON["float64"]}
LARGEST = {"float16": 6e4, "bfloat16": 1e38, "float32": 1e38, "float64": 1e300, "complex64": 1e18, "complex128": 1e150}
MAX_ELEMENTS = 1500
# The same for programs whose sizes lie in five decades.
MAX_BYTES_OF_MANY = 1 << 20
MAX_ELEMENTS_OF_MANY = 100_000


@dataclasses.dataclass(frozen=True)
class Value:
    """An intermediate result: integer-valued if `error` is zero; |finite elements| <= bound.

    special: NaN and infinities may occur. Bounds of integers are those of their type.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    bound: float
    error: float
    special: bool

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class Step:
    """What an operation adds: its text, the bound of its results, and the error that they inherit from the operands.

    rounds: number of roundings at the scale of the bound; zero for operations that copy or compare. inexact: whether
    the results are not integers although the operands are.
    """

    text: str
    bound: float = 0.0
    error: float = 0.0
    rounds: int = 0
    inexact: bool = False
    special: bool | None = None


def copy(value: Value, text: str) -> Step:
    """An operation whose results are elements of the value."""
    return Step(text, value.bound, value.error)


class Unsuitable(Exception):
    """No value of the program so far is a suitable operand."""


class Drawer:
    """Hypothesis' choices, over the values that the program has so far."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], decades: bool = False) -> None:
        """`decades`: the logarithms of sizes are uniform, up to 100,000 elements; otherwise sizes are small."""
        self._draw = draw
        self._decades = decades
        self.replicas = 1
        self.channel = 0  # the last channel that a collective has
        self.values: list[Value] = []
        self.used: list[Value] = []

    def integer(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def flag(self) -> bool:
        return self._draw(st.booleans())

    def pick(self, items: Sequence[Any]) -> Any:
        return self._draw(st.sampled_from(items))

    def order(self, n: int) -> tuple[int, ...]:
        return tuple(self._draw(st.permutations(range(n))))

    def dims(self, value: Value) -> tuple[int, ...]:
        """Draws some dimensions of the value, at least one unless it is a scalar."""
        chosen = [d for d in range(value.rank) if self.flag()]
        return tuple(chosen or ([self.integer(0, value.rank - 1)] if value.rank else []))

    def suits(self, shape: Sequence[int], dtype: str) -> bool:
        """Whether a value of the program may be as large as this."""
        elements = math.prod(shape)
        if not self._decades:
            return elements <= MAX_ELEMENTS
        return elements <= MAX_ELEMENTS_OF_MANY and elements * jnp.dtype(dtype).itemsize <= MAX_BYTES_OF_MANY

    def _shape_of_many(self, max_rank: int) -> tuple[int, ...]:
        """A number of elements, and how its logarithm is shared between the dimensions."""
        elements = 10 ** (self.integer(0, 10 * int(math.log10(MAX_ELEMENTS_OF_MANY))) / 10)
        shares = [self.integer(0, 9) for _ in range(self.integer(0, min(max_rank, 3)))]
        return tuple(int(elements ** (share / max(1, sum(shares)))) for share in shares)

    def shape(self, max_rank: int = 4) -> tuple[int, ...]:
        if self._decades:
            return self._shape_of_many(max_rank)
        if max_rank == 4 and self.integer(0, 15) == 15:
            return tuple(self.pick((1, 2, 1, 2, 3, 1, 2, 0)) for _ in range(self.integer(5, 8)))
        sizes = [self.pick((1, 2, 3, 4, 5, 7, 1, 2, 3, 0, 17, 33)) for _ in range(self.integer(0, max_rank))]
        while math.prod(sizes) > MAX_ELEMENTS:
            sizes.pop()
        return tuple(sizes)

    def value(
        self, dtypes: Sequence[str] = EVERY, *, exact: bool = False, finite: bool = False, min_rank: int = 0
    ) -> Value:
        """Draws a value of the program; `exact` is for operations with jumps, such as comparisons."""
        found = [
            v
            for v in self.values
            if v.dtype in dtypes and v.rank >= min_rank and not (exact and v.error) and not (finite and v.special)
        ]
        if not found:
            raise Unsuitable
        # Later values first: hypothesis shrinks towards the front.
        chosen = self.pick(found[::-1])
        self.used.append(chosen)
        return chosen

    def partner(self, value: Value, **kind: Any) -> tuple[str, Value]:
        """Returns the text of a value of the same shape and type, and the value that it is made of."""
        other = self.value((value.dtype,), **kind)
        return (other.name if other.shape == value.shape else f"fit({other.name}, {value.shape})"), other

    def index(self) -> str:
        """Returns the text of an int32 scalar that the program computes, or of a constant. It may be out of bounds."""
        found = [v for v in self.values if v.dtype == "int32" and v.size]
        if not found or self.flag():
            return f"jnp.int32({self.integer(-2, 9)})"
        chosen = self.pick(found)
        self.used.append(dataclasses.replace(chosen, special=False))
        return f"(fit({chosen.name}, ()) & 7)"


def fit(x: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Returns the elements in row-major order in another shape, truncated or padded with zeros."""
    x = jnp.asarray(x)  # loops of one trip may give Python's scalars
    missing = math.prod(shape) - x.size
    flat = lax.pad(lax.reshape(x, (x.size,)), jnp.zeros((), x.dtype), [(0, missing, 0)])
    return lax.reshape(flat, shape)


NAMES = {"jax": jax, "lax": lax, "jnp": jnp, "np": np, "fit": fit, "hlo": hlo}


@dataclasses.dataclass(frozen=True)
class Program:
    """The text of a function of `inputs`, and the allowed differences of its results."""

    lines: tuple[str, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    donates: bool  # all inputs: results use their storage where shapes and types allow it
    seed: int
    replicas: int = 1

    def __repr__(self) -> str:
        parameters = ", ".join(f"{v.name}: {v.dtype}{list(v.shape)}" for v in self.inputs)
        results = ", ".join(v.name for v in self.outputs)
        donated = ", inputs donated" if self.donates else ""
        donated += f", {self.replicas} replicas" if self.replicas > 1 else ""
        return "\n    ".join(
            (f"def program({parameters}):  # seed {self.seed}{donated}", *self.lines, f"return [{results}]")
        )

    def function(self) -> Callable[..., list[jax.Array]]:
        code = compile("\n".join(self.lines), "program", "exec")

        def program(*arguments: Any) -> list[jax.Array]:
            scope = NAMES | {v.name: a for v, a in zip(self.inputs, arguments, strict=True)}
            exec(code, scope)
            return [scope[v.name] for v in self.outputs]

        return program

    def arguments(self, replica: int = 0) -> list[np.ndarray[Any, Any]]:
        """Draws small integers of every type, limits of integer types, and NaN, infinities, -0 where allowed."""
        rng = np.random.default_rng(self.seed + replica)
        arrays = []
        for value in self.inputs:
            dtype = jnp.dtype(value.dtype)
            if value.dtype == "bool":
                array = rng.integers(0, 2, value.shape).astype(bool)
            elif value.dtype in INTS:
                info = np.iinfo(dtype)
                array = rng.integers(-9 if info.min else 0, 9, value.shape, endpoint=True).astype(dtype)
                edges = rng.choice(np.array([info.min, info.max, info.max - 1], dtype), value.shape)
                array = np.where(rng.random(value.shape) < 0.2, edges, array)
            elif value.dtype in COMPLEX:
                array = rng.integers(-8, 8, value.shape) + 1j * rng.integers(-8, 8, value.shape)
            else:
                array = rng.integers(-8, 8, value.shape, endpoint=True).astype(dtype)
                if value.special:
                    edges = rng.choice(np.array([np.nan, np.inf, -np.inf, -0.0]), value.shape).astype(dtype)
                    array = np.where(rng.random(value.shape) < 0.2, edges, array)
            arrays.append(np.asarray(array, dtype).reshape(value.shape))
        return arrays


def bit_patterns(program: Program) -> list[np.ndarray[Any, Any]]:
    """Draws any bits: NaN, infinities, zeros of both signs and denormals are as likely as other numbers."""
    rng = np.random.default_rng(program.seed)
    arrays = []
    for value in program.inputs:
        dtype = jnp.dtype(value.dtype)
        part = np.dtype(f"f{dtype.itemsize // 2}") if value.dtype in COMPLEX else dtype
        count = value.size * dtype.itemsize // part.itemsize
        array = np.frombuffer(rng.bytes(count * part.itemsize), part).copy()
        if value.dtype == "bool":
            array = rng.integers(0, 2, count).astype(bool)
        elif value.dtype in EPSILON:
            small = np.frombuffer(rng.bytes(count * part.itemsize), part) * jnp.finfo(part).tiny
            edges = rng.choice(np.array([np.nan, np.inf, -np.inf, -0.0, 0.0]), count).astype(part)
            array = np.choose(rng.integers(0, 3, count), [array, small.astype(part), edges]).astype(part)
        arrays.append(array.view(dtype).reshape(value.shape))
    return arrays


def assert_same_bits(value: Value, actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    """Checks that values are equal to the last bit, except that every NaN equals every other."""
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    if value.dtype in EPSILON:
        part = np.dtype(f"f{actual.dtype.itemsize // 2}") if value.dtype in COMPLEX else actual.dtype
        actual, expected = (x.reshape(-1).view(part) for x in (actual, expected))
        nan = np.isnan(expected)
        np.testing.assert_array_equal(np.isnan(actual), nan, err_msg=value.name)
        actual, expected = (np.where(nan, 0, x).astype(part).view(f"u{part.itemsize}") for x in (actual, expected))
    np.testing.assert_array_equal(actual, expected, err_msg=value.name)


def natural_bound(dtype: str) -> float:
    """Returns the largest magnitude of integers and booleans, whose arithmetic wraps and is exact."""
    return 1.0 if dtype == "bool" else float(np.iinfo(dtype).max) + 1


def limited(dtype: str, step: Step) -> tuple[float, float]:
    """Returns (bound, error) of a step's floating-point result. Raises Unsuitable if the step might overflow."""
    if step.bound > LARGEST[dtype]:
        raise Unsuitable
    epsilon = EPSILON[dtype]
    exact = not step.inexact and step.error == 0 and step.bound * epsilon < 0.5
    error = 0.0 if exact or (step.rounds == 0 and step.error == 0) else step.error + step.rounds * epsilon * step.bound
    if error > 0.05 * max(1.0, step.bound):
        raise Unsuitable  # nothing left to compare
    return step.bound, error


def add_step(drawer: Drawer, lines: list[str], operation: Callable[[Drawer], Step]) -> None:
    """Adds a line with its results, if the program has suitable operands so far."""
    drawer.used = []
    try:
        step = operation(drawer)
        scope = NAMES | {v.name: jax.ShapeDtypeStruct(v.shape, v.dtype) for v in drawer.values}
        names = [v.name for v in drawer.values]

        def evaluate(*arguments: Any) -> list[jax.Array]:
            result = eval(step.text, scope | dict(zip(names, arguments, strict=True)))
            return jax.tree.leaves(result)

        with jax.enable_x64(True):
            shapes = jax.eval_shape(evaluate, *(scope[n] for n in names))
        special = any(v.special for v in drawer.used) if step.special is None else step.special
        added = []
        for i, shape in enumerate(shapes):
            dtype = shape.dtype.name
            if not drawer.suits(shape.shape, dtype):
                raise Unsuitable
            floating = dtype in EPSILON
            bound, error = limited(dtype, step) if floating else (natural_bound(dtype), 0.0)
            name = f"v{len(drawer.values) + i}"
            added.append(Value(name, tuple(shape.shape), dtype, bound, error, special and floating))
    except Unsuitable:
        return
    lines.append(f"{', '.join(v.name for v in added)} = {step.text}")
    drawer.values.extend(added)


def build(
    drawer: Drawer, operations: Sequence[Callable[[Drawer], Step]], max_steps: int, replicas: Sequence[int]
) -> Program:
    """Returns a program of three to `max_steps` of the operations, over one to four inputs."""
    drawer.replicas = drawer.pick(replicas)
    for i in range(drawer.integer(1, 4)):
        dtype = drawer.pick(EVERY[::-1] if i else FLOATS[::-1])
        floating = dtype in EPSILON
        special = dtype in FLOATS and drawer.integer(0, 3) == 0
        bound = (12.0 if dtype in COMPLEX else 8.0) if floating else natural_bound(dtype)
        shape = drawer.shape()
        while not drawer.suits(shape, dtype):
            shape = shape[:-1]
        drawer.values.append(Value(f"v{i}", shape, dtype, bound, 0.0, special))
    inputs = tuple(drawer.values)
    lines: list[str] = []
    for _ in range(drawer.integer(3, max_steps)):
        add_step(drawer, lines, drawer.pick(operations))
    made = drawer.values[len(inputs) :]
    outputs = [v for v in made[:-1] if drawer.integer(0, 3) == 0] + (made[-1:] or [inputs[0]])
    donates, seed = drawer.flag(), drawer.integer(0, 2**16)
    return Program(tuple(lines), inputs, tuple(outputs), donates, seed, drawer.replicas)


def programs(
    operations: Sequence[Callable[[Drawer], Step]],
    max_steps: int = 8,
    replicas: Sequence[int] = (1,),
    decades: bool = False,
) -> st.SearchStrategy[Program]:
    """Returns a strategy for programs with one of these numbers of replicas; `decades` as for `Drawer`."""
    return st.composite(lambda draw: build(Drawer(draw, decades), operations, max_steps, replicas))()


def assert_close(value: Value, actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    """Checks that exact values are equal, and others within twice their error (both sides round)."""
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    if value.dtype == ml_dtypes.bfloat16 or value.dtype in FLOATS:
        actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2 * value.error, err_msg=value.name)
