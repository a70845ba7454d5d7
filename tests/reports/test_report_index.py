"""index.html of a folder of reports: what it lists, and that processes do not lose each other's rows."""

import html.parser
from concurrent.futures import ThreadPoolExecutor

import jax.numpy as jnp
import pytest

import jax_ipu
from jax_ipu.compiler.estimates import compilation_of
from jax_ipu.integration.programs import program_of
from jax_ipu.reports import automatic, index
from support.report_programs import shape

TARGET = "ipu2:16"


def write(folder, fun, *arguments, target=TARGET):
    program = program_of(fun, arguments, {})
    observe = automatic.writer(str(folder), program.mlir, program.options, target)
    observe(compilation_of(program.mlir, "mlir", program.options, target, detailed=True))


class Cells(html.parser.HTMLParser):
    """The text of each cell of the table, row by row, and the addresses of its links."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.links, self.inside = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.inside = True
        elif tag == "a":
            self.links.append(dict(attributes)["href"])

    def handle_endtag(self, tag):
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self.inside:
            self.rows[-1][-1] += data


def test_the_index_lists_what_was_written(tmp_path):
    def much(x):
        return x @ x.T

    write(tmp_path, jnp.sin, shape(640))
    write(tmp_path, much, shape(4000, 4000))
    write(tmp_path, jnp.sin, shape(640))
    small = jax_ipu.estimate(jnp.sin, shape(640), target=TARGET)
    rows = index.read(tmp_path)
    assert [row["program"] for row in rows] == ["jit_sin", "jit_much"]
    assert [row["fits"] for row in rows] == [True, False]
    assert rows[0]["cycles"] == small.cycles and rows[0]["call_seconds"] == small.call_seconds
    assert rows[0]["fullest_tile_bytes"] == small.fullest_tile_bytes and rows[1]["cycles"] is None
    cells = Cells((tmp_path / "index.html").read_text())
    assert cells.links == [row["file"] for row in rows] == [path.name for path in reversed(index.files(tmp_path))]
    head, first, second = cells.rows
    assert len(head) == len(first) == len(second) == 9
    assert first[:4] == ["jit_sin", TARGET, "yes", f"{small.cycles:,}"] and second[2:4] == ["no", "\u2013"]


def test_reports_that_are_gone_leave_the_index(tmp_path):
    write(tmp_path, jnp.sin, shape(8))
    (tmp_path / index.read(tmp_path)[0]["file"]).unlink()
    write(tmp_path, jnp.cos, shape(8))
    assert [row["program"] for row in index.read(tmp_path)] == ["jit_cos"]


def test_names_are_text():
    row = {"file": "a'\"<b>.html", "program": "</script><script>alert(1)</script>", "chip": "ipu2:4", "num_ipus": 4}
    numbers = ("cycles", "seconds", "call_seconds", "fullest_tile_bytes", "tile_memory_bytes", "total_bytes")
    row |= {"fits": True, "written": 0, "process": 1, **dict.fromkeys(numbers)}
    text = index.page([row])
    assert "<script>alert" not in text
    cells = Cells(text)
    assert cells.links == [row["file"]] and cells.rows[1][:2] == [row["program"], "4 \u00d7 ipu2:4"]


def test_the_file_of_someone_else_is_left_as_it_is(tmp_path, caplog):
    (tmp_path / "index.html").write_text("<h1>mine</h1>")
    write(tmp_path, jnp.sin, shape(8))
    assert (tmp_path / "index.html").read_text() == "<h1>mine</h1>"
    assert len(index.files(tmp_path)) == 1 and "is not in the index" in caplog.text


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "page.html").mkdir()
    with pytest.raises(OSError):
        index.write(tmp_path / "page.html", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_writers_keep_each_others_rows(tmp_path):
    # The lock is of the file as it was opened: threads wait for each other as processes do.
    report = jax_ipu.report(jnp.sin, shape(8), target="ipu2:4")

    def add(number):
        for i in range(20):
            path = tmp_path / f"{number}-{i}.html"
            index.write(path, "")
            index.add(path, report)
            # Whoever reads the index meanwhile sees a whole one.
            assert "</html>" in (tmp_path / "index.html").read_text()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, range(4)))
    assert len(index.read(tmp_path)) == 80
    assert not list(tmp_path.glob("*.part"))
