// Python: reductions, by popops.
//
//   reduce(graph, tensor, operation, dims, seq, name, unrounded) -> Tensor
//     unrounded: sums and products of half are float
#include <limits>
#include <map>
#include <popops/Reduce.hpp>

#include "poplibs/bindings.h"
#include "poplibs/expression.h"
#include "poplibs/total_order.h"

namespace jax_ipu::poplibs {
namespace {

// The largest or smallest of floats. As numbers popops loses NaN, and begins with a finite number; as
// integers in the order of the floats both are right, once every NaN is beyond all numbers on the side that
// wins.
Tensor Extreme(Graph& graph, const Tensor& tensor, bool largest, const Shape& dims, Sequence& sequence,
               const std::string& name) {
  const int nan = largest ? std::numeric_limits<int>::max() : std::numeric_limits<int>::min();
  const Tensor keys = InTotalOrder(graph, tensor, nan, sequence, name);
  const popops::Operation operation = largest ? popops::Operation::MAX : popops::Operation::MIN;
  const Tensor found = popops::reduce(graph, keys, dims, popops::ReduceParams(operation), sequence, name);
  return FromTotalOrder(graph, found, tensor.elementType(), sequence, name);
}

Tensor Reduce(Graph& graph, const Tensor& tensor, const std::string& operation, const Shape& dims,
              Sequence& sequence, const std::string& name, bool unrounded) {
  static const std::map<std::string, popops::Operation> table = {
      {"add", popops::Operation::ADD},         {"multiply", popops::Operation::MUL},
      {"maximum", popops::Operation::MAX},     {"minimum", popops::Operation::MIN},
      {"and", popops::Operation::LOGICAL_AND}, {"or", popops::Operation::LOGICAL_OR}};
  const auto found = table.find(operation);
  if (found == table.end()) throw Lacks("popops has no reduction by " + operation);
  const bool is_extreme = operation == "maximum" || operation == "minimum";
  if (is_extreme && (tensor.elementType() == poplar::FLOAT || tensor.elementType() == poplar::HALF))
    return Extreme(graph, tensor, operation == "maximum", dims, sequence, name);
  const popops::ReduceParams params(found->second);
  // The sums and products of integers without sign have no vertices, and the bits of those with sign.
  if (tensor.elementType() == poplar::UNSIGNED_INT && !is_extreme)
    return popops::reduce(graph, tensor.reinterpret(poplar::INT), dims, params, sequence, name)
        .reinterpret(poplar::UNSIGNED_INT);
  const poplar::Type type = unrounded ? poplar::FLOAT : tensor.elementType();
  return popops::reduce(graph, tensor, type, dims, params, sequence, name);
}

}  // namespace

void BindReduction(nb::module_& module) { module.def("reduce", &Reduce); }

}  // namespace jax_ipu::poplibs
