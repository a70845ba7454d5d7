// Python: the largest or smallest elements along the last dimension, by popops.
//
//   top_k(graph, tensor, k, largest, seq, name) -> (values, indices)
//     in IEEE's total order, the lower position first among equals; indices s32
#include <popops/Cast.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Expr.hpp>
#include <popops/TopK.hpp>
#include <utility>

#include "poplibs/bindings.h"

namespace jax_ipu::poplibs {
namespace {

namespace pe = popops::expr;

// popops compares floats as numbers, where NaN has no place. As integers the bits of floats are in the total
// order, once those of negative numbers are turned around; doing so twice gives the bits again.
Tensor TurnAround(Graph& graph, const Tensor& bits, Sequence& sequence, const std::string& name) {
  return popops::map(
      graph, pe::BitwiseXor(pe::_1, pe::BitwiseAnd(pe::ShrSE(pe::_1, pe::Const(31)), pe::Const(0x7fffffff))),
      {bits}, sequence, name);
}

std::pair<Tensor, Tensor> TopK(Graph& graph, const Tensor& tensor, unsigned k, bool largest,
                               Sequence& sequence, const std::string& name) {
  const poplar::Type type = tensor.elementType();
  const bool is_float = type == poplar::FLOAT || type == poplar::HALF;
  Tensor keys = tensor;
  if (type == poplar::HALF) keys = popops::cast(graph, keys, poplar::FLOAT, sequence, name);
  if (is_float) keys = TurnAround(graph, keys.reinterpret(poplar::INT), sequence, name);
  const popops::TopKParams params(
      k, largest, largest ? popops::SortOrder::DESCENDING : popops::SortOrder::ASCENDING, true);
  auto [values, places] = popops::topKWithPermutation(graph, sequence, keys, params, name);
  if (is_float) values = TurnAround(graph, values, sequence, name).reinterpret(poplar::FLOAT);
  if (type == poplar::HALF) values = popops::cast(graph, values, poplar::HALF, sequence, name);
  return {values, places.reinterpret(poplar::INT)};
}

}  // namespace

void BindTopK(nb::module_& module) { module.def("top_k", &TopK); }

}  // namespace jax_ipu::poplibs
