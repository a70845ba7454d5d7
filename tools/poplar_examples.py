"""Builds and runs the Poplar C++ programs of graphcore/examples, unchanged, on the IPU model.

    python tools/poplar_examples.py                           # fetched from GitHub
    python tools/poplar_examples.py --source ~/examples       # a checkout, or a bare repository
    python tools/poplar_examples.py --only tut6 prefetch
    python tools/poplar_examples.py --mnist FOLDER            # the MNIST data for regression-demo

Every program is compiled in a folder of its own with the options of `jax-ipu poplar`, its codelets with `jax-ipu popc`
where its Makefile calls popc, and run as its README or its tests run it. What it prints is compared with what they
document. Writes docs/poplar_examples.md; the exit code is 1 when a program does not do what is documented. Programs
for hardware run with IPU_MODEL_DEVICES, with which the device manager finds models. Without --mnist, regression-demo
trains on made-up images in the format of MNIST. Needs g++ and, for two programs, the headers and libraries of Boost.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REPOSITORY = "https://github.com/graphcore/examples"
TUTORIALS = "tutorials/tutorials/poplar"
FOLDERS = (
    TUTORIALS,
    "tutorials/feature_examples/poplar",
    "tutorials/simple_applications/poplar",
    "tutorials/tutorials/popvision/lightweight_profiling",
)
HARDWARE = {"IPU_MODEL_DEVICES": "2"}
SECONDS = 1200
HEADER = """# Poplar programs of graphcore/examples

