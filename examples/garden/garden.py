"""What the programs of the garden share: the command line, the steps, and what a step costs on the modelled IPUs."""

from __future__ import annotations

import argparse
import functools
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jax_ipu

# The axis of every mesh.
AXIS = "ipus"


class Options(NamedTuple):
    """What is asked of a program; `batch` are the rows of a step on all IPUs together."""

    batch: int
    ipus: int = 1
    small: bool = False
    precision: str = "float32"
    mesh: Any = None


class Job(NamedTuple):
    """A step that is called again and again: its state stays on the IPUs, the rows of its batch are split over them."""

    step: Callable[[Any, Any], tuple[Any, Any]]  # (state, batch) -> (new state, result); the result may be a loss
    state: Callable[[], Any]  # makes the first state
    batch: Callable[[int], Any]  # the batch of a step, by its number: arrays of NumPy
    rows: int  # of one step
    split: Callable[[Any], P] = lambda leaf: P()  # how a leaf of the state is split over the IPUs


class PipelineJob(NamedTuple):
    """A model whose stages are on IPUs of their own: what jax_ipu.pipeline takes."""

    stages: list[Callable[..., Any]]
    params: Callable[[], list[Any]]
    optimizer: Any
    accumulation: int
    batch: Callable[[int], Any]  # (x, *targets)
    rows: int
    scale: float = 1.0  # of the loss that the last stage returns
    schedule: str = "interleaved"


class Program(NamedTuple):
    """A file of the garden: `tasks` maps a name, such as "training", to what makes its job."""

    name: str
    tasks: Mapping[str, Callable[[Options], Job | PipelineJob]]
    unit: str  # of what a row is: "images"
    batch: int
    small_batch: int
    precisions: tuple[str, ...] = ("float32",)  # the first is the default
    ipus: tuple[int, ...] = (1, 2, 4, 8, 16)  # for how many it can be; the first is the default
    packages: tuple[str, ...] = ()  # without which it cannot run

    def missing(self) -> list[str]:
        """The packages that are not installed."""
        return [name for name in self.packages if importlib.util.find_spec(name) is None]


class Cost(NamedTuple):
    """What a step costs: of one of the IPUs, or of a whole pipeline, where only `seconds` is known."""

    fits: bool
    reason: str | None
    seconds: float | None
    cycles: int | None = None
    utilisation: float | None = None
    unknown_loops: int = 0  # that were counted as one trip, as their number depends on values
    text: str = ""


# ---------------------------------------------------------------------------------------------------------------------


def split_longest(ipus: int) -> Callable[[Any], P]:
    """A `split` of jobs whose state fits no IPU whole: along the longest axis that the number of IPUs divides."""

    def split(leaf: Any) -> P:
        axes = [axis for axis in range(leaf.ndim) if leaf.shape[axis] % ipus == 0]
        longest = max(axes, key=lambda axis: leaf.shape[axis], default=None)
        return P() if longest is None else P(*[None] * longest, AXIS)

    return split


def gathered(options: Options) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """For split weights: what gathers those that it gets on every IPU, and what keeps values split by rows."""

    def place(split: P) -> Callable[[Any], Any]:
        sharding = NamedSharding(options.mesh, split)
        return lambda tree: jax.tree.map(lambda leaf: jax.lax.with_sharding_constraint(leaf, sharding), tree)

    return place(P()), place(P(AXIS))


def compiler_options(precision: str) -> dict[str, Any]:
    """Of a program in float16 on IPUs: partial sums are float16, too, as in the published figures."""
    return {"ipu_partials_type": "half"} if precision == "float16" else {}


def jitted(job: Job, mesh: Any, compiler_options: dict[str, Any]) -> Any:
    """The step of a job for the devices of a mesh, which may be abstract, or for one IPU: the state is donated."""
    if mesh is None:
        return jax.jit(job.step, donate_argnums=0, compiler_options=compiler_options)
    states = jax.tree.map(lambda leaf: NamedSharding(mesh, job.split(leaf)), jax.eval_shape(job.state))
    rows = jax.tree.map(lambda leaf: NamedSharding(mesh, P(AXIS) if np.ndim(leaf) else P()), job.batch(0))
    shardings: Any = {"in_shardings": (states, rows), "out_shardings": (states, None)}
    return jax.jit(job.step, donate_argnums=0, compiler_options=compiler_options, **shardings)


