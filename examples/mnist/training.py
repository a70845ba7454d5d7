"""Shared by the MNIST examples: command line, batches, the training loop and the closing report."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

import datasets
import jax_ipu

Batch = tuple[np.ndarray, np.ndarray]

# JAX recommends devices instead of platform names in jit; in a training script, the name is clearer.
warnings.filterwarnings("ignore", "backend and device argument on jit", DeprecationWarning)


def parse_arguments(description: str, epochs: int, batch_size: int) -> argparse.Namespace:
    """Parses the options of all examples from the command line."""
    return argument_parser(description, epochs, batch_size).parse_args()


def argument_parser(description: str, epochs: int, batch_size: int) -> argparse.ArgumentParser:
    """Returns a parser of these options, to which an example may add its own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data-dir", type=Path, help="folder with the four MNIST IDX files")
    parser.add_argument("--download", action="store_true", help="fetch and check the MNIST files (into --data-dir)")
    parser.add_argument("--epochs", type=int, default=epochs)
    parser.add_argument("--batch-size", type=int, default=batch_size)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", default="ipu", help="platform of the update function: ipu or cpu")
    return parser


def batches(images: np.ndarray, labels: np.ndarray, size: int, rng: np.random.Generator) -> Iterator[Batch]:
    """Yields one epoch of shuffled full batches, with labels as one-hot float32 rows."""
    one_hot = np.eye(10, dtype=np.float32)
    order = rng.permutation(len(images))
    for start in range(0, len(order) - size + 1, size):
        chosen = order[start : start + size]
        yield images[chosen], one_hot[labels[chosen]]


def accuracy(predict: Callable[..., Any], params: Any, images: np.ndarray, labels: np.ndarray, size: int) -> float:
    """Returns the share of correct answers. The last batch is padded, so that one program serves all batches."""
    right = 0
    for start in range(0, len(images), size):
        part = images[start : start + size]
        filled = np.concatenate([part, np.zeros((size - len(part), *part.shape[1:]), part.dtype)])
        right += int((np.asarray(predict(params, filled))[: len(part)] == labels[start : start + size]).sum())
    return right / len(images)


def train(
    arguments: argparse.Namespace,
    data: datasets.Digits,
    state: Any,
    update: Callable[[int, Any, Batch], tuple[Any, Any]],
    predict: Callable[..., Any],
    params_of: Callable[[Any], Any],
) -> float:
    """Trains, prints loss and accuracy per epoch and the closing report; returns the test accuracy."""
    print(f"Data: {data.name}; {len(data.train_images)} to train on, {len(data.test_images)} to test")
    rng = np.random.default_rng(arguments.seed)
    device = jax.devices(arguments.backend)[0]
    print(f"Device: {device}")
    ipu = device.platform == "ipu"
    per_step = None
    steps = 0
    score = 0.0
    for epoch in range(arguments.epochs):
        losses = []
        start = time.perf_counter()
        total = len(data.train_images) // arguments.batch_size
        epoch_batches = batches(data.train_images, data.train_labels, arguments.batch_size, rng)
        for batch in tqdm(epoch_batches, total=total, desc=f"epoch {epoch + 1}", unit="step", leave=False):
            if ipu and len(losses) == total - 1:
                # The last step of an epoch is in steady state, so measure it alone.
                jax.block_until_ready(state)
                before = jax_ipu.counters(device)
            state, loss = update(steps, state, batch)
            losses.append(loss)
            steps += 1
        if ipu:
            jax.block_until_ready(state)
            after = jax_ipu.counters(device)
            per_step = jax_ipu.Counters(*(b - a for a, b in zip(before, after, strict=True)))
        mean_loss = float(np.mean([float(x) for x in losses]))
        seconds = time.perf_counter() - start
        score = accuracy(predict, params_of(state), data.test_images, data.test_labels, arguments.batch_size)
        print(f"epoch {epoch + 1:3d}  loss {mean_loss:.4f}  test accuracy {score:.2%}  {seconds:.2f} s")
    print(f"Test accuracy: {score:.2%}")
    if ipu and per_step is not None:
        report(device, per_step, update, state, batch)
    return score


def report(device: Any, per_step: jax_ipu.Counters, update: Any, state: Any, batch: Batch) -> None:
    """Prints the bytes that one step moved and its cost on the modelled IPU."""
    sent, received, cycles = per_step.h2d_bytes, per_step.d2h_bytes, per_step.cycles
    totals = jax_ipu.counters(device)
    cost = update.lower(0, state, batch).compile().cost_analysis()
    clock = device.tile_clock_frequency
    print(f"Per step, steady state: {sent:,} bytes in, {received:,} bytes out (the weights stay in SRAM)")
    print(f"Engine loads: {totals.engine_loads} in {totals.runs:,} runs")
    print(
        f"SRAM: {cost['sram bytes']:,.0f} bytes in all, fullest tile {cost['fullest tile bytes']:,.0f} of "
        f"{device.bytes_per_tile:,} bytes ({device.num_tiles} tiles)"
    )
    microseconds = cycles / clock * 1e6
    print(f"Modelled on {device.version}: {cycles:,} cycles per step, {microseconds:.1f} us at {clock / 1e9:.3f} GHz")