Made by `tools/poplar_examples.py`; do not edit. The C++ programs of
[graphcore/examples](https://github.com/graphcore/examples), unchanged: they are compiled with the options of
`jax-ipu poplar` and run on the IPU model. Programs that look for hardware find models, because `IPU_MODEL_DEVICES` is
set; C++17 replaces the C++11 of the Makefiles. The column "printed" has what the README or the tests of the program
document and the program printed, as regular expressions; "lacking" has what it did not print, or the error.

"""
MADE_UP = """regression-demo trained on **made-up images in the format of MNIST**: noise, and a bright square whose
place tells the class. The data of MNIST is not part of the repository. So its accuracy says that the training works,
and nothing about MNIST; with `--mnist FOLDER` the tool uses the real data.

"""


@dataclass(frozen=True)
class Program:
    """A program, and what its documents say of it."""

    name: str
    folder: str
    sources: tuple[str, ...]
    # What it is to print, on either stream: regular expressions in the tests of the program or its README.
    expected: tuple[str, ...]
    arguments: str = ""
    libraries: tuple[str, ...] = ()
    codelets: tuple[str, ...] = ()  # for popc
    environment: dict[str, str] = field(default_factory=dict)
    before: str = ""  # a program that runs first, in the same folder
    exit_code: int = 0


V1 = (r"0 1 1.5 2", r"v4-1: \[10 11 12 13 14 15 16 17 18 19\]", "h3 data:", "Program complete")
MATRIX_5 = ("Multiplying matrix of size 40x50 by vector of size 50", "Multiplication result OK")


def _matrix_6(worst: int) -> tuple[str, ...]:
    size = "Multiplying matrix of size 10000x1000 by vector of size 1000"
    return (size, f"Worst cost seen: {worst}", "Multiplication result OK", "Memory Usage:")


PROGRAMS = (
    Program("tut1 start_here", f"{TUTORIALS}/tut1_variables/start_here", ("tut1.cpp",), ()),
    Program("tut1 model", f"{TUTORIALS}/tut1_variables/complete", ("tut1_ipu_model_complete.cpp",), V1),
    Program(
        "tut1 hardware",
        f"{TUTORIALS}/tut1_variables/complete",
        ("tut1_ipu_hardware_complete.cpp",),
        ("Attached to IPU", *V1),
        environment=HARDWARE,
    ),
    Program("tut2 start_here", f"{TUTORIALS}/tut2_operations/start_here", ("tut2.cpp",), ("Program complete",)),
    Program(
        "tut2",
        f"{TUTORIALS}/tut2_operations/complete",
        ("tut2_complete.cpp",),
        (
            "Program complete",
            r"v3: \[\W+\[5.0000000 4.5000000\]\W+\[4.0000000 3.5000000]\W+\]",
            r"v4: \[\W+\[9.0000000 7.5000000\]\W+\[6.0000000 4.5000000]\W+\]",
            r"v5: \[\W+\[5.0000000 3.5000000\]\W+\[5.0000000 3.5000000]\W+\]",
        ),
    ),
    Program("tut3 start_here", f"{TUTORIALS}/tut3_vertices/start_here", ("tut3.cpp",), ("Program complete",)),
    Program(
        "tut3",
        f"{TUTORIALS}/tut3_vertices/complete",
        ("tut3_complete.cpp",),
        ("Program complete", r"v2: \[7.0000000 6.0000000 4.5000000 2.5000000\]"),
    ),
    Program(
        "tut4 model",
        f"{TUTORIALS}/tut4_profiling",
        ("tut4_ipu_model.cpp",),
        ("Program complete", "Memory Usage:"),
    ),
    Program(
        "tut4 hardware",
        f"{TUTORIALS}/tut4_profiling",
        ("tut4_ipu_hardware.cpp",),
        ("Program complete", "Memory Usage:"),
        environment=HARDWARE,
    ),
    Program(
        "tut4 libpva",
        f"{TUTORIALS}/tut4_profiling/libpva",
        ("cpp_example.cpp",),
        (
            "Example information from profile:",
            r"Number of compute sets: [1-9]\d*",
            "Number of tiles on target: 1472",
            r"Version of Poplar used: \S+",
        ),
        before="tut4 model",
        environment={"POPLAR_ENGINE_OPTIONS": '{"autoReport.all":"true"}'},
    ),
    Program("tut5 start_here", f"{TUTORIALS}/tut5_matrix_vector/start_here", ("tut5.cpp",), (), "40 50", exit_code=1),
    Program("tut5", f"{TUTORIALS}/tut5_matrix_vector/complete", ("tut5_complete.cpp",), MATRIX_5, "40 50"),
    Program(
        "tut5 hardware",
        f"{TUTORIALS}/tut5_matrix_vector/complete",
        ("tut5_ipu_hardware_complete.cpp",),
        MATRIX_5,
        "40 50",
        environment=HARDWARE,
    ),
    *(
        Program(
            f"tut6 {device}",
            f"{TUTORIALS}/tut6_matrix_vector_opt",
            ("tut6.cpp",),
            _matrix_6(worst),
            f"10000 1000 --device {device}",
            environment=HARDWARE if device == "ipu" else {},
        )
        for device, worst in (("model-ipu2", 53807), ("model-ipu1", 64373), ("ipu", 53807))
    ),
    Program(
        "regression-demo",
        "tutorials/simple_applications/poplar/mnist",
        ("regression-demo.cpp", "mnist.cpp"),
        ("Using the IPU Model", "Memory Usage:", r"Epoch 1 \(100%\), accuracy \d+%"),
        "1 1.0",
        ("popnn", "poplin", "popops", "poputil", "poplar"),
    ),
    Program(
        "prefetch",
        "tutorials/feature_examples/poplar/prefetch",
        ("prefetch.cpp",),
        ("Running", r"complete \(value: 1\)", r"prefetch \(value: 9\)", "Set input callback"),
        environment=HARDWARE,
    ),
    Program(
        "advanced_example model",
        "tutorials/feature_examples/poplar/advanced_example",
        ("main.cpp",),
        ("Results match.", "Using IPU model"),
        "--model --profile --save-exe --exe-name saved",
        ("boost_program_options",),
        ("codelets.cpp",),
    ),
    Program(
        "advanced_example hardware",
        "tutorials/feature_examples/poplar/advanced_example",
        ("main.cpp",),
        ("Using HW device ID", "Results match."),
        "",
        ("boost_program_options",),
        ("codelets.cpp",),
        HARDWARE,
    ),
    Program(
        "advanced_example loaded",
        "tutorials/feature_examples/poplar/advanced_example",
        ("main.cpp",),
        ("Results match.", "Using IPU model"),
        "--model --load-exe --exe-name saved",
        ("boost_program_options",),
        environment={"IPU_MODEL_CODELETS": "compile"},
        before="advanced_example model",
    ),
    *(
        Program(
            f"lightweight_profiling {name}",
            "tutorials/tutorials/popvision/lightweight_profiling/examples",
            (f"{name}.cpp",),
            printed,
            environment=HARDWARE,
        )
        for name, printed in (
            ("example_1", (r"stage1: \d+ \(\d+ - \d+\)\s+op2: \d+", r"stage2: \d+ \(\d+ - \d+\)\s+op2: \d+")),
            ("example_2", (r"(operation: \d+\s+){5}",)),
            (
                "example_3",
                (r"(operation in tile    0:.*\s+){5}", r"(StreamCopyBegin in tile  100:.*\s+.*Mid.*\s+.*End.*\s+){5}"),
            ),
            ("example_3_a", ("numCommonBlocks: 100", "numOverflows: 0")),
        )
    ),
)


@dataclass
class Result:
    """What became of a program."""

    program: Program
    compiles: bool = False
    runs: bool = False
    documented: bool = False
    printed: tuple[str, ...] = ()
    reason: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the programs and writes the table. Returns 1 when one of them does not do what is documented."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, help="a checkout or a bare repository of graphcore/examples")
    parser.add_argument("--mnist", type=Path, help="a folder with train-images-idx3-ubyte and train-labels-idx1-ubyte")
    parser.add_argument("--only", nargs="*", default=[], help="programs whose names begin with one of these")
    parser.add_argument("--report", type=Path, help="where the table is written (docs/poplar_examples.md)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        examples = fetch(options.source, work)
        flags, libraries = (compiler_options(name) for name in ("--cflags", "--libs"))
        built: dict[str, Path] = {}
        results = []
        for program in PROGRAMS:
            if options.only and not program.name.startswith(tuple(options.only)):
                continue
            result = check(program, examples, work, flags, libraries, built, options.mnist)
            results.append(result)
            print(f"{program.name}: {result.reason or 'as documented'}", flush=True)
    text = ("" if options.mnist else MADE_UP) + table(results)
    if options.report or not options.only:
        (options.report or ROOT / "docs" / "poplar_examples.md").write_text(HEADER + text)
    print(text)
    return 0 if all(result.documented for result in results) else 1


def fetch(source: Path | None, work: Path) -> Path:
    """Returns a folder with the examples: the given checkout, or what a repository has at its HEAD."""
    if source is not None and (source / TUTORIALS).is_dir():
        return source
    examples = work / "examples"
    if source is None:
        source = work / "repository"
        clone = ["git", "clone", "--quiet", "--depth=1", "--filter=blob:none", "--bare", REPOSITORY, str(source)]
        subprocess.run(clone, check=True)
    archive = subprocess.run(
        ["git", f"--git-dir={source}", "archive", "HEAD", *FOLDERS], check=False, capture_output=True
    ).stdout
    # A repository without all of its pictures gives an archive that ends early.
    with tarfile.open(fileobj=BytesIO(archive), mode="r|", errorlevel=0) as files:
        try:
            for member in files:
                files.extract(member, examples, filter="data")
        except tarfile.ReadError:
            pass
    missing = [folder for folder in FOLDERS if not (examples / folder).is_dir()]
    if missing:
        raise SystemExit(f"{source} has no {', '.join(missing)}: give a checkout of {REPOSITORY} with --source")
    return examples


def compiler_options(name: str) -> list[str]:
    """What `jax-ipu poplar` prints for an option."""
    command = [sys.executable, "-m", "jax_ipu", "poplar", name]
    return shlex.split(subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout)


def check(
    program: Program,
    examples: Path,
    work: Path,
    flags: list[str],
    libraries: list[str],
    built: dict[str, Path],
    mnist: Path | None,
) -> Result:
    """Compiles and runs a program in a copy of its folder."""
    result = Result(program)
    folder = work / "run" / re.sub(r"\W", "_", program.name)
    shutil.copytree(examples / program.folder, folder)
    if program.before:
        for file in built[program.before].iterdir():
            if file.name in ("profile.pop", "program", "codelets.gp") or file.suffix == ".poplar":
                shutil.copy(file, folder / ("before" if file.name == "program" else file.name))
    for source in program.codelets:
        target = str(Path(source).with_suffix(".gp"))
        popc = [sys.executable, "-m", "jax_ipu", "popc", str(folder / source), "-o", str(folder / target)]
        done = run(popc, ROOT, {})
        if done.returncode != 0:
            result.reason = first_error(done.stderr)
            return result
    link = [f"-l{name}" for name in program.libraries]
    command = ["g++", "-O1", "-w", *flags, *program.sources, "-o", "program", *libraries, *link]
    done = run(command, folder, {})
    if done.returncode != 0:
        result.reason = "does not compile: " + first_error(done.stderr)
        return result
    result.compiles = True
    built[program.name] = folder
    if program.name == "regression-demo":
        provide_mnist(folder / "data", mnist)
    environment = dict(program.environment)
    if program.before == "tut4 model":
        done = run(["./before"], folder, environment)
    done = run(["./program", *shlex.split(program.arguments)], folder, environment)
    if done.returncode != program.exit_code:
        result.reason = f"exit code {done.returncode}: " + first_error(done.stderr or done.stdout)
        return result
    result.runs = True
    printed = done.stdout + done.stderr
    result.printed = tuple(text for text in program.expected if re.search(text, printed))
    lacking = [text for text in program.expected if text not in result.printed]
    result.documented = not lacking
    if lacking:
        result.reason = "does not print " + ", ".join(lacking)
    return result


def run(command: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a command that may fail or take too long."""
    variables = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}", **environment}
    try:
        return subprocess.run(
            command, cwd=folder, env=variables, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"no end after {SECONDS} seconds")


