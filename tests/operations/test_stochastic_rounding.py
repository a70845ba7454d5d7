"""Stochastic rounding of f16 results: unbiased, to neighbours only, and repeated by a seed; a mode of the process."""

import pytest

from support.processes import output

EXECUTIONS = ("fast", "tile")
PROGRAM = """
    import jax, jax.numpy as jnp, numpy as np
    import jax_ipu
    from jax import lax

    ipu = jax.devices("ipu")[0]
    n, exact = 4096, np.float32(1 + 0.3 * 2**-10)  # 0.3 of the way between two f16 numbers
    def put(x): return jax.device_put(x, ipu)

    def small(x): return (x * np.float32(1.3 * 2**-24)).astype(jnp.float16)
    def product(a, b): return lax.dot(a, b, preferred_element_type=jnp.float16)
    def convolution(x, w): return lax.conv_general_dilated(x, w, (1,), "VALID")
    def total(x): return x.sum(0)
    half = np.float16
    third = np.full((64, 16), half(1), half), np.concatenate([np.ones((1, 64)), np.full((15, 64), 2e-5)]).astype(half)
    image = np.concatenate([np.ones((1, 1, 64)), np.full((1, 15, 64), 2e-5)], 1).astype(half)
    cases = {
        "convert": (lambda x: x.astype(jnp.float16), np.full(n, exact)),
        "add": (lambda x, y: x + y, np.full(n, half(1)), np.full(n, half(0.3 * 2**-10))),
        "subnormal": (small, np.full(n, np.float32(exact))),
        "product": (product, *third),
        "convolution": (convolution, image, np.ones((16, 16, 1), half)),
        "sum": (total, np.repeat(third[1][:, :1], n, 1)),
    }
    for name, (function, *arguments) in cases.items():
        jitted = jax.jit(function)
        first, second = (np.asarray(jitted(*map(put, arguments))) for _ in range(2))
        wide = [np.asarray(a, np.float64) for a in arguments]
        if name in ("convert", "add"): true = sum(wide)
        elif name == "subnormal": true = wide[0] * np.float32(1.3 * 2**-24)
        elif name == "product": true = wide[0] @ wide[1]
        elif name == "convolution": true = np.full((1, 16, 64), wide[0][0, :, 0].sum())
        else: true = wide[0].sum(0)
        assert first.dtype == np.float16
        gap = np.spacing(first.reshape(-1)[0])
        assert (np.abs(first - true) < gap).all(), name  # a neighbour
        bias = (first - true).mean() / gap
        print(name, len(np.unique(first)) == 2, abs(bias) < 0.1, (first == second).all(), first.tobytes().hex())
    whole = np.arange(-2048, 2049).astype(np.float16)
    assert (np.asarray(jax.jit(lambda x: -(-x) + 0)(put(whole))) == whole).all()
    special = np.array([np.inf, -np.inf, np.nan, 1e6, 0.0, -0.0], np.float32)
    print(*np.asarray(jax.jit(lambda x: x.astype(jnp.float16))(put(special))))
"""


def run(execution: str, seed: str) -> list[str]:
    return output(
        PROGRAM,
        JAX_PLATFORMS="ipu,cpu",
        JAX_IPU_MODEL_NUM_TILES="8",
        JAX_IPU_MODEL_EXECUTION=execution,
        JAX_IPU_STOCHASTIC_ROUNDING="1",
        JAX_IPU_STOCHASTIC_ROUNDING_SEED=seed,
    ).splitlines()


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_results_are_neighbours_without_bias(execution: str) -> None:
    *rows, special = run(execution, "7")
    for row in rows:
        name, both, unbiased, repeated, _ = row.split()
        assert (both, unbiased, repeated) == ("True", "True", "False"), name
    assert special.split() == ["inf", "-inf", "nan", "inf", "0.0", "-0.0"]
    assert run(execution, "7")[:-1] == rows
    assert all(a != b for a, b in zip(run(execution, "0")[:-1], rows, strict=True))
