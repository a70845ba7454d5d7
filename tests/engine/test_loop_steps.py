"""Loops whose steps are many small operations: board games and rigid bodies, in batches of odd sizes.

Views with strides, masks, lookups of a few elements, short reductions: each runs in a form that is made once for
the loop. The tile engine runs every vertex by itself, so both engines must give the same bits.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from support.modes import close, cpu_jit, run_ipu

LINES = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]])
STEPS = 6


def noughts_and_crosses(dtype):
    """One step of a game with two players: moves, lines, the reward of either player."""

    def move(state, at):
        board, player, done, reward = state
        legal = board[at] == 2
        after = board.at[at].set(player)
        won = (after[LINES] == player).all(-1).any()
        end = won | (after != 2).all() | ~legal
        sign = jnp.where(player == 0, jnp.array([1.0, -1.0]), jnp.array([-1.0, 1.0]))
        gain = jnp.where(done, 0.0, jnp.where(won, sign, jnp.where(legal, jnp.zeros(2), -sign)))
        return (jnp.where(done, board, after), 1 - player, done | end, reward + gain), gain

    def games(moves):
        n = moves.shape[1]
        state = (jnp.full((n, 9), 2, dtype), jnp.zeros(n, dtype), jnp.zeros(n, bool), jnp.zeros((n, 2)))
        return lax.scan(jax.vmap(move), state, moves)

    return games, lambda rng, n: (rng.integers(0, 9, (STEPS, n)).astype(np.int32),)


def falling_stones(dtype):
    """Columns of a board, counted and filled from below, and lines of four in a row."""
    lines = np.array([[r * 5 + c + i for i in range(4)] for r in range(4) for c in range(2)])

    def move(state, column):
        board, player = state
        rows = board.reshape(4, 5)
        row = jnp.maximum(3 - (rows[:, column] != 2).sum(), 0)
        after = rows.at[row, column].set(player).ravel()
        won = (after[lines] == player).all(1).any()
        free = (after.reshape(4, 5) != 2).sum(0) < 4
        return (jnp.where(won, board, after), 1 - player), (won, free)

    def games(moves):
        n = moves.shape[1]
        return lax.scan(jax.vmap(move), (jnp.full((n, 20), 2, dtype), jnp.zeros(n, dtype)), moves)

    return games, lambda rng, n: (rng.integers(0, 5, (STEPS, n)).astype(np.int32),)


def quaternion_product(a, b):
    w, x, y, z = (a[..., i] for i in range(4))
    p, q, r, s = (b[..., i] for i in range(4))
    rows = [w * p - x * q - y * r - z * s, w * q + x * p + y * s - z * r]
    return jnp.stack([*rows, w * r - x * s + y * p + z * q, w * s + x * r - y * q + z * p], -1)


def rigid_bodies(dtype):
    """Bodies that hang from each other: positions, rotations, forces that are added to the parent."""
    parents = np.array([0, 0, 1, 2, 0])

    def step(state, push):
        place, turn, speed = state
        axis = turn[..., 1:]
        arm = 2 * (axis * push[..., None]).sum(-1, keepdims=True) * axis + jnp.cross(axis, speed)
        pull = place[:, parents] - place + arm * 0.1
        pull = pull / (jnp.sqrt((pull * pull).sum(-1, keepdims=True)) + 1)
        force = pull - jnp.zeros_like(pull).at[:, parents].add(pull)
        speed = speed * 0.9 + 0.1 * force
        hit = (place[..., 2:] < 0) & (speed < 0) & (jnp.arange(3) == 2)
        speed = jnp.where(hit, -0.5 * speed, speed)
        turn = turn + 0.05 * quaternion_product(jnp.concatenate([push[..., None], force], -1), turn)
        turn = turn / (jnp.abs(turn).max(-1, keepdims=True) + 0.5)
        return (place + 0.1 * speed, turn, speed), jnp.concatenate([place[:, 0], speed[:, -1]], -1)

    def bodies(place, turn, push):
        return lax.scan(step, (place, turn, jnp.zeros_like(place)), push)

    def arguments(rng, n):
        shapes = [(n, 5, 3), (n, 5, 4), (STEPS, n, 5)]
        return tuple(rng.normal(size=shape).astype(dtype) for shape in shapes)

    return bodies, arguments


def masks(dtype):
    """Boolean states: lookups, updates, all, any and counts along short rows."""

    def step(state, at):
        rows = jnp.arange(state.shape[0])[:, None]
        picked = state[rows, at]
        state = state.at[rows[:, 0], at[:, 0]].set(~picked[:, -1])
        return state, (picked.sum(-1), state.all(-1), state.any(0), state.sum())

    def run(state, at):
        return lax.scan(step, state, at)

    return run, lambda rng, n: (rng.random((n, 11)) < 0.8, rng.integers(0, 11, (STEPS, n, 3)).astype(np.int32))


CASES = [
    (noughts_and_crosses, "int32"),
    (noughts_and_crosses, "int8"),
    (falling_stones, "int32"),
    (falling_stones, "uint8"),
    (rigid_bodies, "float32"),
    (rigid_bodies, "float16"),
    (masks, "bool"),
]


@pytest.mark.parametrize("batch", [1, 3, 21, 64])
@pytest.mark.parametrize(("case", "dtype"), CASES, ids=lambda v: getattr(v, "__name__", v))
def test_steps(case, dtype, batch):
    function, arguments = case(dtype)
    args = arguments(np.random.default_rng(batch), batch)
    expected = [np.asarray(x) for x in jax.tree.leaves(cpu_jit(function)(*args))]
    fast = run_ipu(function, args, ("fast", 8))
    for got, want in zip(fast, expected, strict=True):
        close(got, want, rtol=2e-2 if dtype == "float16" else None)
    if batch < 20:
        for got, want in zip(run_ipu(function, args, ("tile", 8)), fast, strict=True):
            np.testing.assert_array_equal(got, want)
