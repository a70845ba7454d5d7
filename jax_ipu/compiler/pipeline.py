"""The passes, in order."""

from __future__ import annotations

from collections.abc import Callable

from jax_ipu.compiler.ir import Module
from jax_ipu.compiler.passes import canonicalize, cse, dce, expand, fuse, inline, loops, matmul_roles, simplify

Pass = Callable[[Module], None]

PASSES: tuple[tuple[str, Pass], ...] = (
    ("inline", inline.run),
    ("expand", expand.run),
    ("canonicalize", canonicalize.run),
    ("cse", cse.run),
    ("simplify", simplify.run),
    ("loops", loops.run),
    ("cse again", cse.run),
    ("dce", dce.run),
    ("fuse", fuse.run),
    ("dce after fusion", dce.run),
    ("matmul roles", matmul_roles.run),
)


def optimize(module: Module) -> None:
    for _, run in PASSES:
        run(module)
