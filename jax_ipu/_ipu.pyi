"""Bindings of libpjrt_ipu.so: the part of the Poplar and PopLibs API that the compiler uses, and runtime switches.

Element types are strings ("f32", "pred", "s32", "bf16", ...). Functions that take `seq` add their operation to it.
"""

from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Any

class Error(RuntimeError):
    """An error with the PJRT status code `code`."""

    code: int

class OutOfMemory(Error):
    """A program that is too large for the tiles; the attributes are of the fullest tile at its worst moment."""

    tile: dict[str, int]
    """Bytes: variables, temporaries, exchange_buffers, constants, vertex_state, code."""
    variables_only: bool
    """Nothing but variables was counted, as they alone do not fit."""
    peak_variable_bytes: int
    """The most that variables have on all tiles together at one moment."""
    tensors: list[dict[str, Any]]
    """All that are on the tile, largest first: name, dtype, shape, bytes, bytes_on_tile, role, lasting."""

class Target:
    """One IPU: "ipu1", "ipu2", "ipu21" or "bow"; num_tiles 0 means all tiles of the architecture."""

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
    def version(self) -> str: ...

class Tensor:
    """A view of variables; copying it never copies data."""

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
    def slice(self, begins: Seq[int], ends: Seq[int]) -> Tensor: ...
    def sub_sample(self, stride: int, dim: int) -> Tensor: ...
    def reverse(self, dim: int) -> Tensor: ...
    def reshape(self, shape: Seq[int]) -> Tensor: ...
    def dim_shuffle(self, permutation: Seq[int]) -> Tensor: ...
    def broadcast(self, n: int, dim: int) -> Tensor: ...
    def expand(self, dims: Seq[int]) -> Tensor: ...
    def reinterpret(self, dtype: str) -> Tensor: ...

def concat(tensors: Seq[Tensor], dim: int) -> Tensor: ...

class DataStream:
    @property
    def handle(self) -> str: ...

class Function: ...
class HostFunction: ...

class Sequence:
    def __init__(self, name: str = "") -> None: ...
    def add(self, sequence: Sequence) -> None: ...
    def copy(self, src: Tensor, dst: Tensor, name: str) -> None: ...
    def stream_in(self, stream: DataStream, dst: Tensor, name: str) -> None: ...
    def stream_out(self, src: Tensor, stream: DataStream, name: str) -> None: ...
    def repeat(self, count: int, body: Sequence) -> None: ...
    def repeat_while_true(self, cond: Sequence, predicate: Tensor, body: Sequence) -> None: ...
    def if_(self, predicate: Tensor, true_sequence: Sequence, false_sequence: Sequence) -> None: ...
    def switch(self, control: Tensor, cases: Seq[tuple[int, Sequence]], default_case: Sequence) -> None: ...
    def call(self, function: Function) -> None: ...
    def call_host(self, function: HostFunction, inputs: list[Tensor], outputs: list[Tensor], name: str) -> None: ...
    def write_undef(self, tensor: Tensor) -> None: ...
    def print_tensor(self, title: str, tensor: Tensor) -> None: ...

class Graph:
    def __init__(self, target: Target, replication_factor: int = 1) -> None: ...
    @property
    def replication_factor(self) -> int: ...
    def add_replication_index_constant(self, name: str) -> Tensor: ...
    def add_variable(self, dtype: str, shape: Seq[int], name: str) -> Tensor: ...
    def add_constant(self, dtype: str, shape: Seq[int], data: bytes, name: str) -> Tensor: ...
    def clone(self, tensor: Tensor, name: str) -> Tensor: ...
    def clone_as(self, dtype: str, tensor: Tensor, name: str, new_order: bool = False) -> Tensor: ...
    def set_tile_mapping(self, tensor: Tensor, tile: int) -> None: ...
    def get_tile_mapping(self, tensor: Tensor) -> list[list[tuple[int, int]]]: ...
    def map_linearly(self, tensor: Tensor, first_tile: int = 0) -> None: ...
    def add_host_to_device_fifo(self, name: str, dtype: str, num_elements: int) -> DataStream: ...
    def add_device_to_host_fifo(self, name: str, dtype: str, num_elements: int) -> DataStream: ...
    def add_function(self, sequence: Sequence) -> Function: ...
    def add_host_function(
        self, name: str, inputs: list[tuple[str, int]], outputs: list[tuple[str, int]]
    ) -> HostFunction: ...

class Expression:
    """A scalar program: registers are numbered inputs, then constants, then one for each instruction."""

    def __init__(
        self,
        inputs: Seq[str],
        constants: Seq[tuple[str, bytes]],
        code: Seq[tuple[str, str, str, int, int, int, int]],
        outputs: Seq[int],
    ) -> None: ...

# Compiling and running ------------------------------------------------------------------------------------------

