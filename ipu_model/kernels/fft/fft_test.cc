// Tests the error of Fourier transforms, and that results do not depend on lines or instruction sets.
#include "kernels/fft/fft.h"

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "check.h"
#include "kernels/fft/fft_loops.h"
#include "kernels/host/isa.h"

namespace ipu_model {
namespace {

template <typename T>
constexpr DType kReal = sizeof(T) == 4 ? DType::kF32 : DType::kF64;
template <typename T>
constexpr DType kComplex = sizeof(T) == 4 ? DType::kC64 : DType::kC128;

template <typename T>
std::vector<T> Normal(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<T> normal;
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& x : values) x = normal(random);
  return values;
}

HostTensor Lines(void* data, DType type, std::int64_t lines, std::int64_t length) {
  HostTensor t;
  t.data = data;
  t.type = type;
  t.rank = 2;
  t.shape[0] = lines;
  t.shape[1] = t.strides[0] = length;
  t.strides[1] = 1;
  return t;
}

// Transforms `lines` lines of real numbers or of (re, im) pairs.
template <typename T>
std::vector<T> Transformed(const std::vector<T>& in, std::int64_t lines, std::int64_t n, bool real,
                           bool inverse, double scale = 1) {
  const std::int64_t half = n / 2 + 1, full = real ? n : 2 * n, spectrum = real ? 2 * half : 2 * n;
  std::vector<T> from = in, to(static_cast<std::size_t>(lines * (inverse ? full : spectrum)));
  const HostTensor signal = Lines(inverse ? to.data() : from.data(), real ? kReal<T> : kComplex<T>, lines, n);
  const HostTensor other = Lines(inverse ? from.data() : to.data(), kComplex<T>, lines, real ? half : n);
  Scratch scratch;
  HostContext context{ThreadPool::Global(), scratch};
  FftPlan(kComplex<T>, n, real)
      .Run(context, inverse, scale, 1, inverse ? other : signal, inverse ? signal : other);
  return to;
}

const std::vector<std::int64_t> kLengths = {
    1,  2,  3,  4,  5,  6,   7,   8,   9,   11,  12,  13,  15,  16,  17,  18,  20,  24,  25,   29,   32,  33,
    36, 49, 64, 77, 97, 100, 109, 113, 121, 128, 210, 226, 243, 256, 289, 360, 510, 512, 1000, 1009, 1024};

// Checks the root mean square error relative to that of the values. The bound assumes rounding errors that
// add up at random in log2(n) steps.
template <typename T>
void CheckErrors() {
  for (const std::int64_t n : kLengths) {
    for (const bool real : {false, true}) {
      const std::vector<T> in = Normal<T>(real ? n : 2 * n, static_cast<unsigned>(n));
      const std::vector<T> got = Transformed(in, 1, n, real, false);
      long double error = 0, size = 0;
      for (std::int64_t k = 0; k < static_cast<std::int64_t>(got.size()) / 2; ++k) {
        std::complex<long double> exact = 0;
        for (std::int64_t t = 0; t < n; ++t) {
          const long double angle =
              -2 * std::acos(-1.0L) * static_cast<long double>(k * t % n) / static_cast<long double>(n);
          const std::size_t i = static_cast<std::size_t>(t);
          exact += std::polar(1.0L, angle) * (real ? std::complex<long double>(in[i])
                                                   : std::complex<long double>(in[2 * i], in[2 * i + 1]));
        }
        const std::size_t i = static_cast<std::size_t>(k);
        error += std::norm(std::complex<long double>(got[2 * i], got[2 * i + 1]) - exact);
        size += std::norm(exact);
      }
      // Bluestein's convolution uses several transforms.
      const bool convolved = n == 113 || n == 226 || n == 1009;
      const long double bound = static_cast<long double>(std::numeric_limits<T>::epsilon()) *
                                (2 + std::log2(static_cast<long double>(n))) / (convolved ? 2 : 4);
      CHECK(std::sqrt(error / size) <= bound);
    }
  }
}
TEST(ErrorsGrowWithTheSteps) {
  CheckErrors<float>();
  CheckErrors<double>();
}

// Elements that are real by symmetry have no imaginary part, and the inverse treats them as real.
TEST(RealElementsOfSpectra) {
  for (const std::int64_t n : kLengths) {
    const std::vector<float> in = Normal<float>(3 * n, 1);
    std::vector<float> spectrum = Transformed(in, 3, n, true, false);
    const std::int64_t half = n / 2 + 1;
    for (std::int64_t line = 0; line < 3; ++line) {
      float* const imaginary = spectrum.data() + line * 2 * half + 1;
      CHECK_EQ(imaginary[0], 0.0f);
      if (n % 2 == 0) CHECK_EQ(imaginary[n], 0.0f);
    }
    const std::vector<float> back = Transformed(spectrum, 3, n, true, true, 1 / static_cast<double>(n));
    for (std::size_t i = 0; i < in.size(); ++i) CHECK_NEAR(back[i], in[i], 2e-6);
    for (std::int64_t line = 0; line < 3; ++line) {
      float* const imaginary = spectrum.data() + line * 2 * half + 1;
      imaginary[0] = 5;
      if (n % 2 == 0) imaginary[n] = -3;
    }
    const std::vector<float> same = Transformed(spectrum, 3, n, true, true, 1 / static_cast<double>(n));
    for (std::size_t i = 0; i < in.size(); ++i) CHECK_NEAR(same[i], back[i], 2e-6);
  }
}

// A line on its own has the same bits as among other lines, in vectors.
TEST(LinesAreIndependent) {
  for (const std::int64_t n : kLengths) {
    for (const bool real : {false, true}) {
      for (const bool inverse : {false, true}) {
        const std::int64_t numbers = real ? (inverse ? 2 * (n / 2 + 1) : n) : 2 * n, lines = 21;
        const std::vector<float> in = Normal<float>(lines * numbers, 2);
        const std::vector<float> all = Transformed(in, lines, n, real, inverse);
        const std::int64_t each = static_cast<std::int64_t>(all.size()) / lines;
        for (const std::int64_t line : {std::int64_t{0}, std::int64_t{15}, lines - 1}) {
          const std::vector<float> one(in.begin() + line * numbers, in.begin() + (line + 1) * numbers);
          const std::vector<float> expected(all.begin() + line * each, all.begin() + (line + 1) * each);
          CHECK(Transformed(one, 1, n, real, inverse) == expected);
        }
      }
    }
  }
}

// Lines along the first dimension, which lie beside each other in memory, have the same bits as rows.
template <typename T>
void CheckColumns() {
  for (const std::int64_t n : {1, 6, 16, 33, 113, 256}) {
    for (const std::int64_t lines : {1, 4, 16, 21, 40}) {
      const std::vector<T> rows = Normal<T>(lines * 2 * n, 3);
      std::vector<T> columns(rows.size()), out(rows.size());
      const auto move = [&](const std::vector<T>& from, std::vector<T>& to, std::int64_t outer) {
        const std::int64_t inner = lines * n / outer;
        for (std::int64_t i = 0; i < lines * n; ++i) {
          const std::size_t at = static_cast<std::size_t>(i % inner * outer + i / inner) * 2;
          to[at] = from[static_cast<std::size_t>(2 * i)];
          to[at + 1] = from[static_cast<std::size_t>(2 * i + 1)];
        }
      };
      move(rows, columns, lines);
      Scratch scratch;
      HostContext context{ThreadPool::Global(), scratch};
      FftPlan(kComplex<T>, n, false)
          .Run(context, true, 0.5, 0, Lines(columns.data(), kComplex<T>, n, lines),
               Lines(out.data(), kComplex<T>, n, lines));
      std::vector<T> got(rows.size());
      move(out, got, n);
      CHECK(got == Transformed(rows, lines, n, false, true, 0.5));
    }
  }
}
TEST(ColumnsAreLines) {
  CheckColumns<float>();
  CheckColumns<double>();
}

template <typename T>
void CheckInstructionSetsAgree() {
  for (const std::int64_t p : {2, 3, 4, 5, 7, 8, 11, 13, 29}) {
    const std::int64_t m = p == 2 || p == 4 ? 6 : 5, s = 19, n = p * m, count = n * s;
    const std::vector<T> re = Normal<T>(count, 1), im = Normal<T>(count, 2);
    std::vector<T> roots_re, roots_im;
    for (std::int64_t t = 0; t < n; ++t) {
      const double angle = -2 * std::acos(-1.0) * static_cast<double>(t) / static_cast<double>(n);
      roots_re.push_back(static_cast<T>(std::cos(angle)));
      roots_im.push_back(static_cast<T>(std::sin(angle)));
    }
    const FftRoots<T> roots{roots_re.data(), roots_im.data(), n, 1};
    std::vector<T> narrow[4], wide[4];
    for (int i = 0; i < 4; ++i) narrow[i] = wide[i] = std::vector<T>(re.size());
    const auto stage = [&](std::vector<T>* to) {
      return FftStage<T>{p, m, s, roots, re.data(), im.data(), to[0].data(), to[1].data()};
    };
    avx2::RunStage(stage(narrow));
    avx512::RunStage(stage(wide));
    const auto real_stage = [&](std::vector<T>& to) {
      return RealFftStage<T>{p, m, s, roots, re.data(), to.data()};
    };
    if (p != 8) {
      avx2::RunJoin(real_stage(narrow[2]));
      avx512::RunJoin(real_stage(wide[2]));
      avx2::RunSplit(real_stage(narrow[3]));
      avx512::RunSplit(real_stage(wide[3]));
    }
    for (int i = 0; i < 4; ++i) CHECK(narrow[i] == wide[i]);
  }
}
TEST(InstructionSetsAgree) {
  if (!HasAvx512()) return;
  CheckInstructionSetsAgree<float>();
  CheckInstructionSetsAgree<double>();
}

}  // namespace
}  // namespace ipu_model
