"""A rotation of two rows."""

from jax_ipu.tile import create_ipu_tile_primitive

rotation2d_p = create_ipu_tile_primitive(
    "rotation2d",
    "Rotation2d<{inrow0}>",
    ["cs", "inrow0", "inrow1"],
    {"outrow0": 1, "outrow1": 2},
    gp_filename="""
#include <poplar/Vertex.hpp>

using namespace poplar;

// (outrow0, outrow1) = ((c, -s), (s, c)) (inrow0, inrow1), where cs = (c, s).
template <typename T>
class Rotation2d : public MultiVertex {
 public:
  Input<Vector<T>> cs, inrow0, inrow1;
  Output<Vector<T>> outrow0, outrow1;
  bool compute(unsigned worker) {
    const T c = cs[0], s = cs[1];
    for (unsigned i = worker; i < inrow0.size(); i += numWorkers()) {
      const T a = inrow0[i], b = inrow1[i];
      outrow0[i] = c * a - s * b;
      outrow1[i] = s * a + c * b;
    }
    return true;
  }
};
template class Rotation2d<float>;
""",
)
rotation2d_p.def_impl(
    lambda cs, inrow0, inrow1: (cs[0] * inrow0 - cs[1] * inrow1, cs[1] * inrow0 + cs[0] * inrow1),
)
