// poplar::cycleStamp and cycleCount.
#include "hlo/CycleStamp.hpp"
#include "poplar/CycleCount.hpp"
#include "popops/Cast.hpp"
#include "popops/ElementWise.hpp"

namespace poplar {

Tensor cycleStamp(Graph& graph, program::Sequence& prog, unsigned tile, SyncType syncType,
                  const DebugContext& debugContext) {
  const Tensor out = graph.addVariable(UNSIGNED_INT, {1, 2}, debugContext);
  graph.setTileMapping(out, tile);
  // A superstep begins with a synchronisation of its IPU.
  if (syncType != SyncType::INTERNAL) prog.add(program::Sync(syncType, debugContext));
  hlo::cycleStamp(graph, out, prog, debugContext);
  return out[0];
}

Tensor cycleCount(Graph& graph, program::Sequence& prog, unsigned tile, SyncType syncType,
                  const DebugContext& debugContext) {
  program::Sequence start(debugContext);
  const Tensor begin = cycleStamp(graph, start, tile, syncType, debugContext);
  prog.add_front(start);
  const Tensor end = cycleStamp(graph, prog, tile, syncType, debugContext);
  const Tensor low = popops::sub(graph, end[0], begin[0], prog, debugContext);
  const Tensor borrow = popops::cast(graph, popops::lt(graph, end[0], begin[0], prog, debugContext),
                                     UNSIGNED_INT, prog, debugContext);
  const Tensor high = popops::sub(graph, popops::sub(graph, end[1], begin[1], prog, debugContext), borrow,
                                  prog, debugContext);
  return concat(low.expand({0}), high.expand({0}));
}

}  // namespace poplar
