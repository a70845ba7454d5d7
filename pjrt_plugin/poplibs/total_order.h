// Floats as integers in IEEE's total order: popops compares floats as numbers, where NaN has no place.
#ifndef JAX_IPU_POPLIBS_TOTAL_ORDER_H_
#define JAX_IPU_POPLIBS_TOTAL_ORDER_H_

#include <optional>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <string>

namespace jax_ipu::poplibs {

// f32 and f16 as INT of the same shape, and back. Where `nan` is given, each NaN becomes it.
poplar::Tensor InTotalOrder(poplar::Graph& graph, const poplar::Tensor& floats, std::optional<int> nan,
                            poplar::program::Sequence& sequence, const std::string& name);
poplar::Tensor FromTotalOrder(poplar::Graph& graph, const poplar::Tensor& keys, const poplar::Type& type,
                              poplar::program::Sequence& sequence, const std::string& name);

}  // namespace jax_ipu::poplibs

#endif  // JAX_IPU_POPLIBS_TOTAL_ORDER_H_
