// Cholesky factorisation and triangular systems: residuals, whole and vertex by vertex, in one piece and in
// blocks.
#include "kernels/linear_algebra/linear_algebra.h"

#include <cmath>
#include <complex>
#include <limits>
#include <random>

#include "hlo/LinearAlgebra.hpp"
#include "poplin/Cholesky.hpp"
#include "poplin/TriangularSolve.hpp"
#include "testing/complex_values.h"
#include "testing/plan_runner.h"

namespace ipu_model {
namespace {

using jax_ipu::testing::Everything;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;
using toy::Pack;
using toy::Unpack;
using Z = std::complex<double>;
using Matrices = std::vector<Z>;

constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kC64, DType::kC128};

Tensor Variable(Graph& graph, DType type, const std::vector<std::size_t>& shape) {
  const Tensor t = graph.addVariable(poplar::Type(type), shape, "variable");
  poputil::mapTensorLinearly(graph, t);
  return t;
}

double Tolerance(DType type) { return type == DType::kF32 || type == DType::kC64 ? 2e-4 : 1e-11; }

Matrices Random(DType type, std::size_t n, std::mt19937& random) {
  std::normal_distribution<double> normal;
  Matrices values(n);
  for (Z& v : values) v = IsComplex(type) ? Z(normal(random), normal(random)) : Z(normal(random), 0);
  return values;
}

void CheckCholesky(DType type, bool lower, std::size_t batch, std::size_t n, unsigned bytes_per_tile) {
  std::mt19937 random(static_cast<unsigned>(n + batch));
  const Matrices x = Random(type, batch * n * n, random);
  Matrices a(batch * n * n), given;
  for (std::size_t b = 0; b < batch; ++b) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        Z sum = i == j ? static_cast<double>(n) : 0.0;
        for (std::size_t k = 0; k < n; ++k) sum += x[(b * n + i) * n + k] * std::conj(x[(b * n + j) * n + k]);
        a[(b * n + i) * n + j] = sum / static_cast<double>(n);
      }
    }
  }
  given = a;
  for (std::size_t e = 0; e < given.size(); ++e) {  // the other triangle must not be read
    const std::size_t i = e / n % n, j = e % n;
    if (lower ? j > i : j < i) given[e] = std::numeric_limits<double>::quiet_NaN();
  }
  Graph graph(poplar::Target::createIPUTarget(1, 13, "ipu2"));
  const Tensor t = Variable(graph, type, {batch, n, n});
  Sequence prog;
  const Tensor out = poplin::cholesky(graph, t, lower, prog, "cholesky");
  for (int mode = 0; mode < 3; ++mode) {
    PlanRunner runner(graph, mode == 2 ? bytes_per_tile : 0);
    runner.Store(t, Pack(type, given).data());
    mode == 0 ? runner.RunWhole(prog) : runner.RunVertices(prog);
    if (mode == 2 && n > 64) CHECK(runner.supersteps() > 3);
    const Matrices f = Unpack(type, runner.Load(out));
    double worst = 0;
    bool zeros = true;
    for (std::size_t b = 0; b < batch; ++b) {
      const Z* m = f.data() + b * n * n;
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
          Z sum = 0;
          for (std::size_t k = 0; k <= std::min(i, j); ++k) {
            sum += lower ? m[i * n + k] * std::conj(m[j * n + k]) : std::conj(m[k * n + i]) * m[k * n + j];
          }
          const double error = std::abs(sum - a[(b * n + i) * n + j]);
          worst = error <= worst ? worst : error;  // NaN stays
          if (lower ? j > i : j < i) zeros = zeros && m[i * n + j] == 0.0;
        }
      }
    }
    CHECK_NEAR(worst, 0, Tolerance(type));
    CHECK(zeros);
  }
}

TEST(CholeskyFactorsReproduceTheMatrix) {
  for (const DType type : kTypes) {
    for (const bool lower : {true, false}) {
      CheckCholesky(type, lower, 3, 1, 0);
      CheckCholesky(type, lower, 2, 17, 0);
      CheckCholesky(type, lower, 1, 150, 60000);
    }
  }
  CheckCholesky(DType::kF32, true, 2, 300, 100000);
}

TEST(CholeskyOfIndefiniteMatricesIsNan) {
  for (const std::size_t n : {3, 150}) {
    Graph graph(poplar::Target::createIPUTarget(1, 9, "ipu2"));
    const Tensor t = Variable(graph, DType::kF32, {2, n, n});
    Sequence prog;
    const Tensor out = poplin::cholesky(graph, t, true, prog);
    Matrices values(2 * n * n);
    for (std::size_t i = 0; i < 2 * n; ++i) values[i * n + i % n] = 2.0;
    values[n * n + n + 1] = -1.0;  // of the second matrix
    for (int mode = 0; mode < 3; ++mode) {
      PlanRunner runner(graph, mode == 2 ? 60000 : 0);
      runner.Store(t, Pack(DType::kF32, values).data());
      mode == 0 ? runner.RunWhole(prog) : runner.RunVertices(prog);
      const Matrices f = Unpack(DType::kF32, runner.Load(out));
      std::size_t nans[2] = {0, 0};
      for (std::size_t e = 0; e < f.size(); ++e) nans[e / (n * n)] += std::isnan(f[e].real()) ? 1 : 0;
      CHECK_EQ(nans[0], std::size_t{0});
      CHECK_EQ(nans[1], n * n);
    }
  }
}

