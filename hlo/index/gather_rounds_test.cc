// Gathers in rounds: kernel and expansion have the same vertices and values.
#include "core/target/target_model.h"
#include "hlo/Index.hpp"
#include "testing/codelet_cache.h"
#include "testing/expansion_check.h"
#include "testing/window_dims.h"

namespace hlo::testing {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

const toy::SharedCodeletCache cache;

struct Row {
  unsigned tiles, bytes_per_tile, exchange_bytes_per_cycle;
  std::vector<std::size_t> table, indices;
  DType type, index;
  std::int64_t wrap;
  bool spread;  // whether the table lies as it is created for this
  std::size_t supersteps;
};

// Tables that no tile has the memory for.
const Row kRows[] = {
    {8, 24 << 10, 4, {4000}, {3000}, DType::kF32, DType::kS32, 0, true, 4},      // two steps
    {8, 48 << 10, 4, {9000}, {6001}, DType::kF32, DType::kS32, 9000, false, 4},  // the table is copied
    {8, 24 << 10, 4, {14003}, {3001}, DType::kU8, DType::kU32, 0, true, 3},      // elements of a byte
    {9, 24 << 10, 4, {9003}, {50, 61}, DType::kF16, DType::kS64, 0, true, 3},    // two batch dimensions
    {8, 40 << 10, 4, {4000}, {3001}, DType::kF64, DType::kU8, 0, true, 3},       // doubles
    {16, 24 << 10, 4, {1000, 3, 5}, {2000}, DType::kBF16, DType::kS16, 1000, true, 10},  // cut columns
    {200, 32 << 10, 1, {40000}, {20001}, DType::kF32, DType::kS32, 40000, true, 8},      // shares
    {200, 48 << 10, 1, {9000, 4}, {9000}, DType::kC64, DType::kS32, 0, false, 5},        // shares, copied
    {8, 52 << 10, 4, {60000}, {30001}, DType::kU8, DType::kS32, 0, true, 6},             // two passes
};

void Check(const Row& row) {
  TargetChanges changes;
  changes.bytes_per_tile = row.bytes_per_tile;
  changes.exchange_bytes_per_cycle = row.exchange_bytes_per_cycle;
  Graph graph(TargetOf(ChangedTargetModel("ipu2", changes), row.tiles));
  WindowDims dims = Dims({}, {0}, {0}, static_cast<std::int64_t>(row.indices.size()));
  for (std::size_t d = 1; d < row.table.size(); ++d)
    dims.offset_dims.push_back(static_cast<std::int64_t>(row.indices.size() + d - 1));
  if (row.wrap != 0) dims.wraps = {row.wrap};
  std::vector<std::size_t> sizes = row.table;
  sizes[0] = 1;
  Tensor table;
  if (row.spread) {
    table =
        hlo::createGatherInput(graph, poplar::Type(row.type), row.table, row.indices, dims, sizes, "table");
  } else {
    table = graph.addVariable(poplar::Type(row.type), row.table, "table");
    // Backwards, which no grid is.
    for (unsigned tile = 0; tile < row.tiles; ++tile) {
      const std::size_t begin = row.table[0] * tile / row.tiles, end = row.table[0] * (tile + 1) / row.tiles;
      graph.setTileMapping(table.slice(begin, end), row.tiles - 1 - tile);
    }
  }
  const Tensor indices = Linear(graph, row.index, row.indices);
  Sequence prog;
  const Tensor out = hlo::gather(graph, table, indices, dims, sizes, prog, "gather");
  ExpansionCheck check(graph, prog, {table, indices}, {out});
  CHECK_EQ(check.Supersteps(), row.supersteps);
  check.SameVertices();
  check.SameValues({RandomBytes(table, 1), Indices(indices, 3, row.table[0])}, SameBits);
}

TEST(RowsAreLookedUpInRounds) {
  for (const Row& row : kRows) Check(row);
}

}  // namespace
}  // namespace hlo::testing
