"""The same program over several IPUs and over as many CPU devices."""

from __future__ import annotations

import jax
import numpy as np


def compare(build, *args, count=4, rtol=1e-5, atol=1e-5):
    """Calls build(devices)(*args) for IPUs and for CPU devices: the results must have equal values and shardings."""
    expected = build(jax.devices("cpu")[:count])(*args)
    actual = build(jax.devices("ipu")[:count])(*args)
    leaves = jax.tree.leaves(actual)
    assert leaves
    for a, e in zip(leaves, jax.tree.leaves(expected), strict=True):
        assert a.dtype == e.dtype and a.shape == e.shape
        assert {d.platform for d in a.devices()} == {"ipu"} and len(a.devices()) == len(e.devices())
        assert [s.index for s in a.addressable_shards] == [s.index for s in e.addressable_shards]
        wide = np.bool_ if a.dtype == bool else np.complex128 if a.dtype.kind == "c" else np.float64
        for mine, other in zip(a.addressable_shards, e.addressable_shards, strict=True):
            got, want = (np.asarray(s.data).astype(wide) for s in (mine, other))
            np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
    return actual


_count = jax.jit(lambda n: n + 1)


def make_room():
    """Runs a program without state on every IPU: what other programs keep there moves to the host."""
    for device in jax.devices("ipu"):
        _count(jax.device_put(np.int32(0), device)).block_until_ready()
