"""Plots of reports as SVG, and the pictures of the documents."""

import doctest
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jax_ipu
from jax_ipu.reports import drawing, plots
from support.report_programs import cnn, loops, mnist_arguments, mnist_step, shape

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
MESH = AbstractMesh((4,), ("ipus",), axis_types=(AxisType.Auto,))
PROGRAMS = {
    "MNIST step": (mnist_step, mnist_arguments()),
    "CNN": (cnn, ([shape(3, 3, 4, 8), shape(3, 3, 8, 16)], shape(2, 16, 16, 4))),
    "loops": (loops, (shape(8, 32), shape(dtype=jnp.int32))),
    "four IPUs": (lambda x: x - x.mean(0), (shape(64, 48, sharding=NamedSharding(MESH, P("ipus"))),)),
    "too large for its buffers": (jnp.dot, (shape(1290, 1290), shape(1290, 1290))),
}
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module", params=PROGRAMS)
def made(request):
    fun, arguments = PROGRAMS[request.param]
    return request.param, jax_ipu.report(fun, *arguments, target="ipu2:32")


def texts(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize("kind", plots.KINDS)
def test_plots(made, kind):
    _, report = made
    if kind == "layers" and not report.as_dict()["layers"]:
        with pytest.raises(ValueError, match="has no layers"):
            report.plot(kind)
        return
    plot = report.plot(kind)
    root = ElementTree.fromstring(plot.svg)
    width, height = (float(root.get(size)) for size in ("width", "height"))
    for element in root.iter():
        for key, most in (("x", width), ("y", height), ("cx", width), ("cy", height)):
            assert 0 <= float(element.get(key, 0)) <= most, (kind, element.attrib)
    # Each class has a colour for light pages and one for dark pages.
    used = {element.get("class") for element in root.iter() if element.get("class")}
    light, dark = re.split(r"@media \(prefers-color-scheme:dark\)", root.find(f"{SVG}style").text)
    assert all(f".{one}{{" in light and f".{one}{{" in dark for one in used)
    assert plot._repr_svg_() == plot.svg == report.plot(kind).svg
    assert repr(plot).strip("<>") in texts(plot.svg)


def test_figures_in_plots(made):
    name, report = made
    estimate = report.estimate
    assert any(f"{estimate.cycles:,} cycles" in text for text in texts(report.plot("steps").svg))
    phases = " ".join(texts(report.plot("steps").svg))
    assert ("IPU-Links" in phases) == (name == "four IPUs")
    memory = texts(report.plot("memory").svg)
    assert any("a tile" in text for text in memory)
    # The line of the limit is there where the memory is near to it.
    near = estimate.fullest_tile_bytes > estimate.tile_memory_bytes / 3
    assert any(text.endswith("KiB a tile") for text in memory) == near
    tiles = ElementTree.fromstring(report.plot("floor plan").svg).iter(f"{SVG}path")
    assert sum(path.get("d").count("M") for path in tiles) == 32
    roofline = ElementTree.fromstring(report.plot("roofline").svg)
    rows = report.as_dict()["operations"]
    drawn = [row for row in rows if row["flops"] and row["exchange_bytes"]]
    assert len(list(roofline.iter(f"{SVG}circle"))) == len(drawn)


def test_widths_are_cycles():
    report = jax_ipu.report(mnist_step, *mnist_arguments(), target="ipu2:32")
    steps = ElementTree.fromstring(report.plot("steps").svg)
    bars = [element for element in steps.iter(f"{SVG}rect") if element.find(f"{SVG}title") is not None]
    starts = sorted({float(bar.get("x")) for bar in bars})
    assert starts[0] == 12 and all(float(bar.get("x")) + float(bar.get("width")) <= 709 for bar in bars)


def test_what_is_not_known_is_an_error(tmp_path):
    large = jax_ipu.report(lambda x: (jnp.sin(x), jnp.cos(x), jnp.tan(x)), shape(1500, 1000), target="ipu2:32")
    assert not large.fits and "a tile" in " ".join(texts(large.plot("memory").svg))
    for kind in ("steps", "roofline", "layers"):
        with pytest.raises(ValueError, match="not planned"):
            large.plot(kind)
    much = jax_ipu.report(lambda x: x @ x.T, shape(90000, 90000), target="ipu2:32")
    nothing = jax_ipu.report(lambda x: x, shape(8), target="ipu2:32")
    for report, said, kinds in ((much, "was not planned", plots.KINDS), (nothing, "has no", ("roofline", "layers"))):
        for kind in kinds:
            with pytest.raises(ValueError, match=said):
                report.plot(kind)
    with pytest.raises(ValueError, match="take one of memory, floor plan"):
        large.plot("pie")
    with pytest.raises(ValueError, match=r"ends in \.svg"):
        large.plot("memory").save(tmp_path / "plot.png")
    one = drawing.Drawing("<a & b>", 10, 10)
    one.text("text", 1, 5, "</svg><script>")
    assert texts(one.svg()) == ["</svg><script>"]


def test_pictures_of_the_documents(monkeypatch):
    # Not the checkout: its jax_ipu has no extension, and processes that tests start get this path.
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from documentation.pictures import PICTURES

    # benchmarks/index_cost.py draws its own, with its page.
    assert {*PICTURES, "index_cost.svg", "favicon.svg"} == {path.name for path in IMAGES.glob("*.svg")}
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    named = {Path(image).name for page in pages for image in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text())}
    files = {path.name for path in IMAGES.iterdir()} - {"favicon.svg"}
    assert files <= named, "pictures that no page shows"
    assert {name for name in named if name.startswith("report_") or name.endswith(".svg")} - files <= set()
    for name in PICTURES:
        text = (IMAGES / name).read_text()
        ElementTree.fromstring(text)
        assert "prefers-color-scheme:dark" in text and len(text) < 100_000
    assert sum(path.stat().st_size for path in IMAGES.iterdir()) < 1_000_000


def test_notebooks_show_plots():
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        outputs = [output for cell in json.loads(path.read_text())["cells"] for output in cell.get("outputs", [])]
        drawn = [
            "".join(output["data"]["image/svg+xml"]) for output in outputs if "image/svg+xml" in output.get("data", {})
        ]
        assert drawn, path
        for text in drawn:
            ElementTree.fromstring(text)


def test_examples_of_docstrings():
    for module in (drawing, plots):
        assert doctest.testmod(module).attempted and not doctest.testmod(module).failed
