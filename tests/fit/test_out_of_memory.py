"""Programs that do not fit: the error message, whether its advice helps, and how little work precedes it."""

import io
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import jax_ipu
from jax_ipu import _ipu, compiler
from jax_ipu.compiler import advice, fit, out_of_memory, progress
from jax_ipu.compiler.errors import CANCELLED
from jax_ipu.compiler.options import Options, serialize_options
from jax_ipu.compiler.program_io import Signature
from support.stages import imported

devices = jax.devices("ipu")


def spec(*shape, dtype=jnp.float32, sharding=None):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


def network(layers, width, dtype=jnp.float32):
    return {
        f"h_{i}": {"kernel": spec(width, width, dtype=dtype), "bias": spec(width, dtype=dtype)} for i in range(layers)
    }


def loss(params, x, y):
    for layer in params.values():
        x = jnp.tanh(x @ layer["kernel"] + layer["bias"])
    return ((x - y) ** 2).mean()


def momentum(params, trace, x, y):
    gradient = jax.grad(loss)(params, x, y)
    trace = jax.tree.map(lambda t, g: 0.9 * t + g, trace, gradient)
    return jax.tree.map(lambda p, t: p - 0.1 * t, params, trace), trace


def train(layers, width, batch, dtype=jnp.float32, **options):
    params = network(layers, width, dtype)
    rows = spec(batch, width, dtype=dtype)
    # The shardings determine where a program for several IPUs runs.
    options = options or {"backend": "ipu"}
    return jax.jit(momentum, donate_argnums=(0, 1), **options).lower(params, params, rows, rows)


def error_of(lowered, advice_seconds=600):
    """The message; tests do not rest on time, so all of the advice is tried, or none of it."""
    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED") as error:
        lowered.compile(compiler_options={"ipu_advice_seconds": advice_seconds})
    return str(error.value)


def test_too_much_code_is_no_reason_for_smaller_tensors():
    target = _ipu.Target("ipu2")
    for code, lacks in ((target.code_bytes_per_tile, False), (target.code_bytes_per_tile + 1, True)):
        error = _ipu.OutOfMemory("")
        error.report = _ipu.DeviceReport(max_tile_bytes=code + 1000, peak=_ipu.TilePeak(code=code, variables=1000))
        assert out_of_memory.lacks_code(error, target) == lacks
    lowered = jax.jit(lambda x: x * 2, backend="ipu").lower(spec(8))
    module = imported(str(lowered.compiler_ir("stablehlo")))
    failure = out_of_memory.NoFit(error, out_of_memory.Need.of(error, target), module, Signature(module.main))
    text = advice.advice(None, None, Options(), target, failure, None)
    assert "Not tried" in text and text.count("*") == 2 and "jax.lax.scan" in text and "batch" not in text


def advised(text, pattern):
    """Returns the groups of a line of advice."""
    _, _, advice = text.partition("What helps:")
    found = re.search(pattern, advice)
    assert found, text
    return found.groups()


# What the message says -----------------------------------------------------------------------------------------------


def test_arguments_have_their_names():
    text = error_of(train(34, 1536, 512), 0)
    assert re.search(r"variable '(params|trace)\['h_\d+'\]\['kernel'\]' f32\[", text)
    assert "argument " not in text
    assert "test_out_of_memory.py" in text and "(loss)" in text


def test_state_that_is_too_large_is_said_before_anything_is_planned(monkeypatch):
    monkeypatch.setattr(_ipu, "compile_graph", None)
    text = error_of(train(8, 4096, 16), 0)
    assert "the state and the results need 1024.2 MiB" in text
    assert re.search(r"(params|trace)\['h_\d'\]\['kernel'\] f32\[4096,4096\] \(64.0 MiB\)", text)


def test_sizes_that_look_alike_are_said_in_bytes():
    x = jax.ShapeDtypeStruct((79_873,), jnp.float32)  # twice that is 8 bytes more than a tile has
    options = {"ipu_advice_seconds": 0.0}
    for made in (jax_ipu.estimate, jax_ipu.report):
        found = made(jnp.sin, x, target="ipu2:1", compiler_options=options)
        reason = getattr(found, "reason", None) or found.estimate.reason
        # The line is the caller's of a function of JAX; the operand comes before the result.
        assert re.search(
            rf"map at {Path(__file__).name}:\d+ \(test_\w+\) needs 638,984 bytes for x f32\[79873\] \(0\.3 MiB\),"
            r" result .* 1 tiles of 638976 bytes hold 638,976 bytes\.",
            reason,
        ), reason


