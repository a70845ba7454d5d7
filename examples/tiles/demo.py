"""A vertex of one's own, with a constant, temporary memory and a number, and the cycles that it takes.

python examples/tiles/demo.py
"""

import jax
import jax.numpy as jnp
import numpy as np

from jax_ipu import tile

CODELETS = """
#include <poplar/Vertex.hpp>

using namespace poplar;

// Scales x and takes every second element of the result, once as it is and once negated.
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
    for (unsigned i = 0; i < x.size(); ++i) tmp[i] = constant_scale[i] * scale_value * x[i];
    for (unsigned i = 0; i < out0.size(); ++i) {
      out0[i] = tmp[2 * i + 1];
      out1[i] = -tmp[2 * i + 1];
    }
    return true;
  }
};

template class DemoVertex<float>;
template class DemoVertex<half>;
"""


@tile.declare_ipu_tile_primitive("DemoVertex<{x}>", gp_filename=CODELETS)
def demo_p(x):
    """The fields of the vertex besides x, from the type of x on one tile."""
    rows, columns = x.shape
    half = tile.ShapedArray((rows, columns // 2), x.dtype)
    outputs = {"out0": half, "out1": half}
    constants = {"constant_scale": np.full(x.shape, 0.5, x.dtype)}
    temporaries = {"tmp": x}
    cycles_of_a_vertex = 12 * rows * columns
    return outputs, constants, temporaries, cycles_of_a_vertex


@demo_p.def_impl
def demo(x, scale_value):
    """The same in JAX: what other platforms compute, and what is differentiated."""
    scaled = 0.5 * scale_value * x
    return scaled[:, 1::2], -scaled[:, 1::2]


TILES = (0, 2, 5)


def run(x):
    """Two arrays, and the cycle counts before and after."""
    x = tile.tile_put_sharded(x, TILES)
    x, start = tile.ipu_cycle_count(x)
    out0, out1 = tile.tile_map(demo_p, x, scale_value=1.5)
    out0, out1, end = tile.ipu_cycle_count(out0, out1)
    return out0.array, out1.array, start.array, end.array


x = np.arange(3 * 4 * 4, dtype=np.float32).reshape(3, 4, 4)
ipu, cpu = (jax.device_put(x, jax.devices(platform)[0]) for platform in ("ipu", "cpu"))
out0, out1, start, end = jax.jit(run)(ipu)
expected0, expected1, *_ = jax.jit(run)(cpu)
np.testing.assert_allclose(out0, expected0)
np.testing.assert_allclose(out1, expected1)
cycles = int(end[0, 0] - start[0, 0]) - tile.ipu_cycle_count_overhead()
print(f"out0 on tile {TILES[0]}: {np.asarray(out0[0]).ravel()}")
print(f"{cycles:,} cycles for {len(TILES)} vertices, as the IPU model counts them")
gradient = jax.grad(lambda x: jnp.sum(run(x)[0] ** 2))(ipu)
np.testing.assert_allclose(gradient, jax.grad(lambda x: jnp.sum(run(x)[0] ** 2))(cpu), rtol=1e-5)
print(f"the gradient, on ipu: {np.asarray(gradient[0, 0])}")
