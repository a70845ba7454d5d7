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
import numpy as np
import pytest

import jax_ipu
from jax_ipu import command_line
from jax_ipu.command_line import doctor
from jax_ipu.command_line.programs import functions_in
from jax_ipu.integration.compilation_cache import entries

MODULE = """
import jax, jax.numpy as jnp
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

def step(w, x):
    loss, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w - 1) ** 2))(w)
    return w - 0.5 * gradient, loss

def example_args(batch=16):
    return jnp.zeros((64, 10)), jax.ShapeDtypeStruct((batch, 64), jnp.float32)

def product(x, y):
    return x @ y

def vectors():
    return [jnp.zeros(30)]

def unused(batch):
    return [jnp.zeros(30)]

def sine(x):
    return jnp.sin(x)

rows = NamedSharding(AbstractMesh((4,), ("ipus",)), PartitionSpec("ipus"))
sharded = jax.jit(lambda x: x - x.sum(0), in_shardings=rows)

def mismatch(w, x):
    return w + x

def _hidden(x):
    return x

def broken(x):
    raise RuntimeError("broken by intention")

def eights(x):
    return x.reshape(8, -1)

def matrix(x):
    if x.ndim != 2:
        raise ValueError("x must be a matrix")
    return x

def even(x):
    assert x.shape[0] % 2 == 0, "an even number of rows"
    return x

def last(x):
    return x * x.shape[1]

def chosen(x):
    return x if x > 0 else -x

def unsupported(x):
    return jax.ffi.ffi_call("target_of_another_library", x, custom_call_api_version=2)(x)

constant = 3
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The path of a module with functions; other tests have no module of this name."""
    path = tmp_path_factory.mktemp("command_line") / "command_line_program.py"
    path.write_text(MODULE)
    return path


