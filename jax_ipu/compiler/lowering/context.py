"""State of the lowering: the graph under construction, and the tensor of each value."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jax_ipu import _ipu
from jax_ipu.compiler.errors import RESOURCE_EXHAUSTED, CompileError
from jax_ipu.compiler.expression import ScalarProgram
from jax_ipu.compiler.ir import Block, Op, Value
from jax_ipu.compiler.location import operation_path, source_line
from jax_ipu.compiler.mapping import MOVABLE, Demand, MappingPlan, stack_of
from jax_ipu.compiler.passes.arithmetic.joined import Place
from jax_ipu.compiler.program_io import Argument
from jax_ipu.compiler.tile_calls import Codelets
from jax_ipu.compiler.types import Literal, Shape, num_elements, type_text
from jax_ipu.compiler.user_shapes import debug_name

# poplar::Tensor::broadcast takes an unsigned int.
_MAX_FACTOR = 2**32 - 1
# The host runs a copy of few tensors without analysing it in each call.
_MOST_TOGETHER = 32
# Returns one tensor for each result.
Lowering = Callable[["Context", Op], Sequence["_ipu.Tensor"]]
# (context, demand, dtype, name) -> a variable of the shape of the demanded operand, mapped as its op plans; None where
# the op plans no mapping.
Creator = Callable[["Context", Demand, str, str], "_ipu.Tensor | None"]


class Context:
    """State of the lowering of one program. Ops are added to `sequence`; `nested` replaces it for a region."""

    __slots__ = (
        "_constants",
        "_creators",
        "_first_tile",
        "_joined",
        "_lowerings",
        "_origin",
        "_replica_index",
        "ahead",
        "alike",
        "arguments",
        "codelets",
        "ffi_calls",
        "functions",
        "graph",
        "host_functions",
        "input_streams",
        "io_tiles",
        "mapping",
        "num_partitions",
        "num_replicas",
        "num_tiles",
        "origins",
        "placed",
        "planning",
        "plans",
        "random_state",
        "remote_buffers",
        "result_names",
        "sequence",
        "sorts",
        "stream_prefix",
        "strided_only",
        "tensors",
        "transfers",
        "writes_behind",
    )

    def __init__(
        self,
        graph: _ipu.Graph,
        lowerings: dict[str, Lowering],
        creators: dict[str, Creator],
        mapping: MappingPlan,
        planning: dict[str, str],
        plans: _ipu.PlanningCache,
        num_partitions: int,
        num_replicas: int,
        num_tiles: int,
    ) -> None:
        self.graph = graph
        self.num_tiles = num_tiles
        # The options of the planner of matrix products and convolutions.
        self.planning = planning
        # The plans that it has made for this program.
        self.plans = plans
        self.num_partitions = num_partitions
        self.num_replicas = num_replicas
        self.sequence = _ipu.Sequence("main")
        # Before the names of its streams, where several programs share a graph.
        self.stream_prefix = ""
        self.tensors: dict[Value, _ipu.Tensor] = {}
        self.mapping = mapping
        # The state of "ipu.random_bits"; each run of the program starts with a new one.
        self.random_state: _ipu.Tensor | None = None
        # Concatenation -> its variable, and those of its operands, by position, that are computed in it.
        self._joined: dict[Op, _ipu.Tensor] = {}
        self.placed: set[tuple[Op, int]] = set()
        # Whether a variable must be one strided view, which is what operations of the own library take.
        self.strided_only = True
        # Body -> the function, for bodies that "ipu.call" runs.
        self.functions: dict[Block, _ipu.Function] = {}
        # Sort -> the first of those like it, whose function all call.
        self.alike: dict[Op, Op] = {}
        # First sort -> the function, and the variables that it sorts.
        self.sorts: dict[Op, tuple[_ipu.Function, list[_ipu.Tensor]]] = {}
        self._lowerings, self._creators = lowerings, creators
        # The ops that were lowered: number n of `_ipu.set_origin` stands for the nth of them, counted from 1.
        self.origins: list[Op] = []
        self._origin = 0
        # Where what the op that is being lowered makes and maps linearly begins.
        self._first_tile = 0
        self._constants: dict[tuple[str, bytes], _ipu.Tensor] = {}
        self._replica_index: _ipu.Tensor | None = None
        # Each call of a foreign function, as `_ipu.Executable` takes it.
        self.ffi_calls: list[_ipu.FfiCallSpec] = []
        # The codelets of users that were added to the graph.
        self.codelets: set[Codelets] = set()
        # The arguments of main by position, and the names of its results.
        self.arguments: dict[int, Argument] = {}
        self.result_names: Sequence[str] = ()
        # The streams of arguments that every call streams in, and the remote buffers by name.
        self.input_streams: dict[int, _ipu.DataStream] = {}
        self.remote_buffers: dict[str, _ipu.RemoteBuffer] = {}
        # The tiles for input and output, what is read ahead to them, by its slot, and reads that are not yet started.
        self.io_tiles = 0
        self.ahead: dict[str, _ipu.Tensor] = {}
        self.transfers: list[tuple[_ipu.RemoteBuffer, _ipu.Tensor, _ipu.Tensor, str]] = []
        # Of a loop: what the trip before has left there.
        self.writes_behind = _ipu.Sequence()
        # Id of a callback -> its host function, and the (dtype, elements) of its operands and results.
        self.host_functions: dict[int, tuple[_ipu.HostFunction, tuple[tuple[tuple[str, int], ...], ...]]] = {}

    # Values -------------------------------------------------------------------------------------------------------

    def tensor(self, value: Value) -> _ipu.Tensor:
        """The tensor of `value`; a constant is added to the graph on first use."""
        tensor = self.tensors.get(value)
        if tensor is None:
            op = value.op
            assert op is not None and op.name == "constant", f"{value!r} has not been lowered"
            tensor = self.tensors[value] = self.constant(op.attrs["value"], value)
        return tensor

    def operands(self, op: Op) -> list[_ipu.Tensor]:
        return [self.tensor(o) for o in op.operands]

    def name(self, op: Op) -> str:
        """The debug name of the tensors and operations of `op`: its name and source line."""
        return debug_name(op)

    # Tensors ------------------------------------------------------------------------------------------------------

    def scalar_constant(self, dtype: str, data: bytes) -> _ipu.Tensor:
        key = (dtype, data)
        tensor = self._constants.get(key)
        if tensor is None:
            tensor = self._constants[key] = self.graph.add_constant(dtype, (), data, "constant")
            self.graph.set_tile_mapping(tensor, 0)
        return tensor

    def replica_index(self) -> _ipu.Tensor:
        """The index of this replica, u32[]: replica_id * num_partitions + partition_id."""
        if self._replica_index is None:
            self._replica_index = self.graph.add_replication_index_constant("replica index")
            self.graph.set_tile_mapping(self._replica_index, 0)
        return self._replica_index

    def constant(self, literal: Literal, value: Value | None = None) -> _ipu.Tensor:
        if literal.splat and literal.data:
            return broadcast(self.scalar_constant(literal.dtype, bytes(literal.data)), literal.shape, ())
        tensor = self.graph.add_constant(literal.dtype, literal.shape, literal.data, "constant")
        self.graph.map_linearly(tensor, 0 if value is None else self.mapping.first_tiles.get(value, 0))
        return tensor

    def variable(self, dtype: str, shape: Shape, name: str, first_tile: int | None = None) -> _ipu.Tensor:
        """A new variable, mapped linearly from `first_tile` on, by default where the results of the op start.

        Tile 0 follows the last tile.
        """
        tensor = self.graph.add_variable(dtype, shape, name)
        self.graph.map_linearly(tensor, self._first_tile if first_tile is None else first_tile)
        return tensor

    def allocate(self, value: Value, name: str) -> _ipu.Tensor:
        """A new variable for `value`, mapped as the mapping plan says."""
        tensor = self._as_demanded(value, name)
        if tensor is not None:
            return tensor
        return self.variable(value.dtype, value.shape, name, self.mapping.first_tiles.get(value, 0))

    def joined(self, op: Op) -> _ipu.Tensor:
        """The variable of a concatenation, which is made for the first op that asks for it."""
        tensor = self._joined.get(op)
        if tensor is None:
            tensor = self.place(op, 0)
            if tensor is None:
                tensor = self.allocate(op.result, self.name(op))
            self._joined[op] = tensor
        return tensor

    def place(self, op: Op, index: int) -> _ipu.Tensor | None:
        """Where result `index` of the op goes if it is a part of a concatenation: a view of that; None otherwise."""
        place: Place | None = op.attrs.get("inside", {}).get(index)
        if place is None:
            return None
        tensor = part_of(self.joined(place.concatenation), place.concatenation, place.position)
        for view in reversed(place.views):
            tensor = tensor.reshape(view.operands[0].shape)
        if not tensor.is_strided:
            return None
        self.placed.add((place.concatenation, place.position))
        return tensor

    def _as_demanded(self, value: Value, name: str) -> _ipu.Tensor | None:
        """A variable of the value's shape mapped as demanded; None without a demand, or where none is possible."""
        demand = self.mapping.demand(value)
        if demand is None or num_elements(value.shape) == 0:
            return None
        tensor = self.create(demand, name)
        wanted = demand.op.operands[demand.operand]
        if tensor is None or wanted.dtype == value.dtype:
            return tensor
        return self.graph.clone_as(value.dtype, tensor, name)

    def create(self, demand: Demand, name: str) -> _ipu.Tensor | None:
        """A variable mapped as demanded, in the shape before the views; None where the op plans no mapping."""
        wanted = demand.op.operands[demand.operand]
        first_tile = self._first_tile
        if demand.op.name in MOVABLE:
            self._start_at(self.mapping.starts.get((demand.op, demand.operand), 0))
        tensor = self._creators[demand.op.name](self, demand, wanted.dtype, name)
        self._start_at(first_tile)
        if tensor is None:
            return None
        for view in reversed(demand.path):
            if view.name == "transpose":
                permutation = view.attrs["permutation"]
                tensor = tensor.dim_shuffle([permutation.index(d) for d in range(len(permutation))])
            elif view.name == "reshape":
                tensor = tensor.reshape(view.operands[0].shape)
            elif view.name == "slice":
                tensor = self._stack(tensor, view, name)
                if tensor is None:
                    return None
        return None if self.strided_only and not tensor.is_strided else tensor

    def _stack(self, item: _ipu.Tensor, view: Op, name: str) -> _ipu.Tensor | None:
        """A variable of the shape of which `view` takes an item, each mapped like `item`."""
        found = stack_of(view)
        if found is None or not item.is_strided:
            return None
        dim, count = found
        stack = self.graph.stack_like(item, count, name)
        order = [*range(1, dim + 1), 0, *range(dim + 1, len(item.shape) + 1)]
        return stack.dim_shuffle(order).reshape(view.operands[0].shape)

    def partner(self, op: Op) -> _ipu.Tensor | None:
        """The tensor of the argument that the result of `op` updates, or of its part, in the shape of the result."""
        partner = self.mapping.partners.get(op.result)
        tensor = self.tensors.get(partner) if partner is not None else None
        if tensor is None or num_elements(tensor.shape) != num_elements(op.result.shape):
            return None
        tensor = tensor.reshape(op.result.shape)
        return tensor if tensor.is_strided else None

    def copy(self, tensor: _ipu.Tensor, name: str) -> _ipu.Tensor:
        """A copy of the tensor in a new variable."""
        result = self.variable(tensor.dtype, tensor.shape, name)
        self.sequence.copy(tensor, result, name)
        return result

    def copy_all(self, moves: Sequence[tuple[_ipu.Tensor, _ipu.Tensor]], name: str) -> None:
        """Copies each source to its destination, which no other one reads: dense ones of one type in one superstep."""
        of_type: dict[str, list[tuple[_ipu.Tensor, _ipu.Tensor]]] = {}
        for source, destination in moves:
            if source.num_elements == 0:
                continue
            flat = source.reshape((source.num_elements,)), destination.reshape((source.num_elements,))
            if all(tensor.is_strided for tensor in flat):
                of_type.setdefault(source.dtype, []).append(flat)
            else:
                self.sequence.copy(source, destination, name)
        for together in of_type.values():
            for first in range(0, len(together), _MOST_TOGETHER):
                sources, destinations = zip(*together[first : first + _MOST_TOGETHER], strict=True)
                self.sequence.copy(_ipu.concat(sources, 0), _ipu.concat(destinations, 0), name)

    def strided(self, tensor: _ipu.Tensor, name: str) -> _ipu.Tensor:
        """`tensor` where it is one strided view, otherwise a copy."""
        return tensor if tensor.is_strided else self.copy(tensor, name)

    def start_random_state(self) -> None:
        """Adds the state of the ops "ipu.random_bits", u64[2]: key and counter, from the runtime's stream "seed"."""
        self.random_state = self.variable("u64", (2,), "random state")
        self.sequence.stream_in(self._seed_stream(), self.random_state, "seed")

    def _seed_stream(self) -> _ipu.DataStream:
        return self.graph.add_host_to_device_fifo(f"{self.stream_prefix}seed", "u64", 2)

    # Programs -----------------------------------------------------------------------------------------------------

    def lower_ops(self, ops: Sequence[Op]) -> None:
        """Adds ops of a block to the current sequence; its terminator and constants have no programs."""
        for op in ops:
            if op.name != "ipu.read_ahead":
                self._start_transfers()
            if op.name != "constant" and op.name != "return":
                self.lower_op(op)
        self._start_transfers()

    def _start_transfers(self) -> None:
        """Adds the reads ahead that follow each other: what they need on the same tiles is there by then."""
        for read in self.transfers:
            self.sequence.remote_read(*read)
        self.transfers.clear()

    def lower_op(self, op: Op) -> None:
        """Adds one op to the current sequence."""
        _ipu.check_deadline()
        outer, first_tile = self._origin, self._first_tile
        self._start_at(self._start_of(op))
        self.origins.append(op)
        self._origin = len(self.origins)
        _ipu.set_origin(self._origin)
        self.sequence.set_name_scope(operation_path(op.location))
        try:
            results = self._lowerings[op.name](self, op)
        except (_ipu.Error, RecursionError):
            raise
        except (RuntimeError, ValueError) as error:
            # There is no vertex for this op and these types.
            raise refused(op, str(error)) from error
        finally:
            self._origin = outer
            _ipu.set_origin(outer)
            self._start_at(first_tile)
            self.sequence.set_name_scope("")
        for result, tensor in zip(op.results, results, strict=True):
            self.tensors[result] = tensor

    def _start_of(self, op: Op) -> int:
        """Where the results of the op start; those of a product with its right side, or its left one."""
        if op.name == "dot_general":
            left, right = (self.mapping.starts.get((op, operand), 0) for operand in (0, 1))
            return right or left
        return self.mapping.first_tiles.get(op.results[0], 0) if op.results else 0

    def _start_at(self, tile: int) -> None:
        if tile != self._first_tile:
            self._first_tile = tile
            self.graph.start_at(tile)

    def nested(self, name: str) -> NestedSequence:
        return NestedSequence(self, name)


