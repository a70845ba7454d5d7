from collections.abc import (
    Callable,
    Iterator,
    Mapping,
    Sequence as _Sequence
)
from typing import Any, NoReturn


def library_path() -> str: ...

class Error(RuntimeError):
    """An error with the PJRT status code `code`."""

    code: int

class OutOfMemory(Error):
    """A program that is too large for the tiles; `report.peak` is of the fullest tile at its fullest moment."""

    report: DeviceReport
    # Set by the compiler: the operation that each number of set_origin stands for, and of each argument the name,
    # the shape and the ops that read it.
    origins: list[Any]
    arguments: list[tuple[str, tuple[int, ...], list[Any]]]

    def profile(self) -> Profile: ...

class OutOfTime(Error):
    """Planning took longer than a Deadline allows."""

class Target:
    def __init__(self, version: str, num_tiles: int = 0) -> None: ...

    @property
    def num_tiles(self) -> int: ...

    @property
    def bytes_per_tile(self) -> int: ...

    @property
    def num_worker_contexts(self) -> int: ...

    @property
    def tile_clock_frequency(self) -> float: ...

    @property
    def local_copy_call_cycles(self) -> int: ...

    @property
    def code_bytes_per_tile(self) -> int:
        """Of each tile's memory, the bytes that instructions can be in."""

    @property
    def exchange_bytes_per_cycle(self) -> int:
        """Of one tile."""

    @property
    def peak_flops(self) -> float:
        """Per second, of the matrix units with f16 operands."""

    @property
    def host_link_bytes_per_second(self) -> float:
        """In one direction."""

    @property
    def ipu_link_bytes_per_second(self) -> float:
        """To each neighbour in the ring of IPUs, in one direction."""

    def streaming_memory_bytes(self, ipus: int) -> int:
        """
        Of each of so many IPUs, which share that of a machine; 0 where there is none, or its size is not known.
        """

    @property
    def cycles_between_stamps(self) -> int:
        """Of two cycle stamps in a row."""

    def host_link_cycles(self, transfers: int, bytes: int) -> int:
        """
        Cycles of copies between host and IPU, in one direction, of so many bytes together.
        """

    @property
    def version(self) -> str: ...

def chip_names() -> list[str]:
    """The architectures of `Target`, the oldest first."""

def most_tiles() -> int:
    """The most tiles that one of them has."""

class Tensor:
    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> str: ...

    @property
    def num_elements(self) -> int: ...

    @property
    def is_strided(self) -> bool: ...

    @property
    def is_row_major(self) -> bool: ...

    def is_same_view(self, other: Tensor) -> bool: ...

    def slice(self, begins: _Sequence[int], ends: _Sequence[int]) -> Tensor: ...

    def sub_sample(self, stride: int, dim: int) -> Tensor: ...

    def reverse(self, dim: int) -> Tensor: ...

    def reshape(self, shape: _Sequence[int]) -> Tensor: ...

    def dim_shuffle(self, permutation: _Sequence[int]) -> Tensor: ...

    def broadcast(self, n: int, dim: int) -> Tensor: ...

    def expand(self, dims: _Sequence[int]) -> Tensor: ...

    def reinterpret(self, dtype: str) -> Tensor: ...

def concat(tensors: _Sequence[Tensor], dim: int) -> Tensor: ...

class DataStream:
    @property
    def handle(self) -> str: ...

class RemoteBuffer:
    pass

class Function:
    pass

class HostFunction:
    pass

class Sequence:
    def __init__(self, name: str = '') -> None: ...

    def add(self, sequence: Sequence) -> None: ...

    def set_name_scope(self, scope: str) -> None: ...

    def copy(self, src: Tensor, dst: Tensor, name: str) -> None: ...

    def stream_in(self, stream: DataStream, dst: Tensor, name: str) -> None: ...

    def stream_out(self, src: Tensor, stream: DataStream, name: str) -> None: ...

    def remote_read(self, buffer: RemoteBuffer, dst: Tensor, rows: Tensor, name: str) -> None: ...

    def remote_write(self, src: Tensor, buffer: RemoteBuffer, rows: Tensor, name: str) -> None: ...

    def repeat(self, count: int, body: Sequence) -> None: ...

    def repeat_while_true(self, cond: Sequence, predicate: Tensor, body: Sequence) -> None: ...

    def branch(self, predicate: Tensor, true_sequence: Sequence, false_sequence: Sequence) -> None: ...

    def switch(self, control: Tensor, cases: _Sequence[tuple[int, Sequence]], default_case: Sequence) -> None: ...

    def call(self, function: Function) -> None: ...

    def call_host(self, function: HostFunction, inputs: _Sequence[Tensor], outputs: _Sequence[Tensor], name: str) -> None: ...

    def write_undef(self, tensor: Tensor) -> None: ...

    def print_tensor(self, title: str, tensor: Tensor) -> None: ...

class Graph:
    def __init__(self, target: Target, replication_factor: int = 1, io_tiles: int = 0) -> None: ...

    @property
    def replication_factor(self) -> int: ...

    def add_replication_index_constant(self, name: str) -> Tensor: ...

    def add_variable(self, dtype: str, shape: _Sequence[int], name: str) -> Tensor: ...

    def add_constant(self, dtype: str, shape: _Sequence[int], data: bytes | memoryview, name: str) -> Tensor: ...

    def clone(self, tensor: Tensor, name: str) -> Tensor: ...

    def clone_as(self, dtype: str, tensor: Tensor, name: str, new_order: bool = False) -> Tensor: ...

    def set_tile_mapping(self, tensor: Tensor, tile: int) -> None: ...

    def get_tile_mapping(self, tensor: Tensor) -> list[list[tuple[int, int]]]: ...

    def elements_on_tiles(self, tensor: Tensor) -> list[int]: ...

    def map_linearly(self, tensor: Tensor, first_tile: int = 0) -> None: ...

    def start_at(self, tile: int) -> None:
        """From now on, mappings that operations choose start at this tile."""

    def map_in_blocks(self, tensor: Tensor, parts: _Sequence[int]) -> None:
        """
        Cuts each dimension into so many parts, and puts one block on each tile.
        """

    def stack_like(self, item: Tensor, count: int, name: str) -> Tensor:
        """A new variable of so many items, each mapped like this one."""

    def map_to_io_tiles(self, tensor: Tensor, io_tiles: int) -> None: ...

    def add_host_to_device_fifo(self, name: str, dtype: str, num_elements: int) -> DataStream: ...

    def add_device_to_host_fifo(self, name: str, dtype: str, num_elements: int) -> DataStream: ...

    def add_remote_buffer(self, name: str, dtype: str, num_elements: int, rows: int) -> RemoteBuffer: ...

    def add_host_function(self, name: str, inputs: _Sequence[tuple[str, int]], outputs: _Sequence[tuple[str, int]]) -> HostFunction: ...

    def add_function(self, sequence: Sequence) -> Function: ...

