#include "kernels/host/half_rounding.h"

#include <array>
#include <cmath>
#include <cstring>

namespace ipu_model {

std::atomic<bool> rounds_stochastically{false};
namespace {

// Generators: one of the process, and one for each tile. A generator is a counter, of which a hash is taken.
constexpr unsigned kTiles = 2048;
struct Generators {
  std::atomic<std::uint64_t> seed{0};
  std::array<std::atomic<std::uint64_t>, kTiles + 1> draws{};
};
Generators& GetGenerators() {
  static Generators generators;
  return generators;
}
thread_local unsigned current = kTiles;

// The mixing function of SplitMix64 (Steele, Lea and Flood 2014).
std::uint64_t Mixed(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// `random` is uniform over 32 bits.
float Rounded(float x, std::uint32_t random) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x7f800000u) return x;
  if (magnitude >= 0x38800000u) {
    // Normal in f16: 13 bits of the mantissa go.
    bits = (bits + (random & 0x1fffu)) & ~0x1fffu;
    std::memcpy(&x, &bits, sizeof(bits));
    return std::fabs(x) > 65504.0f ? std::copysign(INFINITY, x) : x;
  }
  // Multiples of 2^-24. The sum is exact: the quotient is below 1024.
  const double steps = std::floor(std::ldexp(std::fabs(static_cast<double>(x)), 24) + random * 0x1p-32);
  return std::copysign(static_cast<float>(std::ldexp(steps, -24)), x);
}

}  // namespace

void SetStochasticRounding(bool enabled, std::uint64_t seed) {
  Generators& generators = GetGenerators();
  generators.seed = seed;
  for (auto& draws : generators.draws) draws = 0;
  rounds_stochastically = enabled;
}

void RoundStochastically(const float* from, float* to, std::int64_t n) {
  Generators& generators = GetGenerators();
  constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15u;
  const std::uint64_t key = Mixed(generators.seed + (current + std::uint64_t{1}) * kStep);
  const std::uint64_t first = generators.draws[current].fetch_add(static_cast<std::uint64_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint64_t number = first + static_cast<std::uint64_t>(i);
    to[i] = Rounded(from[i], static_cast<std::uint32_t>(Mixed(key + number * kStep) >> 32));
  }
}

float RoundStochastically(float x) {
  RoundStochastically(&x, &x, 1);
  return x;
}

TileGenerator::TileGenerator(unsigned tile) : saved_(current) { current = tile % kTiles; }
TileGenerator::~TileGenerator() { current = saved_; }

}  // namespace ipu_model