class CompiledGraph:
    def serialize(self) -> bytes: ...
    def cost(self) -> dict[str, float]: ...
    def memory(self) -> dict[str, int]: ...
    def operations(self) -> list[dict[str, Any]]:
        """In program order, all executions in one call of the main program together: kind, name, executions,
        compute_cycles, exchange_cycles, sync_cycles, exchange_bytes, flops, tiles."""
    def loops(self) -> list[dict[str, Any]]:
        """Those whose trip count is known at run time only; they are counted as one trip: name, condition_cycles,
        body_cycles."""
    def largest_tensors(self) -> list[dict[str, Any]]:
        """On the fullest tile at its fullest moment, at most 10: name, dtype, shape, bytes, bytes_on_tile, role,
        lasting (keeps its contents between calls)."""

class PlanCache:
    """Plans of operations, shared by programs for the same target that are compiled one after the other."""

    def __init__(self) -> None: ...
    def __len__(self) -> int: ...

def compile_graph(
    graph: Graph,
    programs: Seq[Sequence],
    name: str,
    plans: PlanCache | None = None,
    poll: Callable[[int, int], None] | None = None,
) -> CompiledGraph:
    """`poll` is called between operations, with how many are planned and how many there are.

    Raises OutOfMemory, and KeyboardInterrupt for Ctrl-C while operations are planned.
    """

