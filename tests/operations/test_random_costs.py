"""Random programs: what is estimated is what the counters count, and every program has a report."""

import json
import warnings

import jax
import pytest
from hypothesis import HealthCheck, given, settings

import jax_ipu
from support.programs import Program, programs
from support.random_programs import (
    program_control,
    program_elementwise,
    program_index,
    program_product,
    program_reduce,
    program_sort,
    program_state,
    program_views,
    program_window,
)

OPERATIONS = (
    program_elementwise.OPERATIONS
    + program_views.OPERATIONS
    + program_index.OPERATIONS
    + program_sort.OPERATIONS
    + program_reduce.OPERATIONS
    + program_window.OPERATIONS
    + program_product.OPERATIONS
    # What a callback sends and fetches is no part of an estimate.
    + tuple(o for o in program_control.OPERATIONS if o is not program_control.callback)
    + program_state.OPERATIONS * 4
)
common = settings(deadline=None, suppress_health_check=list(HealthCheck))
ipu = jax.devices("ipu")[0]


def check(program: Program, folder) -> None:
    donated = tuple(range(len(program.inputs))) if program.donates else ()
    with jax.enable_x64(True), warnings.catch_warnings(), jax.default_device(ipu):
        warnings.simplefilter("ignore")  # NumPy on NaN and overflow in constants; donated inputs without a use
        run = jax.jit(program.function(), donate_argnums=donated, keep_unused=True)
        arguments = program.arguments()
        text = run.lower(*arguments).as_text()
        estimate, report = jax_ipu.estimate(run, *arguments), jax_ipu.report(run, *arguments)
        jax.block_until_ready(run(*arguments))
        before = jax_ipu.counters(ipu)
        jax.block_until_ready(run(*arguments))
        after = jax_ipu.counters(ipu)
    # Its operations are a table of the report.
    assert report.estimate.as_dict() == {**estimate.as_dict(), "operations": []}
    assert json.loads(report.save(folder / "report.json").read_text())["estimate"]["fits"]
    cycles = after.cycles - before.cycles
    if "stablehlo.case" in text or "stablehlo.if" in text:  # the most expensive branch
        assert cycles <= estimate.cycles or estimate.unknown_trip_counts
    elif estimate.unknown_trip_counts == 0:
        assert cycles == estimate.cycles
    # State stays in the SRAM from one call to the next; here each call gets another.
    assert after.h2d_bytes - before.h2d_bytes == estimate.host_bytes_in + estimate.state_bytes
    assert after.d2h_bytes - before.d2h_bytes == estimate.host_bytes_out


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reports")


@settings(common, derandomize=True, max_examples=8)
@given(program=programs(OPERATIONS))
def test_random_programs_cost_what_is_estimated(program, folder):
    check(program, folder)


@pytest.mark.nightly
@settings(common, max_examples=1000)
@given(program=programs(OPERATIONS, max_steps=10))
def test_many_random_programs_cost_what_is_estimated(program, folder):
    check(program, folder)


@pytest.mark.nightly
@settings(common, max_examples=300)
@given(program=programs(OPERATIONS, max_steps=6, decades=True))
def test_random_programs_of_many_sizes_cost_what_is_estimated(program, folder):
    check(program, folder)
