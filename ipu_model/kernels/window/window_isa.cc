// Vector loops of pooling, cumulative operations and the gradient of max pooling.
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/product/gemm_tile.h"
#include "kernels/vector/shuffle.h"
#include "kernels/window/window_strip.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

template <typename T>
using Vector = typename VectorTypes<T>::Register;
template <typename T>
using Memory = typename VectorTypes<T>::Memory;
// The integer type of the width of T, for lane masks and shuffle indices.
template <typename T>
using Index = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

template <typename T>
constexpr bool kFloating = std::is_floating_point_v<T>;

// Operates on the elements of an integer vector as unsigned, so that sums and products wrap.
template <typename T, typename V>
struct UnsignedVector {
  typedef std::make_unsigned_t<T> Type __attribute__((vector_size(sizeof(V))));
};
template <typename T, typename V>
using Unsigned = typename UnsignedVector<T, V>::Type;

// V: a scalar or a vector of T. NaN wins, and +0 is larger than -0, as in elementwise maximum.
template <typename T>
struct Add {
  static constexpr T kIdentity = kFloating<T> ? T(-0.0) : T{};  // +0 would turn -0 into +0
  template <typename V>
  [[gnu::always_inline]] static V Apply(V a, V b) {
    if constexpr (std::is_same_v<V, std::int32_t> || std::is_same_v<V, std::int64_t>) {
      using U = std::make_unsigned_t<V>;
      return static_cast<V>(static_cast<U>(a) + static_cast<U>(b));
    } else if constexpr (std::is_integral_v<T>) {
      using U = Unsigned<T, V>;
      return reinterpret_cast<V>(reinterpret_cast<U>(a) + reinterpret_cast<U>(b));
    } else {
      return a + b;
    }
  }
};
template <typename T>
struct Multiply {
  static constexpr T kIdentity = T{1};
  template <typename V>
  [[gnu::always_inline]] static V Apply(V a, V b) {
    if constexpr (std::is_same_v<V, std::int32_t> || std::is_same_v<V, std::int64_t>) {
      using U = std::make_unsigned_t<V>;
      return static_cast<V>(static_cast<U>(a) * static_cast<U>(b));
    } else if constexpr (std::is_integral_v<T>) {
      using U = Unsigned<T, V>;
      return reinterpret_cast<V>(reinterpret_cast<U>(a) * reinterpret_cast<U>(b));
    } else {
      return a * b;
    }
  }
};

// Combines the bits of two equal floats. With zeros of different sign, "and" gives +0 and "or" gives -0.
template <bool kAnd, typename T, typename V>
[[gnu::always_inline]] inline V CombineBits(V a, V b) {
  if constexpr (std::is_same_v<V, T>) {
    Index<T> x, y;
    __builtin_memcpy(&x, &a, sizeof(x));
    __builtin_memcpy(&y, &b, sizeof(y));
    const Index<T> z = kAnd ? x & y : x | y;
    __builtin_memcpy(&a, &z, sizeof(a));
    return a;
  } else {
    using I = Vector<Index<T>>;
    const I x = reinterpret_cast<I>(a), y = reinterpret_cast<I>(b);
    return reinterpret_cast<V>(kAnd ? x & y : x | y);
  }
}

// The identities of maximum and minimum.
template <typename T>
constexpr T Lowest() {
  if constexpr (kFloating<T>) {
    return -std::numeric_limits<T>::infinity();
  } else {
    return std::numeric_limits<T>::min();
  }
}
template <typename T>
constexpr T Highest() {
  if constexpr (kFloating<T>) {
    return std::numeric_limits<T>::infinity();
  } else {
    return std::numeric_limits<T>::max();
  }
}

