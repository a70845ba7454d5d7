"""Pallas in interpret mode with several cores: supported programs, and the rejection of self-deadlocks."""

import jax
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from support import processes

ipu = jax.devices("ipu")[0]


def add_one(source, target):
    target[...] = source[...] + 1


def test_one_core_runs() -> None:
    x = np.arange(8 * 128, dtype=np.float32).reshape(8, 128)
    f = pl.pallas_call(add_one, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=pltpu.InterpretParams())
    np.testing.assert_array_equal(jax.jit(f)(jax.device_put(x, ipu)), x + 1)


def test_several_cores_are_refused() -> None:
    program = """
        import jax, jax.numpy as jnp
        from jax.experimental import pallas as pl
        from jax.experimental.pallas import tpu as pltpu

        def kernel(source, target):
            target[...] = source[...] + 1

        f = pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32),
            grid=(2,),
            in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
            compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
            interpret=pltpu.InterpretParams(num_cores_or_threads=2),
        )
        try:
            jax.jit(f)(jnp.ones((16, 128)))
        except jax.errors.JaxRuntimeError as error:
            print("Interpret one core" in str(error))
    """
    assert processes.output(program, JAX_PLATFORMS="ipu,cpu") == "True\n"


@pytest.mark.parametrize("first", ["jax.devices('ipu')", "import jax.experimental.pallas.tpu"])
def test_a_core_map_of_one_core_runs_whichever_is_imported_first(first: str) -> None:
    program = f"""
        import jax
        {first}
        import jax.numpy as jnp
        from jax.experimental import pallas as pl
        from jax.experimental.pallas import tpu as pltpu

        mesh = pltpu.create_tensorcore_mesh("core", num_cores=1)

        @jax.jit
        def f(x):
            def body(references):
                source, target = references

                @pl.core_map(mesh, interpret=pltpu.InterpretParams())
                def _():
                    pltpu.sync_copy(source, target)

            return pl.run_state(body)((x, jnp.zeros_like(x)))[1]

        print(f(jnp.arange(8 * 128.0).reshape(8, 128)).sum())
    """
    assert processes.output(program, JAX_PLATFORMS="ipu,cpu") == "523776.0\n"
