"""Reinforcement learning: a policy on the IPU balances gymnasium's poles, which fall in a callback on the host.

    python examples/garden/cartpole.py [--batch POLES] [--steps N] [--small] [--estimate]

A step is a loop over time on the IPU: the policy chooses, `io_callback` lets the environments move, and afterwards the
policy learns from what it has seen (REINFORCE with the mean return as the baseline). Weights, optimizer and random
keys stay in SRAM; for every moment the actions go to the host and the positions come back.
Needs gymnasium: pip install 'jax_ipu[garden]'.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.experimental import io_callback

import garden
import layers
from garden import Job, Options


class Poles:
    """Environments that move together; one that has ended stands still, without reward."""

    def __init__(self, number: int) -> None:
        import gymnasium

        self.poles = [gymnasium.make("CartPole-v1") for _ in range(number)]
        self.ended = np.zeros(number, bool)

    def begin(self, seed: np.ndarray) -> np.ndarray:
        """Returns the first positions, float32[poles, 4]."""
        self.ended[:] = False
        starts = [pole.reset(seed=int(seed) * 1000 + number)[0] for number, pole in enumerate(self.poles)]
        self.last = np.stack(starts).astype(np.float32)
        return self.last.copy()

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the next positions, and the rewards float32[poles]."""
        rewards = np.zeros(len(self.poles), np.float32)
        for number, (pole, action) in enumerate(zip(self.poles, np.asarray(actions), strict=True)):
            if not self.ended[number]:
                self.last[number], rewards[number], fell, late, _ = pole.step(int(action))
                self.ended[number] = fell or late
        return self.last.copy(), rewards


def training(options: Options) -> Job:
    """An episode of every pole, and a step with Adam; the result is how long the poles stood, on average."""
    moments, width = (8, 16) if options.small else (200, 128)
    poles = Poles(options.batch)
    optimizer = optax.adam(1e-2)
    positions = jax.ShapeDtypeStruct((options.batch, 4), jnp.float32)
    rewards = jax.ShapeDtypeStruct((options.batch,), jnp.float32)

    def policy(params: Any, x: Array) -> Array:
        return jax.nn.log_softmax(layers.dense(params[1], jnp.tanh(layers.dense(params[0], x))))

    def chosen(params: Any, seen: Array, actions: Array) -> Array:
        return jnp.take_along_axis(policy(params, seen), actions[..., None], -1)[..., 0]

    def state() -> Any:
        rng = np.random.default_rng(0)
        params = [layers.dense_init(rng, *size, np.float32) for size in ((4, width), (width, 2))]
        return params, layers.moments(optimizer, params), jax.random.key(0)

    def step(state: Any, seed: Array) -> tuple[Any, Array]:
        params, moments_of_adam, key = state
        key, own = jax.random.split(key)

        def moment(seen: Array, key: Array) -> tuple[Array, Any]:
            actions = jax.random.categorical(key, policy(params, seen))
            following, reward = io_callback(poles.move, (positions, rewards), actions, ordered=True)
            return following, (seen, actions, reward)

        first = io_callback(poles.begin, positions, seed, ordered=True)
        _, (seen, actions, reward) = jax.lax.scan(moment, first, jax.random.split(own, moments))
        returns = jnp.flip(jnp.cumsum(jnp.flip(reward, 0), 0), 0)
        advantage = reward * (returns - returns.mean(1, keepdims=True))

        def loss(params: Any) -> Array:
            return -jnp.mean(advantage * chosen(params, seen, actions))

        changes, moments_of_adam = optimizer.update(jax.grad(loss)(params), moments_of_adam)
        return (optax.apply_updates(params, changes), moments_of_adam, key), reward.sum(0).mean()

    return Job(step, state, lambda number: np.int32(number), options.batch)


PROGRAM = garden.Program("CartPole", {"training": training}, "episodes", 16, 2, ipus=(1,), packages=("gymnasium",))

if __name__ == "__main__":
    garden.main(PROGRAM, __doc__)
