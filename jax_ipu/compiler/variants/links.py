"""Which dimensions of the operands and results of an op are one dimension, and so must have one size.

A dimension that an op does not name in a group has a size that the op depends on: a kernel's height, a table's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from jax_ipu.compiler.expression import EMITTERS
from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.variants.index_columns import indexed_dimensions

Dimension = tuple[Value, int]
Group = tuple[Dimension, ...]
Rule = Callable[[Op], Iterable[Group]]


def groups_of(op: Op) -> Iterable[Group]:
    """Groups of equal dimensions; a group with one member may have any size. "reshape" has no groups."""
    rule = _RULES.get(op.name)
    return rule(op) if rule is not None else ()


def _together(values: Iterable[Value], but: Iterable[int] = ()) -> Iterator[Group]:
    """The dimensions of values of one shape, without those in `but`; scalars among them are for every element."""
    shaped = [v for v in values if v.shape]
    left_out = frozenset(but)
    for d in range(len(shaped[0].shape) if shaped else 0):
        if d not in left_out:
            yield tuple((v, d) for v in shaped if d < len(v.shape))


def _elementwise(op: Op) -> Iterator[Group]:
    if len({len(v.shape) for v in (*op.operands, *op.results) if v.shape}) == 1:
        yield from _together([*op.operands, *op.results])


def _in_pairs(op: Op) -> Iterator[Group]:
    """The results are the operands, in order."""
    for operand, result in zip(op.operands, op.results, strict=True):
        yield from _together((operand, result))


def _while(op: Op) -> Iterator[Group]:
    condition, body = op.regions
    for parts in zip(op.operands, op.results, condition.args, body.args, body.results, strict=True):
        yield from _together(parts)


def _branches(op: Op) -> Iterator[Group]:
    for parts in zip(op.results, *(branch.results for branch in op.regions), strict=True):
        yield from _together(parts)


def _constant(op: Op) -> Iterator[Group]:
    if op.attrs["value"].splat:
        yield from _together(op.results)


def _created(op: Op) -> Iterator[Group]:
    yield from _together(op.results)


def _random_bits(op: Op) -> Iterator[Group]:
    yield from _together(op.results[-1:])


def _transpose(op: Op) -> Iterator[Group]:
    for d, source in enumerate(op.attrs["permutation"]):
        yield (op.operands[0], source), (op.result, d)


def _broadcast(op: Op) -> Iterator[Group]:
    operand, result = op.operands[0], op.result
    sources = dict(zip(op.attrs["broadcast_dimensions"], range(len(operand.shape)), strict=True))
    for d, size in enumerate(result.shape):
        source = sources.get(d)
        if source is not None and operand.shape[source] == size:
            yield (operand, source), (result, d)
        else:
            yield ((result, d),)


def _slice(op: Op) -> Iterator[Group]:
    operand, attrs = op.operands[0], op.attrs
    rows = zip(attrs["start_indices"], attrs["limit_indices"], attrs["strides"], operand.shape, strict=True)
    for d, (start, limit, stride, size) in enumerate(rows):
        if (start, limit, stride) == (0, size, 1):
            yield (operand, d), (op.result, d)


def _dynamic_slice(op: Op) -> Iterator[Group]:
    operand = op.operands[0]
    for d, size in enumerate(op.attrs["slice_sizes"]):
        if size == operand.shape[d]:
            yield (operand, d), (op.result, d)


def _dynamic_update_slice(op: Op) -> Iterator[Group]:
    operand, update = op.operands[:2]
    for d, size in enumerate(operand.shape):
        if size == update.shape[d]:
            yield (operand, d), (update, d), (op.result, d)


def _pad(op: Op) -> Iterator[Group]:
    attrs = op.attrs
    padding = zip(attrs["edge_padding_low"], attrs["edge_padding_high"], attrs["interior_padding"], strict=True)
    for d, around in enumerate(padding):
        if not any(around):
            yield (op.operands[0], d), (op.result, d)


def _concatenate(op: Op) -> Iterator[Group]:
    yield from _together([*op.operands, op.result], (op.attrs["dimension"],))


def _sort(op: Op) -> Iterator[Group]:
    dimension = op.attrs.get("dimension", -1) % max(1, len(op.operands[0].shape))
    yield from _together([*op.operands, *op.results], (dimension,))


def _last_apart(op: Op) -> Iterator[Group]:
    yield from _together([op.operands[0], *op.results], (len(op.operands[0].shape) - 1,))


def _reduce(op: Op) -> Iterator[Group]:
    inputs = op.operands[: len(op.operands) // 2]
    kept = iter(range(len(op.results[0].shape)))
    for d in range(len(inputs[0].shape)):
        group = tuple((v, d) for v in inputs)
        if d not in op.attrs["dimensions"]:
            place = next(kept)
            group += tuple((r, place) for r in op.results)
        yield group


def _dot_general(op: Op) -> Iterator[Group]:
    (lhs, rhs), numbers = op.operands, op.attrs["dot_dimension_numbers"]
    sides = [(lhs, "lhs"), (rhs, "rhs")]
    batch, summed = (
        [numbers[f"{side}_{kind}_dimensions"] for _, side in sides] for kind in ("batching", "contracting")
    )
    for a, b in zip(*summed, strict=True):
        yield (lhs, a), (rhs, b)
    for d, (a, b) in enumerate(zip(*batch, strict=True)):
        yield (lhs, a), (rhs, b), (op.result, d)
    place = len(batch[0])
    for (operand, _), used in zip(sides, (batch[0] + summed[0], batch[1] + summed[1]), strict=True):
        for d in range(len(operand.shape)):
            if d not in used:
                yield (operand, d), (op.result, place)
                place += 1


def _convolution(op: Op) -> Iterator[Group]:
    (inputs, kernel), numbers = op.operands, op.attrs["dimension_numbers"]
    is_grouped = op.attrs.get("feature_group_count", 1) != 1
    is_grouped_by_batch = op.attrs.get("batch_group_count", 1) != 1
    if not is_grouped_by_batch:
        yield (inputs, numbers["input_batch_dimension"]), (op.result, numbers["output_batch_dimension"])
    if not is_grouped:
        yield (inputs, numbers["input_feature_dimension"]), (kernel, numbers["kernel_input_feature_dimension"])
    if not is_grouped and not is_grouped_by_batch:
        yield (kernel, numbers["kernel_output_feature_dimension"]), (op.result, numbers["output_feature_dimension"])


def _windows(op: Op, values: list[Value]) -> Iterator[Group]:
    """The dimensions in which a window has one element."""
    rank, attrs = len(values[0].shape), op.attrs
    ones, none = (1,) * rank, ((0, 0),) * rank
    shapes = [attrs.get(name) or ones for name in ("window_strides", "base_dilations", "window_dilations")]
    padding = attrs.get("padding") or none
    for d in range(rank):
        if attrs["window_dimensions"][d] == 1 and all(s[d] == 1 for s in shapes) and not any(padding[d]):
            yield tuple((v, d) for v in values)


def _reduce_window(op: Op) -> Iterator[Group]:
    yield from _windows(op, [*op.operands[: len(op.operands) // 2], *op.results])


def _select_and_scatter(op: Op) -> Iterator[Group]:
    yield from _windows(op, [op.operands[0], op.operands[1], op.result])


def _of_indices(indices: Value, vector: int) -> list[int]:
    """The dimensions of `indices` without that of the index vector."""
    return [d for d in range(len(indices.shape)) if d != vector]


def _gather(op: Op) -> Iterator[Group]:
    (table, indices), numbers = op.operands[:2], op.attrs["dimension_numbers"]
    sizes, vector = op.attrs["slice_sizes"], numbers["index_vector_dim"]
    offsets = numbers["offset_dims"]
    rows = [d for d in range(len(op.result.shape)) if d not in offsets]
    of_index = dict(zip(_of_indices(indices, vector), rows, strict=True))
    extra: dict[int, list[Dimension]] = {}
    for mine, theirs in zip(
        numbers.get("operand_batching_dims", ()), numbers.get("start_indices_batching_dims", ()), strict=True
    ):
        extra.setdefault(theirs, []).append((table, mine))
    for mine, theirs in indexed_dimensions(indices, vector, numbers["start_index_map"]).items():
        if sizes[mine] == 1:
            extra.setdefault(theirs, []).append((table, mine))
    for d, place in of_index.items():
        yield (indices, d), (op.result, place), *extra.get(d, ())
    without = (*numbers["collapsed_slice_dims"], *numbers.get("operand_batching_dims", ()))
    for d, place in zip([d for d in range(len(table.shape)) if d not in without], offsets, strict=True):
        if sizes[d] == table.shape[d] and d not in numbers["start_index_map"]:
            yield (table, d), (op.result, place)


def _scatter(op: Op) -> Iterator[Group]:
    count = (len(op.operands) - 1) // 2
    tables, indices, updates = op.operands[:count], op.operands[count], op.operands[count + 1 :]
    numbers = op.attrs["scatter_dimension_numbers"]
    vector, window = numbers["index_vector_dim"], numbers["update_window_dims"]
    rows = [d for d in range(len(updates[0].shape)) if d not in window]
    extra: dict[int, list[int]] = {}
    for mine, theirs in zip(
        numbers.get("input_batching_dims", ()), numbers.get("scatter_indices_batching_dims", ()), strict=True
    ):
        extra.setdefault(theirs, []).append(mine)
    targets = numbers["scattered_dims_to_operand_dims"]
    for mine, theirs in indexed_dimensions(indices, vector, targets).items():
        if mine in numbers["inserted_window_dims"]:
            extra.setdefault(theirs, []).append(mine)
    whole = [*tables, *op.results]
    for d, place in zip(_of_indices(indices, vector), rows, strict=True):
        of_tables = ((v, mine) for mine in extra.get(d, ()) for v in whole)
        yield (indices, d), *((u, place) for u in updates), *of_tables
    without = (*numbers["inserted_window_dims"], *numbers.get("input_batching_dims", ()))
    for d, place in zip([d for d in range(len(tables[0].shape)) if d not in without], window, strict=True):
        if updates[0].shape[place] == tables[0].shape[d] and d not in targets:
            yield *((v, d) for v in whole), *((u, place) for u in updates)


def _fft(op: Op) -> Iterator[Group]:
    rank = len(op.result.shape)
    yield from _together((op.operands[0], op.result), range(rank - len(op.attrs["fft_length"]), rank))


def _matrices(op: Op) -> Iterator[Group]:
    rank = len(op.result.shape)
    yield from _together([*op.operands, op.result], range(rank - 2, rank))


def _along(*names: str) -> Rule:
    """A collective that changes the dimensions in these attributes."""

    def rule(op: Op) -> Iterator[Group]:
        changed = [op.attrs[name] for name in names]
        for operand, result in zip(op.operands, op.results, strict=True):
            yield from _together((operand, result), changed)

    return rule


_ELEMENTWISE = (*EMITTERS, "map", "complex", "real", "imag", "chlo.erf", "ipu.threefry2x32", "collective_permute")
_RULES: dict[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    **dict.fromkeys(("optimization_barrier", "all_reduce", "reverse", "copy", "collective_broadcast"), _in_pairs),
    "while": _while,
    "if": _branches,
    "case": _branches,
    "constant": _constant,
    "iota": _created,
    "rng_bit_generator": _random_bits,
    "transpose": _transpose,
    "broadcast_in_dim": _broadcast,
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "sort": _sort,
    "chlo.top_k": _last_apart,
    "reduce": _reduce,
    "dot_general": _dot_general,
    "convolution": _convolution,
    "reduce_window": _reduce_window,
    "select_and_scatter": _select_and_scatter,
    "gather": _gather,
    "scatter": _scatter,
    "fft": _fft,
    "cholesky": _matrices,
    "triangular_solve": _matrices,
    "all_gather": _along("all_gather_dim"),
    "reduce_scatter": _along("scatter_dimension"),
    "all_to_all": _along("split_dimension", "concat_dimension"),
}
