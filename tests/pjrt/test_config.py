import copy
import os
import pickle
import re
from pathlib import Path

import pytest

import jax_ipu
from jax_ipu import environment
from jax_ipu.chips import chip_names
from jax_ipu.compiler.options import Options
from jax_ipu.config import Config
from support.processes import output, run


def test_defaults(monkeypatch):
    monkeypatch.delenv("JAX_IPU_DEVICE_COUNT", raising=False)
    c = Config()
    assert (c.use_model, c.model_version, c.model_num_tiles, c.model_execution) == (True, "ipu2", 0, "fast")
    assert c.device_ids() == [0]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("use_model", "False", False),
        ("use_model", "yes", True),
        ("model_version", "BOW", "bow"),
        ("model_num_tiles", "16", 16),
        ("model_num_tiles", "all", 0),
        ("device_count", "4", 4),
        ("visible_devices", "1, 3", (1, 3)),
        ("visible_devices", "", None),
        ("model_execution", "tile", "tile"),
        ("process_timeout", "30", 30),
        ("report_dir", "reports", "reports"),
        ("trace_planes", "TPU", "tpu"),
        ("max_isa", "AVX2", "avx2"),
        ("host_threads", "3", 3),
        ("host_threads", "all", 0),
        ("machine_code", "off", False),
        ("stochastic_rounding", "yes", True),
        ("stochastic_rounding_seed", "12", 12),
    ],
)
def test_environment(monkeypatch, name, text, value):
    monkeypatch.setenv(f"JAX_IPU_{name.upper()}", text)
    assert getattr(Config(), name) == value


@pytest.mark.parametrize(
    ("name", "text", "good"),
    [
        ("use_model", "maybe", "true"),
        ("model_version", "ipu9", ", ".join(chip_names())),
        ("model_num_tiles", "2000", "1 to 1472"),
        ("device_count", "0", "at least 1"),
        ("visible_devices", "0,0", "distinct"),
        ("model_execution", "slow", "fast, tile, codelets"),
        ("max_isa", "sse2", "avx2, avx512"),
        ("host_threads", "many", "1 to 1024"),
        ("stochastic_rounding_seed", "-1", "0 to"),
    ],
)
def test_bad_values_list_the_good_ones(monkeypatch, name, text, good):
    monkeypatch.setenv(f"JAX_IPU_{name.upper()}", text)
    with pytest.raises(ValueError, match=f"JAX_IPU_{name.upper()}.*{good}"):
        getattr(Config(), name)
    with pytest.raises(ValueError, match=f"jax_ipu.config.{name}.*{good}"):
        setattr(Config(), name, text)


def test_attribute_wins_over_environment(monkeypatch):
    monkeypatch.setenv("JAX_IPU_MODEL_VERSION", "ipu1")
    c = Config()
    c.model_version = "bow"
    assert c.model_version == "bow"


def test_visible_devices_win_over_count():
    c = Config()
    c.device_count = 4
    c.visible_devices = (2, 3)
    assert c.device_ids() == [2, 3]


def test_setting_after_the_backend_exists_is_refused():
    c = Config()
    c.freeze()
    with pytest.raises(RuntimeError, match="JAX_IPU_DEVICE_COUNT"):
        c.device_count = 2


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("model_versoin", "Did you mean model_version?"),
        ("num_tiles", "Did you mean model_num_tiles?"),
        ("JAX_IPU_DEVICE_COUNT", "Did you mean device_count?"),
        ("jax_ipu_report_dir", "Did you mean report_dir?"),
        ("update", "There are use_model, model_version, "),
    ],
)
def test_unknown_options_name_the_nearest(name, meant):
    c = Config()
    with pytest.raises(AttributeError, match=f"no option '{name}'.*{re.escape(meant)}"):
        setattr(c, name, "bow")
    with pytest.raises(AttributeError, match=re.escape(meant)):
        getattr(c, name)
    assert not hasattr(c, name) and getattr(c, name, 3) == 3
    with pytest.raises(AttributeError):
        c.frozen = True
    with pytest.raises(AttributeError, match="no option 'freeze'"):
        c.freeze = True


