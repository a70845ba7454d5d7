#include "kernels/copy/convert_rows.h"

#include <algorithm>
#include <cassert>
#include <complex>
#include <type_traits>

#include "kernels/host/half_rounding.h"
#include "kernels/vector/convert.h"

namespace ipu_model {
namespace {

template <typename T>
struct IsComplexNumber : std::false_type {};
template <typename T>
struct IsComplexNumber<std::complex<T>> : std::true_type {};

// Converts between the value types of codecs; a real number becomes a complex one with imaginary part 0.
template <typename To, typename From>
To Cast(From x) {
  if constexpr (IsComplexNumber<To>::value && IsComplexNumber<From>::value) {
    using Real = typename To::value_type;
    return To(static_cast<Real>(x.real()), static_cast<Real>(x.imag()));
  } else if constexpr (IsComplexNumber<To>::value) {
    return To(static_cast<typename To::value_type>(x));
  } else {
    return static_cast<To>(x);
  }
}

// Codecs read and write the elements of a type.
template <typename T>
struct Plain {
  using Storage = T;
  static T Read(T x) { return x; }
  template <typename Sum>
  static T Write(Sum x) {
    return Cast<T>(x);
  }
};
template <typename F>
struct NarrowFloat {
  using Storage = typename F::Storage;
  static float Read(Storage x) { return Decode<F>(x); }
  static Storage Write(float x) { return Encode<F>(x); }
  static Storage Write(double x) { return Encode<F>(F64ToF32Odd(x)); }
};
struct BFloat {
  using Storage = std::uint16_t;
  static float Read(Storage x) { return BF16ToF32(x); }
  static Storage Write(float x) { return F32ToBF16(x); }
  static Storage Write(double x) { return F32ToBF16(F64ToF32Odd(x)); }
};
struct PowerOfTwo {
  using Storage = std::uint8_t;
  static float Read(Storage x) { return E8M0ToF32(x); }
  static Storage Write(float x) { return F32ToE8M0(x); }
  static Storage Write(double x) { return F32ToE8M0(F64ToF32Odd(x)); }
};
template <int kBits>
struct SignedBits {
  using Storage = std::int8_t;
  static Storage Read(Storage x) { return SignExtend(x, kBits); }
  static Storage Write(std::uint32_t x) { return SignExtend(static_cast<std::int8_t>(x), kBits); }
};
template <int kBits>
struct UnsignedBits {
  using Storage = std::uint8_t;
  static Storage Read(Storage x) { return x & ((1 << kBits) - 1); }
  static Storage Write(std::uint32_t x) { return static_cast<Storage>(x & ((1u << kBits) - 1)); }
};
struct TruthValue {
  using Storage = std::uint8_t;
  static Storage Read(Storage x) { return x; }
  template <typename T>
  static Storage Write(T x) {
    return x != T{} ? 1 : 0;
  }
};

// Calls visit(codec) for any type.
template <typename Visitor>
void VisitCodec(DType type, Visitor&& visit) {
  if (VisitFormat(type, [&](auto format) { visit(NarrowFloat<decltype(format)>{}); })) return;
  switch (type) {
    case DType::kPred:
      return visit(TruthValue{});
    case DType::kS2:
      return visit(SignedBits<2>{});
    case DType::kS4:
      return visit(SignedBits<4>{});
    case DType::kS8:
      return visit(Plain<std::int8_t>{});
    case DType::kS16:
      return visit(Plain<std::int16_t>{});
    case DType::kS32:
      return visit(Plain<std::int32_t>{});
    case DType::kS64:
      return visit(Plain<std::int64_t>{});
    case DType::kU2:
      return visit(UnsignedBits<2>{});
    case DType::kU4:
      return visit(UnsignedBits<4>{});
    case DType::kU8:
      return visit(Plain<std::uint8_t>{});
    case DType::kU16:
      return visit(Plain<std::uint16_t>{});
    case DType::kU32:
      return visit(Plain<std::uint32_t>{});
    case DType::kU64:
      return visit(Plain<std::uint64_t>{});
    case DType::kF8E8M0FNU:
      return visit(PowerOfTwo{});
    case DType::kBF16:
      return visit(BFloat{});
    case DType::kF32:
      return visit(Plain<float>{});
    case DType::kF64:
      return visit(Plain<double>{});
    case DType::kC64:
      return visit(Plain<std::complex<float>>{});
    case DType::kC128:
      return visit(Plain<std::complex<double>>{});
    default:
      assert(false && "not an element type");
  }
}

// Calls visit(value) with a value of the type of sums. Returns false for other types.
template <typename Visitor>
bool VisitSum(DType type, Visitor&& visit) {
  switch (type) {
    case DType::kF32:
      visit(float{});
      return true;
    case DType::kF64:
      visit(double{});
      return true;
    case DType::kU32:
      visit(std::uint32_t{});
      return true;
    case DType::kU64:
      visit(std::uint64_t{});
      return true;
    case DType::kC64:
      visit(std::complex<float>{});
      return true;
    case DType::kC128:
      visit(std::complex<double>{});
      return true;
    default:
      return false;
  }
}

template <typename T>
constexpr bool kIsComplex = IsComplexNumber<T>::value;
template <typename T>
constexpr bool kIsInteger = std::is_integral_v<T>;

// Whether sums of type Sum have elements whose codec reads a Value.
template <typename Value, typename Sum>
constexpr bool kPairs = kIsComplex<Sum> || (!kIsComplex<Value> && kIsInteger<Value> >= kIsInteger<Sum>);

template <typename Codec>
using Value = decltype(Codec::Read(typename Codec::Storage{}));

template <typename Codec, typename Sum>
void Load(const void* from, void* to, std::int64_t n) {
  const auto* in = static_cast<const typename Codec::Storage*>(from);
  auto* out = static_cast<Sum*>(to);
  for (std::int64_t i = 0; i < n; ++i) out[i] = Cast<Sum>(Codec::Read(in[i]));
}

template <typename Codec, typename Sum>
void Store(const void* from, void* to, std::int64_t n) {
  const auto* in = static_cast<const Sum*>(from);
  auto* out = static_cast<typename Codec::Storage*>(to);
  if constexpr (std::is_same_v<Codec, NarrowFloat<F16Format>> && std::is_same_v<Sum, float>) {
    if (RoundsStochastically()) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = Codec::Write(RoundStochastically(in[i]));
      return;
    }
  }
  for (std::int64_t i = 0; i < n; ++i) out[i] = Codec::Write(in[i]);
}

template <typename Word>
void CopyWords(const void* from, std::int64_t from_stride, void* to, std::int64_t to_stride, std::int64_t n) {
  const auto* in = static_cast<const Word*>(from);
  auto* out = static_cast<Word*>(to);
  for (std::int64_t i = 0; i < n; ++i) out[i * to_stride] = in[i * from_stride];
}

void CopyElements(std::size_t size, const void* from, std::int64_t from_stride, void* to,
                  std::int64_t to_stride, std::int64_t n) {
  switch (size) {
    case 1:
      return CopyWords<std::uint8_t>(from, from_stride, to, to_stride, n);
    case 2:
      return CopyWords<std::uint16_t>(from, from_stride, to, to_stride, n);
    case 4:
      return CopyWords<std::uint32_t>(from, from_stride, to, to_stride, n);
    case 8:
      return CopyWords<std::uint64_t>(from, from_stride, to, to_stride, n);
    default:
      return CopyWords<std::complex<double>>(from, from_stride, to, to_stride, n);
  }
}

}  // namespace

