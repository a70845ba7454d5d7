// Block functions that convert between types, round to narrow floats, and wrap to sub-byte integers.
#include <immintrin.h>

#include <limits>
#include <type_traits>

#include "kernels/elementwise/program/micro_loop.h"
#include "kernels/host/half_rounding.h"
#include "kernels/vector/convert.h"

namespace ipu_model::ISA_NAMESPACE {
namespace {

// Real part and imaginary part, in the order of memory.
template <typename T>
struct Pair {
  using Part = T;
  T real, imag;
};
template <typename T>
constexpr bool kIsPair = std::is_class_v<T>;

// Values out of range saturate; NaN gives 0.
template <typename I, typename F>
I ToInteger(F x) {
  // The largest integer may not be representable as a float, so compare with the first float above it.
  constexpr F kLow = static_cast<F>(std::numeric_limits<I>::min());
  constexpr F kBeyond = static_cast<F>(std::numeric_limits<I>::max() / 2 + 1) * 2;
  if constexpr (sizeof(I) < 4) {
    const F clamped = x <= kLow ? kLow : x >= kBeyond ? kBeyond - 1 : x;
    return static_cast<I>(static_cast<std::int32_t>(x == x ? clamped : F{0}));
  } else {
    const bool inside = x > kLow && x < kBeyond;
    const I converted = static_cast<I>(inside ? x : F{0});
    return inside         ? converted
           : x >= kBeyond ? std::numeric_limits<I>::max()
           : x <= kLow    ? std::numeric_limits<I>::min()
                          : I{0};
  }
}

struct Convert {
  template <typename From, typename To>
  static To One(From x) {
    if constexpr (kIsPair<To>) {
      using Part = typename To::Part;
      if constexpr (kIsPair<From>) {
        return {static_cast<Part>(x.real), static_cast<Part>(x.imag)};
      } else {
        return {static_cast<Part>(x), Part{0}};
      }
    } else if constexpr (kIsPair<From>) {
      return One<typename From::Part, To>(x.real);
    } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
      return ToInteger<To>(x);
    } else {
      return static_cast<To>(x);
    }
  }
};
template <typename From, typename To>
void ConvertBlock(const MicroArguments& m) {
  const From* a = static_cast<const From*>(m.operand[0]);
  To* r = static_cast<To*>(m.result);
#pragma GCC ivdep
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = Convert::One<From, To>(a[i]);
}
template <typename T>
void ToPred(const MicroArguments& m) {
  const T* a = static_cast<const T*>(m.operand[0]);
  std::uint8_t* r = static_cast<std::uint8_t*>(m.result);
#pragma GCC ivdep
  for (std::int64_t i = 0, n = m.n; i < n; ++i) {
    if constexpr (kIsPair<T>) {
      r[i] = a[i].real != 0 || a[i].imag != 0;
    } else {
      r[i] = a[i] != 0;
    }
  }
}

// Calls f with a value of the register's C++ type.
template <typename F>
MicroFunction Visit(RegisterType type, F&& f) {
  switch (type) {
    case RegisterType::kS8:
      return f(std::int8_t{});
    case RegisterType::kS16:
      return f(std::int16_t{});
    case RegisterType::kS32:
      return f(std::int32_t{});
    case RegisterType::kS64:
      return f(std::int64_t{});
    case RegisterType::kU8:
      return f(std::uint8_t{});
    case RegisterType::kU16:
      return f(std::uint16_t{});
    case RegisterType::kU32:
      return f(std::uint32_t{});
    case RegisterType::kU64:
      return f(std::uint64_t{});
    case RegisterType::kF32:
      return f(float{});
    case RegisterType::kF64:
      return f(double{});
    case RegisterType::kC64:
      return f(Pair<float>{});
    case RegisterType::kC128:
      return f(Pair<double>{});
  }
  return nullptr;
}

// f16 uses the hardware conversions, 8 elements at a time. The remainder goes through a padded copy.
template <typename F>
void InEights(std::int64_t n, F&& f) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) f(i, 8);
  if (i < n) f(i, static_cast<int>(n - i));
}
constexpr int kNearestEven = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