def run(program: Program, task: str, options: Options, devices: list[Any], steps: int) -> list[Any]:
    """Runs some steps and returns their results; prints nothing."""
    return [result for result, _ in _steps(program, task, options, devices, steps)]


def _steps(program: Program, task: str, options: Options, devices: list[Any], steps: int) -> Any:
    """Yields the result of each step and the counters of each IPU for it."""
    mesh = Mesh(np.array(devices), (AXIS,))
    job = program.tasks[task](options._replace(mesh=mesh))
    if isinstance(job, PipelineJob) and devices[0].platform == "ipu":
        step, state = _pipeline(job, devices, options.precision)
    else:
        if isinstance(job, PipelineJob):
            mesh, job = Mesh(np.array(devices[:1]), (AXIS,)), whole(job)
        ours = compiler_options(options.precision) if devices[0].platform == "ipu" else {}
        step = jitted(job, mesh, ours)
        with jax.default_device(jax.devices("cpu")[0]):
            state = job.state()
        state = jax.tree.map(lambda a: jax.device_put(a, NamedSharding(mesh, job.split(a))), state)
    ipus = [device for device in devices if device.platform == "ipu"]
    for number in range(steps):
        before = [jax_ipu.counters(ipu) for ipu in ipus]
        state, result = step(state, job.batch(number))
        result = jax.tree.map(np.asarray, result)
        jax.block_until_ready(state)
        after = [jax_ipu.counters(ipu) for ipu in ipus]
        pairs = zip(before, after, strict=True)
        yield result, [jax_ipu.Counters(*(b - a for a, b in zip(old, new, strict=True))) for old, new in pairs]


def _pipeline(job: PipelineJob, devices: list[Any], precision: str) -> tuple[Any, Any]:
    pipe = _pipe(job, devices, precision)
    with jax.default_device(jax.devices("cpu")[0]):
        params = job.params()

    def step(state: Any, batch: Any) -> tuple[Any, Any]:
        state, value = pipe.step(state, *batch)
        return state, np.float32(value) / np.float32(job.scale)

    return step, pipe.init(params)


def _pipe(job: PipelineJob, devices: list[Any], precision: str) -> Any:
    return jax_ipu.pipeline(
        job.stages,
        devices=devices[: len(job.stages)],
        optimizer=job.optimizer,
        gradient_accumulation=job.accumulation,
        schedule=job.schedule,
        compiler_options=compiler_options(precision),
    )


def whole(job: PipelineJob) -> Job:
    """The same training on one device, all stages and micro-batches together."""

    def loss(params: list[Any], batch: Any) -> Any:
        x, *targets = batch
        for stage, weights in zip(job.stages[:-1], params[:-1], strict=True):
            x = stage(weights, x)
        return job.stages[-1](params[-1], x, *targets)

    def step(state: Any, batch: Any) -> Any:
        params, moments = state
        parts = jax.tree.map(lambda a: a.reshape(job.accumulation, -1, *a.shape[1:]), batch)
        means = jax.vmap(lambda part: jax.value_and_grad(loss)(params, part))(parts)
        value, gradients = jax.tree.map(lambda a: a.astype(jnp.float32).mean(0).astype(a.dtype), means)
        changed = [job.optimizer.update(g, m, p) for g, m, p in zip(gradients, moments, params, strict=True)]
        added = [
            jax.tree.map(lambda p, u: (p + u).astype(p.dtype), p, u) for p, (u, _) in zip(params, changed, strict=True)
        ]
        return (added, [moment for _, moment in changed]), value / job.scale

    def state() -> Any:
        params = job.params()
        return params, [job.optimizer.init(one) for one in params]

    return Job(step, state, job.batch, job.rows)


