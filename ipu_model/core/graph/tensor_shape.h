// What the methods of tensors share: comparing shapes, and errors.
#ifndef IPU_MODEL_CORE_GRAPH_TENSOR_SHAPE_H_
#define IPU_MODEL_CORE_GRAPH_TENSOR_SHAPE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
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

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_GRAPH_TENSOR_SHAPE_H_