ConvertRow RowToSums(DType from, DType sum) {
  ConvertRow row = nullptr;
  VisitCodec(from, [&](auto codec) {
    using Codec = decltype(codec);
    VisitSum(sum, [&](auto zero) {
      using Sum = decltype(zero);
      if constexpr (kPairs<Value<Codec>, Sum>) row = Load<Codec, Sum>;
    });
  });
  return row;
}

ConvertRow RowFromSums(DType sum, DType to) {
  ConvertRow row = nullptr;
  VisitCodec(to, [&](auto codec) {
    using Codec = decltype(codec);
    VisitSum(sum, [&](auto zero) {
      using Sum = decltype(zero);
      // Sums of floats have no integer elements.
      if constexpr (kPairs<Value<Codec>, Sum> && kPairs<Sum, Value<Codec>>) row = Store<Codec, Sum>;
    });
  });
  return row;
}

void ConvertStrided(ConvertRow row, const void* from, StridedRow from_row, void* to, StridedRow to_row,
                    std::int64_t n) {
  if (from_row.stride == 1 && to_row.stride == 1) return row(from, to, n);
  constexpr std::int64_t kPiece = 128;
  alignas(64) unsigned char gathered[kPiece * 16], converted[kPiece * 16];
  const auto* in = static_cast<const unsigned char*>(from);
  auto* out = static_cast<unsigned char*>(to);
  for (std::int64_t i = 0; i < n; i += kPiece) {
    const std::int64_t count = std::min(kPiece, n - i);
    const void* source = in + i * from_row.stride * static_cast<std::int64_t>(from_row.size);
    void* target = out + i * to_row.stride * static_cast<std::int64_t>(to_row.size);
    if (from_row.stride != 1) {
      CopyElements(from_row.size, source, from_row.stride, gathered, 1, count);
      source = gathered;
    }
    if (to_row.stride == 1) {
      row(source, target, count);
      continue;
    }
    row(source, converted, count);
    CopyElements(to_row.size, converted, 1, target, to_row.stride, count);
  }
}

}  // namespace ipu_model
