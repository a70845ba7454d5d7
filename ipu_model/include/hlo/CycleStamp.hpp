// The cycle counter of tiles, as values of the program. Poplar's poplar::cycleStamp reads the counter of one
// tile.
#ifndef HLO_CYCLESTAMP_HPP
#define HLO_CYCLESTAMP_HPP

#include <cstdint>

#include "poplar/Graph.hpp"
#include "poplar/Target.hpp"

namespace hlo {

// Writes to each row of `out` (UNSIGNED_INT, [tiles, 2]) the cycles since the main program began, low word
// first, in one superstep; row i is read on the tile that holds its first element. The cycles are those of
// the report, with the trips that loops have made. compileGraph throws poplar::control_program_error where
// they are not known: in the condition of a loop, in a function that is called more than once, and, inside a
// Repeat, in a conditional or a loop whose trip count is not known. Throws poplar::poplar_error for another
// shape or type.
void cycleStamp(poplar::Graph& graph, const poplar::Tensor& out, poplar::program::Sequence& prog,
                const poplar::DebugContext& debugContext = {});

// The cycles between two stamps in a row.
std::uint64_t cyclesBetweenStamps(const poplar::Target& target);

}  // namespace hlo

#endif  // HLO_CYCLESTAMP_HPP
