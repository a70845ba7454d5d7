"""Clients of the plugin that are not Python: programs in C and Rust, and the compile server that they need."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from jaxlib.mlir.dialects import stablehlo

from jax_ipu import compile_server, tile
from jax_ipu.chips import chip_names
from jax_ipu.plugin import library_path
from support.processes import output, run

ROOT = Path(__file__).parents[2]
SOURCES = Path(__file__).parents[1] / "clients"
STEPS = 100
# As in clients/train.c.
BATCH, PIXELS, HIDDEN, CLASSES = 128, 784, 256, 10


def train_step(w1, b1, w2, b2, images, labels):
    """One step of stochastic gradient descent on the loss of a classifier with one hidden layer."""

    def loss(w1, b1, w2, b2):
        logits = jax.nn.relu(images @ w1 + b1) @ w2 + b2
        # Not take_along_axis: StableHLO 0.9 has no batched gather.
        return -(jax.nn.log_softmax(logits) * jax.nn.one_hot(labels, CLASSES)).sum(axis=1).mean()

    value, gradients = jax.value_and_grad(loss, argnums=(0, 1, 2, 3))(w1, b1, w2, b2)
    return *(p - 0.1 * g for p, g in zip((w1, b1, w2, b2), gradients, strict=True)), value


@pytest.fixture(scope="module")
def arguments():
    random = np.random.default_rng(0)

    def normal(*shape):
        return random.standard_normal(shape, np.float32)

    labels = random.integers(0, CLASSES, BATCH).astype(np.int32)
    images = (normal(CLASSES, PIXELS)[labels] + normal(BATCH, PIXELS)) * 0.1
    layers = [normal(PIXELS, HIDDEN) * 0.03, np.zeros(HIDDEN, np.float32), normal(HIDDEN, CLASSES) * 0.06]
    return [*layers, np.zeros(CLASSES, np.float32), images.astype(np.float32), labels]


@pytest.fixture(scope="module")
def reference(arguments):
    """Every tenth loss, on the CPU."""
    cpu = jax.devices("cpu")[0]
    step = jax.jit(train_step)
    *parameters, images, labels = jax.device_put(arguments, cpu)
    losses = []
    for _ in range(STEPS):
        *parameters, loss = step(*parameters, images, labels)
        losses.append(float(loss))
    return losses[9::10]


@pytest.fixture(scope="module")
def lowered(arguments):
    return jax.jit(train_step, donate_argnums=(0, 1, 2, 3)).lower(*arguments)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, arguments, lowered):
    """The files that the clients read: the arguments, and the program in each form."""
    folder = tmp_path_factory.mktemp("clients")
    (folder / "data").write_bytes(b"".join(a.tobytes() for a in arguments))
    text = lowered.as_text()
    (folder / "text").write_text(text)
    with (folder / "bytecode").open("wb") as file:
        lowered.compiler_ir("stablehlo").operation.write_bytecode(file)
    for version in ("1.0.0", "0.9.0"):
        (folder / version).write_bytes(stablehlo.serialize_portable_artifact_str(text, version))
    (folder / "hlo").write_bytes(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
    return folder


@pytest.fixture(scope="module")
def c_client(tmp_path_factory):
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("there is no C compiler")
    program = tmp_path_factory.mktemp("c") / "train"
    options = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'pjrt_plugin'}"]
    subprocess.run([compiler, *options, SOURCES / "train.c", "-o", program, "-ldl"], check=True)
    return program


def environment(**variables):
    """Of a process that has this interpreter for the compile server, and two IPUs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    return {**kept, "JAX_IPU_PYTHON": sys.executable, "JAX_IPU_DEVICE_COUNT": "2", **variables}


def run_client(*command, **variables):
    """What a client prints, as a list of (name, rest of the line)."""
    done = subprocess.run(
        [str(word) for word in command], env=environment(**variables), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split(": ", 1) for line in done.stdout.splitlines()]
    assert lines[-1] == ["done"], done.stdout + done.stderr
    return [(line[0], line[-1]) for line in lines]


def losses(lines):
    return [float(rest.split()[1]) for name, rest in lines if name == "loss"]


