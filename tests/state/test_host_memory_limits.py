"""Values in host memory that do not fit: into the tiles in parts, into the streaming memory, into this machine."""

import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jax_ipu
from jax_ipu import _ipu, compiler, machine
from jax_ipu.integration.programs import program_of
from support.host_memory import HOST, compiled, in_host, layers, on_device, shaped


def test_layers_larger_than_the_memory_fit():
    """64 tiles have 39 MiB."""
    assert compiled(layers, [(512, 256, 256), (8, 256)], {0}).memory.total_bytes < 8 << 20
    with pytest.raises(Exception, match="out of IPU memory"):
        compiled(layers, [(512, 256, 256), (8, 256)], set())


def test_more_than_the_streaming_memory_is_refused():
    """Four IPUs share 256 GB; of cards no size is known."""
    shape = (70_000, 1024, 1024)
    weights, x = shaped([shape, (8, 1024)], {0})
    refused = jax_ipu.estimate(layers, weights, x, target="ipu2")
    assert not refused.fits
    assert refused.reason == (
        "out of host memory: the program keeps 293.6 GB in pinned_host memory for each IPU: weights"
        " f32[70000,1024,1024] (293.6 GB); an IPU has 256.0 GB of streaming memory (ipu2)."
    )
    assert jax_ipu.estimate(layers, weights, x, target="ipu21").fits
    with pytest.raises(Exception, match=r"293\.6 GB in pinned_host memory"):
        compiled(layers, [shape, (8, 1024)], {0}, tiles=1472)


def test_a_result_takes_the_host_memory_of_a_donated_argument():
    def twice(rows):
        return jax.lax.scan(lambda c, row: (c, 2 * on_device(row)), 0, rows)[1]

    (rows,) = shaped([(40_000, 1024, 1024)], {0})
    donated, other = (jax.jit(twice, out_shardings=HOST, donate_argnums=donated) for donated in (0, ()))
    assert jax_ipu.estimate(donated, rows, target="ipu2").fits
    assert "167.8 GB), result f32" in jax_ipu.estimate(other, rows, target="ipu2").reason


def test_what_a_program_puts_into_host_memory_counts():
    def sums(x):
        kept = jax.lax.scan(lambda h, _: (h * 0.5, in_host(h)), x, length=70_000)[1]
        return jax.lax.scan(lambda s, row: (s + on_device(row), None), jnp.zeros_like(x), kept, reverse=True)[0]

    reason = jax_ipu.estimate(sums, *shaped([(1024, 1024)], set()), target="ipu2").reason
    assert re.search(r"what \S*_limits.py:\d+ \(.*\) puts there f32\[70000,1024,1024\] \(293\.6 GB\)", reason)


def test_streaming_memory_of_the_chips():
    """The numbers of the hardware table: 256 GB for the four IPUs of a machine; none, or not known, for cards."""
    sizes = {chip: [_ipu.Target(chip, 0).streaming_memory_bytes(n) for n in (1, 2, 4, 64)] for chip in ("ipu2", "bow")}
    assert sizes == {chip: [256 * 10**9, 128 * 10**9, 64 * 10**9, 64 * 10**9] for chip in ("ipu2", "bow")}
    assert [_ipu.Target(chip, 0).streaming_memory_bytes(1) for chip in ("ipu1", "ipu21")] == [0, 0]


def doubled(rows):
    return jax.lax.scan(lambda c, row: (c, 2 * on_device(row)), 0, rows)[1]


def test_more_than_the_memory_of_this_machine_is_refused_before_anything_runs(monkeypatch):
    rows = jax.device_put(np.ones((6, 64, 64), np.float32), HOST)
    f = jax.jit(doubled, out_shardings=HOST)
    monkeypatch.setattr("jax_ipu.plugin.memory_bytes", lambda: 150_000)
    with pytest.raises(jax.errors.JaxRuntimeError) as refused:
        f(rows)
    assert str(refused.value) == (
        "RESOURCE_EXHAUSTED: out of host memory: the program keeps 0.20 MB in pinned_host memory for each IPU: rows"
        " f32[6,64,64] (0.10 MB), result f32[6,64,64] (0.10 MB); this machine has 0.15 MB of memory."
    )
    # Estimates run nothing.
    assert jax_ipu.estimate(f, *shaped([(6, 64, 64)], {0})).fits
    monkeypatch.undo()
    np.testing.assert_array_equal(f(rows), 2 * np.asarray(rows))


def test_all_ipus_of_a_program_share_the_machine():
    mesh = AbstractMesh((4,), ("ipus",), axis_types=(AxisType.Auto,))
    cut = NamedSharding(mesh, P(None, "ipus"), memory_kind="pinned_host")
    rows = jax.ShapeDtypeStruct((6, 256, 64), jnp.float32, sharding=cut)
    program = program_of(jax.jit(doubled, out_shardings=cut), (rows,), {}, (), None)
    needed = 2 * 6 * 256 * 64 * 4
    assert compiler.compile(program.mlir, "mlir", program.options, "ipu2:64", None, needed).num_partitions == 4
    with pytest.raises(compiler.CompileError, match=r"this machine has .* of memory, and 4 IPUs need"):
        compiler.compile(program.mlir, "mlir", program.options, "ipu2:64", None, needed - 1)


def test_memory_of_this_machine(monkeypatch, tmp_path):
    whole = machine.memory_bytes()
    assert whole > 1 << 28
    for text, expected in (("max", whole), (str(1 << 27), 1 << 27), (str(1 << 62), whole)):
        (tmp_path / "memory.max").write_text(text + "\n")
        monkeypatch.setattr(machine, "_LIMITS", (*machine._LIMITS, str(tmp_path / "memory.max"), "/no/such/file"))
        assert machine.memory_bytes() == expected
    limited = "import resource as r; r.setrlimit(r.RLIMIT_AS, (1 << 27, r.getrlimit(r.RLIMIT_AS)[1]));"
    code = f"{limited} from jax_ipu.machine import memory_bytes; print(memory_bytes())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == str(1 << 27)