@pytest.fixture
def run(capsys, monkeypatch, program):
    """Runs a command in the folder of the module; returns its exit code, standard output and stderr."""
    monkeypatch.chdir(program.parent)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("JAX_IPU_DEVICE_COUNT", os.environ["JAX_IPU_DEVICE_COUNT"])  # restored afterwards
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)

    def main(*arguments):
        try:
            code = command_line.main(arguments)
        except SystemExit as error:  # of argparse
            code = error.code
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return main


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("estimate", "nothing"), "nothing is no file"),
        (("estimate", "nothing.mlir"), "no file nothing.mlir"),
        (("estimate", "no_such_file.py"), "no file no_such_file.py"),
        (("estimate", "."), ". is a folder"),
        (("estimate", "command_line_program.py"), "command_line_program.py:step, command_line_program.py:product"),
        (("report", "command_line_program.py:"), "command_line_program.py:step, command_line_program.py:product"),
        (("compare", "command_line_program"), "command_line_program:sine, command_line_program:sharded"),
        (("estimate", "command_line_program:stp"), "Did you mean step?"),
        (("estimate", "command_line_program:step", "--donate", "2"), "--donate 2"),
        (("estimate", "command_line_program:step", "--arg", "f32[2]"), "takes (w, x), but gets 1 argument"),
        (("estimate", "command_line_program:sine", "--option", "outline=x"), "Did you mean ipu_outline?"),
        (("estimate", "command_line_program:sine", "--option", "ipu_outline=x"), "use one of memory"),
        (("estimate", "before.json"), "compare and report take"),
        *(((command, "page.html"), "report -o NAME.json writes") for command in ("estimate", "report", "compare")),
        (("estimate", "model.onnx"), "jax_ipu.GraphCoreManager runs models"),
        (("estimate", "notebook.ipynb"), "jax_ipu.estimate and jax_ipu.report take it as it is"),
        (("estimate", "notebook.ipynb:step"), "is no Python: write the function of the notebook to a file"),
        (("report", "some.mlir:main"), "is no Python: a program in a file is named without a function"),
        (("compare", "ends.py:f", "--arg", "f32[2]"), "SystemExit: 3\n  ends.py:2: sys.exit(3)\nPut what it does"),
        (("estimate", "empty.mlir"), "is empty"),
        (("report", "before.json"), "no report"),
        (("report", "command_line_program:step", "-o", "."), "ends in .html"),
        (("report", "command_line_program:step", "-o", "folder.json"), "a folder of this name"),
        (("report", "command_line_program:step", "-o", "empty.mlir/x.json"), "cannot be made"),
        (("popc", "no_such_file.cpp"), "no file no_such_file.cpp"),
        (("estimate", "no_such_module:f"), "no module no_such_module"),
        (("estimate", "no_such_file.py:f"), "no file no_such_file.py"),
        (("estimate", "command_line_program:g"), "has no g"),
        (("estimate", "command_line_program:constant"), "is no function, but a "),
        (("estimate", "command_line_program:sine", "--arg", "f32"), "write a type and a shape"),
        (("estimate", "command_line_program:sine", "--arg", "f33[2]"), "no type f33"),
        (("estimate", "command_line_program:sine", "--arg", "f32[b]"), "--batch"),
        (("estimate", "command_line_program:sine", "--arg", "f32[n]"), "n is no size"),
        *(
            (("report", "command_line_program:sine", "--arg", f"f32[{n}]"), "between commas")
            for n in ("2,,3", ",", ",2")
        ),
        (("estimate", "command_line_program:sine", "--arg", "f64[2]"), "JAX would take float32 for float64"),
        (("estimate", "command_line_program:sine", "--arg", "f32[2]", "--args-from", "vectors"), "not both"),
        (("estimate", "command_line_program:sine", "--arg", "f32[2]", "--option", "x"), "NAME=VALUE"),
        (("estimate", "command_line_program:sine", "--arg", "f32[2]", "--donate", "x"), "positions"),
        (("estimate", "command_line_program:sine", "--arg", "f32[2]", "--target", "ipu9"), "ipu9"),
        (("estimate", "command_line_program:sine", "--arg", "f32[2]", "--num-ipus", "2"), "over 1 IPU, not over 2"),
        (("largest-batch", "command_line_program:sine", "--limit", "1", "--multiple-of", "2"), "--limit 1"),
        (("largest-batch", "command_line_program:sine", "--arg", "f32[2]"), "no --arg has a batch"),
        (("largest-batch", "command_line_program:sine", "--args-from", "vectors"), "vectors takes no batch"),
        (("largest-batch", "command_line_program:sine", "--args-from", "unused"), "has no batch"),
        (("largest-batch", "command_line_program:vectors", "--arg", "f32[]"), "no --arg has a batch"),
        (("estimate", "command_line_program:sine", "--arg", "f32[2]", "--batch", "4"), "no --arg has a batch"),
        (("compare", "command_line_program:sine", "--arg", "bool[2]", "--batch", "4"), "no --arg has a batch"),
        (("report", "command_line_program:sine", "--arg", "f32[2]", "-o", "x.pdf"), "ends in .html"),
        (("report", "command_line_program:sine", "--arg", "f32[2]", "-o", "no_such_folder/x.txt"), "ends in .html"),
        (("compare", "command_line_program:sine", "--arg", "f32[2]", "-o", "x.html"), "two .json files"),
        (("estimate", "command_line_program:mismatch", "--arg", "f32[2]", "--arg", "f32[3]"), "in mismatch"),
        (("report", "command_line_program:product", "--arg", "f32[2]", "--arg", "f32[3]"), "not take --arg f32[2]"),
        (("compare", "command_line_program:matrix", "--arg", "f32[2]"), "x must be a matrix"),
        (("estimate", "command_line_program:even", "--arg", "f32[3]"), "an even number of rows"),
        (("estimate", "command_line_program:last", "--arg", "f32[3]"), "IndexError"),
        (("estimate", "command_line_program:eights", "--arg", "f32[b]", "--batch", "7"), "a batch of 7"),
        (("estimate", "command_line_program:product", "--batch", "7"), "does not take a batch of 7"),
        (("largest-batch", "command_line_program:eights", "--arg", "f32[b]"), "multiples of --multiple-of, which is 1"),
        (("estimate", "command_line_program:sine", "--args-from", "unused"), "needs a batch"),
        (("estimate", "command_line_program:sine", "--args-from", "product"), "needs arguments of its own"),
        (("estimate", "command_line_program:sine", "--arg", f"f32[{1 << 63}]"), "more elements than any array"),
        *((("estimate", "command_line_program:sine", "--arg", f"{name}[2]"), "no type") for name in ("object", "S3")),
        (("estimate", "command_line_program:sine", "--arg", "f32[2]", "--donate", "-1"), "--donate -1"),
        (("estimate", "command_line_program:sine", "--arg", "f32[2]", "--target", "ipu2,bow"), "'ipu2,bow' is not"),
        (("estimate", "command_line_program:sine", "--arg", "f32[2]", "--target", "ipu2:"), "'ipu2:' is not valid"),
        (("compare", "command_line_program:sine", "--arg", "f32[2]", "--target", "ipu2,"), "target '' is not valid"),
        (("estimate", ":sine"), "module:function"),
        (("estimate", "..package:sine"), "module:function"),
        (("estimate", "some.mlir", "--donate", "0"), "leave out --donate"),
        (("report", "before.json", "--batch", "3"), "leave out --batch"),
        (("compare", "before.json", "--target", "bow", "--arg", "f32[2]"), "leave out --arg, --target"),
        (("run", "--target", "ipu2:9999", "command_line_program.py"), "1 to 1472"),
        (("run", "."), "without a file __main__.py"),
        (("run", "-m", "no_such_module"), "no module no_such_module"),
        (("run", "--report-dir", "before.json", "command_line_program.py"), "before.json is no folder"),
        (("popc", "command_line_program.py"), "is no C++ source"),
        (("popc", "some.cpp", "-o", "no_such_folder/some.gp"), "no folder no_such_folder"),
        (("popc", "some.cpp", "-o", "folder.json"), "a folder of this name"),
        (("cache", "list"), "JAX_COMPILATION_CACHE_DIR"),
        (("cache", "clear", "--dir", "no_such_folder"), "no folder"),
    ],
)
def test_invalid_command_lines_are_exit_code_2(run, arguments, message):
    Path("before.json").write_text("{}")
    Path("page.html").write_text("<!doctype html>")
    Path("model.onnx").write_bytes(b"\x08\x07")
    Path("empty.mlir").touch()
    Path("some.mlir").write_text("module {}")
    Path("some.cpp").touch()
    Path("notebook.ipynb").write_text("{}")
    Path("ends.py").write_text("import sys\nsys.exit(3)\n")
    Path("folder.json").mkdir(exist_ok=True)
    code, text, error = run(*arguments)
    assert (code, text) == (2, "") and message in error
    # What follows the script of `run` is the script's.
    code, text, _ = run("run", "--json", *arguments[1:]) if arguments[0] == "run" else run(*arguments, "--json")
    assert code == 2 and json.loads(text)["exit_code"] == 2 and message in json.loads(text)["error"]