# ---------------------------------------------------------------------------------------------------------------------


def cost(program: Program, task: str, options: Options, target: str | None) -> Cost:
    """What a step costs on the IPUs of `target`, by jax_ipu.estimate. Nothing is run."""
    options = options._replace(mesh=_described_mesh(program, options))
    job = program.tasks[task](options)
    if isinstance(job, PipelineJob):
        return _cost_of_pipeline(job, options.precision, target)
    found = jax_ipu.estimate(*_arguments(job, options), target=target, num_ipus=options.ipus)
    loops = found.unknown_trip_counts
    return Cost(found.fits, found.reason, found.seconds, found.cycles, found.utilisation, loops, str(found))


def _described_mesh(program: Program, options: Options) -> AbstractMesh | None:
    """A mesh without devices; none for programs for one IPU, as JAX lowers no callbacks with an abstract mesh."""
    return AbstractMesh((options.ipus,), (AXIS,)) if program.ipus != (1,) else None


def _arguments(job: Job, options: Options) -> tuple[Any, Any, Any]:
    step = jitted(job, options.mesh, compiler_options(options.precision))
    return step, jax.eval_shape(job.state), jax.eval_shape(lambda: jax.tree.map(np.asarray, job.batch(0)))


def _cost_of_pipeline(job: PipelineJob, precision: str, target: str | None) -> Cost:
    if target not in (None, jax_ipu.config.model_version):
        jax_ipu.config.model_version = target
    params = jax.eval_shape(job.params)
    pipe = _pipe(job, [f"IPU {number}" for number in range(len(job.stages))], precision)
    try:
        found = pipe.timeline(params, *job.batch(0))
    except ValueError as error:
        if "does not fit" not in str(error):
            raise
        return Cost(False, str(error), None)
    return Cost(True, None, found.whole, text=f"{found}\nwithout the update of the weights")


def report(program: Program, task: str, options: Options, target: str | None, path: Path) -> None:
    """Writes the report of a step for a browser, or the timeline of a pipeline as a picture."""
    options = options._replace(mesh=_described_mesh(program, options))
    job = program.tasks[task](options)
    if not isinstance(job, PipelineJob):
        jax_ipu.report(*_arguments(job, options), target=target, path=path)
        return
    pipe = _pipe(job, [f"IPU {number}" for number in range(len(job.stages))], options.precision)
    path.write_text(pipe.timeline(jax.eval_shape(job.params), *job.batch(0)).svg())


# ---------------------------------------------------------------------------------------------------------------------


