// popops::scaledAddTo and its variants, as expressions.
#include "poplar/exceptions.hpp"
#include "popops/ElementWise.hpp"
#include "popops/ScaledAdd.hpp"

namespace popops {
namespace {

namespace pe = expr;
using poplar::Tensor;

void CheckShapes(const Tensor& a, const Tensor& b, const poplar::DebugContext& debug) {
  if (a.shape() == b.shape()) return;
  throw poplar::poplar_error(debug.getPathName() + ": popops::scaledAddTo needs tensors of one shape, not " +
                             a.shapeToString() + " and " + b.shapeToString());
}

// The operand in the type of A.
pe::Expr In(const pe::Expr& operand, const Tensor& of, const Tensor& a) {
  return of.elementType() == a.elementType() ? operand : pe::Cast(operand, a.elementType());
}

// A = scale_a A + scale_b B; without scale_a, A += scale_b B. Sums of half values are rounded once.
void Combine(poplar::Graph& graph, const Tensor& a, const Tensor& b, const pe::Expr* scale_a,
             const pe::Expr& scale_b, bool subtract, const std::vector<Tensor>& scales,
             poplar::program::Sequence& prog, const poplar::DebugContext& debug,
             const poplar::OptionFlags& options) {
  CheckShapes(a, b, debug);
  std::vector<Tensor> operands = {a, b};
  for (const Tensor& scale : scales) {
    if (scale.numElements() != 1)
      throw poplar::poplar_error(debug.getPathName() + ": popops::scaledAddTo: the scale " +
                                 scale.shapeToString() + " is not one element");
    operands.push_back(scale.reshape(std::vector<std::size_t>(a.rank(), 1)));
  }
  const pe::Expr x = scale_a != nullptr ? pe::Expr(pe::Mul(*scale_a, pe::_1)) : pe::Expr(pe::_1);
  const pe::Expr y = pe::Mul(scale_b, In(pe::_2, b, a));
  const pe::Expr result = subtract ? pe::Expr(pe::Sub(x, y)) : pe::Expr(pe::Add(x, y));
  mapInPlace(graph, result, operands, prog, debug, options);
}

pe::Expr Number(float value, const Tensor& a) {
  return pe::Const(static_cast<double>(value), a.elementType());
}

}  // namespace

void scaledAddTo(poplar::Graph& graph, const Tensor& A, const Tensor& B, float scaleB,
                 poplar::program::Sequence& prog, const poplar::DebugContext& debugContext,
                 const poplar::OptionFlags& options) {
  Combine(graph, A, B, nullptr, Number(scaleB, A), false, {}, prog, debugContext, options);
}

void scaledAddTo(poplar::Graph& graph, const Tensor& A, const Tensor& B, const Tensor& scaleB,
                 poplar::program::Sequence& prog, const poplar::DebugContext& debugContext,
                 const poplar::OptionFlags& options) {
  Combine(graph, A, B, nullptr, In(pe::_3, scaleB, A), false, {scaleB}, prog, debugContext, options);
}

void scaledSubtractFrom(poplar::Graph& graph, const Tensor& A, const Tensor& B, float scaleB,
                        poplar::program::Sequence& prog, const poplar::DebugContext& debugContext,
                        const poplar::OptionFlags& options) {
  Combine(graph, A, B, nullptr, Number(scaleB, A), true, {}, prog, debugContext, options);
}

void scaledSubtractFrom(poplar::Graph& graph, const Tensor& A, const Tensor& B, const Tensor& scaleB,
                        poplar::program::Sequence& prog, const poplar::DebugContext& debugContext,
                        const poplar::OptionFlags& options) {
  Combine(graph, A, B, nullptr, In(pe::_3, scaleB, A), true, {scaleB}, prog, debugContext, options);
}

void scaledAddTo(poplar::Graph& graph, const Tensor& A, float scaleA, const Tensor& B, float scaleB,
                 poplar::program::Sequence& prog, const poplar::DebugContext& debugContext,
                 const poplar::OptionFlags& options) {
  const pe::Expr scale = Number(scaleA, A);
  Combine(graph, A, B, &scale, Number(scaleB, A), false, {}, prog, debugContext, options);
}

void scaledAddTo(poplar::Graph& graph, const Tensor& A, const Tensor& scaleA, const Tensor& B,
                 const Tensor& scaleB, poplar::program::Sequence& prog,
                 const poplar::DebugContext& debugContext, const poplar::OptionFlags& options) {
  const pe::Expr scale = In(pe::_3, scaleA, A);
  Combine(graph, A, B, &scale, In(pe::_4, scaleB, A), false, {scaleA, scaleB}, prog, debugContext, options);
}

}  // namespace popops
