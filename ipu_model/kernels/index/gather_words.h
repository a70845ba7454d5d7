// Picks single elements.
#ifndef IPU_MODEL_KERNELS_INDEX_GATHER_WORDS_H_
#define IPU_MODEL_KERNELS_INDEX_GATHER_WORDS_H_

#include <cstddef>
#include <cstdint>

namespace ipu_model {

// The source of element i is clamp(index[i] + (index[i] < 0 ? wrap : 0), 0, limit) * stride. `wrap`, `limit`
// and limit * |stride| fit into 32 bits. If `is_unsigned`, the indices have no sign.
struct WordPicks {
  const std::int32_t* index;
  std::int32_t wrap, limit, stride;
  bool is_unsigned = false;
};

// out[i] = from[source of i] for i < n, for elements of `size` bytes: 1, 2, 4 or 8.
namespace avx2 {
void PickWords(const WordPicks& picks, std::int64_t n, std::size_t size, const void* from, void* out);
}
namespace avx512 {
void PickWords(const WordPicks& picks, std::int64_t n, std::size_t size, const void* from, void* out);
}

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_INDEX_GATHER_WORDS_H_
