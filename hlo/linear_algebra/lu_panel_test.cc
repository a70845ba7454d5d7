// LU factorisation of panels: kernel and expansion have the same vertices and values.
#include <cmath>
#include <limits>

#include "hlo/LinearAlgebra.hpp"
#include "testing/codelet_cache.h"
#include "testing/expansion_check.h"
#include "testing/numbers.h"

namespace hlo::testing {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

const toy::SharedCodeletCache cache;

std::size_t CheckLu(DType type, const std::vector<std::size_t>& shape, unsigned tiles,
                    const std::function<void(std::vector<float>*)>& change = {}) {
  Graph graph(poplar::Target::createIPUTarget(1, tiles, "ipu2"));
  const Tensor a = Linear(graph, type, shape);
  Sequence prog;
  const LuPanel result = hlo::luPanel(graph, a, prog, "lu");
  ExpansionCheck check(graph, prog, {a}, {result.factors, result.pivots, result.order});
  check.SameVertices(true);
  check.SameValues({Parts(a, 1, change)}, Close);
  return check.Supersteps();
}

TEST(OneTile) {
  CHECK_EQ(CheckLu(DType::kF32, {5, 3}, 1), 5u);
  CheckLu(DType::kF32, {1, 1}, 1);
  CheckLu(DType::kF32, {3, 9, 9}, 2);
}

TEST(RowsOnSeveralTiles) {
  for (const DType type : {DType::kF32, DType::kC64}) {
    CheckLu(type, {100, 7}, 7);
    CheckLu(type, {2, 70, 16}, 7);
    CheckLu(type, {65, 33}, 64);
  }
}

// Several matrices on a tile, with odd and with even numbers of elements, and higher than wide.
TEST(ManyMatrices) {
  for (const DType type : {DType::kF32, DType::kC64}) {
    CHECK_EQ(CheckLu(type, {40, 3, 3}, 3), 1u);
    CheckLu(type, {5, 6, 5, 2}, 4);
    CheckLu(type, {26, 4, 4}, 4);
    CheckLu(type, {13, 33, 20}, 2);
  }
  CheckLu(DType::kF32, {40, 3, 3}, 3, [](std::vector<float>* x) {
    for (std::size_t i = 2; i < x->size(); i += 3) (*x)[i] = std::numeric_limits<float>::quiet_NaN();
    for (std::size_t i = 1; i < x->size() / 2; i += 3) (*x)[i] = 0;
  });
}

// No pivot: a column of zeros, and of NaN.
TEST(SingularAndNotFinite) {
  for (const float value : {0.0f, std::numeric_limits<float>::quiet_NaN()}) {
    CheckLu(DType::kF32, {70, 5}, 7, [value](std::vector<float>* x) {
      for (std::size_t i = 2; i < x->size(); i += 5) (*x)[i] = value;
    });
  }
}

TEST(DoublePrecisionIsRefused) {
  Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
  Sequence prog;
  hlo::luPanel(graph, Linear(graph, DType::kF64, {5, 3}), prog, "lu");
  CHECK(Refusal(graph, prog).find("f64") != std::string::npos);
}

}  // namespace
}  // namespace hlo::testing
