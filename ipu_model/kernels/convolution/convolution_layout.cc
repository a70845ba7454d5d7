// Copies that change layout and type. They walk in blocks over the two dimensions that are contiguous in
// source and destination.
#include "kernels/convolution/convolution_layout.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "kernels/convolution/convolution_strip.h"
#include "kernels/host/isa.h"
#include "kernels/vector/convert.h"

namespace ipu_model {
namespace {

struct BFloat16 {
  std::uint16_t bits;
};
struct Int4 {
  std::int8_t value;
};
struct UInt4 {
  std::uint8_t value;
};
struct Int2 {
  std::int8_t value;
};
struct UInt2 {
  std::uint8_t value;
};
struct Half {
  std::uint16_t bits;
};
// An 8- or 4-bit float format.
template <typename F>
struct Small {
  std::uint8_t code;
  using Code = F;
};
template <typename T>
constexpr bool kIsSmall = false;
template <typename F>
constexpr bool kIsSmall<Small<F>> = true;

template <typename T>
T Widen(T v) {
  return v;
}
inline float Widen(Half v) { return F16ToF32(v.bits); }
inline float Widen(BFloat16 v) {
  const std::uint32_t bits = std::uint32_t{v.bits} << 16;
  float f;
  std::memcpy(&f, &bits, sizeof(f));
  return f;
}
template <typename F>
float Widen(Small<F> v) {
  return Decode<F>(v.code);
}
inline int Widen(Int4 v) { return v.value; }
inline int Widen(UInt4 v) { return v.value; }
inline int Widen(Int2 v) { return v.value; }
inline int Widen(UInt2 v) { return v.value; }

template <typename To, typename From>
To Convert(From from) {
  const auto v = Widen(from);
  if constexpr (std::is_same_v<To, BFloat16>) {
    const float f = static_cast<float>(v);
    std::uint32_t bits;
    std::memcpy(&bits, &f, sizeof(bits));
    if (std::isnan(f)) return {static_cast<std::uint16_t>((bits >> 16) | 0x40)};
    return {static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
  } else if constexpr (kIsSmall<To>) {
    return {Encode<typename To::Code>(static_cast<float>(v))};
  } else if constexpr (std::is_same_v<To, Half>) {
    return {F32ToF16(static_cast<float>(v))};
  } else if constexpr (std::is_same_v<To, Int4>) {
    return {static_cast<std::int8_t>(static_cast<std::int8_t>(static_cast<std::uint64_t>(v) << 4) >> 4)};
  } else if constexpr (std::is_same_v<To, Int2>) {
    return {static_cast<std::int8_t>(static_cast<std::int8_t>(static_cast<std::uint64_t>(v) << 6) >> 6)};
  } else if constexpr (std::is_same_v<To, UInt4>) {
    return {static_cast<std::uint8_t>(static_cast<std::uint64_t>(v) & 15)};
  } else if constexpr (std::is_same_v<To, UInt2>) {
    return {static_cast<std::uint8_t>(static_cast<std::uint64_t>(v) & 3)};
  } else {
    return static_cast<To>(v);
  }
}

struct Walk {
  int rank = 0;  // number of dimensions outside the block
  std::int64_t shape[kMaxRank], from[kMaxRank], to[kMaxRank];
  std::int64_t n, from_n, to_n;  // the dimension with the smallest stride in `to`
  // The dimension with the smallest stride in `from`; m is 1 if it is the same dimension.
  std::int64_t m, from_m, to_m;
};

constexpr std::int64_t kLongRow = 1024;

Walk PlanWalk(const HostTensor& from, const HostTensor& to) {
  Walk w{};
  int inner = -1, other = -1;
  const auto smaller = [](const HostTensor& t, int d, int best) {
    return t.shape[d] > 1 && (best < 0 || std::abs(t.strides[d]) < std::abs(t.strides[best]));
  };
  for (int d = from.rank - 1; d >= 0; --d) {
    if (smaller(to, d, inner)) inner = d;
    if (smaller(from, d, other)) other = d;
  }
  if (other == inner) other = -1;
  w.n = inner < 0 ? 1 : to.shape[inner];
  w.from_n = inner < 0 ? 0 : from.strides[inner];
  w.to_n = inner < 0 ? 0 : to.strides[inner];
  w.m = other < 0 ? 1 : to.shape[other];
  w.from_m = other < 0 ? 0 : from.strides[other];
  w.to_m = other < 0 ? 0 : to.strides[other];
  // Merge dimensions that continue the innermost one into longer rows, up to a length that leaves enough rows
  // for the workers.
  bool merged[kMaxRank] = {};
  for (int d = from.rank - 1; d >= 0 && other < 0 && w.n < kLongRow; --d) {
    if (d == inner || from.strides[d] != w.n * w.from_n || to.strides[d] != w.n * w.to_n) continue;
    w.n *= to.shape[d];
    merged[d] = true;
  }
  for (int d = 0; d < from.rank; ++d) {
    if (d == inner || d == other || merged[d]) continue;
    w.shape[w.rank] = to.shape[d];
    w.from[w.rank] = from.strides[d];
    w.to[w.rank++] = to.strides[d];
  }
  return w;
}

constexpr std::int64_t kBlock = 16;

template <typename From, typename To>
void CopyBlock(const Walk& w, const From* from, To* to, std::int64_t m) {
  if (m == 1) {
    if (w.from_n == 1 && w.to_n == 1) {
      if constexpr (std::is_same_v<From, Half> && std::is_same_v<To, float>) {
        const auto* bits = reinterpret_cast<const std::uint16_t*>(from);
        return HasAvx512() ? avx512::HalfToFloat(bits, to, w.n) : avx2::HalfToFloat(bits, to, w.n);
      }
      if constexpr (std::is_same_v<From, float> && std::is_same_v<To, Half>) {
        auto* bits = reinterpret_cast<std::uint16_t*>(to);
        return HasAvx512() ? avx512::FloatToHalf(from, bits, w.n) : avx2::FloatToHalf(from, bits, w.n);
      }
      for (std::int64_t i = 0; i < w.n; ++i) to[i] = Convert<To>(from[i]);
    } else {
      for (std::int64_t i = 0; i < w.n; ++i) to[i * w.to_n] = Convert<To>(from[i * w.from_n]);
    }
    return;
  }
  for (std::int64_t i0 = 0; i0 < w.n; i0 += kBlock) {
    const std::int64_t i1 = std::min(i0 + kBlock, w.n);
    for (std::int64_t j = 0; j < m; ++j) {
      for (std::int64_t i = i0; i < i1; ++i) {
        to[i * w.to_n + j * w.to_m] = Convert<To>(from[i * w.from_n + j * w.from_m]);
      }
    }
  }
}

template <typename From, typename To>
void CopyTyped(ThreadPool& pool, const HostTensor& from, const HostTensor& to) {
  if (to.num_elements() == 0) return;
  const Walk w = PlanWalk(from, to);
  const std::int64_t blocks = (w.m + kBlock - 1) / kBlock;
  std::int64_t outer = blocks;
  for (int d = 0; d < w.rank; ++d) outer *= w.shape[d];
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / (w.n * std::min(w.m, kBlock)));
  ParallelFor(pool, outer, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t j = i % blocks * kBlock;
      std::int64_t rest = i / blocks;
      std::int64_t f = j * w.from_m, t = j * w.to_m;
      for (int d = w.rank - 1; d >= 0; --d) {
        f += rest % w.shape[d] * w.from[d];
        t += rest % w.shape[d] * w.to[d];
        rest /= w.shape[d];
      }
      CopyBlock(w, from.as<const From>() + f, to.as<To>() + t, std::min(kBlock, w.m - j));
    }
  });
}