class Executable:
    def __init__(
        self,
        name: str,
        fingerprint: str,
        target: str,
        inputs: Seq[dict[str, object]],
        outputs: Seq[dict[str, object]],
        poplar_executable: bytes,
        main_program: int,
        mlir: bytes,
        cost: dict[str, float],
        memory: dict[str, int],
        host_callbacks: Seq[dict[str, object]] = (),
        ffi_calls: Seq[dict[str, object]] = (),
        num_replicas: int = 1,
        num_partitions: int = 1,
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def mlir(self) -> bytes: ...
    @property
    def cycles(self) -> int: ...
    @property
    def fullest_tile_bytes(self) -> int: ...
    @property
    def target(self) -> str: ...
    @property
    def input_types(self) -> list[tuple[str, tuple[int, ...]]]: ...
    @property
    def output_types(self) -> list[tuple[str, tuple[int, ...]]]: ...
    @property
    def input_shardings(self) -> list[bytes]: ...
    @property
    def output_shardings(self) -> list[bytes]: ...
    @property
    def num_replicas(self) -> int: ...
    @property
    def num_partitions(self) -> int: ...
    def serialize(self) -> bytes: ...
    @staticmethod
    def deserialize(data: bytes) -> Executable: ...

def register_ffi_target(name: str, stages: dict[str, object]) -> None:
    """Registers the handlers of a foreign function: capsules with their addresses, by stage."""

def register_ffi_type(name: str, type_id: object, type_info: object | None) -> None:
    """Registers the type of a handler's state: capsules with the addresses of its id and of its type info."""

class HostCallback:
    """Registers a function of this process, which gets the bytes of operands and of results to fill."""

    def __init__(self, function: Callable[[Seq[memoryview], Seq[memoryview]], None]) -> None: ...
    @property
    def id(self) -> int: ...

class Counters:
    h2d_bytes: int
    d2h_bytes: int
    engine_loads: int
    runs: int
    cycles: int
    link_bytes: int

def library_path() -> str:
    """Path of libpjrt_ipu.so, the PJRT plugin, as this process has loaded it."""

def set_compiler(compiler: Callable[[bytes, str, bytes, str], Executable]) -> None: ...
def set_process_exchange(
    exchange: Callable[[list[tuple[int, int, int, int, int, int, int]]], None], fail: Callable[[str], None]
) -> None: ...
def set_device_config(
    version: str = "ipu2",
    num_tiles: int = 0,
    device_ids: Seq[int] = (0,),
    execution: str = "fast",
    use_model: bool = True,
) -> None: ...
def limit_host(max_isa: str, threads: int) -> None: ...
def host_kernels() -> dict[str, Any]: ...
def guard_reads(guarded: bool) -> None: ...
def guard_reads_of_thread(guarded: bool | None) -> None: ...
def cancel_runs() -> None: ...
def is_forked_child() -> bool: ...
def refuse_in_forked_child() -> None: ...
def finish_work() -> None: ...
def prepare_exit() -> None: ...
def read_counters(device_id: int) -> Counters: ...

# Elementwise and reductions ---------------------------------------------------------------------------------------

def map(graph: Graph, expression: Expression, tensors: Seq[Tensor], seq: Sequence, name: str) -> Tensor: ...
def map_multiple(
    graph: Graph, expression: Expression, tensors: Seq[Tensor], outs: Seq[Tensor | None], seq: Sequence, name: str
) -> list[Tensor]: ...
def map_with_output(
    graph: Graph, expression: Expression, tensors: Seq[Tensor], out: Tensor, seq: Sequence, name: str
) -> None: ...
def map_in_place(graph: Graph, expression: Expression, tensors: Seq[Tensor], seq: Sequence, name: str) -> None: ...
def fill(graph: Graph, tensor: Tensor, value: bytes, seq: Sequence, name: str) -> None: ...
def iota(graph: Graph, tensor: Tensor, dim: int, seq: Sequence, name: str) -> None: ...
def reduce(
    graph: Graph,
    tensors: Seq[Tensor],
    inits: Seq[Tensor],
    dims: Seq[int],
    expression: Expression,
    seq: Sequence,
    name: str,
) -> list[Tensor]: ...

# Products and convolutions ----------------------------------------------------------------------------------------

def mat_mul_grouped(
    graph: Graph,
    a: Tensor,
    b: Tensor,
    out_dtype: str,
    seq: Sequence,
    name: str,
    options: dict[str, str],
    output_mapping_like: Tensor | None = None,
) -> Tensor: ...
def create_mat_mul_grouped_input_lhs(
    graph: Graph,
    in_dtype: str,
    out_dtype: str,
    a_shape: Seq[int],
    b_shape: Seq[int],
    name: str,
    options: dict[str, str],
) -> Tensor: ...
def create_mat_mul_grouped_input_rhs(
    graph: Graph,
    in_dtype: str,
    out_dtype: str,
    a_shape: Seq[int],
    b_shape: Seq[int],
    name: str,
    options: dict[str, str],
) -> Tensor: ...
def convolution(
    graph: Graph,
    lhs: Tensor,
    rhs: Tensor,
    strides: Seq[int],
    padding: Seq[tuple[int, int]],
    lhs_dilation: Seq[int],
    rhs_dilation: Seq[int],
    rhs_reversal: Seq[bool],
    feature_group_count: int,
    batch_group_count: int,
    out_dtype: str,
    output_layout: Seq[int],
    seq: Sequence,
    name: str,
    options: dict[str, str],
    output_mapping_like: Tensor | None = None,
) -> Tensor: ...
def create_conv_input(
    graph: Graph,
    lhs_shape: Seq[int],
    rhs_shape: Seq[int],
    strides: Seq[int],
    padding: Seq[tuple[int, int]],
    lhs_dilation: Seq[int],
    rhs_dilation: Seq[int],
    rhs_reversal: Seq[bool],
    feature_group_count: int,
    batch_group_count: int,
    out_dtype: str,
    layout: Seq[int],
    dtype: str,
    name: str,
    options: dict[str, str],
) -> Tensor: ...
def create_conv_weights(
    graph: Graph,
    lhs_shape: Seq[int],
    rhs_shape: Seq[int],
    strides: Seq[int],
    padding: Seq[tuple[int, int]],
    lhs_dilation: Seq[int],
    rhs_dilation: Seq[int],
    rhs_reversal: Seq[bool],
    feature_group_count: int,
    batch_group_count: int,
    out_dtype: str,
    layout: Seq[int],
    dtype: str,
    name: str,
    options: dict[str, str],
) -> Tensor: ...
def reduce_window(
    graph: Graph,
    tensors: Seq[Tensor],
    inits: Seq[Tensor],
    window: Seq[int],
    strides: Seq[int],
    base_dilation: Seq[int],
    window_dilation: Seq[int],
    padding: Seq[tuple[int, int]],
    expression: Expression,
    seq: Sequence,
    name: str,
) -> list[Tensor]: ...
def select_and_scatter(
    graph: Graph,
    operand: Tensor,
    source: Tensor,
    init: Tensor,
    window: Seq[int],
    strides: Seq[int],
    padding: Seq[tuple[int, int]],
    select_expression: Expression,
    scatter_expression: Expression,
    seq: Sequence,
    name: str,
) -> Tensor: ...

# Indexed data -----------------------------------------------------------------------------------------------------

def dynamic_slice(
    graph: Graph, operand: Tensor, starts: Seq[Tensor], sizes: Seq[int], seq: Sequence, name: str
) -> Tensor: ...
def dynamic_update_slice(
    graph: Graph,
    operand: Tensor,
    update: Tensor,
    starts: Seq[Tensor],
    seq: Sequence,
    name: str,
    in_place: bool = False,
) -> Tensor: ...
def gather(
    graph: Graph,
    operand: Tensor,
    indices: Tensor,
    offset_dims: Seq[int],
    collapsed_slice_dims: Seq[int],
    operand_batching_dims: Seq[int],
    indices_batching_dims: Seq[int],
    start_index_map: Seq[int],
    index_vector_dim: int,
    wraps: Seq[int],
    slice_sizes: Seq[int],
    seq: Sequence,
    name: str,
) -> Tensor: ...
def create_gather_input(
    graph: Graph,
    dtype: str,
    shape: Seq[int],
    indices_shape: Seq[int],
    offset_dims: Seq[int],
    collapsed_slice_dims: Seq[int],
    operand_batching_dims: Seq[int],
    indices_batching_dims: Seq[int],
    start_index_map: Seq[int],
    index_vector_dim: int,
    slice_sizes: Seq[int],
    name: str,
) -> Tensor: ...
def scatter(
    graph: Graph,
    operands: Seq[Tensor],
    indices: Tensor,
    updates: Seq[Tensor],
    update_window_dims: Seq[int],
    inserted_window_dims: Seq[int],
    operand_batching_dims: Seq[int],
    indices_batching_dims: Seq[int],
    scatter_dims_to_operand_dims: Seq[int],
    index_vector_dim: int,
    wraps: Seq[int],
    unique_indices: bool,
    expression: Expression,
    seq: Sequence,
    name: str,
    in_place: bool = False,
) -> list[Tensor]: ...
def sort(
    graph: Graph, operands: Seq[Tensor], dim: int, comparator: Expression, stable: bool, seq: Sequence, name: str
) -> list[Tensor]: ...
def top_k(
    graph: Graph, operand: Tensor, k: int, seq: Sequence, name: str, largest: bool = True
) -> tuple[Tensor, Tensor]: ...
def rng_bit_generator(
    graph: Graph, algorithm: str, state: Tensor, dtype: str, shape: Seq[int], seq: Sequence, name: str
) -> tuple[Tensor, Tensor]: ...
def cholesky(graph: Graph, a: Tensor, lower: bool, seq: Sequence, name: str) -> Tensor: ...
def triangular_solve(
    graph: Graph,
    a: Tensor,
    b: Tensor,
    left_side: bool,
    lower: bool,
    unit_diagonal: bool,
    transpose_a: str,
    seq: Sequence,
    name: str,
) -> Tensor: ...
def lu_panel(graph: Graph, a: Tensor, seq: Sequence, name: str) -> list[Tensor]: ...
def implicit_qr(graph: Graph, bidiagonal: bool, operands: Seq[Tensor], seq: Sequence, name: str) -> list[Tensor]: ...
def fft(graph: Graph, operand: Tensor, type: str, lengths: Seq[int], seq: Sequence, name: str) -> Tensor: ...
def create_sliceable_tensor(
    graph: Graph, dtype: str, shape: Seq[int], dims: Seq[int], sizes: Seq[int], name: str
) -> Tensor: ...

# Collectives as in GCL.
class CommGroup:
    """Groups of `size` replicas; type ALL, CONSECUTIVE (with a stride) or ORTHOGONAL."""

    def __init__(self, type: str, size: int = 0, stride: int = 1) -> None: ...

def all_reduce_cross_replica(
    graph: Graph,
    datas: Seq[Tensor],
    op: str,
    seq: Sequence,
    group: CommGroup,
    name: str = "",
    method: str = "auto",
) -> list[Tensor]: ...
def reduce_scatter_cross_replica(
    graph: Graph, data: Tensor, op: str, seq: Sequence, group: CommGroup, name: str = ""
) -> Tensor: ...
def all_gather_cross_replica(graph: Graph, data: Tensor, seq: Sequence, group: CommGroup, name: str = "") -> Tensor: ...
def all_to_all_cross_replica(graph: Graph, data: Tensor, seq: Sequence, group: CommGroup, name: str = "") -> Tensor: ...

# Collectives over any groups: lists of replica indices, of one length but for all_reduce.
def all_gather(
    graph: Graph, data: Tensor, dimension: int, groups: Seq[Seq[int]], seq: Sequence, name: str = ""
) -> Tensor: ...
def all_to_all(
    graph: Graph,
    data: Tensor,
    split_dimension: int,
    concat_dimension: int,
    groups: Seq[Seq[int]],
    seq: Sequence,
    name: str = "",
) -> Tensor: ...
def all_reduce(
    graph: Graph, datas: Seq[Tensor], groups: Seq[Seq[int]], body: Expression, seq: Sequence, name: str = ""
) -> list[Tensor]: ...
def reduce_scatter(
    graph: Graph,
    data: Tensor,
    dimension: int,
    groups: Seq[Seq[int]],
    body: Expression,
    seq: Sequence,
    name: str = "",
) -> Tensor: ...
def collective_permute(graph: Graph, data: Tensor, sources: Seq[int], seq: Sequence, name: str = "") -> Tensor: ...
def collective_broadcast(
    graph: Graph, data: Tensor, groups: Seq[Seq[int]], seq: Sequence, name: str = ""
) -> Tensor: ...
