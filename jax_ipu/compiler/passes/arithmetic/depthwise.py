"""Depthwise convolutions of f32 along one dimension by small kernels become sums of shifted products, elementwise.

Along other spatial dimensions, kernels may have one position: JAX users write sequences as images of one row.

Where each group has one input channel, PopLibs has no vertex for f32 that uses the vector unit: a partial sum of its
horizontal vertex takes seven cycles beside its dot product of one element, and the matrix unit multiplies by zeros. An
elementwise op multiplies and adds in one pass over all shifted reads, which the ops around it join. The gradient of the
operand is such a convolution, too; that of the kernel is a sum of products for each of its positions. Kernels of images
stay: the boundaries of blocks along two dimensions, shifted in both, take longer to plan than a convolution.
"""

from __future__ import annotations

from jax_ipu.compiler.ir import Module, Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, rewrite
from jax_ipu.compiler.shapes import ConvShape
from jax_ipu.compiler.types import Shape, num_elements

# The most positions of a kernel: each is one more read of the operand, and two more instructions.
_MOST_POSITIONS = 16
# The fewest products of a tile, and elements of the operand for the gradient of a kernel, which takes a reduction for
# each position: with fewer, the supersteps take longer than the convolution.
_LEAST_PRODUCTS, _LEAST_ELEMENTS = 64, 512


def run(module: Module) -> None:
    """Rewrites the convolutions of main and of its regions."""
    tiles = max(1, module.num_tiles)
    rewrite(module.main.block, {"convolution": lambda op, rewriter: _convolution(op, rewriter, tiles)})


def _convolution(op: Op, rewriter: Rewriter, tiles: int) -> Value | None:
    lhs, rhs = op.operands
    if any(v.dtype != "f32" or num_elements(v.shape) == 0 for v in (lhs, rhs, op.result)):
        return None
    conv = ConvShape(op)
    _, padding, lhs_dilation, _, reversal, groups, batch_groups = conv.window
    batch, feature = conv.lhs_permutation[:2]
    if batch_groups == 1 and groups == lhs.shape[feature] > 1:
        line = _line(op, conv, rhs, conv.rhs_permutation)
        if line is None or min(padding[line]) < 0:
            return None
        positions = rhs.shape[conv.rhs_permutation[2 + line]]
        enough = positions * num_elements(op.result.shape) >= _LEAST_PRODUCTS * tiles
        return _of_operand(op, conv, line, rewriter) if enough and positions <= _MOST_POSITIONS else None
    if groups == 1 and batch_groups == lhs.shape[batch] == rhs.shape[conv.rhs_permutation[0]] > 1:
        line = _line(op, conv, op.result, conv.output_permutation)
        if line is None or min(padding[line]) < 0:
            return None
        positions = op.result.shape[conv.output_permutation[2 + line]]
        enough = num_elements(rhs.shape) >= _LEAST_ELEMENTS * tiles
        is_plain = not any(reversal) and all(n == 1 for n in lhs_dilation)
        return _of_kernel(op, conv, line, rewriter) if enough and is_plain and positions <= _MOST_POSITIONS else None
    return None


def _line(op: Op, conv: ConvShape, kernel: Value, dims: tuple[int, ...]) -> int | None:
    """The number of the spatial dimension along which `kernel` has positions; None if there are several."""
    strides, padding, lhs_dilation, rhs_dilation, *_ = conv.window
    lhs, rhs = op.operands
    several = []
    for i, edges in enumerate(padding):
        is_plain = tuple(edges) == (0, 0) and lhs_dilation[i] == 1 and kernel.shape[dims[2 + i]] == 1
        if kernel is rhs:
            is_plain = is_plain and strides[i] == 1
        else:
            extents = lhs.shape[conv.lhs_permutation[2 + i]], rhs.shape[conv.rhs_permutation[2 + i]]
            is_plain = is_plain and rhs_dilation[i] == 1 and extents[0] == extents[1]
        if not is_plain:
            several.append(i)
    return (several or [0])[0] if padding and len(several) <= 1 else None


def _padded(op: Op, conv: ConvShape, line: int, rewriter: Rewriter) -> Value:
    """The operand with the zeros that the window's padding and the operand's dilation put around its elements."""
    lhs, d = op.operands[0], conv.lhs_permutation[2 + line]
    edges, dilation = conv.window[1][line], conv.window[2][line]
    count = lhs.shape[d]
    extent = sum(edges) + (count - 1) * dilation + 1
    if extent == count:
        return lhs
    low, high, interior = (tuple(n if i == d else 0 for i in range(len(lhs.shape))) for n in (*edges, dilation - 1))
    attrs = {"edge_padding_low": low, "edge_padding_high": high, "interior_padding": interior}
    padding = rewriter.full((), lhs.dtype, 0)
    return rewriter.emit("pad", (lhs, padding), _resized(lhs.shape, d, extent), lhs.dtype, attrs)


