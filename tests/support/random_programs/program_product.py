"""Products of random programs."""

from __future__ import annotations

import math

from support.programs import COMPLEX, REAL, Drawer, Step, Unsuitable


def dot_general(d: Drawer) -> Step:
    v = d.value((*REAL, *COMPLEX), finite=True)
    w = d.value((v.dtype,), finite=True)
    kinds = [d.pick("fcb") for _ in v.shape]
    shared = [i for i in range(v.rank) if kinds[i] != "f"]
    order = [shared[i] for i in d.order(len(shared))]
    free = [d.pick((1, 2, 3, 5)) for _ in range(d.integer(0, 2))]
    place = d.integer(0, len(order))
    shape = (*(v.shape[i] for i in order[:place]), *free, *(v.shape[i] for i in order[place:]))

    def position(i: int) -> int:
        at = order.index(i)
        return at if at < place else at + len(free)

    if math.prod(shape) > 2000:
        raise Unsuitable
    contract, batch = ([i for i in shared if kinds[i] == k] for k in "cb")
    # Without its simplifier, XLA:CPU does not write the result of a sum over no elements.
    if not math.prod(v.shape[i] for i in contract):
        raise Unsuitable
    numbers = ((contract, [position(i) for i in contract]), (batch, [position(i) for i in batch]))
    terms = max(1, math.prod(v.shape[i] for i in contract)) * (2 if v.dtype in COMPLEX else 1)
    wider = {"float16": "float32", "bfloat16": "float32", "float32": "float64", "int8": "int32", "int16": "int64"}
    how = f"precision='{d.pick(('default', 'high', 'highest'))}'"
    if v.dtype in wider and d.flag():
        how += f", preferred_element_type='{wider[v.dtype]}'"
    return Step(
        f"lax.dot_general({v.name}, fit({w.name}, {shape}), {numbers}, {how})",
        terms * v.bound * w.bound,
        terms * (v.error * w.bound + w.error * v.bound),
        terms,
    )


OPERATIONS = (dot_general,)
