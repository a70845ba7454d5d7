"""The command line jax-ipu: what it prints, as text and JSON, and its exit codes."""

import json
import os
import pty
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import jax_ipu
from jax_ipu.command_line.programs import functions_in
from support.commands import MODULE


def shape(*sizes, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(sizes, dtype)


def step(w, x):
    loss, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w - 1) ** 2))(w)
    return w - 0.5 * gradient, loss


@pytest.mark.parametrize("source", ["command_line_program", "command_line_program.py"])
def test_estimate_of_a_function(run, source):
    code, text, _ = run("estimate", f"{source}:step", "--target", "bow", "--batch", "32", "--donate", "0")
    expected = jax_ipu.estimate(step, shape(64, 10), shape(32, 64), target="bow", donate_argnums=0)
    assert code == 0 and f"{expected.cycles:,}" in text and "jit_step on bow:1472" in text
    assert "command_line_program.py:6" in text and "\x1b" not in text
    code, text, _ = run("estimate", f"{source}:step", "--target", "bow", "--batch", "32", "--donate", "0", "--json")
    values = json.loads(text)
    assert code == 0 and values["cycles"] == expected.cycles and values["state_bytes"] == 64 * 10 * 4
    assert len(values["operations"]) == len(expected.operations)


def test_arguments_of_functions(run):
    arguments = ("--arg", "f16[b,64]", "--arg", "f16[64, 8]", "--batch", "24", "--json")
    code, text, _ = run("estimate", "command_line_program:product", *arguments)
    expected = jax_ipu.estimate(jnp.dot, shape(24, 64, dtype=jnp.float16), shape(64, 8, dtype=jnp.float16))
    assert code == 0 and json.loads(text)["cycles"] == expected.cycles
    code, text, _ = run("estimate", "command_line_program:sine", "--args-from", "vectors", "--json")
    assert code == 0 and json.loads(text)["cycles"] == jax_ipu.estimate(jnp.sin, shape(30)).cycles
    code, text, _ = run("estimate", "command_line_program:sharded", "--arg", "f32[16,4]", "--num-ipus", "4", "--json")
    assert code == 0 and json.loads(text)["num_ipus"] == 4 and json.loads(text)["link_bytes"] > 0


def test_types_of_arguments(run):
    def cycles(text):
        return json.loads(run("estimate", "command_line_program:sine", "--arg", text, "--json")[1])["cycles"]

    assert cycles("f32[30,]") == cycles("float32[ 30 ]") == jax_ipu.estimate(jnp.sin, shape(30)).cycles
    assert cycles("f8e4m3fn[30]") == jax_ipu.estimate(jnp.sin, shape(30, dtype=jnp.float8_e4m3fn)).cycles


def test_json_is_all_that_there_is_on_standard_output(run):
    Path("talks.py").write_text("print('imported')\ndef f(x):\n    print('traced')\n    return x + 1\n")
    code, text, error = run("estimate", "talks.py:f", "--arg", "f32[2]", "--json")
    assert code == 0 and json.loads(text)["fits"] and error == "imported\ntraced\n"
    code, text, error = run("estimate", "talks.py:f", "--arg", "f32[2]")
    assert code == 0 and text.startswith("imported\ntraced\n") and error == ""


def test_a_script_does_not_see_the_arguments_of_the_command(run):
    Path("trains.py").write_text(
        "import argparse, jax.numpy\n"
        "batch = argparse.ArgumentParser().add_argument('--batch') and argparse.ArgumentParser().parse_args()\n"
        "step = jax.numpy.sin\n"
    )
    code, text, error = run("estimate", "trains.py:step", "--arg", "f32[b]", "--batch", "8", "--json")
    assert (code, error) == (0, "") and json.loads(text)["fits"]


def test_options_of_the_compiler(run):
    arguments = ("--arg", "f32[64,64]", "--arg", "f32[64,64]", "--option", "ipu_mapping=linear", "--json")
    code, text, _ = run("estimate", "command_line_program:product", *arguments)
    expected = jax_ipu.estimate(jnp.dot, shape(64, 64), shape(64, 64), compiler_options={"ipu_mapping": "linear"})
    assert code == 0 and json.loads(text)["cycles"] == expected.cycles


