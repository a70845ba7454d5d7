// Compares Fourier transforms with the definition, whole and vertex by vertex.
#include "hlo/Fft.hpp"

#include <cmath>
#include <complex>
#include <random>

#include "testing/complex_values.h"
#include "testing/plan_runner.h"

namespace ipu_model {
namespace {

using hlo::FftType;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;
using toy::Pack;
using toy::Unpack;
using Z = std::complex<double>;

std::size_t Product(const std::vector<std::size_t>& shape) {
  std::size_t n = 1;
  for (const std::size_t d : shape) n *= d;
  return n;
}

// Returns the unscaled transform along dimension `dim`, by its definition.
std::vector<Z> Definition(const std::vector<Z>& in, const std::vector<std::size_t>& shape, std::size_t dim,
                          bool inverse) {
  const std::size_t n = shape[dim];
  std::size_t inner = 1;
  for (std::size_t d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  std::vector<Z> out(in.size()), roots(n);
  for (std::size_t t = 0; t < n; ++t) {
    const double angle = 2 * std::acos(-1.0) * static_cast<double>(t) / static_cast<double>(n);
    roots[t] = std::polar(1.0, inverse ? angle : -angle);
  }
  for (std::size_t e = 0; e < in.size(); ++e) {
    const std::size_t k = e / inner % n, base = e - k * inner;
    Z sum = 0;
    for (std::size_t t = 0; t < n; ++t) sum += in[base + t * inner] * roots[k * t % n];
    out[e] = sum;
  }
  return out;
}

// Keeps the first `count` elements of the last dimension.
std::vector<Z> Head(const std::vector<Z>& in, std::size_t length, std::size_t count) {
  std::vector<Z> out;
  for (std::size_t e = 0; e < in.size(); ++e) {
    if (e % length < count) out.push_back(in[e]);
  }
  return out;
}

// `shape` is the shape of the signal (before rfft, after irfft).
void CheckFft(FftType type, bool single, const std::vector<std::size_t>& shape, std::size_t rank,
              bool transposed = false) {
  std::mt19937 random(static_cast<unsigned>(Product(shape)));
  std::normal_distribution<double> normal;
  const DType complex = single ? DType::kC64 : DType::kC128, real = single ? DType::kF32 : DType::kF64;
  const std::size_t last = shape.back(), half = last / 2 + 1;
  std::vector<Z> signal(Product(shape)), spectrum;
  for (Z& v : signal)
    v = type == FftType::kRfft || type == FftType::kIrfft ? Z(normal(random), 0)
                                                          : Z(normal(random), normal(random));
  spectrum = signal;
  double scale = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t dim = shape.size() - 1 - i;
    spectrum = Definition(spectrum, shape, dim, type == FftType::kIfft);
    if (type == FftType::kIfft) scale /= static_cast<double>(shape[dim]);
  }
  for (Z& v : spectrum) v *= scale;
  std::vector<Z> in = signal, expected = spectrum;
  std::vector<std::size_t> in_shape = shape;
  if (type == FftType::kRfft) expected = Head(spectrum, last, half);
  if (type == FftType::kIrfft) {
    in = Head(spectrum, last, half);
    expected = signal;
    in_shape.back() = half;
  }
  const DType in_type = type == FftType::kRfft ? real : complex,
              out_type = type == FftType::kIrfft ? real : complex;
  Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
  std::vector<std::size_t> stored = in_shape;
  if (transposed) std::swap(stored.front(), stored.back());
  Tensor variable = graph.addVariable(poplar::Type(in_type), stored, "signal");
  poputil::mapTensorLinearly(graph, variable);
  const Tensor operand = transposed ? variable.dimShuffle(stored.size() == 2 ? std::vector<unsigned>{1, 0}
                                                                             : std::vector<unsigned>{2, 1, 0})
                                    : variable;
  Sequence prog;
  const Tensor out = hlo::fft(graph, operand, type,
                              {shape.end() - static_cast<std::ptrdiff_t>(rank), shape.end()}, prog, "fft");
  double size = 0;
  for (const Z& v : expected) size = std::max(size, std::abs(v));
  for (const bool whole : {true, false}) {
    PlanRunner runner(graph, 0);
    runner.Store(operand, Pack(in_type, in).data());
    whole ? runner.RunWhole(prog) : runner.RunVertices(prog);
    const std::vector<Z> got = Unpack(out_type, runner.Load(out));
    CHECK_EQ(got.size(), expected.size());
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double error = std::abs(got[i] - expected[i]);
      worst = error <= worst ? worst : error;
    }
    CHECK_NEAR(worst / std::max(size, 1.0), 0, single ? 2e-6 : 1e-14);
  }
}

constexpr FftType kTypes[] = {FftType::kFft, FftType::kIfft, FftType::kRfft, FftType::kIrfft};

TEST(EveryLength) {
  for (const FftType type : kTypes) {
    for (std::size_t n = 1; n <= 40; ++n) CheckFft(type, n % 2 != 0, {3, n}, 1);
    for (const std::size_t n : {49, 64, 97, 101, 121, 169, 187, 210, 256, 360, 1000, 1009, 1024}) {
      CheckFft(type, true, {2, n}, 1);
      CheckFft(type, false, {2, n}, 1);
    }
  }
}

TEST(SeveralDimensions) {
  for (const FftType type : kTypes) {
    for (const bool single : {true, false}) {
      CheckFft(type, single, {4, 6}, 2);
      CheckFft(type, single, {3, 5, 7}, 2);
      CheckFft(type, single, {3, 4, 5}, 3);
      CheckFft(type, single, {2, 3, 1, 8}, 3);
      CheckFft(type, single, {6, 10}, 2, true);
      CheckFft(type, single, {3, 8, 9}, 2, true);
    }
  }
}

TEST(ManyLinesUseAllThreads) {
  CheckFft(FftType::kFft, true, {301, 64}, 1);
  CheckFft(FftType::kRfft, true, {130, 150}, 2);
  CheckFft(FftType::kIrfft, false, {130, 150}, 2);
}

std::uint64_t Cycles(FftType type, std::size_t n) {
  Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
  const DType in = type == FftType::kRfft ? DType::kF32 : DType::kC64;
  Tensor signal = graph.addVariable(poplar::Type(in), {7, n}, "signal");
  poputil::mapTensorLinearly(graph, signal);
  Sequence prog;
  hlo::fft(graph, signal, type, {n}, prog);
  PlanRunner runner(graph, 0);
  runner.RunVertices(prog);
  return runner.cycles();
}

TEST(CyclesFollowTheWork) {
  const double whole = static_cast<double>(Cycles(FftType::kFft, 8192));
  CHECK_NEAR(static_cast<double>(Cycles(FftType::kRfft, 8192)) / whole, 0.5, 0.02);
  // A prime length: two transforms of the smallest power of two above twice the length, plus the chirp
  // products.
  CHECK_NEAR(static_cast<double>(Cycles(FftType::kFft, 4093)) / whole, 2.2, 0.1);
}

TEST(EmptyAndWrongShapes) {
  Graph graph(poplar::Target::createIPUTarget(1, 2, "ipu2"));
  const Tensor none = graph.addVariable(poplar::Type(DType::kC64), {0, 4}, "none");
  const Tensor some = graph.addVariable(poplar::Type(DType::kC64), {3, 4}, "some");
  Sequence prog, refused;
  const Tensor out = hlo::fft(graph, none, FftType::kFft, {4}, prog);
  CHECK_EQ(out.numElements(), std::size_t{0});
  PlanRunner runner(graph, 0);
  runner.RunWhole(prog);
  runner.RunVertices(prog);
  CHECK_THROWS(std::exception, hlo::fft(graph, some, FftType::kRfft, {4}, refused));
  CHECK_THROWS(std::exception, hlo::fft(graph, some, FftType::kFft, {5}, refused));
  CHECK_THROWS(std::exception, hlo::fft(graph, some, FftType::kIrfft, {4}, refused));
}

}  // namespace
}  // namespace ipu_model
