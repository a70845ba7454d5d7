// Rows between element types and sums: which pairs there are, rounding, wrapping, strides.
#include "kernels/copy/convert_rows.h"

#include <complex>
#include <cstdint>
#include <vector>

#include "check.h"

namespace ipu_model {
namespace {

template <typename To, typename From>
To Convert(ConvertRow row, From from) {
  To to{};
  row(&from, &to, 1);
  return to;
}

TEST(OnlyPairsThatSumsHave) {
  CHECK(RowToSums(DType::kS8, DType::kF32) != nullptr);
  CHECK(RowToSums(DType::kF32, DType::kU32) == nullptr);
  CHECK(RowToSums(DType::kC64, DType::kF64) == nullptr);
  CHECK(RowToSums(DType::kF32, DType::kC64) != nullptr);
  CHECK(RowToSums(DType::kF32, DType::kBF16) == nullptr);
  CHECK(RowFromSums(DType::kF32, DType::kS32) == nullptr);
  CHECK(RowFromSums(DType::kU32, DType::kF32) == nullptr);
  CHECK(RowFromSums(DType::kC64, DType::kF32) == nullptr);
  CHECK(RowFromSums(DType::kU64, DType::kS2) != nullptr);
}

TEST(IntegersExtendTheirSignAndWrap) {
  CHECK(Convert<std::uint64_t>(RowToSums(DType::kS32, DType::kU64), std::int32_t{-2}) == ~std::uint64_t{1});
  CHECK(Convert<std::int8_t>(RowFromSums(DType::kU32, DType::kS4), std::uint32_t{0x1e}) == -2);
  CHECK(Convert<std::uint8_t>(RowFromSums(DType::kU32, DType::kU4), std::uint32_t{0x1e}) == 14);
  CHECK(Convert<std::uint8_t>(RowFromSums(DType::kU32, DType::kPred), std::uint32_t{256}) == 1);
  CHECK(Convert<std::complex<float>>(RowToSums(DType::kS8, DType::kC64), std::int8_t{-3}) ==
        std::complex<float>(-3, 0));
}

// Rounded to f32 first, the sum would lie halfway between two values and become 1.
TEST(SumsAreRoundedOnce) {
  const double sum = 1 + 0x1p-8 + 0x1p-40;
  CHECK(Convert<std::uint16_t>(RowFromSums(DType::kF64, DType::kBF16), sum) == 0x3f81);
  CHECK(Convert<std::uint8_t>(RowFromSums(DType::kF64, DType::kF8E5M2), 1 + 0x1p-3 + 0x1p-40) == 0x3d);
}

// More elements than one piece has.
TEST(StridesGiveTheSameElements) {
  constexpr std::int64_t kElements = 300;
  for (const std::int64_t from_stride : {1, 3, -2}) {
    for (const std::int64_t to_stride : {1, 2}) {
      std::vector<std::int8_t> from(3 * kElements);
      for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::int8_t>(i * 37);
      std::vector<float> to(2 * kElements, -1000.0f);
      const std::int8_t* first = from.data() + (from_stride < 0 ? from.size() - 1 : 0);
      ConvertStrided(RowToSums(DType::kS8, DType::kF32), first, {1, from_stride}, to.data(), {4, to_stride},
                     kElements);
      for (std::int64_t i = 0; i < kElements; ++i) {
        CHECK(to[static_cast<std::size_t>(i * to_stride)] == static_cast<float>(first[i * from_stride]));
        if (to_stride == 2) CHECK(to[static_cast<std::size_t>(2 * i + 1)] == -1000.0f);
      }
    }
  }
}

}  // namespace
}  // namespace ipu_model
