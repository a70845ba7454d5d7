"""Hello Poplar: a vertex that adds two numbers, on four tiles, from Python.

python examples/tiles/hello_poplar.py
"""

import jax
import numpy as np

from jax_ipu import tile

ADDER = """
#include <poplar/Vertex.hpp>

using namespace poplar;

class AdderVertex : public Vertex {
public:
  Input<float> x;
  Input<float> y;
  Output<float> sum;

  bool compute() {
    *sum = x + y;
    return true;
  }
};
"""


@tile.declare_ipu_tile_primitive("AdderVertex", gp_filename=ADDER)
def adder_p(x, y):
    """Returns the types of the outputs, constants, temporaries, and the cycles of one vertex."""
    return {"sum": x}, None, None, None


# What other platforms compute.
adder_p.def_impl(lambda x, y: x + y)


def add(x, y):
    """Element i of x and y is added on tile i."""
    tiles = range(len(x))
    return tile.tile_map(adder_p, tile.tile_put_sharded(x, tiles), tile.tile_put_sharded(y, tiles)).array


x, y = np.arange(4, dtype=np.float32), np.full(4, 0.5, np.float32)
for device in (jax.devices("ipu")[0], jax.devices("cpu")[0]):
    print(f"{device.platform}: {x} + {y} = {jax.jit(add)(*jax.device_put((x, y), device))}")
