// The operations of reductions on single values and on vectors.
#ifndef IPU_MODEL_KERNELS_REDUCE_REDUCE_OPERATIONS_ISA_H_
#define IPU_MODEL_KERNELS_REDUCE_REDUCE_OPERATIONS_ISA_H_

#include <type_traits>

#include "kernels/reduce/reduce_functions.h"
#include "kernels/vector/convert.h"

namespace ipu_model::ISA_NAMESPACE {
namespace {

struct Add {
  template <typename T>
  static T Apply(T a, T b) {
    return static_cast<T>(a + b);
  }
  template <typename T, typename V>
  static void Into(V& a, const V& b) {
    a = a + b;
  }
};
struct Multiply {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(1u * a * b);  // int may overflow
    return static_cast<T>(a * b);
  }
  template <typename T, typename V>
  static void Into(V& a, const V& b) {
    a = a * b;
  }
};
struct And {
  template <typename T>
  static T Apply(T a, T b) {
    return static_cast<T>(a & b);
  }
  template <typename T, typename V>
  static void Into(V& a, const V& b) {
    a = a & b;
  }
};
struct Or {
  template <typename T>
  static T Apply(T a, T b) {
    return static_cast<T>(a | b);
  }
  template <typename T, typename V>
  static void Into(V& a, const V& b) {
    a = a | b;
  }
};
struct Xor {
  template <typename T>
  static T Apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
  template <typename T, typename V>
  static void Into(V& a, const V& b) {
    a = a ^ b;
  }
};
// NaN wins. Of two zeros, +0 wins in the maximum and -0 in the minimum (`kLargest` false).
template <bool kLargest>
struct Extreme {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      const T better = (kLargest ? a > b : a < b) ? a : b;
      T same;
      if constexpr (std::is_same_v<T, float>) {
        same = FloatOf(kLargest ? BitsOf(a) & BitsOf(b) : BitsOf(a) | BitsOf(b));
      } else {
        same = DoubleOf(kLargest ? BitsOf(a) & BitsOf(b) : BitsOf(a) | BitsOf(b));
      }
      const T ordered = a == b ? same : better;
      return a != a ? a : ordered;
    } else {
      return (kLargest ? a > b : a < b) ? a : b;
    }
  }
  template <typename T, typename V>
  static void Into(V& a, const V& b) {
    const V better = (kLargest ? a > b : a < b) ? a : b;
    if constexpr (std::is_floating_point_v<T>) {
      using Bits = decltype(a > b);
      const V same =
          kLargest ? reinterpret_cast<V>(reinterpret_cast<const Bits&>(a) & reinterpret_cast<const Bits&>(b))
                   : reinterpret_cast<V>(reinterpret_cast<const Bits&>(a) | reinterpret_cast<const Bits&>(b));
      const V ordered = a == b ? same : better;
      a = a != a ? a : ordered;
    } else {
      a = better;
    }
  }
};

// Returns find(operation, zero) for the operation on T, or {} if T has none. Integers are added and
// multiplied as unsigned, because signed overflow is undefined.
template <typename T, typename R, typename Find>
R ForOperation(ReduceOp op, Find&& find) {
  constexpr bool kFloat = std::is_floating_point_v<T>;
  using U = typename std::conditional_t<kFloat, std::enable_if<true, T>, std::make_unsigned<T>>::type;
  switch (op) {
    case ReduceOp::kAdd:
      return find(Add{}, U{});
    case ReduceOp::kMultiply:
      return find(Multiply{}, U{});
    case ReduceOp::kMaximum:
      return find(Extreme<true>{}, T{});
    case ReduceOp::kMinimum:
      return find(Extreme<false>{}, T{});
    default:
      break;
  }
  if constexpr (!kFloat) {
    if (op == ReduceOp::kAnd) return find(And{}, U{});
    if (op == ReduceOp::kOr) return find(Or{}, U{});
    if (op == ReduceOp::kXor) return find(Xor{}, U{});
  }
  return {};
}

}  // namespace
}  // namespace ipu_model::ISA_NAMESPACE

#endif  // IPU_MODEL_KERNELS_REDUCE_REDUCE_OPERATIONS_ISA_H_