def test_copies_of_a_configuration():
    """What asks for special methods gets no error of an unknown option."""
    c = Config()
    c.model_version = "bow"
    assert copy.deepcopy(c).model_version == copy.copy(c).model_version == "bow"
    assert pickle.loads(pickle.dumps(c)).model_version == "bow"


def test_names_of_the_package():
    assert set(jax_ipu.__all__) <= set(dir(jax_ipu)) and "importlib" not in dir(jax_ipu)
    with pytest.raises(AttributeError, match=r"Did you mean largest_batch\?"):
        _ = jax_ipu.larges_batch
    with pytest.raises(AttributeError, match=r"no attribute 'qwertz'$"):
        _ = jax_ipu.qwertz


def test_the_names_of_chips_have_one_place():
    """Others would be forgotten when a chip is added. Docstrings and comments may name some as examples."""
    root = Path(__file__).parents[2]
    known = re.compile(rf"\b({'|'.join(chip_names())})\b")
    sources = [
        path
        for folder, pattern in (("jax_ipu", "*.py"), ("pjrt_plugin", "*.cc"), ("ipu_model", "*.cc"))
        for path in (root / folder).rglob(pattern)
        if not path.name.endswith("_test.cc")
    ]
    several = {
        f"{path.relative_to(root)}: {line.strip()}"
        for path in sources
        for line in path.read_text().splitlines()
        if len(set(known.findall(line))) > 2 and not line.lstrip().startswith(("//", "ValueError: "))
    }
    assert len(sources) > 300 and several == set()


PRODUCT = """
import jax, numpy as np
{setting}
x = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) / 4096
y = jax.jit(lambda x: x @ x, backend="ipu")(x)
np.testing.assert_allclose(y, x.astype(np.float64) @ x, rtol=1e-5)
from jax_ipu import _ipu
print(_ipu.host_kernels())
"""


@pytest.mark.parametrize(
    ("environment", "setting"),
    [
        ({"JAX_IPU_MAX_ISA": "avx2", "JAX_IPU_HOST_THREADS": "3"}, ""),
        ({}, "import jax_ipu; jax_ipu.config.max_isa = 'avx2'; jax_ipu.config.host_threads = 3"),
    ],
)
def test_kernels_are_held_to_an_instruction_set_and_threads(environment, setting):
    assert output(PRODUCT.format(setting=setting), **environment) == "{'isa': 'avx2', 'threads': 3}\n"


def test_kernels_take_what_the_machine_has():
    flags = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")).split()
    best = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= set(flags)
    chosen = {"isa": "avx512" if best else "avx2", "threads": len(os.sched_getaffinity(0))}
    assert output(PRODUCT.format(setting="")) == f"{chosen}\n"


def test_limits_after_kernels_have_run_are_refused():
    code = """
    from jax_ipu import _ipu, config
    config.max_isa = "avx2"
    _ipu.host_kernels()
    import jax
    jax.devices("ipu")
    """
    done = run(code, JAX_IPU_MAX_ISA="avx512")
    assert done.returncode != 0
    assert "after kernels of the IPU model had run" in done.stderr


# Variables without effect -------------------------------------------------------------------------------------------

DOCUMENT = Path(__file__).parents[2] / "docs" / "environment.md"


def test_variables_are_those_of_the_document():
    text = DOCUMENT.read_text()
    options, _, without_effect = text.partition("## Variables without effect")
    assert set(re.findall(r"^\| `(JAX_IPU_\w+)`", options, re.M)) == set(Config.variables())
    chips = re.search(r"^\| `JAX_IPU_MODEL_VERSION` \|([^|]*)\|", options, re.M)[1]
    assert tuple(re.findall(r"`(\w+)`", chips)) == chip_names()
    # An executable is no option of users.
    of_compiler = {f"ipu_{name}" for name in Options._fields if name != "executable"}
    assert set(re.findall(r"^\| `(ipu_\w+)`", text, re.M)) == of_compiler
    for pattern, _ in environment.INSTEAD:
        # Names without wildcards are in the document, others by their prefix.
        name = re.match(r"[A-Z_]+", pattern).group()
        assert name in without_effect, pattern
    for pattern, _ in environment.INSTEAD_OF_FLAGS[:-1]:
        assert f"TF_POPLAR_FLAGS=--{re.match('[a-z_]+', pattern).group()}" in without_effect, pattern


