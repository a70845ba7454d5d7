// The implicit QR algorithm: kernel and expansion have the same vertices, and both have the results that it
// defines. Its rotations depend on the rounding of each, so that the results may be in another order.
#include <algorithm>
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

std::vector<float> FloatsOf(const Bytes& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Bytes Identity(std::size_t batch, std::size_t n) {
  Bytes bytes;
  for (std::size_t i = 0; i < batch * n * n; ++i) {
    const Bytes element = BytesOf(i / n % n == i % n ? 1.0f : 0.0f);
    bytes.insert(bytes.end(), element.begin(), element.end());
  }
  return bytes;
}

// Checks that G^T values H is the matrix with diagonal d and e above it (also below it if symmetric), and
// that the rows of G are orthonormal.
void CheckDiagonal(std::size_t n, bool symmetric, const float* d, const float* e, const float* values,
                   const float* g, const float* h) {
  double worst = 0, apart = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0, product = 0;
      for (std::size_t k = 0; k < n; ++k) {
        sum += double{g[k * n + i]} * values[k] * h[k * n + j];
        product += double{g[i * n + k]} * g[j * n + k];
      }
      double expected = i == j ? d[i] : 0;
      if (j == i + 1) expected = e[i];
      if (symmetric && i == j + 1) expected = e[j];
      worst = std::max(worst, std::abs(sum - expected));
      apart = std::max(apart, std::abs(product - (i == j ? 1 : 0)));
    }
  }
  CHECK_NEAR(worst, 0, 2e-5);
  CHECK_NEAR(apart, 0, 2e-5);
}

void CheckQr(bool bidiagonal, std::size_t batch, std::size_t n, unsigned tiles, float scale = 1) {
  Graph graph(poplar::Target::createIPUTarget(1, tiles, "ipu2"));
  const Tensor d = Linear(graph, DType::kF32, {batch, n}), e = Linear(graph, DType::kF32, {batch, n - 1});
  std::vector<Tensor> rows;
  for (int i = 0; i < (bidiagonal ? 2 : 1); ++i) rows.push_back(Linear(graph, DType::kF32, {batch, n, n}));
  std::vector<Tensor> inputs = {d, e};
  inputs.insert(inputs.end(), rows.begin(), rows.end());
  Sequence prog;
  const std::vector<Tensor> out = bidiagonal ? hlo::bidiagonalQr(graph, d, e, rows, prog, "qr")
                                             : hlo::tridiagonalQr(graph, d, e, rows, prog, "qr");
  ExpansionCheck check(graph, prog, inputs, out);
  check.SameVertices();
  std::vector<Bytes> values = {Parts(d, 1), Parts(e, 2, [scale](std::vector<float>* x) {
                                 for (float& v : *x) v *= scale;
                               })};
  values.resize(inputs.size(), Identity(batch, n));
  const std::vector<float> diagonal = FloatsOf(values[0]), beside = FloatsOf(values[1]);
  for (const char* mode : {"tile", "expansions"}) {
    const std::vector<Bytes> results = check.Run(mode, values);
    const std::vector<float> found = FloatsOf(results[0]), g = FloatsOf(results[1]),
                             h = bidiagonal ? FloatsOf(results[2]) : g;
    for (std::size_t b = 0; b < batch; ++b) {
      CheckDiagonal(n, !bidiagonal, &diagonal[b * n], beside.data() + b * (n - 1), &found[b * n],
                    &g[b * n * n], &h[b * n * n]);
    }
    for (const float value : found) CHECK(!bidiagonal || value >= 0);
  }
}

TEST(RotationsMakeTheMatrixDiagonal) {
  for (const bool bidiagonal : {false, true}) {
    CheckQr(bidiagonal, 1, 1, 7);
    CheckQr(bidiagonal, 1, 2, 7);
    CheckQr(bidiagonal, 3, 5, 2);
    CheckQr(bidiagonal, 2, 41, 7);
    CheckQr(bidiagonal, 1, 40, 64, 1e-7f);
    CheckQr(bidiagonal, 1, 40, 1, 0);
  }
}

// Tiles have several matrices.
TEST(ManyMatrices) {
  for (const bool bidiagonal : {false, true}) {
    CheckQr(bidiagonal, 40, 3, 3);
    CheckQr(bidiagonal, 30, 4, 4);
    CheckQr(bidiagonal, 13, 20, 2);
    CheckQr(bidiagonal, 5, 1, 2);
  }
}

void CheckValues(std::size_t batch, unsigned tiles) {
  Graph graph(poplar::Target::createIPUTarget(1, tiles, "ipu2"));
  const Tensor d = Linear(graph, DType::kF32, {batch, 9}), e = Linear(graph, DType::kF32, {batch, 8});
  Sequence prog;
  const std::vector<Tensor> out = hlo::bidiagonalQr(graph, d, e, {}, prog, "values");
  ExpansionCheck check(graph, prog, {d, e}, out);
  check.SameVertices();
  const std::vector<Bytes> values = {Parts(d, 1), Parts(e, 2)};
  std::vector<float> found[2];
  for (int i = 0; i < 2; ++i) {
    found[i] = FloatsOf(check.Run(i == 0 ? "fast" : "expansions", values)[0]);
    for (auto row = found[i].begin(); row != found[i].end(); row += 9) std::sort(row, row + 9);
  }
  for (std::size_t k = 0; k < found[0].size(); ++k) CHECK_NEAR(found[0][k], found[1][k], 1e-5);
}

TEST(ValuesAlone) {
  CheckValues(2, 7);
  CheckValues(20, 3);
}

TEST(WhatDoesNotConvergeIsNan) {
  Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
  const Tensor d = Linear(graph, DType::kF32, {4}), e = Linear(graph, DType::kF32, {3}),
               rows = Linear(graph, DType::kF32, {4, 4});
  Sequence prog;
  const std::vector<Tensor> out = hlo::tridiagonalQr(graph, d, e, {rows}, prog, "qr");
  ExpansionCheck check(graph, prog, {d, e, rows}, out);
  const auto nan = [](std::vector<float>* x) {
    std::fill(x->begin(), x->end(), std::numeric_limits<float>::quiet_NaN());
  };
  for (const Bytes& result : check.Run("expansions", {Parts(d, 1, nan), Parts(e, 2, nan), Identity(1, 4)}))
    for (const float x : FloatsOf(result)) CHECK(std::isnan(x));
}

TEST(DoublePrecisionIsRefused) {
  Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
  Sequence prog;
  hlo::tridiagonalQr(graph, Linear(graph, DType::kF64, {5}), Linear(graph, DType::kF64, {4}), {}, prog, "qr");
  CHECK(Refusal(graph, prog).find("f64") != std::string::npos);
}

}  // namespace
}  // namespace hlo::testing
