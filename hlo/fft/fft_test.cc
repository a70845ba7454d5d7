// Fourier transforms: kernel and expansion have the same vertices and values.
#include "hlo/Fft.hpp"

#include <cmath>

#include "testing/codelet_cache.h"
#include "testing/expansion_check.h"
#include "testing/numbers.h"

namespace hlo::testing {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

const toy::SharedCodeletCache cache;

constexpr FftType kTypes[] = {FftType::kFft, FftType::kIfft, FftType::kRfft, FftType::kIrfft};

// Parts that differ by at most 4e-6 of the largest sum of the input, before the scale of an inverse.
ExpansionCheck::Equal CloseTo(double size) {
  return [size](DType type, const void* expected, const void* actual) {
    float a[2] = {}, b[2] = {};
    std::memcpy(a, expected, SizeOf(type));
    std::memcpy(b, actual, SizeOf(type));
    return std::abs(a[0] - b[0]) <= 4e-6 * size && std::abs(a[1] - b[1]) <= 4e-6 * size;
  };
}

// `shape`: of the complex or real numbers of which the last `rank` dimensions are transformed.
void CheckFft(FftType type, std::vector<std::size_t> shape, std::size_t rank, unsigned tiles) {
  const std::vector<std::size_t> lengths(shape.end() - static_cast<std::ptrdiff_t>(rank), shape.end());
  double elements = 1;
  for (const std::size_t n : lengths) elements *= static_cast<double>(n);
  Graph graph(poplar::Target::createIPUTarget(1, tiles, "ipu2"));
  if (type == FftType::kIrfft) shape.back() = shape.back() / 2 + 1;
  const Tensor operand = Linear(graph, type == FftType::kRfft ? DType::kF32 : DType::kC64, shape);
  Sequence prog;
  const Tensor out = hlo::fft(graph, operand, type, lengths, prog, "fft");
  ExpansionCheck check(graph, prog, {operand}, {out});
  check.SameVertices();
  const bool inverse = type == FftType::kIfft || type == FftType::kIrfft;
  check.SameValues({Parts(operand, 1)}, CloseTo(std::sqrt(elements) / (inverse ? elements : 1)));
}

TEST(EveryLength) {
  for (const FftType type : kTypes) {
    for (const std::size_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 30, 49, 64, 109, 218, 360, 1000, 1024})
      CheckFft(type, {3, n}, 1, 7);
  }
}

// Lengths with a large prime factor.
TEST(Convolutions) {
  for (const FftType type : kTypes) {
    for (const std::size_t n : {113, 226, 339, 1009}) CheckFft(type, {20, n}, 1, 2);
  }
}

TEST(SeveralDimensions) {
  for (const FftType type : kTypes) {
    for (const unsigned tiles : {2u, 30u}) {
      CheckFft(type, {4, 6}, 2, tiles);
      CheckFft(type, {3, 5, 7}, 2, tiles);
      CheckFft(type, {3, 4, 5}, 3, tiles);
      CheckFft(type, {2, 3, 1, 8}, 3, tiles);
      CheckFft(type, {6, 113, 10}, 2, tiles);
    }
  }
}

// More lines on a tile than workers.
TEST(ManyLines) {
  for (const FftType type : kTypes) {
    CheckFft(type, {41, 9}, 1, 2);
    CheckFft(type, {41, 16}, 1, 2);
    CheckFft(type, {40, 33}, 2, 2);
  }
}

TEST(DoublePrecisionIsRefused) {
  for (const FftType type : kTypes) {
    Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
    const DType dtype = type == FftType::kRfft ? DType::kF64 : DType::kC128;
    Sequence prog;
    hlo::fft(graph, Linear(graph, dtype, {3, 5}), type, {type == FftType::kIrfft ? std::size_t{8} : 5}, prog,
             "fft");
    CHECK(Refusal(graph, prog).find(NameOf(dtype)) != std::string::npos);
  }
}

}  // namespace
}  // namespace hlo::testing
