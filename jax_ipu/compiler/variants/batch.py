"""The batch of a program, by data flow: the dimension along which it computes rows that do not depend on each other.

Rows go through products as free dimensions and through everything else elementwise, until a loss or a gradient sums
them. The dimensions of weights do so, too, but not through the whole program: the batch is in most of what is computed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from jax_ipu.compiler.ir import ARGUMENT_NAME, VIEWS, Block, Module, Op, Value
from jax_ipu.compiler.location import operation_path
from jax_ipu.compiler.variants.spread import Fixed, Marks, Spread, resize

_ROOT = re.compile(r"[A-Za-z_]\w*")
# Ops that compute nothing: their results do not say what a dimension is for.
_NOT_COMPUTED = VIEWS | {"constant", "iota", "convert"}
_PRODUCTS = frozenset(("dot_general", "convolution"))


@dataclass(frozen=True)
class Batch:
    """The batch of a program.

    Attributes:
        size: the number of rows.
        axes: the position of each argument that has the batch -> its axis.
    """

    size: int
    axes: dict[int, int]

    def resized(self, other: int) -> Callable[[Module], None]:
        """What gives the program `other` rows, for a module without calls, in place."""

        return lambda module: resize(self.marks(module), self.size, other)

    def marks(self, module: Module) -> Marks:
        """The values of a module without calls that have rows."""
        (argument, axis), *_ = self.axes.items()
        return Spread(module).of(module.main.block.args[argument], axis)

    def of_size(self, size: int) -> Batch:
        """The same with another number of rows: that of the part of one IPU."""
        return replace(self, size=size)


def find_batch(module: Module) -> Batch | None:
    """The batch of a program without calls; None where there is none, it is ambiguous, or its size cannot change."""
    found = _Classes(module)
    candidates = sorted(((found.rank(marks), marks) for marks in found.candidates()), key=lambda one: one[0])
    if not candidates or (len(candidates) > 1 and candidates[-1][0] == candidates[-2][0]):
        return None
    _, marks = candidates[-1]
    # Of the two sides of a product, one is weights, however much is computed with them: results begin with rows.
    rows = [other for _, other in candidates if found.comes_first(other) and _are_sides(other, marks)]
    if rows and not found.comes_first(marks):
        marks = rows[-1]
    arguments = module.main.block.args
    axes = {i: next(iter(marks[a])) for i, a in enumerate(arguments) if a in marks}
    first, axis = next(iter(axes.items()))  # from which it was followed
    return Batch(arguments[first].shape[axis], axes)


class _Classes:
    """The dimensions of arguments whose size can change, those that are one together."""

    def __init__(self, module: Module) -> None:
        self._main = module.main
        block = module.main.block
        self._is_gradient = any("transpose(" in operation_path(op.location) for op in block.walk())
        spread = Spread(module)
        self._all: list[Marks] = []
        covered: set[tuple[Value, int]] = set()
        for argument in block.args:
            if not argument.users or 0 in argument.shape:
                continue
            for d, size in enumerate(argument.shape):
                if size < 2 or (argument, d) in covered:
                    continue
                try:
                    marks = spread.of(argument, d)
                except Fixed:
                    continue
                covered.update((a, e) for a in block.args if a in marks for e in marks[a])
                self._all.append(marks)
        self._state = self._state_arguments()
        self._after_products: set[Value] = set()
        self._find_after_products(block)
        aliased = {attrs["tf.aliasing_output"] for attrs in self._main.arg_attrs if "tf.aliasing_output" in attrs}
        self._outputs = [r for j, r in enumerate(block.results) if r.shape and j not in aliased]

    def candidates(self) -> list[Marks]:
        return [
            marks
            for marks in self._all
            if self._is_mapped(marks) and self._is_of_data(marks) and not self._is_of_weights(marks)
        ]

    def rank(self, marks: Marks) -> tuple[bool, int, bool]:
        """The batch has the highest rank: it reaches results, is in most of what is computed, and comes first."""
        reaches = not self._is_gradient and any(r in marks for r in self._outputs)
        computed = sum(v.op is not None and v.op.name not in _NOT_COMPUTED for v in marks)
        return reaches, computed, self.comes_first(marks)

    def comes_first(self, marks: Marks) -> bool:
        """Whether it is the first dimension of all arguments and results that have it."""
        return all(0 in marks[v] for v in (*self._main.block.args, *self._outputs) if v in marks)

    def _is_mapped(self, marks: Marks) -> bool:
        """Whether rows stay apart: only products of a gradient sum over them, and none of these gives rows again."""
        if not self._is_gradient and self._outputs and not any(r in marks for r in self._outputs):
            return False
        return not any(_sums(op, marks) and (op.result in marks or not self._is_gradient) for op in _products(marks))

    def _is_of_weights(self, marks: Marks) -> bool:
        """Whether a product of values that depend on a product and values that do not has it in the latter only."""
        for op in _products(marks):
            one, other = op.operands
            for weights, rows in ((one, other), (other, one)):
                if weights in marks and rows not in marks and rows in self._after_products:
                    if weights not in self._after_products and not self._is_from_weights(rows, marks):
                        return True
        return False

    def _is_from_weights(self, other: Value, marks: Marks) -> bool:
        """Whether the other side of a product is computed from weights alone: only rows on this side come first."""
        return self.comes_first(marks) and not any(other in c and self.comes_first(c) for c in self._all)

    def _is_of_data(self, marks: Marks) -> bool:
        """Whether no state has the dimension; a cache has it if other results have it as well."""
        if not any(a in marks for a in self._state):
            return True
        return not self._is_gradient and any(r in marks for r in self._outputs)

    def _find_after_products(self, block: Block) -> None:
        """Collects the values that depend on a product."""
        found = self._after_products
        for op in block.ops:
            for region in op.regions:
                found.update(a for a, o in zip(region.args, op.operands, strict=False) if o in found)
                self._find_after_products(region)
                if op.name == "while":  # from one iteration to the next
                    found.update(a for a, r in zip(region.args, region.results, strict=False) if r in found)
                    self._find_after_products(region)
            inner = any(r in found for region in op.regions for r in region.results)
            if inner or op.name in _PRODUCTS or any(o in found for o in op.operands):
                found.update(op.results)

    def _state_arguments(self) -> list[Value]:
        """Donated arguments, and in a gradient those that results replace; with all under the same root of the pytree.

        A result replaces an argument that has the same dimensions, not only the same shape.
        """
        main = self._main
        classes: dict[tuple[Value, int], int] = {}
        ends = {*main.block.args, *main.block.results}
        for number, marks in enumerate(self._all):
            classes.update(((v, d), number) for v in ends & marks.keys() for d in marks[v])

        def key(value: Value) -> tuple[object, ...]:
            return value.shape, value.dtype, tuple(classes.get((value, d)) for d in range(len(value.shape)))

        results = {key(r) for r in main.block.results if r.shape}
        donated: set[str] = set()
        replaced: dict[str, bool] = {}
        names = [_root(attrs.get(ARGUMENT_NAME, ""), i) for i, attrs in enumerate(main.arg_attrs)]
        for value, attrs, root in zip(main.block.args, main.arg_attrs, names, strict=True):
            if "tf.aliasing_output" in attrs or attrs.get("jax.buffer_donor", False):
                donated.add(root)
            if self._is_gradient and value.users and value.shape:
                replaced[root] = replaced.get(root, True) and key(value) in results
        state = donated | {root for root, all_leaves in replaced.items() if all_leaves}
        return [value for value, root in zip(main.block.args, names, strict=True) if root in state]


def _root(name: str, index: int) -> str:
    found = _ROOT.match(name)
    return found.group() if found else f"argument {index}"


def _products(marks: Marks) -> set[Op]:
    """The products with an operand in `marks`."""
    return {user for v in marks for user in v.users if user.name in _PRODUCTS}


def _are_sides(one: Marks, other: Marks) -> bool:
    """Whether the operands of a product have one dimension each."""
    for op in _products(one) & _products(other):
        first, second = op.operands
        if (first in one) != (first in other) and (second in one) != (second in other):
            return True
    return False


def _sums(product: Op, marks: Marks) -> bool:
    """Whether the product sums over a dimension in `marks`."""
    if product.name == "convolution":
        inputs, numbers = product.operands[0], product.attrs["dimension_numbers"]
        return numbers["input_feature_dimension"] in marks.get(inputs, {})
    numbers = product.attrs["dot_dimension_numbers"]
    return any(
        d in marks.get(operand, {})
        for operand, side in zip(product.operands, ("lhs", "rhs"), strict=True)
        for d in numbers[f"{side}_contracting_dimensions"]
    )