class NestedSequence:
    """`with context.nested(name) as sequence:` adds ops to a new sequence."""

    def __init__(self, context: Context, name: str) -> None:
        self._context = context
        self._sequence = _ipu.Sequence(name)

    def __enter__(self) -> _ipu.Sequence:
        self._outer = self._context.sequence
        self._context.sequence = self._sequence
        return self._sequence

    def __exit__(self, *exception: object) -> None:
        self._context.sequence = self._outer


def refused(op: Op, reason: str) -> CompileError:
    """The error for an op that Poplar refuses, with the source line of the user."""
    operands = ", ".join(type_text(o.shape, o.dtype) for o in op.operands)
    results = ", ".join(type_text(r.shape, r.dtype) for r in op.results)
    where = source_line(op.location) or "an unknown source line"
    return CompileError(f"{op.name}: ({operands}) -> {results}, at {where}, is not supported on IPU: {reason}")


def part_of(tensor: _ipu.Tensor, concatenation: Op, position: int) -> _ipu.Tensor:
    """The part of the concatenation's tensor that takes the operand `position`."""
    dim = concatenation.attrs["dimension"]
    begins, ends = [0] * len(tensor.shape), list(tensor.shape)
    begins[dim] = sum(operand.shape[dim] for operand in concatenation.operands[:position])
    ends[dim] = begins[dim] + concatenation.operands[position].shape[dim]
    return tensor.slice(begins, ends)


