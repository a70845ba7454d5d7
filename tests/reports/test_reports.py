"""The compiler's reports: cost, memory, tile mapping, and errors that tell a user what to do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu.debug

ipu = jax.devices("ipu")[0]


def test_cost_analysis_of_a_product():
    compiled = (
        jax.jit(jnp.dot, backend="ipu").lower(np.ones((64, 128), np.float32), np.ones((128, 32), np.float32)).compile()
    )
    cost = compiled.cost_analysis()
    assert cost["flops"] == 2 * 64 * 128 * 32
    assert cost["cycles"] > 0 and cost["exchange bytes"] > 0
    assert cost["sram bytes"] >= 4 * (64 * 128 + 128 * 32 + 64 * 32)
    assert 0 < cost["fullest tile bytes"] <= ipu.bytes_per_tile


def test_more_work_costs_more_cycles():
    def cycles(n):
        x = np.ones((n, n), np.float32)
        return jax.jit(jnp.dot, backend="ipu").lower(x, x).compile().cost_analysis()["cycles"]

    assert cycles(512) < cycles(1024) < cycles(2048)


def test_memory_analysis():
    step = jax.jit(lambda s, x: (s + x, x.sum()), backend="ipu", donate_argnums=0)
    memory = step.lower(np.ones(1000, np.float32), np.ones(1000, np.float32)).compile().memory_analysis()
    assert memory.argument_size_in_bytes == 8000
    assert memory.output_size_in_bytes == 4004
    assert memory.alias_size_in_bytes == 4000


def test_memory_stats():
    state = jax.jit(lambda s: s + 1, backend="ipu", donate_argnums=0)(np.ones(5000, np.float32))
    state.block_until_ready()
    stats = ipu.memory_stats()
    assert stats["bytes_reservable_limit"] == stats["bytes_limit"]
    assert stats["bytes_limit"] == ipu.num_tiles * ipu.bytes_per_tile
    assert 20000 <= stats["bytes_in_use"] <= stats["peak_bytes_in_use"] <= stats["bytes_limit"]
    assert state[0] == 2


def test_counters_count_cycles():
    f = jax.jit(lambda x: jnp.sin(x), backend="ipu")
    cycles = f.lower(np.ones(300, np.float32)).compile().cost_analysis()["cycles"]
    f(np.ones(300, np.float32)).block_until_ready()
    before = jax_ipu.counters(ipu)
    f(np.ones(300, np.float32)).block_until_ready()
    after = jax_ipu.counters(ipu)
    assert after.runs - before.runs == 1 and after.cycles - before.cycles == cycles


def test_out_of_memory_names_tensors_and_the_process_works_on():
    def too_large(x):
        y = jnp.outer(x, x)  # 4 GB
        return (y @ y).sum()

    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED") as error:
        jax.jit(too_large, backend="ipu")(np.ones(32768, np.float32))
    text = str(error.value)
    assert "tile" in text and "638976" in text.replace(",", "") and "test_reports.py" in text
    assert jax.jit(lambda x: x + 1, backend="ipu")(1) == 2


def test_tile_map_prints_where_things_live(capsys):
    jax_ipu.debug.tile_map(lambda w, x: jax.nn.relu(x @ w), np.ones((64, 32), np.float32), np.ones((8, 64), np.float32))
    text = capsys.readouterr().out
    assert "f32[64,32]" in text and "f32[8,64]" in text and "tile" in text


def test_unsupported_operation_is_named_with_its_source_line():
    call = jax.ffi.ffi_call("target_of_another_library", jax.ShapeDtypeStruct((4, 4), np.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match="UNIMPLEMENTED") as error:
        jax.jit(lambda x: call(x), backend="ipu")(np.ones((4, 4), np.float32))
    text = str(error.value)
    assert "target_of_another_library" in text and "f32[4,4]" in text and "test_reports.py" in text
