// A gather of rows whose table passes by the indices: these stay on their tiles, in order of the rows that
// they want, and blocks of the table are sent to them in rounds. Data-dependent exchanges do not exist, so
// every tile with indices has to see every block; but it sees each once only, and walks just the indices of
// that block.
#ifndef IPU_MODEL_OPERATIONS_INDEX_GATHER_ROUNDS_H_
#define IPU_MODEL_OPERATIONS_INDEX_GATHER_ROUNDS_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "core/mapping/mapping.h"
#include "operations/index/gather_division.h"
#include "operations/index/gather_plan.h"

namespace ipu_model {

// In each trip of a loop every tile with a part of the rows sends the next `block` of them. The tiles that
// send are in groups. Tiles with indices are in `columns.parts` times `shares` sets, each of which has all
// indices: a set looks up some of the columns, in the groups of its share: share j in groups j, j + shares,
// ..., one superstep after another, so `steps` of them make a trip.
struct GatherRounds {
  Cut rows;  // the table's rows on the tiles that send them
  unsigned first_tile = 0, num_tiles = 1;
  bool in_place = false;       // whether this is the table's own mapping
  std::size_t column_dim = 0;  // of the table, the dimension that is cut; 0 for none
  Cut columns;
  unsigned block_shift = 0, group_shift = 0;  // log2 of the rows of a block, and of the tiles in a group
  std::int64_t groups = 1, shares = 1, trips = 1;
  // Whether rows are picked at last: from shares, or because the result lies elsewhere. Of a scatter: whether
  // updates are copied first, because they lie elsewhere or there are several sets.
  bool apart = false;
  std::int64_t passes = 1;  // over the rounds, each with a part of the indices of every tile
  Grid lookups, picks;      // the batch dimensions over the tiles of a set, and over all tiles
  double cycles = 0;
  std::int64_t bytes = 0;  // of buffers and temporaries on a tile

  // Returns the dimension of the result that is cut, 0 for none.
  std::size_t ColumnsOfResult(const GatherProblem& p) const {
    return column_dim == 0 ? 0 : static_cast<std::size_t>(p.window.window_dim[column_dim]);
  }
  std::int64_t steps() const { return groups / shares; }
  std::int64_t buckets() const { return trips * steps(); }  // of a share
  std::int64_t block() const { return std::int64_t{1} << block_shift; }
  std::int64_t group_tiles() const { return std::int64_t{1} << group_shift; }
};

// What scatters in rounds need, too. More passes than kMostPasses save little memory; what is sent has whole
// words of 64 bits.
inline constexpr std::int64_t kMostPasses = 4, kWord = 8;
// `bytes` in whole words.
std::int64_t Words(std::int64_t bytes);
// The bits of the numbers below n.
unsigned BitsOf(std::int64_t n);
// Whether each index selects a whole row of the first dimension, there are many rows and indices, and the
// rows of the result lie side by side.
bool SelectsRows(const GatherProblem& p, const TargetModel& target, unsigned num_tiles);
// Returns the cut of the table's rows where it lies; none if they are not whole, on tiles of their own.
std::optional<Cut> RowsInPlace(const GatherProblem& p, unsigned num_tiles, unsigned* first_tile);
// The batch dimensions, outermost first, over `tiles` tiles; the last one in words of the result if its rows
// are single elements.
Grid SpreadBatch(const GatherProblem& p, std::int64_t tiles, unsigned num_tiles);
// The elements of the largest part.
std::int64_t LargestOf(const Grid& grid);
// The dimension of the columns that is cut: the longest; 0 if there is none.
std::size_t ColumnDim(const GatherProblem& p);
Cut ColumnsOf(const GatherProblem& p, std::size_t dim);
// The bytes of a tile's memory for buffers and temporaries: half, or less where the operands and the result
// take more than the other half.
std::int64_t BytesForRounds(const GatherProblem& p, const TargetModel& target, unsigned num_tiles);

// How the part of each tile is cut into passes: the batch dimension, and the extent of a pass.
std::pair<std::size_t, std::int64_t> CutOfPasses(const GatherRounds& rounds);
// Returns the most indices of a tile in a pass.
std::int64_t PlacesOfPass(const GatherRounds& rounds);

// Returns the rounds with the fewest cycles whose memory is within its limits; none for other windows than
// rows, few rows or few indices. Cycles are those of indices that are spread evenly over the rows.
std::optional<GatherRounds> ChooseGatherRounds(const GatherProblem& p, const TargetModel& target,
                                               unsigned num_tiles);

// The same if they are better than `division`.
std::optional<GatherRounds> RoundsInsteadOf(const GatherDivision& division, const GatherProblem& p,
                                            const TargetModel& target, unsigned num_tiles);

// The best rounds for a table that is still to be created, and its placement.
std::optional<GatherRounds> RoundsOfNewTable(const GatherProblem& p, const TargetModel& target,
                                             unsigned num_tiles, Grid* table);

// The grid of the result; its shape is that of `out`.
Grid ResultOfRounds(const GatherProblem& p, const GatherRounds& rounds);

TilePlan PlanGatherRounds(const GatherProblem& p, const GatherRounds& rounds, const TargetModel& target);

// What the expansion needs to know beside the plan.
hlo::GatherRounds DescribeRounds(const GatherProblem& p, const GatherRounds& rounds);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_INDEX_GATHER_ROUNDS_H_
