// Row and lane loops of reductions. Rows are accumulated in 256 bytes of registers, whatever the register
// width, so that the order of a sum, and therefore its bits, does not depend on the instruction set.
#include <immintrin.h>

#include <cstring>
#include <type_traits>

#include "kernels/reduce/reduce_functions.h"
#include "kernels/reduce/reduce_operations_isa.h"
#include "kernels/vector/convert.h"
#include "kernels/vector/register_types_isa.h"
#include "kernels/vector/vector_types.h"

namespace ipu_model::ISA_NAMESPACE {
namespace {

constexpr int kRegisters = 256 / kVectorBytes;

// Combines sum[0 .. kRegisters - 1] into one value, half with half.
template <typename F, typename T, typename V>
T Combined(V (&sum)[kRegisters]) {
  constexpr int kAll = 256 / static_cast<int>(sizeof(T)), kLine = 64 / static_cast<int>(sizeof(T));
  alignas(64) T lane[kAll];
  std::memcpy(lane, sum, sizeof(lane));
  for (int i = 0; i < kLine; ++i) {
    const T first = F::Apply(lane[i], lane[i + kLine]);
    lane[i] = F::Apply(first, F::Apply(lane[i + 2 * kLine], lane[i + 3 * kLine]));
  }
  for (int half = kLine / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lane[i] = F::Apply(lane[i], lane[i + half]);
  }
  return lane[0];
}

// Vectors are passed by reference: by value, their calling convention would depend on the instruction set.
template <typename F, typename T>
void Row(const void* data, std::int64_t n, void* total) {
  using V = typename VectorTypes<T>::Register;
  constexpr std::int64_t kWidth = kLanes<T>;
  const T* p = static_cast<const T*>(data);
  T result = p[0];
  std::int64_t i = 1;
  if (n >= kRegisters * kWidth) {
    V sum[kRegisters];
    std::memcpy(sum, p, sizeof(sum));
    for (i = kRegisters * kWidth; i + kRegisters * kWidth <= n; i += kRegisters * kWidth) {
#pragma GCC unroll 8
      for (int v = 0; v < kRegisters; ++v) {
        V x;
        std::memcpy(&x, p + i + v * kWidth, sizeof(x));
        F::template Into<T>(sum[v], x);
      }
    }
    result = Combined<F, T>(sum);
  }
  for (; i < n; ++i) result = F::Apply(result, p[i]);
  *static_cast<T*>(total) = result;
}

// The processor's maximum and minimum return the first operand if it is better, and the second one otherwise,
// also for NaN. Unordered records whether any of many operands was NaN.
#ifdef __AVX512F__
template <bool kLargest>
__m512 Better(const __m512& a, const __m512& b) {
  constexpr __mmask16 kAll = 0xffff;
  return kLargest ? _mm512_maskz_max_ps(kAll, a, b) : _mm512_maskz_min_ps(kAll, a, b);
}
struct Unordered {
  unsigned found = 0;
  void Add(const __m512& a, const __m512& b) { found |= _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); }
  bool Any() const { return found != 0; }
};
// One bit for each lane.
unsigned EqualLanes(const __m512& a, const __m512& b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
#else
template <bool kLargest>
__m256 Better(const __m256& a, const __m256& b) {
  return kLargest ? _mm256_max_ps(a, b) : _mm256_min_ps(a, b);
}
struct Unordered {
  __m256 found = _mm256_setzero_ps();
  void Add(const __m256& a, const __m256& b) {
    found = _mm256_or_ps(found, _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
  }
  bool Any() const { return _mm256_movemask_ps(found) != 0; }
};
unsigned EqualLanes(const __m256& a, const __m256& b) {
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)));
}
#endif
template <bool kLargest>
__m128 Better4(const __m128& a, const __m128& b) {
  return kLargest ? _mm_max_ps(a, b) : _mm_min_ps(a, b);
}

template <bool kLargest>
float BestLane(const VectorTypes<float>::Register& lanes) {
  __m128 quarter[kVectorBytes / 16];
  std::memcpy(quarter, &lanes, sizeof(quarter));
  for (std::size_t half = kVectorBytes / 32; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) quarter[i] = Better4<kLargest>(quarter[i], quarter[i + half]);
  }
  const __m128 two = Better4<kLargest>(quarter[0], _mm_movehl_ps(quarter[0], quarter[0]));
  return _mm_cvtss_f32(Better4<kLargest>(two, _mm_movehdup_ps(two)));
}

