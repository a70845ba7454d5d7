// Reductions by reflections from both sides: kernel and expansion have the same vertices and values.
#include <algorithm>
#include <cmath>
#include <cstring>

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

// Of elements [batch, n, n]: Hermitian ones.
void MakeHermitian(std::vector<float>* x, std::size_t n, bool complex) {
  const std::size_t parts = complex ? 2 : 1;
  for (std::size_t b = 0; b < x->size() / (n * n * parts); ++b) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        float* const to = x->data() + ((b * n + i) * n + j) * parts;
        float* const from = x->data() + ((b * n + j) * n + i) * parts;
        to[0] = from[0];
        if (complex) to[1] = i == j ? 0 : -from[1];
      }
    }
  }
}

// Reductions are as exact as the matrix is large: parts differ by at most 1e-4 of the number or, if they are
// larger, of the numbers in reflectors, which are about 1, or for what is far smaller than those of the
// matrix's entries, which have about `size`.
ExpansionCheck::Equal CloseTo(float size) {
  return [size](DType type, const void* expected, const void* actual) {
    float a[2] = {}, b[2] = {};
    std::memcpy(a, expected, SizeOf(type));
    std::memcpy(b, actual, SizeOf(type));
    const float length = std::hypot(a[0], a[1]), floor = length < 1e-9f ? size : 1, limit = 1e-4f;
    for (int i = 0; i < 2; ++i)
      if (!(std::abs(a[i] - b[i]) <= limit * std::max(length, floor))) return false;
    return true;
  };
}

std::size_t Check(TwoSidedForm form, DType type, const std::vector<std::size_t>& batch, std::size_t n,
                  unsigned tiles, const std::function<void(std::vector<float>*)>& change = {},
                  float size = 1) {
  Graph graph(poplar::Target::createIPUTarget(1, tiles, "ipu2"));
  std::vector<std::size_t> shape = batch;
  shape.insert(shape.end(), {n, n});
  const Tensor a = Linear(graph, type, shape);
  Sequence prog;
  const TwoSided result = hlo::twoSided(graph, form, a, prog, "reduce");
  std::vector<Tensor> out = {result.packed, result.taus};
  if (form == TwoSidedForm::kBidiagonal) out.insert(out.end(), {result.rowReflectors, result.rowTaus});
  ExpansionCheck check(graph, prog, {a}, out);
  check.SameVertices(true);
  check.SameValues({Parts(a, 1,
                          [&](std::vector<float>* x) {
                            if (change) change(x);
                            if (form == TwoSidedForm::kTridiagonal) MakeHermitian(x, n, IsComplex(type));
                          })},
                   CloseTo(size));
  return check.Supersteps();
}

TEST(Supersteps) {
  CHECK_EQ(Check(TwoSidedForm::kTridiagonal, DType::kF32, {}, 17, 64), 1u + 2 * 16);
  CHECK_EQ(Check(TwoSidedForm::kHessenberg, DType::kF32, {}, 17, 64), 1u + 2 * 16);
  CHECK_EQ(Check(TwoSidedForm::kBidiagonal, DType::kF32, {}, 17, 64), 1u + 4 * 16);
}

TEST(Reductions) {
  for (const TwoSidedForm form :
       {TwoSidedForm::kTridiagonal, TwoSidedForm::kHessenberg, TwoSidedForm::kBidiagonal}) {
    for (const DType type : {DType::kF32, DType::kC64}) {
      for (const unsigned tiles : {1u, 3u, 64u}) {
        Check(form, type, {}, 2, tiles);
        Check(form, type, {}, 17, tiles);
        Check(form, type, {2}, 8, tiles);
      }
    }
  }
}

// Tiles have several matrices.
TEST(ManyMatrices) {
  for (const TwoSidedForm form :
       {TwoSidedForm::kTridiagonal, TwoSidedForm::kHessenberg, TwoSidedForm::kBidiagonal}) {
    for (const DType type : {DType::kF32, DType::kC64}) {
      CHECK_EQ(Check(form, type, {40}, 3, 3), 1u);
      Check(form, type, {5, 6}, 4, 4);
      Check(form, type, {13}, 9, 2);
      Check(form, type, {20}, 2, 3);
    }
  }
}

// Columns that are zero below the pivot need no reflection, and those with small entries are scaled.
TEST(ZerosAndSmallEntries) {
  for (const TwoSidedForm form :
       {TwoSidedForm::kTridiagonal, TwoSidedForm::kHessenberg, TwoSidedForm::kBidiagonal}) {
    Check(form, DType::kF32, {}, 7, 64, [](std::vector<float>* x) {
      for (std::size_t i = 0; i < x->size(); ++i)
        if (i / 7 != i % 7) (*x)[i] = 0;
    });
    Check(
        form, DType::kF32, {}, 7, 64,
        [](std::vector<float>* x) {
          for (float& value : *x) value *= 1e-18f;
        },
        1e-18f);
  }
}

TEST(DoublePrecisionIsRefused) {
  Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
  Sequence prog;
  hlo::twoSided(graph, TwoSidedForm::kHessenberg, Linear(graph, DType::kF64, {5, 5}), prog, "reduce");
  CHECK(Refusal(graph, prog).find("f64") != std::string::npos);
}

}  // namespace
}  // namespace hlo::testing
