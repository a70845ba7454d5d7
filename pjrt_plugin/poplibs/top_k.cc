// Python: the largest or smallest elements along the last dimension, and sorts along it, by popops.
//
//   top_k(graph, tensor, k, largest, seq, name) -> (values, indices)
//     in IEEE's total order, the lower position first among equals; indices s32
//   sort(graph, keys, same, tensors, largest, seq, name) -> list[Tensor]
//     the tensors in the order of top_k of the keys, then the positions; tensor number `same`, unless it is
//     -1, is the keys themselves
#include <popops/ElementWise.hpp>
#include <popops/Expr.hpp>
#include <popops/Gather.hpp>
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

// Popops has a sort of keys with values, which is not stable, so the values are looked up by position.
std::vector<Tensor> Sort(Graph& graph, const Tensor& keys, int same, const std::vector<Tensor>& tensors,
                         bool largest, Sequence& sequence, const std::string& name) {
  namespace pe = popops::expr;
  const std::size_t n = keys.shape().back(), rows = keys.numElements() / n;
  const auto [values, places] = TopK(graph, keys, static_cast<unsigned>(n), largest, sequence, name);
  std::vector<Tensor> sorted;
  Tensor elements;  // where each is in the flattened tensors
  for (int i = 0; i < static_cast<int>(tensors.size()); ++i) {
    if (i == same) {
      sorted.push_back(values);
      continue;
    }
    if (!elements.valid()) {
      elements = places.reinterpret(poplar::UNSIGNED_INT).reshape({rows, n});
      std::vector<unsigned> begins(rows);
      for (std::size_t row = 0; row < rows; ++row) begins[row] = static_cast<unsigned>(row * n);
      const Tensor first = graph.addConstant(poplar::UNSIGNED_INT, {rows, 1}, begins.data(), name);
      graph.setTileMapping(first, 0);
      if (rows > 1) {
        const Tensor both = first.broadcast(static_cast<unsigned>(n), 1);
        elements = popops::map(graph, pe::Add(pe::_1, pe::_2), {elements, both}, sequence, name);
      }
    }
    const Tensor table = tensors[i].reshape({rows * n, 1});
    sorted.push_back(
        popops::gather(graph, table, elements.flatten(), 1, {1}, {1, 1}, {0}, {0}, sequence, name)
            .reshape(keys.shape()));
  }
  sorted.push_back(places);
  return sorted;
}

}  // namespace

void BindTopK(nb::module_& module) {
  module.def("top_k", &TopK);
  module.def("sort", &Sort);
}

}  // namespace jax_ipu::poplibs
