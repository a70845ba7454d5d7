"""The package of the module tessellate_ipu: descriptions of vertices run, and its names are those of jax_ipu.tile."""

import base64
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from support.modes import array, check

PACKAGE = Path(__file__).parents[2] / "compat" / "tessellate_ipu"
TILES = (5, 0, 3)
CODELETS = """
#include <poplar/Vertex.hpp>
using namespace poplar;

class ScaledRows : public Vertex {
 public:
  Vector<Input<Vector<float>>> rows;
  Input<float> scale;
  Output<Vector<float>> out;
  float more;
  int times;
  bool compute() {
    for (unsigned i = 0; i < out.size(); ++i) {
      out[i] = more;
      for (unsigned r = 0; r < rows.size(); ++r) out[i] += rows[r][i] * scale * times;
    }
    return true;
  }
};
"""


@pytest.fixture(scope="module")
def tessellate():
    sys.path.insert(0, str(PACKAGE))
    import tessellate_ipu

    yield tessellate_ipu
    sys.path.remove(str(PACKAGE))


@pytest.mark.parametrize("mode", [("fast", 8), ("tile", 8)], ids=lambda mode: mode[0])
def test_equation_runs_as_a_vertex(tessellate, mode):
    from tessellate_ipu import core

    def translation(primitive, tiles, avals, attributes):
        integers, floats = core.make_ipu_vertex_attributes(more=0.5, **attributes)
        return core.IpuTileMapEquation(
            vname="ScaledRows",
            pname=primitive.name,
            tiles=tiles,
            inputs_info=[
                core.make_ipu_vertex_in_info("rows", avals[0], vertex_dim2=avals[0].shape[1]),
                core.make_ipu_vertex_constant_info("scale", np.float32(3), vertex_dim2=-1),
            ],
            outputs_info=[core.make_ipu_vertex_out_info("out", jax.core.ShapedArray(avals[0].shape[1:], np.float32))],
            attributes_i32=integers,
            attributes_f32=floats,
            gp_filename=CODELETS,
            perf_estimate=100,
        )

    rows_p = jax.extend.core.Primitive(f"scaled_rows_{mode[0]}")
    rows_p.def_impl(lambda x, times: x.sum(0) * 3 * times + 0.5)
    rows_p.def_abstract_eval(lambda x, times: jax.core.ShapedArray(x.shape[1:], x.dtype))
    core.register_ipu_tile_primitive(rows_p, translation)
    assert core.get_ipu_tile_primitive_translation(rows_p.name) == (rows_p, translation)

    def f(x):
        return tessellate.tile_map(rows_p, tessellate.tile_put_sharded(x, TILES), times=2).array

    check(f, array(3, 2, 7), mode=mode)


def test_rows_of_another_length_are_refused(tessellate):
    from tessellate_ipu import core

    field = core.make_ipu_vertex_in_info("x", jax.core.ShapedArray((4, 6), np.float32), vertex_dim2=3)
    with pytest.raises(NotImplementedError, match="other rows"):
        core.IpuTileMapEquation("Rows", "rows", (0,), [field]).vertex()


def test_attributes_that_choose_a_vertex_of_poplibs_change_nothing(tessellate):
    def f(x):
        on_tiles = tessellate.tile_put_sharded(x, TILES)
        return tessellate.tile_map(jax.lax.sin_p, on_tiles, ipu_vertex_type=3).array

    check(f, array(3, 5), mode=("fast", 8))


def test_names_of_lax(tessellate):
    from tessellate_ipu import lax

    for name in ("add", "clamp", "scatter_add", "bitcast_convert_type", "reduce_and"):
        assert getattr(lax, f"{name}_p") is getattr(jax.lax, f"{name}_p")
    assert np.array_equal(lax.tile_sharded_identity(np.float32, TILES), np.eye(3))
    assert lax.fill((2, 3), 4, np.int32).tolist() == [[4] * 3] * 2


def test_rotation_of_two_rows(tessellate):
    from tessellate_ipu.lax.tile_lax_small_dot import rotation2d_p

    def f(*arrays):
        return [
            r.array for r in tessellate.tile_map(rotation2d_p, *(tessellate.tile_put_sharded(a, TILES) for a in arrays))
        ]

    check(f, array(3, 2), array(3, 9, seed=1), array(3, 9, seed=2), mode=("tile", 8))


def test_descriptions_are_plain_data(tessellate):
    from tessellate_ipu.lib import pytessellate_ipu_core as data

    field = data.IpuVertexIOInfo("x", data.IpuVertexIOType.InOut, [4, 6], data.IpuType.HALF, vertex_dim2=6)
    assert [(s.begin, s.end) for s in field.slices2d] == [(0, 6), (6, 12), (12, 18), (18, 24)]
    assert data.IpuVertexIOInfo.from_json_str(field.to_json_str()) == field
    assert data.IpuType.HALF.bytesize == 2
    assert data.Base64Data.from_decoded_data("12345").encoded_data == base64.b64encode(b"12345").decode()
    assert data.IpuVertexAttributeI32("n", 3) == data.IpuVertexAttributeI32.from_json_str('{"name":"n","value":3}')


def test_modules_that_are_not_here_come_from_its_own_source(tessellate, tmp_path):
    # tessellate_ipu.linalg is Python and C++ on the names of this package.
    made = tmp_path / "tessellate_ipu" / "linalg"
    made.mkdir(parents=True)
    (made.parent / "__init__.py").write_text("raise ImportError('its own package is not imported')")
    (made / "__init__.py").write_text("from tessellate_ipu import tile_put_sharded as put")
    program = "import tessellate_ipu as t; from tessellate_ipu.linalg import put; assert put is t.tile_put_sharded"
    path = os.pathsep.join([str(PACKAGE), str(tmp_path), *sys.path])
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": path})


def test_vertices_of_products_are_described(tessellate):
    from tessellate_ipu.lax import tile_lax_dot as dot

    for types, name in (
        ((np.float32, np.float32), "poplin::ConvPartial1x1Out<float,float,true,true,8,2,false>"),
        ((np.float16, np.float32), "poplin::ConvPartial1x1Out<half,float,true,true,8,4,false>"),
        ((np.float16, np.float16), "poplin::ConvPartial1x1Out<half,half,true,true,16,4,false>"),
    ):
        assert dot.IpuConvPartial1x1StaticArgs(*types).vertex_name == name
    with pytest.raises(ValueError, match="no sums in float16"):
        dot.IpuConvPartial1x1StaticArgs(np.float32, np.float16)
    halves = dot.IpuConvPartial1x1StaticArgs(np.float16, np.float16)
    sizes = dot.IpuConvPartial1x1Args(1, 2, 3, 1, 1, 32, 16, True)
    fields = {a.name: a.value for a in dot.make_conv_partial1x1_attributes(halves, sizes)}
    # PopLibs' own functions give these for a row of 32 sums in reverse order and for neighbouring inputs.
    assert fields["transformedOutStride"] == -44 and fields["transformedInStride"] == 1
    assert dot.ipuReverseTransformedOutStride(-44, False, 16, 32) == (True, 1)
    with pytest.raises(ValueError, match="takes 8 input channels of float32"):
        dot.make_conv_partial1x1_attributes(dot.IpuConvPartial1x1StaticArgs(np.float32, np.float32), sizes)


def test_devices_say_what_they_are(tessellate):
    from tessellate_ipu.utils import IpuTargetType

    device = jax.devices("ipu")[0]
    assert device.target_type == IpuTargetType.IPU_MODEL and tessellate.is_ipu_model(device)