def test_a_program_that_does_not_fit_is_exit_code_1(run):
    arguments = ("command_line_program:product", "--arg", "f32[800,800]", "--arg", "f32[800,800]", "--target", "ipu2:2")
    code, text, _ = run("estimate", *arguments)
    assert code == 1 and "out of IPU memory" in text and "What helps" in text
    code, text, _ = run("estimate", *arguments, "--json")
    values = json.loads(text)
    assert code == 1 and values["fits"] is False and values["reason"] and values["cycles"] is None


@pytest.mark.parametrize("form", ["text.mlir", "bytecode.mlirbc", "exported", "program.hlo.pb"])
def test_files(run, tmp_path, form):
    path = tmp_path / form
    lowered = jax.jit(step).trace(shape(64, 10), shape(16, 64)).lower(lowering_platforms=("ipu",))
    exported = jax.export.export(jax.jit(step), platforms=["ipu"])(shape(64, 10), shape(16, 64))
    match form:
        case "text.mlir":
            path.write_text(lowered.as_text())
        case "bytecode.mlirbc":
            path.write_bytes(exported.mlir_module_serialized)
        case "exported":
            path.write_bytes(exported.serialize())
        case "program.hlo.pb":
            path.write_bytes(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
    code, text, _ = run("estimate", str(path), "--json")
    expected = jax_ipu.estimate(step, shape(64, 10), shape(16, 64)).cycles
    assert code == 0 and json.loads(text)["cycles"] == expected
    code, _, error = run("estimate", str(path), "--batch", "8")
    if form != "exported":
        assert code == 2 and "symbolic" in error


def test_an_exported_program_with_a_symbolic_batch(run, tmp_path):
    (batch,) = jax.export.symbolic_shape("b")
    exported = jax.export.export(jax.jit(step), platforms=["ipu", "cpu"])(shape(64, 10), shape(batch, 64))
    path = tmp_path / "step.bin"
    path.write_bytes(exported.serialize())
    code, text, _ = run("estimate", str(path), "--batch", "32", "--json")
    assert code == 0 and json.loads(text)["cycles"] == jax_ipu.estimate(step, shape(64, 10), shape(32, 64)).cycles
    code, _, error = run("estimate", str(path))
    assert code == 2 and "--batch" in error


def test_compare(run):
    code, text, _ = run("compare", "command_line_program:step", "--target", "ipu2, bow")
    header, *rows = text.splitlines()
    assert code == 0 and header.split()[0] == "target" and [row.split()[0] for row in rows] == ["ipu2", "bow"]
    functions = ("command_line_program:sine", "command_line_program:sine")
    code, text, _ = run("compare", *functions, "--arg", "f32[8]", "--target", "ipu2:1", "--json")
    assert code == 0 and list(json.loads(text)) == ["command_line_program:sine ipu2:1"]
    big = ("--arg", "f32[800,800]", "--arg", "f32[800,800]")
    code, text, _ = run("compare", "command_line_program:product", *big, "--target", "ipu2:2,ipu2:100", "--json")
    assert code == 1 and [e["fits"] for e in json.loads(text).values()] == [False, True]


def test_compare_with_what_was_saved(run, tmp_path):
    arguments = ("command_line_program:step", "--target", "ipu2:4")
    _, text, _ = run("estimate", *arguments, "--json")
    path = tmp_path / "before.json"
    path.write_text(text)
    code, text, _ = run("compare", str(path), *arguments, "--json")
    before, after = json.loads(text).values()
    assert code == 0 and before == after
    code, text, _ = run("compare", str(path), *arguments)
    assert code == 0 and text.count("1.00 x") == 4
    for content in ("{}", "nonsense", "[]", '{"operations": [], "nothing": 1}'):
        path.write_text(content)
        code, _, error = run("compare", str(path))
        assert code == 2 and "estimate --json" in error


def test_report(run, tmp_path):
    arguments = ("command_line_program:step", "--target", "ipu2:4")
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    code, text, _ = run("report", *arguments, "-o", str(before))
    assert code == 0 and f"wrote {before}" in text and "fits" in text
    report = jax_ipu.Report.load(before)
    assert (
        report.fits
        and report.estimate.cycles == jax_ipu.estimate(step, shape(64, 10), shape(16, 64), target="ipu2:4").cycles
    )
    code, text, _ = run("report", *arguments, "--batch", "64", "-o", str(after), "--json")
    assert code == 0 and json.loads(text)["format"] == report.as_dict()["format"]
    code, text, _ = run("compare", str(before), str(after), "--json")
    one, two = json.loads(text).values()
    assert code == 0 and 0 < one["cycles"] < two["cycles"]
    both = tmp_path / "both.json"
    code, text, error = run("compare", str(before), str(after), "-o", str(both))
    assert code == 0 and f"wrote {both}" in error and text.count(" x") == 4
    assert json.loads(both.read_text())["second"] == json.loads(after.read_text())
    big = ("--arg", "f32[1000,1000]", "--arg", "f32[1000,1000]", "--target", "ipu2:1")
    code, text, _ = run("report", "command_line_program:product", *big, "-o", str(tmp_path / "big.json"))
    assert code == 1 and "does not fit" in text
    code, text, _ = run("report", str(before), "-o", str(tmp_path / "again.json"))
    assert code == 0 and (tmp_path / "again.json").read_text() == before.read_text()


def test_report_with_advice(run, tmp_path):
    path, target = tmp_path / "step.json", ("--target", "ipu2:4")
    code, text, _ = run("report", "command_line_program:step", *target, "--advice", "-o", str(path))
    expected = jax_ipu.report(step, shape(64, 10), shape(16, 64), target="ipu2:4", advice=True)
    savings = {one["id"]: one["saving"] for one in jax_ipu.Report.load(path).insights if one["saving"]}
    assert code == 0 and savings == {one["id"]: one["saving"] for one in expected.insights if one["saving"]}
    assert "half precision" in savings and savings["half precision"]["cycles"] > 0
    for one in expected.insights:
        if one["saving"]:
            assert all(one[part] in text for part in ("title", "detail", "action"))
    # A file has its types; its other alternatives are those of the function.
    program = jax.jit(step).trace(shape(64, 10), shape(16, 64)).lower(lowering_platforms=("ipu",)).as_text()
    (tmp_path / "step.mlir").write_text(program)
    code, text, _ = run("report", str(tmp_path / "step.mlir"), *target, "--advice", "--json", "-o", str(path))
    found = {one["id"]: one for one in json.loads(text)["insights"]}
    assert code == 0 and {key for key in savings if key in found} == savings.keys() - {"half precision"}
    assert "Arguments of type" not in found["alternatives"]["detail"] and "Half" in found["alternatives"]["detail"]
    code, _, error = run("report", str(path), "--advice")
    assert code == 2 and "leave out --advice" in error


def test_largest_batch(run):
    arguments = ("command_line_program:step", "--target", "ipu2:1", "--start", "512", "--multiple-of", "256")
    code, text, error = run("largest-batch", *arguments, "--json")
    values = json.loads(text)
    assert code == 0 and error == "" and values["batch"] % 256 == 0 and values["estimate"]["fits"]
    found = jax_ipu.largest_batch(
        step, shape(64, 10), shape(512, 64), batch_axes=(None, 0), target="ipu2:1", multiple_of=256
    )
    assert values["batch"] == found.batch
    code, text, _ = run("largest-batch", *arguments, "--limit", "512")
    assert code == 0 and "largest batch: 512" in text
    big = ("--arg", "f32[b,1000]", "--arg", "f32[1000,1000]", "--target", "ipu2:1")
    code, text, _ = run("largest-batch", "command_line_program:product", *big)
    assert code == 1 and "no batch fits" in text and "What helps" in text


def test_functions_of_a_file_are_listed_without_running_it():
    assert functions_in(MODULE) == (
        "step product vectors unused sine sharded mismatch broken eights matrix even last chosen unsupported".split()
    )
    assert functions_in("f: int = 3\nclass C:\n    def g(self): ...\nh = partial(f)\nk = print(1)") == ["h"]


COMMANDS = "run estimate report compare largest-batch monitor doctor cache poplar popc info library-path".split()


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS), ["cache", "list"], ["cache", "clear"]])
def test_help_has_examples(run, command):
    code, text, error = run(*command, "--help")
    _, _, examples = text.partition("examples:\n")
    assert (code, error) == (0, "") and examples.strip()
    # Examples are command lines of this command.
    assert all(" ".join(["jax-ipu", *command]) in line for line in examples.splitlines() if line)
    described = " ".join(text.partition("examples:")[0].split())
    assert not re.search(r"\b(an|on|for) Ipu|\bas json\b|on an ipu\b", described)


