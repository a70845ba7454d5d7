// For tests: random numbers of f32 and c64, and their comparison.
#ifndef HLO_TESTING_NUMBERS_H_
#define HLO_TESTING_NUMBERS_H_

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "testing/expansion_check.h"

namespace hlo::testing {

// Numbers between -1 and 1, changed by `change`.
inline Bytes Parts(const poplar::Tensor& t, unsigned seed,
                   const std::function<void(std::vector<float>*)>& change = {}) {
  std::mt19937 random(seed);
  std::vector<float> values(t.numElements() * (t.elementType().id() == DType::kC64 ? 2 : 1));
  for (float& x : values) x = static_cast<float>(random() % 2048) / 1024 - 1;
  if (change) change(&values);
  Bytes bytes(values.size() * sizeof(float));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Integers are equal; parts of numbers differ by at most 1e-4 of the number, or of 1e-2 if it is smaller.
inline bool Close(DType type, const void* expected, const void* actual) {
  if (type != DType::kF32 && type != DType::kC64) return SameBits(type, expected, actual);
  float a[2] = {}, b[2] = {};
  std::memcpy(a, expected, SizeOf(type));
  std::memcpy(b, actual, SizeOf(type));
  // An infinite part does not excuse the other.
  const float length = std::hypot(a[0], a[1]),
              size = length < 1e-2f || !std::isfinite(length) ? 1e-2f : length;
  for (int i = 0; i < 2; ++i) {
    if (std::isnan(a[i]) || std::isnan(b[i])) {
      if (std::isnan(a[i]) != std::isnan(b[i])) return false;
    } else if (a[i] != b[i] && !(std::abs(a[i] - b[i]) <= 1e-4f * size)) {
      return false;
    }
  }
  return true;
}

}  // namespace hlo::testing

#endif  // HLO_TESTING_NUMBERS_H_
