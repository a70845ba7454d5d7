// Copies of few elements in a fixed order. The order is planned once, as permutations of vectors, so that a
// copy takes neither loops over its dimensions nor an access for each element.
#ifndef IPU_MODEL_KERNELS_COPY_PERMUTED_COPY_H_
#define IPU_MODEL_KERNELS_COPY_PERMUTED_COPY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ipu_model {

struct PermutedCopy {
  static constexpr int kLanes = 16;
  // Lane i of the result is lane `lane[i]` of two vectors that lie one after the other in memory. Only the
  // lanes of the masks are read and written.
  struct Step {
    std::int32_t from = 0, to = 0;  // in bytes
    std::uint16_t first = 0, second = 0, result = 0;
    std::uint8_t lane[kLanes] = {};
  };

  std::size_t size = 4;        // bytes of a lane: 1, 2 or 4
  std::vector<Step> steps;     // those that read the first vector only come first
  std::size_t num_single = 0;  // how many of them there are
};

// Plans the copy of a box of elements of `size` bytes (1, 2, 4, 8 or 16), with strides in bytes. The
// destination's elements must be distinct, and no element may be read after it was written. Returns nothing
// if loops over the dimensions are as good.
std::optional<PermutedCopy> PlanPermutedCopy(int rank, const std::int64_t* shape, const std::int64_t* src,
                                             const std::int64_t* dst, std::size_t size);

namespace avx2 {
void RunPermutedCopy(const PermutedCopy& copy, const void* src, void* dst);
}
namespace avx512 {
void RunPermutedCopy(const PermutedCopy& copy, const void* src, void* dst);
}

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_COPY_PERMUTED_COPY_H_
