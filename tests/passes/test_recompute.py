"""Values that are recomputed in the backward pass instead of kept, if a program does not fit otherwise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ipu import _ipu, compiler
from jax_ipu.compiler.options import Options, serialize_options
from jax_ipu.compiler.passes import recompute
from jax_ipu.compiler.passes.in_parts import blocks
from support.modes import lower
from support.stages import imported, mapped

LAYERS = 6


def loss(params, x):
    """Normalisations in float32 of products in float16, as in Keras' mixed_float16."""
    for w, scale in params:
        wide = (x @ w).astype(jnp.float32)
        centred = wide - wide.mean(0)
        normal = centred * jax.lax.rsqrt((centred * centred).mean(0) + 1e-3) * scale
        x = jnp.maximum(normal.astype(jnp.float16), 0)
    return x.astype(jnp.float32).mean()


def compiled(platform, outline=None):
    rng = np.random.default_rng(0)
    params = [(rng.normal(size=(128, 128)).astype(np.float16) / 11, np.ones(128, np.float32)) for _ in range(LAYERS)]
    x = rng.normal(size=(2048, 128)).astype(np.float16)
    device = jax.devices(platform)[0]
    arguments = jax.device_put((params, x), device)
    options = {"ipu_outline": outline} if outline else None
    return jax.jit(jax.value_and_grad(loss)).lower(*arguments).compile(compiler_options=options), arguments


def check_values(function, arguments):
    """The program that computes values again gives the bits of the one that keeps them, tile by tile.

    The fast execution adds up sums over rows in another order where other operations run with them, so that float16
    rounds differently: the gradients of both programs are up to a tenth of their largest element off those in float64.
    """
    text, lowered = lower(function, *arguments)
    inputs = [np.asarray(a).tobytes() for a in jax.tree.leaves(arguments)]
    assert len(lowered._lowering.compile_args["kept_var_idx"]) == len(inputs)
    kept, again = (
        compiler.compile(text, "mlir", serialize_options({"ipu_outline": outline}), "ipu2:64")
        for outline in ("never", "always")
    )
    assert _ipu.run(again, inputs, "tile") == _ipu.run(kept, inputs, "tile")
    types = [x.dtype for x in jax.tree.leaves(lowered.out_info)]
    for dtype, result, expected in zip(types, _ipu.run(again, inputs), _ipu.run(kept, inputs), strict=True):
        result, expected = (np.frombuffer(x, dtype).astype(np.float32) for x in (result, expected))
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-2 * np.abs(expected).max())


def test_memory_is_saved_and_values_are_the_same():
    (kept, arguments), (again, _) = compiled("ipu", "never"), compiled("ipu", "always")
    one, other = (program.cost_analysis()["sram bytes"] for program in (kept, again))
    # Two float32 values per layer are not kept: 1 MiB each, replaced by one float16 value.
    assert one - other > 0
    check_values(jax.value_and_grad(loss), arguments)


@pytest.mark.parametrize("body", ["loop", "branch"])
def test_inside_control_flow(body):
    def step(params, x):
        value, gradients = jax.value_and_grad(loss)(params, x)
        return jax.tree.map(lambda p, g: p - g.astype(p.dtype), params, gradients), value

    def run(params, x):
        if body == "loop":
            return jax.lax.fori_loop(0, 3, lambda i, carry: step(carry[0], x), (params, jnp.float32(0)))
        return jax.lax.cond(x[0, 0] > 1e4, lambda: (params, jnp.float32(0)), lambda: step(params, x))

    (_, arguments) = compiled("ipu", "never")
    check_values(run, arguments)


def relus(params, x):
    """Residual layers: the result of each relu is kept for the gradients of the next layer, its operand is not."""
    for w, v in params:
        x = jax.nn.relu(x + jax.nn.tanh(x @ w) @ v)
    return x.astype(jnp.float32).mean()


def test_masks_of_relus_come_from_their_results(monkeypatch):
    monkeypatch.setattr(blocks, "_LARGE", 1.0)  # sums over blocks are rounded in another order
    rng = np.random.default_rng(0)
    params = [tuple(rng.normal(size=(2, 128, 128)).astype(np.float16) / 11) for _ in range(LAYERS)]
    x = rng.normal(size=(4096, 128)).astype(np.float16)
    text, _ = lower(jax.value_and_grad(relus), params, x)
    masks = {}
    for outline in ("never", "always"):
        block = mapped(text, Options()._replace(outline=outline)).module.main.block
        results = [value for op in block.walk() for value in op.results]
        masks[outline] = [value for value in results if value.dtype == "pred" and value.shape == x.shape]
    # That of the last layer is read at once, so it may be kept.
    assert len(masks["never"]) >= LAYERS - 1 and len(masks["always"]) <= 1
    check_values(jax.value_and_grad(relus), (params, x))


def test_a_mask_in_total_order_reads_its_operand():
    """A negative NaN is less than all numbers in total order, and the maximum may give another NaN."""
    module = imported("""
    func.func @main(%x: tensor<512x256xf32>) -> (tensor<512x256xf32>, tensor<512x256xi1>, tensor<512x256xi1>) {
      %c = stablehlo.constant dense<0.0> : tensor<512x256xf32>
      %m = stablehlo.maximum %x, %c : tensor<512x256xf32>
      %a = stablehlo.compare GT, %x, %c, TOTALORDER : (tensor<512x256xf32>, tensor<512x256xf32>) -> tensor<512x256xi1>
      %b = stablehlo.compare GT, %x, %c, FLOAT : (tensor<512x256xf32>, tensor<512x256xf32>) -> tensor<512x256xi1>
      return %m, %a, %b : tensor<512x256xf32>, tensor<512x256xi1>, tensor<512x256xi1>
    }""")
    recompute.run(module)
    total, plain = (op for op in module.main.block.ops if op.name == "compare")
    assert total.operands[0] is module.main.block.args[0]
    assert plain.operands[0].op.name == "maximum"