class InputSpec:
    """
    How one argument reaches the program. `dtype` and `shape` are those of memory.
    """

    def __init__(self, *, dtype: str = 'f32', shape: _Sequence[int] = (), major_to_minor: _Sequence[int] = (), donated: bool = False, aliased_output: int = -1, unchanged: bool = False, used: bool = True, write_program: int = -1, read_program: int = -1, swap_with: int = -1, swap_program: int = -1, sharding: bytes = b'', name: str = '', in_host_memory: bool = False) -> None: ...

    @property
    def dtype(self) -> str: ...

    @dtype.setter
    def dtype(self, value: str, /) -> None: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @shape.setter
    def shape(self, value: _Sequence[int], /) -> None: ...

    @property
    def major_to_minor(self) -> tuple[int, ...]: ...

    @major_to_minor.setter
    def major_to_minor(self, value: _Sequence[int], /) -> None: ...

    @property
    def donated(self) -> bool: ...

    @donated.setter
    def donated(self, value: bool, /) -> None: ...

    @property
    def aliased_output(self) -> int: ...

    @aliased_output.setter
    def aliased_output(self, value: int, /) -> None: ...

    @property
    def unchanged(self) -> bool: ...

    @unchanged.setter
    def unchanged(self, value: bool, /) -> None: ...

    @property
    def used(self) -> bool: ...

    @used.setter
    def used(self, value: bool, /) -> None: ...

    @property
    def write_program(self) -> int: ...

    @write_program.setter
    def write_program(self, value: int, /) -> None: ...

    @property
    def read_program(self) -> int: ...

    @read_program.setter
    def read_program(self, value: int, /) -> None: ...

    @property
    def swap_with(self) -> int: ...

    @swap_with.setter
    def swap_with(self, value: int, /) -> None: ...

    @property
    def swap_program(self) -> int: ...

    @swap_program.setter
    def swap_program(self, value: int, /) -> None: ...

    @property
    def sharding(self) -> bytes: ...

    @sharding.setter
    def sharding(self, value: bytes, /) -> None: ...

    @property
    def name(self) -> str: ...

    @name.setter
    def name(self, value: str, /) -> None: ...

    @property
    def in_host_memory(self) -> bool: ...

    @in_host_memory.setter
    def in_host_memory(self, value: bool, /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

class OutputSpec:
    """How one result leaves the program."""

    def __init__(self, *, dtype: str = 'f32', shape: _Sequence[int] = (), major_to_minor: _Sequence[int] = (), aliased_input: int = -1, forwarded_input: int = -1, in_host_memory: bool = False, sharding: bytes = b'', name: str = '') -> None: ...

    @property
    def dtype(self) -> str: ...

    @dtype.setter
    def dtype(self, value: str, /) -> None: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @shape.setter
    def shape(self, value: _Sequence[int], /) -> None: ...

    @property
    def major_to_minor(self) -> tuple[int, ...]: ...

    @major_to_minor.setter
    def major_to_minor(self, value: _Sequence[int], /) -> None: ...

    @property
    def aliased_input(self) -> int: ...

    @aliased_input.setter
    def aliased_input(self, value: int, /) -> None: ...

    @property
    def forwarded_input(self) -> int: ...

    @forwarded_input.setter
    def forwarded_input(self, value: int, /) -> None: ...

    @property
    def in_host_memory(self) -> bool: ...

    @in_host_memory.setter
    def in_host_memory(self, value: bool, /) -> None: ...

    @property
    def sharding(self) -> bytes: ...

    @sharding.setter
    def sharding(self, value: bytes, /) -> None: ...

    @property
    def name(self) -> str: ...

    @name.setter
    def name(self, value: str, /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

class HostCallbackSpec:
    """A function of the process that compiled the program, which calls it."""

    def __init__(self, *, id: int = 0, input_bytes: _Sequence[int] = (), output_bytes: _Sequence[int] = ()) -> None: ...

    @property
    def id(self) -> int: ...

    @id.setter
    def id(self, value: int, /) -> None: ...

    @property
    def input_bytes(self) -> tuple[int, ...]: ...

    @input_bytes.setter
    def input_bytes(self, value: _Sequence[int], /) -> None: ...

    @property
    def output_bytes(self) -> tuple[int, ...]: ...

    @output_bytes.setter
    def output_bytes(self, value: _Sequence[int], /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

class FfiAttribute:
    """An attribute of a foreign function's call."""

    def __init__(self, *, name: str = '', kind: str = 'dictionary', dtype: str = 'u8', data: bytes = b'', members: _Sequence[FfiAttribute] = ()) -> None: ...

    @property
    def name(self) -> str: ...

    @name.setter
    def name(self, value: str, /) -> None: ...

    @property
    def kind(self) -> str: ...

    @kind.setter
    def kind(self, value: str, /) -> None: ...

    @property
    def dtype(self) -> str: ...

    @dtype.setter
    def dtype(self, value: str, /) -> None: ...

    @property
    def data(self) -> bytes: ...

    @data.setter
    def data(self, value: bytes, /) -> None: ...

    @property
    def members(self) -> tuple[FfiAttribute, ...]: ...

    @members.setter
    def members(self, value: _Sequence[FfiAttribute], /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

class FfiBuffer:
    """An operand or a result of a foreign function's call."""

    def __init__(self, *, dtype: str = 'f32', shape: _Sequence[int] = (), is_token: bool = False) -> None: ...

    @property
    def dtype(self) -> str: ...

    @dtype.setter
    def dtype(self, value: str, /) -> None: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @shape.setter
    def shape(self, value: _Sequence[int], /) -> None: ...

    @property
    def is_token(self) -> bool: ...

    @is_token.setter
    def is_token(self, value: bool, /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

class FfiCallSpec:
    """One place that calls a foreign function."""

    def __init__(self, *, target: str = '', location: str = '', operands: _Sequence[FfiBuffer] = (), results: _Sequence[FfiBuffer] = (), aliased_operands: _Sequence[int] = (), attributes: FfiAttribute = ...) -> None: ...

    @property
    def target(self) -> str: ...

    @target.setter
    def target(self, value: str, /) -> None: ...

    @property
    def location(self) -> str: ...

    @location.setter
    def location(self, value: str, /) -> None: ...

    @property
    def operands(self) -> tuple[FfiBuffer, ...]: ...

    @operands.setter
    def operands(self, value: _Sequence[FfiBuffer], /) -> None: ...

    @property
    def results(self) -> tuple[FfiBuffer, ...]: ...

    @results.setter
    def results(self, value: _Sequence[FfiBuffer], /) -> None: ...

    @property
    def aliased_operands(self) -> tuple[int, ...]: ...

    @aliased_operands.setter
    def aliased_operands(self, value: _Sequence[int], /) -> None: ...

    @property
    def attributes(self) -> FfiAttribute: ...

    @attributes.setter
    def attributes(self, value: FfiAttribute, /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

class CostReport:
    """
    Of one call of the main program: bytes, cycles of the device, and estimates.
    """

    def __init__(self, *, flops: float = 0.0, bytes_accessed: float = 0.0, transcendentals: float = 0.0, cycles: int = 0, compute_cycles: int = 0, exchange_cycles: int = 0, sync_cycles: int = 0, exchange_bytes: int = 0, link_bytes: int = 0, clock_hz: float = 0.0, host_nanoseconds: float = 0.0) -> None: ...

    @property
    def flops(self) -> float: ...

    @flops.setter
    def flops(self, value: float, /) -> None: ...

    @property
    def bytes_accessed(self) -> float: ...

    @bytes_accessed.setter
    def bytes_accessed(self, value: float, /) -> None: ...

    @property
    def transcendentals(self) -> float: ...

    @transcendentals.setter
    def transcendentals(self, value: float, /) -> None: ...

    @property
    def cycles(self) -> int: ...

    @cycles.setter
    def cycles(self, value: int, /) -> None: ...

    @property
    def compute_cycles(self) -> int: ...

    @compute_cycles.setter
    def compute_cycles(self, value: int, /) -> None: ...

    @property
    def exchange_cycles(self) -> int: ...

    @exchange_cycles.setter
    def exchange_cycles(self, value: int, /) -> None: ...

    @property
    def sync_cycles(self) -> int: ...

    @sync_cycles.setter
    def sync_cycles(self, value: int, /) -> None: ...

    @property
    def exchange_bytes(self) -> int: ...

    @exchange_bytes.setter
    def exchange_bytes(self, value: int, /) -> None: ...

    @property
    def link_bytes(self) -> int: ...

    @link_bytes.setter
    def link_bytes(self, value: int, /) -> None: ...

    @property
    def clock_hz(self) -> float: ...

    @clock_hz.setter
    def clock_hz(self, value: float, /) -> None: ...

    @property
    def host_nanoseconds(self) -> float: ...

    @host_nanoseconds.setter
    def host_nanoseconds(self, value: float, /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

class MemoryReport:
    """
    Bytes on the tiles. `max_tile` is the fullest tile; `*_bytes` are of all tiles.
    """

    def __init__(self, *, total_bytes: int = 0, max_tile_bytes: int = 0, limit_tile_bytes: int = 0, max_tile: int = 0, num_tiles: int = 0, argument_bytes: int = 0, output_bytes: int = 0, alias_bytes: int = 0, temp_bytes: int = 0, code_bytes: int = 0, constant_bytes: int = 0, exchange_buffer_bytes: int = 0, vertex_bytes: int = 0, host_argument_bytes: int = 0, host_output_bytes: int = 0) -> None: ...

    @property
    def total_bytes(self) -> int: ...

    @total_bytes.setter
    def total_bytes(self, value: int, /) -> None: ...

    @property
    def max_tile_bytes(self) -> int: ...

    @max_tile_bytes.setter
    def max_tile_bytes(self, value: int, /) -> None: ...

    @property
    def limit_tile_bytes(self) -> int: ...

    @limit_tile_bytes.setter
    def limit_tile_bytes(self, value: int, /) -> None: ...

    @property
    def max_tile(self) -> int: ...

    @max_tile.setter
    def max_tile(self, value: int, /) -> None: ...

    @property
    def num_tiles(self) -> int: ...

    @num_tiles.setter
    def num_tiles(self, value: int, /) -> None: ...

    @property
    def argument_bytes(self) -> int: ...

    @argument_bytes.setter
    def argument_bytes(self, value: int, /) -> None: ...

    @property
    def output_bytes(self) -> int: ...

    @output_bytes.setter
    def output_bytes(self, value: int, /) -> None: ...

    @property
    def alias_bytes(self) -> int: ...

    @alias_bytes.setter
    def alias_bytes(self, value: int, /) -> None: ...

    @property
    def temp_bytes(self) -> int: ...

    @temp_bytes.setter
    def temp_bytes(self, value: int, /) -> None: ...

    @property
    def code_bytes(self) -> int: ...

    @code_bytes.setter
    def code_bytes(self, value: int, /) -> None: ...

    @property
    def constant_bytes(self) -> int: ...

    @constant_bytes.setter
    def constant_bytes(self, value: int, /) -> None: ...

    @property
    def exchange_buffer_bytes(self) -> int: ...

    @exchange_buffer_bytes.setter
    def exchange_buffer_bytes(self, value: int, /) -> None: ...

    @property
    def vertex_bytes(self) -> int: ...

    @vertex_bytes.setter
    def vertex_bytes(self, value: int, /) -> None: ...

    @property
    def host_argument_bytes(self) -> int: ...

    @host_argument_bytes.setter
    def host_argument_bytes(self, value: int, /) -> None: ...

    @property
    def host_output_bytes(self) -> int: ...

    @host_output_bytes.setter
    def host_output_bytes(self, value: int, /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

class Executable:
    """
    A compiled program as plain data. Every field is a keyword argument; Error(INVALID_ARGUMENT) where they do not fit together.
    """

    def __init__(self, *, name: str = '', fingerprint: str = '', target: str = '', num_replicas: int = 1, num_partitions: int = 1, inputs: _Sequence[InputSpec] = (), outputs: _Sequence[OutputSpec] = (), poplar_executable: bytes = b'', host_callbacks: _Sequence[HostCallbackSpec] = (), ffi_calls: _Sequence[FfiCallSpec] = (), main_program: int = 0, communicates: bool = False, is_linked: bool = False, link_group: str = '', mlir: bytes = b'', cost: CostReport = ..., memory: MemoryReport = ...) -> None: ...

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def target(self) -> str: ...

    @property
    def num_replicas(self) -> int: ...

    @property
    def num_partitions(self) -> int: ...

    @property
    def inputs(self) -> tuple[InputSpec, ...]: ...

    @property
    def outputs(self) -> tuple[OutputSpec, ...]: ...

    @property
    def poplar_executable(self) -> bytes: ...

    @property
    def host_callbacks(self) -> tuple[HostCallbackSpec, ...]: ...

    @property
    def ffi_calls(self) -> tuple[FfiCallSpec, ...]: ...

    @property
    def main_program(self) -> int: ...

    @property
    def communicates(self) -> bool: ...

    @property
    def is_linked(self) -> bool: ...

    @property
    def link_group(self) -> str: ...

    @property
    def mlir(self) -> bytes: ...

    @property
    def cost(self) -> CostReport: ...

    @property
    def memory(self) -> MemoryReport: ...

    @property
    def cycles(self) -> int: ...

    @property
    def fullest_tile_bytes(self) -> int: ...

    @property
    def input_types(self) -> list[tuple[str, tuple[int, ...]]]:
        """Element type and shape of every argument."""

    @property
    def output_types(self) -> list[tuple[str, tuple[int, ...]]]:
        """Element type and shape of every result."""

    @property
    def input_shardings(self) -> list[bytes]:
        """
        The serialised xla.OpSharding of every argument; empty where there is none.
        """

    @property
    def output_shardings(self) -> list[bytes]:
        """
        The serialised xla.OpSharding of every result; empty where there is none.
        """

    def serialize(self) -> bytes: ...

    @staticmethod
    def deserialize(data: bytes) -> Executable: ...

class Cycles:
    """Cycles of one execution."""

    def __init__(self, *, compute: int = 0, exchange: int = 0, sync: int = 0) -> None: ...

    @property
    def compute(self) -> int: ...

    @compute.setter
    def compute(self, value: int, /) -> None: ...

    @property
    def exchange(self) -> int: ...

    @exchange.setter
    def exchange(self, value: int, /) -> None: ...

    @property
    def sync(self) -> int: ...

    @sync.setter
    def sync(self, value: int, /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

    @property
    def total(self) -> int: ...

class OperationCost:
    """
    One operation, all its executions in a call of the main program together. `tiles` is the number of tiles that compute.
    """

    def __init__(self, *, kind: str = '', name: str = '', scope: str = '', executions: int = 0, compute_cycles: int = 0, exchange_cycles: int = 0, sync_cycles: int = 0, exchange_bytes: int = 0, link_bytes: int = 0, flops: float = 0.0, tiles: int = 0, codelets: _Sequence[str] = (), code_bytes: int = 0) -> None: ...

    @property
    def kind(self) -> str: ...

    @kind.setter
    def kind(self, value: str, /) -> None: ...

    @property
    def name(self) -> str: ...

    @name.setter
    def name(self, value: str, /) -> None: ...

    @property
    def scope(self) -> str: ...

    @scope.setter
    def scope(self, value: str, /) -> None: ...

    @property
    def executions(self) -> int: ...

    @executions.setter
    def executions(self, value: int, /) -> None: ...

    @property
    def compute_cycles(self) -> int: ...

    @compute_cycles.setter
    def compute_cycles(self, value: int, /) -> None: ...

    @property
    def exchange_cycles(self) -> int: ...

    @exchange_cycles.setter
    def exchange_cycles(self, value: int, /) -> None: ...

    @property
    def sync_cycles(self) -> int: ...

    @sync_cycles.setter
    def sync_cycles(self, value: int, /) -> None: ...

    @property
    def exchange_bytes(self) -> int: ...

    @exchange_bytes.setter
    def exchange_bytes(self, value: int, /) -> None: ...

    @property
    def link_bytes(self) -> int: ...

    @link_bytes.setter
    def link_bytes(self, value: int, /) -> None: ...

    @property
    def flops(self) -> float: ...

    @flops.setter
    def flops(self, value: float, /) -> None: ...

    @property
    def tiles(self) -> int: ...

    @tiles.setter
    def tiles(self, value: int, /) -> None: ...

    @property
    def codelets(self) -> tuple[str, ...]: ...

    @codelets.setter
    def codelets(self, value: _Sequence[str], /) -> None: ...

    @property
    def code_bytes(self) -> int: ...

    @code_bytes.setter
    def code_bytes(self, value: int, /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

    @property
    def cycles(self) -> int:
        """Compute, exchange and sync."""

    @property
    def operation(self) -> str:
        """
        Its name in the compiler, for example 'dot_general'; 'map' is a fused elementwise expression.
        """

    @property
    def source_line(self) -> str:
        """"model.py:12 (loss)", or "" when the program carries no location."""

class LoopCost:
    """
    A loop whose trip count is known at run time only; it counts as one trip.
    """

    def __init__(self, *, node: int = 0, name: str = '', condition: Cycles = ..., body: Cycles = ...) -> None: ...

    @property
    def node(self) -> int: ...

    @node.setter
    def node(self, value: int, /) -> None: ...

    @property
    def name(self) -> str: ...

    @name.setter
    def name(self, value: str, /) -> None: ...

    @property
    def condition(self) -> Cycles: ...

    @condition.setter
    def condition(self, value: Cycles, /) -> None: ...

    @property
    def body(self) -> Cycles: ...

    @body.setter
    def body(self, value: Cycles, /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

class TileUse:
    """How many bytes a tile holds at its fullest moment."""

    def __init__(self, *, tile: int = 0, bytes: int = 0) -> None: ...

    @property
    def tile(self) -> int: ...

    @tile.setter
    def tile(self, value: int, /) -> None: ...

    @property
    def bytes(self) -> int: ...

    @bytes.setter
    def bytes(self, value: int, /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

class TensorUse:
    """
    A tensor on the fullest tile; `lasting`: it keeps its contents between runs.
    """

    def __init__(self, *, name: str = '', dtype: str = '', shape: _Sequence[int] = (), bytes: int = 0, bytes_on_tile: int = 0, role: str = '', lasting: bool = False) -> None: ...

    @property
    def name(self) -> str: ...

    @name.setter
    def name(self, value: str, /) -> None: ...

    @property
    def dtype(self) -> str: ...

    @dtype.setter
    def dtype(self, value: str, /) -> None: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @shape.setter
    def shape(self, value: _Sequence[int], /) -> None: ...

    @property
    def bytes(self) -> int: ...

    @bytes.setter
    def bytes(self, value: int, /) -> None: ...

    @property
    def bytes_on_tile(self) -> int: ...

    @bytes_on_tile.setter
    def bytes_on_tile(self, value: int, /) -> None: ...

    @property
    def role(self) -> str: ...

    @role.setter
    def role(self, value: str, /) -> None: ...

    @property
    def lasting(self) -> bool: ...

    @lasting.setter
    def lasting(self, value: bool, /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

class TilePeak:
    """Bytes of the contents of one tile at its fullest moment."""

    def __init__(self, *, variables: int = 0, temporaries: int = 0, exchange_buffers: int = 0, constants: int = 0, vertex_state: int = 0, code: int = 0, variables_only: bool = False, operation: str = '', tensors: _Sequence[TensorUse] = ()) -> None: ...

    @property
    def variables(self) -> int: ...

    @variables.setter
    def variables(self, value: int, /) -> None: ...

    @property
    def temporaries(self) -> int: ...

    @temporaries.setter
    def temporaries(self, value: int, /) -> None: ...

    @property
    def exchange_buffers(self) -> int: ...

    @exchange_buffers.setter
    def exchange_buffers(self, value: int, /) -> None: ...

    @property
    def constants(self) -> int: ...

    @constants.setter
    def constants(self, value: int, /) -> None: ...

    @property
    def vertex_state(self) -> int: ...

    @vertex_state.setter
    def vertex_state(self, value: int, /) -> None: ...

    @property
    def code(self) -> int: ...

    @code.setter
    def code(self, value: int, /) -> None: ...

    @property
    def variables_only(self) -> bool: ...

    @variables_only.setter
    def variables_only(self, value: bool, /) -> None: ...

    @property
    def operation(self) -> str: ...

    @operation.setter
    def operation(self, value: str, /) -> None: ...

    @property
    def tensors(self) -> tuple[TensorUse, ...]: ...

    @tensors.setter
    def tensors(self, value: _Sequence[TensorUse], /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

class DeviceReport:
    """Cycles of the main program, bytes on the tiles over all programs."""

    def __init__(self, *, cycles: Cycles = ..., exchange_bytes: int = 0, link_bytes: int = 0, flops: float = 0.0, clock_hz: float = 0.0, unknown_trip_count: bool = False, loops: _Sequence[LoopCost] = (), operations: _Sequence[OperationCost] = (), stream_in_bytes: int = 0, stream_out_bytes: int = 0, host_link_cycles: int = 0, overlapped_link_cycles: int = 0, streaming_in_bytes: int = 0, streaming_out_bytes: int = 0, streaming_cycles: int = 0, num_tiles: int = 0, limit_tile_bytes: int = 0, max_tile_bytes: int = 0, total_bytes: int = 0, max_tile: int = 0, variable_bytes: int = 0, constant_bytes: int = 0, temporary_bytes: int = 0, exchange_buffer_bytes: int = 0, vertex_bytes: int = 0, code_bytes: int = 0, fullest_tiles: _Sequence[TileUse] = (), largest_tensors: _Sequence[TensorUse] = (), out_of_memory: str = '', peak: TilePeak = ..., peak_variable_bytes: int = 0) -> None: ...

    @property
    def cycles(self) -> Cycles: ...

    @cycles.setter
    def cycles(self, value: Cycles, /) -> None: ...

    @property
    def exchange_bytes(self) -> int: ...

    @exchange_bytes.setter
    def exchange_bytes(self, value: int, /) -> None: ...

    @property
    def link_bytes(self) -> int: ...

    @link_bytes.setter
    def link_bytes(self, value: int, /) -> None: ...

    @property
    def flops(self) -> float: ...

    @flops.setter
    def flops(self, value: float, /) -> None: ...

    @property
    def clock_hz(self) -> float: ...

    @clock_hz.setter
    def clock_hz(self, value: float, /) -> None: ...

    @property
    def unknown_trip_count(self) -> bool: ...

    @unknown_trip_count.setter
    def unknown_trip_count(self, value: bool, /) -> None: ...

    @property
    def loops(self) -> tuple[LoopCost, ...]: ...

    @loops.setter
    def loops(self, value: _Sequence[LoopCost], /) -> None: ...

    @property
    def operations(self) -> tuple[OperationCost, ...]: ...

    @operations.setter
    def operations(self, value: _Sequence[OperationCost], /) -> None: ...

    @property
    def stream_in_bytes(self) -> int: ...

    @stream_in_bytes.setter
    def stream_in_bytes(self, value: int, /) -> None: ...

    @property
    def stream_out_bytes(self) -> int: ...

    @stream_out_bytes.setter
    def stream_out_bytes(self, value: int, /) -> None: ...

    @property
    def host_link_cycles(self) -> int: ...

    @host_link_cycles.setter
    def host_link_cycles(self, value: int, /) -> None: ...

    @property
    def overlapped_link_cycles(self) -> int: ...

    @overlapped_link_cycles.setter
    def overlapped_link_cycles(self, value: int, /) -> None: ...

    @property
    def streaming_in_bytes(self) -> int: ...

    @streaming_in_bytes.setter
    def streaming_in_bytes(self, value: int, /) -> None: ...

    @property
    def streaming_out_bytes(self) -> int: ...

    @streaming_out_bytes.setter
    def streaming_out_bytes(self, value: int, /) -> None: ...

    @property
    def streaming_cycles(self) -> int: ...

    @streaming_cycles.setter
    def streaming_cycles(self, value: int, /) -> None: ...

    @property
    def num_tiles(self) -> int: ...

    @num_tiles.setter
    def num_tiles(self, value: int, /) -> None: ...

    @property
    def limit_tile_bytes(self) -> int: ...

    @limit_tile_bytes.setter
    def limit_tile_bytes(self, value: int, /) -> None: ...

    @property
    def max_tile_bytes(self) -> int: ...

    @max_tile_bytes.setter
    def max_tile_bytes(self, value: int, /) -> None: ...

    @property
    def total_bytes(self) -> int: ...

    @total_bytes.setter
    def total_bytes(self, value: int, /) -> None: ...

    @property
    def max_tile(self) -> int: ...

    @max_tile.setter
    def max_tile(self, value: int, /) -> None: ...

    @property
    def variable_bytes(self) -> int: ...

    @variable_bytes.setter
    def variable_bytes(self, value: int, /) -> None: ...

    @property
    def constant_bytes(self) -> int: ...

    @constant_bytes.setter
    def constant_bytes(self, value: int, /) -> None: ...

    @property
    def temporary_bytes(self) -> int: ...

    @temporary_bytes.setter
    def temporary_bytes(self, value: int, /) -> None: ...

    @property
    def exchange_buffer_bytes(self) -> int: ...

    @exchange_buffer_bytes.setter
    def exchange_buffer_bytes(self, value: int, /) -> None: ...

    @property
    def vertex_bytes(self) -> int: ...

    @vertex_bytes.setter
    def vertex_bytes(self, value: int, /) -> None: ...

    @property
    def code_bytes(self) -> int: ...

    @code_bytes.setter
    def code_bytes(self, value: int, /) -> None: ...

    @property
    def fullest_tiles(self) -> tuple[TileUse, ...]: ...

    @fullest_tiles.setter
    def fullest_tiles(self, value: _Sequence[TileUse], /) -> None: ...

    @property
    def largest_tensors(self) -> tuple[TensorUse, ...]: ...

    @largest_tensors.setter
    def largest_tensors(self, value: _Sequence[TensorUse], /) -> None: ...

    @property
    def out_of_memory(self) -> str: ...

    @out_of_memory.setter
    def out_of_memory(self, value: str, /) -> None: ...

    @property
    def peak(self) -> TilePeak: ...

    @peak.setter
    def peak(self, value: TilePeak, /) -> None: ...

    @property
    def peak_variable_bytes(self) -> int: ...

    @peak_variable_bytes.setter
    def peak_variable_bytes(self, value: int, /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

class Integers:
    """A sequence of integers of 64 bits, to copy or to write as JSON."""

    def __init__(self, values: _Sequence[int]) -> None: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[int]: ...

    def __eq__(self, other: object, /) -> bool: ...

    def __repr__(self) -> str: ...

    __hash__: None  # type: ignore[assignment]

class RunLengthTable:
    """Run-length coded rows; equal lines share a row."""

    def __init__(self, *, lines: _Sequence[int] = (), rows: _Sequence[Integers] = ()) -> None: ...

    @property
    def lines(self) -> tuple[int, ...]: ...

    @lines.setter
    def lines(self, value: _Sequence[int], /) -> None: ...

    @property
    def rows(self) -> tuple[Integers, ...]: ...

    @rows.setter
    def rows(self, value: _Sequence[Integers], /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

class ProfileNodes:
    """The nodes of the main program's tree as columns."""

    def __init__(self, *, kind: _Sequence[str] = (), name: _Sequence[str] = (), parent: _Sequence[int] = (), operation: _Sequence[int] = (), trips: _Sequence[int] = (), executions: _Sequence[int] = (), first_step: _Sequence[int] = (), last_step: _Sequence[int] = (), cycles: _Sequence[int] = ()) -> None: ...

    @property
    def kind(self) -> tuple[str, ...]: ...

    @kind.setter
    def kind(self, value: _Sequence[str], /) -> None: ...

    @property
    def name(self) -> tuple[str, ...]: ...

    @name.setter
    def name(self, value: _Sequence[str], /) -> None: ...

    @property
    def parent(self) -> tuple[int, ...]: ...

    @parent.setter
    def parent(self, value: _Sequence[int], /) -> None: ...

    @property
    def operation(self) -> tuple[int, ...]: ...

    @operation.setter
    def operation(self, value: _Sequence[int], /) -> None: ...

    @property
    def trips(self) -> tuple[int, ...]: ...

    @trips.setter
    def trips(self, value: _Sequence[int], /) -> None: ...

    @property
    def executions(self) -> tuple[int, ...]: ...

    @executions.setter
    def executions(self, value: _Sequence[int], /) -> None: ...

    @property
    def first_step(self) -> tuple[int, ...]: ...

    @first_step.setter
    def first_step(self, value: _Sequence[int], /) -> None: ...

    @property
    def last_step(self) -> tuple[int, ...]: ...

    @last_step.setter
    def last_step(self, value: _Sequence[int], /) -> None: ...

    @property
    def cycles(self) -> tuple[int, ...]: ...

    @cycles.setter
    def cycles(self, value: _Sequence[int], /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

class ProfileSteps:
    """The steps of one call as columns, in program order."""

    def __init__(self, *, node: _Sequence[int] = (), operation: _Sequence[int] = (), name: _Sequence[str] = (), executions: _Sequence[int] = (), counted: _Sequence[int] = (), compute: _Sequence[int] = (), exchange: _Sequence[int] = (), sync: _Sequence[int] = (), exchange_bytes: _Sequence[int] = (), link_bytes: _Sequence[int] = (), host_bytes: _Sequence[int] = (), active_tiles: _Sequence[int] = (), total_compute: _Sequence[int] = (), local_copies: _Sequence[int] = (), live_bytes: _Sequence[int] = (), fullest_bytes: _Sequence[int] = (), fullest_tile: _Sequence[int] = ()) -> None: ...

    @property
    def node(self) -> tuple[int, ...]: ...

    @node.setter
    def node(self, value: _Sequence[int], /) -> None: ...

    @property
    def operation(self) -> tuple[int, ...]: ...

    @operation.setter
    def operation(self, value: _Sequence[int], /) -> None: ...

    @property
    def name(self) -> tuple[str, ...]: ...

    @name.setter
    def name(self, value: _Sequence[str], /) -> None: ...

    @property
    def executions(self) -> tuple[int, ...]: ...

    @executions.setter
    def executions(self, value: _Sequence[int], /) -> None: ...

    @property
    def counted(self) -> tuple[int, ...]: ...

    @counted.setter
    def counted(self, value: _Sequence[int], /) -> None: ...

    @property
    def compute(self) -> tuple[int, ...]: ...

    @compute.setter
    def compute(self, value: _Sequence[int], /) -> None: ...

    @property
    def exchange(self) -> tuple[int, ...]: ...

    @exchange.setter
    def exchange(self, value: _Sequence[int], /) -> None: ...

    @property
    def sync(self) -> tuple[int, ...]: ...

    @sync.setter
    def sync(self, value: _Sequence[int], /) -> None: ...

    @property
    def exchange_bytes(self) -> tuple[int, ...]: ...

    @exchange_bytes.setter
    def exchange_bytes(self, value: _Sequence[int], /) -> None: ...

    @property
    def link_bytes(self) -> tuple[int, ...]: ...

    @link_bytes.setter
    def link_bytes(self, value: _Sequence[int], /) -> None: ...

    @property
    def host_bytes(self) -> tuple[int, ...]: ...

    @host_bytes.setter
    def host_bytes(self, value: _Sequence[int], /) -> None: ...

    @property
    def active_tiles(self) -> tuple[int, ...]: ...

    @active_tiles.setter
    def active_tiles(self, value: _Sequence[int], /) -> None: ...

    @property
    def total_compute(self) -> tuple[int, ...]: ...

    @total_compute.setter
    def total_compute(self, value: _Sequence[int], /) -> None: ...

    @property
    def local_copies(self) -> tuple[int, ...]: ...

    @local_copies.setter
    def local_copies(self, value: _Sequence[int], /) -> None: ...

    @property
    def live_bytes(self) -> tuple[int, ...]: ...

    @live_bytes.setter
    def live_bytes(self, value: _Sequence[int], /) -> None: ...

    @property
    def fullest_bytes(self) -> tuple[int, ...]: ...

    @fullest_bytes.setter
    def fullest_bytes(self, value: _Sequence[int], /) -> None: ...

    @property
    def fullest_tile(self) -> tuple[int, ...]: ...

    @fullest_tile.setter
    def fullest_tile(self, value: _Sequence[int], /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

class ProfileVariables:
    """What takes memory, as columns."""

    def __init__(self, *, name: _Sequence[str] = (), dtype: _Sequence[str] = (), shape: _Sequence[_Sequence[int]] = (), role: _Sequence[str] = (), lasting: _Sequence[int] = (), bytes: _Sequence[int] = (), bytes_on_tile: _Sequence[int] = (), tiles: _Sequence[int] = (), row: _Sequence[int] = (), rows: _Sequence[Integers] = (), live_steps: _Sequence[_Sequence[int]] = (), last_use: _Sequence[int] = (), operation: _Sequence[int] = (), origin: _Sequence[int] = ()) -> None: ...

    @property
    def name(self) -> tuple[str, ...]: ...

    @name.setter
    def name(self, value: _Sequence[str], /) -> None: ...

    @property
    def dtype(self) -> tuple[str, ...]: ...

    @dtype.setter
    def dtype(self, value: _Sequence[str], /) -> None: ...

    @property
    def shape(self) -> tuple[_Sequence[int], ...]: ...

    @shape.setter
    def shape(self, value: _Sequence[_Sequence[int]], /) -> None: ...

    @property
    def role(self) -> tuple[str, ...]: ...

    @role.setter
    def role(self, value: _Sequence[str], /) -> None: ...

    @property
    def lasting(self) -> tuple[int, ...]: ...

    @lasting.setter
    def lasting(self, value: _Sequence[int], /) -> None: ...

    @property
    def bytes(self) -> tuple[int, ...]: ...

    @bytes.setter
    def bytes(self, value: _Sequence[int], /) -> None: ...

    @property
    def bytes_on_tile(self) -> tuple[int, ...]: ...

    @bytes_on_tile.setter
    def bytes_on_tile(self, value: _Sequence[int], /) -> None: ...

    @property
    def tiles(self) -> tuple[int, ...]: ...

    @tiles.setter
    def tiles(self, value: _Sequence[int], /) -> None: ...

    @property
    def row(self) -> tuple[int, ...]: ...

    @row.setter
    def row(self, value: _Sequence[int], /) -> None: ...

    @property
    def rows(self) -> tuple[Integers, ...]: ...

    @rows.setter
    def rows(self, value: _Sequence[Integers], /) -> None: ...

    @property
    def live_steps(self) -> tuple[_Sequence[int], ...]: ...

    @live_steps.setter
    def live_steps(self, value: _Sequence[_Sequence[int]], /) -> None: ...

    @property
    def last_use(self) -> tuple[int, ...]: ...

    @last_use.setter
    def last_use(self, value: _Sequence[int], /) -> None: ...

    @property
    def operation(self) -> tuple[int, ...]: ...

    @operation.setter
    def operation(self, value: _Sequence[int], /) -> None: ...

    @property
    def origin(self) -> tuple[int, ...]: ...

    @origin.setter
    def origin(self, value: _Sequence[int], /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

class ProfileMemory:
    """Bytes on each tile at its own fullest moment."""

    def __init__(self, *, variables: Integers = ..., temporaries: Integers = ..., exchange_buffers: Integers = ..., constants: Integers = ..., vertex_state: Integers = ..., code: Integers = ..., total: Integers = ..., gaps: Integers = ..., addresses: _Sequence[Integers] = (), addresses_of_tile: Integers = ..., peak_step: int = -1, always_live_bytes: int = 0) -> None: ...

    @property
    def variables(self) -> Integers: ...

    @variables.setter
    def variables(self, value: Integers, /) -> None: ...

    @property
    def temporaries(self) -> Integers: ...

    @temporaries.setter
    def temporaries(self, value: Integers, /) -> None: ...

    @property
    def exchange_buffers(self) -> Integers: ...

    @exchange_buffers.setter
    def exchange_buffers(self, value: Integers, /) -> None: ...

    @property
    def constants(self) -> Integers: ...

    @constants.setter
    def constants(self, value: Integers, /) -> None: ...

    @property
    def vertex_state(self) -> Integers: ...

    @vertex_state.setter
    def vertex_state(self, value: Integers, /) -> None: ...

    @property
    def code(self) -> Integers: ...

    @code.setter
    def code(self, value: Integers, /) -> None: ...

    @property
    def total(self) -> Integers: ...

    @total.setter
    def total(self, value: Integers, /) -> None: ...

    @property
    def gaps(self) -> Integers: ...

    @gaps.setter
    def gaps(self, value: Integers, /) -> None: ...

    @property
    def addresses(self) -> tuple[Integers, ...]: ...

    @addresses.setter
    def addresses(self, value: _Sequence[Integers], /) -> None: ...

    @property
    def addresses_of_tile(self) -> Integers: ...

    @addresses_of_tile.setter
    def addresses_of_tile(self, value: Integers, /) -> None: ...

    @property
    def peak_step(self) -> int: ...

    @peak_step.setter
    def peak_step(self, value: int, /) -> None: ...

    @property
    def always_live_bytes(self) -> int: ...

    @always_live_bytes.setter
    def always_live_bytes(self, value: int, /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

class ProfileExchange:
    """What moves between tiles in each step."""

    def __init__(self, *, steps: _Sequence[int] = (), sent: RunLengthTable = ..., received: RunLengthTable = ..., group_tiles: int = 1, pairs: RunLengthTable = ...) -> None: ...

    @property
    def steps(self) -> tuple[int, ...]: ...

    @steps.setter
    def steps(self, value: _Sequence[int], /) -> None: ...

    @property
    def sent(self) -> RunLengthTable: ...

    @sent.setter
    def sent(self, value: RunLengthTable, /) -> None: ...

    @property
    def received(self) -> RunLengthTable: ...

    @received.setter
    def received(self, value: RunLengthTable, /) -> None: ...

    @property
    def group_tiles(self) -> int: ...

    @group_tiles.setter
    def group_tiles(self, value: int, /) -> None: ...

    @property
    def pairs(self) -> RunLengthTable: ...

    @pairs.setter
    def pairs(self, value: RunLengthTable, /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

class Profile:
    """Every step, variable and tile of a program."""

    def __init__(self, *, operations: _Sequence[OperationCost] = (), origins: _Sequence[int] = (), nodes: ProfileNodes = ..., steps: ProfileSteps = ..., tile_compute: RunLengthTable = ..., tile_memory: RunLengthTable = ..., variables: ProfileVariables = ..., memory: ProfileMemory = ..., exchange: ProfileExchange = ...) -> None: ...

    @property
    def operations(self) -> tuple[OperationCost, ...]: ...

    @operations.setter
    def operations(self, value: _Sequence[OperationCost], /) -> None: ...

    @property
    def origins(self) -> tuple[int, ...]: ...

    @origins.setter
    def origins(self, value: _Sequence[int], /) -> None: ...

    @property
    def nodes(self) -> ProfileNodes: ...

    @nodes.setter
    def nodes(self, value: ProfileNodes, /) -> None: ...

    @property
    def steps(self) -> ProfileSteps: ...

    @steps.setter
    def steps(self, value: ProfileSteps, /) -> None: ...

    @property
    def tile_compute(self) -> RunLengthTable: ...

    @tile_compute.setter
    def tile_compute(self, value: RunLengthTable, /) -> None: ...

    @property
    def tile_memory(self) -> RunLengthTable: ...

    @tile_memory.setter
    def tile_memory(self, value: RunLengthTable, /) -> None: ...

    @property
    def variables(self) -> ProfileVariables: ...

    @variables.setter
    def variables(self, value: ProfileVariables, /) -> None: ...

    @property
    def memory(self) -> ProfileMemory: ...

    @memory.setter
    def memory(self, value: ProfileMemory, /) -> None: ...

    @property
    def exchange(self) -> ProfileExchange: ...

    @exchange.setter
    def exchange(self, value: ProfileExchange, /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

def set_origin(origin: int) -> None:
    """
    Operations that this thread adds from now on are of this part of the source; 0 for none.
    """

class ImageVariable:
    """
    The memory of an argument that stays in SRAM between runs of linked programs.
    """

    def __init__(self, *, bytes: int = 0, stream: str = '', write_program: int = -1, read_program: int = -1, swap_with: int = -1, swap_program: int = -1, title: str = '', title_of_result: str = '') -> None: ...

    @property
    def bytes(self) -> int: ...

    @bytes.setter
    def bytes(self, value: int, /) -> None: ...

    @property
    def stream(self) -> str: ...

    @stream.setter
    def stream(self, value: str, /) -> None: ...

    @property
    def write_program(self) -> int: ...

    @write_program.setter
    def write_program(self, value: int, /) -> None: ...

    @property
    def read_program(self) -> int: ...

    @read_program.setter
    def read_program(self, value: int, /) -> None: ...

    @property
    def swap_with(self) -> int: ...

    @swap_with.setter
    def swap_with(self, value: int, /) -> None: ...

    @property
    def swap_program(self) -> int: ...

    @swap_program.setter
    def swap_program(self, value: int, /) -> None: ...

    @property
    def title(self) -> str: ...

    @title.setter
    def title(self, value: str, /) -> None: ...

    @property
    def title_of_result(self) -> str: ...

    @title_of_result.setter
    def title_of_result(self, value: str, /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

class ImageEntry:
    """One of several linked programs."""

    def __init__(self, *, prefix: str = '', main_program: int = 0, variables: _Sequence[int] = ()) -> None: ...

    @property
    def prefix(self) -> str: ...

    @prefix.setter
    def prefix(self, value: str, /) -> None: ...

    @property
    def main_program(self) -> int: ...

    @main_program.setter
    def main_program(self, value: int, /) -> None: ...

    @property
    def variables(self) -> tuple[int, ...]: ...

    @variables.setter
    def variables(self, value: _Sequence[int], /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    __hash__: None  # type: ignore[assignment]

    def __repr__(self) -> str: ...

class LinkedProgram:
    """Several programs with one engine."""

class CompiledGraph:
    def as_executable(self, **fields: object) -> Executable:
        """
        The Executable with this program and `fields`, without a copy of it in between.
        """

    def as_linked_program(self, name: str, target: str, variables: _Sequence[ImageVariable], entries: _Sequence[ImageEntry]) -> LinkedProgram:
        """
        The programs of the graph, for the runtime: see jax_ipu/compiler/linking.py.
        """

    def cost(self) -> CostReport: ...

    def memory(self) -> MemoryReport: ...

    def communicates(self, program: int) -> bool:
        """Whether the replicas communicate in this program."""

    def report(self) -> DeviceReport:
        """
        What the IPU model knows of the program; its fields are explained in ipu_model/Model.hpp.
        """

    def profile(self) -> Profile:
        """The same in detail; its fields are explained in ipu_model/Profile.hpp."""

class TilePlanCache:
    """
    Plans of operations, shared by programs for one target that are compiled one after the other.
    """

    def __init__(self, detailed: bool = False) -> None: ...

    @property
    def limits_buffers(self) -> bool:
        """
        Whether an operation whose buffers do not fit is planned again with smaller ones.
        """

    @limits_buffers.setter
    def limits_buffers(self, arg: bool, /) -> None: ...

    def __len__(self) -> int: ...

class Deadline:
    """
    In its `with` block, what this thread plans raises OutOfTime after `seconds`, also within one operation.
    """

    def __init__(self, seconds: float) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

def check_deadline() -> None:
    """Raises OutOfTime where a Deadline of this thread is over."""

def compile_graph(graph: Graph, programs: _Sequence[Sequence], name: str, plans: TilePlanCache | None = None, poll: Callable[[int, int], None] | None = None, further_mains: _Sequence[int] = ()) -> CompiledGraph:
    """
    `poll` is called between operations, with how many are planned and how many there are. Raises OutOfMemory, OutOfTime, and KeyboardInterrupt for Ctrl-C while operations are planned.
    """

class Counters:
    @property
    def h2d_bytes(self) -> int: ...

    @property
    def d2h_bytes(self) -> int: ...

    @property
    def engine_loads(self) -> int: ...

    @property
    def runs(self) -> int: ...

    @property
    def cycles(self) -> int: ...

    @property
    def link_bytes(self) -> int: ...

def run(executable: Executable, arguments: _Sequence[bytes], execution: str = 'fast') -> list[bytes]: ...

def run_replicas(executable: Executable, arguments: _Sequence[_Sequence[bytes]], execution: str = 'fast') -> list[list[bytes]]: ...

def set_linker(linker: Callable[[list[tuple[bytes, str, bytes, tuple[int, ...]]], str], LinkedProgram]) -> None:
    """
    Sets the function that compiles programs which take each other's arrays as one.
    """

def set_compiler(compiler: Callable[[memoryview, str, bytes, str], Executable]) -> None: ...

def set_device_config(version: str = 'ipu2', num_tiles: int = 0, device_ids: _Sequence[int] = [0], execution: str = 'fast', use_model: bool = True, monitored: bool = True, usage_folder: str = '', synthetic_data: bool = False, link: bool = True, trace_planes: str = 'custom') -> None: ...

def log_stage(message: str) -> None:
    """Writes a line at level DEBUG of POPLAR_LOG_LEVEL."""

def limit_host(max_isa: str, threads: int, machine_code: bool) -> None: ...

def set_stochastic_rounding(enabled: bool, seed: int) -> None:
    """
    Whether f16 results of the process are rounded stochastically, and the seed of the generators.
    """

def host_kernels() -> dict[str, Any]: ...

def guard_reads(guarded: bool) -> None: ...

def guard_reads_of_thread(guarded: bool | None) -> None: ...

def finish_work() -> None: ...

def prepare_exit() -> None: ...

def read_counters(device_id: int) -> Counters: ...

class HostCallback:
    """
    Registers a function of this process, which gets the bytes of operands and of results to fill.
    """

    def __init__(self, function: Callable[[_Sequence[memoryview], _Sequence[memoryview]], None]) -> None: ...

    @property
    def id(self) -> int: ...

    def __reduce__(self) -> NoReturn: ...

def register_ffi_target(name: str, stages: dict[str, object]) -> None:
    """
    Registers the handlers of a foreign function: capsules with their addresses, by stage.
    """

def register_ffi_type(name: str, type_id: object, type_info: object | None) -> None:
    """
    Registers the type of a handler's state: capsules with the addresses of its id and of its type info.
    """

def cancel_runs() -> None: ...

def is_forked_child() -> bool: ...

def refuse_in_forked_child() -> None: ...

def hide_executable_versions() -> None: ...

def compile_codelets(paths: _Sequence[str], flags: str, output: str) -> list[str]: ...

def set_process_transport(carry: Callable[[list[tuple[int, int, int, int, int, int, int]]], None], fail: Callable[[str], None]) -> None:
    """
    Sets what moves data between processes. `carry` gets (process, send tag, address and bytes to send, receive tag, address and bytes to fill) of each message, and `fail` a reason.
    """

class Trace:
    """Records what the devices of this process do, until `stop`."""

    def __init__(self) -> None: ...

    def stop(self) -> None: ...

    def chrome_trace(self) -> bytes:
        """Chrome's trace events as JSON. Call `stop` before."""

    def xspace(self, as_tpu: bool = False) -> bytes:
        """A serialised tensorflow.profiler.XSpace. Call `stop` before."""

def json_text(value: object) -> bytes:
    """
    JSON of dictionaries with strings as keys, lists, Integers, strings, integers, finite floats, booleans and None, as UTF-8 without spaces. Raises TypeError or ValueError for others.
    """

class Expression:
    def __init__(self, inputs: _Sequence[str], constants: _Sequence[tuple[str, bytes]], code: _Sequence[tuple[str, str, str, int, int, int, int]], outputs: _Sequence[int]) -> None: ...

def map(graph: Graph, expression: Expression, tensors: _Sequence[Tensor], seq: Sequence, name: str = '') -> Tensor: ...

def map_with_output(graph: Graph, expression: Expression, tensors: _Sequence[Tensor], out: Tensor, seq: Sequence, name: str = '') -> None: ...

def map_in_place(graph: Graph, expression: Expression, tensors: _Sequence[Tensor], seq: Sequence, name: str = '') -> None: ...

def map_multiple(graph: Graph, expression: Expression, tensors: _Sequence[Tensor], outs: _Sequence[Tensor | None], seq: Sequence, name: str = '') -> list[Tensor]: ...

def fill(graph: Graph, tensor: Tensor, value: bytes, seq: Sequence, name: str = '') -> None: ...

def map_cycles(graph: Graph, expression: Expression, scalars: _Sequence[bool], in_place: bool, elements: int) -> int:
    """
    Cycles of one vertex of `map` with all workers. scalars: which inputs are one element for all.
    """

def fill_cycles(graph: Graph, dtype: str, elements: int) -> int:
    """Cycles of one vertex of `fill`, with all workers."""

def iota(graph: Graph, tensor: Tensor, dim: int, seq: Sequence, name: str = '') -> None: ...

def reduce(graph: Graph, tensors: _Sequence[Tensor], inits: _Sequence[Tensor], dims: _Sequence[int], expression: Expression, seq: Sequence, name: str = '', unrounded: bool = False) -> list[Tensor]: ...

def reduce_window(graph: Graph, tensors: _Sequence[Tensor], inits: _Sequence[Tensor], window: _Sequence[int], strides: _Sequence[int], base_dilation: _Sequence[int], window_dilation: _Sequence[int], padding: _Sequence[tuple[int, int]], expression: Expression, seq: Sequence, name: str = '') -> list[Tensor]:
    """
    Reduces every window of the tensors; expression has inputs acc_0.., value_0.. and n outputs.
    """

def select_and_scatter(graph: Graph, operand: Tensor, source: Tensor, init: Tensor, window: _Sequence[int], strides: _Sequence[int], padding: _Sequence[tuple[int, int]], select_expression: Expression, scatter_expression: Expression, seq: Sequence, name: str = '') -> Tensor:
    """
    Scatters each element of source to the element that its window of operand selects.
    """

class PlanningCache:
    """
    Keeps plans of products and convolutions, so that equal ones are planned once.
    """

    def __init__(self) -> None: ...

def mat_mul_grouped(graph: Graph, a: Tensor, b: Tensor, out_dtype: str, seq: Sequence, name: str = '', options: Mapping[str, str] = {}, output_mapping_like: Tensor | None = None, plans: PlanningCache | None = None) -> Tensor:
    """
    a [g, m, k] x b [g, k, n] -> [g, m, n]. The result lies on the tiles of output_mapping_like [g, m, n] (and in its memory order) where that is given.
    """

def create_mat_mul_grouped_input_lhs(graph: Graph, in_dtype: str, out_dtype: str, a_shape: _Sequence[int], b_shape: _Sequence[int], name: str = '', options: Mapping[str, str] = {}, plans: PlanningCache | None = None) -> Tensor:
    """
    A new variable of a_shape [g, m, k], mapped as mat_mul_grouped of these shapes reads it.
    """

def create_mat_mul_grouped_input_rhs(graph: Graph, in_dtype: str, out_dtype: str, a_shape: _Sequence[int], b_shape: _Sequence[int], name: str = '', options: Mapping[str, str] = {}, plans: PlanningCache | None = None) -> Tensor:
    """
    A new variable of b_shape [g, k, n], mapped as mat_mul_grouped of these shapes reads it.
    """

def convolution(graph: Graph, lhs: Tensor, rhs: Tensor, strides: _Sequence[int], padding: _Sequence[tuple[int, int]], lhs_dilation: _Sequence[int], rhs_dilation: _Sequence[int], rhs_reversal: _Sequence[bool], feature_group_count: int, batch_group_count: int, out_dtype: str, output_layout: _Sequence[int], seq: Sequence, name: str = '', options: Mapping[str, str] = {}, output_mapping_like: Tensor | None = None, plans: PlanningCache | None = None) -> Tensor:
    """
    lhs [n, c, *spatial] and rhs [o, i, *spatial] -> [n, o, *spatial], with dimensions output_layout from major to minor in memory. Where output_mapping_like (a tensor of the result's shape) is given, the result has its memory order and lies on its tiles.
    """

def create_conv_input(graph: Graph, lhs_shape: _Sequence[int], rhs_shape: _Sequence[int], strides: _Sequence[int], padding: _Sequence[tuple[int, int]], lhs_dilation: _Sequence[int], rhs_dilation: _Sequence[int], rhs_reversal: _Sequence[bool], feature_group_count: int, batch_group_count: int, out_dtype: str, layout: _Sequence[int], dtype: str, name: str = '', options: Mapping[str, str] = {}, plans: PlanningCache | None = None) -> Tensor:
    """
    A new variable [n, c, *spatial] with memory order `layout`, mapped as this convolution reads it.
    """

def create_conv_weights(graph: Graph, lhs_shape: _Sequence[int], rhs_shape: _Sequence[int], strides: _Sequence[int], padding: _Sequence[tuple[int, int]], lhs_dilation: _Sequence[int], rhs_dilation: _Sequence[int], rhs_reversal: _Sequence[bool], feature_group_count: int, batch_group_count: int, out_dtype: str, layout: _Sequence[int], dtype: str, name: str = '', options: Mapping[str, str] = {}, plans: PlanningCache | None = None) -> Tensor:
    """
    A new variable [o, i, *spatial] with memory order `layout`, mapped as this convolution reads it.
    """

def dynamic_slice(graph: Graph, operand: Tensor, starts: _Sequence[Tensor], sizes: _Sequence[int], seq: Sequence, name: str = '') -> Tensor: ...

def dynamic_update_slice(graph: Graph, operand: Tensor, update: Tensor, starts: _Sequence[Tensor], seq: Sequence, name: str = '', in_place: bool = False) -> Tensor: ...

def gather(graph: Graph, operand: Tensor, indices: Tensor, offset_dims: _Sequence[int], collapsed_slice_dims: _Sequence[int], operand_batching_dims: _Sequence[int], indices_batching_dims: _Sequence[int], start_index_map: _Sequence[int], index_vector_dim: int, wraps: _Sequence[int], slice_sizes: _Sequence[int], seq: Sequence, name: str = '') -> Tensor: ...

def create_gather_input(graph: Graph, dtype: str, shape: _Sequence[int], indices_shape: _Sequence[int], offset_dims: _Sequence[int], collapsed_slice_dims: _Sequence[int], operand_batching_dims: _Sequence[int], indices_batching_dims: _Sequence[int], start_index_map: _Sequence[int], index_vector_dim: int, slice_sizes: _Sequence[int], name: str = '', has_passes: bool = True) -> Tensor: ...

def scatter(graph: Graph, operands: _Sequence[Tensor], indices: Tensor, updates: _Sequence[Tensor], update_window_dims: _Sequence[int], inserted_window_dims: _Sequence[int], operand_batching_dims: _Sequence[int], indices_batching_dims: _Sequence[int], scatter_dims_to_operand_dims: _Sequence[int], index_vector_dim: int, wraps: _Sequence[int], unique_indices: bool, expression: Expression, seq: Sequence, name: str = '', in_place: bool = False) -> list[Tensor]: ...

def create_sliceable_tensor(graph: Graph, dtype: str, shape: _Sequence[int], dims: _Sequence[int], sizes: _Sequence[int], name: str = '') -> Tensor: ...

def sort(graph: Graph, operands: _Sequence[Tensor], dim: int, comparator: Expression, stable: bool, seq: Sequence, name: str = '') -> list[Tensor]: ...

def sort_with_positions(graph: Graph, operands: _Sequence[Tensor], dim: int, comparator: Expression, seq: Sequence, name: str = '') -> list[Tensor]: ...

def create_sort_operand(graph: Graph, dtypes: _Sequence[str], number: int, shape: _Sequence[int], dim: int, comparator: Expression, positions: bool, name: str = '') -> Tensor: ...

def sort_in_place(graph: Graph, operands: _Sequence[Tensor], dim: int, comparator: Expression, positions: bool, seq: Sequence, name: str = '') -> list[Tensor]: ...

def top_k(graph: Graph, operand: Tensor, k: int, seq: Sequence, name: str = '', largest: bool = True) -> tuple[Tensor, Tensor]: ...

def add_codelets(graph: Graph, source: str, flags: str) -> None:
    """Compiles C++ source of codelets."""

def execute_vertices(graph: Graph, vertex: str, tiles: _Sequence[int], edges: _Sequence[tuple[str, Tensor]], values: _Sequence[tuple[str, bool | int | float]], cycles: int | None, seq: Sequence, name: str) -> None: ...

def map_to_tiles(graph: Graph, tensor: Tensor, tiles: _Sequence[int]) -> None: ...

def is_on_tiles(graph: Graph, tensor: Tensor, tiles: _Sequence[int]) -> bool: ...

def cycle_stamp(graph: Graph, out: Tensor, seq: Sequence, name: str, sync: bool) -> None: ...

def fft(graph: Graph, operand: Tensor, type: str, lengths: _Sequence[int], seq: Sequence, name: str = '', flops: float = -1.0) -> Tensor: ...

def cholesky(graph: Graph, a: Tensor, lower: bool, seq: Sequence, name: str = '') -> Tensor: ...

def triangular_solve(graph: Graph, a: Tensor, b: Tensor, left_side: bool, lower: bool, unit_diagonal: bool, transpose_a: str, seq: Sequence, name: str = '') -> Tensor: ...

def lu_panel(graph: Graph, a: Tensor, seq: Sequence, name: str = '') -> list[Tensor]: ...

def qr_panel(graph: Graph, a: Tensor, seq: Sequence, name: str = '') -> list[Tensor]: ...

def two_sided(graph: Graph, form: str, a: Tensor, seq: Sequence, name: str = '') -> list[Tensor]: ...

def apply_reflectors(graph: Graph, packed: Tensor, taus: Tensor, x: Tensor, below: int, seq: Sequence, name: str = '') -> Tensor: ...

def schur(graph: Graph, a: Tensor, balanced: bool, vectors: bool, seq: Sequence, name: str = '') -> list[Tensor]: ...

def implicit_qr(graph: Graph, bidiagonal: bool, operands: _Sequence[Tensor], seq: Sequence, name: str = '') -> list[Tensor]: ...

def rng_bit_generator(graph: Graph, algorithm: str, state: Tensor, dtype: str, shape: _Sequence[int], seq: Sequence, name: str = '') -> tuple[Tensor, Tensor]: ...

def threefry2x32(graph: Graph, key: _Sequence[Tensor], starts: _Sequence[int], strides: _Sequence[_Sequence[int]], counters: _Sequence[Tensor | None], outs: _Sequence[Tensor], seq: Sequence, name: str = '') -> None: ...

class CommGroup:
    def __init__(self, type: str, size: int = 0, stride: int = 1) -> None: ...

def all_reduce_cross_replica(graph: Graph, datas: _Sequence[Tensor], op: str, seq: Sequence, group: CommGroup, name: str = '', method: str = 'auto') -> list[Tensor]: ...

def reduce_scatter_cross_replica(graph: Graph, data: Tensor, op: str, seq: Sequence, group: CommGroup, name: str = '') -> Tensor: ...

def all_gather_cross_replica(graph: Graph, data: Tensor, seq: Sequence, group: CommGroup, name: str = '') -> Tensor: ...

def all_to_all_cross_replica(graph: Graph, data: Tensor, seq: Sequence, group: CommGroup, name: str = '') -> Tensor: ...

def all_gather(graph: Graph, data: Tensor, dimension: int, groups: _Sequence[_Sequence[int]], seq: Sequence, name: str = '') -> Tensor: ...

def all_to_all(graph: Graph, data: Tensor, split_dimension: int, concat_dimension: int, groups: _Sequence[_Sequence[int]], seq: Sequence, name: str = '') -> Tensor: ...

def all_reduce(graph: Graph, datas: _Sequence[Tensor], groups: _Sequence[_Sequence[int]], body: Expression, seq: Sequence, name: str = '') -> list[Tensor]: ...

def reduce_scatter(graph: Graph, data: Tensor, dimension: int, groups: _Sequence[_Sequence[int]], body: Expression, seq: Sequence, name: str = '') -> Tensor: ...

def collective_permute(graph: Graph, data: Tensor, sources: _Sequence[int], seq: Sequence, name: str = '') -> Tensor: ...

def collective_broadcast(graph: Graph, data: Tensor, groups: _Sequence[_Sequence[int]], seq: Sequence, name: str = '') -> Tensor: ...
