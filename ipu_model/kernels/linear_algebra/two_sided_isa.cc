#include <algorithm>
#include <type_traits>

#include "kernels/linear_algebra/reflectors.h"
#include "kernels/linear_algebra/two_sided.h"
#include "kernels/vector/plain_complex_isa.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

template <typename T>
T Conj(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return x;
  } else {
    return {x.re, -x.im};
  }
}
template <typename T>
T One() {
  if constexpr (std::is_floating_point_v<T>) {
    return 1;
  } else {
    return {1, 0};
  }
}

// The sum of conj(v_i) x_i, where v_0 stands for 1.
template <typename T>
T Project(std::int64_t n, const T* v, const T* x) {
  // Several sums, so that the loop vectorises.
  constexpr std::int64_t kLanes = 16;
  T sums[kLanes] = {};
  sums[0] = x[0];
  std::int64_t i = 1;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane)
      sums[lane] = sums[lane] + Conj(v[i + lane]) * x[i + lane];
  for (; i < n; ++i) sums[i % kLanes] = sums[i % kLanes] + Conj(v[i]) * x[i];
  T sum{};
  for (const T& part : sums) sum = sum + part;
  return sum;
}

// y += s x.
template <typename T>
void Add(std::int64_t n, T s, const T* x, T* y) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = y[i] + s * x[i];
}

template <typename T>
T Negative(T x) {
  return T{} - x;
}

template <typename T>
const T* As(const void* p) {
  return static_cast<const T*>(p);
}

}  // namespace

void ProjectColumns(const ColumnBlock& block, std::int64_t pivot, const void* v, const void* tau,
                    bool conjugate, void* z) {
  VisitNumber(block.type, [&](auto zero) {
    using T = decltype(zero);
    const T factor = Conj(*As<T>(tau));
    for (std::int64_t c = 0; c < block.count; ++c) {
      const T* const x = As<T>(block.data) + c * block.n;
      const T product = factor * Project(block.n - pivot, As<T>(v) + pivot, x + pivot);
      static_cast<T*>(z)[c] = conjugate ? Conj(product) : product;
    }
  });
}

void MultiplyVector(DType type, std::int64_t rows, std::int64_t columns, std::int64_t stride, const void* a,
                    const void* v, const void* tau, const void* u, const void* z, void* y) {
  VisitNumber(type, [&](auto zero) {
    using T = decltype(zero);
    T* const sums = static_cast<T*>(y);
    std::fill(sums, sums + rows, T{});
    T common{};
    for (std::int64_t k = 0; k < columns; ++k) {
      const T factor = k == 0 ? One<T>() : As<T>(v)[k];
      Add(rows, factor, As<T>(a) + k * stride, sums);
      if (z != nullptr) common = common + As<T>(z)[k] * factor;
    }
    const T scale = *As<T>(tau);
    for (std::int64_t r = 0; r < rows; ++r)
      sums[r] = scale * (z == nullptr ? sums[r] : sums[r] - As<T>(u)[r] * common);
  });
}

void FindRowReflector(DType type, std::int64_t n, std::int64_t pivot, std::int64_t stride, const void* row,
                      const void* z, void* w, void* tau) {
  VisitNumber(type, [&](auto zero) {
    using T = decltype(zero);
    T* const to = static_cast<T*>(w);
    std::fill(to, to + pivot, T{});
    for (std::int64_t c = pivot; c < n; ++c)
      to[c] = Conj(As<T>(row)[(c - pivot) * stride] - As<T>(z)[c - pivot]);
  });
  FindReflector(type, n, pivot, 1, w, tau);
}

void ReflectBothSides(const ColumnBlock& block, std::int64_t pivot, const void* v, const void* tau,
                      const void* y, const void* z) {
  VisitNumber(block.type, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t below = block.n - pivot, begin = z == nullptr ? pivot : 0;
    const T *const reflector = As<T>(v) + pivot, *const product = As<T>(y) + (pivot - begin);
    const T common = Conj(*As<T>(tau)) * Project(below, reflector, product);
    for (std::int64_t c = std::max<std::int64_t>(0, pivot - block.first); c < block.count; ++c) {
      const std::int64_t place = block.first + c - pivot;
      const T from_right = place == 0 ? One<T>() : Conj(reflector[place]);
      const T from_left = (z == nullptr ? Conj(product[place]) : As<T>(z)[c]) - common * from_right;
      T* const x = static_cast<T*>(block.data) + c * block.n;
      Add(block.n - begin, Negative(from_right), As<T>(y), x + begin);
      x[pivot] = x[pivot] - from_left;
      Add(below - 1, Negative(from_left), reflector + 1, x + pivot + 1);
    }
  });
}

void SubtractBoth(const ColumnBlock& block, std::int64_t pivot, const void* u, const void* z, const void* y,
                  const void* w) {
  VisitNumber(block.type, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t c = std::max<std::int64_t>(0, pivot - block.first); c < block.count; ++c) {
      const std::int64_t column = block.first + c;
      const T from_right = column == pivot ? One<T>() : Conj(As<T>(w)[column]);
      T* const x = static_cast<T*>(block.data) + c * block.n;
      Add(block.n - pivot, Negative(As<T>(z)[c]), As<T>(u) + pivot, x + pivot);
      Add(block.n - pivot, Negative(from_right), As<T>(y), x + pivot);
    }
  });
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
