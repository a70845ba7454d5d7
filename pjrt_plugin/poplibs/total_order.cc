#include "poplibs/total_order.h"

#include <popops/Cast.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Expr.hpp>

namespace jax_ipu::poplibs {

namespace pe = popops::expr;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

namespace {

constexpr int kInfinity = 0x7f800000, kWithoutSign = 0x7fffffff;

// The bits of floats with those of negative numbers turned around: integers in the order of the floats. Doing
// so twice gives the bits again.
pe::Any TurnedAround(const pe::Any& bits) {
  return pe::BitwiseXor(bits, pe::BitwiseAnd(pe::ShrSE(bits, pe::Const(31)), pe::Const(kWithoutSign)));
}

}  // namespace

Tensor InTotalOrder(Graph& graph, const Tensor& floats, std::optional<int> nan, Sequence& sequence,
                    const std::string& name) {
  const Tensor wide = floats.elementType() == poplar::HALF
                          ? popops::cast(graph, floats, poplar::FLOAT, sequence, name)
                          : floats;
  pe::Any keys = TurnedAround(pe::_1);
  if (nan) {
    const pe::Any is_nan = pe::Gt(pe::BitwiseAnd(pe::_1, pe::Const(kWithoutSign)), pe::Const(kInfinity));
    keys = pe::Select(pe::Const(*nan), keys, is_nan);
  }
  return popops::map(graph, keys, {wide.reinterpret(poplar::INT)}, sequence, name);
}

Tensor FromTotalOrder(Graph& graph, const Tensor& keys, const poplar::Type& type, Sequence& sequence,
                      const std::string& name) {
  const Tensor wide =
      popops::map(graph, TurnedAround(pe::_1), {keys}, sequence, name).reinterpret(poplar::FLOAT);
  return type == poplar::HALF ? popops::cast(graph, wide, poplar::HALF, sequence, name) : wide;
}

}  // namespace jax_ipu::poplibs
