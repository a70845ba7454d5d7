"""Reports of all programs of a process: JAX_IPU_REPORT_DIR."""

import json

import jax.numpy as jnp

import jax_ipu
from jax_ipu import compile_server
from jax_ipu.compiler import compile as compile_program
from jax_ipu.compiler.estimates import compilation_of
from jax_ipu.integration.programs import program_of
from jax_ipu.reports import automatic
from support.processes import output
from support.report_programs import shape, stored

TILES = 32
TARGET = f"ipu2:{TILES}"


REPORTING = """
import jax, jax.numpy as jnp
jax.config.update("jax_platforms", "ipu,cpu")
jax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones((16, 16))).block_until_ready()
try:
    jax.jit(lambda x: x @ x.T).lower(jax.ShapeDtypeStruct((4000, 4000), jnp.float32)).compile()
except Exception as error:
    print("too large", "RESOURCE_EXHAUSTED" in str(error))
"""


def test_a_report_for_every_program_of_a_process(tmp_path):
    folder = tmp_path / "reports"
    text = output(REPORTING, JAX_IPU_MODEL_NUM_TILES="32", JAX_IPU_REPORT_DIR=str(folder))
    assert "too large True" in text
    files = sorted(folder.glob("jit_*"))
    assert len({path.name.rsplit("-", 1)[0] for path in files}) >= 1 and len(files) >= 2
    pages = [stored(path.read_text()) if path.suffix == ".html" else json.loads(path.read_text()) for path in files]
    assert {page["program"]["fits"] for page in pages} == {True, False}
    assert all(page["chip"]["num_tiles"] == 32 for page in pages)


def test_the_compile_server_writes_reports(monkeypatch, tmp_path):
    program = program_of(jnp.sin, (shape(8),), {})
    assert compile_server._observer(program.mlir, program.options, TARGET) is None
    monkeypatch.setattr(type(jax_ipu.config), "report_folder", lambda self: str(tmp_path))
    observe = compile_server._observer(program.mlir, program.options, TARGET)
    compile_program(program.mlir, "mlir", program.options, TARGET, observe)
    assert [path.name.split("-")[0] for path in tmp_path.glob("jit_*")] == ["jit_sin"]


def test_the_same_program_has_the_same_file(tmp_path):
    # The serialised options of a program differ between processes.
    program = program_of(jnp.sin, (shape(8),), {})
    compilation = compilation_of(program.mlir, "mlir", program.options, TARGET, detailed=True)
    for options, target in ((program.options, TARGET), (b"", TARGET), (b"", "bow")):
        automatic.writer(str(tmp_path), program.mlir, options, target)(compilation)
    assert len(list(tmp_path.glob("jit_*"))) == 2


def test_an_unwritable_folder_is_a_warning(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    write = automatic.writer(str(tmp_path / "file" / "folder"), b"", b"", TARGET)
    program = program_of(jnp.sin, (shape(8),), {})
    write(compilation_of(program.mlir, "mlir", program.options, TARGET, detailed=True))
    assert "was not written" in caplog.text


def test_a_report_that_fails_is_one_warning(tmp_path, caplog, monkeypatch):
    def fail(compilation):
        raise IndexError("of a report")

    monkeypatch.setattr(automatic, "report_of", fail)
    program = program_of(jnp.sin, (shape(8),), {})
    for _ in range(2):
        observe = automatic.writer(str(tmp_path), program.mlir, program.options, TARGET)
        compile_program(program.mlir, "mlir", program.options, TARGET, observe)
    assert [record.message for record in caplog.records] == [
        "The report of jit_sin was not written: IndexError: of a report"
    ]
