"""Random bits in random programs."""

from __future__ import annotations

from support.programs import INTS, Drawer, Step


def generator(d: Drawer) -> Step:
    """Returns (new generator state, random bits)."""
    v = d.value(INTS)
    key = f"lax.convert_element_type(fit({v.name}, (4,)), 'uint32')"
    dtype = d.pick(("uint8", "uint16", "uint32", "uint64"))
    return Step(f"lax.rng_bit_generator({key}, {d.shape(3)}, '{dtype}', {d.integer(0, 2)})")


OPERATIONS = (generator,)
