// Compares panels of LU factorisations and the implicit QR algorithm with their definitions, whole and vertex
// by vertex.
#include <cmath>
#include <complex>
#include <limits>
#include <random>

#include "hlo/LinearAlgebra.hpp"
#include "testing/complex_values.h"
#include "testing/plan_runner.h"

namespace ipu_model {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;
using toy::Pack;
using toy::Unpack;
using Z = std::complex<double>;
using Numbers = std::vector<Z>;

Tensor Variable(Graph& graph, DType type, const std::vector<std::size_t>& shape) {
  const Tensor t = graph.addVariable(poplar::Type(type), shape, "variable");
  poputil::mapTensorLinearly(graph, t);
  return t;
}

bool IsSingle(DType type) { return type == DType::kF32 || type == DType::kC64; }
double Tolerance(DType type) { return IsSingle(type) ? 1e-4 : 1e-12; }

std::vector<std::int32_t> UnpackNumbers(const Bytes& bytes) {
  std::vector<std::int32_t> numbers(bytes.size() / 4);
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * 4);
  return numbers;
}

Numbers Random(DType type, std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Numbers values(n);
  for (Z& v : values) v = IsComplex(type) ? Z(normal(random), normal(random)) : Z(normal(random), 0);
  return values;
}

double SizeOfEntry(Z x) { return std::abs(x.real()) + std::abs(x.imag()); }

// Calls check(results) for the whole operation and for its vertices.
template <typename F>
void InBothModes(Graph& graph, const Sequence& prog, const std::vector<std::pair<Tensor, Bytes>>& operands,
                 F&& check) {
  for (const bool whole : {true, false}) {
    PlanRunner runner(graph, 0);
    for (const auto& [tensor, bytes] : operands) runner.Store(tensor, bytes.data());
    whole ? runner.RunWhole(prog) : runner.RunVertices(prog);
    check(runner);
  }
}

void CheckPanel(DType type, std::size_t batch, std::size_t m, std::size_t n) {
  const Numbers a = Random(type, batch * m * n, static_cast<unsigned>(m + n));
  Graph graph(poplar::Target::createIPUTarget(1, 13, "ipu2"));
  const Tensor t = Variable(graph, type, {batch, m, n});
  Sequence prog;
  const hlo::LuPanel out = hlo::luPanel(graph, t, prog, "panel");
  InBothModes(graph, prog, {{t, Pack(type, a)}}, [&](PlanRunner& runner) {
    const Numbers lu = Unpack(type, runner.Load(out.factors));
    const std::vector<std::int32_t> pivots = UnpackNumbers(runner.Load(out.pivots));
    const std::vector<std::int32_t> order = UnpackNumbers(runner.Load(out.order));
    double worst = 0, largest_factor = 0;
    for (std::size_t b = 0; b < batch; ++b) {
      std::vector<std::int32_t> expected(m);
      for (std::size_t i = 0; i < m; ++i) expected[i] = static_cast<std::int32_t>(i);
      for (std::size_t k = 0; k < n; ++k) {
        const auto pivot = static_cast<std::size_t>(pivots[b * n + k]);
        CHECK(pivot >= k && pivot < m);
        std::swap(expected[k], expected[pivot]);
      }
      for (std::size_t i = 0; i < m; ++i) {
        CHECK(order[b * m + i] == expected[i]);
        for (std::size_t j = 0; j < n; ++j) {
          Z sum = 0;
          for (std::size_t k = 0; k <= std::min(i, j); ++k) {
            const Z l = k == i ? 1 : lu[(b * m + i) * n + k];
            sum += l * lu[(b * m + k) * n + j];
            if (k < i) largest_factor = std::max(largest_factor, SizeOfEntry(l));
          }
          const auto row = static_cast<std::size_t>(expected[i]);
          worst = std::max(worst, std::abs(sum - a[(b * m + row) * n + j]));
        }
      }
    }
    CHECK_NEAR(worst, 0, Tolerance(type));
    // Pivots are chosen by |re| + |im|, so complex factors may be larger: for equal sums, the quotient's sum
    // is at most 2.
    CHECK(largest_factor <= (IsComplex(type) ? 2.0001 : 1.0001));
  });
}

TEST(PanelsTimesTheirFactorsAreTheMatrix) {
  for (const DType type : {DType::kF32, DType::kF64, DType::kC64, DType::kC128}) {
    CheckPanel(type, 1, 1, 1);
    CheckPanel(type, 3, 5, 5);
    CheckPanel(type, 2, 100, 7);
    CheckPanel(type, 1, 70, 32);
  }
}

TEST(PanelsOfZerosAndOfNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const struct {
    Numbers a;
    std::vector<std::int32_t> pivots;
  } cases[] = {
      {Numbers(80, 0.0), {0, 1}},
      // The pivot is the first of the largest entries, in whatever row.
      {[] {
         Numbers a(80, 1.0);
         a[70] = a[76] = -3;
         return a;
       }(),
       {35, 1}},
      {Numbers(80, nan), {0, 1}},
      {[nan] {
         Numbers a(80, 1.0);
         a[2] = nan;
         a[74] = 2;
         return a;
       }(),
       {37, 1}},
  };
  for (const auto& [a, pivots] : cases) {
    Graph graph(poplar::Target::createIPUTarget(1, 13, "ipu2"));
    const Tensor t = Variable(graph, DType::kF32, {40, 2});
    Sequence prog;
    const hlo::LuPanel out = hlo::luPanel(graph, t, prog, "panel");
    InBothModes(graph, prog, {{t, Pack(DType::kF32, a)}}, [&](PlanRunner& runner) {
      const std::vector<std::int32_t> found = UnpackNumbers(runner.Load(out.pivots));
      CHECK(found[0] == pivots[0]);
    });
  }
}

