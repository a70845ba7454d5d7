"""Board games in scans, with a random policy: steps of many tiny operations."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .program import MakeProgram, key, program


class Rules(NamedTuple):
    """A game of lines on a board.

    Attributes:
        rows, columns: of the board.
        lines: the places of each line that wins, [lines, places].
        falls: an action is a column, whose lowest empty place is taken; otherwise it is a place.
    """

    rows: int
    columns: int
    lines: Any
    falls: bool

    @property
    def actions(self) -> int:
        return self.columns if self.falls else self.rows * self.columns


class Game(NamedTuple):
    """The state of one game: who moves, the board (-1: empty), what may be done, the rewards of both, the end."""

    player: Any
    board: Any
    legal: Any
    rewards: Any
    ended: Any


def _lines(rows: int, columns: int, length: int) -> Any:
    """Returns the places of all lines of a length."""
    found = []
    for row in range(rows):
        for column in range(columns):
            for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                places = [(row + i * down, column + i * right) for i in range(length)]
                if all(0 <= y < rows and 0 <= x < columns for y, x in places):
                    found.append([y * columns + x for y, x in places])
    return np.array(found, np.int32)


TIC_TAC_TOE = Rules(3, 3, _lines(3, 3, 3), falls=False)
CONNECT_FOUR = Rules(6, 7, _lines(6, 7, 4), falls=True)


def _start(rules: Rules) -> Game:
    board = jnp.full(rules.rows * rules.columns, -1, jnp.int32)
    return Game(jnp.int32(0), board, jnp.ones(rules.actions, bool), jnp.zeros(2), jnp.bool_(False))


def _move(rules: Rules, game: Game, action: Any) -> Game:
    if rules.falls:
        board = game.board.reshape(rules.rows, rules.columns)
        filled = (board[:, action] >= 0).sum()
        board = board.at[rules.rows - 1 - filled, action].set(game.player).reshape(-1)
        legal = board[: rules.columns] < 0
    else:
        board = game.board.at[action].set(game.player)
        legal = board < 0
    won = (board[rules.lines] == game.player).all(1).any()
    rewards = jnp.where(won, jnp.full(2, -1.0).at[game.player].set(1.0), jnp.zeros(2))
    return Game(1 - game.player, board, legal, rewards, won | ~legal.any())


def _step(rules: Rules, game: Game, action: Any) -> Game:
    """One move; an illegal one loses, and a game that has ended stays as it is and all its actions are legal."""
    illegal = ~game.legal[action]
    after = lax.cond(game.ended, lambda: game._replace(rewards=jnp.zeros(2)), lambda: _move(rules, game, action))
    lost = jnp.ones(2).at[game.player].set(-1.0)
    after = lax.cond(illegal, lambda: after._replace(rewards=lost, ended=jnp.bool_(True)), lambda: after)
    return lax.cond(after.ended, lambda: after._replace(legal=jnp.ones_like(after.legal)), lambda: after)


def play(rules: Rules, key: Any, batch: int, steps: int) -> Any:
    """Plays games at random, each again from the start when it has ended; returns the boards and sums of rewards."""
    start = _start(rules)

    def step(games: Game, key: Any) -> tuple[Game, Any]:
        actions = jax.random.categorical(key, jnp.where(games.legal, 0.0, -jnp.inf))
        games = jax.vmap(lambda game, action: _step(rules, game, action))(games, actions)
        rewards = games.rewards

        def again(old: Any, new: Any) -> Any:
            return jnp.where(games.ended.reshape(batch, *(1,) * (old.ndim - 1)), new, old)

        return jax.tree.map(again, games, jax.tree.map(jnp.asarray, start)), rewards

    games = jax.tree.map(lambda x: jnp.repeat(x[None], batch, 0), start)
    games, rewards = lax.scan(step, games, jax.random.split(key, steps))
    return games.board, rewards.sum((0, 1))


PROGRAMS: dict[str, MakeProgram] = {
    f"{name}, {batch} games x 100": program(lambda key, rules=rules, batch=batch: play(rules, key, batch, 100), key())
    for name, rules in (("tic-tac-toe", TIC_TAC_TOE), ("connect four", CONNECT_FOUR))
    for batch in (8, 64)
}
