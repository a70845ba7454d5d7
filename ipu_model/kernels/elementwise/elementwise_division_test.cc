// Quotients and remainders by constants against the division of the host: every divisor of the narrow types
// with every number, and edges and random numbers of the others.
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "check.h"
#include "testing/elementwise_check.h"

namespace ipu_model {
namespace {

template <typename T>
using Wrapping = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <typename T>
T Quotient(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if (std::is_signed_v<T> && b == static_cast<T>(-1))
    return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(a));
  return static_cast<T>(a / b);
}

template <typename T>
void CheckDivisor(DType type, T divisor, std::vector<T> numbers) {
  std::vector<T> quotients(numbers.size()), remainders(numbers.size());
  Expression e;
  e.inputs = {type};
  e.constants = {Constant(type, divisor)};
  e.code = {Op(ScalarOp::kDivide, type, type, 0, 1), Op(ScalarOp::kRemainder, type, type, 0, 1)};
  e.outputs = {2, 3};
  Run(e, {VectorOf(numbers, type)}, {VectorOf(quotients, type), VectorOf(remainders, type)});
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const T q = Quotient(numbers[i], divisor);
    const auto rest = static_cast<T>(static_cast<Wrapping<T>>(numbers[i]) -
                                     static_cast<Wrapping<T>>(q) * static_cast<Wrapping<T>>(divisor));
    if (quotients[i] == q && remainders[i] == rest) continue;
    CHECK_EQ(static_cast<std::int64_t>(divisor), 0);  // which divisor it was
    CHECK_EQ(quotients[i], q);
    CHECK_EQ(remainders[i], rest);
    return;
  }
}

template <typename T>
std::vector<T> EveryNumber() {
  std::vector<T> numbers;
  for (std::int64_t i = std::numeric_limits<T>::min(); i <= std::numeric_limits<T>::max(); ++i)
    numbers.push_back(static_cast<T>(i));
  return numbers;
}

template <typename T>
std::vector<T> SomeNumbers(T divisor, std::mt19937_64& random) {
  std::vector<T> numbers = {0, 1, static_cast<T>(-1), std::numeric_limits<T>::min(),
                            std::numeric_limits<T>::max()};
  for (int i = 0; i < 40; ++i) {
    const auto multiple =
        static_cast<Wrapping<T>>(random() >> random() % 64) * static_cast<Wrapping<T>>(divisor);
    for (const int beside : {-1, 0, 1})
      numbers.push_back(static_cast<T>(multiple + static_cast<Wrapping<T>>(beside)));
    numbers.push_back(static_cast<T>(random() >> random() % 64));
  }
  return numbers;
}

TEST(BytesByEveryDivisor) {
  for (int d = -128; d < 256; ++d) {
    if (d < 128) CheckDivisor(DType::kS8, static_cast<std::int8_t>(d), EveryNumber<std::int8_t>());
    if (d >= 0) CheckDivisor(DType::kU8, static_cast<std::uint8_t>(d), EveryNumber<std::uint8_t>());
  }
}

TEST(WordsOf16BitsByManyDivisors) {
  for (const int d :
       {2, 3, 5, 6, 7, 10, 11, 13, 14, 21, 28, 60, 64, 100, 127, 255, 257, 641, 999, 4095, 12345, 32767}) {
    CheckDivisor(DType::kU16, static_cast<std::uint16_t>(d), EveryNumber<std::uint16_t>());
    CheckDivisor(DType::kU16, static_cast<std::uint16_t>(65536 - d), EveryNumber<std::uint16_t>());
    CheckDivisor(DType::kS16, static_cast<std::int16_t>(d), EveryNumber<std::int16_t>());
    CheckDivisor(DType::kS16, static_cast<std::int16_t>(-d), EveryNumber<std::int16_t>());
  }
}

template <typename T>
void CheckManyDivisors(DType type) {
  std::mt19937_64 random(7);
  std::vector<T> divisors = {0,
                             1,
                             2,
                             3,
                             5,
                             6,
                             7,
                             10,
                             13,
                             14,
                             28,
                             60,
                             641,
                             1000,
                             static_cast<T>(-1),
                             static_cast<T>(-2),
                             static_cast<T>(-3),
                             static_cast<T>(-7),
                             static_cast<T>(-1000),
                             std::numeric_limits<T>::min(),
                             std::numeric_limits<T>::max()};
  for (int bit = 1; bit < static_cast<int>(sizeof(T)) * 8; ++bit) {
    const auto power = static_cast<Wrapping<T>>(std::uint64_t{1} << bit);
    for (const int beside : {-1, 0, 1})
      divisors.push_back(static_cast<T>(power + static_cast<Wrapping<T>>(beside)));
    divisors.push_back(static_cast<T>(random() >> (63 - bit)));
  }
  for (const T d : divisors) CheckDivisor(type, d, SomeNumbers(d, random));
}

TEST(WordsOf32And64BitsByManyDivisors) {
  CheckManyDivisors<std::uint32_t>(DType::kU32);
  CheckManyDivisors<std::int32_t>(DType::kS32);
  CheckManyDivisors<std::uint64_t>(DType::kU64);
  CheckManyDivisors<std::int64_t>(DType::kS64);
}

}  // namespace
}  // namespace ipu_model
