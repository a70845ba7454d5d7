"""Eigenvalues of a symmetric matrix by Jacobi's algorithm, two columns on each tile, and its cycles.

In each round the columns are in pairs; each tile computes the rotation that makes one element zero, all tiles get all
rotations, and apply them. Then the columns move on, so that each meets every other one in n - 1 rounds.

    python examples/tiles/jacobi.py [n]
"""

import functools
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from jax_ipu import tile

CODELETS = Path(__file__).parent / "linalg.cpp"
SWEEPS = 8

rotation_p = tile.create_ipu_tile_primitive(
    "rotation",
    "RotationVertex",
    ["columns", "numbers"],
    {"rotation": tile.ShapedArray((2,), np.dtype(np.float32))},
    gp_filename=CODELETS,
)
rotate_p = tile.create_ipu_tile_primitive(
    "rotate",
    "RotateVertex",
    ["columns", "vectors", "rotation", "rotations", "numbers"],
    {"columns": 0, "vectors": 1},
    gp_filename=CODELETS,
)


@rotation_p.def_impl
def rotation(columns, numbers):
    """What other platforms compute."""
    p, q = numbers
    pp, qq, pq = columns[0, p], columns[1, q], columns[0, q]
    tau = (qq - pp) / jnp.where(pq == 0, 1, 2 * pq)
    t = jnp.where(tau < 0, -1, 1) / (jnp.abs(tau) + jnp.sqrt(1 + tau**2))
    c = 1 / jnp.sqrt(1 + t**2)
    return jnp.where(pq == 0, jnp.array([1, 0], columns.dtype), jnp.stack([c, t * c]))


@rotate_p.def_impl
def rotate(columns, vectors, rotation, rotations, numbers):
    """What other platforms compute."""
    c, s = rotation
    own = jnp.array([[c, -s], [s, c]])
    columns, vectors = own @ columns, own @ vectors
    (c, s), (p, q) = rotations.T, numbers.T
    left, right = columns[:, p], columns[:, q]
    return columns.at[:, p].set(c * left - s * right).at[:, q].set(s * left + c * right), vectors


def next_round(n):
    """Which column comes to each place: the first one stays, the others go round."""
    top, bottom = list(range(0, n, 2)), list(range(1, n, 2))
    moved_top, moved_bottom = [top[0], bottom[0], *top[1:-1]], [*bottom[1:], top[-1]]
    return [column for pair in zip(moved_top, moved_bottom, strict=True) for column in pair]


def eigh(a):
    """Eigenvalues (n,), eigenvectors (n, n) in columns, and cycles, uint32, of a symmetric matrix (n, n), n even."""
    n = len(a)
    tiles = range(n // 2)
    of_columns = [t for t in tiles for _ in range(2)]

    def move(array):
        """The columns of each pair to their next places."""
        columns = tile.TileShardedArray(array.array.reshape(n, *array.tile_shape[1:]), of_columns)
        moved = tile.tile_gather(columns, next_round(n), of_columns)
        return tile.TileShardedArray(moved.array.reshape(array.shape), array.tiles)

    def one_round(_, state):
        columns, vectors, numbers = state
        rotations = tile.tile_map(rotation_p, columns, numbers)
        columns, vectors = tile.tile_map(
            rotate_p,
            columns,
            vectors,
            rotations,
            tile.tile_put_replicated(rotations.array, tiles),
            tile.tile_put_replicated(numbers.array, tiles),
        )
        return move(columns), move(vectors), move(numbers)

    put = functools.partial(tile.tile_put_sharded, tiles=tiles)
    columns, vectors = put(a.T.reshape(n // 2, 2, n)), put(jnp.eye(n, dtype=a.dtype).reshape(n // 2, 2, n))
    numbers = put(jnp.arange(n, dtype=jnp.int32).reshape(n // 2, 2))
    columns, start = tile.ipu_cycle_count(columns)
    columns, vectors, _ = jax.lax.fori_loop(0, SWEEPS * (n - 1), one_round, (columns, vectors, numbers))
    columns, end = tile.ipu_cycle_count(columns)
    # After whole sweeps the columns are where they began.
    values = jnp.diagonal(columns.array.reshape(n, n))
    order = jnp.argsort(values)
    return values[order], vectors.array.reshape(n, n).T[:, order], end.array[0, 0] - start.array[0, 0]


if __name__ == "__main__":
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    a = np.random.default_rng(0).normal(size=(n, n)).astype(np.float32)
    a += a.T
    values, vectors, cycles = jax.jit(eigh)(jax.device_put(a, jax.devices("ipu")[0]))
    error = np.abs(values - np.linalg.eigvalsh(a.astype(np.float64))).max()
    print(f"|values - LAPACK's| = {error:.1e}, |A V - V D| = {np.abs(a @ vectors - vectors * values).max():.1e}")
    rounds = SWEEPS * (n - 1)
    print(f"{n} x {n} on {n // 2} tiles: {int(cycles):,} cycles, {int(cycles) // rounds:,} for each of {rounds} rounds")
