// Python: the largest or smallest elements along the last dimension, by popops.
//
//   top_k(graph, tensor, k, largest, seq, name) -> (values, indices)
//     in IEEE's total order, the lower position first among equals; indices s32
#include <popops/TopK.hpp>
#include <utility>

#include "poplibs/bindings.h"
#include "poplibs/total_order.h"

namespace jax_ipu::poplibs {
namespace {

std::pair<Tensor, Tensor> TopK(Graph& graph, const Tensor& tensor, unsigned k, bool largest,
                               Sequence& sequence, const std::string& name) {
  const poplar::Type type = tensor.elementType();
  const bool is_float = type == poplar::FLOAT || type == poplar::HALF;
  const Tensor keys = is_float ? InTotalOrder(graph, tensor, std::nullopt, sequence, name) : tensor;
  const popops::TopKParams params(
      k, largest, largest ? popops::SortOrder::DESCENDING : popops::SortOrder::ASCENDING, true);
  auto [values, places] = popops::topKWithPermutation(graph, sequence, keys, params, name);
  if (is_float) values = FromTotalOrder(graph, values, type, sequence, name);
  return {values, places.reinterpret(poplar::INT)};
}

}  // namespace

void BindTopK(nb::module_& module) { module.def("top_k", &TopK); }

}  // namespace jax_ipu::poplibs
