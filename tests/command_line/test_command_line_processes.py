"""Commands about processes: run, monitor and poplar; Poplar's log, synthetic data, and what a terminal shows."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

import jax_ipu
from jax_ipu import command_line
from jax_ipu.command_line import poplar, usage

JAX_IPU = [sys.executable, "-P", "-m", "jax_ipu"]
SECONDS = 60


def environment(**variables):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "POPLAR_", "POPLIBS_", "NO_COLOR"))}
    return {**kept, "PYTHONWARNINGS": "ignore", **variables}


def execute(*command, **variables):
    return subprocess.run(
        command, env=environment(**variables), capture_output=True, text=True, timeout=SECONDS, cwd="/"
    )


class Terminal:
    """A process on a terminal of its own."""

    # In a new session, makes the terminal the one that sends Ctrl-C, which a background job's children ignore.
    START = """if True:
        import fcntl, os, signal, sys, termios
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.execv(sys.argv[1], sys.argv[1:])
    """

    def __init__(self, *command, columns=100, lines=24, **variables):
        self.text = ""
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._terminal = leader
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.START, *command],
            env=environment(**{"TERM": "xterm", **variables}),
            stdin=follower,
            stdout=follower,
            stderr=follower,
            start_new_session=True,
            cwd="/",
        )
        os.close(follower)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()
        os.close(self._terminal)

    def read_until(self, pattern):
        """What was written until the pattern; fails where the process ends before."""
        deadline = time.monotonic() + SECONDS
        while not (found := re.search(pattern, self.text, re.S)):
            assert select.select([self._terminal], [], [], max(0, deadline - time.monotonic()))[0], self.text
            try:
                data = os.read(self._terminal, 4096)
            except OSError:  # the process has ended
                data = b""
            assert data, f"ended without {pattern}: {self.text!r}"
            self.text += data.decode(errors="replace")
        before, self.text = self.text[: found.end()], self.text[found.end() :]
        return before

    def resize(self, columns, lines):
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, text):
        os.write(self._terminal, text.encode())


# run ------------------------------------------------------------------------------------------------------------------

SCRIPT = """
import os, pickle, sys
import jax, jax.numpy as jnp
from neighbour import value

class Local:
    pass

assert isinstance(pickle.loads(pickle.dumps(Local())), Local) and sys.modules["__main__"].Local is Local
double = jax.jit(lambda x: x * 2)
print(sys.argv, __name__, os.path.basename(__file__), value, jax.default_backend(), len(jax.devices()), flush=True)
print(double(double(jnp.arange(4.0))), flush=True)
if sys.argv[-1] == "abort":
    os.abort()
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "neighbour.py").write_text("value = 5\n")
    path = folder / "program.py"
    path.write_text(SCRIPT)
    return path


def test_run_is_as_python(script, tmp_path):
    runtime = {"XDG_RUNTIME_DIR": str(tmp_path)}
    options = ("--target", "bow:4", "--num-ipus", "2", "--no-report")
    done = execute(*JAX_IPU, "run", *options, str(script), "3", "--target", "x", **runtime)
    assert done.returncode == 3, done.stderr
    first, second = done.stdout.splitlines()
    assert first == f"{[str(script), '3', '--target', 'x']} __main__ program.py 5 ipu 2"
    assert second == "[ 0.  4.  8. 12.]"
    assert "exit code 3" in done.stderr and "1 of 2 used, bow:4" in done.stderr
    assert re.search(r"runs +3, with 2 loads", done.stderr), done.stderr
    assert list((tmp_path / "jax_ipu").iterdir()) == []


