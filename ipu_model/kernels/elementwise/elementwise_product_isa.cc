// f64 sums with a product that is rounded first. The vectors are explicit, because the compiler would
// contract the products of loops that it vectorises itself.
#include "kernels/elementwise/program/micro_loop.h"
#include "kernels/vector/rounded_product.h"
#include "kernels/vector/vector_types.h"

namespace ipu_model::ISA_NAMESPACE {
namespace {

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

using Doubles = VectorTypes<double>::Register;
using DoublesInMemory = VectorTypes<double>::Memory;

template <bool kScalar>
Doubles Load(const Operand<double, kScalar>& x, std::int64_t i) {
  if constexpr (kScalar) {
    return x.value - Doubles{};  // keeps the sign of zero
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
  const std::int64_t n = m.n;
  std::int64_t i = 0;
  for (; i + kLanes<double> <= n; i += kLanes<double>) {
    *reinterpret_cast<DoublesInMemory*>(r + i) = F::Apply(RoundedProduct(Load(a, i), Load(b, i)), Load(c, i));
  }
  for (; i < n; ++i) r[i] = F::Apply(RoundedProduct(a(i), b(i)), c(i));
}

template <typename F>
void Product(const MicroArguments& m) {
  ForForm(m.scalar, [&m](auto form) { ProductLoop<F, decltype(form)::value>(m); });
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
