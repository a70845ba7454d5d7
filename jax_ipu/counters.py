"""Counts of the bytes that each IPU has moved and the programs it has run since the process started."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jax_ipu.integration.tracebacks import unseen

if TYPE_CHECKING:
    import jax


class Counters(NamedTuple):
    """Totals of one device since start.

    Attributes:
        h2d_bytes: bytes sent from the host to the IPU.
        d2h_bytes: bytes sent from the IPU to the host.
        engine_loads: how often a program was loaded onto the IPU.
        runs: programs run.
        cycles: tile clock cycles of the runs and of copies between IPUs on the modelled IPU, without host transfers.
        link_bytes: bytes received from other IPUs, by programs and by copies from their memory.

    Examples:
        What one call cost is a difference of two readings:

        >>> import jax, jax_ipu
        >>> before = jax_ipu.counters()
        >>> ones = jax.jit(lambda: jax.numpy.ones(1000), device=jax.devices("ipu")[0])()
        >>> after = jax_ipu.counters()
        >>> jax_ipu.Counters(*(b - a for a, b in zip(before, after))).runs
        1
    """

    h2d_bytes: int
    d2h_bytes: int
    engine_loads: int
    runs: int
    cycles: int
    link_bytes: int


@unseen
def counters(device: jax.Device | int | None = None) -> Counters:
    """Returns the counters of an IPU.

    Args:
        device: an IPU of this process or its number; the first one by default.

    Raises:
        ValueError: the device is not an IPU of this process.

    Examples:
        >>> import jax, jax_ipu
        >>> ipu = jax.devices("ipu")[0]
        >>> x = jax.device_put(jax.numpy.ones(1000), ipu)
        >>> before = jax_ipu.counters(ipu)
        >>> total = float(jax.jit(jax.numpy.sum)(x))  # sends 1,000 elements of f32, and fetches one
        >>> after = jax_ipu.counters(ipu)
        >>> after.h2d_bytes - before.h2d_bytes, after.d2h_bytes - before.d2h_bytes
        (4000, 4)
    """
    from jax_ipu import _ipu

    if device is None:
        import jax

        device = jax.local_devices(backend="ipu")[0]
    if not isinstance(device, int) and device.platform != "ipu":
        raise ValueError(f"{device} is not an IPU. Give a device of jax.devices('ipu').")
    number = device if isinstance(device, int) else device.id
    try:
        c = _ipu.read_counters(number)
    except _ipu.Error as error:
        raise ValueError(str(error)) from None
    return Counters(c.h2d_bytes, c.d2h_bytes, c.engine_loads, c.runs, c.cycles, c.link_bytes)