def test_the_users_line_comes_before_the_librarys():
    def step(params, x):
        return optax.apply_updates(params, {"w": jnp.outer(x, x)})

    lowered = jax.jit(step, backend="ipu").lower({"w": spec(16384, 16384)}, spec(16384))
    assert re.search(r"test_out_of_memory.py:\d+ \(.*step, through optax/_src/update.py:\d+\)", error_of(lowered))


# Its advice ----------------------------------------------------------------------------------------------------------


def test_the_advised_batch_fits():
    text = error_of(train(8, 1024, 16384))
    (batch, names) = advised(text, r"a batch of (\d+) instead of 16384 \((.*)\)")
    assert names == "x, y" and int(batch) >= 512
    train(8, 1024, int(batch)).compile()


# The first program is planned completely; of the second one, only the tensors are.
@pytest.mark.parametrize(("layers", "batch"), [(34, 512), (24, 2048)])
def test_the_advised_ipus_and_axes_fit(layers, batch):
    text = error_of(train(layers, 1536, batch))
    count, axis = advised(text, r"(\d) IPUs .*params\['h_\*'\]\['kernel'\] \(f32\[1536,1536\]\) along axis (\d)")
    advised(text, rf"trace\['h_\*'\]\['kernel'\] .* along axis {axis}; and the batch \(x, y\) cut along axis 0")
    mesh = Mesh(np.array(devices[: int(count)]), "i")
    axes = [None, None]
    axes[int(axis)] = "i"
    cut, rows, whole = (NamedSharding(mesh, PartitionSpec(*s)) for s in (axes, ("i",), ()))
    params = jax.tree.map(lambda p: cut if len(p.shape) == 2 else whole, network(layers, 1536))
    train(layers, 1536, batch, in_shardings=(params, params, rows, rows), out_shardings=(params, params)).compile()


def test_what_every_ipu_holds_whole_is_to_be_cut():
    mesh = Mesh(np.array(devices[:2]), "i")
    rows, whole, cut = (NamedSharding(mesh, PartitionSpec(*s)) for s in (("i",), (), ("i", None)))

    def program(state):
        params = jax.tree.map(lambda p: state if len(p.shape) == 2 else whole, network(38, 1536))
        return train(38, 1536, 512, in_shardings=(params, params, rows, rows), out_shardings=(params, params))

    text = error_of(program(whole))
    advised(text, r"cutting over the 2 IPUs .*: params\['h_\*'\]\['kernel'\] \(f32\[1536,1536\]\) along axis 0, trace")
    program(cut).compile()


def test_half_precision_is_advised_to_wide_types_only():
    assert "half precision" in error_of(train(34, 1536, 512), 0)
    assert "half precision" not in error_of(train(64, 1536, 512, jnp.bfloat16), 0)


def test_recomputing_is_advised_to_gradients_that_keep_activations():
    assert "jax.checkpoint" in error_of(train(8, 1024, 16384), 0)
    product = jax.jit(lambda x: (x @ x) @ x, backend="ipu").lower(spec(8800, 8800))
    assert "jax.checkpoint" not in error_of(product, 0)


def test_an_inference_names_its_batch():
    apply = jax.jit(lambda params, x: x @ params["w"], backend="ipu")
    text = error_of(apply.lower({"w": spec(512, 512)}, spec(524288, 512)))
    (batch,) = advised(text, r"a batch of (\d+) instead of 524288 \(x\)")
    apply.lower({"w": spec(512, 512)}, spec(int(batch), 512)).compile()


def test_more_tiles_are_advised_to_few():
    text = str(jax.jit(lambda x: x @ x, backend="ipu").lower(spec(2048, 2048)).compiler_ir("stablehlo")).encode()
    with pytest.raises(compiler.CompileError, match="all 1472 tiles of the IPU instead of 16"):
        compiler.compile(text, "mlir", b"", "ipu2:16")
    compiler.compile(text, "mlir", b"", "ipu2")


# What is done until it comes -----------------------------------------------------------------------------------------


@pytest.fixture
def work(monkeypatch):
    """Counts the work of compilations: attempts, and operations planned, for each graph and in all."""
    done = {"attempts": 0, "graphs": [], "plans": 0}

    def build(*args, original=fit.build):
        done["attempts"] += 1
        return original(*args)

    def compile_graph(graph, programs, name, plans, poll, original=_ipu.compile_graph):
        before = len(plans)
        try:
            return original(graph, programs, name, plans, poll)
        finally:
            done["graphs"].append(len(plans) - before)
            done["plans"] = sum(done["graphs"])

    monkeypatch.setattr(fit, "build", build)
    monkeypatch.setattr(_ipu, "compile_graph", compile_graph)
    return done


def test_live_tensors_above_the_memory_end_it_at_once(work):
    error_of(train(24, 1536, 4096), 0)
    # One attempt with the read-only arguments in SRAM, and one without.
    assert work["attempts"] == 2 and work["plans"] == 0


