// Gathers whose table passes by the indices in rounds: values by vertices, forms, cycles and memory.
#include "operations/index/gather_rounds.h"

#include <algorithm>

#include "core/graph/graph_impl.h"
#include "hlo/Index.hpp"
#include "testing/plan_runner.h"

namespace ipu_model {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

// Lookups of whole rows, with the forms that they should take.
struct Row {
  unsigned tiles;
  Shape table, indices;
  DType type, index_type;
  std::int64_t wrap;
  bool spread;  // whether the table lies as the plan would create it
  std::uint32_t bytes_per_tile, exchange_bytes_per_cycle;
};

// Tables that no tile has the memory for.
const Row kRows[] = {
    {8, {4000}, {3000}, DType::kF32, DType::kS32, 0, true, 24 << 10, 4},
    {8, {9000}, {6001}, DType::kF32, DType::kS32, 9000, false, 48 << 10, 4},
    {8, {20000}, {9000}, DType::kF32, DType::kS32, 0, true, 64 << 10, 4},
    {8, {14003}, {3001}, DType::kU8, DType::kS32, 0, true, 24 << 10, 4},
    {8, {9003}, {3001}, DType::kF16, DType::kS64, 0, false, 32 << 10, 4},
    {8, {300}, {3001}, DType::kF64, DType::kU8, 0, true, 8 << 10, 4},
    {9, {4000}, {50, 61}, DType::kF32, DType::kU32, 0, true, 24 << 10, 4},
    {16, {3000, 16}, {2000}, DType::kF32, DType::kS32, 3000, true, 64 << 10, 4},
    {16, {1000, 3, 5}, {2000}, DType::kF16, DType::kS16, 0, true, 24 << 10, 4},
    {16, {9000, 5}, {60, 101}, DType::kU8, DType::kS32, 0, false, 24 << 10, 4},
    {48, {40000}, {20000}, DType::kF32, DType::kS32, 0, true, 64 << 10, 4},
    {48, {40000}, {20000}, DType::kF32, DType::kS32, 0, true, 16384, 4},
    {48, {6000, 16}, {5000}, DType::kF32, DType::kS32, 0, true, 65536, 4},
    {200, {40000}, {20001}, DType::kF32, DType::kS32, 40000, true, 32 << 10, 1},
    {200, {90000}, {99, 101}, DType::kU8, DType::kS32, 0, true, 32 << 10, 1},
    {48, {3000, 7}, {5000}, DType::kF16, DType::kS32, 0, true, 24 << 10, 1},
    {200, {9000, 4}, {9000}, DType::kF32, DType::kS32, 0, false, 48 << 10, 1},
    {8, {60000}, {30001}, DType::kU8, DType::kS32, 0, true, 40 << 10, 4},
    {8, {60000}, {16, 2801}, DType::kU8, DType::kS32, 0, true, 56 << 10, 4},
};

TargetChanges ChangesFor(const Row& row) {
  TargetChanges changes;
  changes.bytes_per_tile = row.bytes_per_tile;
  changes.exchange_bytes_per_cycle = row.exchange_bytes_per_cycle;
  return changes;
}

struct Lookup {
  explicit Lookup(const Row& row) : graph(TargetOf(ChangedTargetModel("ipu2", ChangesFor(row)), row.tiles)) {
    dims.collapsed_dims = {0};
    dims.start_index_map = {0};
    dims.index_vector_dim = static_cast<std::int64_t>(row.indices.size());
    for (std::size_t d = 1; d < row.table.size(); ++d)
      dims.offset_dims.push_back(static_cast<std::int64_t>(row.indices.size() + d - 1));
    if (row.wrap != 0) dims.wraps = {row.wrap};
    std::vector<std::size_t> sizes = Extents(row.table);
    sizes[0] = 1;
    table = row.spread ? hlo::createGatherInput(graph, poplar::Type(row.type), Extents(row.table),
                                                Extents(row.indices), dims, sizes, "table")
                       : graph.addVariable(poplar::Type(row.type), Extents(row.table), "table");
    if (!row.spread) graph.setTileMapping(table, 0);
    indices = MappedVariable(graph, row.index_type, row.indices);
    out = hlo::gather(graph, table, indices, dims, sizes, prog, "gather");
  }
  const Operation& operation() const { return *prog.node()->children.at(0)->operation; }