def main(program: Program, description: str | None) -> None:
    """Runs a program with the options of the command line; wrong ones end with one sentence and exit code 2."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    tasks = tuple(program.tasks)
    default = program.batch
    parser.add_argument("--task", default=tasks[0], help=f"one of {', '.join(tasks)}")
    parser.add_argument("--batch", type=int, default=None, help=f"{program.unit} of a step; {default} for each IPU")
    parser.add_argument("--ipus", type=int, default=program.ipus[0], help=f"one of {_list(program.ipus)}")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--precision", default=program.precisions[0], help=f"one of {_list(program.precisions)}")
    parser.add_argument("--target", default=None, help="the chip: ipu1, ipu2, ipu21 or bow")
    parser.add_argument("--backend", default="ipu", help="where the steps run: ipu or cpu")
    parser.add_argument("--small", action="store_true", help="a model of the same kind that compiles in a second")
    parser.add_argument("--estimate", action="store_true", help="only say whether it fits and what it costs")
    parser.add_argument("--report", type=Path, default=None, metavar="FILE", help="write a report for a browser")
    arguments = parser.parse_args()
    if arguments.batch is None:
        arguments.batch = program.small_batch if arguments.small else default
        arguments.batch *= arguments.ipus if arguments.ipus > 0 else 1
    if wrong := _wrong(program, arguments):
        parser.exit(2, f"{parser.prog}: {wrong}\n")
    options = Options(arguments.batch, arguments.ipus, arguments.small, arguments.precision)
    about = f"{program.name}, {arguments.task}, {options.precision}, {options.batch} {program.unit}"
    print(f"{about}, {options.ipus} {'IPU' if options.ipus == 1 else 'IPUs'}")
    try:
        _execute(program, arguments, options)
    except ValueError as error:  # what a model says of a batch that it cannot take
        parser.exit(2, f"{parser.prog}: {error}\n")


def _execute(program: Program, arguments: argparse.Namespace, options: Options) -> None:
    if arguments.target is not None:
        jax_ipu.config.model_version = arguments.target
    if arguments.backend == "cpu":
        jax.config.update("jax_num_cpu_devices", options.ipus)
    else:
        jax_ipu.config.device_count = options.ipus
    if arguments.report is not None:
        report(program, arguments.task, options, arguments.target, arguments.report)
        print(f"Report: {arguments.report}")
    if arguments.estimate:
        found = cost(program, arguments.task, options, arguments.target)
        print(found.text if found.fits else f"does not fit: {found.reason}")
        if found.fits and found.seconds:
            print(f"{options.batch / found.seconds:,.0f} {program.unit} a second")
        return
    devices = jax.devices(arguments.backend)[: options.ipus]
    moved: list[Any] = []
    for number, (result, counted) in enumerate(_steps(program, arguments.task, options, devices, arguments.steps)):
        print(f"step {number + 1}: {described(result)}")
        moved = counted
    for device, one in zip(devices, moved, strict=False):
        print(
            f"{device} per step: {one.h2d_bytes:,} bytes in, {one.d2h_bytes:,} out, {one.link_bytes:,} from other"
            f" IPUs; {one.cycles:,} cycles"
        )
    if moved:
        if isinstance(program.tasks[arguments.task](options), PipelineJob):  # its IPUs wait for each other
            seconds = cost(program, arguments.task, options, arguments.target).seconds
        else:
            seconds = max(one.cycles for one in moved) / devices[0].tile_clock_frequency
        if seconds:
            rate = f"{options.batch / seconds:,.0f} {program.unit} a second"
            print(f"Modelled on {devices[0].version}, without the host link: {rate}")


def described(result: Any) -> str:
    """A loss as a number, other results by their shapes."""
    leaves = jax.tree.leaves(result)
    if len(leaves) == 1 and np.ndim(leaves[0]) == 0:
        return f"{float(leaves[0]):.5f}"
    return ", ".join(f"{leaf.dtype}{list(leaf.shape)}" for leaf in map(np.asarray, leaves))


def _wrong(program: Program, arguments: argparse.Namespace) -> str | None:
    """What is wrong with the options, in one sentence."""
    if missing := program.missing():
        return f"this program needs {', '.join(missing)}: pip install 'jax_ipu[garden]'"
    for name, value, known in (
        ("--task", arguments.task, tuple(program.tasks)),
        ("--precision", arguments.precision, program.precisions),
        ("--ipus", arguments.ipus, program.ipus),
        ("--backend", arguments.backend, ("ipu", "cpu")),
    ):
        if value not in known:
            return f"{name} {value} is not possible: give one of {_list(known)}"
    if arguments.target is not None:
        try:
            jax_ipu.Config().model_version = arguments.target
        except ValueError as error:
            return f"--target {arguments.target} is not a chip that the model knows: {error}"
    if arguments.steps < 1:
        return f"--steps {arguments.steps} is not possible: give at least 1"
    if arguments.batch < 1 or arguments.batch % arguments.ipus:
        return f"a batch of {arguments.batch} does not divide into {arguments.ipus} parts"
    return None


def _list(names: tuple[Any, ...]) -> str:
    return ", ".join(map(str, names))


@functools.cache
def programs() -> dict[str, Program]:
    """All programs of this folder, by the names of their files; a file without its package is left out."""
    import importlib
    import sys

    folder = Path(__file__).parent
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    found = {}
    for path in sorted(folder.glob("*.py")):
        if "\nPROGRAM = " in path.read_text():
            found[path.stem] = importlib.import_module(path.stem).PROGRAM
    return found
