// Stacks of matrices, in any order of their elements in memory, for tests of products.
#ifndef IPU_MODEL_TESTING_STACKS_H_
#define IPU_MODEL_TESTING_STACKS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "check.h"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"
#include "kernels/product/gemm.h"
#include "kernels/vector/convert.h"

namespace ipu_model::toy {

// The memory layouts of a stack's matrices.
enum class Layout { kRowMajor, kTransposed, kPadded, kGeneral, kReversed, kGroupsInside };

struct Stack {
  std::vector<unsigned char> bytes;
  HostTensor tensor;
};

inline Stack MakeStack(DType type, std::int64_t g, std::int64_t r, std::int64_t c, Layout layout) {
  Stack stack;
  HostTensor& t = stack.tensor;
  t.type = type;
  t.rank = 3;
  t.shape[0] = g;
  t.shape[1] = r;
  t.shape[2] = c;
  std::int64_t size = g * r * c, offset = 0;
  switch (layout) {
    case Layout::kRowMajor:
      t.strides[0] = r * c, t.strides[1] = c, t.strides[2] = 1;
      break;
    case Layout::kTransposed:
      t.strides[0] = r * c, t.strides[1] = 1, t.strides[2] = r;
      break;
    case Layout::kPadded:
      t.strides[0] = r * (c + 3) + 5, t.strides[1] = c + 3, t.strides[2] = 1;
      size = g * (r * (c + 3) + 5);
      break;
    case Layout::kGeneral:
      t.strides[0] = r * 2 * (c + 1), t.strides[1] = 2 * (c + 1), t.strides[2] = 2;
      size = g * r * 2 * (c + 1);
      break;
    case Layout::kReversed:
      t.strides[0] = r * c, t.strides[1] = -c, t.strides[2] = -1;
      offset = r * c - 1;
      break;
    case Layout::kGroupsInside:
      t.strides[0] = c, t.strides[1] = g * c, t.strides[2] = 1;
      break;
  }
  const std::size_t width = SizeOf(type);
  stack.bytes.resize(static_cast<std::size_t>(size + 1) * width);
  t.data = stack.bytes.data() + static_cast<std::size_t>(offset) * width;
  return stack;
}

template <typename T>
T& At(const HostTensor& t, std::int64_t g, std::int64_t r, std::int64_t c) {
  return t.as<T>()[g * t.strides[0] + r * t.strides[1] + c * t.strides[2]];
}

inline HostContext& Context() {
  static Scratch scratch;
  static HostContext context{ThreadPool::Global(), scratch};
  return context;
}

inline void RunGemm(const HostTensor& a, const HostTensor& b, const HostTensor& c) {
  Context().scratch.Reset();
  Gemm(Context(), a, b, c);
}

// Returns the value of an element of any type except complex ones; exact for all types tested here.
inline double Get(const HostTensor& t, std::int64_t g, std::int64_t r, std::int64_t c) {
  switch (t.type) {
    case DType::kF64:
      return At<double>(t, g, r, c);
    case DType::kF32:
      return static_cast<double>(At<float>(t, g, r, c));
    case DType::kBF16:
      return static_cast<double>(BF16ToF32(At<std::uint16_t>(t, g, r, c)));
    case DType::kF8E8M0FNU:
      return static_cast<double>(E8M0ToF32(At<std::uint8_t>(t, g, r, c)));
    case DType::kS2:
    case DType::kS4:
    case DType::kS8:
      return At<std::int8_t>(t, g, r, c);
    case DType::kPred:
    case DType::kU2:
    case DType::kU4:
    case DType::kU8:
      return At<std::uint8_t>(t, g, r, c);
    case DType::kS16:
      return At<std::int16_t>(t, g, r, c);
    case DType::kU16:
      return At<std::uint16_t>(t, g, r, c);
    case DType::kS32:
      return At<std::int32_t>(t, g, r, c);
    case DType::kU32:
      return At<std::uint32_t>(t, g, r, c);
    case DType::kS64:
      return static_cast<double>(At<std::int64_t>(t, g, r, c));
    case DType::kU64:
      return static_cast<double>(At<std::uint64_t>(t, g, r, c));
    default: {
      double value = 0;
      CHECK(VisitFormat(t.type, [&](auto format) {
        using F = decltype(format);
        value = static_cast<double>(Decode<F>(At<typename F::Storage>(t, g, r, c)));
      }));
      return value;
    }
  }
}

inline void Set(const HostTensor& t, std::int64_t g, std::int64_t r, std::int64_t c, double value) {
  switch (t.type) {
    case DType::kF64:
      At<double>(t, g, r, c) = value;
      return;
    case DType::kF32:
      At<float>(t, g, r, c) = static_cast<float>(value);
      return;
    case DType::kBF16:
      At<std::uint16_t>(t, g, r, c) = F32ToBF16(static_cast<float>(value));
      return;
    case DType::kF8E8M0FNU:
      At<std::uint8_t>(t, g, r, c) = F32ToE8M0(static_cast<float>(value));
      return;
    default:
      break;
  }
  if (IsInteger(t.type) || t.type == DType::kPred) {
    const std::int64_t integer = static_cast<std::int64_t>(value);
    std::memcpy(&At<unsigned char>(t, 0, 0, 0) + (g * t.strides[0] + r * t.strides[1] + c * t.strides[2]) *
                                                     static_cast<std::int64_t>(SizeOf(t.type)),
                &integer, SizeOf(t.type));
    return;
  }
  CHECK(VisitFormat(t.type, [&](auto format) {
    using F = decltype(format);
    At<typename F::Storage>(t, g, r, c) = Encode<F>(static_cast<float>(value));
  }));
}

inline std::mt19937& Random() {
  static std::mt19937 random(7);
  return random;
}

// Calls f(element) for all elements in row-major order; Word has their size.
template <typename Word, typename F>
void ForEach(const HostTensor& t, F&& f) {
  for (std::int64_t g = 0; g < t.shape[0]; ++g) {
    for (std::int64_t r = 0; r < t.shape[1]; ++r) {
      Word* const row = t.as<Word>() + g * t.strides[0] + r * t.strides[1];
      for (std::int64_t c = 0; c < t.shape[2]; ++c) f(row[c * t.strides[2]]);
    }
  }
}

// Fills with the values low to high at random. Each is converted once, as most of the time would go there.
template <typename Word>
void FillWords(const HostTensor& t, int low, int high) {
  std::vector<Word> words(static_cast<std::size_t>(high - low + 1));
  HostTensor one = t;
  for (int value = low; value <= high; ++value) {
    one.data = &words[static_cast<std::size_t>(value - low)];
    Set(one, 0, 0, 0, value);
  }
  const Word* const from = words.data();
  const std::uint64_t count = words.size();
  auto state = static_cast<std::uint32_t>(Random()());
  ForEach<Word>(t, [&](Word& word) {
    state = state * 1664525u + 1013904223u;
    word = from[state * count >> 32];
  });
}

// Fills with small whole numbers, so that every sum is exact in every type and order.
inline void FillWhole(const HostTensor& t, int low, int high) {
  switch (SizeOf(t.type)) {
    case 1:
      return FillWords<std::uint8_t>(t, low, high);
    case 2:
      return FillWords<std::uint16_t>(t, low, high);
    case 4:
      return FillWords<std::uint32_t>(t, low, high);
    default:
      return FillWords<std::uint64_t>(t, low, high);
  }
}

inline const std::vector<Layout> kLayouts = {Layout::kRowMajor, Layout::kTransposed, Layout::kPadded,
                                             Layout::kGeneral,  Layout::kReversed,   Layout::kGroupsInside};

}  // namespace ipu_model::toy

#endif  // IPU_MODEL_TESTING_STACKS_H_