void LoadF16(const MicroArguments& m) {
  const auto* a = static_cast<const std::uint16_t*>(m.operand[0]);
  auto* r = static_cast<float*>(m.result);
  InEights(m.n, [&](std::int64_t i, int count) {
    if (count == 8) {
      _mm256_storeu_ps(r + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a + i))));
    } else {
      for (int k = 0; k < count; ++k) r[i + k] = F16ToF32(a[i + k]);
    }
  });
}
void StoreF16(const MicroArguments& m) {
  const auto* a = static_cast<const float*>(m.operand[0]);
  auto* r = static_cast<std::uint16_t*>(m.result);
  if (RoundsStochastically()) {
    for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = F32ToF16(RoundStochastically(a[i]));
    return;
  }
  InEights(m.n, [&](std::int64_t i, int count) {
    if (count == 8) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(r + i),
                       _mm256_cvtps_ph(_mm256_loadu_ps(a + i), kNearestEven));
    } else {
      for (int k = 0; k < count; ++k) r[i + k] = F32ToF16(a[i + k]);
    }
  });
}
void RoundF16(const float* a, float* r, std::int64_t n) {
  if (RoundsStochastically()) return RoundStochastically(a, r, n);
  InEights(n, [&](std::int64_t i, int count) {
    if (count == 8) {
      _mm256_storeu_ps(r + i, _mm256_cvtph_ps(_mm256_cvtps_ph(_mm256_loadu_ps(a + i), kNearestEven)));
    } else {
      for (int k = 0; k < count; ++k) r[i + k] = F16ToF32(F32ToF16(a[i + k]));
    }
  });
}

template <typename F>
struct Narrow {
  using Storage = typename F::Storage;
  static Storage To(float x) { return Encode<F>(x); }
  static float From(Storage x) { return Decode<F>(x); }
};
struct BFloat {
  using Storage = std::uint16_t;
  static Storage To(float x) { return F32ToBF16(x); }
  static float From(Storage x) { return BF16ToF32(x); }
};
struct PowerOfTwo {
  using Storage = std::uint8_t;
  static Storage To(float x) { return F32ToE8M0(x); }
  static float From(Storage x) { return E8M0ToF32(x); }
};

template <typename N>
void LoadNarrow(const MicroArguments& m) {
  const auto* a = static_cast<const typename N::Storage*>(m.operand[0]);
  auto* r = static_cast<float*>(m.result);
#pragma GCC ivdep
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = N::From(a[i]);
}
template <typename N>
void StoreNarrow(const MicroArguments& m) {
  const auto* a = static_cast<const float*>(m.operand[0]);
  auto* r = static_cast<typename N::Storage*>(m.result);
#pragma GCC ivdep
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = N::To(a[i]);
}
template <typename N>
void RoundNarrow(const float* a, float* r, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) r[i] = N::From(N::To(a[i]));
}

void Round(const MicroArguments& m) {
  const auto* a = static_cast<const float*>(m.operand[0]);
  auto* r = static_cast<float*>(m.result);
  const auto type = static_cast<DType>(m.immediate);
  if (type == DType::kF16) return RoundF16(a, r, m.n);
  if (type == DType::kBF16) return RoundNarrow<BFloat>(a, r, m.n);
  if (type == DType::kF8E8M0FNU) return RoundNarrow<PowerOfTwo>(a, r, m.n);
  VisitFormat(type, [&](auto format) { RoundNarrow<Narrow<decltype(format)>>(a, r, m.n); });
}

