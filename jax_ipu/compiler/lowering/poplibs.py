"""Operations from Graphcore's PopLibs, in place of this project's own: its planner and its vertices.

Only what has StableHLO's values is taken: what PopLibs lacks or defines otherwise, the own library computes, and the
choice is noted for each op with the reason.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jax_ipu import _ipu
from jax_ipu.compiler.expression import region_program, single_op
from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.location import operation_path
from jax_ipu.compiler.lowering import convolution, index, product, table
from jax_ipu.compiler.lowering.context import Context, Creator, Lowering, broadcast, expression_of
from jax_ipu.compiler.lowering.poplibs_limits import (
    MOVED,
    Lacks,
    check_moved,
    check_product,
    check_type,
    combination,
    window_of,
)
from jax_ipu.compiler.lowering.sort_keys import single_key
from jax_ipu.compiler.mapping import Demand
from jax_ipu.compiler.shapes import ConvShape, DotShape, pairs
from jax_ipu.compiler.types import num_elements, pack_scalar
from jax_ipu.poplibs import load

logger = logging.getLogger(__name__)

# Ops that only rename, place or copy elements, or run others: no operation of a library.
_NO_OPERATION = frozenset(
    (
        *("reshape", "transpose", "broadcast_in_dim", "slice", "reverse", "concatenate", "pad", "copy", "ipu.copy"),
        *("optimization_barrier", "ipu.store", "while", "ipu.repeat", "if", "case", "ipu.call", "ipu.callback"),
        *("ipu.ffi_call", "ipu.update_slice", "partition_id", "replica_id", "ipu.tile_put"),
    )
)
_REDUCTIONS = {
    "add": ("f32", "f16", "s32", "u32"),
    "multiply": ("f32", "f16", "s32", "u32"),
    "maximum": ("f32", "f16", "s32", "u32"),
    "minimum": ("f32", "f16", "s32", "u32"),
}
_LOGICAL = {"and": "and", "multiply": "and", "minimum": "and", "or": "or", "add": "or", "maximum": "or"}


@dataclass(frozen=True)
class Choice:
    """Where an op came from: "PopLibs", or "hlo" with the reason."""

    op: Op
    library: str
    reason: str


class PopLibs:
    """PopLibs' operations for one program."""

    def __init__(self, folder: str) -> None:
        self.module: Any = load(folder)
        self.plans = self.module.PlanningCache()
        self.choices: list[Choice] = []
        self._prepared: _ipu.Graph | None = None

    def lowerings(self) -> dict[str, Lowering]:
        """The table from op to the function that lowers it."""
        theirs: dict[str, Lowering] = {
            "chlo.top_k": self._top_k,
            "cholesky": self._cholesky,
            "convolution": self._convolution,
            "dot_general": self._dot_general,
            "dynamic_slice": self._dynamic_slice,
            "dynamic_update_slice": self._dynamic_update_slice,
            "gather": self._gather,
            "iota": self._iota,
            "ipu.map": self._map,
            "ipu.sort_with_positions": self._sort,
            "reduce": self._reduce,
            "reduce_window": self._reduce_window,
            "scatter": self._scatter,
            "select_and_scatter": self._select_and_scatter,
            "sort": self._sort,
            "triangular_solve": self._triangular_solve,
        }
        result: dict[str, Lowering] = {}
        for name, own in table.LOWERINGS.items():
            if name in _NO_OPERATION:
                result[name] = own
            else:
                result[name] = _Either(self, theirs.get(name), own)
        return result

    def creators(self) -> dict[str, Creator]:
        """The table from op to the function that maps its operands to tiles."""
        own = {"convolution": self._create_convolution_operand, "dot_general": self._create_product_operand}
        return {**table.CREATORS, **own}

    def prepare(self, graph: _ipu.Graph) -> None:
        """Adds the codelets of PopLibs to a graph, once."""
        if self._prepared is not graph:
            self.module.add_codelets(graph)
            self._prepared = graph

    def tell(self, name: str) -> None:
        """Logs which library each kind of op came from."""
        taken = Counter(c.op.name for c in self.choices if c.library == "PopLibs")
        others = Counter((c.op.name, c.reason) for c in self.choices if c.library != "PopLibs")
        logger.info(
            "%s: from PopLibs %s; from hlo %s",
            name,
            ", ".join(f"{count} {op}" for op, count in sorted(taken.items())) or "nothing",
            "; ".join(f"{count} {op} ({reason})" for (op, reason), count in sorted(others.items())) or "nothing",
        )

    # Products -----------------------------------------------------------------------------------------------------

    def _dot_general(self, context: Context, op: Op) -> Sequence[_ipu.Tensor]:
        shape = DotShape(op)
        result = op.result
        check_product(op)
        lhs, rhs = context.operands(op)
        a = product.as_matrix(lhs, shape.lhs_permutation, shape.lhs)
        b = product.as_matrix(rhs, shape.rhs_permutation, shape.rhs)
        planning = product.options(context, op)
        out = self.module.mat_mul_grouped(
            context.graph, a, b, result.dtype, context.sequence, context.name(op), planning, self.plans
        )
        return [out.reshape(result.shape)]

    def _create_product_operand(self, context: Context, demand: Demand, dtype: str, name: str) -> _ipu.Tensor | None:
        op = demand.op
        shape = DotShape(op)
        try:
            check_product(op)
        except Lacks:
            return product.create_operand(context, demand, dtype, name)
        self.prepare(context.graph)
        types = (dtype, op.result.dtype)
        tensor = self.module.create_mat_mul_grouped_input(
            context.graph,
            demand.operand == 0,
            *types,
            shape.lhs,
            shape.rhs,
            name,
            product.options(context, op),
            self.plans,
        )
        permutation = shape.lhs_permutation if demand.operand == 0 else shape.rhs_permutation
        return product.from_matrix(tensor, permutation, op.operands[demand.operand].shape)

    # Convolutions -------------------------------------------------------------------------------------------------

    def _convolution(self, context: Context, op: Op) -> Sequence[_ipu.Tensor]:
        shape = ConvShape(op)
        window = window_of(op, shape)
        lhs, rhs = context.operands(op)
        made = self.module.convolution(
            context.graph,
            lhs.dim_shuffle(shape.lhs_permutation),
            rhs.dim_shuffle(shape.rhs_permutation),
            window,
            op.result.dtype,
            context.sequence,
            context.name(op),
            context.planning,
            self.plans,
        )
        return [made.dim_shuffle(shape.output_layout)]

    def _create_convolution_operand(
        self, context: Context, demand: Demand, dtype: str, name: str
    ) -> _ipu.Tensor | None:
        op = demand.op
        shape = ConvShape(op)
        try:
            window = window_of(op, shape)
        except Lacks:
            return convolution.create_operand(context, demand, dtype, name)
        self.prepare(context.graph)
        lhs, rhs = (
            [operand.shape[d] for d in permutation]
            for operand, permutation in zip(op.operands, (shape.lhs_permutation, shape.rhs_permutation), strict=True)
        )
        is_input = demand.operand == 0
        types = (window, op.result.dtype)
        tensor: _ipu.Tensor = self.module.create_convolution_operand(
            context.graph, is_input, dtype, lhs, rhs, *types, name, context.planning, self.plans
        )
        permutation = shape.lhs_permutation if is_input else shape.rhs_permutation
        return tensor.dim_shuffle([permutation.index(d) for d in range(len(permutation))])

    # Linear algebra, top-k ----------------------------------------------------------------------------------------

    def _cholesky(self, context: Context, op: Op) -> Sequence[_ipu.Tensor]:
        check_type("Cholesky factor", op, ("f32",))
        (a,) = context.operands(op)
        lower = bool(op.attrs.get("lower", False))
        planning = (context.planning, self.plans)
        return [self.module.cholesky(context.graph, a, lower, context.sequence, context.name(op), *planning)]

    def _triangular_solve(self, context: Context, op: Op) -> Sequence[_ipu.Tensor]:
        check_type("triangular system", op, ("f32",))
        a, b = context.operands(op)
        form = (bool(op.attrs[name]) for name in ("left_side", "lower", "unit_diagonal"))
        transposed = op.attrs["transpose_a"] in ("TRANSPOSE", "ADJOINT")
        where = (context.sequence, context.name(op), context.planning, self.plans)
        return [self.module.triangular_solve(context.graph, a, b, *form, transposed, *where)]

    def _top_k(self, context: Context, op: Op) -> Sequence[_ipu.Tensor]:
        check_type("top-k", op, ("f32", "f16", "s32", "u32"))
        largest = bool(op.attrs.get("largest", True))
        (tensor,) = context.operands(op)
        values, places = self.module.top_k(
            context.graph, tensor, op.attrs["k"], largest, context.sequence, context.name(op)
        )
        return [values, places]

    def _sort(self, context: Context, op: Op) -> Sequence[_ipu.Tensor]:
        key = single_key(region_program(op.regions[0], op))
        if key is None:
            raise Lacks("popops sorts by one key, in the order of numbers")
        if key.program.inputs[0] not in ("f32", "f16", "s32", "u32"):
            raise Lacks(f"popops sorts no {key.program.inputs[0]}")
        for operand in op.operands:
            if operand.dtype not in MOVED:
                raise Lacks(f"PopLibs moves no {operand.dtype}")
        if op.attrs.get("in_place"):
            raise Lacks("popops sorts into other memory")
        name = context.name(op)
        rank = len(op.results[0].shape)
        dim = op.attrs.get("dimension", -1) % rank
        order = [*(d for d in range(rank) if d != dim), dim]
        tensors = [t.dim_shuffle(order) for t in context.operands(op)]
        keys = tensors[key.operand]
        if not key.is_element:
            keys = self.module.map(context.graph, expression_of(key.program), [keys], [None], context.sequence, name)[0]
        same = key.operand if key.is_element else -1
        made = self.module.sort(context.graph, keys, same, tensors, key.largest, context.sequence, name)
        back = [order.index(d) for d in range(rank)]
        return [t.dim_shuffle(back) for t in made[: len(op.results)]]

    # Elementwise --------------------------------------------------------------------------------------------------

    def _map(self, context: Context, op: Op) -> Sequence[_ipu.Tensor]:
        expression = expression_of(op.attrs["program"])
        reason = self.module.why_not(expression)
        if reason:
            raise Lacks(reason)
        over = op.attrs.get("write_over", {})
        outs = [context.tensor(over[i]) if i in over else None for i in range(len(op.results))]
        made = self.module.map(
            context.graph, expression, context.operands(op), outs, context.sequence, context.name(op)
        )
        return [m if o is None else o for m, o in zip(made, outs, strict=True)]

    def _iota(self, context: Context, op: Op) -> Sequence[_ipu.Tensor]:
        dtype, shape, dim = op.result.dtype, op.result.shape, op.attrs["iota_dimension"]
        if dtype not in ("f32", "f16", "s32", "u32"):
            raise Lacks(f"popops counts in s32 and u32, not in {dtype}")
        name = context.name(op)
        result = context.allocate(op.result, name)
        whole = dtype if dtype in ("s32", "u32") else "s32"
        numbers = result if (whole, len(shape)) == (dtype, 1) else context.variable(whole, (shape[dim],), name)
        counted = self.module.iota(context.graph, numbers, dtype, context.sequence, name)
        if numbers is not result:
            context.sequence.copy(broadcast(counted, shape, (dim,)), result, name)
        return [result]

    # Reductions ---------------------------------------------------------------------------------------------------

    def _reduce(self, context: Context, op: Op) -> Sequence[_ipu.Tensor]:
        if len(op.results) != 1:
            raise Lacks("popops reduces one tensor")
        operand, initial = op.operands
        program = region_program(op.regions[0], op)
        operands = set(program.code[0][3:5]) if len(program.code) == 1 else set()
        if operands != {0, 1} or program.outputs != [len(program.inputs) + len(program.constants)]:
            raise Lacks("popops reduces by one operation")
        name, dtype = program.code[0][0], operand.dtype
        if dtype == "pred" and name in _LOGICAL:
            name = _LOGICAL[name]
        elif dtype not in _REDUCTIONS.get(name, ()):
            raise Lacks(f"popops has no reduction of {dtype} by {name}")
        tensor = context.tensor(operand)
        debug = context.name(op)
        dims = list(op.attrs["dimensions"])
        if not dims:
            raise Lacks("popops reduces no dimension away")
        wide = op.result.dtype != dtype
        reduced = self.module.reduce(context.graph, tensor, name, dims, context.sequence, debug, wide)
        literal = initial.op.attrs["value"] if initial.op is not None and initial.op.name == "constant" else None
        if literal is not None and literal.data == _identity(name, dtype):
            return [reduced]
        if wide:
            raise Lacks("popops has no start value of another type")
        start = broadcast(context.tensor(initial), op.result.shape, ())
        combine = expression_of(program)
        return list(self.module.map(context.graph, combine, [start, reduced], [None], context.sequence, debug))

    # Windows -------------------------------------------------------------------------------------------------------

    def _reduce_window(self, context: Context, op: Op) -> Sequence[_ipu.Tensor]:
        if len(op.results) != 1:
            raise Lacks("popnn pools one tensor")
        operand, initial = op.operands
        name = single_op(op.regions[0])
        if name in ("maximum", "minimum"):
            raise Lacks(f"popnn's {name} of floats has no NaN, and no infinity where all elements are one")
        if name != "add" or operand.dtype not in ("f32", "f16"):
            raise Lacks(f"popnn pools no {operand.dtype} by {name or 'several operations'}")
        literal = initial.op.attrs["value"] if initial.op is not None and initial.op.name == "constant" else None
        if literal is None or literal.data != pack_scalar(operand.dtype, 0):
            raise Lacks("popnn's sums begin with 0")
        rank = len(operand.shape)
        sizes = op.attrs["window_dimensions"]
        strides = op.attrs.get("window_strides", (1,) * rank)
        padding = pairs(op.attrs.get("padding"), rank)
        if set(op.attrs.get("base_dilations", ())) | set(op.attrs.get("window_dilations", ())) > {1}:
            raise Lacks("popnn has no dilated windows")
        spatial = [d for d in range(rank) if (sizes[d], strides[d], padding[d]) != (1, 1, (0, 0))]
        others = [d for d in range(rank) if d not in spatial]
        if not spatial:
            raise Lacks("the window is one element")
        # The last of the other dimensions are the channels.
        order = [*others, *spatial]
        shape = [operand.shape[d] for d in order]
        channels = shape[len(others) - 1] if others else 1
        batch = num_elements(tuple(shape[: len(others)])) // channels
        tensor = context.tensor(operand).dim_shuffle(order)
        pooled = self.module.pool_sum(
            context.graph,
            tensor.reshape((batch, channels, *shape[len(others) :])),
            [sizes[d] for d in spatial],
            [strides[d] for d in spatial],
            [padding[d] for d in spatial],
            context.sequence,
            context.name(op),
        )
        made = pooled.reshape(tuple(op.result.shape[d] for d in order))
        return [made.dim_shuffle([order.index(d) for d in range(rank)])]

    def _select_and_scatter(self, context: Context, op: Op) -> Sequence[_ipu.Tensor]:
        raise Lacks("popnn's gradient of maximum pooling goes to all elements that are as large as the maximum")

    # Positions known at run time -----------------------------------------------------------------------------------

    def _gather(self, context: Context, op: Op) -> Sequence[_ipu.Tensor]:
        check_moved(op, 1)
        numbers = op.attrs["dimension_numbers"]
        operand, indices = context.operands(op)
        return [
            self.module.gather(
                context.graph,
                operand,
                indices,
                numbers["offset_dims"],
                numbers["collapsed_slice_dims"],
                _batching(numbers["operand_batching_dims"], numbers["start_indices_batching_dims"]),
                numbers["start_index_map"],
                numbers["index_vector_dim"],
                op.attrs.get("index_wraps", ()),
                op.attrs["slice_sizes"],
                context.sequence,
                context.name(op),
            )
        ]

    def _dynamic_slice(self, context: Context, op: Op) -> Sequence[_ipu.Tensor]:
        check_moved(op, 1)
        if op.result.shape == op.operands[0].shape:
            raise Lacks("the slice is the whole operand")
        operand, *starts = context.operands(op)
        where = (context.sequence, context.name(op))
        return [self.module.dynamic_slice(context.graph, operand, starts, op.result.shape, *where)]

    def _dynamic_update_slice(self, context: Context, op: Op) -> Sequence[_ipu.Tensor]:
        check_moved(op, 2)
        operand, update, *starts = op.operands
        if update.shape == operand.shape:
            raise Lacks("the slice is the whole operand")
        target = index.writeable(context, op, operand)
        positions = [context.tensor(s) for s in starts]
        where = (context.sequence, context.name(op))
        self.module.dynamic_update_slice(context.graph, target, context.tensor(update), positions, *where)
        return [target]

    def _scatter(self, context: Context, op: Op) -> Sequence[_ipu.Tensor]:
        if len(op.results) != 1:
            raise Lacks("popops updates one tensor")
        operand, indices, updates = op.operands
        check_moved(op, 1, 2)
        numbers = op.attrs["scatter_dimension_numbers"]
        inserted, batching = numbers["inserted_window_dims"], numbers["input_batching_dims"]
        windows = iter(numbers["update_window_dims"])
        window = [1 if d in (*inserted, *batching) else updates.shape[next(windows)] for d in range(len(operand.shape))]
        moving = numbers["scattered_dims_to_operand_dims"]
        if not moving or any(window[d] != 1 for d in moving):
            raise Lacks("popops updates slices of one element along the dimensions of their positions")
        operation = combination(op)
        if operation and operand.dtype == "pred":
            raise Lacks(f"popops updates no pred by {operation}")
        target = index.writeable(context, op, operand)
        self.module.scatter(
            context.graph,
            target,
            context.tensor(indices),
            context.tensor(updates),
            numbers["update_window_dims"],
            inserted,
            _batching(batching, numbers["scatter_indices_batching_dims"]),
            moving,
            numbers["index_vector_dim"],
            op.attrs.get("index_wraps", ()),
            operation,
            context.sequence,
            context.name(op),
        )
        return [target]


