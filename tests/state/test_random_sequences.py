"""Random sequences of calls, copies, reads and deletions: every array has the values of its counterpart in NumPy."""

import gc
import random
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

IPUS = jax.devices("ipu")[:4]
TWO, FOUR = (Mesh(np.array(IPUS[:count]), ("a",)) for count in (2, 4))
# An array is on the first IPU most of the time, so that programs take each other's arrays there.
PLACES = (
    *[SingleDeviceSharding(IPUS[0])] * 4,
    SingleDeviceSharding(IPUS[1]),
    SingleDeviceSharding(IPUS[0], memory_kind="pinned_host"),
    *(NamedSharding(TWO, spec) for spec in (P("a"), P())),
    NamedSharding(FOUR, P(None, "a")),
)
SHAPES = ((8, 4), (64, 128))
# Name -> a function of arrays of one shape, which of them are donated, and its results by NumPy.
FUNCTIONS = {
    "add one": (lambda x: x + 1, (0,), lambda x: [x + 1]),
    "add one and keep": (lambda x: x + 1, (), lambda x: [x + 1]),
    "exchange": (lambda x, y: (y, x), (0, 1), lambda x, y: [y, x]),
    "exchange and change": (lambda x, y: (y + 1, x * 1), (0, 1), lambda x, y: [y + 1, x]),
    "sum into the first": (lambda x, y: x + y, (0,), lambda x, y: [x + y]),
    "difference into the second": (lambda x, y: x - y, (1,), lambda x, y: [x - y]),
    "two of one": (lambda x: (x, x + 0), (0,), lambda x: [x, x]),
    "unchanged": (lambda x: x, (0,), lambda x: [x]),
    "turn": (lambda x, y, z: (y, z, x), (0, 1, 2), lambda x, y, z: [y, z, x]),
    "turn back": (lambda x, y, z: (z, x, y + 1), (0, 1, 2), lambda x, y, z: [z, x, y + 1]),
    "give up one": (lambda x, y: y * 2, (0, 1), lambda x, y: [y * 2]),
    "rows": (lambda x, y: x.at[1:3].set(y[:2]), (0,), lambda x, y: [np.concatenate([x[:1], y[:2], x[3:]])]),
    "reverse": (lambda x: x[::-1], (0,), lambda x: [x[::-1]]),
    "trips": (
        lambda x, y: lax.fori_loop(0, 3, lambda _, s: (s[1], s[0] + 1), (x, y)),
        (0, 1),
        lambda x, y: [y + 1, x + 2],
    ),
    "branches": (
        lambda x, y: lax.cond(x[0, 0] % 2 == 0, lambda a, b: (a + 1, b), lambda a, b: (b, a), x, y),
        (0, 1),
        lambda x, y: [x + 1, y] if x[0, 0] % 2 == 0 else [y, x],
    ),
}
JITTED = {name: jax.jit(function, donate_argnums=given) for name, (function, given, _) in FUNCTIONS.items()}


class Pair(NamedTuple):
    array: Any
    expected: np.ndarray


class Sequence:
    """The arrays that are alive, and what was done so far."""

    def __init__(self, seed: int) -> None:
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.pairs: list[Pair] = []
        self.done: list[str] = []

    def step(self) -> None:
        actions = (*[self.make] * 3, *[self.call] * 14, *[self.move] * 3, *[self.read] * 3, *[self.drop] * 2)
        self.random.choice(actions if self.pairs else (self.make,))()
        if len(self.pairs) > 10:
            self.drop()

    def add(self, array: Any, expected: np.ndarray) -> None:
        # jit and device_put return an argument itself where nothing changes.
        if not any(array is pair.array for pair in self.pairs):
            self.pairs.append(Pair(array, np.array(expected)))

    def forget(self, *pairs: Pair) -> None:
        self.pairs = [pair for pair in self.pairs if not any(pair.array is other.array for other in pairs)]

    def make(self) -> None:
        values = self.numbers.integers(-50, 50, self.random.choice(SHAPES)).astype(np.int32)
        place = self.random.choice(PLACES)
        self.done.append(f"make {values.shape} {place}")
        self.add(jax.device_put(values, place), values)

    def call(self) -> None:
        name = self.random.choice(list(FUNCTIONS))
        _, given, by_numpy = FUNCTIONS[name]
        first = self.random.choice(self.pairs).array
        alike = [
            pair
            for pair in self.pairs
            if pair.array.shape == first.shape and pair.array.devices() == first.devices() and _is_on_tiles(pair.array)
        ]
        count = by_numpy.__code__.co_argcount
        if len(alike) < count:
            return
        operands = self.random.sample(alike, count)
        self.done.append(f"{name} {[operand.array.sharding for operand in operands]}")
        results = JITTED[name](*[operand.array for operand in operands])
        self.forget(*[operands[i] for i in given])
        for array, expected in zip(jax.tree.leaves(results), by_numpy(*[o.expected for o in operands]), strict=True):
            self.add(array, expected)

    def move(self) -> None:
        pair, place = self.random.choice(self.pairs), self.random.choice(PLACES)
        if len(pair.array.devices()) > 1 and _is_on_tiles(pair.array) != (place.memory_kind == "device"):
            return  # JAX refuses some of these
        self.done.append(f"move {pair.array.sharding} to {place}")
        array = jax.device_put(pair.array, place)
        if array.devices() & pair.array.devices():
            self.forget(pair)  # both may have one buffer, which is donated with either
        self.add(array, pair.expected)

    def read(self) -> None:
        self.check(self.random.choice(self.pairs))

    def drop(self) -> None:
        pair = self.random.choice(self.pairs)
        self.forget(pair)
        if self.random.random() < 0.5:
            pair.array.delete()

    def check(self, pair: Pair) -> None:
        got = np.asarray(pair.array)
        assert got.dtype == pair.expected.dtype
        assert np.array_equal(got, pair.expected), "\n".join(self.done[-30:])


def _is_on_tiles(array: Any) -> bool:
    return bool(array.sharding.memory_kind == "device")


def run(seed: int, steps: int) -> None:
    sequence = Sequence(seed)
    for number in range(steps):
        sequence.step()
        if number % 100 == 99:
            gc.collect()
    for pair in sequence.pairs:
        sequence.check(pair)


@pytest.mark.parametrize("seed", range(2))
def test_sequences(seed):
    run(seed, 60)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 120))
def test_long_sequences(seed):
    run(seed, 500)