def test_attempts_share_what_is_planned(work):
    error_of(train(34, 1536, 512), 0)
    assert 1 <= work["attempts"] <= 3
    first, *following = work["graphs"]
    # What differs between attempts is the mapping of activations, or of weights.
    assert following and max(following) <= first / 2


def test_one_program_with_too_few_tiles_is_at_most_twice_the_work(work, monkeypatch):
    passes = []

    def optimize(*args, original=fit.pipeline.optimize, **options):
        passes.append(args)
        return original(*args, **options)

    monkeypatch.setattr(fit.pipeline, "optimize", optimize)
    text = str(train(8, 1024, 256).compiler_ir("stablehlo").operation.get_asm(enable_debug_info=True)).encode()
    compiler.compile(text, "mlir", b"", "ipu2:368")
    fits = dict(work)
    with pytest.raises(_ipu.OutOfMemory):
        compiler.compile(text, "mlir", serialize_options({"ipu_advice_seconds": 0.0}), "ipu2:159")
    assert work["attempts"] - fits["attempts"] == 2
    assert work["plans"] - fits["plans"] <= 2 * fits["plans"]
    assert len(passes) == 1 + 2  # attempts that differ only in the mapping or the memory of products share them


# While it compiles ---------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_the_stage(monkeypatch):
    times = iter([0.0, 1.0, 3.0, 3.1, 4.0, 5.0])
    monkeypatch.setattr(progress, "_clock", lambda: next(times))
    monkeypatch.setitem(sys.modules, "tqdm", None)  # as if it were not installed
    terminal, pipe = Terminal(), io.StringIO()
    with progress.Progress("jit_step", terminal) as line:
        line.stage("mapping tensors to tiles")
        assert terminal.getvalue() == ""
        line.stage("planning operations")
        line.step(1, 9)  # too soon after the last line
        line.attempt(2, "repeated blocks as functions")
        line.step(7, 9)
    cleared = "\r\x1b[K"
    assert terminal.getvalue() == (
        f"{cleared}compiling jit_step for ipu: planning operations"
        f"{cleared}compiling jit_step for ipu: planning operations (attempt 2: repeated blocks as functions) 7 of 9"
        f"{cleared}"
    )
    monkeypatch.setattr(progress, "_clock", lambda: 0.0)
    with progress.Progress("jit_step", pipe) as line:
        monkeypatch.setattr(progress, "_clock", lambda: 9.0)
        line.stage("planning operations")
    assert pipe.getvalue() == ""


def test_compilations_can_be_ended(monkeypatch):
    def compile_graph(*args, original=_ipu.compile_graph):
        progress.cancel_all()
        return original(*args)

    text = str(jax.jit(lambda x: x @ x, backend="ipu").lower(spec(8, 8)).compiler_ir("stablehlo")).encode()
    monkeypatch.setattr(_ipu, "compile_graph", compile_graph)
    with pytest.raises(compiler.CompileError, match="interrupted") as error:
        compiler.compile(text, "mlir", b"", "ipu2:4")
    assert error.value.code == CANCELLED
    monkeypatch.undo()
    compiler.compile(text, "mlir", b"", "ipu2:4")


INTERRUPTED = """
    import os, signal, threading
    import jax, jax.numpy as jnp
    from jax_ipu import _ipu
    from jax_ipu.compiler import fit
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
    original, begun, ended = fit.build, threading.Event(), threading.Event()
    def build(mapped, lowered, plans, progress):
        begun.set()
        try:
            while True:  # until the interrupt has reached this compilation
                progress.stage("building")
        except BaseException as error:  # on the thread of the caller, as with jaxlib 0.12: KeyboardInterrupt
            ended.reason = str(error) or "was interrupted"
            ended.set()
            raise
    fit.build = build
    threading.Thread(target=lambda: (begun.wait(), os.kill(os.getpid(), signal.SIGINT))).start()
    step = jax.jit(lambda x: x + 1, backend="ipu")
    try:
        step(1)
    except KeyboardInterrupt:
        print("interrupted")
    assert ended.wait(20)
    print(ended.reason)
    fit.build = original
    print(step(1))
"""


def test_ctrl_c_ends_a_compilation_and_nothing_else(tmp_path):
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(INTERRUPTED)],
        capture_output=True,
        text=True,
        env=os.environ | {"JAX_PLATFORMS": "ipu,cpu"},
        cwd=tmp_path,  # the installed package, not the checkout's
        timeout=120,
        check=False,
    )
    lines = result.stdout.split("\n")
    assert lines[0] == "interrupted" and "was interrupted" in lines[1] and lines[2] == "2", result.stderr
    assert result.returncode == 0, result.stderr
