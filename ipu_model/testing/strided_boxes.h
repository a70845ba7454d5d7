// Strided copies for tests, and a reference for them.
#ifndef IPU_MODEL_TESTING_STRIDED_BOXES_H_
#define IPU_MODEL_TESTING_STRIDED_BOXES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace ipu_model::toy {

// Strides in elements.
struct StridedBox {
  std::vector<std::int64_t> shape, src, dst;
  std::int64_t first = 0;  // the element of the source at index 0
};

// Copies element by element, from dimension `d` of the box on.
inline void CopyElements(const StridedBox& box, std::size_t d, const unsigned char* src, unsigned char* dst,
                         std::int64_t size) {
  if (d == box.shape.size()) {
    std::memcpy(dst, src, static_cast<std::size_t>(size));
    return;
  }
  for (std::int64_t i = 0; i < box.shape[d]; ++i)
    CopyElements(box, d + 1, src + i * box.src[d] * size, dst + i * box.dst[d] * size, size);
}

}  // namespace ipu_model::toy

#endif  // IPU_MODEL_TESTING_STRIDED_BOXES_H_
