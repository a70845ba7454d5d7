// Chooses the rounds of a gather whose table passes by its indices.
#include "operations/index/gather_rounds.h"

#include <algorithm>

#include "core/mapping/strides.h"
#include "core/target/target_model.h"
#include "kernels/host/integer_division.h"
#include "operations/index/index_cost.h"

namespace ipu_model {
namespace {

// The most rows that a tile sends at once; more save few supersteps.
constexpr unsigned kMostBlockShift = 10;
constexpr std::int64_t kMostShares = 32;

Shape BatchShape(const GatherProblem& p) {
  Shape shape;
  for (int b = 0; b < p.window.batch_rank; ++b)
    shape.push_back(p.out[static_cast<std::size_t>(p.window.batch_dim[b])]);
  return shape;
}

// Whether each index selects a whole row of the first dimension, and the rows of the result lie side by side.
bool LooksUpRows(const GatherProblem& p) {
  // Temporaries have a dimension more.
  if (p.operand.size() >= kMaxRank || p.out.size() >= kMaxRank) return false;
  if (p.scalar_starts || p.operand.empty() || p.window.num_components != 1 || p.window.batch_rank == 0)
    return false;
  for (int b = 0; b < p.window.batch_rank; ++b) {
    if (p.window.batch_dim[b] != b) return false;
  }
  int last = p.window.batch_rank - 1;
  for (std::size_t d = 0; d < p.operand.size(); ++d) {
    if (p.window.batching[d] >= 0 || (p.window.component[d] >= 0) != (d == 0)) return false;
    if (p.slice_sizes[d] != (d == 0 ? 1 : p.operand[d])) return false;
    if (p.window.window_dim[d] < 0) continue;
    if (p.window.window_dim[d] <= last) return false;
    last = p.window.window_dim[d];
  }
  return true;
}

std::int64_t RowElements(const GatherProblem& p) {
  std::int64_t n = 1;
  for (std::size_t d = 1; d < p.operand.size(); ++d) n *= p.operand[d];
  return n;
}

}  // namespace

std::int64_t Words(std::int64_t bytes) { return CeilDivide(bytes, kWord) * kWord; }

unsigned BitsOf(std::int64_t n) {
  unsigned bits = 0;
  while ((std::int64_t{1} << bits) < n) ++bits;
  return bits;
}

Grid SpreadBatch(const GatherProblem& p, std::int64_t tiles, unsigned num_tiles) {
  Grid grid;
  grid.shape = BatchShape(p);
  grid.num_tiles = num_tiles;
  grid.parts.assign(grid.shape.size(), 1);
  grid.grain.assign(grid.shape.size(), 1);
  if (RowElements(p) == 1)
    grid.grain.back() = std::max<std::int64_t>(1, kWord / static_cast<std::int64_t>(SizeOf(p.type)));
  for (std::size_t d = 0; d < grid.shape.size(); ++d) {
    grid.parts[d] = std::clamp<std::int64_t>(CeilDivide(grid.shape[d], grid.grain[d]), 1, tiles);
    tiles /= grid.parts[d];
  }
  // Two tiles of a bus receive together, so none should be alone.
  const bool odd =
      std::all_of(grid.parts.begin(), grid.parts.end(), [](std::int64_t n) { return n % 2 == 1; });
  std::int64_t& most = *std::max_element(grid.parts.begin(), grid.parts.end());
  if (odd && most > 1) --most;
  grid.tile_stride = RowMajorStrides(grid.parts);
  return grid;
}

std::int64_t LargestOf(const Grid& grid) {
  std::int64_t n = 1;
  for (int d = 0; d < static_cast<int>(grid.shape.size()); ++d) n *= grid.LargestPart(d);
  return n;
}

std::size_t ColumnDim(const GatherProblem& p) {
  std::size_t longest = 0;
  for (std::size_t d = 1; d < p.operand.size(); ++d) {
    if (p.window.window_dim[d] < 0) continue;
    if (longest == 0 || p.operand[d] > p.operand[longest]) longest = d;
  }
  return longest;
}

Cut ColumnsOf(const GatherProblem& p, std::size_t dim) {
  Cut columns;
  if (dim == 0) return columns;
  columns.extent = p.operand[dim];
  if (dim + 1 == p.operand.size())
    columns.grain = std::max<std::int64_t>(1, kWord / static_cast<std::int64_t>(SizeOf(p.type)));
  return columns;
}

std::int64_t BytesForRounds(const GatherProblem& p, const TargetModel& target, unsigned num_tiles) {
  if (p.buffer_limit > 0) return p.buffer_limit;
  const auto size = static_cast<std::int64_t>(SizeOf(p.type));
  const std::int64_t operands = (NumElements(p.operand) + NumElements(p.out)) * size +
                                NumElements(p.indices) * static_cast<std::int64_t>(SizeOf(p.index_type));
  const std::int64_t memory = target.bytes_per_tile;
  const std::int64_t left = memory - memory / 20 - CeilDivide(operands, std::int64_t{num_tiles});
  return std::clamp(left, memory / 8, memory / 2);
}

bool SelectsRows(const GatherProblem& p, const TargetModel& target, unsigned num_tiles) {
  if (target.num_ipus > 1 || num_tiles < 2 || !LooksUpRows(p)) return false;
  return p.operand[0] >= num_tiles && NumElements(BatchShape(p)) >= num_tiles && RowElements(p) > 0 &&
         p.operand[0] < std::int64_t{1} << 31;
}

std::optional<Cut> RowsInPlace(const GatherProblem& p, unsigned num_tiles, unsigned* first_tile) {
  std::vector<Cut> cuts;
  if (!CutsOfOperand(p, &cuts, first_tile)) return std::nullopt;
  const Cut& rows = cuts[0];
  const bool others_whole =
      std::all_of(cuts.begin() + 1, cuts.end(), [](const Cut& cut) { return cut.num_parts() == 1; });
  if (!others_whole || rows.outer > 1 || rows.parts <= num_tiles / 2 || rows.stride <= 0 ||
      rows.parts * rows.stride > num_tiles || rows.parts > CeilDivide(rows.extent, rows.grain))
    return std::nullopt;
  return rows;
}

namespace {

// A table whose rows are spread over all tiles.
Cut SpreadRows(const GatherProblem& p, unsigned num_tiles) {
  Cut rows;
  rows.extent = p.operand[0];
  rows.grain =
      RowElements(p) == 1 ? std::max<std::int64_t>(1, kWord / static_cast<std::int64_t>(SizeOf(p.type))) : 1;
  rows.parts = std::min<std::int64_t>(num_tiles, CeilDivide(rows.extent, rows.grain));
  rows.stride = 1;
  return rows;
}

// The most indices of a tile that looks them up, in a pass and in all, and of one that picks from shares.
struct Places {
  std::int64_t pass, lookups, picks;
};

// Finds the cycles and the memory of the rounds.
void Estimate(const GatherProblem& p, const TargetModel& target, const Places& n, GatherRounds* r) {
  const auto size = static_cast<std::int64_t>(SizeOf(p.type));
  const auto index_size = static_cast<std::int64_t>(SizeOf(p.index_type));
  const std::int64_t width = RowElements(p), row = width * size, workers = target.worker_contexts;
  const std::int64_t columns = width / r->columns.extent * r->columns.Largest();
  const std::int64_t part = r->rows.Largest() * row;
  const std::int64_t received = std::min(r->group_tiles(), r->rows.parts) * r->block() * columns * size;
  const auto rate = static_cast<double>(target.exchange_bytes_per_cycle);
  const auto sync = static_cast<double>(target.sync_cycles);
  // Neighbours receive a block together.
  const double step =
      static_cast<double>(received) / (rate * target.tiles_per_shared_bus) + sync +
      static_cast<double>(LookUpBlockCycles(target, p.type, n.pass, r->shares * r->buckets(), columns));
  const double trip = static_cast<double>(TakeBlockCycles(target, p.type, r->block() * width)) + sync +
                      static_cast<double>(r->steps()) * step;
  const double order =
      static_cast<double>(OrderLookupsCycles(target, n.pass, r->buckets(), p.window.num_wraps));
  r->cycles = static_cast<double>(r->passes) * (order + sync + static_cast<double>(r->trips) * trip);
  r->bytes =
      Words(4 * n.pass) + Words(4 * workers * r->buckets()) + Words(r->block() * row) + 4 * r->rows.parts;
  std::int64_t buffers = received;
  if (r->shares * r->columns.parts > 1) {
    r->cycles += static_cast<double>(n.lookups * index_size) / rate;
    buffers = std::max(buffers, n.pass * index_size);
  }
  if (!r->in_place) {
    r->cycles += static_cast<double>(part) / rate + sync;
    r->bytes += Words(part);
  }
  if (r->apart) {
    const std::int64_t picked = n.picks * (r->shares * row + index_size);
    r->cycles += static_cast<double>(picked) / rate + sync +
                 static_cast<double>(PickShareCycles(target, p.type, n.picks, width, p.window.num_wraps));
    r->bytes += Words(n.lookups * columns * size);
    buffers = std::max(buffers, picked);
  }
  r->bytes += buffers;
}

// Whether the result has this mapping, or may have it.
bool ResultLiesAs(const GatherProblem& p, const Grid& grid) {
  if (p.out_mapping == nullptr) return true;
  const Grid* const held = p.out_mapping->grid();
  return held != nullptr && *held == grid && p.out_view.offset == 0 && p.out_view.shape == grid.shape &&
         p.out_view.strides == RowMajorStrides(grid.shape);
}

// Tries all sizes of blocks and groups, and numbers of shares and of cuts of the columns.
std::optional<GatherRounds> BestRounds(const GatherProblem& p, const TargetModel& target, unsigned num_tiles,
                                       const Cut& rows, unsigned first_tile, bool in_place) {
  const std::int64_t row = RowElements(p) * static_cast<std::int64_t>(SizeOf(p.type));
  const std::int64_t most = BytesForRounds(p, target, num_tiles);
  std::optional<GatherRounds> best;
  GatherRounds r;
  r.rows = rows;
  r.first_tile = first_tile;
  r.num_tiles = num_tiles;
  r.in_place = in_place;
  r.picks = SpreadBatch(p, num_tiles, num_tiles);
  r.column_dim = ColumnDim(p);
  r.columns = ColumnsOf(p, r.column_dim);
  const std::int64_t grains = CeilDivide(r.columns.extent, r.columns.grain);
  const unsigned part_bits = BitsOf(rows.Largest());
  const auto try_groups = [&] {
    const Places places{PlacesOfPass(r), LargestOf(r.lookups), LargestOf(r.picks)};
    const unsigned place_bits = BitsOf(places.pass);
    for (unsigned group = 0; group <= BitsOf(rows.parts); ++group) {
      r.group_shift = group;
      r.groups = CeilDivide(rows.parts, r.group_tiles());
      if (r.groups > 2 * kMostShares || r.groups % r.shares != 0) continue;
      for (r.block_shift = 0; r.block_shift <= std::min(kMostBlockShift, part_bits); ++r.block_shift) {
        if (r.block() * row % kWord != 0 && r.block_shift < part_bits) continue;
        if (group + r.block_shift + place_bits > 32) break;
        r.trips = CeilDivide(rows.Largest(), r.block());
        Estimate(p, target, places, &r);
        if (r.bytes <= most && (!best || r.cycles < best->cycles)) best = r;
      }
    }
  };
  for (r.columns.parts = 1; r.columns.parts <= std::min(grains, kMostShares); r.columns.parts *= 2) {
    for (r.shares = 1; r.shares <= kMostShares; ++r.shares) {
      const std::int64_t tiles = num_tiles / (r.shares * r.columns.parts);
      if (tiles < 2) break;
      r.lookups = SpreadBatch(p, tiles, num_tiles);
      r.columns.stride = r.shares * r.lookups.num_parts();
      r.apart = r.shares > 1 || !ResultLiesAs(p, ResultOfRounds(p, r));
      for (r.passes = 1; r.passes <= kMostPasses; r.passes *= 2) try_groups();
    }
  }
  return best;
}

}  // namespace

std::pair<std::size_t, std::int64_t> CutOfPasses(const GatherRounds& rounds) {
  std::size_t longest = 0;
  std::int64_t most = 0;
  for (std::size_t d = 0; d < rounds.lookups.shape.size(); ++d) {
    const std::int64_t part = rounds.lookups.LargestPart(static_cast<int>(d));
    if (part > most) {
      longest = d;
      most = part;
    }
  }
  return {longest, CeilDivide(CeilDivide(most, rounds.passes), kWord) * kWord};
}

std::int64_t PlacesOfPass(const GatherRounds& rounds) {
  const auto [dim, extent] = CutOfPasses(rounds);
  std::int64_t n = 1;
  for (std::size_t d = 0; d < rounds.lookups.shape.size(); ++d) {
    const std::int64_t part = rounds.lookups.LargestPart(static_cast<int>(d));
    n *= d == dim && rounds.passes > 1 ? std::min(part, extent) : part;
  }
  return n;
}

std::optional<GatherRounds> ChooseGatherRounds(const GatherProblem& p, const TargetModel& target,
                                               unsigned num_tiles) {
  if (!SelectsRows(p, target, num_tiles)) return std::nullopt;
  unsigned first_tile = 0;
  if (const std::optional<Cut> rows = RowsInPlace(p, num_tiles, &first_tile))
    return BestRounds(p, target, num_tiles, *rows, first_tile, true);
  return BestRounds(p, target, num_tiles, SpreadRows(p, num_tiles), 0, false);
}

std::optional<GatherRounds> RoundsInsteadOf(const GatherDivision& division, const GatherProblem& p,
                                            const TargetModel& target, unsigned num_tiles) {
  std::optional<GatherRounds> rounds = ChooseGatherRounds(p, target, num_tiles);
  if (rounds && division.fits && division.cycles <= rounds->cycles) rounds.reset();
  return rounds;
}

std::optional<GatherRounds> RoundsOfNewTable(const GatherProblem& p, const TargetModel& target,
                                             unsigned num_tiles, Grid* table) {
  if (!SelectsRows(p, target, num_tiles)) return std::nullopt;
  const Cut rows = SpreadRows(p, num_tiles);
  *table = Grid{};
  table->num_tiles = num_tiles;
  rows.AppendTo(table);
  for (std::size_t d = 1; d < p.operand.size(); ++d) table->Append(p.operand[d], 1, 0);
  return BestRounds(p, target, num_tiles, rows, 0, true);
}

Grid ResultOfRounds(const GatherProblem& p, const GatherRounds& rounds) {
  Grid grid = rounds.shares == 1 ? rounds.lookups : rounds.picks;
  for (std::size_t j = grid.shape.size(); j < p.out.size(); ++j) {
    if (rounds.shares == 1 && j == rounds.ColumnsOfResult(p)) {
      rounds.columns.AppendTo(&grid);
    } else {
      grid.Append(p.out[j], 1, 0);
    }
  }
  return grid;
}

hlo::GatherRounds DescribeRounds(const GatherProblem& p, const GatherRounds& rounds) {
  hlo::GatherRounds described;
  for (std::int64_t part = 0; part <= rounds.rows.parts; ++part)
    described.rowBegins.push_back(static_cast<std::size_t>(rounds.rows.Begin(part)));
  described.blockShift = rounds.block_shift;
  described.groupShift = rounds.group_shift;
  described.placeBits = BitsOf(PlacesOfPass(rounds));
  described.shares = static_cast<unsigned>(rounds.shares);
  described.steps = static_cast<unsigned>(rounds.steps());
  described.buckets = static_cast<unsigned>(rounds.buckets());
  described.wrap = p.window.wrap[0];
  described.limit = static_cast<unsigned>(p.operand[0] - 1);
  return described;
}

}  // namespace ipu_model
