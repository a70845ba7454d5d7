// Sums with a rounded product, of f64. The vectors are explicit: loops that the compiler vectorises it
// contracts as well.
#include "pjrt_plugin/ipu_model/kernels/micro_loop.h"
#include "pjrt_plugin/ipu_model/kernels/rounded_product.h"

namespace ipu_model::ISA_NAMESPACE {
namespace {

#ifdef __AVX512F__
constexpr int kRegisterBytes = 64;
#else
constexpr int kRegisterBytes = 32;
#endif

struct ProductPlus {
  template <typename V>
  static V Apply(V product, V c) {
    return product + c;
  }
};
struct ProductMinus {
  template <typename V>
  static V Apply(V product, V c) {
    return product - c;
  }
};
struct MinusProduct {
  template <typename V>
  static V Apply(V product, V c) {
    return c - product;
  }
};

typedef double Doubles __attribute__((vector_size(kRegisterBytes)));
typedef double DoublesInMemory
    __attribute__((vector_size(kRegisterBytes), aligned(sizeof(double)), may_alias));

template <bool kScalar>
Doubles Load(const Operand<double, kScalar>& x, std::int64_t i) {
  if constexpr (kScalar) {
    return x.value - Doubles{};  // keeps the sign of a zero
  } else {
    return *reinterpret_cast<const DoublesInMemory*>(x.p + i);
  }
}

template <typename F, int kForm>
void ProductLoop(const MicroArguments& m) {
  const Operand<double, (kForm & 1) != 0> a(m.operand[0]);
  const Operand<double, (kForm & 2) != 0> b(m.operand[1]);
  const Operand<double, (kForm & 4) != 0> c(m.operand[2]);
  double* r = static_cast<double*>(m.result);
  constexpr std::int64_t kLanes = kRegisterBytes / sizeof(double);
  const std::int64_t n = m.n;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    *reinterpret_cast<DoublesInMemory*>(r + i) = F::Apply(RoundedProduct(Load(a, i), Load(b, i)), Load(c, i));
  }
  for (; i < n; ++i) r[i] = F::Apply(RoundedProduct(a(i), b(i)), c(i));
}

template <typename F>
void Product(const MicroArguments& m) {
  switch (m.scalar & 7) {
    case 1:
      return ProductLoop<F, 1>(m);
    case 2:
      return ProductLoop<F, 2>(m);
    case 3:
      return ProductLoop<F, 3>(m);
    case 4:
      return ProductLoop<F, 4>(m);
    case 5:
      return ProductLoop<F, 5>(m);
    case 6:
      return ProductLoop<F, 6>(m);
    default:  // all scalar: then n is 1
      return ProductLoop<F, 0>(m);
  }
}

}  // namespace

MicroFunction FindProduct(FusedOp op, RegisterType type) {
  if (type != RegisterType::kF64) return nullptr;
  switch (op) {
    case FusedOp::kProductPlus:
      return Product<ProductPlus>;
    case FusedOp::kProductMinus:
      return Product<ProductMinus>;
    case FusedOp::kMinusProduct:
      return Product<MinusProduct>;
    default:
      return nullptr;
  }
}

}  // namespace ipu_model::ISA_NAMESPACE
