"""The runner of StableHLO's self-checking programs, on programs of our own."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import stablehlo_suite

ADD = """
func.func @add_test() {{
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = stablehlo.add %0, %0 : tensor<2xf32>
  check.expect_almost_eq_const %1, dense<[2.0, {last}]> : tensor<2xf32>
  func.return
}}
"""
CALLS = """
module @jit_main {
  func.func public @main() -> tensor<3xi32> {
    %0 = call @inputs() : () -> tensor<3xi32>
    %1 = call @expected() : () -> tensor<3xi32>
    %2 = stablehlo.negate %0 : tensor<3xi32>
    stablehlo.custom_call @check.expect_eq(%2, %1) {has_side_effect = true} : (tensor<3xi32>, tensor<3xi32>) -> ()
    return %2 : tensor<3xi32>
  }
  func.func private @inputs() -> tensor<3xi32> {
    %c = stablehlo.constant dense<[1, 0, -5]> : tensor<3xi32>
    return %c : tensor<3xi32>
  }
  func.func private @expected() -> tensor<3xi32> {
    %c = stablehlo.constant dense<[-1, 0, 5]> : tensor<3xi32>
    return %c : tensor<3xi32>
  }
}
"""
NOTHING = "func.func @main() { func.return }\n"
REFUSED = """
func.func @main() {
  %0 = stablehlo.constant dense<1.0> : tensor<f32>
  %1 = stablehlo.custom_call @nobody_knows(%0) : (tensor<f32>) -> tensor<f32>
  check.expect_eq %1, %0 : tensor<f32>
  func.return
}
"""


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "testdata").mkdir()
    (tmp_path / "tests" / "interpret").mkdir(parents=True)
    (tmp_path / "testdata" / "calls.mlir").write_text(CALLS)
    (tmp_path / "testdata" / "refused.mlir").write_text(REFUSED)
    two = ADD.format(last="4.0") + "\n// -----\n" + ADD.format(last="5.0") + "\n// -----\n" + NOTHING
    (tmp_path / "tests" / "interpret" / "add.mlir").write_text(two)
    return tmp_path


def run(checkout, known: str):
    """The exit code and the states by program."""
    listed, report = checkout / "known.txt", checkout / "report.txt"
    listed.write_text(known)
    arguments = [str(checkout), "--known", str(listed), "--report", str(report), "--jobs", "1"]
    code = stablehlo_suite.main(arguments)
    fields = [line.split("\t") for line in report.read_text().splitlines()]
    return code, {f[0]: f[1] for f in fields}, {f[0]: f[3].split()[1] for f in fields if len(f) > 3}


def test_programs_are_judged_by_their_expectations(checkout):
    known = "tests/interpret/add.mlir#1: wrong on purpose\ntestdata/ref*: unknown custom call\n"
    code, ipu, cpu = run(checkout, known)
    assert ipu == {
        "testdata/calls.mlir": "passed",
        "testdata/refused.mlir": "refused",
        "tests/interpret/add.mlir#0": "passed",
        "tests/interpret/add.mlir#1": "differs",
        "tests/interpret/add.mlir#2": "left out",
    }
    assert cpu["tests/interpret/add.mlir#0"] == "passed" and cpu["tests/interpret/add.mlir#1"] == "differs"
    assert code == 0


@pytest.mark.parametrize(
    "known", ["testdata/ref*: unknown custom call\n", "testdata/*: x\ntests/interpret/add.mlir#1: wrong on purpose\n"]
)
def test_unlisted_failures_and_listed_passes_are_errors(checkout, known):
    assert run(checkout, known)[0] == 1
