// For tests: scalar operations as rows, and operands of any type.
#ifndef HLO_TESTING_SCALAR_OPERATIONS_H_
#define HLO_TESTING_SCALAR_OPERATIONS_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>

#include "hlo/Elementwise.hpp"
#include "testing/expansion_check.h"

namespace hlo::testing {

inline constexpr DType kSame = DType::kCount, kP = DType::kPred;
struct OperationRow {
  ScalarOp op;
  DType result;  // kSame: the operands' type
  std::uint32_t immediate = 0;
};

// Random bits, numbers near 1, and special values.
inline Bytes RandomElements(DType type, std::size_t n, unsigned seed, bool moderate) {
  std::mt19937_64 random(seed);
  Bytes bytes(n * SizeOf(type));
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t word = random();
    if (type == DType::kPred) word &= 1;
    const bool real = IsFloat(type) && SizeOf(type) > 1;
    if (type == DType::kF64) {
      // Numbers of like size, whose sums cancel, with short and long fractions; infinities, zeros, NaN.
      const double special[] = {0.0,   -0.0,    INFINITY, -INFINITY, NAN,
                                1e308, -1e-308, 0.5,      -2.5,      4503599627370497.5};
      const std::uint64_t kind = random() % 8;
      const double x = kind == 0 ? special[random() % 10]
                                 : std::ldexp(std::normal_distribution<double>(0, 2)(random),
                                              kind < 5 ? static_cast<int>(random() % 9) - 4
                                                       : static_cast<int>(random() % 120) - 60);
      std::memcpy(&word, &x, sizeof(word));
      if (kind == 1) word &= ~std::uint64_t{0} << 40;
      std::memcpy(bytes.data() + i * SizeOf(type), &word, SizeOf(type));
      continue;
    }
    if (real && (moderate || i % 3 == 0)) {
      const float x = std::normal_distribution<float>(0, 2)(random);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &x, sizeof(bits));
      // The nearest number of the narrow types, by truncation.
      const std::uint32_t half =
          (bits >> 16 & 0x8000) |
          ((bits & 0x7fffffff) < 0x38800000 ? 0x2c00 : ((bits & 0x7fffffff) - 0x38000000) >> 13);
      word = type == DType::kF32 ? bits : type == DType::kBF16 ? bits >> 16 : half;
    } else if (!real && i % 4 == 0) {
      word =
          i % 8 == 0 ? random() % 5 : ~std::uint64_t{0} - random() % 3;  // also as divisors and shift counts
      if (type == DType::kPred) word &= 1;
    }
    if (type == DType::kF4E2M1FN) word &= 15;
    if (type == DType::kF8E8M0FNU) word |= 1;  // not its smallest number, a denormal of f32
    std::memcpy(bytes.data() + i * SizeOf(type), &word, SizeOf(type));
  }
  return bytes;
}

}  // namespace hlo::testing

#endif  // HLO_TESTING_SCALAR_OPERATIONS_H_
