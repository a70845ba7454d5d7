"""Mistakes in programs for tiles: each is an error that says what is wrong and where."""

import re

import jax
import numpy as np
import pytest

from jax_ipu import tile
from support.modes import array, run_ipu

TILES = (0, 2)
ipu = jax.devices("ipu")[0]
VERTEX = """
#include <poplar/Vertex.hpp>
using namespace poplar;
struct %s : Vertex {
  Input<Vector<float>> x;
  Output<Vector<float>> y;
  unsigned n;
  bool compute() {
    for (unsigned i = 0; i < %s; ++i) y[i] = x[i] + n;
    return true;
  }
};
"""


def run(primitive, *arrays, tiles=TILES, mode=None, **attributes):
    def f(*xs):
        return tile.tile_map(primitive, *(tile.tile_put_sharded(x, tiles) for x in xs), **attributes).array

    return [np.asarray(jax.jit(f)(*jax.device_put(arrays, ipu)))] if mode is None else run_ipu(f, arrays, mode)


def make(name, inputs=("x",), outputs=None, source=None, **options):
    text = VERTEX % (name, "x.size()") if source is None else source
    return tile.create_ipu_tile_primitive(name, name, inputs, outputs or {"y": 0}, gp_filename=text, **options)


def test_source_that_does_not_compile_names_file_and_line(tmp_path):
    path = tmp_path / "broken.cpp"
    path.write_text(
        '#include "part.hpp"\n\nstruct Broken : poplar::Vertex {\n  bool compute() { return missing; }\n};\n'
    )
    (tmp_path / "part.hpp").write_text("#include <poplar/Vertex.hpp>\n")
    broken_p = make("Broken", source=path)
    with pytest.raises(Exception, match=re.escape(f"{path}:4:") + r"(.|\n)*'?missing'?(.|\n)*declared"):
        run(broken_p, array(2, 4))


def test_text_that_does_not_compile_names_the_line_of_python():
    broken_p = make(
        "Wrong",
        source="""#include <poplar/Vertex.hpp>
struct Wrong : poplar::Vertex {
  bool compute() { return absent; }  // the line that the message names
};
""",
    )
    lines = open(__file__).read().splitlines()
    line = next(i for i, text in enumerate(lines, 1) if "bool compute() { return absent; }" in text)
    with pytest.raises(Exception, match=re.escape(f"{__file__}:{line}:") + r"(.|\n)*absent"):
        run(broken_p, array(2, 4))


def test_change_of_an_included_file_is_seen(tmp_path):
    (tmp_path / "main.cpp").write_text('#include "value.hpp"\n' + VERTEX % ("Valued", "x.size()"))
    x = array(2, 4)
    for offset in (1, 2):
        (tmp_path / "value.hpp").write_text(f"#define n (n + {offset})\n" if offset > 1 else "")
    valued_p = make("Valued", source=tmp_path / "main.cpp")
    (tmp_path / "value.hpp").write_text("")
    np.testing.assert_array_equal(run(valued_p, x, n=1)[0], x + 1)