template <typename T>
struct Maximum {
  static constexpr T kIdentity = Lowest<T>();
  template <typename V>
  [[gnu::always_inline]] static V Apply(V a, V b) {
    const V larger = a > b ? a : b;
    if constexpr (!kFloating<T>) {
      return larger;
    } else {
      const V ordered = a == b ? CombineBits<true, T>(a, b) : larger;
      return a != a ? a : ordered;
    }
  }
};
template <typename T>
struct Minimum {
  static constexpr T kIdentity = Highest<T>();
  template <typename V>
  [[gnu::always_inline]] static V Apply(V a, V b) {
    const V smaller = a < b ? a : b;
    if constexpr (!kFloating<T>) {
      return smaller;
    } else {
      const V ordered = a == b ? CombineBits<false, T>(a, b) : smaller;
      return a != a ? a : ordered;
    }
  }
};

template <typename T>
[[gnu::always_inline]] inline Vector<T> Load(const T* p) {
  return *reinterpret_cast<const Memory<T>*>(p);
}
template <typename T>
[[gnu::always_inline]] inline void Store(T* p, Vector<T> v) {
  *reinterpret_cast<Memory<T>*>(p) = v;
}
template <typename T>
[[gnu::always_inline]] inline Vector<T> Broadcast(T value) {
  return value - Vector<T>{};
}

template <typename T, typename Op>
void ReduceRow(const WindowStrip<T>& s, const T* a, T* c) {
  const Vector<T> init = Broadcast(s.init);
  std::int64_t j = 0;
  for (; j + 2 * kLanes<T> <= s.columns; j += 2 * kLanes<T>) {
    Vector<T> x = init, y = init;
    for (std::int64_t i = 0; i < s.num_offsets; ++i) {
      const T* from = a + s.offsets[i] + j;
      x = Op::Apply(x, Load(from));
      y = Op::Apply(y, Load(from + kLanes<T>));
    }
    Store(c + j, x);
    Store(c + j + kLanes<T>, y);
  }
  for (; j < s.columns; j += kLanes<T>) {
    const LaneMask<T> mask(static_cast<int>(s.columns - j < kLanes<T> ? s.columns - j : kLanes<T>));
    Vector<T> x = init;
    for (std::int64_t i = 0; i < s.num_offsets; ++i) x = Op::Apply(x, mask.Load(a + s.offsets[i] + j));
    mask.Store(c + j, x);
  }
}

template <typename T, typename Op>
void Reduce(const WindowStrip<T>& strip) {
  WindowStrip<T> s = strip;
  if (s.a_column != 1 || s.c_column != 1) {
    for (std::int64_t r = 0; r < s.rows; ++r) {
      for (std::int64_t j = 0; j < s.columns; ++j) {
        const T* from = s.a + r * s.a_row + j * s.a_column;
        T x = s.init;
        for (std::int64_t i = 0; i < s.num_offsets; ++i) x = Op::Apply(x, from[s.offsets[i]]);
        s.c[r * s.c_row + j * s.c_column] = x;
      }
    }
    return;
  }
  if (s.a_row == s.columns && s.c_row == s.columns) {
    s.columns *= s.rows;
    s.rows = 1;
  }
  for (std::int64_t r = 0; r < s.rows; ++r) ReduceRow<T, Op>(s, s.a + r * s.a_row, s.c + r * s.c_row);
}

template <typename T, typename Op>
void Scan(const ScanStrip<T>& s) {
  if (s.a_column != 1 || s.c_column != 1) {
    for (std::int64_t j = 0; j < s.columns; ++j) {
      T sum = s.init;
      for (std::int64_t i = 0; i < s.steps; ++i) {
        sum = Op::Apply(sum, s.a[i * s.a_step + j * s.a_column]);
        s.c[i * s.c_step + j * s.c_column] = sum;
      }
    }
    return;
  }
  constexpr int kVectors = 4;  // a few cache lines of every row per pass
  std::int64_t j = 0;
  for (; j + kVectors * kLanes<T> <= s.columns; j += kVectors * kLanes<T>) {
    Vector<T> sums[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[v] = Broadcast(s.init);
    for (std::int64_t i = 0; i < s.steps; ++i) {
      const T* from = s.a + i * s.a_step + j;
      T* to = s.c + i * s.c_step + j;
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sums[v] = Op::Apply(sums[v], Load(from + v * kLanes<T>));
        Store(to + v * kLanes<T>, sums[v]);
      }
    }
  }
  for (; j < s.columns; j += kLanes<T>) {
    const LaneMask<T> mask(static_cast<int>(s.columns - j < kLanes<T> ? s.columns - j : kLanes<T>));
    Vector<T> sum = Broadcast(s.init);
    for (std::int64_t i = 0; i < s.steps; ++i) {
      sum = Op::Apply(sum, mask.Load(s.a + i * s.a_step + j));
      mask.Store(s.c + i * s.c_step + j, sum);
    }
  }
}

