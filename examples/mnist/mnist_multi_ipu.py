"""Trains the network of mnist_classifier.py on several IPUs: each has the weights and a part of every batch.

    JAX_IPU_DEVICE_COUNT=4 python examples/mnist/mnist_multi_ipu.py [--ipus N] [--epochs N] [--download]

The weights and the momentum are replicated and stay in the SRAM of every IPU; the batch is split. XLA adds the sum of
the gradients over the IPUs, which goes over the IPU-Links. Per step only each IPU's part of the batch crosses its host
link. The losses are those of one IPU, up to the order of sums.

A batch of 128 is too small to gain from it: four IPUs take 3.2 times the cycles of one, most of them for the sum of the
gradients. From 2,048 rows on they are faster: docs/multi_ipu.md has the table.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from tqdm import tqdm

import datasets
import jax_ipu
import mnist_classifier
import training
from jax_ipu import Counters


def main() -> list[float]:
    """Trains with the options of the command line; returns the mean loss of every epoch."""
    parser = training.argument_parser("Train an MLP on several IPUs", epochs=6, batch_size=128)
    parser.add_argument("--ipus", type=int, default=None, help="how many IPUs; all that there are by default")
    arguments = parser.parse_args()
    devices = jax.devices(arguments.backend)[: arguments.ipus]
    if arguments.batch_size % len(devices):
        raise SystemExit(f"A batch of {arguments.batch_size} does not divide into {len(devices)} parts")
    data = datasets.load(arguments.data_dir, arguments.download)
    print(f"Data: {data.name}; {len(devices)} devices: {', '.join(map(str, devices))}")

    mesh = Mesh(np.array(devices), ("batch",))
    replicated, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("batch"))
    with jax.default_device(jax.devices("cpu")[0]):
        state: Any = mnist_classifier.init(jax.random.PRNGKey(arguments.seed))
    state = jax.device_put(state, replicated)
    update = jax.jit(
        mnist_classifier.update_step,
        donate_argnums=1,
        in_shardings=(None, replicated, split),
        out_shardings=(replicated, replicated),
    )

    rng = np.random.default_rng(arguments.seed)
    means = []
    per_step: list[list[int]] = []
    for epoch in range(arguments.epochs):
        losses = []
        start = time.perf_counter()
        total = len(data.train_images) // arguments.batch_size
        batches = training.batches(data.train_images, data.train_labels, arguments.batch_size, rng)
        for batch in tqdm(batches, total=total, desc=f"epoch {epoch + 1}", unit="step", leave=False):
            if len(losses) == total - 1:
                # The last step of an epoch is in steady state, so measure it alone.
                jax.block_until_ready(state)
                before = _counters(devices)
            state, loss = update(None, state, jax.device_put(batch, split))
            losses.append(loss)
        jax.block_until_ready(state)
        pairs = zip(before, _counters(devices), strict=True)
        per_step = [Counters(*(b - a for a, b in zip(old, new, strict=True))) for old, new in pairs]
        means.append(float(np.mean([float(loss) for loss in losses])))
        print(f"epoch {epoch + 1:3d}  loss {means[-1]:.6f}  {time.perf_counter() - start:.2f} s")

    predict = jax.jit(lambda params, images: mnist_classifier.log_probabilities(params, images).argmax(axis=1))
    score = training.accuracy(predict, state[0], data.test_images, data.test_labels, arguments.batch_size)
    print(f"Test accuracy: {score:.2%}")
    for device, moved in zip(devices, per_step, strict=True):
        in_out = f"{moved.h2d_bytes:,} bytes in, {moved.d2h_bytes:,} out"
        print(f"{device.platform}:{device.id} per step: {in_out}; {moved.cycles:,} cycles")
    cost = update.lower(None, state, jax.device_put(batch, split)).compile().cost_analysis()
    print(f"Per step, from other IPUs: {cost.get('link bytes', 0):,.0f} bytes")
    return means


def _counters(devices: list[Any]) -> list[Counters]:
    return [jax_ipu.counters(d) if d.platform == "ipu" else Counters(*[0] * len(Counters._fields)) for d in devices]


if __name__ == "__main__":
    main()
