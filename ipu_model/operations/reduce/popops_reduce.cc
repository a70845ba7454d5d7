// popops::reduce in terms of the general reduction.
#include <cmath>
#include <limits>
#include <string>

#include "core/graph/compute_set.h"
#include "core/program/program_node.h"
#include "hlo/Reduce.hpp"
#include "operations/elementwise/popops_expression.h"
#include "poplar/exceptions.hpp"
#include "popops/Cast.hpp"
#include "popops/ElementWise.hpp"
#include "popops/Reduce.hpp"

namespace popops {
namespace {

namespace pe = expr;
using ipu_model::DType;
using poplar::Tensor;

pe::Expr Body(Operation op) {
  switch (op) {
    case Operation::MUL:
      return pe::Mul(pe::_1, pe::_2);
    case Operation::MIN:
      return pe::Min(pe::_1, pe::_2);
    case Operation::MAX:
      return pe::Max(pe::_1, pe::_2);
    case Operation::LOGICAL_AND:
      return pe::And(pe::_1, pe::_2);
    case Operation::LOGICAL_OR:
      return pe::Or(pe::_1, pe::_2);
    case Operation::LOG_ADD: {  // log(e^a + e^b); both may be -infinity
      const auto larger = pe::Max(pe::_1, pe::_2), smaller = pe::Min(pe::_1, pe::_2);
      const auto sum = larger + pe::Log1p(pe::Exp(smaller - larger));
      return pe::Select(larger, sum, larger == smaller && pe::IsInf(larger));
    }
    default:
      return pe::Add(pe::_1, pe::_2);
  }
}

double Identity(Operation op, DType type) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool is_float = ipu_model::IsFloat(type);
  const int bits = static_cast<int>(ipu_model::SizeOf(type)) * 8;
  switch (op) {
    case Operation::MUL:
    case Operation::LOGICAL_AND:
      return 1;
    case Operation::MIN:
      return is_float ? kInfinity : std::ldexp(1.0, bits - (ipu_model::IsSigned(type) ? 1 : 0)) - 1;
    case Operation::MAX:
      return is_float ? -kInfinity : ipu_model::IsSigned(type) ? -std::ldexp(1.0, bits - 1) : 0;
    case Operation::LOG_ADD:
      return -kInfinity;
    default:
      return 0;
  }
}

// `unrounded`: half sums and products as float.
Tensor ReduceOf(poplar::Graph& graph, const Tensor& A, const std::vector<std::size_t>& dims,
                ReduceParams params, poplar::program::Sequence& prog,
                const poplar::DebugContext& debugContext, bool unrounded) {
  if (params.update)
    throw poplar::poplar_error(debugContext.getPathName() +
                               ": popops::reduce with `update` needs an output: call reduceWithOutput");
  const DType type = A.elementType().id();
  const bool logical = params.op == Operation::LOGICAL_AND || params.op == Operation::LOGICAL_OR;
  if (logical != (type == DType::kPred) || ipu_model::IsComplex(type) ||
      (ipu_model::SizeOf(type) == 8 && type != DType::kF64 && params.op != Operation::ADD &&
       params.op != Operation::MUL))
    throw poplar::poplar_error(debugContext.getPathName() +
                               ": popops::reduce does not support this operation for " +
                               A.elementType().toString());
  const Tensor values = params.op == Operation::SQUARE_ADD ? square(graph, A, prog, debugContext) : A;
  const ipu_model::ScalarConstant identity = ipu_model::ConstantOf(Identity(params.op, type), type);
  const Tensor init = graph.addConstant(A.elementType(), {}, static_cast<const void*>(identity.bytes),
                                        {debugContext, "identity"});
  graph.setTileMapping(init, 0);
  const ipu_model::Expression body = ipu_model::Flatten(Body(params.op), {type, type});
  return hlo::reduce(graph, {values}, {init}, dims, body, prog, debugContext, unrounded)[0];
}

}  // namespace

Tensor reduce(poplar::Graph& graph, const Tensor& A, const std::vector<std::size_t>& dims,
              ReduceParams params, poplar::program::Sequence& prog, const poplar::DebugContext& debugContext,
              const poplar::OptionFlags&) {
  return ReduceOf(graph, A, dims, params, prog, debugContext, false);
}

Tensor reduce(poplar::Graph& graph, const Tensor& A, const poplar::Type& outType,
              const std::vector<std::size_t>& dims, ReduceParams params, poplar::program::Sequence& prog,
              const poplar::DebugContext& debugContext, const poplar::OptionFlags& options) {
  const bool sums = params.op == Operation::ADD || params.op == Operation::MUL;
  if (sums && A.elementType() == poplar::HALF && outType == poplar::FLOAT)
    return ReduceOf(graph, A, dims, params, prog, debugContext, true);
  // Accumulate in the result's type if that is wider.
  const bool wider = ipu_model::SizeOf(outType.id()) > ipu_model::SizeOf(A.elementType().id());
  const Tensor values = wider ? cast(graph, A, outType, prog, debugContext) : A;
  const Tensor result = reduce(graph, values, dims, params, prog, debugContext, options);
  return result.elementType() == outType ? result : cast(graph, result, outType, prog, debugContext);
}

void reduceWithOutput(poplar::Graph& graph, const Tensor& A, const Tensor& out,
                      const std::vector<std::size_t>& dims, ReduceParams params,
                      poplar::program::Sequence& prog, const poplar::DebugContext& debugContext,
                      const poplar::OptionFlags& options) {
  const bool adds = params.op == Operation::ADD || params.op == Operation::SQUARE_ADD;
  if (params.update && !adds)
    throw poplar::poplar_error(debugContext.getPathName() +
                               ": popops::reduce with `update` supports only ADD and SQUARE_ADD");
  const Tensor result =
      reduce(graph, A, out.elementType(), dims, ReduceParams(params.op), prog, debugContext, options);
  if (params.update) {
    addInPlace(graph, out, result, prog, debugContext);
  } else {
    prog.add(poplar::program::Copy(result, out, false, debugContext));
  }
}

namespace {

// The programs of `sequence` as one compute set.
void Append(poplar::Graph& graph, const poplar::program::Sequence& sequence,
            const poplar::DebugContext& debug_context, std::vector<poplar::ComputeSet>* css) {
  css->push_back(graph.addComputeSet(debug_context));
  css->back().data()->program = sequence.node();
}

}  // namespace

void reduceWithOutput(poplar::Graph& graph, const Tensor& A, const Tensor& out,
                      const std::vector<std::size_t>& dims, ReduceParams params,
                      std::vector<poplar::ComputeSet>& css, const poplar::DebugContext& debugContext,
                      const poplar::OptionFlags& options) {
  poplar::program::Sequence sequence;
  reduceWithOutput(graph, A, out, dims, params, sequence, debugContext, options);
  Append(graph, sequence, debugContext, &css);
}

Tensor reduce(poplar::Graph& graph, const Tensor& A, const poplar::Type& outType,
              const std::vector<std::size_t>& dims, ReduceParams params, std::vector<poplar::ComputeSet>& css,
              const poplar::DebugContext& debugContext, const poplar::OptionFlags& options) {
  poplar::program::Sequence sequence;
  const Tensor result = reduce(graph, A, outType, dims, params, sequence, debugContext, options);
  Append(graph, sequence, debugContext, &css);
  return result;
}

}  // namespace popops
