"""The commands doctor and cache: what is wrong with an installation, and with stored programs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jax_ipu.command_line import doctor
from jax_ipu.integration.compilation_cache import entries


def compile_into(folder, *names):
    """Fills a compilation cache with programs of these names for ipu, and one for the CPU."""
    code = f"""
import jax, numpy as np
for name in {names}:
    def f(x): return (x * len(name)).sum()
    f.__name__ = name
    jax.jit(f, backend="ipu")(np.ones(4, np.float32))
jax.jit(lambda x: x + 1)(np.ones(4, np.float32))
"""
    options = {"MIN_COMPILE_TIME_SECS": "0", "MIN_ENTRY_SIZE_BYTES": "-1"}
    environ = {f"JAX_PERSISTENT_CACHE_{name}": value for name, value in options.items()}
    environ |= {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(folder)}
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, env={**os.environ, **environ})


def test_cache(run, tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    folder.mkdir()
    compile_into(folder, "first", "second")
    files = sorted(path.name for path in folder.iterdir())
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(folder))
    code, text, _ = run("cache", "list", "--json")
    listed = json.loads(text)
    assert code == 0 and [e["name"] for e in listed] == ["jit_first", "jit_second"]
    assert all(e["target"] == "ipu2:1472" and e["num_ipus"] == 1 and e["usable"] for e in listed)
    # An entry of another version of the format, as an older release would leave it.
    from jax._src import compilation_cache

    old = Path(listed[0]["path"])
    stored = compilation_cache.decompress_executable(old.read_bytes())
    start = stored.index(b"JAXIPUEX") + 8
    old.write_bytes(compilation_cache.compress_executable(stored[:start] + b"\1\0\0\0" + stored[start + 4 :]))
    code, text, _ = run("cache", "list")
    assert code == 0 and "stale" in text and "2 programs" in text and "clear --stale" in text
    assert [f.state for f in doctor.check_cache()] == ["warning"]
    code, text, _ = run("cache", "clear", "--stale", "--json")
    assert code == 0 and json.loads(text)["removed"] == 1
    assert [e.name for e in entries(folder)] == ["jit_second"]
    assert [f.state for f in doctor.check_cache()] == ["ok"]
    code, text, _ = run("cache", "clear", "--dir", str(folder))
    assert code == 0 and "removed 1 program," in text
    left = sorted(path.name for path in folder.iterdir())
    assert left == sorted(f for f in files if "lambda" in f)  # not for ipu


def test_damaged_entries_of_a_cache(run, tmp_path, monkeypatch):
    """JAX keeps them, and warns of them in every process."""
    from jax._src import compilation_cache

    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    content = compilation_cache.compress_executable(b"text" * 100)
    sealed = b"JAXIPUEX" + (1 << 31).to_bytes(4, "little") + bytes(40)  # a version that no release has
    for name, data in (
        ("jit_empty-1", b""),
        ("jit_cut-2", content[:-8]),
        ("jit_changed-3", b"x" + content),
        ("jit_foreign-4", content),
        ("jit_of_ipu-5", compilation_cache.compress_executable(sealed[:20])),
        ("jit_old-6", compilation_cache.compress_executable(sealed)),
    ):
        (tmp_path / f"{name}-cache").write_bytes(data)
    (tmp_path / "jit_folder-7-cache").mkdir()
    code, text, _ = run("cache", "list", "--json")
    listed = {entry["name"]: entry for entry in json.loads(text)}
    assert code == 0 and {name: entry["state"] for name, entry in listed.items()} == {
        **dict.fromkeys(("jit_changed", "jit_cut", "jit_empty", "jit_folder", "jit_of_ipu"), "damaged"),
        "jit_old": "stale",
    }
    assert all(entry["problem"] and not entry["usable"] for entry in listed.values())
    code, text, _ = run("cache", "list")
    assert "6 programs" in text and text.count("damaged") >= 5 and "clear --stale" in text
    assert [f.what.partition("has ")[2][:10] for f in doctor.check_cache()] == ["1 entry th", "5 entries "]
    (tmp_path / "jit_folder-7-cache").rmdir()
    code, text, _ = run("cache", "clear", "--stale")
    assert code == 0 and "removed 5 programs" in text
    assert [path.name for path in tmp_path.iterdir()] == ["jit_foreign-4-cache"]
    assert states(doctor.check_cache()) == ["ok"]
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "jit_foreign-4-cache"))
    (finding,) = doctor.check_cache()
    assert finding.state == "warning" and "is no folder" in finding.what


def states(findings):
    return [finding.state for finding in findings]


def test_doctor_of_a_working_installation(run):
    code, text, _ = run("doctor", "--json")
    findings = json.loads(text)
    assert code == 0 and {f["state"] for f in findings} <= {"ok", "warning"}, findings
    assert any("compiled and run" in f["what"] for f in findings)


def test_doctor_finds_versions_that_do_not_work(monkeypatch):
    versions = {"jax_ipu": "0.1.0", "jax": "0.9.1", "jaxlib": "0.10.2"}
    requirements = {"jax_ipu": ["jax<0.13,>=0.10", "jaxlib (>=0.10)"], "jax": ["jaxlib<=0.9.1,>=0.9.1", "numpy>=2"]}
    monkeypatch.setattr(doctor, "version_of", versions.get)
    monkeypatch.setattr(doctor.importlib.metadata, "requires", requirements.get)
    of_jax, of_jaxlib = doctor.check_versions()
    assert of_jax.state == of_jaxlib.state == "error"
    assert "jax 0.9.1 does not work with jax_ipu" in of_jax.what
    assert of_jax.action == "pip install 'jax<0.13,>=0.10'"
    assert "jaxlib 0.10.2 does not work with jax" in of_jaxlib.what
    requirements["jax"][0] = "jaxlib<=0.12.1,>=0.10.2; python_version >= '3.11'"
    versions["jax"] = "0.12.0.1"
    assert states(doctor.check_versions()) == ["ok", "ok"]
    versions.clear()
    assert states(doctor.check_versions()) == ["warning", "error", "error"]


@pytest.mark.parametrize(
    ("version", "expected"),
    [("0.10.0", True), ("0.10.2", True), ("0.12.0.1", True), ("0.9.9", False), ("0.13.0", False), ("1.0", False)],
)
def test_bounds_of_versions(version, expected):
    assert doctor.satisfies(version, "<0.13,>=0.10") == expected


def test_doctor_finds_a_missing_compiler(monkeypatch, tmp_path):
    assert states(doctor.check_compiler()) == []
    monkeypatch.setenv("JAX_IPU_PYTHON", sys.executable)
    assert states(doctor.check_compiler()) == ["ok"]
    monkeypatch.setenv("JAX_IPU_PYTHON", str(tmp_path / "python"))
    assert states(doctor.check_compiler()) == ["error"]
    monkeypatch.setenv("JAX_IPU_PYTHON", "false")
    (finding,) = doctor.check_compiler()
    assert finding.state == "error" and "no compiler" in finding.what


def test_doctor_finds_two_plugins(monkeypatch):
    point = doctor.importlib.metadata.EntryPoint("ipu", "another_package.plugin", "jax_plugins")
    own = doctor.importlib.metadata.EntryPoint("ipu", "jax_ipu.plugin", "jax_plugins")
    monkeypatch.setattr(doctor.importlib.metadata, "entry_points", lambda group: [own, point])
    assert "another_package.plugin" in next(f for f in doctor.check_plugins() if f.state == "error").what
    monkeypatch.setattr(doctor.importlib.metadata, "entry_points", lambda group: [])
    assert states(doctor.check_plugins()) == ["error"]
    monkeypatch.setattr(doctor.importlib.metadata, "entry_points", lambda group: [own])
    assert states(doctor.check_plugins()) == ["ok"]


def test_doctor_finds_a_second_copy(monkeypatch, tmp_path):
    (tmp_path / "jax_ipu").mkdir()
    (tmp_path / "jax_ipu" / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    (finding,) = doctor.check_packages()
    assert finding.state == "warning" and str(tmp_path) in finding.what


def test_doctor_finds_variables(monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("JAX_IPU_MODEL_VERSON", "bow")
    monkeypatch.setenv("JAX_IPU_MAX_ISA", "avx3")
    found = {f.state: f.what for f in doctor.check_configuration() if "JAX_PLATFORMS" not in f.what}
    assert "avx3" in found["error"] and "JAX_IPU_MODEL_VERSION" in found["warning"]
    assert any("hides" in f.what for f in doctor.check_configuration())


def test_doctor_says_why_a_program_fails(monkeypatch):
    monkeypatch.setattr(doctor, "_PROGRAM", "raise RuntimeError('no device')")
    (finding,) = doctor.check_program()
    assert finding.state == "error" and "no device" in finding.what
    monkeypatch.setattr(doctor, "_PROGRAM", "import os; os.abort()")
    (finding,) = doctor.check_program()
    assert finding.state == "error" and "signal 6" in finding.what


def test_errors_of_an_installation_are_exit_code_1(run, monkeypatch):
    monkeypatch.setattr(doctor, "CHECKS", (lambda: iter([doctor.Finding("error", "wrong", "do this")]),))
    code, text, _ = run("doctor")
    assert code == 1 and "wrong" in text and "do this" in text


def test_the_doctor_starts_without_the_extension_and_jaxlib():
    """It must run where these cannot be imported, to say so."""
    code = "import sys, jax_ipu.command_line; print([m for m in sys.modules if m in ('jaxlib', 'jax', 'jax_ipu._ipu')])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "[]\n"
