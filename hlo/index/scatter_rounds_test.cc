// Scatters in rounds: kernel and expansion have the same vertices and values.
#include "core/target/target_model.h"
#include "hlo/Index.hpp"
#include "testing/codelet_cache.h"
#include "testing/expansion_check.h"
#include "testing/test_instructions.h"
#include "testing/window_dims.h"

namespace hlo::testing {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

const toy::SharedCodeletCache cache;

struct Row {
  unsigned tiles, bytes_per_tile;
  std::vector<std::size_t> table, indices;
  ScalarOp op;
  DType type, index;
  std::int64_t wrap;
  bool in_place;
  std::size_t supersteps;
};

// Tables that no tile has the memory for.
const Row kRows[] = {
    {8, 64 << 10, {20000}, {12000}, ScalarOp::kAdd, DType::kF32, DType::kS32, 0, true, 3},
    {8, 96 << 10, {30001}, {16001}, ScalarOp::kAdd, DType::kF32, DType::kS32, 30001, false, 4},
    {63, 64 << 10, {90003}, {900, 61}, ScalarOp::kMaximum, DType::kS32, DType::kS64, 0, true, 4},
    {64, 64 << 10, {9000, 16}, {12000}, ScalarOp::kAdd, DType::kF32, DType::kU32, 0, true, 4},
    {16, 64 << 10, {4000, 3, 5}, {3000}, ScalarOp::kAdd, DType::kF16, DType::kS16, 4000, false, 5},
    {64, 64 << 10, {90000}, {60000}, ScalarOp::kMultiply, DType::kS32, DType::kS32, 0, true, 4},
    {200, 64 << 10, {40000}, {40000}, ScalarOp::kAdd, DType::kF32, DType::kS32, 0, false, 5},
    {64, 64 << 10, {200000}, {100001}, ScalarOp::kAdd, DType::kBF16, DType::kS32, 0, true, 4},
    {8, 80 << 10, {30000}, {30000}, ScalarOp::kAdd, DType::kF32, DType::kS32, 0, true, 6},  // two passes
};

void Check(const Row& row) {
  TargetChanges changes;
  changes.bytes_per_tile = row.bytes_per_tile;
  Graph graph(TargetOf(ChangedTargetModel("ipu2", changes), row.tiles));
  WindowDims dims = Dims({}, {0}, {0}, static_cast<std::int64_t>(row.indices.size()));
  std::vector<std::size_t> shape = row.indices;
  for (std::size_t d = 1; d < row.table.size(); ++d) {
    dims.offset_dims.push_back(static_cast<std::int64_t>(shape.size()));
    shape.push_back(row.table[d]);
  }
  if (row.wrap != 0) dims.wraps = {row.wrap};
  const Tensor table = Linear(graph, row.type, row.table), indices = Linear(graph, row.index, row.indices),
               updates = Linear(graph, row.type, shape);
  Sequence prog;
  const Tensor out = hlo::scatter(graph, {table}, indices, {updates}, dims, false,
                                  BinaryBody(row.op, row.type), prog, row.in_place, "scatter")[0];
  ExpansionCheck check(graph, prog, {table, indices, updates}, {out});
  CHECK_EQ(check.Supersteps(), row.supersteps);
  check.SameVertices();
  // The numbers are such that no order of their sums rounds.
  check.SameValues(
      {SmallNumbers(table, 1, 4), Indices(indices, 3, row.table[0]), SmallNumbers(updates, 2, 4)}, SameBits);
}

TEST(RowsAreCombinedInRounds) {
  for (const Row& row : kRows) Check(row);
}

}  // namespace
}  // namespace hlo::testing
