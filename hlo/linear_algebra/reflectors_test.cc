// QR factorisation of panels, and products with Q: kernel and expansion have the same vertices and values.
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

std::size_t CheckQr(DType type, const std::vector<std::size_t>& shape, unsigned tiles,
                    const std::function<void(std::vector<float>*)>& change = {}) {
  Graph graph(poplar::Target::createIPUTarget(1, tiles, "ipu2"));
  const Tensor a = Linear(graph, type, shape);
  Sequence prog;
  const QrPanel result = hlo::qrPanel(graph, a, prog, "qr");
  ExpansionCheck check(graph, prog, {a}, {result.packed, result.taus});
  check.SameVertices(true);
  check.SameValues({Parts(a, 1, change)}, Close);
  return check.Supersteps();
}

TEST(Factorisations) {
  CHECK_EQ(CheckQr(DType::kF32, {90, 3}, 1), 3u);
  CHECK_EQ(CheckQr(DType::kF32, {5, 3}, 1), 1u);
  CheckQr(DType::kF32, {1, 1}, 1);
  for (const DType type : {DType::kF32, DType::kC64}) {
    for (const unsigned tiles : {1u, 2u, 7u, 64u}) {
      CheckQr(type, {40, 7}, tiles);
      CheckQr(type, {2, 9, 16}, tiles);
    }
  }
}

// Columns that are zero below the diagonal need no reflection.
TEST(ZeroColumns) {
  CheckQr(DType::kF32, {12, 4}, 7, [](std::vector<float>* x) {
    for (std::size_t i = 4; i < x->size(); i += 4) (*x)[i] = 0;
  });
}

void CheckApply(DType type, const std::vector<std::size_t>& batch, std::size_t m, std::size_t n,
                std::size_t k, std::size_t count, unsigned below, unsigned tiles) {
  Graph graph(poplar::Target::createIPUTarget(1, tiles, "ipu2"));
  const auto shape = [&](std::initializer_list<std::size_t> last) {
    std::vector<std::size_t> all = batch;
    all.insert(all.end(), last);
    return all;
  };
  const Tensor packed = Linear(graph, type, shape({m, n})), taus = Linear(graph, type, shape({count})),
               x = Linear(graph, type, shape({m, k}));
  Sequence prog;
  const Tensor out = hlo::applyReflectors(graph, packed, taus, x, below, prog, "apply");
  ExpansionCheck check(graph, prog, {packed, taus, x}, {out});
  check.SameVertices();
  // Small reflectors, so that their product stays near 1.
  const auto small = [m](std::vector<float>* values) {
    for (float& value : *values) value /= static_cast<float>(m);
  };
  check.SameValues({Parts(packed, 1, small), Parts(taus, 2), Parts(x, 3)}, Close);
}

TEST(Products) {
  for (const DType type : {DType::kF32, DType::kC64}) {
    for (const unsigned tiles : {1u, 7u, 64u}) {
      CheckApply(type, {}, 12, 5, 9, 5, 0, tiles);
      CheckApply(type, {3}, 12, 5, 8, 4, 1, tiles);
      CheckApply(type, {2, 2}, 6, 6, 1, 5, 1, tiles);
    }
  }
}

// Tiles have several matrices.
TEST(ManyMatrices) {
  for (const DType type : {DType::kF32, DType::kC64}) {
    CHECK_EQ(CheckQr(type, {40, 3, 3}, 3), 1u);
    CheckQr(type, {5, 6, 5, 2}, 4);
    CheckQr(type, {26, 2, 4}, 4);
    CheckQr(type, {13, 20, 17}, 2);
    CheckQr(type, {50, 4, 1}, 3);
    CheckApply(type, {40}, 3, 3, 3, 3, 0, 3);
    CheckApply(type, {5, 6}, 4, 4, 2, 3, 1, 4);
    CheckApply(type, {13}, 20, 17, 5, 17, 0, 2);
  }
}

TEST(DoublePrecisionIsRefused) {
  Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
  Sequence prog;
  hlo::qrPanel(graph, Linear(graph, DType::kC128, {5, 3}), prog, "qr");
  CHECK(Refusal(graph, prog).find("c128") != std::string::npos);
}

}  // namespace
}  // namespace hlo::testing