Numbers Identity(std::size_t batch, std::size_t n) {
  Numbers values(batch * n * n, 0.0);
  for (std::size_t i = 0; i < batch * n; ++i) values[i * n + i % n] = 1;
  return values;
}

// Checks that the matrix with diagonal d and e above it (also below it if symmetric) is G^T values H for G
// and H.
void CheckDiagonal(DType type, std::size_t n, bool symmetric, const Z* d, const Z* e, const Z* values,
                   const Z* g, const Z* h) {
  double worst = 0, apart = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      Z sum = 0, product = 0;
      for (std::size_t k = 0; k < n; ++k) {
        sum += g[k * n + i] * values[k] * h[k * n + j];
        product += g[i * n + k] * g[j * n + k];
      }
      Z expected = i == j ? d[i] : 0.0;
      if (j == i + 1) expected = e[i];
      if (symmetric && i == j + 1) expected = e[j];
      worst = std::max(worst, std::abs(sum - expected));
      apart = std::max(apart, std::abs(product - (i == j ? 1.0 : 0.0)));
    }
  }
  CHECK_NEAR(worst, 0, Tolerance(type));
  CHECK_NEAR(apart, 0, Tolerance(type));
}

void CheckQr(DType type, bool bidiagonal, std::size_t batch, std::size_t n, double scale_of_e) {
  const Numbers d = Random(type, batch * n, static_cast<unsigned>(n));
  Numbers e = Random(type, batch * (n - 1), static_cast<unsigned>(n + 1));
  for (Z& x : e) x *= scale_of_e;
  Graph graph(poplar::Target::createIPUTarget(1, 13, "ipu2"));
  const Tensor diagonal = Variable(graph, type, {batch, n}), beside = Variable(graph, type, {batch, n - 1});
  const Tensor left = Variable(graph, type, {batch, n, n}), right = Variable(graph, type, {batch, n, n});
  const Bytes identity = Pack(type, Identity(batch, n));
  Sequence prog;
  const std::vector<Tensor> out = bidiagonal
                                      ? hlo::bidiagonalQr(graph, diagonal, beside, {left, right}, prog, "qr")
                                      : hlo::tridiagonalQr(graph, diagonal, beside, {left}, prog, "qr");
  const std::vector<Tensor> alone = bidiagonal
                                        ? hlo::bidiagonalQr(graph, diagonal, beside, {}, prog, "values")
                                        : hlo::tridiagonalQr(graph, diagonal, beside, {}, prog, "values");
  InBothModes(
      graph, prog, {{diagonal, Pack(type, d)}, {beside, Pack(type, e)}, {left, identity}, {right, identity}},
      [&](PlanRunner& runner) {
        const Numbers values = Unpack(type, runner.Load(out[0])), g = Unpack(type, runner.Load(out[1]));
        const Numbers h = bidiagonal ? Unpack(type, runner.Load(out[2])) : g;
        for (std::size_t b = 0; b < batch; ++b) {
          CheckDiagonal(type, n, !bidiagonal, d.data() + b * n, e.data() + b * (n - 1), values.data() + b * n,
                        g.data() + b * n * n, h.data() + b * n * n);
        }
        CHECK(Unpack(type, runner.Load(alone[0])) == values);
        for (const Z value : values) CHECK(!bidiagonal || value.real() >= 0);
      });
}

TEST(RotationsMakeTheMatrixDiagonal) {
  for (const DType type : {DType::kF32, DType::kF64}) {
    for (const bool bidiagonal : {true, false}) {
      CheckQr(type, bidiagonal, 1, 2, 1);
      CheckQr(type, bidiagonal, 3, 5, 1);
      CheckQr(type, bidiagonal, 1, 67, 1);
      CheckQr(type, bidiagonal, 1, 40, 1e-7);
      CheckQr(type, bidiagonal, 1, 40, 0);
    }
  }
}

TEST(WhatDoesNotConvergeIsNan) {
  Graph graph(poplar::Target::createIPUTarget(1, 13, "ipu2"));
  const Tensor d = Variable(graph, DType::kF32, {4}), e = Variable(graph, DType::kF32, {3});
  const Tensor rows = Variable(graph, DType::kF32, {4, 4});
  Sequence prog;
  const std::vector<Tensor> out = hlo::tridiagonalQr(graph, d, e, {rows}, prog, "qr");
  const Numbers nan(4, std::numeric_limits<double>::quiet_NaN());
  InBothModes(graph, prog,
              {{d, Pack(DType::kF32, nan)},
               {e, Pack(DType::kF32, Numbers(nan.begin() + 1, nan.end()))},
               {rows, Pack(DType::kF32, Identity(1, 4))}},
              [&](PlanRunner& runner) {
                for (const Tensor& result : out) {
                  for (const Z x : Unpack(DType::kF32, runner.Load(result))) CHECK(std::isnan(x.real()));
                }
              });
}

}  // namespace
}  // namespace ipu_model
