"""Trains a small GPT from nothing on several IPUs, letter by letter, and lets it write.

    JAX_IPU_DEVICE_COUNT=4 python examples/gpt/train_gpt.py [--ipus N] [--steps N] [--letters N]

The text is Python's own help on its language, which is part of the standard library. Weights and the moments of AdamW
are replicated and stay in the SRAM of every IPU; the batch is split, and XLA adds the sum of the gradients over the
IPUs. Afterwards one IPU writes: every call takes one letter and gives the next; the keys and values of all letters
before it are in a cache that stays in SRAM.
"""

from __future__ import annotations

import argparse
import functools
import pydoc_data.topics
import time
from typing import Any

import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from tqdm import tqdm

import jax_ipu
import model
from jax_ipu import Counters


class Text:
    """A text as numbers of its letters; the first 95 % are for training."""

    def __init__(self, text: str) -> None:
        self.letters = sorted(set(text))
        number = {letter: i for i, letter in enumerate(self.letters)}
        numbers = np.array([number[letter] for letter in text], np.int32)
        border = len(numbers) * 95 // 100
        self.train, self.test = numbers[:border], numbers[border:]

    def encode(self, text: str) -> np.ndarray:
        """Returns the numbers of letters that occur in the text."""
        return np.array([self.letters.index(letter) for letter in text], np.int32)

    def decode(self, numbers: list[int]) -> str:
        """Returns the letters of these numbers."""
        return "".join(self.letters[i] for i in numbers)


def windows(numbers: np.ndarray, batch: int, length: int, rng: np.random.Generator) -> np.ndarray:
    """Returns random pieces of the text, int32[batch, length + 1]: each letter is predicted from those before it."""
    starts = rng.integers(0, len(numbers) - length, batch)
    return numbers[starts[:, None] + np.arange(length + 1)]


def train(arguments: argparse.Namespace, text: Text, config: model.Config, devices: list[Any]) -> model.Params:
    """Trains with the given options, prints the losses, and returns the parameters as NumPy arrays."""
    mesh = Mesh(np.array(devices), ("batch",))
    replicated, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("batch"))
    rate = optax.warmup_cosine_decay_schedule(0.0, arguments.learning_rate, 50, max(arguments.steps, 51))
    optimizer = optax.adamw(rate, b2=0.99)
    loss_of = functools.partial(model.loss, config=config)

    @functools.partial(jax.jit, donate_argnums=0, out_shardings=(replicated, replicated))
    def update(state: Any, tokens: jax.Array) -> tuple[Any, jax.Array]:
        params, moments = state
        loss, gradients = jax.value_and_grad(loss_of)(params, tokens)
        changes, moments = optimizer.update(gradients, moments, params)
        return (optax.apply_updates(params, changes), moments), loss

    params = model.init(arguments.seed, config)
    with jax.default_device(jax.devices("cpu")[0]):
        state = (params, optimizer.init(params))
    state = jax.device_put(state, replicated)
    rng = np.random.default_rng(arguments.seed)
    losses: list[Any] = []
    start = time.perf_counter()
    progress = tqdm(range(arguments.steps), desc="training", unit="step", leave=False)
    for step in progress:
        tokens = jax.device_put(windows(text.train, arguments.batch_size, config.positions, rng), split)
        if step == arguments.steps - 1:
            # The last step is in steady state, so measure it alone.
            jax.block_until_ready(state)
            before = _counters(devices)
        state, loss = update(state, tokens)
        losses.append(loss)
        if step % 10 == 0:
            progress.set_postfix(loss=f"{float(loss):.3f}", refresh=False)
        if (step + 1) % 100 == 0 or step == arguments.steps - 1:
            mean = float(np.mean([float(x) for x in losses[-100:]]))
            progress.write(f"step {step + 1:5d}  loss {mean:.4f}  {time.perf_counter() - start:.1f} s")
    jax.block_until_ready(state)
    print(f"First loss {float(losses[0]):.4f}, last {float(losses[-1]):.4f} nats a letter")
    for device, old, new in zip(devices, before, _counters(devices), strict=True):
        print(f"{device.platform}:{device.id} per step: {_moved(old, new)}")
    tested = jax.device_put(windows(text.test, arguments.batch_size, config.positions, rng), split)
    print(f"Loss on text that it has not seen: {float(jax.jit(loss_of)(state[0], tested)):.4f}")
    return jax.tree.map(np.asarray, state[0])