def test_run_of_a_module_that_is_killed(script, tmp_path):
    folder = tmp_path / "reports"
    command = (*JAX_IPU, "run", "--json", "--report-dir", str(folder), "-m", "program", "0", "abort")
    path = os.pathsep.join([str(script.parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    done = execute(*command, PYTHONPATH=path, XDG_RUNTIME_DIR=str(tmp_path), JAX_IPU_MODEL_NUM_TILES="4")
    assert done.returncode == 128 + signal.SIGABRT
    summary = json.loads(done.stdout)  # what the program prints is on stderr
    assert "[ 0.  4.  8. 12.]" in done.stderr
    assert (summary["exit_code"], summary["processes"], summary["runs"]) == (134, 1, 3)
    assert summary["compilations"] == 2 and summary["h2d_bytes"] > 0 and summary["cycles"] > 0
    assert summary["report_dir"] == str(folder)
    assert {Path(report).name.rpartition("-")[0] for report in summary["reports"]} >= {"jit__lambda"}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "name a script"),
        (("-m",), 2, "with -m, a module"),
        (("--target", "ipu9", "x.py"), 2, "ipu9"),
        (("--report-dir", "x", "--no-report", "x.py"), 2, "not both"),
        (("--no-report", "no_such_file.py"), 2, "no_such_file.py"),
        (("--no-report", "-m", "platform"), 0, "did not use ipu"),
    ],
)
def test_runs_without_a_program_for_ipu(capfd, arguments, code, message):
    assert command_line.main(["run", *arguments]) == code
    assert message in capfd.readouterr().err


# monitor --------------------------------------------------------------------------------------------------------------

