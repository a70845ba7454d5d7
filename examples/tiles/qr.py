"""QR decomposition by Householder reflections, a column of R and a row of Q on each tile, and its cycles.

python examples/tiles/qr.py [n]
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from jax_ipu import tile

CODELETS = Path(__file__).parent / "linalg.cpp"

householder_p = tile.create_ipu_tile_primitive(
    "householder", "HouseholderVertex", ["column"], {"v": 0}, gp_filename=CODELETS
)
reflect_p = tile.create_ipu_tile_primitive("reflect", "ReflectVertex", ["rows", "v"], {"rows": 0}, gp_filename=CODELETS)


@householder_p.def_impl
def householder(column, k):
    """What other platforms compute."""
    v = jnp.where(jnp.arange(column.size) < k, 0, column)
    norm, below = jnp.linalg.norm(v), jnp.sum(v**2) - v[k] ** 2
    v = v.at[k].add(jnp.where(v[k] < 0, -norm, norm))
    return jnp.where(below == 0, 0, v * jnp.sqrt(2 / jnp.maximum(jnp.sum(v**2), 1e-30)))


@reflect_p.def_impl
def reflect(rows, v, k):
    """What other platforms compute."""
    return rows - jnp.outer(rows @ v, v)


def qr(a):
    """Q (n, n), R (n, n) and the cycles between the first and the last step, uint32, of a matrix (n, n)."""
    n = len(a)
    # The columns of R are on the first n tiles, the rows of Q on the next n.
    tiles = range(2 * n)
    rows = tile.tile_put_sharded(jnp.concatenate([a.T, jnp.eye(n, dtype=a.dtype)]).reshape(2 * n, 1, n), tiles)
    rows, start = tile.ipu_cycle_count(rows)
    for k in range(n - 1):
        v = tile.tile_map(householder_p, rows[k].squeeze(), k=k)
        rows = tile.tile_map(reflect_p, rows, tile.tile_put_replicated(v.array[0], tiles), k=k)
    rows, end = tile.ipu_cycle_count(rows)
    both = rows.array.reshape(2 * n, n)
    return both[n:], jnp.triu(both[:n].T), end.array[0, 0] - start.array[0, 0]


if __name__ == "__main__":
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    a = np.random.default_rng(0).normal(size=(n, n)).astype(np.float32)
    q, r, cycles = jax.jit(qr)(jax.device_put(a, jax.devices("ipu")[0]))
    print(f"|Q R - A| = {np.abs(q @ r - a).max():.1e}, |Q^T Q - I| = {np.abs(q.T @ q - np.eye(n)).max():.1e}")
    print(f"{n} x {n} on {2 * n} tiles: {int(cycles):,} cycles, {int(cycles) // (n - 1):,} for each column")
