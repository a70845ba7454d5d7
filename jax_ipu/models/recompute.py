"""Orders a recomputed backward pass so that activations are recomputed just before their use."""

from __future__ import annotations

from typing import Any

from jax.extend.core import Literal


def in_order_of_use(jaxpr: Any) -> Any:
    """Returns the jaxpr with each equation as late as its first use allows.

    JAX lists the whole recomputed forward pass before the backward pass, so that all activations are live in between.
    This is a depth-first order from the results: of an equation's operands, the one with the longest chain of producers
    comes first. That chain is the backward pass, and each activation it uses is computed directly before its use.
    """
    producer = {v: i for i, eqn in enumerate(jaxpr.eqns) for v in eqn.outvars}
    needs = [_producers(eqn.invars, producer) for eqn in jaxpr.eqns]
    depth: list[int] = []
    for before in needs:
        depth.append(1 + max((depth[i] for i in before), default=0))
    order: list[int] = []
    placed: set[int] = set()
    with_effects = [i for i, eqn in enumerate(jaxpr.eqns) if eqn.effects]
    pending = [*reversed(_producers(jaxpr.outvars, producer)), *reversed(with_effects)]
    while pending:
        current = pending[-1]
        missing = [i for i in needs[current] if i not in placed]
        if current in placed or not missing:
            pending.pop()
            if current not in placed:
                placed.add(current)
                order.append(current)
        else:
            pending += sorted(missing, key=lambda i: depth[i])
    return jaxpr.replace(eqns=[jaxpr.eqns[i] for i in order])


def _producers(atoms: Any, producer: dict[Any, int]) -> list[int]:
    return list(dict.fromkeys(producer[a] for a in atoms if not isinstance(a, Literal) and a in producer))