WAITS = """
import sys
import jax, numpy as np, jax_ipu
product = jax.jit(lambda x: x @ x, backend="ipu")
for _ in range(3):
    product(np.ones((8, 8), np.float32)).block_until_ready()
print(jax_ipu.counters()._asdict(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def running(tmp_path, monkeypatch):
    """A process that has run a program three times, and its counters."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    variables = {"XDG_RUNTIME_DIR": str(tmp_path), "JAX_IPU_DEVICE_COUNT": "2", "JAX_IPU_MODEL_NUM_TILES": "16"}
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", WAITS],
        env=environment(**variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process, eval(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def of(process):
    return [use for use in usage.running() if use.pid == process.pid]


def test_monitor_shows_what_a_process_counts(running, tmp_path, capsys):
    process, counters = running
    folder = tmp_path / "jax_ipu"
    # What anybody may have left there.
    for name, content in (("1-1-0.usage", b""), ("1-1-1.usage", b"IPUSAGE1" + b"\xff" * 100), ("other", b"")):
        (folder / name).write_bytes(content)
    (folder / "1-1-2.usage").symlink_to("/etc/passwd")
    os.mkfifo(folder / "1-1-3.usage")
    (use,) = of(process)
    first, second = use.devices
    assert (use.programs, use.compilations, use.compiling, use.synthetic_data) == (1, 1, 0, False)
    assert use.command.startswith(sys.executable) and use.compile_seconds > 0
    assert (first.id, first.chip, first.tiles, first.program) == (0, "ipu2", 16, "jit__lambda")
    assert {name: getattr(first, name) for name in counters} == counters
    assert 0 < first.bytes_in_use <= first.memory_bytes == 16 * 624 * 1024
    assert (second.id, second.runs, second.program) == (1, 0, "")

    assert command_line.main(["monitor", "--json", "--interval", "0.05"]) == 0
    (shown,) = [p for p in json.loads(capsys.readouterr().out)["processes"] if p["pid"] == process.pid]
    assert shown["devices"][0]["runs"] == 3 and shown["devices"][0]["runs_per_second"] == 0
    assert command_line.main(["monitor", "--once", "--interval", "0.05"]) == 0
    text = capsys.readouterr().out
    assert re.search(rf"^ *{process.pid} +0 +ipu2:16 +jit__lambda ", text, re.M), text

    # A process that is killed leaves its file.
    process.kill()
    process.wait()
    files = [path for path in folder.iterdir() if path.name.startswith(f"{process.pid}-")]
    assert len(files) == 1 and of(process) == []
    assert not files[0].exists()


def test_a_process_removes_its_file(running, tmp_path):
    process, _ = running
    assert len(of(process)) == 1
    process.communicate("")
    assert process.returncode == 0 and list((tmp_path / "jax_ipu").iterdir()) == []


def test_folders_of_others_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = tmp_path / "jax_ipu"
    folder.mkdir(mode=0o700)
    assert folder in usage.folders()
    folder.chmod(0o777)
    assert folder not in usage.folders()
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    assert folder not in usage.folders()


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_monitor_on_a_terminal(key, tmp_path):
    size = {"COLUMNS": "80", "LINES": "24"}  # as some shells export
    with Terminal(*JAX_IPU, "monitor", "--interval", "0.05", XDG_RUNTIME_DIR=str(tmp_path), **size) as terminal:
        terminal.read_until("jax-ipu monitor .* q: end")
        terminal.read_until(r"PID|no process")
        terminal.resize(30, 5)
        terminal.read_until("jax-ipu monitor")
        terminal.type(key)
        terminal.read_until(r"\x1b\[\?1049l")  # the screen as it was
        assert terminal.process.wait(SECONDS) == 0


def test_monitor_without_a_screen(tmp_path):
    """On a terminal that cannot move its cursor, it prints tables."""
    with Terminal(*JAX_IPU, "monitor", "--interval", "0.05", XDG_RUNTIME_DIR=str(tmp_path), TERM="dumb") as terminal:
        terminal.read_until(r"\d\d:\d\d:\d\d.*\d\d:\d\d:\d\d")
        assert "\x1b" not in terminal.text
        terminal.type("\x03")
        assert terminal.process.wait(SECONDS) == 0


# Progress -------------------------------------------------------------------------------------------------------------

LONG = """
import sys, time
from jax_ipu.compiler import progress
progress._PATIENCE_SECONDS = progress._INTERVAL_SECONDS = 0.0
if "without" in sys.argv:
    sys.modules["tqdm"] = None
with progress.Progress("jit_step") as shown:
    shown.stage("planning operations")
    for step in range(100000 if "for ever" in sys.argv else 5):
        shown.step(step, 9)
        time.sleep(0.01)
print("done")
"""


@pytest.mark.parametrize("tqdm", ["with", "without"])
def test_a_terminal_shows_progress(tqdm):
    if tqdm == "with":
        pytest.importorskip("tqdm")
    with Terminal(sys.executable, "-c", LONG, tqdm) as terminal:
        text = terminal.read_until("done")
    assert "compiling jit_step for ipu: planning operations" in text
    assert ("planning operations 4/9 |" if tqdm == "with" else "planning operations 4 of 9") in text
    *_, last, done = re.split(r"\r(?!\n)", text)  # cleared before the next line
    assert (last.strip() == "" and done == "done") or done == "\x1b[Kdone", (last, done)
    piped = execute(sys.executable, "-c", LONG, tqdm)
    assert (piped.stdout, piped.stderr) == ("done\n", "")


@pytest.mark.parametrize("tqdm", ["with", "without"])
def test_an_interrupt_clears_the_progress(tqdm):
    if tqdm == "with":
        pytest.importorskip("tqdm")
    with Terminal(sys.executable, "-c", LONG, tqdm, "for ever") as terminal:
        terminal.read_until("planning operations 2")
        terminal.type("\x03")
        text = terminal.read_until("KeyboardInterrupt")
    assert re.search(r"\r( +\r|\x1b\[K)Traceback", text), text[-500:]


def test_a_search_has_one_status(monkeypatch, capsys):
    from jax_ipu.compiler import progress

    monkeypatch.setattr(progress, "_INTERVAL_SECONDS", 0.0)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    status = progress.Status(shown=True)
    with progress.part_of(status, "largest batch, trying 64"), progress.Progress("jit_f") as compilation:
        compilation.stage("planning operations")
        compilation.step(1, 2)
    status.close()
    assert capsys.readouterr().err.split("\r\x1b[K")[1:] == [
        "largest batch, trying 64",
        "largest batch, trying 64: jit_f for ipu: planning operations",
        "largest batch, trying 64: jit_f for ipu: planning operations 1 of 2",
        "",
    ]


# Poplar in C++, and its log -------------------------------------------------------------------------------------------

PROGRAM = """
#include <cstdio>
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>
#include <popops/ElementWise.hpp>
using namespace poplar;
int main() {
  const Device device = IPUModel("ipu2").createDevice();
  Graph graph(device.getTarget());
  program::Sequence program;
  const Tensor x = graph.addVariable(FLOAT, {2}, "x");
  graph.setTileMapping(x, 3);
  program.add(program::Copy(graph.addHostToDeviceFIFO("in", FLOAT, 2), x));
  program.add(program::Copy(popops::add(graph, x, x, program, "sum"), graph.addDeviceToHostFIFO("out", FLOAT, 2)));
  float in[] = {1, 2}, out[2];
  Engine engine(graph, program);
  engine.connectStream("in", in);
  engine.connectStream("out", out);
  engine.loadAndRun(device);
  std::printf("%g %g\\n", out[0], out[1]);
  try {
    engine.run(7);
  } catch (const poplar_error& error) {
    std::printf("%s\\n", error.what());
  }
}
"""
LINE = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z P[OL]:[A-Z]+ +\d+\.\d+ [EWIDT]: .*"


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_a_program_in_cpp(tmp_path, capsys):
    assert command_line.main(["poplar", "--cflags", "--libs"]) == 0
    flags = capsys.readouterr().out
    (tmp_path / "main.cc").write_text(PROGRAM)
    subprocess.run(f"g++ main.cc -o main {flags}", shell=True, check=True, cwd=tmp_path)
    log = tmp_path / "log"
    levels = {"POPLAR_LOG_LEVEL": "info", "POPLAR_LOG_DEST": str(log), "POPLAR_ENGINE_LOG_LEVEL": "TRACE"}
    done = execute(tmp_path / "main", POPLIBS_LOG_LEVEL="INFO", **levels)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2 4\nEngine::run: there is no program 7; the executable has 1\n"
    lines = log.read_text().splitlines()
    assert all(re.fullmatch(LINE, line) for line in lines)
    assert [line.split()[1] for line in lines] == ["PO:GRAPH", "PO:ENGINE", "PO:ENGINE"]
    assert "loads a program on ipu2" in lines[1] and re.search("ran program 0: [1-9][0-9]* cycles", lines[2])
    assert re.fullmatch(LINE + "\n", done.stderr) and "PL:POPOPS" in done.stderr and "'sum' on 1 tiles" in done.stderr

    done = execute(tmp_path / "main", POPLAR_LOG_LEVEL="LOUD", POPLIBS_POPOPS_LOG_LEVEL="INFO", POPLIBS_LOG_DEST="/")
    assert done.returncode == 0 and "POPLAR_LOG_LEVEL='LOUD' is not a log level" in done.stderr
    assert "POPLIBS_LOG_DEST='/' cannot be opened" in done.stderr and "PL:POPOPS" in done.stderr
    assert execute(tmp_path / "main").stderr == ""


def test_a_command_leaves_the_search_path_of_modules(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert command_line.main(["poplar", "--cflags"]) == 0 and sys.path == before


def test_poplar_says_what_is_missing(tmp_path, monkeypatch, capsys):
    assert command_line.main(["poplar", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert Path(found["cmake_dir"], "ipu_model-config.cmake").is_file()
    assert Path(found["cflags"][-1][2:], "popops/ElementWise.hpp").is_file()
    monkeypatch.setattr(poplar, "include_folders", lambda package: [tmp_path])
    assert command_line.main(["poplar", "--cflags"]) == 1
    assert f"poplar/Engine.hpp is not in {tmp_path}" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("cmake") is None or shutil.which("ninja") is None, reason="no CMake")
def test_the_package_for_cmake(tmp_path, capsys):
    assert command_line.main(["poplar", "--cmake-dir"]) == 0
    folder = capsys.readouterr().out.strip()
    source = Path(__file__).parents[1] / "cpp_package"
    configure = ["cmake", "-S", source, "-B", tmp_path, "-G", "Ninja", f"-Dipu_model_DIR={folder}"]
    subprocess.run(configure, check=True, capture_output=True)
    subprocess.run(["cmake", "--build", tmp_path], check=True, capture_output=True)
    assert re.fullmatch(r"[1-9]\d* cycles\n", execute(tmp_path / "matmul").stdout)


# Synthetic data, and the log of JAX programs --------------------------------------------------------------------------

SYNTHETIC = """
import jax, jax.numpy as jnp, numpy as np, jax_ipu
ipu = jax.devices("ipu")[0]

@jax.jit
def step(w, x, key):
    noise = jax.random.normal(jax.random.wrap_key_data(key), w.shape)
    loss, gradient = jax.value_and_grad(lambda w: ((x @ w - 1) ** 2).sum())(w)
    return w - gradient + noise, loss

def never(x):
    raise AssertionError("called the host")

update = jax.jit(lambda w, x: (w + x, w.sum()), donate_argnums=0)
asks = jax.jit(lambda x: jax.pure_callback(never, jax.ShapeDtypeStruct(x.shape, x.dtype), x) + 1)
w, x, key = np.ones((4, 3), np.float32), np.ones((2, 4), np.float32), np.ones(2, np.uint32)
w, x, key = jax.device_put((w, x, key), ipu)
for _ in range(3):
    new, loss = step(w, x, key)
assert new.shape == (4, 3) and new.dtype == jnp.float32 and loss.shape == (), (new, loss)
np.asarray(new), float(loss)
state = jax.device_put(np.ones((4, 3), np.float16), ipu)
for _ in range(3):
    state, total = update(state, np.float16(2))
assert np.asarray(state).shape == (4, 3) and state.dtype == np.float16 and total.dtype == np.float16
assert np.asarray(asks(jax.device_put(np.full(5, 7.0, np.float32), ipu))).tolist() == [1.0] * 5
counters = jax_ipu.counters()
print(counters.runs, counters.h2d_bytes, counters.d2h_bytes, counters.cycles > 0)
"""


@pytest.mark.parametrize("execution", ["fast", "tile"])
def test_synthetic_data(execution, tmp_path):
    log = tmp_path / "log"
    done = execute(
        *(sys.executable, "-c", SYNTHETIC),
        JAX_IPU_SYNTHETIC_DATA="1",
        JAX_IPU_MODEL_EXECUTION=execution,
        JAX_IPU_MODEL_NUM_TILES="8",
        POPLAR_LOG_LEVEL="DEBUG",
        POPLAR_LOG_DEST=str(log),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["7", "0", "0", "True"]
    assert done.stderr.count("meaningless values") == 1
    lines = log.read_text().splitlines()
    assert all(re.fullmatch(LINE, line) for line in lines)
    text = "\n".join(lines)
    for part in ("attached to IpuDevice", "jit_step: planning operations", "the compilation of 'jit_step' took"):
        assert text.count(part) == 1, part
    assert text.count("IPU 0 ran 'jit_step'") == 3


def test_the_option_for_one_thread():
    code = "import jax; jax.devices('ipu'); from jax_ipu import _ipu; print(_ipu.host_kernels()['threads'])"
    options = '{"debug.cpuMultiThreadExecution": "false"}'
    assert execute(sys.executable, "-c", code, POPLAR_ENGINE_OPTIONS=options).stdout == "1\n"
    both = execute(sys.executable, "-c", code, POPLAR_ENGINE_OPTIONS=options, JAX_IPU_HOST_THREADS="2")
    assert both.stdout == "2\n" and both.stderr == ""


def test_starting_needs_no_more(tmp_path):
    """What these features import is imported when they are used."""
    code = (
        "import sys, jax, jax_ipu; jax.devices('ipu')\n"
        "print([m for m in ('curses', 'tqdm', 'jax_ipu.command_line') if m in sys.modules])"
    )
    assert execute(sys.executable, "-c", code, XDG_RUNTIME_DIR=str(tmp_path)).stdout == "[]\n"
    assert list((tmp_path / "jax_ipu").iterdir()) == []


def test_the_version_of_the_files():
    """The reader and the writer have one layout."""
    header = (Path(__file__).parents[2] / "pjrt_plugin/runtime/recording/usage.h").read_text()
    sizes = re.findall(r"sizeof\((\w+)\) == (\d+)", header)
    assert dict(sizes)["ProcessUsage"] == str(usage._HEADER.size)
    assert dict(sizes)["DeviceUsage"] == str(usage._DEVICE.size)
    assert jax_ipu.__version__