// Calls f(T{}) with the C++ type of `type`.
template <typename F>
void WithType(DType type, F&& f) {
  switch (type) {
    case DType::kPred:
    case DType::kU8:
      return f(std::uint8_t{});
    case DType::kS8:
      return f(std::int8_t{});
    case DType::kS16:
      return f(std::int16_t{});
    case DType::kU16:
      return f(std::uint16_t{});
    case DType::kS32:
      return f(std::int32_t{});
    case DType::kU32:
      return f(std::uint32_t{});
    case DType::kS64:
      return f(std::int64_t{});
    case DType::kU64:
      return f(std::uint64_t{});
    case DType::kS4:
      return f(Int4{});
    case DType::kU4:
      return f(UInt4{});
    case DType::kS2:
      return f(Int2{});
    case DType::kU2:
      return f(UInt2{});
    case DType::kF16:
      return f(Half{});
    case DType::kBF16:
      return f(BFloat16{});
    case DType::kF32:
      return f(float{});
    case DType::kF64:
      return f(double{});
    case DType::kF4E2M1FN:
      return f(Small<F4E2M1FNFormat>{});
    case DType::kF8E3M4:
      return f(Small<F8E3M4Format>{});
    case DType::kF8E4M3:
      return f(Small<F8E4M3Format>{});
    case DType::kF8E4M3FN:
      return f(Small<F8E4M3FNFormat>{});
    case DType::kF8E4M3FNUZ:
      return f(Small<F8E4M3FNUZFormat>{});
    case DType::kF8E4M3B11FNUZ:
      return f(Small<F8E4M3B11FNUZFormat>{});
    case DType::kF8E5M2:
      return f(Small<F8E5M2Format>{});
    case DType::kF8E5M2FNUZ:
      return f(Small<F8E5M2FNUZFormat>{});
    default:
      std::abort();  // rejected when the operation was created
  }
}