def broadcast(tensor: _ipu.Tensor, shape: Shape, dims: Sequence[int]) -> _ipu.Tensor:
    """broadcast_in_dim as a view: dimension i of `tensor` becomes dimension `dims[i]` of `shape`.

    Raises:
        CompileError: a dimension is longer than Poplar can repeat a tensor (RESOURCE_EXHAUSTED).
    """
    order = sorted(range(len(dims)), key=dims.__getitem__)
    if order != list(range(len(dims))):
        tensor = tensor.dim_shuffle(order)
    placed = [1] * len(shape)
    for i in order:
        placed[dims[i]] = tensor.shape[order.index(i)]
    if len(placed) != len(dims):
        tensor = tensor.reshape(placed)
    for d, (have, want) in enumerate(zip(placed, shape, strict=True)):
        if have != want:
            if want > _MAX_FACTOR:
                raise CompileError(
                    f"a dimension has {want} elements; a value can be repeated at most {_MAX_FACTOR} times on IPU: use "
                    "smaller dimensions",
                    RESOURCE_EXHAUSTED,
                )
            tensor = tensor.broadcast(want, d)
    return tensor


def expression_of(program: ScalarProgram) -> _ipu.Expression:
    """The expression of the Poplar API for a scalar program."""
    return _ipu.Expression(program.inputs, program.constants, program.code, program.outputs)
