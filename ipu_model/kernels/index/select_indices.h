// Selects the indices in a range, for threads that divide the destinations of a scatter.
#ifndef IPU_MODEL_KERNELS_INDEX_SELECT_INDICES_H_
#define IPU_MODEL_KERNELS_INDEX_SELECT_INDICES_H_

#include <cstdint>

namespace ipu_model {

// SelectIndices may overwrite this many elements behind the end of `positions` and `values`.
constexpr std::int64_t kSelectSlack = 16;

// With v = index[i] + (index[i] < 0 ? wrap : 0): writes i and v for all i < n with first <= v < end, in
// order. Returns their number.
namespace avx2 {
std::int64_t SelectIndices(const std::int32_t* index, std::int64_t n, std::int32_t wrap, std::int32_t first,
                           std::int32_t end, std::int32_t* positions, std::int32_t* values);
}
namespace avx512 {
std::int64_t SelectIndices(const std::int32_t* index, std::int64_t n, std::int32_t wrap, std::int32_t first,
                           std::int32_t end, std::int32_t* positions, std::int32_t* values);
}

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_INDEX_SELECT_INDICES_H_
