"""The passes, in order."""

from __future__ import annotations

from collections.abc import Callable

from jax_ipu.compiler.ir import Module
from jax_ipu.compiler.passes import (
    canonicalize,
    combine_collectives,
    cse,
    dce,
    expand,
    fuse,
    inline,
    known_indices,
    layouts,
    loops,
    matmul_roles,
    recompute,
    scalar_branches,
    simplify,
    sum_collectives,
    wrap_indices,
)

Pass = Callable[[Module], None]

PASSES: tuple[tuple[str, Pass], ...] = (
    ("inline", inline.run),
    ("scalar branches", scalar_branches.run),
    ("layouts", layouts.run),
    ("expand", expand.run),
    ("canonicalize", canonicalize.run),
    ("cse", cse.run),
    ("simplify", simplify.run),
    ("loops", loops.run),
    ("wrap indices", wrap_indices.run),
    ("sum collectives", sum_collectives.run),
    ("dce before scatters", dce.run),
    ("known indices", known_indices.run),
    ("cse again", cse.run),
    ("dce", dce.run),
    ("combine collectives", combine_collectives.run),
    ("recompute", recompute.run),
    ("fuse", fuse.run),
    ("dce after fusion", dce.run),
    ("matmul roles", matmul_roles.run),
)


# Those that save cycles and cost memory, and those that save memory and cost cycles.
_COST_MEMORY = frozenset(("combine collectives",))
_SAVE_MEMORY = frozenset(("recompute",))


def optimize(module: Module, memory_first: bool = False) -> None:
    """`memory_first`: without the passes that cost memory, with those that save it."""
    left_out = _COST_MEMORY if memory_first else _SAVE_MEMORY
    for name, run in PASSES:
        if name not in left_out:
            run(module)
