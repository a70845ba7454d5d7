// What gathers and scatters in rounds share: where their vertices are, and the order of the indices.
#ifndef IPU_MODEL_OPERATIONS_INDEX_ROUNDS_ORDER_H_
#define IPU_MODEL_OPERATIONS_INDEX_ROUNDS_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "operations/index/gather_rounds.h"

namespace ipu_model {

// The first temporaries of a plan in rounds. The expansions (hlo/index/) know them by these numbers.
namespace rounds {
enum Temporaries : unsigned { kEntries, kEnds, kNext, kTrip, kBlocks, kOthers };
}

// What the vertices share.
struct Rounds {
  Rounds(const GatherProblem& problem, const GatherRounds& rounds, const TargetModel& target);

  GatherProblem p;
  GatherRounds r;
  hlo::GatherRounds d;
  std::int64_t workers, places, width;  // places: the most indices of a vertex in a pass

  std::size_t batch_rank() const { return r.picks.shape.size(); }
  unsigned TileOfPart(std::int64_t part) const {
    return static_cast<unsigned>((r.first_tile + r.rows.TileOffset(part)) % r.num_tiles);
  }
  // The elements of a row that a vertex with indices has.
  std::int64_t WidthOf(const Box& box) const {
    return width / r.columns.extent * (box.end[2] - box.begin[2]);
  }
  std::int64_t tables() const { return workers * static_cast<std::int64_t>(d.buckets); }
};
using SharedRounds = std::shared_ptr<const Rounds>;

// Boxes of the vertices with indices: the number of the vertex, its share, its columns, then the batch
// dimensions, from kBatch on.
inline constexpr std::size_t kBatch = 3;
std::vector<Vertex> VerticesWithIndices(const Rounds& s, std::int64_t pass);
// Boxes of the vertices with rows: the number of the part.
std::vector<Vertex> VerticesWithRows(const Rounds& s);

// `box` has positions of the batch from its dimension `first` on. Return the part of a gather's result with
// these positions and all columns, the part of the indices, and how many positions there are.
Box OutOf(const Rounds& s, const Box& box, std::size_t first);
Box IndicesOf(const Rounds& s, const Box& box, std::size_t first);
std::int64_t PlacesOf(const Box& box, std::size_t first);
// The rows of the operand that a part has.
Box PartOfRows(const Rounds& s, std::int64_t part);
// The blocks of all parts: parts, rows of a block, and the columns.
Shape BlocksShape(const Rounds& s);

// Row `v` of a temporary, up to `n`.
inline Box RowOf(std::int64_t v, std::int64_t n) { return {{v, 0}, {v + 1, n}}; }
Temporary SpreadRowsOf(DType type, std::int64_t vertices, std::int64_t each, unsigned first_tile,
                       std::int64_t stride, unsigned num_tiles);
// The temporaries kEntries, kEnds and kNext.
std::vector<Temporary> OrderTemporaries(const Rounds& s);

// The places of a worker, as shareOf has them (hlo/codelets/common.hpp).
std::pair<std::int64_t, std::int64_t> ShareOf(std::int64_t worker, std::int64_t workers, std::int64_t places);
// The number of the part that has a row.
std::int64_t PartOf(const hlo::GatherRounds& d, std::int64_t row);
// The row of index `i`: clamped, or -1 if it is outside and such indices are dropped.
std::int64_t RowAt(const Rounds& s, const HostTensor& indices, std::int64_t i);

// Sets the first `counters` numbers of trips of each part to zero.
VertexGroup StartTrips(const SharedRounds& s, std::int64_t counters);
// Puts the indices of each worker into the order of the blocks that have their rows.
VertexGroup OrderIndices(const SharedRounds& s, std::int64_t pass);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_INDEX_ROUNDS_ORDER_H_
