"""The programs of benchmarks/ can be traced, and the stored cycles are those of its programs."""

import json
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import modelled
import run

import timing
from workloads import DISPATCH, PROGRAMS, Program


@pytest.mark.parametrize("name", [*PROGRAMS, *DISPATCH])
def test_a_program_can_be_traced_and_passes_its_state_on(name):
    program = {**PROGRAMS, **DISPATCH}[name]()
    result = jax.eval_shape(program.function, *program.arguments)
    if program.state:
        state, _ = result
        types = [(x.shape, x.dtype) for x in jax.tree.leaves(state)]
        assert types == [(np.shape(x), np.asarray(x).dtype) for x in jax.tree.leaves(program.arguments[0])]


def test_every_program_has_a_step_and_a_first_call():
    cases = run.cases()
    assert {name for name, (group, _) in cases.items() if group == "step"} == set(PROGRAMS)
    first = {name.removeprefix("first call, ") for name, (group, _) in cases.items() if group == "first call"}
    assert first == {"tiny", *PROGRAMS}


def test_cycles_are_stored_of_each_modelled_program():
    assert set(json.loads(modelled.STORED.read_text())) == set(modelled.PROGRAMS)


def test_a_case_is_timed_and_its_values_are_compared():
    row = run.run("double", "step", lambda: Program(lambda x: x * 2, (np.ones(4, np.float32),)), 2, 0.1)
    assert row.error == "" and row.cpu > 0 and row.ipu > 0


def test_a_case_that_raises_is_shown_as_failing():
    unknown = jax.ffi.ffi_call("a function that nobody registered", jax.ShapeDtypeStruct((4,), np.float32))
    row = run.run("unknown", "step", lambda: Program(unknown, (np.ones(4, np.float32),)), 2, 0.1)
    assert row.ratio is None and row.error
    assert "1 of 1 failed" in "".join(run.summary([row]))


def test_differences_are_relative_to_the_largest_element():
    expected = {"x": np.array([1.0, 100.0, np.nan], np.float32)}
    assert timing.largest_difference({"x": np.array([2.0, 100.0, np.nan], np.float32)}, expected) == pytest.approx(0.01)
    with pytest.raises(ValueError, match="not finite"):
        timing.largest_difference({"x": np.array([1.0, 100.0, 0.0], np.float32)}, expected)
    with pytest.raises(ValueError, match="not float32"):
        timing.largest_difference({"x": np.array([1.0, 100.0, np.nan])}, expected)
