// The cycle counter of a tile, as a value of the program. Source: Graphcore's Poplar and PopLibs API
// reference, poplar/CycleCount.hpp.
#ifndef POPLAR_CYCLECOUNT_HPP
#define POPLAR_CYCLECOUNT_HPP

#include <string>

#include "poplar/DebugContext.hpp"
#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"
#include "poplar/SyncType.hpp"

namespace poplar {

// The counter of a tile at this place of the program, after a synchronisation: UNSIGNED_INT[2], the low word
// first. The cycles are the modelled ones since the main program began, where they are known:
// hlo/CycleStamp.hpp says where.
Tensor cycleStamp(Graph& graph, program::Sequence& prog, unsigned tile,
                  SyncType syncType = SyncType::INTERNAL, const DebugContext& debugContext = {});

// Puts a stamp before and after all that `prog` has, and returns the difference, in the form of a stamp. It
// includes the cost of a stamp.
Tensor cycleCount(Graph& graph, program::Sequence& prog, unsigned tile,
                  SyncType syncType = SyncType::EXTERNAL, const DebugContext& debugContext = {});
// The form of older Poplar, with a name in place of the synchronisation.
inline Tensor cycleCount(Graph& graph, program::Sequence& prog, unsigned tile, const std::string& name) {
  return cycleCount(graph, prog, tile, SyncType::EXTERNAL, name);
}

}  // namespace poplar

#endif  // POPLAR_CYCLECOUNT_HPP