@pytest.mark.parametrize(
    ("variables", "lines"),
    [
        ({"JAX_IPU_DEVICE_COUNT": "2", "JAX_PLATFORMS": "ipu", "PATH": "/bin"}, []),
        ({"JAX_IPU_DEVICES_COUNT": "2"}, ["JAX_IPU_DEVICES_COUNT: did you mean JAX_IPU_DEVICE_COUNT?"]),
        ({"jax_ipu_model_version": "bow"}, ["jax_ipu_model_version: did you mean JAX_IPU_MODEL_VERSION?"]),
        ({"JAX_IPU_NUM_TILES": "4"}, ["JAX_IPU_NUM_TILES: use JAX_IPU_MODEL_NUM_TILES"]),
        (
            {"TF_POPLAR_FLAGS": "--use_ipu_model --executable_cache_path=/tmp/cache --max_infeed_threads=2"},
            [
                "TF_POPLAR_FLAGS (--use_ipu_model): nothing is needed: programs run on the IPU model unless"
                " JAX_IPU_USE_MODEL=0",
                "TF_POPLAR_FLAGS (--executable_cache_path): use JAX_COMPILATION_CACHE_DIR",
                "TF_POPLAR_FLAGS (--max_infeed_threads): nothing replaces it",
            ],
        ),
        ({"POPLAR_CODELETS_LOG_LEVEL": ""}, []),
        ({"POPLAR_LOG_LEVEL": "INFO", "POPLAR_ENGINE_LOG_LEVEL": "INFO", "POPLIBS_POPOPS_LOG_LEVEL": "INFO"}, []),
        ({"POPLAR_LOG_DEST": "stdout", "POPLIBS_LOG_DEST": "log.txt", "POPLIBS_LOG_LEVEL": "TRACE"}, []),
        ({"POPLAR_ENGINE_OPTIONS": '{"debug.cpuMultiThreadExecution": "false"}'}, []),
        (
            {"POPLAR_ENGINE_OPTIONS": '{"target.syncMethod": "polling", "exchange.enablePrefetch": "true"}'},
            [
                "POPLAR_ENGINE_OPTIONS (exchange.enablePrefetch): nothing replaces it",
                "POPLAR_ENGINE_OPTIONS (target.syncMethod): nothing is needed: the model is deterministic",
            ],
        ),
        (
            {"POPLAR_RUNTIME_OPTIONS": '{"streamCallbacks.numWorkerThreads": 2}'},
            ["POPLAR_RUNTIME_OPTIONS (streamCallbacks.numWorkerThreads): nothing replaces it"],
        ),
        ({"POPLAR_ENGINE_OPTIONS": '{"autoReport.all":"true","autoReport.directory":"x"}'}, []),
        (
            {"POPLAR_ENGINE_OPTIONS": '{"autoReport.streamAtEachRun":true,"opt.enableInlining":"false"}'},
            [
                "POPLAR_ENGINE_OPTIONS (autoReport.streamAtEachRun): use autoReport.all and autoReport.directory, or"
                " JAX_IPU_REPORT_DIR",
                "POPLAR_ENGINE_OPTIONS (opt.enableInlining): use the compiler options ipu_* of jax.jit, see"
                " docs/environment.md",
            ],
        ),
        ({"POPLAR_SDK_ENABLED": "/opt/poplar"}, []),
        ({"JAX_IPU_PYTHON": "python3", "JAX_IPU_CODELETS": "isolated"}, []),
    ],
)
def test_variables_without_effect(variables, lines):
    assert environment.without_effect(variables, Config.variables()) == lines