def write(arguments: argparse.Namespace, text: Text, config: model.Config, params: model.Params, device: Any) -> str:
    """Continues the prompt letter by letter, with one call per letter and the cache in SRAM."""

    @functools.partial(jax.jit, donate_argnums=(1, 3))
    def next_letter(
        params: model.Params, cache: model.Cache, letter: jax.Array, key: jax.Array, position: Any
    ) -> tuple[jax.Array, model.Cache, jax.Array]:
        scores, cache = model.decode(params, cache, letter, position, config)
        key, own = jax.random.split(key)
        return jax.random.categorical(own, scores / arguments.temperature), cache, key

    with jax.default_device(device):
        cache, key = model.empty_cache(1, config), jax.random.key(arguments.seed)
    params = jax.device_put(params, device)
    prompt = text.encode(arguments.prompt)
    written = list(prompt)
    letter = prompt[:1]
    length = min(arguments.letters, config.positions)
    for position in tqdm(range(length - 1), desc="writing", unit="letter", leave=False):
        before = _counters([device])
        chosen, cache, key = next_letter(params, cache, letter, key, np.int32(position))
        letter = prompt[position + 1 : position + 2] if position + 1 < len(prompt) else np.asarray(chosen)
        if position + 1 >= len(prompt):
            written.append(int(letter[0]))
    print(f"{device.platform}:{device.id} per letter: {_moved(before[0], _counters([device])[0])}")
    return text.decode(written)


def _counters(devices: list[Any]) -> list[Counters]:
    return [jax_ipu.counters(d) if d.platform == "ipu" else Counters(*[0] * len(Counters._fields)) for d in devices]


def _moved(before: Counters, after: Counters) -> str:
    difference = Counters(*(b - a for a, b in zip(before, after, strict=True)))
    return (
        f"{difference.h2d_bytes:,} bytes in, {difference.d2h_bytes:,} out, {difference.link_bytes:,} from other IPUs; "
        f"{difference.cycles:,} cycles"
    )


def main() -> None:
    """Trains and writes, with the options of the command line."""
    parser = argparse.ArgumentParser(description="Train a small GPT on several IPUs, and let it write")
    parser.add_argument("--ipus", type=int, default=None, help="how many IPUs; all that there are by default")
    parser.add_argument("--backend", default="ipu", help="platform: ipu or cpu")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--positions", type=int, default=96, help="letters that it sees")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--prompt", default="The ", help="what it continues")
    parser.add_argument("--letters", type=int, default=96, help="how many it writes, with the prompt")
    parser.add_argument("--temperature", type=float, default=0.5, help="the lower, the likelier are the letters")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    devices = jax.devices(arguments.backend)[: arguments.ipus]
    if arguments.batch_size % len(devices):
        raise SystemExit(f"A batch of {arguments.batch_size} does not divide into {len(devices)} parts")
    text = Text("\n".join(pydoc_data.topics.topics.values()))
    config = model.Config(len(text.letters), arguments.positions, arguments.width, arguments.layers, heads=4)
    size = len(text.train) + len(text.test)
    print(f"Text: {size:,} letters, {len(text.letters)} different")
    print(f"{len(devices)} devices: {', '.join(map(str, devices))}")
    params = train(arguments, text, config, devices)
    print(write(arguments, text, config, params, devices[0]))


if __name__ == "__main__":
    main()
