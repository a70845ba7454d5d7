"""XLA's dump options: the optimised program of each executable, compiled or from the persistent cache."""

from pathlib import Path

import jax
import numpy as np
import pytest

from support import processes

ipu = jax.devices("ipu")[0]
X = np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("options", "suffixes"),
    [
        ({}, {".txt"}),
        ({"xla_dump_hlo_as_text": True}, {".txt"}),
        ({"xla_dump_hlo_as_proto": True}, {".pb"}),
        ({"xla_dump_hlo_as_proto": True, "xla_dump_hlo_as_text": True}, {".txt", ".pb"}),
    ],
)
def test_a_program_is_dumped_in_the_formats_asked_for(tmp_path: Path, options, suffixes) -> None:
    folder = tmp_path / "new" / "dumps"
    f = jax.jit(lambda x: x + 1, compiler_options={"xla_dump_to": str(folder), **options})
    compiled = f.lower(jax.device_put(X, ipu)).compile()
    files = {file.suffix: file for file in folder.iterdir()}
    assert files.keys() == suffixes
    assert all("ipu_after_optimizations" in file.name for file in files.values())
    if text := files.get(".txt"):
        assert text.read_text().strip() == compiled.as_text().strip()
    if proto := files.get(".pb"):
        assert b"jit__lambda" in proto.read_bytes()


def test_programs_of_the_cpu_are_left_to_xla(tmp_path: Path) -> None:
    f = jax.jit(lambda x: x + 1, compiler_options={"xla_dump_to": str(tmp_path)})
    f(jax.device_put(X, jax.devices("cpu")[0]))
    assert not list(tmp_path.glob("*ipu*"))


def test_flags_of_the_process_and_programs_from_the_cache(tmp_path: Path) -> None:
    program = """
        import jax, numpy as np
        f = jax.jit(lambda x: x * 2)
        print(f(jax.device_put(np.float32(2), jax.devices("ipu")[0])))
    """
    dumps = []
    for run in ("compiled", "cached"):
        folder = tmp_path / run
        variables = {
            "JAX_PLATFORMS": "ipu,cpu",
            "XLA_FLAGS": f"--xla_dump_to={folder}",
            "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        assert processes.output(program, **variables) == "4.0\n"
        dumps.append([file.read_text() for file in folder.glob("*lambda*ipu_after_optimizations.txt")])
    assert len(dumps[0]) == 1
    assert dumps[0] == dumps[1]
