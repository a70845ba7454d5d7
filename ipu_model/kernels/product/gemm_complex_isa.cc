// Complex matrix products with few terms per sum. Compiled per instruction set.
#include <algorithm>
#include <cstdint>

#include "kernels/product/gemm_problem.h"
#include "kernels/product/gemm_tile.h"
#include "kernels/vector/rounded_product.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

// Complex multiply-adds from which a second worker pays, equivalent to about 48^3 real ones.
constexpr std::int64_t kParallelWork = 16 << 10;

template <typename T>
struct Plane {
  const T *re, *im;
};

// Multiplies a row of A by B's planes: for every k, a padded row of real parts and one of imaginary parts.
template <typename T>
class ShortSums {
 public:
  using Vector = typename VectorTypes<T>::Register;
  using Memory = typename VectorTypes<T>::Memory;

  ShortSums(HostContext& context, const GemmProblem& p)
      : p_(p),
        padded_((p.n + kLanes<T> - 1) / kLanes<T> * kLanes<T>),
        planes_(context.scratch.Allocate<T>(static_cast<std::size_t>(2 * p.groups * p.k * padded_))) {}

  void Run(HostContext& context) const {
    const std::int64_t rows_of_b = p_.groups * p_.k, rows = p_.groups * p_.m;
    ParallelFor(context.pool, rows_of_b, std::max<std::int64_t>(1, kParallelWork / padded_),
                [&](std::int64_t begin, std::int64_t end) {
                  for (std::int64_t i = begin; i < end; ++i) SplitRow(i);
                });
    ParallelFor(context.pool, rows, std::max<std::int64_t>(1, kParallelWork / (padded_ * p_.k)),
                [&](std::int64_t begin, std::int64_t end) {
                  for (std::int64_t i = begin; i < end; ++i) Row(i / p_.m, i % p_.m);
                });
  }

 private:
  Plane<T> PlaneOf(std::int64_t row) const {
    const T* const re = planes_ + 2 * row * padded_;
    return {re, re + padded_};
  }

  void SplitRow(std::int64_t row) const {
    const T* const from =
        static_cast<const T*>(p_.b.data) + 2 * (row / p_.k * p_.b.group + row % p_.k * p_.b.row);
    T *const re = planes_ + 2 * row * padded_, *const im = re + padded_;
    for (std::int64_t j = 0; j < p_.n; ++j) {
      re[j] = from[2 * j * p_.b.column];
      im[j] = from[2 * j * p_.b.column + 1];
    }
    std::fill(re + p_.n, re + padded_, T{});
    std::fill(im + p_.n, im + padded_, T{});
  }

  void Row(std::int64_t group, std::int64_t row) const {
    const T* const a = static_cast<const T*>(p_.a.data) + 2 * (group * p_.a.group + row * p_.a.row);
    T re[kShortComplexSum], im[kShortComplexSum];
    for (std::int64_t k = 0; k < p_.k; ++k) {
      re[k] = a[2 * k * p_.a.column];
      im[k] = a[2 * k * p_.a.column + 1];
    }
    T* const c = static_cast<T*>(const_cast<void*>(p_.c.data)) + 2 * (group * p_.c.group + row * p_.c.row);
    for (std::int64_t j = 0; j < p_.n; j += kLanes<T>) {
      Vector re_re{}, im_im{}, re_im{}, im_re{};
      for (std::int64_t k = 0; k < p_.k; ++k) {
        const Plane<T> plane = PlaneOf(group * p_.k + k);
        const Vector b_re = *reinterpret_cast<const Memory*>(plane.re + j),
                     b_im = *reinterpret_cast<const Memory*>(plane.im + j);
        re_re += RoundedProduct(b_re, re[k]);
        im_im += RoundedProduct(b_im, im[k]);
        re_im += RoundedProduct(b_im, re[k]);
        im_re += RoundedProduct(b_re, im[k]);
      }
      Store(re_re - im_im, re_im + im_re, c + 2 * j * p_.c.column, p_.n - j);
    }
  }

  // Stores the first `count` lanes.
  void Store(const Vector& re, const Vector& im, T* to, std::int64_t count) const {
    alignas(kVectorBytes) T parts[2][kLanes<T>];
    *reinterpret_cast<Memory*>(parts[0]) = re;
    *reinterpret_cast<Memory*>(parts[1]) = im;
    if (count >= kLanes<T> && p_.c.column == 1) {
      for (int l = 0; l < kLanes<T>; ++l) {
        to[2 * l] = parts[0][l];
        to[2 * l + 1] = parts[1][l];
      }
      return;
    }
    for (std::int64_t l = 0; l < std::min<std::int64_t>(count, kLanes<T>); ++l) {
      to[2 * l * p_.c.column] = parts[0][l];
      to[2 * l * p_.c.column + 1] = parts[1][l];
    }
  }

  const GemmProblem& p_;
  std::int64_t padded_;
  T* planes_;
};

}  // namespace

void RunShortComplex(HostContext& context, const GemmProblem& problem) {
  if (problem.accumulator == DType::kC64) {
    ShortSums<float>(context, problem).Run(context);
  } else {
    ShortSums<double>(context, problem).Run(context);
  }
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
