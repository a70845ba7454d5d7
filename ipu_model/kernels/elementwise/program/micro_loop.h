// Loops over blocks for the interpreter's block functions: one template per number of operands. A scalar
// operand is read once, so each combination of scalar operands is a loop that vectorises. The count is read
// once too, because the compiler must assume that the written bytes alias it.
#ifndef IPU_MODEL_KERNELS_ELEMENTWISE_PROGRAM_MICRO_LOOP_H_
#define IPU_MODEL_KERNELS_ELEMENTWISE_PROGRAM_MICRO_LOOP_H_

#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/elementwise/program/micro_op.h"

namespace ipu_model::ISA_NAMESPACE {

template <typename T, bool kScalar>
struct Operand {
  const T* p;
  T value;
  explicit Operand(const void* data) : p(static_cast<const T*>(data)), value(*p) {}
  T operator()(std::int64_t i) const {
    if constexpr (kScalar) {
      return value;
    } else {
      return p[i];
    }
  }
};

// F: static R Apply(A).
template <typename F, typename A, typename R = A>
void Unary(const MicroArguments& m) {
  const A* a = static_cast<const A*>(m.operand[0]);
  R* r = static_cast<R*>(m.result);
#pragma GCC ivdep
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = F::Apply(a[i]);
}

template <typename F, typename A, typename R, int kForm>
void BinaryLoop(const MicroArguments& m) {
  const Operand<A, (kForm & 1) != 0> a(m.operand[0]);
  const Operand<A, (kForm & 2) != 0> b(m.operand[1]);
  R* r = static_cast<R*>(m.result);
#pragma GCC ivdep
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = F::Apply(a(i), b(i));
}

// F: static R Apply(A, A).
template <typename F, typename A, typename R = A>
void Binary(const MicroArguments& m) {
  switch (m.scalar & 3) {
    case 1:
      return BinaryLoop<F, A, R, 1>(m);
    case 2:
      return BinaryLoop<F, A, R, 2>(m);
    default:  // both are scalars, so n is 1
      return BinaryLoop<F, A, R, 0>(m);
  }
}

template <typename F, typename A, typename B, typename R, int kForm>
void TernaryLoop(const MicroArguments& m) {
  const Operand<A, (kForm & 1) != 0> a(m.operand[0]);
  const Operand<B, (kForm & 2) != 0> b(m.operand[1]);
  const Operand<B, (kForm & 4) != 0> c(m.operand[2]);
  R* r = static_cast<R*>(m.result);
#pragma GCC ivdep
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = F::Apply(a(i), b(i), c(i));
}

// Calls loop(form) with the form, the set of scalar operands among three, as a compile-time constant.
template <typename Loop>
void ForForm(unsigned scalar, const Loop& loop) {
  switch (scalar & 7) {
    case 1:
      return loop(std::integral_constant<int, 1>{});
    case 2:
      return loop(std::integral_constant<int, 2>{});
    case 3:
      return loop(std::integral_constant<int, 3>{});
    case 4:
      return loop(std::integral_constant<int, 4>{});
    case 5:
      return loop(std::integral_constant<int, 5>{});
    case 6:
      return loop(std::integral_constant<int, 6>{});
    default:  // all are scalars, so n is 1
      return loop(std::integral_constant<int, 0>{});
  }
}

// F: static R Apply(A, B, B).
template <typename F, typename A, typename B = A, typename R = B>
void Ternary(const MicroArguments& m) {
  ForForm(m.scalar, [&m](auto form) { TernaryLoop<F, A, B, R, decltype(form)::value>(m); });
}

template <typename F, typename A, int kForm>
void QuaternaryLoop(const MicroArguments& m) {
  const Operand<A, (kForm & 1) != 0> a(m.operand[0]);
  const Operand<A, (kForm & 2) != 0> b(m.operand[1]);
  const Operand<A, (kForm & 4) != 0> c(m.operand[2]);
  const Operand<A, (kForm & 8) != 0> d(m.operand[3]);
  A* r = static_cast<A*>(m.result);
#pragma GCC ivdep
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = F::Apply(a(i), b(i), c(i), d(i));
}
template <typename F, typename A, int... kForm>
MicroFunction QuaternaryForm(unsigned form, std::integer_sequence<int, kForm...>) {
  static constexpr MicroFunction kLoops[] = {QuaternaryLoop<F, A, kForm>...};
  return kLoops[form];
}

// F: static A Apply(A, A, A, A).
template <typename F, typename A>
void Quaternary(const MicroArguments& m) {
  const unsigned form = m.scalar & 15;  // if all are scalars, n is 1
  QuaternaryForm<F, A>(form == 15 ? 0 : form, std::make_integer_sequence<int, 15>())(m);
}

}  // namespace ipu_model::ISA_NAMESPACE

#endif  // IPU_MODEL_KERNELS_ELEMENTWISE_PROGRAM_MICRO_LOOP_H_
