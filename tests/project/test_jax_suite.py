"""The runner of JAX's own tests, on a made-up folder of tests: each way to end costs exactly one test."""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from conformance.runner import FileResult, Outcome

TOOL = Path(__file__).parents[2] / "tools" / "jax_suite.py"

SAMPLE = """
import ctypes, os, time, unittest

PLATFORM = os.environ["JAX_PLATFORMS"].split(",")[0]


class SampleTest(unittest.TestCase):
    def test_a_passes(self): pass

    def test_b_fails_everywhere(self): self.fail("on both")

    def test_c_fails(self): self.assertEqual(PLATFORM, "cpu")

    def test_d_crashes(self):
        if PLATFORM != "cpu": ctypes.string_at(0)

    def test_e_hangs(self):
        if PLATFORM != "cpu": time.sleep(1000)

    def test_f_known(self): self.assertEqual(PLATFORM, "cpu")

    def test_g_skipped(self):
        if PLATFORM != "cpu": self.skipTest("not here")

    def test_h_known_but_passes(self): pass
"""

KNOWN = """
[excluded]
left_out_test = "not for this platform"

[[sample_test]]
reason = "known for a reason"
tests = ["SampleTest::test_f*", "SampleTest::test_h*"]
"""


def run_tool(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), "--tests", str(folder), "--work", str(folder / "work")]
    command += ["--known", str(folder / "known.toml"), "--timeout", "3", "--rules", "", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def write_sample(folder: Path) -> None:
    (folder / "tests").mkdir()
    (folder / "tests" / "sample_test.py").write_text(SAMPLE)
    (folder / "tests" / "left_out_test.py").write_text("raise RuntimeError('must not be run')\n")
    (folder / "known.toml").write_text(KNOWN)


def test_each_way_to_end_costs_one_test(tmp_path: Path) -> None:
    write_sample(tmp_path)
    report = tmp_path / "report.md"
    result = run_tool(tmp_path, "--report", str(report))
    assert result.returncode == 1, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "sample_test: 2 of 7 passed (33.3 %), 2 failed, 1 crashed, 1 hung, 1 skipped"
    assert lines[1:] == [
        "  not listed: SampleTest::test_c_fails",
        "  not listed: SampleTest::test_d_crashes",
        "  not listed: SampleTest::test_e_hangs",
        "  listed, but passes: SampleTest::test_h_known_but_passes",
    ]
    text = report.read_text()
    assert "| sample_test | 7 | 2 | 2 | 2 | 1 | 33.3 % | cases3, ipus8 | " in text
    assert "* `sample_test`: 1 x known for a reason" in text
    assert "* `sample_test`: 3 x not yet explained" in text
    assert "* `left_out_test`: not for this platform" in text
    assert "string_at" in (next(tmp_path.glob("work/*/ipu/sample_test.json"))).read_text()


def test_a_report_keeps_the_rows_of_files_that_were_not_run(tmp_path: Path) -> None:
    write_sample(tmp_path)
    report = tmp_path / "report.md"
    run_tool(tmp_path, "sample_test", "-k", "test_a_passes", "--report", str(report))
    (tmp_path / "tests" / "sample_test.py").rename(tmp_path / "tests" / "other_test.py")
    (tmp_path / "work").rename(tmp_path / "earlier")
    run_tool(tmp_path, "other_test", "-k", "test_a_passes", "--report", str(report))
    rows = [line for line in report.read_text().splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[:3] for row in rows[1:]] == [
        ["| other_test", "1", "1"],
        ["| sample_test", "1", "1"],
        ["| **all**", "2", "2"],
    ]


def test_a_result_names_the_commits_of_its_outcomes() -> None:
    passed = Outcome("passed")
    result = FileResult()
    result.update({"a": passed, "b": passed}, "first")
    assert result.revision == "first"
    for _ in range(2):
        result.update({"b": Outcome("failed")}, "second")
        assert result.revision == "first, second"
    assert result.tests == {"a": passed, "b": Outcome("failed")}
    result.update({"a": passed, "b": passed}, "third")
    assert result.revision == "third"


def test_results_without_the_cpu_are_not_reported(tmp_path: Path) -> None:
    write_sample(tmp_path)
    report = tmp_path / "report.md"
    run_tool(tmp_path, "sample_test", "-k", "test_a or test_f")
    (next(tmp_path.glob("work/*/cpu/sample_test.json"))).unlink()
    result = run_tool(tmp_path, "--report-only", "--report", str(report))
    assert result.stdout == "sample_test: not reported; tests without a result on the CPU: 1. Run it again\n"
    assert "| sample_test " not in report.read_text()


def test_known_failures_alone_are_no_error(tmp_path: Path) -> None:
    write_sample(tmp_path)
    result = run_tool(tmp_path, "sample_test", "-k", "test_a or test_f or test_h")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.startswith("sample_test: 2 of 3 passed (66.7 %), 1 failed, 0 crashed, 0 hung, 0 skipped")


def test_a_file_that_cannot_be_imported_is_a_failure(tmp_path: Path) -> None:
    write_sample(tmp_path)
    source = "import os\nassert os.environ['JAX_PLATFORMS'] == 'cpu'\n\ndef test_x(): pass\n"
    (tmp_path / "tests" / "sample_test.py").write_text(source)
    result = run_tool(tmp_path)
    assert result.returncode == 1
    assert "not listed: (collection)" in result.stdout


def test_a_process_that_crashes_after_its_tests_is_a_failure(tmp_path: Path) -> None:
    write_sample(tmp_path)
    source = (
        "import atexit, ctypes, os\n"
        "if os.environ['JAX_PLATFORMS'] != 'cpu': atexit.register(ctypes.string_at, 0)\n"
        "def test_x(): pass\n"
    )
    (tmp_path / "tests" / "sample_test.py").write_text(source)
    result = run_tool(tmp_path)
    assert result.returncode == 1
    assert "sample_test: 1 of 1 passed" in result.stdout
    assert "not listed: (exit)" in result.stdout


def test_missing_files_are_named(tmp_path: Path) -> None:
    write_sample(tmp_path)
    result = run_tool(tmp_path, "nothing_test")
    assert result.returncode != 0
    assert "nothing_test.py" in result.stderr


def test_columns_have_results_and_reasons_of_their_own(tmp_path: Path) -> None:
    write_sample(tmp_path)
    source = SAMPLE.replace('if PLATFORM != "cpu": self.skipTest', 'if PLATFORM == "cpu": self.skipTest')
    (tmp_path / "tests" / "sample_test.py").write_text(source)
    known = KNOWN.replace(
        "[[sample", '[[sample_test]]\nreason = "own"\ncolumns = ["own"]\ntests = ["*_c_*"]\n\n[[sample', 1
    )
    (tmp_path / "known.toml").write_text(known)
    report = tmp_path / "report.md"
    chosen = ("-k", "a_passes or c_fails or f_known or g_skipped", "--report", str(report))
    assert "not listed: SampleTest::test_c_fails" in run_tool(tmp_path, *chosen).stdout
    own = run_tool(tmp_path, *chosen, "--column", "own")
    # Tests that only the CPU skips count.
    assert own.stdout.startswith("sample_test: 2 of 4 passed (50.0 %)") and own.returncode == 0
    run_tool(tmp_path, *chosen, "--column", "x64", "--shard", "0/4")
    row = next(line for line in report.read_text().splitlines() if line.startswith("| sample_test "))
    assert row.startswith("| sample_test | 3 | 1 | 2 | 0 | 0 | 33.3 % | ")
    assert row.endswith("| 2 of 4 (50.0 %) | 1 of 1 (100.0 %), shard0of4 | not run |")
    again = run_tool(tmp_path, *chosen, "--column", "own", "--resume")
    assert again.stdout == ""


def test_a_test_that_the_cpu_does_not_have_counts_under_the_own_name(tmp_path: Path) -> None:
    write_sample(tmp_path)
    source = SAMPLE + '    if PLATFORM != "cpu":\n        def test_i_only_here(self): self.fail("not yet")\n'
    (tmp_path / "tests" / "sample_test.py").write_text(source)
    report = tmp_path / "report.md"
    arguments = ("-k", "a_passes or i_only", "--column", "own", "--baseline", "failed", "--report", str(report))
    result = run_tool(tmp_path, *arguments)
    assert "not listed: SampleTest::test_i_only_here" in result.stdout and "not reported" not in result.stdout
    assert "| 1 of 2 (50.0 %) |" in report.read_text()
