// The functions of popops that are a single elementwise operation, fill or iota.
#include <algorithm>
#include <string>
#include <utility>

#include "hlo/Elementwise.hpp"
#include "operations/elementwise/popops_expression.h"
#include "poplar/exceptions.hpp"
#include "popops/AllTrue.hpp"
#include "popops/Cast.hpp"
#include "popops/ElementWise.hpp"
#include "popops/Encoding.hpp"
#include "popops/FillValue.hpp"
#include "popops/Reduce.hpp"

namespace popops {
namespace {

using poplar::Tensor;

// Returns views of all tensors in the shape that they broadcast to.
std::vector<Tensor> Broadcast(const std::vector<Tensor>& tensors, const std::string& name) {
  std::vector<std::size_t> shape;
  for (const Tensor& t : tensors) {
    if (t.rank() > shape.size()) shape.insert(shape.begin(), t.rank() - shape.size(), 1);
    for (unsigned d = 0; d < t.rank(); ++d) {
      std::size_t& extent = shape[shape.size() - t.rank() + d];
      if (extent == 1) extent = t.dim(d);
    }
  }
  std::vector<Tensor> result;
  for (const Tensor& t : tensors) {
    Tensor view = t.expand(std::vector<std::size_t>(shape.size() - t.rank(), 0));
    for (unsigned d = 0; d < shape.size(); ++d) {
      if (view.dim(d) == shape[d]) continue;
      if (view.dim(d) != 1)
        throw poplar::poplar_error(name + ": tensors of shapes " + tensors[0].shapeToString() + " and " +
                                   t.shapeToString() + " do not broadcast");
      view = shape[d] == 0 ? view.slice(0, 0, d) : view.broadcast(static_cast<unsigned>(shape[d]), d);
    }
    result.push_back(view);
  }
  return result;
}

Tensor MapInto(poplar::Graph& graph, const expr::Expr& expr, const std::vector<Tensor>& tensors,
               const Tensor& out, poplar::program::Sequence& prog,
               const poplar::DebugContext& debug_context) {
  std::vector<ipu_model::DType> types;
  for (const Tensor& t : tensors) types.push_back(t.elementType().id());
  const ipu_model::Expression expression = ipu_model::Flatten(expr, types);
  return hlo::map(graph, expression, Broadcast(tensors, debug_context.getPathName()), {out}, prog,
                  debug_context)[0];
}

}  // namespace

Tensor map(poplar::Graph& graph, const expr::Expr& expr, const std::vector<Tensor>& ts,
           poplar::program::Sequence& prog, const poplar::DebugContext& debugContext,
           const poplar::OptionFlags&) {
  return MapInto(graph, expr, ts, Tensor(), prog, debugContext);
}

void mapInPlace(poplar::Graph& graph, const expr::Expr& expr, const std::vector<Tensor>& ts,
                poplar::program::Sequence& prog, const poplar::DebugContext& debugContext,
                const poplar::OptionFlags&) {
  MapInto(graph, expr, ts, ts.at(0), prog, debugContext);
}

void mapWithOutput(poplar::Graph& graph, const expr::Expr& expr, const std::vector<Tensor>& ts,
                   const Tensor& out, poplar::program::Sequence& prog,
                   const poplar::DebugContext& debugContext, const poplar::OptionFlags&) {
  MapInto(graph, expr, ts, out, prog, debugContext);
}

Tensor cast(poplar::Graph& graph, const Tensor& src, const poplar::Type& dstType,
            poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  return map(graph, expr::Cast(expr::_1, dstType), {src}, prog, debugContext);
}

poplar::program::Program cast(poplar::Graph& graph, const Tensor& src, const Tensor& dst,
                              const poplar::DebugContext& debugContext) {
  poplar::program::Sequence prog(debugContext);
  mapWithOutput(graph, expr::Cast(expr::_1, dst.elementType()), {src}, dst, prog, debugContext);
  return prog;
}

void fillValueOf(poplar::Graph& graph, const Tensor& t, poplar::program::Sequence& prog, double value,
                 const poplar::DebugContext& debugContext) {
  const ipu_model::ScalarConstant constant = ipu_model::ConstantOf(value, t.elementType().id());
  const std::string bytes(reinterpret_cast<const char*>(constant.bytes), ipu_model::SizeOf(constant.type));
  hlo::fill(graph, t, bytes, prog, debugContext);
}

namespace {

void Count(poplar::Graph& graph, const Tensor& t, double start, poplar::program::Sequence& prog,
           const poplar::DebugContext& debug_context) {
  if (t.rank() != 1)
    throw poplar::poplar_error(debug_context.getPathName() + ": popops::iota needs a vector");
  hlo::iota(graph, t, 0, prog, debug_context);
  if (start != 0)
    mapInPlace(graph, expr::Add(expr::_1, expr::Const(start, t.elementType())), {t}, prog, debug_context);
}

}  // namespace

void iota(poplar::Graph& graph, const Tensor& t, unsigned startInteger, poplar::program::Sequence& prog,
          const poplar::DebugContext& debugContext) {
  Count(graph, t, startInteger, prog, debugContext);
}

void iota(poplar::Graph& graph, const Tensor& t, int startInteger, poplar::program::Sequence& prog,
          const poplar::DebugContext& debugContext) {
  Count(graph, t, startInteger, prog, debugContext);
}

Tensor allTrue(poplar::Graph& graph, Tensor A, poplar::program::Sequence& prog,
               const poplar::DebugContext& debugContext) {
  if (A.elementType() != poplar::BOOL)
    throw poplar::poplar_error(debugContext.getPathName() +
                               ": popops::allTrue needs a tensor of type bool, not " +
                               A.elementType().toString());
  return reduce(graph, A.flatten(), {0}, ReduceParams(Operation::LOGICAL_AND), prog, debugContext);
}

}  // namespace popops