// Lane i of the result is lane i - kShift of v (backwards: i + kShift), or the identity if there is none.
template <typename T, typename Op, int kShift, bool kBackwards>
[[gnu::always_inline]] inline Vector<T> Shift(Vector<T> v) {
  Vector<Index<T>> lanes;
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<T>; ++i) {
    const int from = kBackwards ? i + kShift : i - kShift;
    lanes[i] = from < 0 || from >= kLanes<T> ? kLanes<T> + i : from;
  }
  return Shuffle(v, Broadcast(Op::kIdentity), lanes);
}

template <typename T, typename Op, bool kBackwards>
[[gnu::always_inline]] inline Vector<T> Prefix(Vector<T> v) {
  const auto combine = [](Vector<T> shifted, Vector<T> own) {
    return kBackwards ? Op::Apply(own, shifted) : Op::Apply(shifted, own);
  };
  v = combine(Shift<T, Op, 1, kBackwards>(v), v);
  v = combine(Shift<T, Op, 2, kBackwards>(v), v);
  if constexpr (kLanes<T> > 4) v = combine(Shift<T, Op, 4, kBackwards>(v), v);
  if constexpr (kLanes<T> > 8) v = combine(Shift<T, Op, 8, kBackwards>(v), v);
  return v;
}

template <typename T, typename Op>
T ScanRow(const T* a, T* c, std::int64_t n, T init, bool backwards) {
  T carry = init;
  const std::int64_t whole = n / kLanes<T> * kLanes<T>;
  if (!backwards) {
    for (std::int64_t i = 0; i < whole; i += kLanes<T>) {
      const Vector<T> sums = Op::Apply(Broadcast(carry), Prefix<T, Op, false>(Load(a + i)));
      Store(c + i, sums);
      carry = sums[kLanes<T> - 1];
    }
    for (std::int64_t i = whole; i < n; ++i) c[i] = carry = Op::Apply(carry, a[i]);
  } else {
    for (std::int64_t i = n; i > whole; --i) c[i - 1] = carry = Op::Apply(carry, a[i - 1]);
    for (std::int64_t i = whole - kLanes<T>; i >= 0; i -= kLanes<T>) {
      const Vector<T> sums = Op::Apply(Prefix<T, Op, true>(Load(a + i)), Broadcast(carry));
      Store(c + i, sums);
      carry = sums[0];
    }
  }
  return carry;
}

template <typename T>
[[gnu::always_inline]] inline Vector<Index<T>> Compare(ScalarOp op, Vector<T> a, Vector<T> b) {
  switch (op) {
    case ScalarOp::kGe:
      return a >= b;
    case ScalarOp::kGt:
      return a > b;
    case ScalarOp::kLe:
      return a <= b;
    default:
      return a < b;
  }
}

template <typename T>
[[gnu::always_inline]] inline bool CompareOne(ScalarOp op, T a, T b) {
  switch (op) {
    case ScalarOp::kGe:
      return a >= b;
    case ScalarOp::kGt:
      return a > b;
    case ScalarOp::kLe:
      return a <= b;
    default:
      return a < b;
  }
}

