// Compares the combination of rows of every float type, on each instruction set, with one loop over their
// elements: results are equal bit by bit, special values and lengths that fill no register included.
#include "kernels/index/combine_windows.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "check.h"
#include "kernels/host/half_rounding.h"
#include "kernels/host/isa.h"
#include "kernels/vector/convert.h"

namespace ipu_model {
namespace {

struct Variant {
  decltype(&avx2::CombineWindows) windows;
  decltype(&avx2::CombineSelected) selected;
};
std::vector<Variant> Variants() {
  std::vector<Variant> variants{{avx2::CombineWindows, avx2::CombineSelected}};
  if (HasAvx512()) variants.push_back({avx512::CombineWindows, avx512::CombineSelected});
  return variants;
}

struct F16Codes {
  using Storage = std::uint16_t;
  static constexpr DType kType = DType::kF16;
  static float Value(Storage x) { return F16ToF32(x); }
  static Storage Of(float x) { return F32ToF16(RoundsStochastically() ? RoundStochastically(x) : x); }
};
struct BF16Codes {
  using Storage = std::uint16_t;
  static constexpr DType kType = DType::kBF16;
  static float Value(Storage x) { return BF16ToF32(x); }
  static Storage Of(float x) { return F32ToBF16(x); }
};
struct F32Codes {
  using Storage = float;
  static constexpr DType kType = DType::kF32;
  static float Value(Storage x) { return x; }
  static Storage Of(float x) { return x; }
};

float Combined(Combine combine, float a, float b) {
  switch (combine) {
    case Combine::kAdd:
      return a + b;
    case Combine::kMultiply:
      return a * b;
    case Combine::kMinimum:
    case Combine::kMaximum: {
      const bool largest = combine == Combine::kMaximum;
      if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
      if (a == b) return std::signbit(a) == largest ? b : a;
      return (a < b) == largest ? b : a;
    }
    default:
      return b;
  }
}

constexpr Combine kCombines[] = {Combine::kSet, Combine::kAdd, Combine::kMultiply, Combine::kMinimum,
                                 Combine::kMaximum};

// Values of all magnitudes; with `special` zeros, denormals, infinities and NaN too. NaN is negative, as that
// of infinity less infinity is: the sign of a sum of two NaNs is not defined.
template <typename Codes>
std::vector<typename Codes::Storage> Values(std::int64_t n, bool special, bool nan, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<typename Codes::Storage> values;
  const float specials[] = {0.0f, -0.0f, INFINITY, -INFINITY, 6e-8f, -3e-5f, 65504.0f, -65000.0f};
  for (std::int64_t i = 0; i < n; ++i) {
    float x = std::ldexp(static_cast<float>(random() % 4096) - 2048, static_cast<int>(random() % 20) - 20);
    if (special && random() % 4 == 0) x = specials[random() % std::size(specials)];
    if (nan && random() % 8 == 0) x = -NAN;
    typename Codes::Storage value = Codes::Of(x);
    // A payload, which results do not keep.
    if constexpr (Codes::kType == DType::kF16) value = std::isnan(x) ? value | 0x15u : value;
    values.push_back(value);
  }
  return values;
}

// Rows of `width` elements with `step` between them, of which windows 0, 2, 1, 2... are combined.
template <typename Codes>
void CheckWidth(const Variant& variant, Combine combine, std::int64_t width, std::int64_t step,
                bool special) {
  using T = typename Codes::Storage;
  constexpr std::int64_t kPlaces = 3, kRows = 7;
  // One more element behind the last row, which has to stay.
  const auto operand = Values<Codes>(kPlaces * width * step + 1, special, false, 1);
  const auto updates = Values<Codes>(kRows * width * step, special, special, static_cast<unsigned>(width));
  std::vector<std::int64_t> to, from;
  std::vector<T> expected = operand, got = operand;
  for (std::int64_t r = 0; r < kRows; ++r) {
    to.push_back(r * 2 % kPlaces * width * step);
    from.push_back(r * width * step);
  }
  WindowRows::Loop loop;
  loop.rank = 1;
  loop.shape[0] = loop.elements = width;
  loop.operand[0] = loop.windows[0] = step;
  loop.indexed[0] = false;
  SetStochasticRounding(RoundsStochastically(), 5);  // the numbers begin anew
  variant.windows(combine, Codes::kType, loop, {to.data(), from.data(), kRows}, updates.data(), got.data());
  SetStochasticRounding(RoundsStochastically(), 5);
  for (std::size_t r = 0; r < to.size(); ++r) {
    for (std::int64_t i = 0; i < width; ++i) {
      T& e = expected[static_cast<std::size_t>(to[r] + i * step)];
      const T update = updates[static_cast<std::size_t>(from[r] + i * step)];
      e = combine == Combine::kSet ? update
                                   : Codes::Of(Combined(combine, Codes::Value(e), Codes::Value(update)));
    }
  }
  CHECK(std::memcmp(got.data(), expected.data(), got.size() * sizeof(T)) == 0);
}

template <typename Codes>
void CheckWidths() {
  for (const Variant& variant : Variants()) {
    for (const Combine combine : kCombines) {
      for (std::int64_t width = 1; width <= 40; ++width) {
        CheckWidth<Codes>(variant, combine, width, 1, false);
        CheckWidth<Codes>(variant, combine, width, 1, true);
      }
      CheckWidth<Codes>(variant, combine, 0, 1, false);
      CheckWidth<Codes>(variant, combine, 21, 3, true);
      CheckWidth<Codes>(variant, combine, 200, 1, true);
    }
  }
}

TEST(RowsOfF16) { CheckWidths<F16Codes>(); }
TEST(RowsOfBF16) { CheckWidths<BF16Codes>(); }
TEST(RowsOfF32) { CheckWidths<F32Codes>(); }

TEST(F16DrawsOneNumberForEachElementInOrder) {
  SetStochasticRounding(true, 5);
  CheckWidths<F16Codes>();
  SetStochasticRounding(false, 0);
}

TEST(SelectedElementsOfF16) {
  constexpr std::int64_t kRows = 1000, kPlaces = 10;
  const auto operand = Values<F16Codes>(kPlaces, false, false, 1);
  const auto updates = Values<F16Codes>(kRows, true, false, 2);
  std::vector<std::int32_t> index;
  for (std::int64_t r = 0; r < kRows; ++r) index.push_back(static_cast<std::int32_t>(r * 7 % (kPlaces + 3)));
  WindowRows::Elements rows{DType::kS32, index.data(), 1, 0, kPlaces - 1, 0, 1, 1};
  for (const Variant& variant : Variants()) {
    for (const Combine combine : kCombines) {
      auto got = operand, expected = operand;
      variant.selected(combine, DType::kF16, {}, rows, kRows, 2, 8, updates.data(), got.data());
      for (std::int64_t r = 0; r < kRows; ++r) {
        const std::int32_t place = index[static_cast<std::size_t>(r)];
        if (place < 2 || place >= 8) continue;
        std::uint16_t& e = expected[static_cast<std::size_t>(place)];
        const std::uint16_t update = updates[static_cast<std::size_t>(r)];
        e = combine == Combine::kSet ? update : F32ToF16(Combined(combine, F16ToF32(e), F16ToF32(update)));
      }
      CHECK(got == expected);
    }
  }
}

}  // namespace
}  // namespace ipu_model