void WrapSigned(const MicroArguments& m) {
  const auto* a = static_cast<const std::int8_t*>(m.operand[0]);
  auto* r = static_cast<std::int8_t*>(m.result);
  const int bits = static_cast<int>(m.immediate);
#pragma GCC ivdep
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = SignExtend(a[i], bits);
}
void WrapUnsigned(const MicroArguments& m) {
  const auto* a = static_cast<const std::uint8_t*>(m.operand[0]);
  auto* r = static_cast<std::uint8_t*>(m.result);
  const auto mask = static_cast<std::uint8_t>((1u << m.immediate) - 1);
#pragma GCC ivdep
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = a[i] & mask;
}
void SaturateSigned(const MicroArguments& m) {
  const auto* a = static_cast<const std::int8_t*>(m.operand[0]);
  auto* r = static_cast<std::int8_t*>(m.result);
  const auto high = static_cast<std::int8_t>((1 << (m.immediate - 1)) - 1);
  const auto low = static_cast<std::int8_t>(-high - 1);
#pragma GCC ivdep
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = a[i] > high ? high : a[i] < low ? low : a[i];
}
void SaturateUnsigned(const MicroArguments& m) {
  const auto* a = static_cast<const std::uint8_t*>(m.operand[0]);
  auto* r = static_cast<std::uint8_t*>(m.result);
  const auto high = static_cast<std::uint8_t>((1u << m.immediate) - 1);
#pragma GCC ivdep
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = a[i] > high ? high : a[i];
}
// Only the low bits of a sub-byte element count; other programs may set the high bits.
template <int kBits>
void LoadSigned(const MicroArguments& m) {
  MicroArguments wrap = m;
  wrap.immediate = kBits;
  WrapSigned(wrap);
}
template <int kBits>
void LoadUnsigned(const MicroArguments& m) {
  MicroArguments wrap = m;
  wrap.immediate = kBits;
  WrapUnsigned(wrap);
}
void ToOddF32(const MicroArguments& m) {
  const auto* a = static_cast<const double*>(m.operand[0]);
  auto* r = static_cast<float*>(m.result);
#pragma GCC ivdep
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = F64ToF32Odd(a[i]);
}
void FromBits(const MicroArguments& m) { FindLoad(static_cast<DType>(m.immediate))(m); }
void ToBits(const MicroArguments& m) { FindStore(static_cast<DType>(m.immediate))(m); }

}  // namespace

MicroFunction FindConvert(RegisterType from, RegisterType to) {
  return Visit(from, [to](auto source) {
    return Visit(
        to, [](auto target) -> MicroFunction { return ConvertBlock<decltype(source), decltype(target)>; });
  });
}

MicroFunction FindLoad(DType type) {
  switch (type) {
    case DType::kF16:
      return LoadF16;
    case DType::kBF16:
      return LoadNarrow<BFloat>;
    case DType::kF8E8M0FNU:
      return LoadNarrow<PowerOfTwo>;
    case DType::kS2:
      return LoadSigned<2>;
    case DType::kS4:
      return LoadSigned<4>;
    case DType::kU2:
      return LoadUnsigned<2>;
    case DType::kU4:
      return LoadUnsigned<4>;
    default: {
      MicroFunction result = nullptr;
      VisitFormat(type, [&](auto format) { result = LoadNarrow<Narrow<decltype(format)>>; });
      return result;
    }
  }
}

MicroFunction FindStore(DType type) {
  switch (type) {
    case DType::kF16:
      return StoreF16;
    case DType::kBF16:
      return StoreNarrow<BFloat>;
    case DType::kF8E8M0FNU:
      return StoreNarrow<PowerOfTwo>;
    default: {
      MicroFunction result = nullptr;
      VisitFormat(type, [&](auto format) { result = StoreNarrow<Narrow<decltype(format)>>; });
      return result;
    }
  }
}

MicroFunction FindConversion(FusedOp op, RegisterType type) {
  switch (op) {
    case FusedOp::kRound:
      return Round;
    case FusedOp::kWrap:
      return type == RegisterType::kS8 ? WrapSigned : WrapUnsigned;
    case FusedOp::kSaturate:
      return type == RegisterType::kS8 ? SaturateSigned : SaturateUnsigned;
    case FusedOp::kToPred:
      return Visit(type, [](auto value) -> MicroFunction { return ToPred<decltype(value)>; });
    case FusedOp::kToOddF32:
      return ToOddF32;
    case FusedOp::kFromBits:
      return FromBits;
    case FusedOp::kToBits:
      return ToBits;
    default:
      return FindIntegerFused(op, type);
  }
}

}  // namespace ipu_model::ISA_NAMESPACE
