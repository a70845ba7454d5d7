"""Reports as files and as text: HTML, JSON, comparisons."""

import inspect
import json

import jax.numpy as jnp
import pytest

import jax_ipu
from jax_ipu import _ipu
from jax_ipu.reports import html
from support.report_programs import PROGRAMS, TARGET, mnist_arguments, shape, stored


def dumped(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, -2, 2**62, -(2**63), 2**80, (3,)], "b": {}, "c": []},
        [True, False, None, 0.1, 1e300, 5e-324, 3.0, -0.0, 1e16, 123456789.125],
        {'\u00e9\n"\\\x01\x7f': "\U0001f600/\t\r\b\f\u2028 plain"},
    ],
)
def test_text_is_that_of_json(value):
    assert html.text_of({"value": value}) == dumped({"value": value})


def test_text_of_integers():
    values = [0, -1, 2**63 - 1, -(2**63)]
    integers = _ipu.Integers(values)
    assert (list(integers), len(integers)) == (values, 4)
    assert integers == _ipu.Integers(values) != _ipu.Integers(values[1:])
    assert html.text_of({"of": [integers, _ipu.Integers([])]}) == dumped({"of": [values, []]})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), {1: 2}, {1, 2}, b"1", "\ud800"])
def test_what_json_does_not_have_is_an_error(value):
    with pytest.raises((TypeError, ValueError)):
        html.text_of({"value": value})


def test_data_nested_too_deeply_to_write_is_an_error():
    value = []
    for _ in range(10**5):
        value = [value]
    with pytest.raises(RecursionError):
        html.text_of({"value": value})


@pytest.mark.parametrize("name", ["loops and conditional", "four IPUs", "too large", "much too large"])
def test_saved_text_is_the_data(name, tmp_path):
    fun, args, donated = PROGRAMS[name]
    report = jax_ipu.report(fun, *args, target=TARGET, donate_argnums=donated)
    saved = report.save(tmp_path / "report.json").read_text("utf-8")
    # Lists are made of the arrays only now.
    assert saved == dumped(report.as_dict()) == html.text_of(report.as_dict())


@pytest.fixture
def front_end(monkeypatch, tmp_path):
    """A front end that shows nothing."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "report.js").write_text("const end = '</script>';")
    (tmp_path / "assets" / "report.css").write_text("body { margin: 0 }")
    monkeypatch.setattr(html.resources, "files", lambda package: tmp_path)


def test_saved_as_html_and_json(front_end, tmp_path):
    fun, args, _ = PROGRAMS["CNN"]
    report = jax_ipu.report(fun, *args, target=TARGET, path=tmp_path / "new" / "cnn.html")
    assert report.path == tmp_path / "new" / "cnn.html"
    page = report.path.read_text()
    assert "<title>jit_cnn</title>" in page and "http" not in page.split("report-data")[0]
    assert page.count("</script>") == 2
    assert stored(page) == json.loads(html.text_of(report.as_dict()))
    assert report.path.stat().st_size < 200_000
    report.save(tmp_path / "cnn.json")
    read = jax_ipu.Report.load(tmp_path / "cnn.json")
    assert read.as_dict() == stored(page)
    assert read.estimate.cycles == report.estimate.cycles
    with pytest.raises(ValueError, match=r"ends in \.html"):
        report.save(tmp_path / "cnn.txt")
    assert str(report.path) in report._repr_html_() or "Open the report" in report._repr_html_()


def test_arguments_as_for_estimates(front_end, tmp_path):
    """Keyword arguments of jax_ipu.estimate are no arguments of the user's function."""
    fun, args, _ = PROGRAMS["four IPUs"]
    assert jax_ipu.report(fun, *args, target=TARGET, num_ipus=4).as_dict()["program"]["num_ipus"] == 4
    with pytest.raises(ValueError, match="over 4 IPUs, not over 2"):
        jax_ipu.report(fun, *args, target=TARGET, num_ipus=2)
    both = jax_ipu.report(jnp.sin, shape(8), compare=("ipu2:4", "bow:4"), path=tmp_path / "both.html")
    assert (both.first.estimate.target, both.second.estimate.target) == ("ipu2:4", "bow:4")
    assert stored(both.path.read_text(), "report-data-2")["program"]["target"] == "bow:4"
    for wrong in ({"compare": ("bow",)}, {"compare": ("ipu2", "bow"), "target": "bow"}):
        with pytest.raises(ValueError, match="two targets"):
            jax_ipu.report(jnp.sin, shape(8), **wrong)
    of_report, of_estimate = (inspect.signature(f).parameters for f in (jax_ipu.report, jax_ipu.estimate))
    assert set(of_estimate) <= set(of_report)


def test_two_reports_compared(front_end, tmp_path):
    one, two = (
        jax_ipu.report(*(PROGRAMS["MNIST step"][0], *mnist_arguments(hidden=n)), target=TARGET) for n in (32, 64)
    )
    comparison = one.compare(two, tmp_path / "two.html")
    page = comparison.path.read_text()
    assert stored(page) == json.loads(html.text_of(one.as_dict()))
    assert stored(page, "report-data-2") == json.loads(html.text_of(two.as_dict()))
    assert comparison.difference()["cycles"] == two.estimate.cycles - one.estimate.cycles
    assert "cycles" in repr(comparison) and "<table" in comparison._repr_html_()
    data = json.loads(comparison.save(tmp_path / "two.json").read_text())
    assert data["second"]["program"]["name"] == two.as_dict()["program"]["name"]


@pytest.mark.parametrize(("name", "error"), [("report.pdf", ValueError), ("folder.html", IsADirectoryError)])
def test_paths_are_checked_before_the_program_is_compiled(name, error, tmp_path):
    (tmp_path / "folder.html").mkdir()

    def traced(x):
        raise AssertionError("the function is traced first")

    with pytest.raises(error):
        jax_ipu.report(traced, 1.0, path=tmp_path / name)


def test_files_that_are_no_reports(tmp_path):
    for text in ("", "[]", "{}", '{"format": "jax_ipu report", "version": 99}'):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(ValueError, match=r"x\.json"):
            jax_ipu.Report.load(tmp_path / "x.json")


def test_without_the_front_end(monkeypatch, tmp_path):
    monkeypatch.setattr(html.resources, "files", lambda package: tmp_path)
    report = jax_ipu.report(jnp.sin, shape(8), target=TARGET)
    with pytest.raises(jax_ipu.reports.NoFrontEnd, match="npm"):
        report.save(tmp_path / "x.html")
    assert "npm" in report._repr_html_()
    assert report.save(tmp_path / "x.json").exists()
