"""Mistakes of newcomers: the error says what is wrong, where and what to do, in the last line of the traceback."""

import re
import traceback
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu
from jax_ipu import GraphCoreManager, command_line, tile
from jax_ipu.config import Config
from support.processes import run

PACKAGE = str(Path(jax_ipu.__file__).parent)
HERE = Path(__file__).name
ipu = jax.devices("ipu")[0]
ONES = np.ones(3, np.float32)
PARAMS = (lambda p, x: x @ p, np.ones((3, 1), np.float32))
BATCH = (np.ones((2, 3), np.float32), np.ones((2, 1), np.float32))
BROKEN = """
#include <poplar/Vertex.hpp>
struct Mistaken : poplar::Vertex {
  poplar::Input<float> x;
  poplar::Output<float> y;
  bool compute() { return missing; }
};
"""


def put(x):
    return jax.device_put(x, ipu)


def use_donated_array():
    f = jax.jit(lambda state: {"w": state["w"] + 1}, donate_argnums=0)
    state = {"w": put(ONES)}
    f(state)
    f(state)


def donate_twice():
    x = put(ONES)
    jax.jit(lambda a, b: (a + 1, b + 1), donate_argnums=(0, 1))(x, x)


def set_after_start():
    jax_ipu.config.device_count = 2


def misspell_option():
    jax_ipu.config.model_versoin = "bow"


def leak_a_value():
    kept = []
    jax.jit(lambda x: kept.append(x) or x)(put(1.0))
    return kept[0] + 1


def too_large():
    params = {"layer": {"kernel": put(np.ones(40_000, np.float32))}}
    f = jax.jit(lambda params: jnp.outer(params["layer"]["kernel"], params["layer"]["kernel"] + 1))
    f(params)


def run_vertex(primitive, tiles=(0, 1)):
    f = jax.jit(lambda x: tile.tile_map(primitive, tile.tile_put_sharded(x, tiles)).array)
    f(put(np.ones(2, np.float32)))


def broken_codelet():
    run_vertex(tile.create_ipu_tile_primitive("mistaken", "Mistaken", ["x"], {"y": 0}, gp_filename=BROKEN))


def execute(example, inputs):
    with GraphCoreManager() as manager:
        manager.compile_model(lambda x: x["a"] + x["b"], example)(inputs)


def train(loss, optimizer, batch=BATCH, **settings):
    with GraphCoreManager() as manager:
        manager.compile_training_step(PARAMS, loss, optimizer, batch, **settings)


def save_report(tmp_path, name):
    (tmp_path / "file").touch()
    (tmp_path / "folder.html").mkdir()
    jax_ipu.report(jnp.sin, 1.0, target="ipu2:1", path=tmp_path / name)


def report():
    return jax_ipu.report(jnp.sin, 1.0, target="ipu2:1")


def trace_into(path):
    with jax_ipu.trace(path):
        pass


