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
    ("fuse", fuse.run),
    ("dce after fusion", dce.run),
    ("matmul roles", matmul_roles.run),
)


# Those that save cycles and cost memory.
_COST_MEMORY = frozenset(("combine collectives",))


def optimize(module: Module, memory_first: bool = False) -> None:
    """`memory_first`: without the passes that cost memory."""
    for name, run in PASSES:
        if not (memory_first and name in _COST_MEMORY):
            run(module)