MISTAKES = {
    "unknown field": (lambda: make("A0", inputs=["z"]), {"n": 1}, r"no field 'z'; it has: x, y, n"),
    "unknown value": (lambda: make("A1"), {"m": 1}, r"no field 'm'; it has: x, y, n"),
    "unknown vertex": (
        lambda: tile.create_ipu_tile_primitive("A2", "Other", ["x"], {"y": 0}, gp_filename=VERTEX % ("A2", "1")),
        {"n": 1},
        r"no vertex class 'Other'; known are: A2",
    ),
    "no connection": (
        lambda: make("A3", inputs=["y"], outputs={"y": 0}),
        {"n": 1},
        r"the field 'x' of vertex 0 of compute set 'A3 test_tiles_errors.py:\d+.*' \(A3\) is not connected",
    ),
    "value for an edge": (lambda: make("A4"), {"y": 1}, r"the field 'y' of vertex 0 .* is no value"),
    "value that does not fit": (lambda: make("A5"), {"n": -1}, r"the field 'n' .*value -1.* does not fit"),
    "fraction": (lambda: make("A6"), {"n": 0.5}, r"the field 'n' .*0\.5.* does not fit its integer type"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    primitive, attributes, message = MISTAKES[name]
    with pytest.raises(Exception, match=message) as raised:
        run(primitive(), array(2, 4), **attributes)
    assert "test_tiles_errors.py" in str(raised.value)


def test_wrong_element_type():
    with pytest.raises(
        Exception, match=r"the field 'x' of vertex 0 .* has elements of type float; the tensor has int\{4\}"
    ):
        run(make("B0"), array(2, 4, dtype="int32"), n=1)


def test_tile_that_there_is_not():
    with pytest.raises(Exception, match=r"there is no tile 9000: the target has 1472 tiles"):
        run(make("B1"), array(2, 4), n=1, tiles=(0, 9000))


def test_write_outside_of_a_field_is_found_in_tile_mode():
    with pytest.raises(Exception, match=r"B2.*writes outside of its field 'y' of 4 elements, 1 after the last"):
        run(make("B2", source=VERTEX % ("B2", "x.size() + 1")), array(2, 4), n=1, mode=("tile", 8))


FAULTS = {
    "an address that there is not": (
        "{ y[i] = *(volatile int*)(unsigned long)(16 + n); }",
        "accessed memory that it does",
    ),
    "a constant null pointer": ("{ volatile int* p = nullptr; *p = 3; }", "accessed memory that it does"),
    "a division by zero": ("{ volatile int zero = 0; y[i] = 7 / zero; }", "divided an integer by zero"),
    "a trap": ("{ __builtin_trap(); }", "ran an invalid instruction"),
}


@pytest.mark.parametrize("mode", [None, ("fast", 8), ("tile", 8)], ids=str)
@pytest.mark.parametrize("name", FAULTS)
def test_faults_end_the_program_and_not_the_process(name, mode):
    body, message = FAULTS[name]
    vertex = f"Fault{list(FAULTS).index(name)}"
    source = VERTEX.replace("y[i] = x[i] + n;", body) % (vertex, "1")
    with pytest.raises(Exception, match=rf"vertex \d of compute set '{vertex}.*was ended: it {message}"):
        run(make(vertex, source=source), array(2, 4), n=1, mode=mode)


@pytest.mark.nightly  # the limit is ten seconds
def test_endless_vertex_ends():
    source = VERTEX.replace("y[i] = x[i] + n;", "{ volatile bool on = true; while (on) {} }") % ("B3", "1")
    with pytest.raises(Exception, match=r"vertex \d of compute set 'B3.*was ended: it took more than 10 s"):
        run(make("B3", source=source), array(2, 4), n=1)


def test_mistakes_that_are_found_when_the_program_is_traced():
    x, y = tile.tile_put_sharded(array(2, 4), (0, 1)), tile.tile_put_sharded(array(2, 4), (1, 2))
    once_p = make("C0")
    for arguments, attributes, error, message in (
        ((once_p, x, y), {}, ValueError, r"argument 1 is on the tiles \(1, 2\), argument 0 on \(0, 1\)"),
        ((once_p, x, x), {"n": 1}, TypeError, r"C0 takes 1 arrays \(x\), not 2"),
        ((once_p, np.ones(3)), {}, TypeError, r"argument 0 is ndarray, not an array on tiles"),
        ((once_p, x), {"n": "1"}, TypeError, r"the attribute n is a str"),
        ((once_p, x), {"tiles": (4, 5)}, ValueError, r"the arrays are on the tiles \(0, 1\), not \(4, 5\)"),
        ((once_p,), {}, ValueError, r"`tiles` says on which tiles"),
        ((jax.lax.conv_general_dilated_p, x), {}, KeyError, r"has no vertex"),
    ):
        with pytest.raises(error, match=message):
            tile.tile_map(*arguments, **attributes)
    with pytest.raises(ValueError, match="not one part for each of 3 tiles"):
        tile.tile_put_sharded(array(2, 4), (0, 1, 2))
    with pytest.raises(ValueError, match="no tile -1"):
        tile.tile_put_replicated(array(2, 4), (0, -1))
    with pytest.raises(ValueError, match="2 indices for 1 tiles"):
        tile.tile_gather(x, (0, 1), (0,))
    with pytest.raises(ValueError, match=r"indices \(0, 2\) are not all parts"):
        tile.tile_gather(x, (0, 2), (0, 1))
    with pytest.raises(TypeError, match="give the arrays to wait for"):
        tile.ipu_cycle_count()


def test_mistakes_in_descriptions(tmp_path):
    with pytest.raises(ValueError, match="the output 'y' has the type of input 1, and there are 1"):
        tile.create_ipu_tile_primitive("D0", "D0", ["x"], {"y": 1})
    with pytest.raises(ValueError, match=r"ends in '_p'"):
        tile.declare_ipu_tile_primitive("D1")(lambda x: ({"y": x}, None, None, 0))
    with pytest.raises(ValueError, match="compiled for IPUs"):
        tile.create_ipu_tile_primitive("D2", "D2", ["x"], {"y": 0}, gp_filename="vertices.gp")
    with pytest.raises(FileNotFoundError, match=r"D3.*there is no file .*vertices\.cpp"):
        tile.create_ipu_tile_primitive("D3", "D3", ["x"], {"y": 0}, gp_filename=tmp_path / "vertices.cpp")
    with pytest.raises(ValueError, match=r"names \{z\}, and the inputs are x"):
        wrong_p = tile.create_ipu_tile_primitive("D4", "D4<{z}>", ["x"], {"y": 0})
        tile.tile_map(wrong_p, tile.tile_put_sharded(array(2, 4), TILES))
    with pytest.raises(KeyError, match="has a vertex already"):
        tile.register_ipu_tile_primitive(jax.lax.add_p, lambda *_: None)
