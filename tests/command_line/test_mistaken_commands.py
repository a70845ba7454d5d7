"""Command lines that are not valid: their messages, and exit codes 2 and 3."""

import json
from pathlib import Path

import numpy as np
import pytest

from jax_ipu.command_line import doctor
from support.commands import MODULE


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
        (("estimate", "notebook.ipynb", "--arg", "f32[2]"), "jax_ipu.estimate and jax_ipu.report take it as it is"),
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
        (("estimate", "command_line_program:sine", "--arg", "f32[-1]"), "-1 is no size"),
        (
            ("estimate", "command_line_program.sine", "--arg", "f32[2]"),
            "write command_line_program:sine for the function",
        ),
        (("estimate", "command_line_program.py::sine"), "write one colon, command_line_program.py:sine"),
        (("estimate", "./command_line_program:sine"), "write ./command_line_program.py for the file"),
        (("estimate", "command_line_program:sharded", "--arg", "f32[8]", "--donate", "0"), "is jitted already"),
        (("estimate", "command_line_program:sine", "--arg", "f32[2]", "--target", "MK2"), "Did you mean ipu2?"),
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
        (
            ("estimate", "command_line_program:sine", "--arg", "f32[2]", "--target", "ipu2,bow"),
            "jax-ipu compare takes several",
        ),
        (("estimate", "command_line_program:sine", "--arg", "f32[2]", "--target", "ipu2:"), "'ipu2:' is not valid"),
        (("compare", "command_line_program:sine", "--arg", "f32[2]", "--target", "ipu2,"), "target '' is not valid"),
        (("estimate", ":sine"), "module:function"),
        (("estimate", "..package:sine"), "module:function"),
        (("estimate", "some.mlir", "--donate", "0"), "leave out --donate"),
        (("report", "before.json", "--batch", "3"), "leave out --batch"),
        (("report", "command_line_program:sine", "--arg", "f32[2]", "-o", "/proc/x.html"), "x.html: the report cannot"),
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
        (("run", "--num-ipus", "0", "x.py"), "'0' is no whole number of at least 1"),
        (("report", "x", "--advice=yes"), "--advice takes no value, but was given 'yes'"),
        (("run", "--chip", "bow", "x"), "--chip: did you mean --target?"),
        (("compare", "--chip", "bow", "x"), "--chip: did you mean --target?"),
        (("popc", "--chip", "ipu2", "x"), "--chip: did you mean --target?"),
        (("largest-batch", "x", "--batch", "8"), "--batch: did you mean --start?"),
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
    if "--multiple=3" in arguments:  # argparse takes an option that is cut short
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
