#include <algorithm>

#include "kernels/copy/line_copy.h"
#include "kernels/vector/vector_types.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

struct Bytes16 {
  std::uint64_t low, high;
};

template <typename T>
void Reversed(const void* from, void* to, std::int64_t n) {
  const T* s = static_cast<const T*>(from);
  T* d = static_cast<T*>(to);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) d[i] = s[-i];
}

template <typename T>
void Repeated(const void* from, std::int64_t step, void* to, std::int64_t n, std::int64_t times) {
  const T* s = static_cast<const T*>(from);
  T* d = static_cast<T*>(to);
  std::int64_t i = 0;
  if constexpr (sizeof(T) <= 8) {
    // A vector is written for each element, and its end by the next one again.
    constexpr std::int64_t kWidth = std::min<std::int64_t>(kLanes<T>, 16);
    typedef T Memory __attribute__((vector_size(kWidth * sizeof(T)), aligned(sizeof(T)), may_alias));
    if (times <= kWidth) {
      for (const std::int64_t last = n * times - kWidth; i * times <= last; ++i)
        *reinterpret_cast<Memory*>(d + i * times) = Memory{} + s[i * step];
    }
  }
  for (; i < n; ++i) std::fill_n(d + i * times, times, s[i * step]);
}

// Loops over a constant number of lines, or with a constant step, become loops over vectors.
template <typename T, int kLines>
void Weave(const T* __restrict s, std::int64_t stride, T* __restrict d, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
#pragma GCC unroll 4
    for (int l = 0; l < kLines; ++l) d[i * kLines + l] = s[l * stride + i];
  }
}
template <typename T>
void Woven(const void* from, std::int64_t stride, std::int64_t lines, void* to, std::int64_t n) {
  const T* s = static_cast<const T*>(from);
  T* d = static_cast<T*>(to);
  switch (lines) {
    case 1:
      return Weave<T, 1>(s, stride, d, n);
    case 2:
      return Weave<T, 2>(s, stride, d, n);
    case 3:
      return Weave<T, 3>(s, stride, d, n);
    default:
      return Weave<T, 4>(s, stride, d, n);
  }
}

template <typename T, int kStep>
void Pick(const T* __restrict s, std::int64_t step, T* __restrict d, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) d[i] = s[i * (kStep > 0 ? kStep : step)];
}
template <typename T>
void Picked(const void* from, std::int64_t step, void* to, std::int64_t n) {
  const T* s = static_cast<const T*>(from);
  T* d = static_cast<T*>(to);
  switch (step) {
    case 2:
      return Pick<T, 2>(s, step, d, n);
    case 3:
      return Pick<T, 3>(s, step, d, n);
    case 4:
      return Pick<T, 4>(s, step, d, n);
    default:
      return Pick<T, 0>(s, step, d, n);
  }
}

template <typename T>
constexpr LineCopies kCopies = {Reversed<T>, Repeated<T>, Woven<T>, Picked<T>};

}  // namespace

LineCopies FindLineCopies(std::size_t size) {
  switch (size) {
    case 1:
      return kCopies<std::uint8_t>;
    case 2:
      return kCopies<std::uint16_t>;
    case 4:
      return kCopies<std::uint32_t>;
    case 8:
      return kCopies<std::uint64_t>;
    default:
      return kCopies<Bytes16>;
  }
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