class _Either:
    """Lowers an op with PopLibs' function, or with the own one where that lacks it."""

    def __init__(self, poplibs: PopLibs, theirs: Lowering | None, own: Lowering) -> None:
        self._poplibs, self._theirs, self._own = poplibs, theirs, own

    def __call__(self, context: Context, op: Op) -> Sequence[_ipu.Tensor]:
        reason = "no function of PopLibs is bound for it"
        if not all(num_elements(v.shape) for v in (*op.operands, *op.results)):
            return self._with_strided_operands(context, op)  # nothing is computed
        if self._theirs is not None:
            try:
                self._poplibs.prepare(context.graph)
                with context.nested(op.name) as sequence:
                    sequence.set_name_scope(operation_path(op.location))
                    results = self._theirs(context, op)
                context.sequence.add(sequence)
                self._poplibs.choices.append(Choice(op, "PopLibs", ""))
                return results
            except Lacks as lacks:
                reason = str(lacks)
            except _ipu.Error:
                raise
            except RuntimeError as error:  # of PopLibs, which checks types and shapes as it goes
                reason = f"PopLibs: {str(error).splitlines()[0] if str(error) else 'no message'}"
        self._poplibs.choices.append(Choice(op, "hlo", reason))
        return self._with_strided_operands(context, op)

    def _with_strided_operands(self, context: Context, op: Op) -> Sequence[_ipu.Tensor]:
        """The own library's operation, on copies of the operands that are no strided views."""
        given: dict[Value, _ipu.Tensor] = {}
        for operand in (*op.operands, *op.attrs.get("write_over", {}).values()):
            tensor = context.tensor(operand)
            if operand not in given and not tensor.is_strided:
                given[operand] = tensor
                context.tensors[operand] = context.copy(tensor, context.name(op))
        context.strided_only = True
        try:
            return self._own(context, op)
        finally:
            context.strided_only = False
            context.tensors.update(given)


def _identity(name: str, dtype: str) -> bytes | None:
    if name in ("add", "or"):
        return pack_scalar(dtype, 0)
    if name in ("multiply", "and"):
        return pack_scalar(dtype, 1)
    if name in ("maximum", "minimum") and dtype in ("f32", "f16"):
        return pack_scalar(dtype, -math.inf if name == "maximum" else math.inf)
    return None


def _batching(operand_dims: Sequence[int], indices_dims: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(operand_dims, indices_dims, strict=True))