@pytest.mark.parametrize("text", ["autoReport.all", "[1]", '{"a": {}}'])
def test_options_of_engines_are_json(text):
    with pytest.raises(ValueError, match="POPLAR_ENGINE_OPTIONS"):
        environment.engine_options({"POPLAR_ENGINE_OPTIONS": text})


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("JAX_IPU_QWERTZ", "there are JAX_IPU_DEVICE_COUNT, "),
        ("POPLAR_TARGET_OPTIONS", "JAX_IPU_MODEL_VERSION"),
        ("POPLAR_SIMULATOR_OPTIONS", "nothing replaces it"),
        ("POPLAR_CODELETS_LOG_LEVEL", "use POPLAR_LOG_LEVEL"),
        ("POPLIBS_POPSPARSE_LOG_LEVEL", "use POPLIBS_LOG_LEVEL"),
        ("POPART_LOG_LEVEL", "POPLIBS_LOG_LEVEL"),
        ("POPTORCH_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR"),
        ("POPTORCH_ANYTHING", "GraphCoreManager"),
        ("POPART_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR"),
        ("XLA_IPU_PLATFORM_PREFETCH_DATA_STREAMS", "nothing replaces it"),
    ],
)
def test_what_to_use_instead(name, instead):
    (line,) = environment.without_effect({name: "1"}, Config.variables())
    assert line.startswith(f"{name}: ") and instead in line


@pytest.mark.parametrize(
    ("options", "folder"),
    [
        ('{"autoReport.all":"true","autoReport.directory":"x"}', "x"),
        ('{"autoReport.all":true}', "."),
        ('{"autoReport.outputGraphProfile":"true","autoReport.directory":"x"}', "x"),
        ('{"autoReport.all":"false","autoReport.directory":"x"}', ""),
        ('{"autoReport.directory":"x"}', ""),
        ("", ""),
    ],
)
def test_the_folder_of_reports(monkeypatch, options, folder):
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", options)
    assert Config().report_folder() == folder
    monkeypatch.setenv("JAX_IPU_REPORT_DIR", "y")
    assert Config().report_folder() == "y"


def test_the_warning_comes_once_when_the_platform_is_made():
    code = "import jax; jax.devices('ipu'); jax.jit(lambda x: x + 1, backend='ipu')(1)"
    result = run(code, POPLAR_TARGET_OPTIONS="x", JAX_IPU_DEVICE_CONT="2")
    assert result.returncode == 0
    for name in ("POPLAR_TARGET_OPTIONS", "JAX_IPU_DEVICE_CONT"):
        assert result.stderr.count(f"  {name}: ") == 1
    assert "did you mean JAX_IPU_DEVICE_COUNT?" in result.stderr


@pytest.mark.parametrize(
    "use",
    [
        "jax_ipu.estimate(jax.numpy.sin, x)",
        "jax_ipu.report(jax.numpy.sin, x)",
        "jax_ipu.debug.profile(jax.numpy.sin, x)",
        "jax_ipu.command_line.main(['estimate', 'jax.numpy:sin', '--arg', 'f32[2]'])",
        "open('p.mlir', 'w').write(str(jax.jit(jax.numpy.sin).lower(x).compiler_ir()))\n"
        "jax_ipu.command_line.main(['estimate', 'p.mlir'])",
    ],
)
def test_the_warning_comes_where_no_platform_is_made(use, tmp_path):
    """Estimates need no backend; a misspelt chip would be that of another chip."""
    code = f"import os, jax, jax_ipu, jax_ipu.command_line; os.chdir({str(tmp_path)!r}); x = jax.numpy.ones(2)\n" + use
    result = run(f"{code}\n{use.splitlines()[-1]}", JAX_IPU_MODEL_VERSON="bow", JAX_PLATFORMS="cpu")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("  JAX_IPU_MODEL_VERSON: did you mean JAX_IPU_MODEL_VERSION?") == 1
