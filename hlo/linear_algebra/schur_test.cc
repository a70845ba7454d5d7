// The Schur form of small matrices: kernel and expansion have the same vertices, and both have the results
// that it defines.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
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
using Number = std::complex<double>;

const toy::SharedCodeletCache cache;

std::vector<Number> NumbersOf(const Bytes& bytes, DType type) {
  const std::size_t parts = IsComplex(type) ? 2 : 1;
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  std::vector<Number> numbers;
  for (std::size_t i = 0; i < values.size(); i += parts)
    numbers.emplace_back(values[i], parts == 2 ? values[i + 1] : 0);
  return numbers;
}

// Checks that a Z = Z T, that T is of the form, and that Z is unitary.
void CheckForm(std::size_t n, bool real, bool unitary, const Number* a, const Number* t, const Number* z) {
  double largest = 1e-30, worst = 0, apart = 0;
  for (std::size_t i = 0; i < n * n; ++i) largest = std::max(largest, std::abs(a[i]));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      Number left = 0, right = 0, product = 0;
      for (std::size_t k = 0; k < n; ++k) {
        left += a[i * n + k] * z[k * n + j];
        right += z[i * n + k] * t[k * n + j];
        product += std::conj(z[k * n + i]) * z[k * n + j];
      }
      worst = std::max(worst, std::abs(left - right) / largest);
      apart = std::max(apart, std::abs(product - (i == j ? 1.0 : 0.0)));
      if (i <= j) continue;
      if (!real || i > j + 1) CHECK(t[i * n + j] == 0.0);
      if (i == j + 1 && t[i * n + j] != 0.0) {
        CHECK(t[i * n + i] == t[j * n + j]);
        CHECK(t[i * n + j].real() * t[j * n + i].real() < 0);
        if (i + 1 < n) CHECK(t[(i + 1) * n + i] == 0.0);
      }
    }
  }
  CHECK_NEAR(worst, 0, 4e-5);
  if (unitary) CHECK_NEAR(apart, 0, 2e-5);
}

void CheckSchur(DType type, std::size_t batch, std::size_t n, unsigned tiles, bool balanced,
                const std::function<void(std::vector<float>*)>& change = {}) {
  Graph graph(poplar::Target::createIPUTarget(1, tiles, "ipu2"));
  const Tensor a = Linear(graph, type, {batch, n, n});
  Sequence prog;
  const std::vector<Tensor> out = hlo::schur(graph, a, balanced, true, prog, "schur");
  ExpansionCheck check(graph, prog, {a}, out);
  check.SameVertices();
  const Bytes given = Parts(a, 3, change);
  const std::vector<Number> matrices = NumbersOf(given, type);
  for (const char* mode : {"fast", "tile", "expansions"}) {
    const std::vector<Bytes> results = check.Run(mode, {given});
    const std::vector<Number> t = NumbersOf(results[0], type), z = NumbersOf(results[1], type);
    for (std::size_t b = 0; b < batch; ++b) {
      const std::size_t begin = b * n * n;
      CheckForm(n, !IsComplex(type), !balanced, &matrices[begin], &t[begin], &z[begin]);
    }
  }
}

TEST(FormsOfMatrices) {
  for (const DType type : {DType::kF32, DType::kC64}) {
    for (const bool balanced : {false, true}) {
      CheckSchur(type, 2, 1, 3, balanced);
      CheckSchur(type, 9, 2, 2, balanced);
      CheckSchur(type, 15, 3, 2, balanced);
      CheckSchur(type, 3, 7, 64, balanced);
      CheckSchur(type, 2, 16, 1, balanced);
    }
  }
}

// Triangular, with zeros, far from 1, and one whose eigenvalues need an exceptional shift.
TEST(SpecialMatrices) {
  CheckSchur(DType::kF32, 2, 6, 3, true, [](std::vector<float>* x) {
    for (std::size_t i = 0; i < x->size(); ++i)
      if (i / 6 % 6 > i % 6) (*x)[i] = 0;
  });
  CheckSchur(DType::kF32, 2, 5, 3, true, [](std::vector<float>* x) {
    for (std::size_t i = 0; i < x->size(); ++i) (*x)[i] = i % 3 == 0 ? (*x)[i] : 0;
  });
  CheckSchur(DType::kF32, 2, 4, 3, false, [](std::vector<float>* x) {
    for (float& v : *x) v *= 1e25f;
  });
  CheckSchur(DType::kF32, 1, 4, 3, false, [](std::vector<float>* x) {
    for (std::size_t i = 0; i < 16; ++i) (*x)[i] = (i % 4 + 1) % 4 == i / 4 ? 1.0f : 0.0f;
  });
}

TEST(FormAlone) {
  std::vector<Bytes> forms[2];
  for (const bool vectors : {false, true}) {
    Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
    const Tensor a = Linear(graph, DType::kF32, {4, 5, 5});
    Sequence prog;
    ExpansionCheck check(graph, prog, {a}, hlo::schur(graph, a, false, vectors, prog, "schur"));
    check.SameVertices();
    for (const char* mode : {"fast", "tile", "expansions"})
      forms[vectors].push_back(check.Run(mode, {Parts(a, 5)})[0]);
  }
  CHECK(forms[0] == forms[1]);
}

TEST(WhatIsNotFiniteIsNan) {
  Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
  const Tensor a = Linear(graph, DType::kF32, {2, 3, 3});
  Sequence prog;
  ExpansionCheck check(graph, prog, {a}, hlo::schur(graph, a, false, true, prog, "schur"));
  const Bytes given = Parts(a, 1, [](std::vector<float>* x) {
    (*x)[4] = std::numeric_limits<float>::quiet_NaN();
    (*x)[9] = std::numeric_limits<float>::infinity();
  });
  for (const char* mode : {"fast", "tile", "expansions"})
    for (const Bytes& result : check.Run(mode, {given}))
      for (const Number& x : NumbersOf(result, DType::kF32)) CHECK(std::isnan(x.real()));
}

TEST(LargeMatricesAndDoublePrecisionAreRefused) {
  Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
  Sequence prog;
  CHECK_THROWS(poplar::poplar_error,
               hlo::schur(graph, Linear(graph, DType::kF32, {17, 17}), false, true, prog));
  hlo::schur(graph, Linear(graph, DType::kF64, {5, 5}), false, true, prog, "schur");
  CHECK(Refusal(graph, prog).find("f64") != std::string::npos);
}

}  // namespace
}  // namespace hlo::testing
