// Triangular systems and Cholesky factors, whole and in blocks: kernel and expansion have the same vertices
// and values.
#include <cmath>

#include "hlo/LinearAlgebra.hpp"
#include "poplin/Cholesky.hpp"
#include "testing/codelet_cache.h"
#include "testing/expansion_check.h"

namespace hlo::testing {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

const toy::SharedCodeletCache cache;

Graph GraphOf(unsigned tiles) { return Graph(poplar::Target::createIPUTarget(1, tiles, "ipu2")); }

// Random numbers; square matrices have a large real diagonal, so that they are positive definite where only a
// triangle is read.
Bytes Numbers(const Tensor& t, unsigned seed, float diagonal) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const bool complex = t.elementType().id() == DType::kC64;
  const std::size_t n = t.dim(t.rank() - 1), rows = t.dim(t.rank() - 2), parts = complex ? 2 : 1;
  std::vector<float> values(t.numElements() * parts);
  for (std::size_t i = 0; i < t.numElements(); ++i) {
    for (std::size_t p = 0; p < parts; ++p) values[i * parts + p] = normal(random);
    if (diagonal == 0 || i % n != i / n % rows) continue;
    values[i * parts] = diagonal + normal(random);
    if (complex) values[i * parts + 1] = 0;
  }
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// f32 is equal in all bits: both round a product with the difference. Complex products are rounded in other
// places.
bool Close(DType type, const void* expected, const void* actual) {
  if (type != DType::kC64) return SameBits(type, expected, actual);
  float a[2], b[2];
  std::memcpy(a, expected, sizeof(a));
  std::memcpy(b, actual, sizeof(b));
  if (std::isnan(a[0])) return std::isnan(b[0]) && std::isnan(a[1]) == std::isnan(b[1]);
  const float size = std::max(1e-3f, std::hypot(a[0], a[1]));
  return std::abs(a[0] - b[0]) <= 1e-4f * size && std::abs(a[1] - b[1]) <= 1e-4f * size;
}

// Of real numbers that are added in another order.
bool Near(DType type, const void* expected, const void* actual) {
  if (type == DType::kC64) return Close(type, expected, actual);
  float a, b;
  std::memcpy(&a, expected, sizeof(a));
  std::memcpy(&b, actual, sizeof(b));
  return std::isnan(a) ? std::isnan(b) : std::abs(a - b) <= 1e-4f * std::max(1e-3f, std::abs(a));
}

void CheckSolve(DType type, unsigned tiles, const std::vector<std::size_t>& a_shape,
                const std::vector<std::size_t>& b_shape, const TriangularOptions& options) {
  Graph graph = GraphOf(tiles);
  const Tensor a = Linear(graph, type, a_shape), b = Linear(graph, type, b_shape);
  Sequence prog;
  const Tensor x = hlo::triangularSolve(graph, a, b, options, prog, "solve");
  ExpansionCheck check(graph, prog, {a, b}, {x});
  check.SameVertices();
  check.SameValues({Numbers(a, 1, 2 * static_cast<float>(a_shape.back())), Numbers(b, 2, 0)}, Close);
}

TEST(SystemsOfEveryForm) {
  for (const bool left : {true, false}) {
    for (const bool lower : {true, false}) {
      for (const Transpose transpose : {Transpose::kNone, Transpose::kTranspose, Transpose::kAdjoint}) {
        TriangularOptions options;
        options.left_side = left;
        options.lower = lower;
        options.unit_diagonal = lower == left;
        options.transpose = transpose;
        const std::vector<std::size_t> b =
            left ? std::vector<std::size_t>{3, 9, 5} : std::vector<std::size_t>{3, 5, 9};
        CheckSolve(transpose == Transpose::kAdjoint ? DType::kC64 : DType::kF32, 11, {3, 9, 9}, b, options);
      }
    }
  }
}

// Tiles have several matrices.
TEST(ManySystems) {
  for (const bool left : {true, false}) {
    for (const DType type : {DType::kF32, DType::kC64}) {
      TriangularOptions options;
      options.left_side = left;
      options.lower = left;
      options.transpose = type == DType::kC64 ? Transpose::kAdjoint : Transpose::kNone;
      const auto b = [left](std::vector<std::size_t> batch, std::size_t m, std::size_t sides) {
        batch.insert(batch.end(), {left ? m : sides, left ? sides : m});
        return batch;
      };
      CheckSolve(type, 3, {40, 3, 3}, b({40}, 3, 1), options);
      CheckSolve(type, 4, {5, 6, 4, 4}, b({5, 6}, 4, 3), options);
      CheckSolve(type, 2, {13, 30, 30}, b({13}, 30, 7), options);
    }
  }
}

// The matrix is larger than a part of a tile's memory.
TEST(SystemsInBlocks) {
  for (const bool left : {true, false}) {
    for (const Transpose transpose : {Transpose::kNone, Transpose::kAdjoint}) {
      TriangularOptions options;
      options.left_side = left;
      options.lower = left;
      options.transpose = transpose;
      const std::size_t n = transpose == Transpose::kNone ? 400 : 300;
      const std::vector<std::size_t> b =
          left ? std::vector<std::size_t>{n, 3} : std::vector<std::size_t>{3, n};
      CheckSolve(transpose == Transpose::kNone ? DType::kF32 : DType::kC64, 8, {n, n}, b, options);
    }
  }
}

// `copies`: tiles read what others replace in the same step, so that the expansion copies it before.
void CheckCholesky(DType type, unsigned tiles, const std::vector<std::size_t>& shape, bool lower,
                   float diagonal, bool copies = false) {
  Graph graph = GraphOf(tiles);
  const Tensor a = Linear(graph, type, shape);
  Sequence prog;
  const Tensor factor = poplin::cholesky(graph, a, lower, prog, "cholesky");
  ExpansionCheck check(graph, prog, {a}, {factor});
  check.SameVertices(copies);
  check.SameValues({Numbers(a, 3, diagonal)}, copies ? Near : Close);
}

TEST(CholeskyOfWholeMatrices) {
  for (const bool lower : {true, false}) {
    CheckCholesky(DType::kF32, 5, {30, 3, 3}, lower, 30);
    CheckCholesky(DType::kC64, 2, {560, 7, 7}, lower, 30);
  }
}

TEST(CholeskyByColumns) {
  for (const bool lower : {true, false}) {
    CheckCholesky(DType::kC64, 5, {3, 7, 7}, lower, 30, true);
    CheckCholesky(DType::kF32, 5, {9, 12, 12}, lower, 30, true);
    CheckCholesky(DType::kF32, 5, {70, 70}, lower, 200, true);
    CheckCholesky(DType::kF32, 16, {2, 20, 20}, lower, 50, true);
    CheckCholesky(DType::kC64, 16, {1, 93, 93}, lower, 300, true);
  }
}

TEST(CholeskyInBlocks) {
  // For every change the lower triangle; smaller matrices have both.
  CheckCholesky(DType::kF32, 400, {1030, 1030}, true, 2000);
  if (jax_ipu::testing::Everything()) CheckCholesky(DType::kF32, 400, {1030, 1030}, false, 2000);
}

// A matrix that is not positive definite gives NaN everywhere.
TEST(CholeskyThatFails) {
  CheckCholesky(DType::kF32, 1, {12, 3, 3}, true, -2);
  CheckCholesky(DType::kF32, 5, {2, 9, 9}, true, -1, true);
  CheckCholesky(DType::kC64, 16, {1, 93, 93}, false, -1, true);
}

TEST(RefusedTypesAreNamed) {
  Graph graph = GraphOf(4);
  Sequence prog;
  poplin::cholesky(graph, Linear(graph, DType::kF64, {4, 4}), true, prog, "the factor");
  const std::string message = Refusal(graph, prog);
  CHECK(message.find("the factor") != std::string::npos && message.find("f64") != std::string::npos);
}

}  // namespace
}  // namespace hlo::testing