// The best of n >= kLanes<float> values, by the processor's instruction: of two zeros it is either. Returns
// false if a value is NaN.
template <bool kLargest>
bool BestOf(const float* p, std::int64_t n, float* result) {
  using V = VectorTypes<float>::Register;
  using Memory = VectorTypes<float>::Memory;
  constexpr std::int64_t kWidth = kLanes<float>, kStep = 4 * kWidth;
  const auto at = [](const float* from) { return *reinterpret_cast<const Memory*>(from); };
  Unordered nan;
  V best = at(p);
  // The last step of either loop may read elements a second time.
  if (n >= kStep) {
    V more[3] = {at(p + kWidth), at(p + 2 * kWidth), at(p + 3 * kWidth)};
    for (std::int64_t i = 0; i < n; i += kStep) {
      const float* from = p + (i + kStep <= n ? i : n - kStep);
      const V x0 = at(from), x1 = at(from + kWidth), x2 = at(from + 2 * kWidth), x3 = at(from + 3 * kWidth);
      nan.Add(x0, x1);
      nan.Add(x2, x3);
      best = Better<kLargest>(x0, best);
      more[0] = Better<kLargest>(x1, more[0]);
      more[1] = Better<kLargest>(x2, more[1]);
      more[2] = Better<kLargest>(x3, more[2]);
    }
    best = Better<kLargest>(Better<kLargest>(best, more[0]), Better<kLargest>(more[1], more[2]));
  } else {
    for (std::int64_t i = 0; i < n; i += kWidth) {
      const V x = at(p + (i + kWidth <= n ? i : n - kWidth));
      nan.Add(x, x);
      best = Better<kLargest>(x, best);
    }
  }
  *result = BestLane<kLargest>(best);
  return !nan.Any();
}

// The processor's instruction finds every extreme that is neither NaN nor zero. The other cases are rare and
// run the loop with all rules again.
template <bool kLargest>
void ExtremeRow(const void* data, std::int64_t n, void* total) {
  float best = 0;
  if (n < kLanes<float> || !BestOf<kLargest>(static_cast<const float*>(data), n, &best) || best == 0.0f)
    return Row<Extreme<kLargest>, float>(data, n, total);
  *static_cast<float*>(total) = best;
}

template <typename F, typename T>
void Lanes(void* total, const void* data, std::int64_t stride, std::int64_t n) {
  T* t = static_cast<T*>(total);
  const T* p = static_cast<const T*>(data);
  if (stride == 1) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) t[i] = F::Apply(t[i], p[i]);
  } else if (stride == 0) {
    const T x = *p;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) t[i] = F::Apply(t[i], x);
  } else {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) t[i] = F::Apply(t[i], p[i * stride]);
  }
}

// Several rows are read at a time, so that a total is loaded and stored once for all of them. Narrow rows are
// read to their end, which is memory in order.
template <typename F, typename T>
void Columns(void* total, const void* data, std::int64_t row_stride, std::int64_t rows, std::int64_t n) {
  using V = typename VectorTypes<T>::Register;
  constexpr std::int64_t kWidth = kLanes<T>, kStrip = 4, kNarrow = 1024 / sizeof(T), kRows = 8;
  T* t = static_cast<T*>(total);
  const T* p = static_cast<const T*>(data);
  const std::int64_t most = n <= kNarrow ? rows : kRows;
  for (std::int64_t begin = 0; begin < rows; begin += most, p += most * row_stride) {
    const std::int64_t count = rows - begin < most ? rows - begin : most;
    std::int64_t i = 0;
    for (; i + kStrip * kWidth <= n; i += kStrip * kWidth) {
      V sum[kStrip];
      std::memcpy(sum, t + i, sizeof(sum));
      const T* from = p + i;
      for (std::int64_t r = 0; r < count; ++r, from += row_stride) {
#pragma GCC unroll 4
        for (int v = 0; v < kStrip; ++v) {
          V x;
          std::memcpy(&x, from + v * kWidth, sizeof(x));
          F::template Into<T>(sum[v], x);
        }
      }
      std::memcpy(t + i, sum, sizeof(sum));
    }
    for (; i + kWidth <= n; i += kWidth) {
      V sum;
      std::memcpy(&sum, t + i, sizeof(sum));
      const T* from = p + i;
      for (std::int64_t r = 0; r < count; ++r, from += row_stride) {
        V x;
        std::memcpy(&x, from, sizeof(x));
        F::template Into<T>(sum, x);
      }
      std::memcpy(t + i, &sum, sizeof(sum));
    }
    for (; i < n; ++i) {
      T sum = t[i];
      for (std::int64_t r = 0; r < count; ++r) sum = F::Apply(sum, p[r * row_stride + i]);
      t[i] = sum;
    }
  }
}

