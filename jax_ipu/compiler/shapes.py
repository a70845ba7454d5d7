"""The geometry of products and convolutions, read from the attributes of an op."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jax_ipu.compiler.ir import Op
from jax_ipu.compiler.types import Shape

# Strides, padding, dilation of both operands, reversal, groups of features and of the batch, as the bindings take them.
Window = tuple[Sequence[int], Sequence[tuple[int, int]], Sequence[int], Sequence[int], Sequence[bool], int, int]


class DotShape:
    """A dot_general as a grouped matrix product [batch, m, k] x [batch, k, n].

    Each operand becomes its matrix by a permutation of its dimensions, then a reshape.
    """

    __slots__ = ("batch", "k", "lhs_permutation", "m", "n", "rhs_permutation")

    def __init__(self, op: Op) -> None:
        lhs, rhs = op.operands[0].shape, op.operands[1].shape
        numbers = op.attrs["dot_dimension_numbers"]
        lhs_batch, rhs_batch = numbers["lhs_batching_dimensions"], numbers["rhs_batching_dimensions"]
        lhs_contract, rhs_contract = numbers["lhs_contracting_dimensions"], numbers["rhs_contracting_dimensions"]
        lhs_free = tuple(d for d in range(len(lhs)) if d not in lhs_batch and d not in lhs_contract)
        rhs_free = tuple(d for d in range(len(rhs)) if d not in rhs_batch and d not in rhs_contract)
        self.batch = math.prod(lhs[d] for d in lhs_batch)
        self.m = math.prod(lhs[d] for d in lhs_free)
        self.n = math.prod(rhs[d] for d in rhs_free)
        self.k = math.prod(lhs[d] for d in lhs_contract)
        self.lhs_permutation = (*lhs_batch, *lhs_free, *lhs_contract)
        self.rhs_permutation = (*rhs_batch, *rhs_contract, *rhs_free)

    @property
    def lhs(self) -> Shape:
        return (self.batch, self.m, self.k)

    @property
    def rhs(self) -> Shape:
        return (self.batch, self.k, self.n)


class ConvShape:
    """A convolution of [N, C, *spatial] and [O, I, *spatial]: permutations that give that order, and the window."""

    __slots__ = ("lhs_permutation", "output_permutation", "rhs_permutation", "updates_weights", "window")

    def __init__(self, op: Op) -> None:
        attrs = op.attrs
        d = attrs["dimension_numbers"]
        spatial = len(d["input_spatial_dimensions"])
        self.lhs_permutation = (
            d["input_batch_dimension"],
            d["input_feature_dimension"],
            *d["input_spatial_dimensions"],
        )
        self.rhs_permutation = (
            d["kernel_output_feature_dimension"],
            d["kernel_input_feature_dimension"],
            *d["kernel_spatial_dimensions"],
        )
        # Where each of [N, O, *spatial] is in the op's result.
        self.output_permutation = (
            d["output_batch_dimension"],
            d["output_feature_dimension"],
            *d["output_spatial_dimensions"],
        )
        # JAX's gradient of weights sums over the batch, the outermost dimension of both operands.
        self.updates_weights = spatial > 0 and d["input_feature_dimension"] == d["kernel_input_feature_dimension"] == 0
        ones = (1,) * spatial
        padding = attrs.get("padding")
        self.window: Window = (
            attrs.get("window_strides") or ones,
            [(0, 0)] * spatial if padding is None else [(low, high) for low, high in padding],
            attrs.get("lhs_dilation") or ones,
            attrs.get("rhs_dilation") or ones,
            list(attrs.get("window_reversal") or (False,) * spatial),
            attrs.get("feature_group_count", 1),
            attrs.get("batch_group_count", 1),
        )

    @property
    def output_layout(self) -> tuple[int, ...]:
        """The dimensions of [N, O, *spatial] from major to minor, in the order of the result of the op."""
        rank = len(self.output_permutation)
        return tuple(self.output_permutation.index(d) for d in range(rank))


def pairs(attr: object, rank: int) -> list[tuple[int, int]]:
    """The padding of each dimension of windows, before and after."""
    if attr is None:
        return [(0, 0)] * rank
    assert isinstance(attr, tuple)
    if attr and not isinstance(attr[0], tuple):
        # A dense splat of one dimension is imported as a flat tuple.
        return list(zip(attr[::2], attr[1::2], strict=True))
    return list(attr)