def test_capitals_of_names_in_help(run):
    assert "Say whether a program fits on an IPU" in run("estimate", "--help")[1]
    assert "or its data as JSON." in run("report", "--help")[1]


def test_version(run):
    assert run("--version") == (0, f"jax-ipu {jax_ipu.__version__}\n", "")


def test_reports_make_their_folder(run, tmp_path):
    path = tmp_path / "new" / "folder" / "step.json"
    code, text, _ = run("report", "command_line_program:step", "--target", "ipu2:4", "-o", str(path))
    assert code == 0 and path.is_file() and f"wrote {path}" in text


def test_info(run, monkeypatch):
    monkeypatch.setenv("JAX_IPU_MAX_ISA", "avx2")
    code, text, _ = run("info", "--json")
    facts = json.loads(text)
    assert code == 0 and facts["versions"]["jax"] == jax.__version__
    assert Path(facts["library_path"]).name == "libpjrt_ipu.so"
    assert facts["configuration"]["max_isa"] == {"value": "avx2", "source": "JAX_IPU_MAX_ISA"}
    assert facts["configuration"]["host_threads"]["source"] == "default"
    assert len(facts["devices"]) == len(jax.devices("ipu")) and facts["devices"][0]["tiles"] == 1472
    chip = facts["chips"]["bow"]
    assert (chip["tiles"], chip["bytes_per_tile"]) == (1472, 624 * 1024)
    assert chip["peak_f16_flops_per_second"] == pytest.approx(349e12, rel=0.01)
    code, text, _ = run("info")
    assert code == 0 and "JAX_IPU_MAX_ISA" in text and "ipu21" in text and "349 TFLOP/s" in text
    monkeypatch.setenv("JAX_IPU_MAX_ISA", "avx3")
    code, text, _ = run("info")
    assert code == 0 and "not valid" in text and "avx3" in text


