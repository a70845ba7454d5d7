"""Training steps of flax, optax and equinox programs, unchanged: the IPU gives the same numbers as the CPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

ipu, cpu = jax.devices("ipu")[0], jax.devices("cpu")[0]


def train(device, loss, parameters, optimizer, batch, steps=3):
    """Returns losses and parameters after a few steps with donated state."""

    def step(parameters, state, *batch):
        value, gradient = jax.value_and_grad(loss)(parameters, *batch)
        updates, state = optimizer.update(gradient, state, parameters)
        import optax

        return optax.apply_updates(parameters, updates), state, value

    step = jax.jit(step, donate_argnums=(0, 1))
    # Copies, because the arrays donated on one device must not be those of the other device.
    parameters = jax.device_put(jax.tree.map(np.array, parameters), device)
    state = jax.device_put(jax.tree.map(np.array, optimizer.init(parameters)), device)
    batch = jax.device_put(batch, device)
    losses = []
    for _ in range(steps):
        parameters, state, value = step(parameters, state, *batch)
        losses.append(float(value))
    return losses, parameters


def check_training(loss, parameters, optimizer, *batch, tolerance=2e-4):
    losses, trained = train(ipu, loss, parameters, optimizer, batch)
    expected, reference = train(cpu, loss, parameters, optimizer, batch)
    np.testing.assert_allclose(losses, expected, rtol=tolerance)
    for got, want in zip(jax.tree.leaves(trained), jax.tree.leaves(reference), strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def images(shape, classes=4):
    generator = np.random.default_rng(0)
    return generator.standard_normal(shape).astype(np.float32), generator.integers(0, classes, shape[0])


def on_cpu(function, *args):
    with jax.default_device(cpu):
        return function(*args)


def test_flax_convolutional_network_with_optax():
    nn, optax = pytest.importorskip("flax.linen"), pytest.importorskip("optax")

    class Network(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.max_pool(nn.relu(nn.Conv(4, (3, 3))(x)), (2, 2), (2, 2))
            x = nn.LayerNorm()(nn.Conv(6, (3, 3), strides=2)(x))
            return nn.Dense(4)(x.reshape(x.shape[0], -1))

    x, y = images((4, 8, 8, 1))
    network = Network()
    parameters = on_cpu(network.init, jax.random.key(0), x)

    def loss(parameters, x, y):
        return optax.softmax_cross_entropy_with_integer_labels(network.apply(parameters, x), y).mean()

    check_training(loss, parameters, optax.adamw(1e-2), x, y)


def test_flax_transformer_block_with_dropout():
    nn, optax = pytest.importorskip("flax.linen"), pytest.importorskip("optax")

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            y = nn.LayerNorm()(x)
            x = x + nn.MultiHeadDotProductAttention(num_heads=2)(y, y, mask=nn.make_causal_mask(jnp.ones(x.shape[:2])))
            y = nn.Dense(32)(nn.LayerNorm()(x))
            return x + nn.Dropout(0.1, deterministic=False)(nn.Dense(16)(nn.gelu(y)))

    x = images((2, 6, 16))[0]
    block = Block()
    parameters = on_cpu(block.init, {"params": jax.random.key(0), "dropout": jax.random.key(1)}, x)

    def loss(parameters, x):
        return jnp.mean((block.apply(parameters, x, rngs={"dropout": jax.random.key(2)}) - x[:, ::-1]) ** 2)

    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 2, 10)
    # Not Adam: the gradient of the keys' bias is only a rounding error around zero, which Adam would amplify.
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(schedule, momentum=0.9))
    check_training(loss, parameters, optimizer, x)


def test_equinox_multilayer_perceptron():
    eqx, optax = pytest.importorskip("equinox"), pytest.importorskip("optax")
    network = on_cpu(lambda: eqx.nn.MLP(6, 4, 16, 2, key=jax.random.key(0)))
    parameters, static = eqx.partition(network, eqx.is_array)
    x, y = images((8, 6))

    def loss(parameters, x, y):
        logits = jax.vmap(eqx.combine(parameters, static))(x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    check_training(loss, parameters, optax.sgd(0.1, momentum=0.9, nesterov=True), x, y)
