"""Language models in plain JAX: training steps of GPT-2 and BERT on one IPU and on several, as a user writes them.

On one IPU the weights are float16 and learn by gradient descent; the loss is scaled so that small gradients do not
underflow. On several IPUs the weights and the moments of AdamW are float32, and every leaf is split along its longest
axis that divides.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from support.zoo.row import Case, Row

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "gpt"))

_LOSS_SCALE = 1024.0
_RATE = 0.05


class Training(NamedTuple):
    """`step(state, *batch)` donates the state and returns (new state, loss); `watched` selects some of its weights."""

    step: Callable[..., Any]
    state: Any
    batch: tuple[Any, ...]
    watched: Callable[[Any], Any]


def gpt(size: Any, dtype: Any, length: int, batch: int = 1, recompute: bool = False) -> Training:
    """A training step of GPT-2 with the sizes `size`, a tuple like model.Config."""
    import model

    config = model.Config(*size)
    tokens = np.random.default_rng(1).integers(0, config.vocabulary, (batch, length + 1)).astype(np.int32)

    def watched(params: Any) -> Any:
        kernels = params["layers"][0]["attention"]["qkv"]["kernel"], params["layers"][-1]["mlp"]["down"]["kernel"]
        return np.asarray(params["tokens"])[tokens[0, :8]], *kernels, params["norm"]["bias"]

    params = model.init(0, config, dtype)
    return _training(partial(model.loss, config=config, recompute=recompute), params, (tokens,), watched)


def bert(size: Any, dtype: Any, length: int, batch: int = 1) -> Training:
    """A training step of BERT's masked language model with the sizes `size`, a tuple like bert.Config.

    In float16, for one IPU, the backward pass recomputes the activations.
    """
    from support import bert

    config = bert.Config(*size)
    data = bert.batch(1, batch, length, config)

    def watched(params: Any) -> Any:
        kernels = params["layers"][0]["query"]["kernel"], params["layers"][-1]["down"]["kernel"]
        return np.asarray(params["embeddings"]["tokens"])[data[0][0, :8]], *kernels, params["head"]["norm"]["bias"]

    return _training(
        partial(bert.loss, config=config, recompute=dtype == np.float16), bert.init(0, config, dtype), data, watched
    )


def _training(loss: Callable[..., Any], params: Any, batch: Any, watched: Callable[[Any], Any]) -> Training:
    import jax
    import jax.numpy as jnp
    import optax

    if next(iter(jax.tree.leaves(params))).dtype == np.float16:

        def descend(params: Any, *batch: Any) -> Any:
            value, gradients = jax.value_and_grad(lambda p: _LOSS_SCALE * loss(p, *batch))(params)
            rate = jnp.asarray(_RATE / _LOSS_SCALE, jnp.float16)
            return jax.tree.map(lambda p, g: p - rate * g, params, gradients), value / _LOSS_SCALE

        return Training(descend, params, batch, watched)

    optimizer = optax.adamw(1e-3, eps=1e-5)

    def adamw(state: Any, *batch: Any) -> Any:
        params, moments = state
        value, gradients = jax.value_and_grad(loss)(params, *batch)
        changes, moments = optimizer.update(gradients, moments, params)
        return (optax.apply_updates(params, changes), moments), value

    with jax.default_device(jax.devices("cpu")[0]):
        moments = jax.tree.map(np.asarray, optimizer.init(params))
    return Training(adamw, (params, moments), batch, lambda state: watched(state[0]))


def jitted(training: Training, devices: list[Any], cut_batch: bool = False) -> tuple[Any, Any]:
    """The jitted step for these devices, and the shardings of the state; `cut_batch`: batches are cut over them too."""
    import jax
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    mesh = Mesh(np.array(devices), ("model",))

    def sharding(leaf: Any) -> Any:
        dims = [d for d in range(leaf.ndim) if leaf.shape[d] % len(devices) == 0]
        longest = max(dims, key=lambda d: leaf.shape[d], default=None)
        return NamedSharding(mesh, P() if longest is None else P(*[None] * longest, "model"))

    shardings = jax.tree.map(sharding, training.state)
    whole = NamedSharding(mesh, P())
    inputs = (shardings, *[NamedSharding(mesh, P("model")) if cut_batch else whole] * len(training.batch))
    return jax.jit(training.step, donate_argnums=0, in_shardings=inputs, out_shardings=(shardings, whole)), shardings


def _steps(build: Callable[[], Training], platform: str, count: int) -> Any:
    import jax

    training = build()
    step, shardings = jitted(training, jax.local_devices(backend=platform)[:count])
    state = jax.device_put(training.state, shardings)

    def run() -> Any:
        nonlocal state
        state, loss = step(state, *training.batch)
        return loss, training.watched(state)

    return run


def _row(name: str, build: Callable[[], Training], dtype: str, ipus: int, tolerance: float, small: bool = False) -> Row:
    case = partial(Case, partial(_steps, build, "ipu", ipus), partial(_steps, build, "cpu", 1))
    return Row(name, "JAX", "training", dtype, ipus, tolerance, case, ("optax",), small)


GPT_TINY, BERT_TINY = (partial(f, (97, 64, 32, 2, 4), length=16, batch=2) for f in (gpt, bert))

# Full size: name, function that builds it, precision, number of IPUs, tolerance.
FULL: tuple[tuple[str, Callable[[], Training], str, int, float], ...] = (
    ("GPT-2 small b1 s128", partial(gpt, (), np.float16, 128), "float16", 1, 2e-2),
    ("GPT-2 small b1 s128", partial(gpt, (), np.float32, 128), "float32", 4, 1e-3),
    ("GPT-2 small b1 s128", partial(gpt, (), np.float32, 128), "float32", 8, 1e-3),
    ("GPT-2 small b1 s128, vocabulary 128,000", partial(gpt, (128_000,), np.float16, 128), "float16", 1, 2e-2),
    ("BERT-base b1 s128", partial(bert, (), np.float16, 128), "float16", 1, 2e-2),
    ("BERT-base b1 s128", partial(bert, (), np.float32, 128), "float32", 4, 1e-3),
)

ROWS = [
    _row("tiny GPT b2 s16", partial(GPT_TINY, dtype=np.float16), "float16", 1, 1e-2, small=True),
    _row("tiny GPT b2 s16", partial(GPT_TINY, dtype=np.float32), "float32", 4, 1e-4, small=True),
    _row("tiny BERT b2 s16", partial(BERT_TINY, dtype=np.float16), "float16", 1, 1e-2, small=True),
    _row("tiny BERT b2 s16", partial(BERT_TINY, dtype=np.float32), "float32", 4, 1e-4, small=True),
    *[_row(*row) for row in FULL],
]