# What is done, the class of the error, and its text. Some texts are JAX's own.
MISTAKES = {
    "shapes": (lambda p: jax.jit(jnp.dot)(put(BATCH[0]), put(BATCH[0])), TypeError, r"contracting dimensions.*\(3,\)"),
    "donated array": (lambda p: use_donated_array(), ValueError, r"argument 0 .*has been deleted or donated"),
    "donated twice": (lambda p: donate_twice(), Exception, r"donate the same buffer twice.*f\(donate\(a\), donate"),
    "backend": (lambda p: jax.devices("ipus"), RuntimeError, r"Unknown backend ipus.*'ipu'"),
    "mesh": (
        lambda p: jax.make_mesh((64,), ("x",), devices=jax.devices("ipu")),
        ValueError,
        r"Number of devices \d+ .*\(64,\)",
    ),
    "option": (lambda p: misspell_option(), AttributeError, r"no option 'model_versoin'\. Did you mean model_version"),
    "option after the start": (lambda p: set_after_start(), RuntimeError, r"before the first.*JAX_IPU_DEVICE_COUNT"),
    "compiler option": (
        lambda p: jax.jit(jnp.sin, compiler_options={"ipu_advice_second": 1})(put(ONES)),
        Exception,
        r"No such compile option: 'ipu_advice_second'\. Did you mean ipu_advice_seconds",
    ),
    "value of a compiler option": (
        lambda p: jax.jit(jnp.sin, compiler_options={"ipu_advice_seconds": "long"})(put(ONES)),
        Exception,
        r"ipu_advice_seconds=long is not valid; use a number of seconds",
    ),
    "text as an array": (lambda p: put(np.array(["a"])), TypeError, r"<U1 is not a valid JAX array type"),
    "dynamic shape": (lambda p: jax.jit(lambda x: x[x > 0])(put(ONES)), IndexError, r"must be concrete; got bool\[3\]"),
    "branch": (lambda p: jax.jit(lambda x: x if x else -x)(put(1.0)), Exception, rf"{HERE}:\d+ for jit.*argument x"),
    "side effect": (lambda p: leak_a_value(), Exception, rf"side effect.*at .*{HERE}:\d+ traced for jit"),
    "no function": (lambda p: jax.jit(3), TypeError, "Expected a callable value, got 3"),
    "estimate of a result": (
        lambda p: jax_ipu.estimate(jnp.sin(1.0), 1.0),
        TypeError,
        r"expected a function and its arguments, as in estimate\(f, x\).*got Array",
    ),
    "estimate of text": (lambda p: jax_ipu.estimate(lambda x: x, "text"), TypeError, r"type <class 'str'>.* at path x"),
    "keyword": (
        lambda p: jax_ipu.report(jnp.sin, 1.0, targt="bow"),
        TypeError,
        "report has no argument 'targt', nor has sin. Did you mean target",
    ),
    "target": (lambda p: jax_ipu.estimate(jnp.sin, 1.0, target="bov"), Exception, "'bov' is not .* mean bow"),
    "no tiles": (lambda p: jax_ipu.estimate(jnp.sin, 1.0, target="ipu2:0"), Exception, "'ipu2:0' is not valid; write"),
    "target that is no text": (lambda p: jax_ipu.estimate(jnp.sin, 1.0, target=2), Exception, "2 is not valid; write"),
    "one target to compare": (
        lambda p: jax_ipu.estimate(jnp.sin, 1.0, compare="bow"),
        ValueError,
        r"compare='bow': give several targets, as in compare=\(",
    ),
    "limit of batches": (
        lambda p: jax_ipu.largest_batch(jnp.sin, ONES, limit="1024"),
        TypeError,
        "limit='1024' is no whole number",
    ),
    "chip in capitals": (lambda p: jax_ipu.estimate(jnp.sin, 1.0, target="IPU2"), Exception, "Did you mean ipu2"),
    "IPUs that there are": (
        lambda p: jax_ipu.GraphCoreManager(num_ipus=1 + jax.local_device_count("ipu")).__enter__(),
        RuntimeError,
        r"but there (is 1 IPU|are \d+ IPUs): set JAX_IPU_DEVICE_COUNT",
    ),
    "tiles of a target": (lambda p: jax_ipu.estimate(jnp.sin, 1.0, target="ipu2:many"), Exception, "write .*ipu2:1472"),
    "too large": (
        lambda p: too_large(),
        Exception,
        rf"out of IPU memory: .* at {HERE}:\d+ .*params\['layer'\]\['kernel'\] f32\[40000\].*What helps",
    ),
    "number of IPUs of an estimate": (
        lambda p: jax_ipu.estimate(jnp.sin, 1.0, target="ipu2:1", num_ipus=2),
        ValueError,
        r"over 1 IPU, not over 2\. Give arguments with shardings over a mesh of 2",
    ),
    "options as a list": (
        lambda p: jax_ipu.estimate(lambda x: x, ONES, compiler_options=["ipu_outline"]),
        TypeError,
        "are a dictionary, such as .*not of the type list",
    ),
    "attribute of an estimate": (
        lambda p: report().cycles,
        AttributeError,
        "'cycles'. Its estimate has: report.estimate",
    ),
    "name of a plot": (lambda p: report().plot("steps").save(p / "steps.png"), ValueError, r"ends in \.svg"),
    "function as a primitive": (
        lambda p: tile.tile_map(jnp.sin, tile.tile_put_sharded(ONES, (0, 1, 2))),
        TypeError,
        r"takes a primitive, such as jax\.lax\.sin_p, not",
    ),
    "class as a model": (
        lambda p: GraphCoreManager().compile_model(Config, ONES),
        TypeError,
        r"Config is a class, not a mod",
    ),
    "number of inputs": (
        lambda p: GraphCoreManager().compile_model(jnp.sin, ONES)(ONES, ONES),
        ValueError,
        "compiled for 1 input, and gets 2",
    ),
    "shape of targets": (
        lambda p: train("mean_squared_error", "sgd", batch=(BATCH[0], BATCH[1][:, 0])),
        ValueError,
        r"outputs have the shape \(2, 1\), the targets \(2,\)",
    ),
    "shape of class numbers": (
        lambda p: train("cross_entropy", "sgd", batch=(BATCH[0], np.zeros((2, 1), np.int32))),
        ValueError,
        r"cross_entropy: outputs of the shape \(2, 1\) take class numbers of the shape \(2,\)",
    ),
    "name": (lambda p: jax_ipu.estimat, AttributeError, "no attribute 'estimat'. Did you mean estimate"),
    "number of IPUs": (lambda p: GraphCoreManager(num_ipus="2"), ValueError, "num_ipus='2' .*whole number"),
    "precision": (lambda p: GraphCoreManager(precision="fp16"), ValueError, "'fp16' .*float32, float16, mixed"),
    "too many IPUs": (
        lambda p: GraphCoreManager(num_ipus=4096).initialize(),
        RuntimeError,
        "JAX_IPU_DEVICE_COUNT=4096, or jax_ipu.config.device_count = 4096 before",
    ),
    "no model": (lambda p: GraphCoreManager().compile_model({"a": 1}, ONES), TypeError, "dict is not a model"),
    "memory proportion as text": (
        lambda p: GraphCoreManager(memory_proportion="0.6"),
        ValueError,
        "memory_proportion='0.6' is not valid: give a number",
    ),
    "learning rate as text": (
        lambda p: train("mean_squared_error", "sgd", learning_rate="0.1"),
        TypeError,
        "learning_rate='0.1' is not valid: give a number",
    ),
    "loss that is no function": (lambda p: train(3, "sgd"), TypeError, r"loss=3 is not valid: give a function"),
    "micro-batches as text": (
        lambda p: train("mean_squared_error", "sgd", gradient_accumulation="2"),
        ValueError,
        "gradient_accumulation='2' is not valid",
    ),
    "loss": (lambda p: train("mse", "sgd"), ValueError, 'no loss "mse": use mean_squared_error'),
    "optimizer": (lambda p: train("mean_squared_error", "sgdd"), ValueError, 'no optimizer "sgdd": use sgd'),
    "shape of an input": (
        lambda p: execute({"a": ONES, "b": ONES}, {"a": ONES, "b": np.ones(4, np.float32)}),
        ValueError,
        r"input 0\['b'\] has the shape \(4,\), but .* for \(3,\): compile it again",
    ),
    "type of an input": (
        lambda p: execute({"a": ONES, "b": ONES}, {"a": ONES, "b": np.array(["x"] * 3)}),
        ValueError,
        r"input 0\['b'\] is <U1, but .* for float32: convert it",
    ),
    "model file": (
        lambda p: GraphCoreManager().load(p / "none.ipu"),
        FileNotFoundError,
        r"model cannot be read: there is no such file .*CompiledModel\.save.*none\.ipu",
    ),
    "file of ONNX": (
        lambda p: pytest.importorskip("onnx") and GraphCoreManager().compile_model(str(p / "none.onnx"), ONES),
        FileNotFoundError,
        r"model cannot be read: there is no such file or folder; give the path of an \.onnx file.*none\.onnx",
    ),
    "model folder": (
        lambda p: GraphCoreManager().compile_model(lambda x: x, ONES).save(p / "none" / "model.ipu"),
        FileNotFoundError,
        r"model cannot be written: there is no such file or folder; give another path.*none",
    ),
    "no such tile": (
        lambda p: jax.jit(lambda x: tile.tile_put_sharded(x, (0, 9999)).array)(put(np.ones(2, np.float32))),
        Exception,
        rf"INVALID_ARGUMENT: tile_put at {HERE}:\d+ .*: there is no tile 9999: .* from 0 to 1471",
    ),
    **{
        f"tiles {tiles!r}": (
            lambda p, tiles=tiles: tile.tile_put_sharded(ONES, tiles),
            TypeError,
            "is not valid: give the number of each part's tile",
        )
        for tiles in (3, (0.0, 1.0, 2.5), "012")
    },
    "negative tile": (lambda p: tile.tile_put_sharded(ONES, (0, -1, 2)), ValueError, "no tile -1"),
    "tiles of an array": (lambda p: tile.tile_put_sharded(ONES, (0, 1)), ValueError, r"not one part .*2 tiles"),
    "codelet": (lambda p: broken_codelet(), Exception, rf"{HERE}:\d+:\d+: error: .missing. was not declared"),
    "codelet file": (
        lambda p: tile.create_ipu_tile_primitive("p", "P", ["x"], {"y": 0}, gp_filename=p / "no.cpp"),
        FileNotFoundError,
        r"codelets of p: there is no file .*no\.cpp",
    ),
    "report into a file": (
        lambda p: save_report(p, "file/report.html"),
        FileExistsError,
        "report cannot be written: there is a file where its folder would be; give another path.*file'",
    ),
    "report onto a folder": (
        lambda p: save_report(p, "folder.html"),
        IsADirectoryError,
        "report cannot be written: there is a folder of that name; give another path",
    ),
    "plot onto a folder": (
        lambda p: (p / "plot.svg").mkdir() or report().plot("steps").save(p / "plot.svg"),
        IsADirectoryError,
        "plot cannot be written: there is a folder of that name; give another path",
    ),
    "name of a report": (lambda p: save_report(p, "report.pdf"), ValueError, r"ends in \.html, or in \.json"),
    "report compared with data": (
        lambda p: report().compare(report().as_dict()),
        TypeError,
        "another report, as jax_ipu.report returns it, not with dict",
    ),
    "trace": (
        lambda p: trace_into(p / "none" / "trace.json"),
        FileNotFoundError,
        "trace cannot be written: there is no such file or folder; give another path",
    ),
    "report that there is not": (
        lambda p: jax_ipu.Report.load(p / "none.json"),
        FileNotFoundError,
        r"report cannot be read: there is no such file .*Report\.save.*none\.json",
    ),
    "report that is none": (lambda p: jax_ipu.Report.load(__file__), ValueError, "is no report: it is not JSON"),
    "plot": (lambda p: report().plot("flor plan"), ValueError, "no plot 'flor plan': take one of memory, floor plan"),
    "run": (lambda p: report().with_profile(p / "none"), FileNotFoundError, "no file or folder .*jax.profiler.trace"),
    "linked": (lambda p: jax_ipu.link(jnp.sin), TypeError, "takes two functions or more"),
    "stages": (
        lambda p: jax_ipu.pipeline([jnp.sin], devices=jax.devices("ipu")[:1] * 2),
        ValueError,
        "stage",
    ),
    "one stage as a pipeline": (
        lambda p: jax_ipu.pipeline(jnp.sin, devices=jax.devices("ipu")[:1]),
        TypeError,
        "a list of functions; jax_ipu.split_into_stages",
    ),
    "micro-batches of a pipeline": (
        lambda p: jax_ipu.pipeline([jnp.sin], devices=jax.devices("ipu")[:1], gradient_accumulation="2"),
        ValueError,
        "gradient_accumulation='2'",
    ),
    "two devices": (
        lambda p: jax.jit(jnp.add)(jax.device_put(1.0, jax.devices("cpu")[0]), put(1.0)),
        ValueError,
        "incompatible devices.*platform CPU.*platform IPU",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(name, tmp_path):
    mistake, kind, text = MISTAKES[name]
    with pytest.raises(kind) as caught:
        mistake(tmp_path)
    error = caught.value
    assert re.search(text, str(error), re.DOTALL), str(error)
    # No other exception is shown with it, unless JAX's own, and no frame of the package but those of plain attributes.
    assert error.__cause__ is None and (error.__context__ is None or error.__suppress_context__)
    frames = [f.f_code for f, _ in traceback.walk_tb(error.__traceback__) if f.f_code.co_filename.startswith(PACKAGE)]
    names = {"option": "config.py", "option after the start": "config.py", "name": "__init__.py", "trace": "traces.py"}
    names["attribute of an estimate"] = "result.py"
    shown = {Path(code.co_filename).name for code in frames}
    assert shown <= {names.get(name), "files.py" if name == "trace" else None}


def test_donation_of_a_jitted_function_is_said_to_have_no_effect():
    with pytest.warns(UserWarning, match=r"donate_argnums=0 has no effect: the function is jitted already"):
        jax_ipu.estimate(jax.jit(lambda x: x + 1), ONES, donate_argnums=0)


def test_a_search_without_axes_says_which_batch_was_tried():
    with pytest.raises(TypeError) as caught:
        jax_ipu.largest_batch(jnp.dot, np.ones((4, 4), np.float32), np.ones((4, 4), np.float32), limit=64)
    assert "batch_axes=0 says which axis" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("variable", "value", "text"),
    [
        ("JAX_IPU_MODEL_VERSION", "bov", "'bov' is not valid. Give one of ipu1, ipu2, ipu21, bow"),
        ("JAX_IPU_MODEL_NUM_TILES", "9999", "'9999' is not valid. Give a whole number from 1 to 1472"),
        ("JAX_IPU_DEVICE_COUNT", "two", "'two' is not valid. Give a whole number of at least 1"),
    ],
)
def test_variable(monkeypatch, variable, value, text):
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match=re.escape(f"{variable}={text}")):
        getattr(Config(), variable.removeprefix("JAX_IPU_").lower())