def test_unknown_commands_and_options_are_exit_code_2(run):
    for arguments in ((), ("nothing",), ("estimate",), ("info", "--nothing"), ("estimate", "x", "--batch", "0")):
        code, text, error = run(*arguments)
        assert (code, text) == (2, "") and "usage" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("estiamte", "x"), "no COMMAND estiamte. Did you mean estimate?"),
        (("cache", "lst"), "no ACTION lst. Did you mean list?"),
        (("estimate", "x", "--taget", "bow"), "--taget: did you mean --target?"),
        (("estimate", "x", "--chip", "bow"), "unknown arguments: --chip bow. --chip: did you mean --target?\n"),
        (("estimate", "--chip=bow", "x"), "--chip=bow: did you mean --target?"),
        (("report", "x", "--devices", "4"), "--devices: did you mean --num-ipus?"),
        (("estimate", "x", "--zzz"), "--zzz: no option of jax-ipu estimate"),
        (("run", "--chip", "bow", "x"), "--chip: did you mean --target?"),
        (("compare", "--chip", "bow", "x"), "--chip: did you mean --target?"),
        (("popc", "--chip", "ipu2", "x"), "--chip: did you mean --target?"),
        (("info", "--chip", "bow"), "--chip: no option of jax-ipu info"),
        (("monitor", "--chip", "bow"), "--chip: no option of jax-ipu monitor"),
        (("largest-batch", "x", "--multiple=3"), "--multiple-of"),
        (("estimate", "x", "--batch", "many"), "'many' is no whole number of at least 1"),
        (("estimate", "x", "--top", "-1"), "'-1' is no whole number of at least 0"),
        (("monitor", "--interval", "x"), "from 0.05 to 3600"),
        (("monitor", "--count", "0"), "at least 1"),
    ],
)
def test_misspelt_commands_and_options(run, arguments, message):
    code, text, error = run(*arguments)
    if arguments[0] == "largest-batch":  # argparse takes an option that is cut short
        assert code == 2 and "x is no file" in error
        return
    assert (code, text) == (2, "") and message in error and "--help" in error