template <typename T, ScalarOp kOp>
void SelectAndAddOf(const SelectStrip<T>& s) {
  using Lanes = Vector<Index<T>>;
  if (s.columns == 1) {
    T selected = s.operand[s.operand_offsets[0]];
    std::int64_t tap = 0;
    for (std::int64_t i = 1; i < s.taps; ++i) {
      const T candidate = s.operand[s.operand_offsets[i]];
      const bool keep = CompareOne(kOp, selected, candidate);
      selected = keep ? selected : candidate;
      tap = keep ? tap : i;
    }
    if (s.disjoint) {
      for (std::int64_t i = 0; i < s.taps; ++i) s.result[s.result_offsets[i]] = s.init;
    }
    T& to = s.result[s.result_offsets[tap]];
    to = Add<T>::Apply(to, *s.source);
    return;
  }
  for (std::int64_t j = 0; j < s.columns; j += kLanes<T>) {
    const LaneMask<T> mask(static_cast<int>(s.columns - j < kLanes<T> ? s.columns - j : kLanes<T>));
    Vector<T> selected = mask.Load(s.operand + s.operand_offsets[0] + j);
    Lanes tap{};
    for (std::int64_t i = 1; i < s.taps; ++i) {
      const Vector<T> candidate = mask.Load(s.operand + s.operand_offsets[i] + j);
      const Lanes keep = Compare<T>(kOp, selected, candidate);
      selected = keep ? selected : candidate;
      tap = keep ? tap : static_cast<Index<T>>(i) - Lanes{};
    }
    const Vector<T> source = mask.Load(s.source + j);
    if (s.disjoint) {
      const Vector<T> init = Broadcast(s.init), sum = init + source;
      for (std::int64_t i = 0; i < s.taps; ++i) {
        mask.Store(s.result + s.result_offsets[i] + j,
                   tap == static_cast<Index<T>>(i) - Lanes{} ? sum : init);
      }
      continue;
    }
    for (std::int64_t i = 0; i < s.taps; ++i) {
      T* to = s.result + s.result_offsets[i] + j;
      const Vector<T> old = mask.Load(to);
      mask.Store(to, tap == static_cast<Index<T>>(i) - Lanes{} ? old + source : old);
    }
  }
}

}  // namespace

template <typename T>
WindowFunctions<T> GetWindowFunctions(WindowCombiner combiner) {
  switch (combiner) {
    case WindowCombiner::kAdd:
      return {Reduce<T, Add<T>>, Scan<T, Add<T>>, ScanRow<T, Add<T>>, Add<T>::kIdentity};
    case WindowCombiner::kMultiply:
      return {Reduce<T, Multiply<T>>, Scan<T, Multiply<T>>, ScanRow<T, Multiply<T>>, Multiply<T>::kIdentity};
    case WindowCombiner::kMaximum:
      return {Reduce<T, Maximum<T>>, Scan<T, Maximum<T>>, ScanRow<T, Maximum<T>>, Maximum<T>::kIdentity};
    case WindowCombiner::kMinimum:
      return {Reduce<T, Minimum<T>>, Scan<T, Minimum<T>>, ScanRow<T, Minimum<T>>, Minimum<T>::kIdentity};
    default:
      return {};
  }
}

template <typename T>
void SelectAndAdd(const SelectStrip<T>& strip) {
  switch (strip.comparison) {
    case ScalarOp::kGe:
      return SelectAndAddOf<T, ScalarOp::kGe>(strip);
    case ScalarOp::kGt:
      return SelectAndAddOf<T, ScalarOp::kGt>(strip);
    case ScalarOp::kLe:
      return SelectAndAddOf<T, ScalarOp::kLe>(strip);
    default:
      return SelectAndAddOf<T, ScalarOp::kLt>(strip);
  }
}

#define INSTANTIATE(T)                                                        \
  template WindowFunctions<T> GetWindowFunctions<T>(WindowCombiner combiner); \
  template void SelectAndAdd<T>(const SelectStrip<T>& strip);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(std::int32_t)
INSTANTIATE(std::uint32_t)
INSTANTIATE(std::int64_t)
INSTANTIATE(std::uint64_t)
#undef INSTANTIATE

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
