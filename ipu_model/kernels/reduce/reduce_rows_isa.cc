// Reductions of many rows, as many at a time as a vector has lanes: their last steps are then operations on
// vectors. Each row is combined as `row` does it, to the same bits.
#include <type_traits>

#include "kernels/reduce/reduce_columns_isa.h"
#include "kernels/reduce/reduce_functions.h"
#include "kernels/reduce/reduce_operations_isa.h"
#include "kernels/vector/register_types_isa.h"

namespace ipu_model::ISA_NAMESPACE {
namespace {

// The accumulators of a row, and how many of them hold 64 bytes.
constexpr int kAccumulators = 256 / kVectorBytes, kLine = 64 / kVectorBytes;

template <typename F, typename T>
struct Rows {
  using Vector = typename VectorTypes<T>::Register;
  using Memory = typename VectorTypes<T>::Memory;
  static constexpr std::int64_t kN = kLanes<T>, kStep = kAccumulators * kN;

  static Vector Applied(Vector a, const Vector& b) {
    F::template Into<T>(a, b);
    return a;
  }

  // The first n elements of a row, a multiple of kStep, in one vector.
  [[gnu::always_inline]] static Vector Folded(const T* p, std::int64_t n) {
    Vector sum[kAccumulators];
#pragma GCC unroll 8
    for (int v = 0; v < kAccumulators; ++v) sum[v] = *reinterpret_cast<const Memory*>(p + v * kN);
    for (std::int64_t i = kStep; i < n; i += kStep) {
#pragma GCC unroll 8
      for (int v = 0; v < kAccumulators; ++v) {
        const Vector x =
            *reinterpret_cast<const Memory*>(p + i + v * kN);  // not by reference, which is aligned
        F::template Into<T>(sum[v], x);
      }
    }
#pragma GCC unroll 2
    for (int v = 0; v < kLine; ++v) {
      F::template Into<T>(sum[v], sum[v + kLine]);
      F::template Into<T>(sum[v + 2 * kLine], sum[v + 3 * kLine]);
      F::template Into<T>(sum[v], sum[v + 2 * kLine]);
    }
    if constexpr (kLine == 2) F::template Into<T>(sum[0], sum[1]);
    return sum[0];
  }

  // Lane i of the result is what the lanes of v[i] combine to, half with half.
  [[gnu::always_inline]] static Vector OfLanes(Vector (&v)[kN]) {
#pragma GCC unroll 4
    for (int half = kN / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
      for (int i = 0; i < half; ++i)
        v[i] = Applied(Interleave<T>::Low(v[i], v[i + half]), Interleave<T>::High(v[i], v[i + half]));
    }
    return v[0];
  }

  // kN rows.
  static void Group(T* total, const T* p, std::int64_t stride, std::int64_t n) {
    const std::int64_t whole = n / kStep * kStep;
    Vector row[kN];
#pragma GCC unroll 16
    for (int r = 0; r < kN; ++r) row[r] = Folded(p + r * stride, whole);
    Vector result = OfLanes(row);
    CombineColumns<F>(p, stride, whole, n, true, result);
    *reinterpret_cast<Memory*>(total) = result;
  }

  static std::int64_t Run(void* total, const void* data, std::int64_t stride, std::int64_t rows,
                          std::int64_t n) {
    std::int64_t r = 0;
    for (; r + kN <= rows; r += kN)
      Group(static_cast<T*>(total) + r, static_cast<const T*>(data) + r * stride, stride, n);
    return r;
  }
};

}  // namespace

void FindRows(ReduceOp op, RegisterType type, ReduceFunctions* functions) {
  using Function = decltype(ReduceFunctions::rows);
  functions->rows = ForNumber<Function>(type, [op](auto number) {
    return ForOperation<decltype(number), Function>(op, [](auto operation, auto zero) -> Function {
      using T = decltype(zero);
      using F = decltype(operation);
      constexpr bool kExtreme = std::is_same_v<F, Extreme<true>> || std::is_same_v<F, Extreme<false>>;
      // Transpose knows elements of 4 and 8 bytes; extremes of floats have a faster row.
      if constexpr (sizeof(T) >= 4 && !(kExtreme && std::is_floating_point_v<T>)) {
        return Rows<F, T>::Run;
      } else {
        return nullptr;
      }
    });
  });
}

}  // namespace ipu_model::ISA_NAMESPACE
