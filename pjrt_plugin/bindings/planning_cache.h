// Python: the plans of products and convolutions that one compilation has made.
#ifndef JAX_IPU_BINDINGS_PLANNING_CACHE_H_
#define JAX_IPU_BINDINGS_PLANNING_CACHE_H_

#include "hlo/Convolution.hpp"
#include "poplin/MatMul.hpp"

namespace jax_ipu::bindings {

struct PlanningCache {
  poplin::matmul::PlanningCache products;
  hlo::ConvolutionPlans convolutions;
};

}  // namespace jax_ipu::bindings

#endif  // JAX_IPU_BINDINGS_PLANNING_CACHE_H_
