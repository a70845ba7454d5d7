// Reductions of many short rows: a call, and the choice of a loop, for all of them together.
#include <immintrin.h>

#include <array>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/reduce/reduce_columns_isa.h"
#include "kernels/reduce/reduce_functions.h"
#include "kernels/reduce/reduce_operations_isa.h"
#include "kernels/vector/register_types_isa.h"

namespace ipu_model::ISA_NAMESPACE {
namespace {

struct AsStored {
  template <typename E>
  static E Load(E x) {
    return x;
  }
  template <typename T>
  static T Store(T x) {
    return x;
  }
};

// Floats as integers T of the same order, for extremes: -0 is below +0, and NaN is the best of all. Loops
// with comparisons that know both do not become loops over vectors.
template <typename T, bool kLargest>
struct AsOrdered {
  static constexpr int kSign = 8 * sizeof(T) - 1;
  static constexpr T kMost = std::numeric_limits<T>::max(), kBest = kLargest ? kMost : -kMost - 1;
  static constexpr T kInfinity = static_cast<T>(sizeof(T) == 4 ? 0x7f800000 : 0x7ff0000000000000);

  // For an integer or a vector of them.
  template <typename E>
  static E Load(E bits) {
    const E ordered = bits ^ ((bits >> kSign) & kMost), best = E{} + kBest;
    return (bits & kMost) > kInfinity ? best : ordered;
  }
  static T Store(T x) { return x ^ ((x >> kSign) & kMost); }
};

// Loops over rows of constant length become loops over vectors of rows.
template <typename F, typename As, typename T, std::int64_t kLength>
void Dense(T* __restrict total, const T* __restrict p, std::int64_t rows) {
#pragma GCC ivdep
  for (std::int64_t r = 0; r < rows; ++r) {
    T x = As::Load(p[r * kLength]);
#pragma GCC unroll 8
    for (std::int64_t i = 1; i < kLength; ++i) x = F::Apply(x, As::Load(p[r * kLength + i]));
    total[r] = As::Store(x);
  }
}

// Whether the low bits of a result depend on the low bits of the operands only.
template <typename F>
constexpr bool kLowBits = std::is_same_v<F, Add> || std::is_same_v<F, Multiply> || std::is_same_v<F, And> ||
                          std::is_same_v<F, Or> || std::is_same_v<F, Xor>;

// Rows that fill a word W: its bits are shifted to the low element.
template <typename F, typename T, typename W>
void Words(T* __restrict total, const T* __restrict p, std::int64_t rows) {
  constexpr int kBits = 8 * sizeof(T);
#pragma GCC ivdep
  for (std::int64_t r = 0; r < rows; ++r) {
    W w;
    std::memcpy(&w, p + r * static_cast<std::int64_t>(sizeof(W) / sizeof(T)), sizeof(w));
    W x = w;
#pragma GCC unroll 8
    for (unsigned shift = kBits; shift < 8 * sizeof(W); shift += kBits)
      x = static_cast<W>(F::Apply(x, static_cast<W>(w >> shift)));
    total[r] = static_cast<T>(x);
  }
}

// Sums of eight bytes each.
template <typename T>
void ByteSums(T* total, const T* p, std::int64_t rows) {
  std::int64_t r = 0;
#ifdef __AVX512F__
  for (; r + 8 <= rows; r += 8) {
    const __m512i sums = _mm512_sad_epu8(_mm512_loadu_si512(p + 8 * r), _mm512_setzero_si512());
    _mm_storel_epi64(reinterpret_cast<__m128i*>(total + r), _mm512_maskz_cvtepi64_epi8(0xff, sums));
  }
#else
  for (; r + 4 <= rows; r += 4) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8 * r));
    std::uint64_t sums[4];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums), _mm256_sad_epu8(bytes, _mm256_setzero_si256()));
    for (int k = 0; k < 4; ++k) total[r + k] = static_cast<T>(sums[k]);
  }
#endif
  if (r < rows) Words<Add, T, std::uint64_t>(total + r, p + 8 * r, rows - r);
}

// Combines the upper half of the low `kBytes` bytes with the lower half, down to one element.
template <typename F, typename T, int kBytes, typename V>
void Halve(V& sum) {
  if constexpr (kBytes > static_cast<int>(sizeof(T))) {
    __m128i bits;
    std::memcpy(&bits, &sum, sizeof(bits));
    bits = _mm_bsrli_si128(bits, kBytes / 2);
    V upper;
    std::memcpy(&upper, &bits, sizeof(upper));
    F::template Into<T>(sum, upper);
    Halve<F, T, kBytes / 2>(sum);
  }
}