  Graph graph;
  WindowDims dims;
  Tensor table, indices, out;
  Sequence prog;
};

// Runs the vertices with indices of which some are outside.
void CheckValues(const Row& row, Lookup& lookup, PlanRunner& runner) {
  const std::size_t size = SizeOf(row.type), n = lookup.indices.numElements();
  Bytes values(lookup.table.numElements() * size);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<unsigned char>(i * 2654435761u >> 13);
  Bytes index(n * SizeOf(row.index_type) + 8), expected;
  const std::size_t width = lookup.table.numElements() / static_cast<std::size_t>(row.table[0]) * size;
  for (std::size_t i = 0; i < n; ++i) {
    // A third of them in a row of their own order, the others anywhere, some outside.
    std::int64_t at = i % 3 == 0 ? static_cast<std::int64_t>(i)
                                 : static_cast<std::int64_t>(i * 40503 % (row.table[0] + 200)) - 100;
    if (SizeOf(row.index_type) == 1 || !IsSigned(row.index_type)) at = std::max<std::int64_t>(0, at);
    if (SizeOf(row.index_type) == 1) at %= 256;
    std::memcpy(index.data() + i * SizeOf(row.index_type), &at, SizeOf(row.index_type));
    at = std::clamp<std::int64_t>(at < 0 ? at + row.wrap : at, 0, row.table[0] - 1);
    const auto from = values.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(at) * width);
    expected.insert(expected.end(), from, from + static_cast<std::ptrdiff_t>(width));
  }
  runner.Store(lookup.table, values.data());
  runner.Store(lookup.indices, index.data());
  runner.RunVertices(lookup.prog);
  CHECK(runner.Load(lookup.out) == expected);
}

TEST(RowsAreLookedUpInRounds) {
  std::size_t copied = 0, of_shares = 0, of_columns = 0, of_steps = 0, of_passes = 0;
  for (const Row& row : kRows) {
    Lookup lookup(row);
    PlanRunner runner(lookup.graph, 0);
    const TilePlan plan = lookup.operation().Plan(runner);
    CHECK(!plan.loops.empty());
    if (plan.loops.empty()) continue;
    of_passes += plan.loops.size() - 1;
    copied += plan.loops[0].begin - 1;
    of_shares += plan.supersteps.size() - plan.loops.back().end;
    of_steps += plan.loops[0].end - plan.loops[0].begin > 2 ? 1 : 0;
    for (const Vertex& v : plan.supersteps[plan.loops[0].begin + 1].groups[0].vertices)
      of_columns += v.box.begin[2] > 0 ? 1 : 0;

    CheckValues(row, lookup, runner);
  }
  CHECK(copied > 0);
  CHECK(of_shares > 0);
  CHECK(of_columns > 0);
  CHECK(of_steps > 0);
  CHECK(of_passes > 0);
}

TEST(ResultsThatLieElsewhereAreMovedOnce) {
  std::size_t loops = 0;
  for (const Row& row : {kRows[0], kRows[4], kRows[7]}) {
    Lookup lookup(row);
    const std::size_t n = lookup.out.dim(0);
    lookup.graph.setTileMapping(lookup.out.slice(0, n / 3), 1);
    lookup.graph.setTileMapping(lookup.out.slice(n / 3, n), 0);
    PlanRunner runner(lookup.graph, 0);
    const TilePlan plan = lookup.operation().Plan(runner);
    loops += plan.loops.size();
    for (const StepLoop& loop : plan.loops) {
      for (std::size_t s = loop.begin; s < loop.end; ++s) {
        for (const auto& write : plan.supersteps[s].groups.at(0).writes)
          CHECK(write.tensor.kind == OperandRef::Kind::kTemporary);
      }
    }
    CheckValues(row, lookup, runner);
  }
  CHECK(loops > 0);
}

TEST(OtherFormsStay) {
  // Few indices, or a table that every tile can have; and windows that are no rows.
  const Row few = {16, {4000}, {15}, DType::kF32, DType::kS32, 0, true, 24 << 10, 4};
  const Row small = {16, {400}, {4000}, DType::kF32, DType::kS32, 0, true, 64 << 10, 4};
  for (const Row& row : {few, small}) {
    Lookup lookup(row);
    PlanRunner runner(lookup.graph, 0);
    CHECK(lookup.operation().Plan(runner).loops.empty());
    CheckValues(row, lookup, runner);
  }
}

TEST(LoopsCostTheirTripsAndHaveOneCode) {
  const TargetModel& target = FindTargetModel("ipu2");
  GatherProblem p;
  p.operand = {10000000};
  p.indices = p.out = {10000000};
  p.slice_sizes = {1};
  WindowDims dims;
  dims.collapsed_dims = {0};
  dims.start_index_map = {0};
  dims.index_vector_dim = 1;
  p.window = IndexedWindow::Resolve(dims, 1, 1, 1);
  Grid table;
  const auto rounds = RoundsOfNewTable(p, target, 1472, &table);
  CHECK(rounds.has_value());
  const TilePlan plan = PlanGatherRounds(p, *rounds, target);
  std::size_t runs = 0, last = 0;
  plan.ForEachRun([&](std::size_t s) {
    ++runs;
    last = s;
  });
  CHECK_EQ(last + 1, plan.supersteps.size());
  CHECK_EQ(runs,
           plan.supersteps.size() + (plan.loops[0].end - plan.loops[0].begin) * (plan.loops[0].trips - 1));
  CHECK(plan.supersteps.size() < 16);
  CHECK(runs > 100);
}

}  // namespace
}  // namespace ipu_model
