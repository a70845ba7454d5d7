// poplar/CSRFunctions.hpp: the floating-point behaviour that programs ask for, kept as a word for each tile.
// Nothing of the model reads it: it computes with one behaviour only.
#include <iostream>

#include "core/graph/tile_state.h"
#include "poplar/CSRFunctions.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {
namespace {

// The bits of the chip's control register.
unsigned BitsOf(const FloatingPointBehaviour& b) {
  return (b.inv ? 1u : 0u) | (b.div0 ? 2u : 0u) | (b.oflo ? 4u : 0u) | (b.esr ? 8u : 0u) |
         (b.nanoo ? 16u : 0u);
}

Tensor StateOf(const Graph& graph) {
  return ipu_model::TileState(graph, "poplar_rt::floatingPointBehaviour", {},
                              [](std::uint64_t) { return 0u; });
}

// To stderr, because Poplar's log is off by default and results may differ from the chip's.
void Warn(const DebugContext& context, const char* what, bool wanted) {
  if (wanted) std::cerr << "warning: '" + context.getPathName() + "': the model has no " + what + "\n";
}
void Warn(const DebugContext& context, const FloatingPointBehaviour& behaviour) {
  Warn(context, "floating-point exceptions: results become infinite or NaN",
       behaviour.inv || behaviour.div0 || behaviour.oflo);
  Warn(context, "stochastic rounding: it rounds to nearest", behaviour.esr);
}

// One vertex on each tile changes the tile's word.
void Modify(Graph& graph, program::Sequence& prog, unsigned clear, unsigned set,
            const DebugContext& debugContext) {
  const Tensor state = StateOf(graph);
  const ComputeSet cs = graph.addComputeSet(debugContext);
  for (unsigned tile = 0; tile < state.numElements(); ++tile) {
    const VertexRef vertex = graph.addVertex(cs, "poplar_rt::SetFloatingPoint");
    graph.connect(vertex["state"], state[tile]);
    graph.setInitialValue(vertex["clear"], clear);
    graph.setInitialValue(vertex["set"], set);
    graph.setTileMapping(vertex, tile);
  }
  prog.add(program::Execute(cs, debugContext));
}

}  // namespace

void setFloatingPointBehaviour(Graph& graph, program::Sequence& prog, const FloatingPointBehaviour& behaviour,
                               const DebugContext& debugContext) {
  Warn(debugContext, behaviour);
  const Tensor state = StateOf(graph);
  const Tensor bits = graph.addConstant(UNSIGNED_INT, {1}, BitsOf(behaviour), debugContext);
  graph.setTileMapping(bits, 0);
  prog.add(program::Copy(bits.broadcast(static_cast<unsigned>(state.numElements()), 0), state, false,
                         debugContext));
}

void setFloatingPointBehaviour(Graph& graph, program::Sequence& prog, const Tensor& behaviour,
                               const DebugContext& debugContext) {
  const Tensor state = StateOf(graph);
  if (!behaviour.valid() || behaviour.elementType() != UNSIGNED_INT || behaviour.shape() != state.shape()) {
    throw poplar_error("setFloatingPointBehaviour '" + debugContext.getPathName() +
                       "': the tensor is not one that getAndModifyFloatingPointBehaviour returned");
  }
  prog.add(program::Copy(behaviour, state, false, debugContext));
}

Tensor getAndModifyFloatingPointBehaviour(Graph& graph, program::Sequence& prog,
                                          const FloatingPointBehaviour& clear,
                                          const FloatingPointBehaviour& set,
                                          const DebugContext& debugContext) {
  Warn(debugContext, set);
  const Tensor state = StateOf(graph);
  const Tensor before = graph.clone(state, debugContext);
  prog.add(program::Copy(state, before, false, debugContext));
  Modify(graph, prog, BitsOf(clear), BitsOf(set), debugContext);
  return before;
}

void setStochasticRounding(Graph& graph, program::Sequence& prog, bool enable,
                           const DebugContext& debugContext) {
  const FloatingPointBehaviour rounding(false, false, false, true, false);
  if (enable) Warn(debugContext, rounding);
  Modify(graph, prog, enable ? 0 : BitsOf(rounding), enable ? BitsOf(rounding) : 0, debugContext);
}

}  // namespace poplar
