// popnn's non-linearities, from elementwise operations and reductions.
#include <cmath>
#include <string>
#include <vector>

#include "poplar/exceptions.hpp"
#include "popnn/NonLinearity.hpp"
#include "popops/ElementWise.hpp"
#include "popops/Reduce.hpp"

namespace popnn {
namespace {

namespace pe = popops::expr;
using poplar::Tensor;
using poplar::program::Sequence;

pe::Expr Number(double value, const Tensor& t) { return pe::Const(value, t.elementType()); }

pe::Expr ElementWise(NonLinearityType type, const Tensor& t) {
  switch (type) {
    case NonLinearityType::SIGMOID:
      return pe::Sigmoid(pe::_1);
    case NonLinearityType::HARD_SIGMOID:
      return pe::Max(Number(0, t),
                     pe::Min(Number(1, t), pe::Add(pe::Mul(pe::_1, Number(0.2, t)), Number(0.5, t))));
    case NonLinearityType::RELU:
      return pe::Relu(pe::_1);
    case NonLinearityType::TANH:
      return pe::Tanh(pe::_1);
    case NonLinearityType::GELU: {
      const pe::Expr cubic = pe::Add(Number(1, t), pe::Mul(Number(0.044715, t), pe::Mul(pe::_1, pe::_1)));
      const pe::Expr inner = pe::Mul(pe::Mul(pe::_1, Number(0.7978845608, t)), cubic);
      return pe::Mul(pe::Mul(Number(0.5, t), pe::_1), pe::Add(Number(1, t), pe::Tanh(inner)));
    }
    case NonLinearityType::GELU_ERF:
      return pe::GeluErf(pe::_1);
    default:
      return pe::Mul(pe::_1, pe::Sigmoid(pe::_1));  // SWISH
  }
}

bool IsSoftmax(NonLinearityType type) {
  return type == NonLinearityType::SOFTMAX || type == NonLinearityType::SOFTMAX_STABLE ||
         type == NonLinearityType::SOFTMAX_SCALED;
}

// [..., n] -> [..., 1], reduced over the innermost dimension.
Tensor OverRows(poplar::Graph& graph, const Tensor& t, popops::Operation operation, Sequence& prog,
                const poplar::DebugContext& debug) {
  const std::size_t last = t.rank() - 1;
  return popops::reduce(graph, t, {last}, operation, prog, debug).expand({last});
}

Tensor Softmax(poplar::Graph& graph, NonLinearityType type, const Tensor& t, Sequence& prog,
               const poplar::DebugContext& debug) {
  Tensor powers;
  if (type == NonLinearityType::SOFTMAX) {
    powers = popops::exp(graph, t, prog, debug);
  } else {
    const Tensor max = OverRows(graph, t, popops::Operation::MAX, prog, debug);
    powers = popops::map(graph, pe::Exp(pe::Sub(pe::_1, pe::_2)), {t, max}, prog, debug);
  }
  const Tensor sum = OverRows(graph, powers, popops::Operation::ADD, prog, debug);
  const double scale = type == NonLinearityType::SOFTMAX_SCALED ? static_cast<double>(SOFTMAX_SCALING) : 1;
  const Tensor factor = popops::map(graph, pe::Divide(Number(scale, t), pe::_1), {sum}, prog, debug);
  popops::mapInPlace(graph, pe::Mul(pe::_1, pe::_2), {powers, factor}, prog, debug);
  return powers;
}

void Check(NonLinearityType type, const Tensor& t, const poplar::DebugContext& debug) {
  const poplar::Type element = t.elementType();
  if (element != poplar::FLOAT && element != poplar::HALF) {
    throw poplar::poplar_error(debug.getPathName() + ": popnn::nonLinearity takes FLOAT or HALF, not " +
                               element.toString());
  }
  if (IsSoftmax(type) && t.rank() == 0)
    throw poplar::poplar_error(debug.getPathName() + ": popnn::nonLinearity: a softmax needs a dimension");
}

}  // namespace

Tensor nonLinearity(poplar::Graph& graph, NonLinearityType nonLinearityType, const Tensor& t, Sequence& prog,
                    const poplar::DebugContext& debugContext) {
  Check(nonLinearityType, t, debugContext);
  if (IsSoftmax(nonLinearityType)) return Softmax(graph, nonLinearityType, t, prog, debugContext);
  return popops::map(graph, ElementWise(nonLinearityType, t), {t}, prog, debugContext);
}

void nonLinearityInPlace(poplar::Graph& graph, NonLinearityType nonLinearityType, const Tensor& t,
                         Sequence& prog, const poplar::DebugContext& debugContext) {
  Check(nonLinearityType, t, debugContext);
  if (IsSoftmax(nonLinearityType)) {
    prog.add(poplar::program::Copy(Softmax(graph, nonLinearityType, t, prog, debugContext), t, false,
                                   debugContext));
  } else {
    popops::mapInPlace(graph, ElementWise(nonLinearityType, t), {t}, prog, debugContext);
  }
}

}  // namespace popnn
