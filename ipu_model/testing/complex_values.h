// For tests: values of f32, f64, c64 and c128 as complex numbers.
#ifndef IPU_MODEL_TESTING_COMPLEX_VALUES_H_
#define IPU_MODEL_TESTING_COMPLEX_VALUES_H_

#include <complex>
#include <cstddef>
#include <cstring>
#include <vector>

#include "ipu_model/Types.hpp"

namespace ipu_model::toy {

// The bytes of real or complex values, and one more.
inline std::vector<unsigned char> Pack(DType type, const std::vector<std::complex<double>>& values) {
  std::vector<unsigned char> bytes(values.size() * SizeOf(type) + 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float f[2] = {static_cast<float>(values[i].real()), static_cast<float>(values[i].imag())};
    const double d[2] = {values[i].real(), values[i].imag()};
    const bool single = type == DType::kF32 || type == DType::kC64;
    std::memcpy(bytes.data() + i * SizeOf(type), single ? static_cast<const void*>(f) : d, SizeOf(type));
  }
  return bytes;
}

inline std::vector<std::complex<double>> Unpack(DType type, const std::vector<unsigned char>& bytes) {
  std::vector<std::complex<double>> values(bytes.size() / SizeOf(type));
  for (std::size_t i = 0; i < values.size(); ++i) {
    float f[2] = {};
    double d[2] = {};
    const bool single = type == DType::kF32 || type == DType::kC64;
    std::memcpy(single ? static_cast<void*>(f) : d, bytes.data() + i * SizeOf(type), SizeOf(type));
    values[i] = single ? std::complex<double>(f[0], f[1]) : std::complex<double>(d[0], d[1]);
  }
  return values;
}

}  // namespace ipu_model::toy

#endif  // IPU_MODEL_TESTING_COMPLEX_VALUES_H_
