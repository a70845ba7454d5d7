"""Codelets and tile primitives for the tests of jax_ipu.tile."""

from __future__ import annotations

import numpy as np

from jax_ipu import tile

DEMO = """
#include <poplar/Vertex.hpp>
using namespace poplar;

template <typename T>
class DemoVertex : public Vertex {
 public:
  Input<Vector<T>> x;
  Input<Vector<T>> constant_scale;
  Output<Vector<T>> out0;
  Output<Vector<T>> out1;
  Output<Vector<T>> tmp;
  T scale_value;

  bool compute() {
    for (unsigned i = 0; i < x.size(); ++i) {
      tmp[i] = constant_scale[i] * scale_value * x[i];
      if (i % 2 == 1) {
        out0[i / 2] = tmp[i];
        out1[i / 2] = -tmp[i];
      }
    }
    return true;
  }
};
template class DemoVertex<float>;
template class DemoVertex<half>;
"""


@tile.declare_ipu_tile_primitive("DemoVertex<{x}>", gp_filename=DEMO)
def demo_p(x):
    r, c = x.shape
    outputs = {name: tile.ShapedArray((r, c // 2), x.dtype) for name in ("out0", "out1")}
    constants = {"constant_scale": 0.5 * np.arange(r * c, dtype=x.dtype).reshape(r, c)}
    return outputs, constants, {"tmp": x}, r * c * 12


@demo_p.def_impl
def demo_reference(x, scale_value):
    scaled = 0.5 * np.arange(x.size, dtype=x.dtype) * np.asarray(scale_value, x.dtype) * x.reshape(-1)
    odd = scaled[1::2].reshape(x.shape[0], -1)
    return odd, -odd


# Adds to its array in place, and reads another.
ADD_TO = """
#include <poplar/Vertex.hpp>
using namespace poplar;
template <typename T>
struct AddTo : MultiVertex {
  InOut<Vector<T>> acc;
  Input<Vector<T>> x;
  Output<T> first;
  bool compute(unsigned worker) {
    for (unsigned i = worker; i < acc.size(); i += numWorkers()) acc[i] = acc[i] + x[i];
    if (worker == 0) *first = acc[0];
    return true;
  }
};
template class AddTo<float>;
template class AddTo<int>;
"""
add_to_p = tile.create_ipu_tile_primitive(
    "add_to",
    "AddTo<{acc}>",
    ["acc", "x"],
    {"acc": 0, "first": tile.ShapedArray((), np.dtype("float32"))},
    gp_filename=ADD_TO,
)
add_to_p.def_impl(lambda acc, x: (acc + x, (acc + x).reshape(-1)[0]))
