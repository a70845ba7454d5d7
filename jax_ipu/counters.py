"""Counts of the bytes that each IPU has moved and the programs it has run since the process started."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import jax


class Counters(NamedTuple):
    """Totals of one device since start."""

    h2d_bytes: int  #: bytes sent from the host to the IPU
    d2h_bytes: int  #: bytes sent from the IPU to the host
    engine_loads: int  #: how often a program was loaded onto the IPU
    runs: int  #: programs run
    cycles: int  #: tile clock cycles of the runs and of copies between IPUs on the modelled IPU, without host transfers
    link_bytes: int  #: bytes received from other IPUs, by programs and by copies from their memory


def counters(device: jax.Device | int | None = None) -> Counters:
    """Returns the counters of an IPU.

    Args:
        device: an IPU of this process or its number; the first one by default.

    Raises:
        ValueError: the device is not an IPU of this process.
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