void CheckSolve(DType type, const TriangularOptions& options, std::size_t batch, std::size_t m, std::size_t n,
                unsigned bytes_per_tile) {
  std::mt19937 random(static_cast<unsigned>(m * 31 + n));
  Matrices a = Random(type, batch * m * m, random), given;
  for (Z& v : a) v *= 0.5 / std::sqrt(static_cast<double>(m));
  for (std::size_t e = 0; e < a.size(); ++e) {
    const std::size_t i = e / m % m, j = e % m;
    if (i == j) a[e] += 1.5;
    if (options.lower ? j > i : j < i) a[e] = 0;
  }
  given = a;
  for (std::size_t e = 0; e < a.size(); ++e) {
    const std::size_t i = e / m % m, j = e % m;
    const bool unread = (options.lower ? j > i : j < i) || (options.unit_diagonal && i == j);
    if (unread) given[e] = std::numeric_limits<double>::quiet_NaN();
    if (options.unit_diagonal && i == j) a[e] = 1;
  }
  const Matrices b = Random(type, batch * m * n, random);
  const std::size_t rows = options.left_side ? m : n, columns = options.left_side ? n : m;
  Graph graph(poplar::Target::createIPUTarget(1, 13, "ipu2"));
  const Tensor ta = Variable(graph, type, {batch, m, m}), tb = Variable(graph, type, {batch, rows, columns});
  Sequence prog;
  const Tensor out = hlo::triangularSolve(graph, ta, tb, options, prog, "solve");
  const auto op = [&](std::size_t batch_index, std::size_t i, std::size_t j) {
    const Z* matrix = a.data() + batch_index * m * m;
    switch (options.transpose) {
      case Transpose::kNone:
        return matrix[i * m + j];
      case Transpose::kTranspose:
        return matrix[j * m + i];
      default:
        return std::conj(matrix[j * m + i]);
    }
  };
  for (int mode = 0; mode < 3; ++mode) {
    PlanRunner runner(graph, mode == 2 ? bytes_per_tile : 0);
    runner.Store(ta, Pack(type, given).data());
    runner.Store(tb, Pack(type, b).data());
    mode == 0 ? runner.RunWhole(prog) : runner.RunVertices(prog);
    if (mode == 2 && m > 64) CHECK(runner.supersteps() > 3);
    const Matrices x = Unpack(type, runner.Load(out));
    double worst = 0;
    for (std::size_t k = 0; k < batch; ++k) {
      for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t j = 0; j < columns; ++j) {
          Z sum = 0;
          for (std::size_t e = 0; e < m; ++e) {
            sum += options.left_side ? op(k, i, e) * x[(k * rows + e) * columns + j]
                                     : x[(k * rows + i) * columns + e] * op(k, e, j);
          }
          const double error = std::abs(sum - b[(k * rows + i) * columns + j]);
          worst = error <= worst ? worst : error;
        }
      }
    }
    CHECK_NEAR(worst, 0, Tolerance(type));
  }
}

TEST(TriangularSolutionsSolve) {
  for (const DType& type : kTypes) {
    for (int form = 0; form < 24; ++form) {
      const TriangularOptions options{form % 2 != 0, form / 2 % 2 != 0, form / 4 % 2 != 0,
                                      static_cast<Transpose>(form / 8)};
      CheckSolve(type, options, 2, 1, 3, 0);
      CheckSolve(type, options, 3, 9, 5, 0);
      // In blocks, every form with one of the types for every change, and each type in six forms.
      if (&type - kTypes == (form + form / 4) % 4 || Everything())
        CheckSolve(type, options, 1, 130, 20, 40000);
    }
  }
}

TEST(WrongShapesAreRefused) {
  Graph graph(poplar::Target::createIPUTarget(1, 2, "ipu2"));
  Sequence prog;
  const Tensor a = Variable(graph, DType::kF32, {3, 4}), i = Variable(graph, DType::kS32, {3, 3});
  CHECK_THROWS(std::exception, poplin::cholesky(graph, a, true, prog));
  CHECK_THROWS(std::exception, poplin::cholesky(graph, i, true, prog));
  CHECK_THROWS(std::exception, poplin::triangularSolve(graph, a, a, true, true, false, prog));
}

TEST(EmptyMatrices) {
  Graph graph(poplar::Target::createIPUTarget(1, 2, "ipu2"));
  Sequence prog;
  const Tensor a = Variable(graph, DType::kF32, {0, 3, 3}), b = Variable(graph, DType::kF32, {0, 3, 2}),
               z = Variable(graph, DType::kF32, {2, 0, 0}), none = Variable(graph, DType::kF32, {2, 3, 0}),
               c = Variable(graph, DType::kF32, {2, 3, 3});
  poplin::cholesky(graph, a, true, prog);
  poplin::cholesky(graph, z, true, prog);
  poplin::triangularSolve(graph, a, b, true, true, false, prog);
  poplin::triangularSolve(graph, c, none, true, true, false, prog);
  PlanRunner runner(graph, 0);
  runner.RunWhole(prog);
  runner.RunVertices(prog);
  CHECK(runner.supersteps() > 0);
}

}  // namespace
}  // namespace ipu_model