def undefined(path):
    listing = subprocess.run(["nm", "-D", "--undefined-only", path], capture_output=True, text=True, check=True).stdout
    return [line.split()[-1] for line in listing.splitlines()]


def test_the_library_needs_no_python():
    path = Path(library_path())
    assert path.name == "libpjrt_ipu.so"
    names = undefined(path)
    assert names and [name for name in names if name.startswith(("Py", "_Py"))] == []
    defined = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    assert re.search(r" T GetPjrtApi$", defined, re.MULTILINE)
    # What other libraries define as well stays inside.
    assert re.findall(r" [TWVuBD] (_ZN?K?S[a-z]\w*|_ZNK?St\w*)$", defined, re.MULTILINE) == []


def test_one_copy_of_the_runtime_in_a_process():
    code = """
    import jax, jax_ipu.plugin
    jax.devices("ipu")
    from jax_ipu import _ipu
    mapped = {line.split()[-1] for line in open("/proc/self/maps") if "pjrt_ipu" in line}
    print(mapped == {jax_ipu.plugin.library_path()} == {_ipu.library_path()})
    """
    assert output(code) == "True\n"


def test_the_command_line_prints_the_path():
    done = subprocess.run([sys.executable, "-P", "-m", "jax_ipu", "library-path"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, library_path() + "\n")


@pytest.fixture(scope="module")
def trained_in_c(c_client, folder):
    return run_client(
        c_client, library_path(), "compile", folder / "text", "mlir", folder / "data", folder / "executable"
    )


def test_a_client_in_c_trains(trained_in_c, reference):
    lines = dict(trained_in_c)
    assert lines["platform"] == "ipu 2" and lines["assignment"] == "0 1" and lines["copied"] == "yes"
    np.testing.assert_allclose(losses(trained_in_c), reference, rtol=1e-4)
    assert reference[-1] < 0.5 * reference[0] and "not donated" not in lines


def test_a_client_in_c_reads_errors(trained_in_c):
    lines = dict(trained_in_c)
    assert lines["not a program"].startswith("3 the program is not valid StableHLO")
    assert lines["not a format"].startswith('3 program format "tosa" is not supported')
    assert lines["donated"].startswith("3 ") and "donated" in lines["donated"]


def test_a_stored_executable_needs_no_python(trained_in_c, c_client, folder):
    lines = run_client(
        c_client, library_path(), "load", folder / "executable", folder / "data",
        JAX_IPU_PYTHON="/nonexistent", PATH="",
    )  # fmt: skip
    assert losses(lines) == losses(trained_in_c) and dict(lines)["bias"] == dict(trained_in_c)["bias"]
    assert dict(lines)["no compiler"].startswith("9 JAX_IPU_PYTHON='/nonexistent' is not a program")
    assert "or load a serialised executable" in dict(lines)["no compiler"]


@pytest.mark.parametrize("form", ["bytecode", "1.0.0", "0.9.0", "hlo"])
def test_forms_of_programs(form, trained_in_c, c_client, folder):
    name = "hlo" if form == "hlo" else "mlir"
    command = [c_client, library_path(), "compile", folder / form, name, folder / "data", folder / "other"]
    # Through a symbolic link, by the name that some clients look for.
    if form == "hlo":
        command[1] = folder / "pjrt_c_api_ipu_plugin.so"
        command[1].symlink_to(library_path())
    lines = run_client(*command)
    np.testing.assert_allclose(losses(lines), losses(trained_in_c), rtol=1e-5)
    assert "not donated" not in dict(lines)


def test_a_crash_of_the_compile_server_is_survived(c_client, folder):
    lines = dict(run_client(c_client, library_path(), "crash", folder / "text", "mlir"))
    assert lines["servers"] == "replaced"


WITHOUT_JAX_IPU = """
import importlib.metadata, sys
importlib.metadata.entry_points = lambda **group: []  # JAX finds no plugin, and does not import jax_ipu
import jax, numpy as np
from jax._src import xla_bridge
from jaxlib import _jax, xla_client
jax.config.update("jax_platforms", "ipu_library,cpu")
xla_bridge.register_plugin("ipu_library", library_path=sys.argv[1])
client = xla_bridge.get_backend("ipu_library")
devices = _jax.DeviceList(tuple(client.local_devices()[:1]))
program = client.compile_and_load(open(sys.argv[2]).read(), devices, xla_client.CompileOptions())
x = jax.device_put(np.arange(8, dtype=np.float32).reshape(2, 4), client.local_devices()[0])
print(np.asarray(program.execute([x])[0]).tolist(), "jax_ipu" in sys.modules)
"""


def test_tile_programs_without_python(tmp_path):
    """The compile server compiles the program, and the host its codelets."""
    source = """
    #include <poplar/Vertex.hpp>
    class Thrice : public poplar::Vertex {
     public:
      poplar::Input<poplar::Vector<float>> x;
      poplar::Output<poplar::Vector<float>> y;
      bool compute() { for (unsigned i = 0; i < x.size(); ++i) y[i] = 3 * x[i]; return true; }
    };
    """
    thrice = tile.create_ipu_tile_primitive("thrice", "Thrice", inputs=["x"], outputs={"y": 0}, gp_filename=source)
    x = np.zeros((2, 4), np.float32)
    run = jax.jit(lambda x: tile.tile_map(thrice, tile.tile_put_sharded(x, (0, 3))).array, backend="ipu")
    (tmp_path / "program.mlir").write_text(run.lower(x).as_text())
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_JAX_IPU, library_path(), tmp_path / "program.mlir"],
        env=environment(), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    expected = (3 * np.arange(8.0).reshape(2, 4)).tolist()
    assert done.stdout == f"{expected} False\n", done.stderr