@pytest.mark.parametrize(
    "arguments",
    [
        ("estimate", "FILE:sine", "--arg", "f32[8]"),
        ("report", "FILE:sine", "--arg", "f32[8]"),
        ("largest-batch", "FILE:sine", "--arg", "f32[b]"),
        ("compare", "FILE:sine", "--arg", "f32[8]"),
        ("run", "FILE"),
    ],
)
def test_misspelt_chips(run, arguments):
    command, *others = (one.replace("FILE", str(MODULE)) for one in arguments)
    code, text, error = run(command, "--target", "boww", *others)
    assert (code, text) == (2, "") and "ipu1, ipu2, ipu21, bow" in error and "Did you mean bow?" in error


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


def test_errors_of_programs_have_the_line_of_the_user(run):
    code, _, error = run("estimate", "command_line_program.py:mismatch", "--arg", "f32[2]", "--arg", "f32[3]")
    assert code == 2 and "TypeError: add got incompatible shapes" in error
    line = MODULE.splitlines().index("    return w + x") + 1
    assert f"  command_line_program.py:{line}, in mismatch: return w + x\n" in error
    Path("imports_nothing.py").write_text("\nimport no_such_module\n")
    code, _, error = run("estimate", "imports_nothing.py:f")
    assert code == 3 and "imports_nothing.py:2: import no_such_module" in error
    Path("does_not_parse.py").write_text("def f(x)\n")
    code, _, error = run("estimate", "does_not_parse.py")
    assert code == 2 and "line 1" in error


def test_programs_that_fail_are_exit_code_3(run, tmp_path):
    code, _, error = run("estimate", "command_line_program:broken", "--arg", "f32[2]")
    assert code == 3 and "RuntimeError: broken by intention" in error and "Traceback" not in error
    code, _, error = run("estimate", "command_line_program:broken", "--arg", "f32[2]", "--traceback")
    assert code == 3 and "Traceback" in error and "command_line_program.py" in error
    code, _, error = run("estimate", "command_line_program:chosen", "--arg", "f32[]")
    assert code == 3 and "TracerBoolConversionError" in error
    code, text, error = run("estimate", "command_line_program:unsupported", "--arg", "f32[2]", "--json")
    assert code == 3 and "target_of_another_library" in json.loads(text)["error"]
    path = tmp_path / "damaged.mlir"
    path.write_text("module { nonsense }")
    code, _, error = run("estimate", str(path))
    assert code == 3 and "not valid StableHLO" in error and f'error: "{path}":1:10:' in error


def test_other_files_are_no_programs(run, tmp_path):
    """What a parser makes of their bytes is not shown."""
    path = tmp_path / "arrays.npy"
    np.save(path, np.zeros(3))
    code, _, error = run("estimate", str(path))
    assert code == 2 and error.rstrip().endswith("no HLO proto (.hlo.pb), and was not written by jax.export")


def test_refused_arguments_have_a_traceback_too(run):
    code, _, error = run("estimate", "command_line_program:matrix", "--arg", "f32[2]", "--traceback")
    assert code == 2 and "Traceback" in error and "x must be a matrix" in error


def test_variables_that_are_not_valid_are_exit_code_2(run, monkeypatch):
    monkeypatch.setenv("JAX_IPU_MODEL_VERSION", "boww")
    code, _, error = run("estimate", "command_line_program:sine", "--arg", "f32[2]")
    assert code == 2 and "JAX_IPU_MODEL_VERSION='boww' is not valid" in error


def test_interrupted_commands_are_exit_code_130(run, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "CHECKS", (interrupt,))
    code, _, error = run("doctor")
    assert code == 130 and "interrupted" in error


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


def test_the_doctor_starts_without_the_extension_and_jaxlib():
    """It must run where these cannot be imported, to say so."""
    code = "import sys, jax_ipu.command_line; print([m for m in sys.modules if m in ('jaxlib', 'jax', 'jax_ipu._ipu')])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "[]\n"


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