template <void (*kRow)(const void*, std::int64_t, void*)>
void RowCall(const MicroArguments& m) {
  kRow(m.operand[0], m.n, m.result);
}
template <typename F, typename T>
void LanesCall(const MicroArguments& m) {
  Lanes<F, T>(m.result, m.operand[0], m.immediate, m.n);
}

template <typename F, typename T>
void ColumnsCall(const MicroArguments& m) {
  Columns<F, T>(m.result, m.operand[0], *static_cast<const std::int64_t*>(m.operand[1]), m.immediate, m.n);
}

template <typename F, typename T>
ReduceFunctions Both() {
  ReduceFunctions functions;
  functions.row = Row<F, T>;
  functions.lanes = Lanes<F, T>;
  functions.columns = Columns<F, T>;
  functions.row_call = RowCall<Row<F, T>>;
  functions.lanes_call = LanesCall<F, T>;
  functions.columns_call = ColumnsCall<F, T>;
  return functions;
}
template <typename T, bool kLargest>
ReduceFunctions ExtremeOf() {
  ReduceFunctions functions = Both<Extreme<kLargest>, T>();
  if constexpr (std::is_same_v<T, float>) {
    functions.row = ExtremeRow<kLargest>;
    functions.row_call = RowCall<ExtremeRow<kLargest>>;
  }
  return functions;
}
template <typename T>
ReduceFunctions FindFor(ReduceOp op) {
  return ForOperation<T, ReduceFunctions>(op, [](auto operation, auto zero) {
    using F = decltype(operation);
    using U = decltype(zero);
    if constexpr (std::is_same_v<F, Extreme<true>>) return ExtremeOf<U, true>();
    if constexpr (std::is_same_v<F, Extreme<false>>) return ExtremeOf<U, false>();
    return Both<F, U>();
  });
}

template <typename T, bool kLargest>
bool Better(T a, T b) {
  return kLargest ? a > b : a < b;
}

template <typename T, typename I, bool kLargest>
void ArgumentLanes(void* best_value, void* best_index, const void* values, std::int64_t stride,
                   const void* indices, std::int64_t index_stride, std::int64_t n) {
  T* bv = static_cast<T*>(best_value);
  I* bi = static_cast<I*>(best_index);
  const T* v = static_cast<const T*>(values);
  const I* x = static_cast<const I*>(indices);
  const auto step = [&](std::int64_t i, T value, I index) {
    const T a = bv[i];
    const I ai = bi[i];
    const bool keep = static_cast<int>(Better<T, kLargest>(a, value)) | static_cast<int>(a != a);
    const bool keep_index =
        static_cast<int>(keep) | (static_cast<int>(a == value) & static_cast<int>(ai < index));
    bv[i] = keep ? a : value;
    bi[i] = keep_index ? ai : index;
  };
  if (stride == 1 && index_stride == 1) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) step(i, v[i], x[i]);
  } else if (stride == 1 && index_stride == 0) {
    const I index = *x;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) step(i, v[i], index);
  } else if (index_stride == 0) {
    const I index = *x;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) step(i, v[i * stride], index);
  } else {
    for (std::int64_t i = 0; i < n; ++i) step(i, v[i * stride], x[i * index_stride]);
  }
}

