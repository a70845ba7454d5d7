#include "kernels/product/gemm_convert.h"

#include <cassert>
#include <complex>
#include <cstring>
#include <type_traits>

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
  } else if constexpr (IsComplexNumber<From>::value) {
    return static_cast<To>(x.real());
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

template <typename Codec, typename Sum, typename = void>
struct Writes : std::false_type {};
template <typename Codec, typename Sum>
struct Writes<Codec, Sum, std::void_t<decltype(Codec::Write(Sum{}))>> : std::true_type {};

template <typename From, typename To, typename F>
void ForEach(HostContext& context, const GemmMatrix& from, const GemmMatrix& to, void* to_data,
             std::int64_t groups, std::int64_t rows, std::int64_t columns, F f) {
  const From* const in = static_cast<const From*>(from.data);
  To* const out = static_cast<To*>(to_data);
  constexpr std::int64_t kGrainElements = 1 << 14;
  ParallelFor(context.pool, groups * rows, kGrainElements / columns + 1,
              [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) {
                  const From* x = in + i / rows * from.group + i % rows * from.row;
                  To* y = out + i / rows * to.group + i % rows * to.row;
                  if (from.column == 1 && to.column == 1) {
                    for (std::int64_t j = 0; j < columns; ++j) y[j] = f(x[j]);
                  } else {
                    for (std::int64_t j = 0; j < columns; ++j) y[j * to.column] = f(x[j * from.column]);
                  }
                }
              });
}

// Calls visit(value) with a value of the accumulator's type.
template <typename Visitor>
bool VisitAccumulator(DType type, Visitor&& visit) {
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

}  // namespace

void LoadMatrices(HostContext& context, const GemmMatrix& from, const GemmMatrix& to, void* to_data,
                  std::int64_t groups, std::int64_t rows, std::int64_t columns) {
  VisitCodec(from.type, [&](auto codec) {
    using Codec = decltype(codec);
    const bool known = VisitAccumulator(to.type, [&](auto sum) {
      using Sum = decltype(sum);
      ForEach<typename Codec::Storage, Sum>(context, from, to, to_data, groups, rows, columns,
                                            [](auto x) { return Cast<Sum>(Codec::Read(x)); });
    });
    assert(known);
    (void)known;
  });
}

void StoreMatrices(HostContext& context, const GemmMatrix& from, const GemmMatrix& to, void* to_data,
                   std::int64_t groups, std::int64_t rows, std::int64_t columns) {
  VisitCodec(to.type, [&](auto codec) {
    using Codec = decltype(codec);
    const bool known = VisitAccumulator(from.type, [&](auto sum) {
      using Sum = decltype(sum);
      if constexpr (Writes<Codec, Sum>::value) {
        ForEach<Sum, typename Codec::Storage>(context, from, to, to_data, groups, rows, columns,
                                              [](auto x) { return Codec::Write(x); });
      } else {
        assert(false && "GemmAccumulator does not pair these types");
      }
    });
    assert(known);
    (void)known;
  });
}

void ZeroMatrices(const GemmMatrix& to, void* to_data, std::int64_t groups, std::int64_t rows,
                  std::int64_t columns) {
  const std::size_t size = SizeOf(to.type);
  for (std::int64_t g = 0; g < groups; ++g) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c)
        std::memset(static_cast<unsigned char*>(to_data) +
                        (g * to.group + r * to.row + c * to.column) * static_cast<std::int64_t>(size),
                    0, size);
    }
  }
}

}  // namespace ipu_model
