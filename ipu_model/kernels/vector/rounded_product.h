// Products that are rounded before they are added. Only for *_isa.cc files, which are compiled with FMA
// contraction.
#ifndef IPU_MODEL_KERNELS_VECTOR_ROUNDED_PRODUCT_H_
#define IPU_MODEL_KERNELS_VECTOR_ROUNDED_PRODUCT_H_

namespace ipu_model::ISA_NAMESPACE {

// a * b for vectors and scalars of floats. The compiler cannot contract it into an FMA.
template <typename A, typename B>
[[gnu::always_inline]] inline auto RoundedProduct(A a, B b) {
  auto product = a * b;
  asm("" : "+v"(product));
  return product;
}

}  // namespace ipu_model::ISA_NAMESPACE

#endif  // IPU_MODEL_KERNELS_VECTOR_ROUNDED_PRODUCT_H_