// Returns the first position of the smallest index among the values that equal the best, or -1 if none does.
template <typename T, typename I>
std::int64_t FirstOf(const T* v, const I* x, std::int64_t index_stride, std::int64_t n, T best) {
  std::int64_t at = -1;
  const auto consider = [&](std::int64_t i) {
    if (at < 0 || x[i * index_stride] < x[at * index_stride]) at = i;
  };
  if constexpr (std::is_same_v<T, float>) {
    using V = VectorTypes<float>::Register;
    constexpr std::int64_t kWidth = kLanes<float>;
    const V wanted = V{} + best;
    std::int64_t begin = 0;
    for (; begin + kWidth <= n; begin += kWidth) {
      V lanes;
      std::memcpy(&lanes, v + begin, sizeof(lanes));
      for (unsigned equal = EqualLanes(lanes, wanted); equal != 0; equal &= equal - 1)
        consider(begin + __builtin_ctz(equal));
    }
    for (; begin < n; ++begin)
      if (v[begin] == best) consider(begin);
  } else {
    constexpr std::int64_t kGroup = 64;
    for (std::int64_t begin = 0; begin < n; begin += kGroup) {
      const std::int64_t end = begin + kGroup < n ? begin + kGroup : n;
      int found = 0;
      for (std::int64_t i = begin; i < end; ++i) found |= v[i] == best ? 1 : 0;
      if (found == 0) continue;
      for (std::int64_t i = begin; i < end; ++i)
        if (v[i] == best) consider(i);
    }
  }
  return at;
}

// Finds the best value first, then the smallest index among its occurrences.
template <typename T, typename I, bool kLargest>
void ArgumentRow(const void* values, const void* indices, std::int64_t index_stride, std::int64_t n,
                 void* best_value, void* best_index) {
  const T* v = static_cast<const T*>(values);
  const I* x = static_cast<const I*>(indices);
  T best;
  bool found = false;
  if constexpr (std::is_same_v<T, float>) found = n >= kLanes<float> && BestOf<kLargest>(v, n, &best);
  if (!found) Row<Extreme<kLargest>, T>(v, n, &best);
  std::int64_t at = 0;
  if (best != best) {
    while (v[at] == v[at]) ++at;
  } else {
    at = FirstOf(v, x, index_stride, n, best);
  }
  *static_cast<T*>(best_value) = v[at];
  *static_cast<I*>(best_index) = x[at * index_stride];
}

template <typename T, typename I, bool kLargest>
void ArgumentRowCall(const MicroArguments& m) {
  const auto& strides = *static_cast<const ArgumentStrides*>(m.operand[3]);
  ArgumentRow<T, I, kLargest>(m.operand[0], m.operand[1], strides.indices, m.n, m.result,
                              const_cast<void*>(m.operand[2]));
}
template <typename T, typename I, bool kLargest>
void ArgumentLanesCall(const MicroArguments& m) {
  const auto& strides = *static_cast<const ArgumentStrides*>(m.operand[3]);
  ArgumentLanes<T, I, kLargest>(m.result, const_cast<void*>(m.operand[2]), m.operand[0], strides.values,
                                m.operand[1], strides.indices, m.n);
}

template <typename T, typename I, bool kLargest>
ArgumentFunctions ArgumentsOf() {
  ArgumentFunctions functions;
  functions.row = ArgumentRow<T, I, kLargest>;
  functions.lanes = ArgumentLanes<T, I, kLargest>;
  functions.row_call = ArgumentRowCall<T, I, kLargest>;
  functions.lanes_call = ArgumentLanesCall<T, I, kLargest>;
  return functions;
}
template <typename T, typename I>
ArgumentFunctions Arguments(bool largest) {
  return largest ? ArgumentsOf<T, I, true>() : ArgumentsOf<T, I, false>();
}
// JAX's indices are s32 or s64.
template <typename T>
ArgumentFunctions ArgumentsFor(bool largest, RegisterType index) {
  switch (index) {
    case RegisterType::kS32:
      return Arguments<T, std::int32_t>(largest);
    case RegisterType::kS64:
      return Arguments<T, std::int64_t>(largest);
    default:
      return {};
  }
}

}  // namespace

ReduceFunctions FindReduce(ReduceOp op, RegisterType type) {
  ReduceFunctions functions =
      ForNumber<ReduceFunctions>(type, [op](auto zero) { return FindFor<decltype(zero)>(op); });
  if (functions.row == nullptr) return functions;
  FindShortRows(op, type, &functions);
  FindRows(op, type, &functions);
  return functions;
}

ArgumentFunctions FindArgument(bool largest, RegisterType value, RegisterType index) {
  ArgumentFunctions functions = ForNumber<ArgumentFunctions>(
      value, [largest, index](auto zero) { return ArgumentsFor<decltype(zero)>(largest, index); });
  FindArgumentRows(largest, value, index, &functions);
  return functions;
}

}  // namespace ipu_model::ISA_NAMESPACE
