// What the methods of tensors share: comparing shapes, and errors.
#ifndef IPU_MODEL_CORE_GRAPH_TENSOR_SHAPE_H_
#define IPU_MODEL_CORE_GRAPH_TENSOR_SHAPE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/mapping/box.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {

inline bool SameShape(const std::vector<std::size_t>& a, const Shape& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](std::size_t x, std::int64_t y) { return x == static_cast<std::size_t>(y); });
}

[[noreturn]] inline void Fail(const std::string& message) { throw poplar::poplar_error(message); }
[[noreturn]] inline void FailIndex(const std::string& message) { throw poplar::index_error(message); }

// The shape of a tensor that `method` would make; throws overflow_error for more elements than 63 bits can
// count.
inline Shape CheckedShape(const char* method, const std::vector<std::size_t>& shape) {
  constexpr auto kLimit = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  std::size_t n = 1;
  std::string text;
  bool fits = true;
  for (const std::size_t d : shape) {
    fits = fits && d <= kLimit && (d == 0 || n <= kLimit / d);
    n *= d;
  }
  if (fits) return Shape(shape.begin(), shape.end());
  for (const std::size_t d : shape) text += (text.empty() ? "" : ",") + std::to_string(d);
  throw poplar::overflow_error(std::string(method) + ": a tensor of shape [" + text + "] is too large");
}

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_GRAPH_TENSOR_SHAPE_H_