// A row of integers, in any order, of at least one vector of 16 bytes.
template <typename F, typename As, typename T>
T IntegerRow(const T* p, std::int64_t n) {
  typedef T V __attribute__((vector_size(16)));
  constexpr std::int64_t kWidth = 16 / sizeof(T);
  V sum;
  std::memcpy(&sum, p, sizeof(sum));
  sum = As::Load(sum);
  std::int64_t i = kWidth;
  for (; i + kWidth <= n; i += kWidth) {
    V x;
    std::memcpy(&x, p + i, sizeof(x));
    F::template Into<T>(sum, As::Load(x));
  }
  if (i < n) {
    // The last vector again; elements that are already in the sum become neutral, where it matters.
    V x;
    std::memcpy(&x, p + n - kWidth, sizeof(x));
    x = As::Load(x);
    constexpr bool kOnce = std::is_same_v<F, Add> || std::is_same_v<F, Xor> || std::is_same_v<F, Multiply>;
    if constexpr (kOnce) {
      alignas(16) static constexpr std::array<std::uint8_t, 32> kRest = {
          0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
          0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
      V rest;
      std::memcpy(&rest, kRest.data() + (n - i) * static_cast<std::int64_t>(sizeof(T)), sizeof(rest));
      const V neutral = V{} + static_cast<T>(std::is_same_v<F, Multiply> ? 1 : 0);
      x = (x & rest) | (neutral & ~rest);
    }
    F::template Into<T>(sum, x);
  }
  Halve<F, T, 16>(sum);
  return As::Store(sum[0]);
}

template <typename F, typename As, typename T>
void ShortRows(void* total, const void* data, std::int64_t row_stride, std::int64_t rows, std::int64_t n) {
  T* const t = static_cast<T*>(total);
  const T* const p = static_cast<const T*>(data);
  if (row_stride == n) {
    if constexpr (std::is_integral_v<T> && kLowBits<F>) {
      switch (static_cast<std::size_t>(n) * sizeof(T)) {
        case 2:
          if constexpr (sizeof(T) < 2) return Words<F, T, std::uint16_t>(t, p, rows);
          break;
        case 4:
          if constexpr (sizeof(T) < 4) return Words<F, T, std::uint32_t>(t, p, rows);
          break;
        case 8:
          if constexpr (sizeof(T) == 1 && std::is_same_v<F, Add>) return ByteSums<T>(t, p, rows);
          if constexpr (sizeof(T) < 8) return Words<F, T, std::uint64_t>(t, p, rows);
          break;
        default:
          break;
      }
    }
    switch (n) {
      case 2:
        return Dense<F, As, T, 2>(t, p, rows);
      case 3:
        return Dense<F, As, T, 3>(t, p, rows);
      case 4:
        return Dense<F, As, T, 4>(t, p, rows);
      case 5:
        return Dense<F, As, T, 5>(t, p, rows);
      case 6:
        return Dense<F, As, T, 6>(t, p, rows);
      case 7:
        return Dense<F, As, T, 7>(t, p, rows);
      case 8:
        return Dense<F, As, T, 8>(t, p, rows);
      default:
        break;
    }
  }
  if constexpr (std::is_integral_v<T>) {
    if (n * static_cast<std::int64_t>(sizeof(T)) >= 16) {
      for (std::int64_t r = 0; r < rows; ++r) t[r] = IntegerRow<F, As>(p + r * row_stride, n);
      return;
    }
  }
  std::int64_t r = 0;
  if constexpr (std::is_floating_point_v<T>) {
    using Memory = typename VectorTypes<T>::Memory;
    for (; r + kLanes<T> <= rows; r += kLanes<T>) {
      typename VectorTypes<T>::Register sums{};
      CombineColumns<F>(p + r * row_stride, row_stride, 0, n, false, sums);
      *reinterpret_cast<Memory*>(t + r) = sums;
    }
  }
  // Several rows at once, because each operation waits for the one before.
  constexpr std::int64_t kRows = 4;
  for (; r + kRows <= rows; r += kRows) {
    const T* row[kRows];
    T x[kRows];
#pragma GCC unroll 4
    for (std::int64_t k = 0; k < kRows; ++k) x[k] = As::Load(*(row[k] = p + (r + k) * row_stride));
    for (std::int64_t i = 1; i < n; ++i) {
#pragma GCC unroll 4
      for (std::int64_t k = 0; k < kRows; ++k) x[k] = F::Apply(x[k], As::Load(row[k][i]));
    }
#pragma GCC unroll 4
    for (std::int64_t k = 0; k < kRows; ++k) t[r + k] = As::Store(x[k]);
  }
  for (; r < rows; ++r) {
    T x = As::Load(p[r * row_stride]);
    for (std::int64_t i = 1; i < n; ++i) x = F::Apply(x, As::Load(p[r * row_stride + i]));
    t[r] = As::Store(x);
  }
}

template <typename F, typename As, typename T>
void ShortRowsCall(const MicroArguments& m) {
  ShortRows<F, As, T>(m.result, m.operand[0], *static_cast<const std::int64_t*>(m.operand[1]), m.n,
                      m.immediate);
}

using Functions = std::pair<decltype(ReduceFunctions::short_rows), MicroFunction>;

template <typename F, typename As, typename T>
constexpr Functions kBoth = {ShortRows<F, As, T>, ShortRowsCall<F, As, T>};

template <bool kLargest, typename T>
Functions Choose(Extreme<kLargest>, T) {
  if constexpr (std::is_floating_point_v<T>) {
    using Ordered = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
    return kBoth<Extreme<kLargest>, AsOrdered<Ordered, kLargest>, Ordered>;
  } else {
    return kBoth<Extreme<kLargest>, AsStored, T>;
  }
}
template <typename F, typename T>
Functions Choose(F, T) {
  return kBoth<F, AsStored, T>;
}

}  // namespace

void FindShortRows(ReduceOp op, RegisterType type, ReduceFunctions* functions) {
  const Functions found = ForNumber<Functions>(type, [op](auto number) {
    return ForOperation<decltype(number), Functions>(
        op, [](auto operation, auto zero) { return Choose(operation, zero); });
  });
  functions->short_rows = found.first;
  functions->short_rows_call = found.second;
}

}  // namespace ipu_model::ISA_NAMESPACE