def test_colour_is_on_terminals_only():
    """In a process of its own, as users start it."""
    command = [sys.executable, "-P", "-m", "jax_ipu", "compare", "--help"]
    assert subprocess.run(command, capture_output=True, check=True).stdout.startswith(b"usage: jax-ipu compare")
    code = (
        "import sys; from jax_ipu.command_line.output import coloured; print(repr(coloured('text', 'red')), flush=True)"
    )

    def printed(**environ):
        kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
        leader, follower = pty.openpty()
        try:
            process = subprocess.Popen([sys.executable, "-c", code], stdout=follower, env={**kept, **environ})
            assert process.wait() == 0
            return os.read(leader, 1000).decode().strip()
        finally:
            os.close(leader)
            os.close(follower)

    assert printed(TERM="xterm") == repr("\x1b[31mtext\x1b[0m")
    assert printed(TERM="xterm", NO_COLOR="1") == printed(TERM="dumb") == repr("text")
    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert piped.stdout.strip() == repr("text")


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -P -m jax_ipu info | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "" and done.stdout.count("\n") == 1


@pytest.mark.parametrize("command", ["info", "estimate jax.numpy:sin --arg f32[2]"])
def test_output_that_cannot_be_written(command):
    command = f"{sys.executable} -P -m jax_ipu {command}"
    done = subprocess.run(["bash", "-c", f"{command} > /dev/full"], capture_output=True, text=True)
    assert done.returncode == 3 and "output cannot be written: No space left" in done.stderr
    assert "Traceback" not in done.stderr
    done = subprocess.run(["bash", "-c", f"{command} >&-"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_installed_command():
    """The entry point of the package names the function that these tests call."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"jax-ipu": "jax_ipu.command_line:main", "popc": "jax_ipu.command_line.popc:main"}


def test_library_path(run):
    code, text, _ = run("library-path", "--json")
    assert code == 0 and Path(json.loads(text)["library_path"]).is_file()