def _resized(shape: Shape, d: int, extent: int) -> Shape:
    return (*shape[:d], extent, *shape[d + 1 :])


def _read(value: Value, d: int, begin: int, count: int, step: int, rewriter: Rewriter) -> Value:
    """`count` elements along dimension `d`, from `begin` on, `step` apart."""
    rank = len(value.shape)
    begins, strides = (_resized((n,) * rank, d, m) for n, m in ((0, begin), (1, step)))
    return rewriter.slice(value, begins, _resized(value.shape, d, begin + (count - 1) * step + 1), strides)


def _of_operand(op: Op, conv: ConvShape, line: int, rewriter: Rewriter) -> Value:
    """The convolution, in the order of the operand's dimensions; each channel may have several outputs."""
    lhs, rhs = op.operands
    strides, _, _, rhs_dilation, reversal, channels, _ = conv.window
    stride, dilation, is_reversed = strides[line], rhs_dilation[line], reversal[line]
    feature, along = conv.lhs_permutation[1], conv.lhs_permutation[2 + line]
    kernel = conv.rhs_permutation[2 + line]
    positions, count = rhs.shape[kernel], op.result.shape[conv.output_permutation[2 + line]]
    outputs = rhs.shape[conv.rhs_permutation[0]] // channels
    shape = _resized(lhs.shape, along, count)
    # Several outputs of a channel stand behind it.
    several = (outputs,) if outputs > 1 else ()
    wide = (*shape[: feature + 1], *several, *shape[feature + 1 :])
    own = tuple(range(feature, feature + 1 + len(several)))
    beside = tuple(d for d in range(len(wide)) if d not in own[1:])
    padded = _padded(op, conv, line, rewriter)
    total = None
    for position in range(positions):
        begin = (positions - 1 - position if is_reversed else position) * dilation
        weights = rewriter.reshape(_read(rhs, kernel, position, 1, 1, rewriter), (channels, *several))
        read = _read(padded, along, begin, count, stride, rewriter)
        factors = rewriter.broadcast(read, wide, beside), rewriter.broadcast(weights, wide, own)
        product = rewriter.elementwise("multiply", *factors)
        total = product if total is None else rewriter.elementwise("add", total, product)
    assert total is not None
    total = rewriter.reshape(total, _resized(shape, feature, channels * outputs))
    return rewriter.transpose(total, _placed(conv.lhs_permutation, conv.output_permutation))


def _of_kernel(op: Op, conv: ConvShape, line: int, rewriter: Rewriter) -> Value:
    """The gradient of a kernel: JAX has the channels as groups of the batch, and sums over the batch as channels."""
    lhs, rhs = op.operands
    stride, dilation = conv.window[0][line], conv.window[3][line]
    channel, along = conv.lhs_permutation[0], conv.lhs_permutation[2 + line]
    count = rhs.shape[conv.rhs_permutation[2 + line]]
    positions = op.result.shape[conv.output_permutation[2 + line]]
    padded = _padded(op, conv, line, rewriter)
    other = rewriter.transpose(rhs, _placed(conv.rhs_permutation, conv.lhs_permutation))
    summed = tuple(d for d in range(len(lhs.shape)) if d != channel)
    sums = []
    for position in range(positions):
        read = _read(padded, along, position * stride, count, dilation, rewriter)
        total = rewriter.sum(rewriter.elementwise("multiply", read, other), summed)
        sums.append(rewriter.reshape(total, (1, 1, lhs.shape[channel])))
    shape = (1, positions, lhs.shape[channel])
    joined = rewriter.emit("concatenate", sums, shape, lhs.dtype, {"dimension": 1}) if positions > 1 else sums[0]
    # The other spatial dimensions, of one element, come last.
    spatial = len(conv.output_permutation) - 2
    joined = rewriter.reshape(joined, (*shape, *(1,) * (spatial - 1)))
    others = iter(range(3, 2 + spatial))
    source = (0, 2, *(1 if i == line else next(others) for i in range(spatial)))
    return rewriter.transpose(joined, _placed(source, conv.output_permutation))


def _placed(source: Shape, result: Shape) -> Shape:
    """The permutation that puts dimension `source[i]` where `result[i]` is."""
    permutation = [0] * len(result)
    for s, r in zip(source, result, strict=True):
        permutation[r] = s
    return tuple(permutation)
