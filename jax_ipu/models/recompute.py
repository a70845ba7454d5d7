"""The order of a recomputed backward pass: what is computed again is computed where it is needed."""

from __future__ import annotations

from typing import Any

from jax.extend.core import Literal


def in_order_of_use(jaxpr: Any) -> Any:
    """The same equations, each as late as the first that needs it allows.

    JAX lists the whole second forward pass before the backward pass, with all of its activations alive in between.
    From the results on, the operand with the longest chain before it comes first: that is the backward pass, and what
    it meets on its way is computed just before.
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