def test_a_client_in_rust_trains(tmp_path, folder, trained_in_c):
    compiler = shutil.which("rustc")
    if compiler is None:
        pytest.skip("there is no Rust compiler (Debian's package rustc)")
    program = tmp_path / "train"
    done = subprocess.run([compiler, "--edition", "2018", "-O", SOURCES / "train.rs", "-o", program])
    if done.returncode != 0 and subprocess.run([compiler, "--version"], capture_output=True).returncode != 0:
        pytest.skip("the Rust compiler does not run")
    assert done.returncode == 0
    lines = run_client(program, library_path(), folder / "text", folder / "data", tmp_path / "executable")
    assert lines[0] == ("platform", "ipu 2")
    assert dict(lines)["not a program"].startswith("3: the program is not valid StableHLO")
    expected = [float(np.float32(loss)) for loss in losses(trained_in_c)]
    np.testing.assert_allclose(losses(lines), expected * 2, rtol=1e-6)


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("JAX_IPU_MODEL_VERSION", "ipu9", f"'ipu9' is not valid. Give one of {', '.join(chip_names())}."),
        ("JAX_IPU_MODEL_NUM_TILES", "x", "'x' is not valid. Give a whole number from 1 to 1472, or all."),
        ("JAX_IPU_DEVICE_COUNT", "0", "'0' is not valid. Give a whole number of at least 1."),
        ("JAX_IPU_VISIBLE_DEVICES", "1,1", "'1,1' is not valid. Give distinct device numbers"),
        ("JAX_IPU_MODEL_EXECUTION", "slow", "'slow' is not valid. Give one of fast, tile, codelets."),
        ("JAX_IPU_USE_MODEL", "0", "is false, but this build of jax_ipu has no Poplar SDK"),
    ],
)
def test_the_environment_configures_other_clients(variable, value, words, c_client, folder):
    done = subprocess.run(
        [c_client, library_path(), "load", folder / "data", folder / "data"],
        env=environment(**{variable: value}), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1 and f"{variable}" in done.stdout and words in done.stdout


class Host:
    """The host's side of a compile server."""

    def __init__(self, *command: str, inherited: tuple[int, ...] = (), **variables: str):
        ours, theirs = socket.socketpair()
        self.socket = ours
        number = theirs.fileno()
        self.process = subprocess.Popen(
            [sys.executable, "-P", *(command or ("-m", "jax_ipu.compile_server")), str(number), str(os.getpid())],
            pass_fds=(number, *inherited), env={**os.environ, **variables}, stderr=subprocess.PIPE,
        )  # fmt: skip
        theirs.close()

    def answer(self):
        code, size = (int.from_bytes(self.receive(8), "little") for _ in range(2))
        return code, self.receive(size)

    def receive(self, size):
        return self.socket.recv(size, socket.MSG_WAITALL)

    def request(self, program, program_format="mlir", options=b"", target="ipu2:16"):
        for part in (program, program_format.encode(), options, target.encode()):
            self.socket.sendall(len(part).to_bytes(8, "little") + part)

    def compile(self, *request):
        self.request(*request)
        return self.answer()


PROGRAM = b"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"


def open_files(process):
    """What the descriptors of a process refer to, which may close some at any time."""
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            yield os.readlink(descriptor)


def test_the_compile_server():
    pipe = os.pipe()
    host = Host(str(Path(compile_server.__file__)), inherited=pipe)
    assert host.answer() == (0, compile_server.GREETING)
    assert not {os.readlink(f"/proc/self/fd/{end}") for end in pipe} & set(open_files(host.process.pid))
    code, executable = host.compile(PROGRAM)
    from jax_ipu import _ipu

    assert code == 0 and _ipu.Executable.deserialize(executable).target == "ipu2:16"
    assert host.compile(b"what?")[0] == 3
    assert host.compile(PROGRAM, "mlir", b"\xff")[0] == 3
    assert host.compile(PROGRAM, "mlir", b"", "ipu9")[0] == 3
    code, text = host.compile(b"func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }")
    assert code == 12 and b"dynamic shape" in text
    assert host.compile(PROGRAM) == (0, executable)
    host.socket.close()
    assert host.process.wait(10) == 0
    for end in pipe:
        os.close(end)


def test_the_compile_server_ends_while_it_compiles(folder):
    host = Host()
    host.answer()
    host.request((folder / "text").read_bytes(), "mlir", b"", "ipu2:1472")
    time.sleep(0.05)
    host.socket.close()
    _, errors = host.process.communicate(timeout=20)
    assert host.process.returncode == 0, errors


def test_a_host_that_does_not_read_the_answer_ends_the_requests():
    host, server = socket.socketpair()
    with server:
        server.sendall(b"the answer")
        host.close()
        assert list(compile_server._requests(server)) == []


def test_the_compile_server_says_what_is_missing(tmp_path):
    (tmp_path / "jaxlib").mkdir()
    (tmp_path / "jaxlib" / "__init__.py").write_text("raise ImportError('no jaxlib here')")
    host = Host(
        PYTHONPATH=os.pathsep.join([str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]).rstrip(
            os.pathsep
        )
    )
    assert host.answer() == (9, b"ImportError: no jaxlib here")
    assert host.process.wait(10) == 1


def test_a_python_process_compiles_itself():
    code = """
    import os, jax
    from pathlib import Path
    jax.jit(lambda x: x + 1, backend="ipu")(1.0).block_until_ready()
    print(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
    """
    assert output(code) == "[]\n"


def test_poplar_of_another_library_is_refused(tmp_path):
    """Where its functions are those of the whole process, they would take the place of the model's."""
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    source = tmp_path / "poplar.cc"
    symbol = next(name for name in undefined(Path(sys.modules["jax_ipu._ipu"].__file__)) if "poplar6concat" in name)
    source.write_text(f'extern "C" void {symbol.split("@")[0]}() {{}}')
    library = tmp_path / "libpoplar.so"
    subprocess.run([compiler, "-shared", "-fPIC", source, "-o", library], check=True)
    result = run(f"import ctypes; ctypes.CDLL({str(library)!r}, ctypes.RTLD_GLOBAL); import jax_ipu._ipu")
    assert result.returncode == 1 and "defines Poplar's functions for the whole process" in result.stderr
    assert run(f"import ctypes; ctypes.CDLL({str(library)!r}); import jax_ipu._ipu").returncode == 0


def test_a_status_line_does_not_stop_the_server():
    host = Host()
    host.answer()
    host.process.send_signal(signal.SIGTTOU)
    assert host.compile(PROGRAM)[0] == 0
    host.socket.close()
    assert host.process.wait(10) == 0