def test_folders_of_variables_that_cannot_be_used_are_named(tmp_path):
    (tmp_path / "file").touch()
    code = "import jax; print(jax.jit(lambda x: x + 1)(jax.device_put(1.0, jax.devices('ipu')[0])))"
    done = run(code, JAX_IPU_REPORT_DIR=str(tmp_path / "file"), JAX_IPU_MONITOR=str(tmp_path / "none"))
    assert done.stdout == "2.0\n"
    assert re.search(r"JAX_IPU_MONITOR='.*none' is no folder that this process can write to", done.stderr)
    reason = "there is a file where its folder would be; set JAX_IPU_REPORT_DIR to another folder"
    assert re.search(rf"report of \S+ was not written: .*{reason}", done.stderr)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["estimat"], "there is no COMMAND estimat. Did you mean estimate?"),
        (["estimate", "FILE"], "FILE is Python: give FILE:FUNCTION, one of FILE:f"),
        (["estimate", "FILE:g"], "FILE has no g. There are f"),
        (
            ["estimate", "FILE:f"],
            "FILE:f takes (x), but gets 0 arguments: missing a required argument: 'x'. Give --arg",
        ),
        (["estimate", "FILE:f", "f32[3]"], "an argument of the function is given as --arg f32[3]"),
        (
            ["estimate", "FILE:f", "--arg", "f32", "3", "4"],
            "unknown arguments: 3 4. an argument of the function is given as --arg TYPE[SHAPE], such as",
        ),
        (["estimate", "FILE:f", "--arg", "f32[3]", "--donate", "3"], "FILE:f gets 1 argument, numbered from 0"),
        (["estimate", "FILE:f", "--arg", "f33[3]"], "--arg f33[3]: there is no type f33. Did you mean f32?"),
        (["compare", "nowhere.json", "nowhere.json"], "jax-ipu: there is no file nowhere.json\n"),
        (["info", "--jsn"], "did you mean --json?"),
    ],
)
def test_command(arguments, text, tmp_path, capsys):
    # The command imports the file in this process: no other test has a module of this name.
    path = tmp_path / "file_with_mistakes.py"
    path.write_text("import jax.numpy as jnp\n\ndef f(x):\n    return jnp.sin(x)\n")
    try:
        code = command_line.main([argument.replace("FILE", str(path)) for argument in arguments])
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    assert text.replace("FILE", str(path)) in capsys.readouterr().err
