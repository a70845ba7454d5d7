"""Expands ops that StableHLO keeps for old programs: einsum, unary_einsum, torch_index_select, create_token."""

from __future__ import annotations

from jax_ipu.compiler.errors import CompileError
from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.location import source_line
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule


def _labels(op: Op) -> tuple[list[str], str]:
    """The labels of each operand and of the result; "..." becomes one digit for each dimension that it stands for."""
    inputs, _, output = op.attrs["einsum_config"].replace(" ", "").partition("->")
    # Dimensions under an ellipsis correspond from the last one on.
    spare = "0123456789"
    expanded = []
    for labels, operand in zip(inputs.split(","), op.operands, strict=True):
        missing = len(operand.shape) - len(labels.replace("...", ""))
        expanded.append(labels.replace("...", spare[len(spare) - missing :]))
    missing = len(op.result.shape) - len(output.replace("...", ""))
    output = output.replace("...", spare[len(spare) - missing :])
    for labels in (*expanded, output):
        if len(set(labels)) != len(labels):
            raise CompileError(
                f"einsum {op.attrs['einsum_config']!r} at {source_line(op.location) or 'an unknown line'} repeats a"
                " label within an operand, which is not supported on IPU; take the diagonal first"
            )
    return expanded, output


def _without(rewriter: Rewriter, value: Value, labels: str, kept: str) -> tuple[Value, str]:
    """`value` summed over the labels that are not in `kept`, and the labels that are left."""
    dims = [d for d, label in enumerate(labels) if label not in kept]
    return rewriter.sum(value, dims), "".join(label for label in labels if label in kept)


def _unary_einsum(op: Op, rewriter: Rewriter) -> Value:
    (labels,), output = _labels(op)
    value, labels = _without(rewriter, op.operands[0], labels, output)
    return rewriter.transpose(value, tuple(labels.index(label) for label in output))


def _einsum(op: Op, rewriter: Rewriter) -> Value:
    (left, right), output = _labels(op)
    lhs, left = _without(rewriter, op.operands[0], left, output + right)
    rhs, right = _without(rewriter, op.operands[1], right, output + left)
    shared = [label for label in left if label in right]
    batch = [label for label in shared if label in output]
    contracted = [label for label in shared if label not in output]
    order = [*batch, *(x for x in left if x not in shared), *(x for x in right if x not in shared)]
    sizes = dict(zip(left + right, lhs.shape + rhs.shape, strict=True))
    numbers = {
        "lhs_batching_dimensions": tuple(map(left.index, batch)),
        "rhs_batching_dimensions": tuple(map(right.index, batch)),
        "lhs_contracting_dimensions": tuple(map(left.index, contracted)),
        "rhs_contracting_dimensions": tuple(map(right.index, contracted)),
    }
    attrs = {"dot_dimension_numbers": numbers, "precision_config": op.attrs.get("precision_config")}
    shape = tuple(sizes[label] for label in order)
    product = rewriter.emit("dot_general", (lhs, rhs), shape, op.result.dtype, attrs)
    return rewriter.transpose(product, tuple(map(order.index, output)))


def _torch_index_select(op: Op, rewriter: Rewriter) -> Value:
    operand, index = op.operands
    dim, batch = op.attrs["dim"], op.attrs["batch_dims"]
    rank, selected = len(op.result.shape), len(index.shape) - batch
    numbers = {
        "offset_dims": (*range(batch, dim), *range(dim + selected, rank)),
        "collapsed_slice_dims": (dim,),
        "operand_batching_dims": tuple(range(batch)),
        "start_indices_batching_dims": tuple(range(batch)),
        "start_index_map": (dim,),
        "index_vector_dim": len(index.shape),
    }
    sizes = tuple(1 if d < batch or d == dim else n for d, n in enumerate(operand.shape))
    attrs = {"dimension_numbers": numbers, "slice_sizes": sizes}
    return rewriter.emit("gather", (operand, index), op.result.shape, op.result.dtype, attrs)


def _token(op: Op, rewriter: Rewriter) -> Value:
    # Ops with effects run in program order, so tokens need no value.
    return rewriter.full(op.result.shape, op.result.dtype, False)


RULES: dict[str, Rule] = {
    "after_all": _token,
    "create_token": _token,
    "einsum": _einsum,
    "torch_index_select": _torch_index_select,
    "unary_einsum": _unary_einsum,
}
