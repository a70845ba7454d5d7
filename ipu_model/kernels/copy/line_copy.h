// Copies of lines of elements that memmove cannot make.
#ifndef IPU_MODEL_KERNELS_COPY_LINE_COPY_H_
#define IPU_MODEL_KERNELS_COPY_LINE_COPY_H_

#include <cstddef>
#include <cstdint>

#include "kernels/host/isa.h"

namespace ipu_model {

// Strides are in elements.
struct LineCopies {
  // The most lines that are woven into one, or picked out of one.
  static constexpr std::int64_t kMostWoven = 4;
  // to[i] = from[-i] for i < n.
  void (*reversed)(const void* from, void* to, std::int64_t n);
  // to[i * times + j] = from[i * step] for i < n and j < times.
  void (*repeated)(const void* from, std::int64_t step, void* to, std::int64_t n, std::int64_t times);
  // to[i * lines + l] = from[l * stride + i] for i < n and l < lines <= kMostWoven.
  void (*woven)(const void* from, std::int64_t stride, std::int64_t lines, void* to, std::int64_t n);
  // to[i * lines + l] = from[l][i] for i < n and l < lines <= kMostWoven.
  void (*joined)(const void* const* from, std::int64_t lines, void* to, std::int64_t n);
  // to[i] = from[i * step] for i < n, step > 0.
  void (*picked)(const void* from, std::int64_t step, void* to, std::int64_t n);
  // The most elements of a tile, and the first place that is too far away.
  static constexpr std::int64_t kLargestTile = 64, kTileReach = 16;
  // to[i * count + j] = from[i * step + place[j]] for i < n and j < count <= kLargestTile.
  void (*tiled)(const void* from, std::int64_t step, const std::uint8_t* place, std::int64_t count, void* to,
                std::int64_t n);
};

// Lines of n segments of `bytes` <= kLongestSegment bytes. The segments of a line are `step` bytes apart in
// the source and follow each other in the result.
constexpr std::int64_t kLongestSegment = 64;
struct SegmentLines {
  std::int64_t step, bytes, n;
  std::int64_t lines = 1, from_step = 0, to_step = 0;  // of lines, in bytes
};
namespace avx2 {
void CopySegments(const void* from, const SegmentLines& lines, void* to);
void SpreadSegments(const void* from, std::int64_t step, std::int64_t bytes, void* to, std::int64_t to_step,
                    std::int64_t n);
}  // namespace avx2
namespace avx512 {
void CopySegments(const void* from, const SegmentLines& lines, void* to);
void SpreadSegments(const void* from, std::int64_t step, std::int64_t bytes, void* to, std::int64_t to_step,
                    std::int64_t n);
}  // namespace avx512
inline void CopySegments(const void* from, const SegmentLines& lines, void* to) {
  JAX_IPU_FOR_ISA(CopySegments)(from, lines, to);
}
// Copies n segments of 1 to kLongestSegment bytes that are `step` bytes apart in the source and `to_step`
// bytes in the result, where nothing else is written.
inline void SpreadSegments(const void* from, std::int64_t step, std::int64_t bytes, void* to,
                           std::int64_t to_step, std::int64_t n) {
  JAX_IPU_FOR_ISA(SpreadSegments)(from, step, bytes, to, to_step, n);
}

namespace avx2 {
LineCopies FindLineCopies(std::size_t size);  // element size: 1, 2, 4, 8 or 16 bytes
}
namespace avx512 {
LineCopies FindLineCopies(std::size_t size);
}
inline LineCopies FindLineCopies(std::size_t size) { return JAX_IPU_FOR_ISA(FindLineCopies(size)); }

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_COPY_LINE_COPY_H_
