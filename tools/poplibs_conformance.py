"""Builds PopLibs, from its public source, on the model's public headers and library, and runs its tests on the model.

    python tools/poplibs_conformance.py --poplibs SOURCE --build BUILD --work FOLDER [STEP...]

SOURCE is a Git checkout of github.com/graphcore/poplibs; BUILD a CMake build of this project with the target
`ipu_model`; the package jax_ipu of the same build is installed. In FOLDER are the objects, libraries and results. The
steps are headers, objects, libraries, codelets, tests and report; the last writes docs/poplibs_conformance.md. The step
check, which only runs when it is named, fails for a test that failed and has no cause in tools/poplibs/report.py; so
does compare, which runs operations by PopLibs and by our own library, and writes the table of both in
docs/model_accuracy.md. The step plans, also by name only, writes the table there of convolutions beside what PopLibs'
planner expects.

A run may be interrupted: the same command again does what is missing. A test is run again when the library of the
model, PopLibs' libraries or their codelets have changed since, and when it did not end in a shorter time than --seconds
now gives it. The tests are those that PopLibs' CMake files list for a model, of the libraries that --tests names;
--only and --every choose some of them, and --minutes ends the step early. The document says how many were run, and with
which limits.

PopLibs takes `poplar/` from ipu_model/include, and everything else (`popops/`, `poplin/`, ...) from itself. Graphcore's
unpublished helpers that it needs have stand-ins in tools/poplibs/stand_ins. From Debian: libboost-test-dev,
libboost-program-options-dev, libboost-filesystem-dev, libboost-timer-dev, libtbb-dev, libspdlog-dev, libfmt-dev.
"""

from __future__ import annotations

import argparse
import pathlib
import sys

from poplibs import build, compare, ctests, plans, report
from poplibs.workspace import CODELET_LIBRARIES, Workspace

STEPS = ("headers", "objects", "libraries", "codelets", "tests", "report")
TESTED = ("poputil", "popops", "poplin", "popnn", "poprand", "popsparse")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poplibs", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--only", action="append", default=[], help="programs, tests whose name has this text, or operations to compare"
    )
    parser.add_argument("--every", type=int, default=1, help="of each program, run only every so-manieth test")
    parser.add_argument("--tests", action="append", default=[], help="libraries whose tests are run (all)")
    parser.add_argument("--library", action="append", default=[], help="whose codelets are compiled (all)")
    parser.add_argument("--seconds", type=float, default=120, help="processor time of one test program")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="when the last test may begin")
    parser.add_argument("steps", nargs="*", default=STEPS)
    arguments = parser.parse_args()
    if unknown := set(arguments.steps) - {*STEPS, "compare", "plans", "check"}:
        parser.error(f"there is no step {', '.join(sorted(unknown))}: {', '.join(STEPS)}, check, compare, plans")
    space = Workspace(arguments.poplibs.resolve(), arguments.build.resolve(), arguments.work.resolve(), arguments.jobs)
    for step in arguments.steps:
        if step == "tests":
            choice = ctests.Choice(arguments.only, arguments.every, arguments.seconds, 60 * arguments.minutes)
            for library in TESTED:
                ctests.tests(space, library, choice if library in (arguments.tests or TESTED) else None)
        elif step == "codelets":
            for library in arguments.library or CODELET_LIBRARIES:
                build.codelets(space, library)
        elif step == "report":
            report.write(space)
        elif step == "check":
            if failed := report.unexplained(space):
                sys.exit(f"{len(failed)} tests failed without a known cause:\n    " + "\n    ".join(failed))
        elif step == "compare":
            compare.compare(space, arguments.only)
        elif step == "plans":
            plans.compare(space)
        else:
            build.STEPS[step](space)


if __name__ == "__main__":
    main()
