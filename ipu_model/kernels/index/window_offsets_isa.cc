// Index arithmetic of gather and scatter.
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/index/indexed_window.h"
#include "kernels/index/window_offsets.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

template <typename T>
std::int64_t Load(const char* p) {
  const T value = *reinterpret_cast<const T*>(p);
  if constexpr (sizeof(T) == 8 && static_cast<T>(-1) > 0) {
    constexpr T kMax = static_cast<T>(std::numeric_limits<std::int64_t>::max());
    return static_cast<std::int64_t>(value < kMax ? value : kMax);
  } else {
    return static_cast<std::int64_t>(value);
  }
}

template <typename T>
void Add(const char* index, std::int64_t stride, std::int64_t n, bool clamp, std::int64_t wrap,
         std::int64_t limit, std::int64_t operand_stride, std::int64_t* offset) {
  const auto run = [&](auto step) {
    constexpr std::int64_t kSize = sizeof(T);
    if (clamp) {
      for (std::int64_t i = 0; i < n; ++i) {
        std::int64_t v = Load<T>(index + i * step * kSize);
        v += v < 0 ? wrap : 0;
        v = v > limit ? limit : v;
        offset[i] += (v < 0 ? 0 : v) * operand_stride;
      }
      return;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      std::int64_t v = Load<T>(index + i * step * kSize);
      v += v < 0 ? wrap : 0;
      const std::int64_t sum = offset[i] + v * operand_stride;
      const bool skip = (v < 0) | (v > limit) | (offset[i] == WindowRows::kSkip);
      offset[i] = skip ? WindowRows::kSkip : sum;
    }
  };
  // A stride known at compile time allows vector loads.
  if (stride == 1) {
    run(std::integral_constant<std::int64_t, 1>{});
  } else {
    run(stride);
  }
}

}  // namespace

void AddComponent(DType type, const char* index, std::int64_t stride, std::int64_t n, bool clamp,
                  std::int64_t wrap, std::int64_t limit, std::int64_t operand_stride, std::int64_t* offset) {
  const auto add = [&](auto zero) {
    Add<decltype(zero)>(index, stride, n, clamp, wrap, limit, operand_stride, offset);
  };
  switch (type) {
    case DType::kS2:
    case DType::kS4:
    case DType::kS8:
      return add(std::int8_t{});
    case DType::kS16:
      return add(std::int16_t{});
    case DType::kS32:
      return add(std::int32_t{});
    case DType::kS64:
      return add(std::int64_t{});
    case DType::kPred:
    case DType::kU2:
    case DType::kU4:
    case DType::kU8:
      return add(std::uint8_t{});
    case DType::kU16:
      return add(std::uint16_t{});
    case DType::kU32:
      return add(std::uint32_t{});
    case DType::kU64:
      return add(std::uint64_t{});
    default:
      throw std::invalid_argument(std::string("an index cannot have type ") + NameOf(type));
  }
}

void FillProgression(std::int64_t base, std::int64_t step, std::int64_t n, std::int64_t* offset) {
  for (std::int64_t i = 0; i < n; ++i) offset[i] = base + i * step;
}

namespace {

template <typename T>
void AddTo(const T* index, std::int64_t stride, std::int64_t n, std::int32_t wrap, std::int32_t limit,
           std::int32_t operand_stride, std::int32_t* place) {
  const auto run = [&](auto step) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      T v = index[i * step];
      if constexpr (std::is_signed_v<T>) {
        v += v < 0 ? wrap : 0;
        v = v < 0 ? 0 : v;
      }
      v = v > static_cast<T>(limit) ? static_cast<T>(limit) : v;
      place[i] += static_cast<std::int32_t>(v) * operand_stride;
    }
  };
  // The components of an index lie side by side, or each by itself.
  if (stride == 1) return run(std::integral_constant<std::int64_t, 1>{});
  if (stride == 2) return run(std::integral_constant<std::int64_t, 2>{});
  if (stride == 3) return run(std::integral_constant<std::int64_t, 3>{});
  run(stride);
}

}  // namespace

void AddPlaces(bool is_unsigned, const void* index, std::int64_t stride, std::int64_t n, std::int32_t wrap,
               std::int32_t limit, std::int32_t operand_stride, std::int32_t* place) {
  if (is_unsigned) {
    AddTo(static_cast<const std::uint32_t*>(index), stride, n, wrap, limit, operand_stride, place);
  } else {
    AddTo(static_cast<const std::int32_t*>(index), stride, n, wrap, limit, operand_stride, place);
  }
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