def first_error(text: str) -> str:
    """The first line of a compiler's or program's output that says what is wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line or "what():" in line]
    return (errors or lines or ["no message"])[0][:300]


def provide_mnist(folder: Path, given: Path | None) -> None:
    """Puts the training data of MNIST into a folder: the given one, or made-up images in its format.

    A made-up image has noise and a bright square whose place tells the class.
    """
    folder.mkdir(exist_ok=True)
    names = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
    if given is not None:
        for name in names:
            shutil.copy(given / name, folder)
        return
    count, size = 60000, 28
    chance = random.Random(0)
    labels = bytes(chance.randrange(10) for _ in range(count))
    squares = []
    for label in range(10):
        image = bytearray(size * size)
        row, column = 2 + label // 5 * 14, 1 + label % 5 * 5
        for y in range(row, row + 8):
            image[y * size + column : y * size + column + 4] = b"\xe0" * 4
        squares.append(int.from_bytes(image, "big"))
    mask = int.from_bytes(b"\x1f" * (size * size), "big")
    with (folder / names[0]).open("wb") as images:
        images.write(struct.pack(">IIII", 2051, count, size, size))
        for label in labels:
            noise = chance.getrandbits(8 * size * size) & mask
            images.write((squares[label] | noise).to_bytes(size * size, "big"))
    (folder / names[1]).write_bytes(struct.pack(">II", 2049, count) + labels)


def table(results: list[Result]) -> str:
    """The results in Markdown."""
    lines = ["| program | compiled | ran | printed | lacking |", "|---|---|---|---|---|"]
    for result in results:
        marks = " | ".join("yes" if mark else "no" for mark in (result.compiles, result.runs))
        printed = ", ".join(f"`{text}`" for text in result.printed).replace("|", "\\|")
        if not result.program.expected:
            printed = "nothing is documented"
        reason = result.reason.replace("|", "\\|")
        lines.append(f"| {result.program.name} | {marks} | {printed} | {reason} |")
    documented = sum(result.documented for result in results)
    return "\n".join(lines) + f"\n\n{documented} of {len(results)} do what is documented.\n"


if __name__ == "__main__":
    sys.exit(main())