template <typename T>
constexpr bool kIsFloat =
    std::is_floating_point_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> || kIsSmall<T>;
// Calls f for the types in which sums are computed.
template <typename T>
constexpr bool kIsSum = std::is_same_v<T, float> || std::is_same_v<T, double> ||
                        std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::int64_t>;

}  // namespace

void CopyConvert(ThreadPool& pool, const HostTensor& from, const HostTensor& to) {
  if (from.type == to.type && SizeOf(from.type) >= 4) {
    switch (SizeOf(from.type)) {
      case 4:
        return CopyTyped<std::uint32_t, std::uint32_t>(pool, from, to);
      case 8:
        return CopyTyped<std::uint64_t, std::uint64_t>(pool, from, to);
      default:
        return CopyTyped<std::complex<double>, std::complex<double>>(pool, from, to);
    }
  }
  WithType(from.type, [&](auto source) {
    WithType(to.type, [&](auto target) {
      using From = decltype(source);
      using To = decltype(target);
      if constexpr (kIsFloat<From> == kIsFloat<To> && (kIsSum<From> || kIsSum<To>)) {
        CopyTyped<From, To>(pool, from, to);
      } else {
        std::abort();  // rejected when the operation was created
      }
    });
  });
}

HostTensor DenseTensor(HostContext& context, const HostTensor& like, DType type, const int* order) {
  HostTensor dense = like;
  dense.type = type;
  std::int64_t step = 1;
  for (int i = like.rank - 1; i >= 0; --i) {
    dense.strides[order[i]] = step;
    step *= like.shape[order[i]];
  }
  dense.data = context.scratch.Allocate(static_cast<std::size_t>(step) * SizeOf(type));
  return dense;
}

HostTensor DenseCopy(HostContext& context, const HostTensor& from, DType type, const int* order) {
  const HostTensor dense = DenseTensor(context, from, type, order);
  CopyConvert(context.pool, from, dense);
  return dense;
}

}  // namespace ipu_model
