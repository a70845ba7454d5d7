// Compares complex products with the sum written out, and both instruction sets with each other.
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>

#include "check.h"
#include "kernels/product/gemm.h"
#include "kernels/product/gemm_problem.h"
#include "testing/stacks.h"

namespace ipu_model {
namespace {

using toy::At;
using toy::Context;
using toy::FillWhole;
using toy::kLayouts;
using toy::Layout;
using toy::MakeStack;
using toy::Random;
using toy::RunGemm;
using toy::Stack;

template <typename Real>
void CheckComplex(DType type, std::int64_t rows, std::int64_t terms, std::int64_t columns) {
  using Complex = std::complex<Real>;
  for (const Layout layout : kLayouts) {
    Stack a = MakeStack(type, 2, rows, terms, layout), b = MakeStack(type, 2, terms, columns, layout);
    Stack c = MakeStack(type, 2, rows, columns, layout);
    std::uniform_int_distribution<int> pick(-4, 4);
    const auto fill = [&](const HostTensor& t) {
      for (std::int64_t i = 0; i < t.num_elements(); ++i) {
        const std::int64_t n = t.shape[2], m = t.shape[1];
        At<Complex>(t, i / n / m, i / n % m, i % n) =
            Complex(static_cast<Real>(pick(Random())), static_cast<Real>(pick(Random())));
      }
    };
    fill(a.tensor);
    fill(b.tensor);
    RunGemm(a.tensor, b.tensor, c.tensor);
    for (std::int64_t i = 0; i < c.tensor.num_elements(); ++i) {
      const std::int64_t g = i / columns / rows, m = i / columns % rows, n = i % columns;
      Complex sum = 0;
      for (std::int64_t k = 0; k < terms; ++k)
        sum += At<Complex>(a.tensor, g, m, k) * At<Complex>(b.tensor, g, k, n);
      CHECK(At<Complex>(c.tensor, g, m, n) == sum);
    }
  }
}
TEST(Complex) {
  for (const std::int64_t terms : {1, 3, 8, 9, 33}) {
    CheckComplex<float>(DType::kC64, 21, terms, 18);
    CheckComplex<float>(DType::kC64, 21, terms, 2);
    CheckComplex<double>(DType::kC128, 1, terms, 37);
    CheckComplex<double>(DType::kC128, 30, terms, 1);
  }
}

// Few terms that nearly cancel: re re - im im and re im + im re of sums of rounded products. Both instruction
// sets and the transposed product give the same bits, which are close to the exact value.
template <typename Real>
void CheckCancellingComplex(DType type) {
  using Complex = std::complex<Real>;
  const std::int64_t m = 40, n = 21;
  std::normal_distribution<Real> normal;
  for (const std::int64_t k : {1, 2, 3, 8}) {
    Stack a = MakeStack(type, 1, m, k, Layout::kRowMajor), b = MakeStack(type, 1, k, n, Layout::kRowMajor);
    Stack narrow = MakeStack(type, 1, m, n, Layout::kRowMajor), wide = narrow;
    wide.tensor.data = wide.bytes.data();
    for (Complex* x = a.tensor.as<Complex>(); x != a.tensor.as<Complex>() + m * k; ++x)
      *x = {normal(Random()), normal(Random())};
    for (Complex* x = b.tensor.as<Complex>(); x != b.tensor.as<Complex>() + k * n; ++x)
      *x = {normal(Random()), normal(Random())};
    // In the first column, the last term cancels the sum of the others.
    for (std::int64_t row = 0; row < m; ++row) {
      Complex sum = 0;
      for (std::int64_t i = 0; i + 1 < k; ++i)
        sum += At<Complex>(a.tensor, 0, row, i) * At<Complex>(b.tensor, 0, i, 0);
      if (k > 1) At<Complex>(a.tensor, 0, row, k - 1) = -sum / At<Complex>(b.tensor, 0, k - 1, 0);
    }
    GemmProblem p;
    p.m = m, p.n = n, p.k = k;
    p.accumulator = type;
    p.a = {a.tensor.data, type, 0, k, 1};
    p.b = {b.tensor.data, type, 0, n, 1};
    p.c = {narrow.tensor.data, type, 0, n, 1};
    Context().scratch.Reset();
    avx2::RunShortComplex(Context(), p);
    RunGemm(a.tensor, b.tensor, wide.tensor);
    CHECK(narrow.bytes == wide.bytes);
    Stack flipped = MakeStack(type, 1, n, m, Layout::kRowMajor);
    const auto transpose = [](HostTensor t) {
      std::swap(t.shape[1], t.shape[2]);
      std::swap(t.strides[1], t.strides[2]);
      return t;
    };
    RunGemm(transpose(b.tensor), transpose(a.tensor), flipped.tensor);
    for (std::int64_t i = 0; i < m * n; ++i) {
      volatile Real sums[4] = {};  // volatile, so that products are rounded whatever the compiler's options
      long double exact[2] = {}, size[2] = {};
      for (std::int64_t j = 0; j < k; ++j) {
        const Complex x = At<Complex>(a.tensor, 0, i / n, j), y = At<Complex>(b.tensor, 0, j, i % n);
        const Real parts[2][2] = {{x.real(), x.imag()}, {y.real(), y.imag()}};
        for (int part = 0; part < 4; ++part) {
          const int left = part / 2, right = part % 2;
          volatile const Real product = parts[0][left] * parts[1][right];
          sums[part] = sums[part] + product;
          const long double term = static_cast<long double>(parts[0][left]) * parts[1][right];
          exact[left ^ right] += left + right == 2 ? -term : term;
          size[left ^ right] += std::abs(term);
        }
      }
      const Complex got = At<Complex>(wide.tensor, 0, i / n, i % n);
      CHECK(got == Complex(sums[0] - sums[3], sums[1] + sums[2]));
      CHECK(got == At<Complex>(flipped.tensor, 0, i % n, i / n));
      // Every product passes through k + 1 roundings.
      const long double bound = static_cast<long double>(k + 1) * std::numeric_limits<Real>::epsilon() / 2;
      CHECK(std::abs(got.real() - exact[0]) <= bound * size[0]);
      CHECK(std::abs(got.imag() - exact[1]) <= bound * size[1]);
    }
  }
}
TEST(ShortComplexSumsOfRoundedProducts) {
  CheckCancellingComplex<float>(DType::kC64);
  CheckCancellingComplex<double>(DType::kC128);
}

TEST(ComplexTimesReal) {
  Stack a = MakeStack(DType::kF32, 1, 3, 2, Layout::kRowMajor),
        b = MakeStack(DType::kC64, 1, 2, 2, Layout::kRowMajor);
  Stack c = MakeStack(DType::kC64, 1, 3, 2, Layout::kRowMajor);
  FillWhole(a.tensor, 2, 2);
  for (std::int64_t i = 0; i < 4; ++i) b.tensor.as<std::complex<float>>()[i] = {1.0f, static_cast<float>(i)};
  RunGemm(a.tensor, b.tensor, c.tensor);
  CHECK((c.tensor.as<std::complex<float>>()[0] == std::complex<float>(4, 4)));  // 2 (1) + 2 (1 + 2i)
  CHECK((c.tensor.as<std::complex<float>>()[5] == std::complex<float>(4, 8)));  // 2 (1 + i) + 2 (1 + 3i)
}

}  // namespace
}  // namespace ipu_model
