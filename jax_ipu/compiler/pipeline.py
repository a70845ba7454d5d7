"""Stage "passes": all passes over the IR, in order.

A pass is a file of `passes/` with a function `run`. First come those that rewrite the ops, then those that choose the
order of execution and which storage is written over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jax_ipu import _ipu
from jax_ipu.compiler.frontend.importer import import_program
from jax_ipu.compiler.frontend.programs import LegalProgram
from jax_ipu.compiler.ir import Module
from jax_ipu.compiler.passes import cse, dce, invariants, loops, outline, random_counters, recompute, schedule, threefry
from jax_ipu.compiler.passes.arithmetic import (
    alike_parts,
    depthwise,
    fuse,
    hoist_broadcasts,
    integer_divisions,
    joined,
    joined_updates,
    masked_parts,
    masked_sums,
    matmul_roles,
    narrow_sums,
    nested_joins,
    padded_sums,
    short_reductions,
    simplify,
    sink_broadcasts,
    window_reductions,
)
from jax_ipu.compiler.passes.collectives import (
    combine_collectives,
    scattered_sums,
    scatters_after_loops,
    sum_collectives,
    sums_after_loops,
)
from jax_ipu.compiler.passes.expansions import canonicalize, expand, inline, layouts, scalar_branches
from jax_ipu.compiler.passes.in_parts import blocks, index_parts, long_reductions, long_rows, row_loops
from jax_ipu.compiler.passes.indices import (
    counted_rows,
    flat_indices,
    known_indices,
    last_updates,
    partial_reads,
    stacked_lookups,
    wrap_indices,
)
from jax_ipu.compiler.passes.sorts import order_statistics, sorted_lookups, sorted_positions, true_positions
from jax_ipu.compiler.passes.state import (
    host_memory,
    inplace,
    masked_updates,
    nested_updates,
    padded_state,
    read_ahead,
    readers_first,
    stacks,
)
from jax_ipu.compiler.program_io import Signature
from jax_ipu.compiler.stages import staged

Pass = Callable[[Module], None]
# Makes another program of a module in place. Functions are inlined in it: it has no calls.
Change = Callable[[Module], None]

PASSES: tuple[tuple[str, Pass], ...] = (
    ("threefry", threefry.run),
    ("inline", inline.run),
    ("products", canonicalize.run_products),
    ("scalar branches", scalar_branches.run),
    ("layouts", layouts.run),
    ("expand", expand.run),
    ("canonicalize", canonicalize.run),
    ("cse", cse.run),
    ("depthwise", depthwise.run),
    ("short reductions", short_reductions.run),
    ("simplify", simplify.run),
    ("loops", loops.run),
    ("wrap indices", wrap_indices.run),
    ("host memory", host_memory.run),
    ("read ahead", read_ahead.run),
    ("sums after loops", sums_after_loops.run),
    ("sum collectives", sum_collectives.run),
    ("scattered sums", scattered_sums.run),
    ("scatters after loops", scatters_after_loops.run),
    ("dce before scatters", dce.run),
    ("known indices", known_indices.run),
    ("counted rows", counted_rows.run),
    ("stacked lookups", stacked_lookups.run),
    ("nested updates", nested_updates.run),
    ("hoist broadcasts", hoist_broadcasts.run),
    ("masked sums", masked_sums.run),
    ("masked updates", masked_updates.run),
    ("dce before partial reads", dce.run),
    ("partial reads", partial_reads.run),
    ("true positions", true_positions.run),
    ("window reductions", window_reductions.run),
    ("integer divisions", integer_divisions.run),
    ("cse again", cse.run),
    ("padded sums", padded_sums.run),
    ("dce before masked parts", dce.run),
    ("masked parts", masked_parts.run),
    ("narrow sums", narrow_sums.run),
    ("random counters", random_counters.run),
    ("sorted positions", sorted_positions.run),
    ("sorted lookups", sorted_lookups.run),
    ("order statistics", order_statistics.run),
    ("flat indices", flat_indices.run),
    ("last updates", last_updates.run),
    ("row loops", row_loops.run),
    ("blocks", blocks.run),
    ("long reductions", long_reductions.run),
    ("long rows", long_rows.run),
    ("index parts", index_parts.run),
    ("joined updates", joined_updates.run),
    ("nested joins", nested_joins.run),
    ("dce before alike parts", dce.run),
    ("alike parts", alike_parts.run),
    ("dce", dce.run),
    ("invariants", invariants.run),
    ("padded state", padded_state.run),
    ("combine collectives", combine_collectives.run),
    ("recompute", recompute.run),
    ("sink broadcasts", sink_broadcasts.run),
    ("fuse", fuse.run),
    ("dce after fusion", dce.run),
    ("matmul roles", matmul_roles.run),
    ("outline", outline.run),
)
# Passes that save cycles and cost memory, and those that save memory and cost cycles.
_COST_MEMORY = frozenset(("combine collectives", "depthwise", "invariants", "last updates", "scatters after loops"))
_SAVE_MEMORY = frozenset(
    ("recompute", "outline", "order statistics", "row loops", "long reductions", "long rows", "index parts")
)
# The pass after which a module is changed: it has no calls, and all else is as the user wrote it.
_BEFORE_CHANGES = "scalar branches"


def _stacks(module: Module, signature: Signature) -> None:
    stacks.run(module, signature.aliases())


def _schedule(module: Module, signature: Signature) -> None:
    schedule.run(module, signature.aliases(), signature.host_results)


def _readers_first(module: Module, signature: Signature) -> None:
    readers_first.run(module)


def _inplace(module: Module, signature: Signature) -> None:
    signature.keep(inplace.run(module, signature.aliases(), signature.read_only()))


def _joined(module: Module, signature: Signature) -> None:
    if not module.frugal:
        joined.run(module)


def _host_results(module: Module, signature: Signature) -> None:
    host_memory.write_results(module, signature)


def _whole_reads_ahead(module: Module, signature: Signature) -> None:
    read_ahead.run_whole(module)


# Passes that need to know which results take the storage of which arguments.
STORAGE_PASSES: tuple[tuple[str, Callable[[Module, Signature], None]], ...] = (
    ("stacks", _stacks),
    ("schedule", _schedule),
    ("readers first", _readers_first),
    ("inplace", _inplace),
    ("joined", _joined),
    ("host results", _host_results),
    ("whole reads ahead", _whole_reads_ahead),
)


@dataclass(frozen=True)
class OptimizedProgram:
    """The program after all passes, and how its arguments and results reach it."""

    module: Module
    signature: Signature


@staged("passes")
def optimize(
    program: LegalProgram,
    memory: int,
    memory_first: bool = False,
    change: Change | None = None,
    num_tiles: int = 0,
    io_bytes: int = 0,
    outline_threshold: float = 1.0,
) -> OptimizedProgram:
    """Imports the program and runs all passes over it.

    Args:
        program: stays as it is; every attempt to compile imports it again.
        memory: bytes of the tiles of an IPU.
        memory_first: without the passes that cost memory, with those that save it.
        change: for a variant of the program.
        num_tiles: of an IPU; 0 if passes need not use all of them.
        io_bytes: of the tiles for input and output, for values that are read ahead.
        outline_threshold: what a function of repeated ops must be worth.

    Raises:
        CompileError: as `import_program`, and where a pass finds what IPU does not support (UNIMPLEMENTED).
    """
    module = import_program(program)
    module.memory, module.frugal, module.num_tiles, module.io_bytes = memory, memory_first, num_tiles, io_bytes
    module.outline_threshold = outline_threshold
    rewrite(module, memory_first, change)
    signature = Signature(module.main)
    for _, run in STORAGE_PASSES:
        _ipu.check_deadline()
        run(module, signature)
    return OptimizedProgram(module, signature)


def rewrite(module: Module, memory_first: bool = False, change: Change | None = None) -> None:
    """Runs the passes that rewrite ops, in place; arguments as for `optimize`."""
    left_out = _COST_MEMORY if memory_first else _SAVE_MEMORY
    for name, run in PASSES:
        _ipu.check_deadline()
        if name not in left_out:
            run(module)
        if name == _BEFORE_CHANGES and change is not None:
            change(module)


def without_calls(program: LegalProgram) -> Module:
    """The module that a `Change` gets; raises as `optimize`."""
    module = import_program(program)
    for name, run in PASSES:
        run(module)
        if name == _BEFORE_CHANGES:
            break
    return module
