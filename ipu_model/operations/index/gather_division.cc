// Chooses a gather's division. The mechanism and the cost terms are those of PopLibs' embedding plan: the
// operand is cut by rows and columns, indices are broadcast, and each cut of an indexed dimension gives a
// partial result. The number of steps follows from the memory for partial results.
#include "operations/index/gather_division.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/mapping/strides.h"
#include "core/target/target_model.h"
#include "kernels/host/integer_division.h"
#include "operations/index/gather_rounds.h"
#include "operations/index/index_cost.h"
#include "operations/index/slice_grid.h"

namespace ipu_model {
namespace {

// Factor between successive cuts of the longest indexed dimension that are tried for operands mapped anew.
constexpr std::int64_t kSplitStep = 4;
// Tiles that share a bus may receive the same part of a copied operand, so its bytes count a little less.
constexpr double kShareOfCopy = 0.9;
// How many times an even share of the operand a tile may hold before its memory counts, where no operation
// goes over the whole operand.
constexpr double kMostUneven = 1.1;

// The bytes of a tile's memory for one operand of a vertex, for the buffers of a step, and the most steps.
std::int64_t OperandBudget(const GatherProblem& p, const TargetModel& target) {
  const std::int64_t budget = SliceBudget(target.bytes_per_tile);
  return p.buffer_limit > 0 ? std::min(budget, p.buffer_limit / 2) : budget;
}
std::int64_t BufferBudget(const GatherProblem& p, const TargetModel& target) {
  const std::int64_t budget = StepBudget(target.bytes_per_tile);
  return p.buffer_limit > 0 ? std::min(budget, p.buffer_limit) : budget;
}
std::int64_t MostSteps(const GatherProblem& p) {
  return static_cast<std::int64_t>(p.buffer_limit > 0 ? kMostLimitedSteps : kMostIndexingSteps);
}

Shape SpaceShape(const GatherProblem& p) {
  Shape shape;
  for (std::size_t d = 0; d < p.operand.size(); ++d) {
    const int batch = p.window.batching[d];
    shape.push_back(batch >= 0      ? p.out[static_cast<std::size_t>(p.window.batch_dim[batch])]
                    : Indexed(p, d) ? p.operand[d]
                                    : p.slice_sizes[d]);
  }
  const std::vector<int> walked = WalkedDims(p);
  for (int b = 0; b < p.window.batch_rank; ++b) {
    shape.push_back(walked[static_cast<std::size_t>(b)] >= 0
                        ? 1
                        : p.out[static_cast<std::size_t>(p.window.batch_dim[b])]);
  }
  return shape;
}

// Appends an inner factor of the same dimension. Returns false if no Cut can express the result.
bool AppendFactor(Cut* cut, std::int64_t extent, std::int64_t parts, std::int64_t stride,
                  std::int64_t grain) {
  if (cut->num_parts() == 1) {
    if (parts > 1 && cut->extent > 1) return false;
    *cut = {cut->extent * extent, 1, 0, parts, stride, cut->extent > 1 ? 1 : grain};
    return true;
  }
  if (parts == 1) {
    cut->extent *= extent;
    cut->grain *= extent;
    return true;
  }
  if (cut->outer > 1 || cut->grain != 1 || cut->parts != cut->extent) return false;
  *cut = {cut->extent * extent, cut->parts, cut->stride, parts, stride, grain};
  return true;
}

// Treats a linearly spread operand as one whose rows are cut over the same tiles. The two differ only by a
// part of a row at each end.
bool RowsOfLinear(const GatherProblem& p, const Grid& linear, std::vector<Cut>* cuts) {
  if (linear.shape.size() != 1 || p.operand.size() < 2 || p.operand[0] < linear.parts[0]) return false;
  if (p.view.strides != RowMajorStrides(p.view.shape)) return false;
  for (const std::int64_t extent : p.operand) {
    cuts->emplace_back();
    cuts->back().extent = extent;
  }
  cuts->front().parts = linear.parts[0];
  cuts->front().stride = linear.tile_stride[0];
  return true;
}

}  // namespace

bool CutsOfOperand(const GatherProblem& p, std::vector<Cut>* cuts, unsigned* first_tile) {
  const Grid* const from = p.mapping == nullptr ? nullptr : p.mapping->grid();
  if (from == nullptr || p.view.offset != 0 || NumElements(from->shape) != p.view.num_elements())
    return false;
  const std::size_t rank = from->shape.size();
  const Shape strides = RowMajorStrides(from->shape);
  std::vector<bool> used(rank, false);
  *first_tile = from->first_tile;
  if (RowsOfLinear(p, *from, cuts)) return true;
  for (std::size_t q = 0; q < rank; ++q) {
    // The only element of a dimension is in its last part.
    if (from->shape[q] == 1)
      *first_tile += static_cast<unsigned>((from->parts[q] - 1) * from->tile_stride[q]);
  }
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < p.view.shape.size(); ++d) {
    Cut cut;
    std::int64_t stride = p.view.strides[d] * p.view.shape[d];  // stride of the next outer element
    for (std::size_t q = 0; q < rank && stride > p.view.strides[d]; ++q) {
      if (used[q] || from->shape[q] == 1 || strides[q] * from->shape[q] != stride) continue;
      used[q] = true;
      stride = strides[q];
      if (!AppendFactor(&cut, from->shape[q], from->parts[q], from->tile_stride[q], from->grain[q]))
        return false;
    }
    if (p.view.shape[d] > 1 && stride != p.view.strides[d]) return false;
    if (cut.extent != p.view.shape[d]) return false;
    elements *= cut.extent;
    cuts->push_back(cut);
  }
  return elements == p.view.num_elements();
}

namespace {

void FindSplit(const GatherProblem& p, GatherDivision* division) {
  for (std::size_t d = 0; d < p.operand.size(); ++d) {
    if (Indexed(p, d) && division->dims[d].num_parts() > 1) division->split.push_back(static_cast<int>(d));
  }
}

bool DivisionInPlace(const GatherProblem& p, unsigned num_tiles, GatherDivision* division) {
  division->num_tiles = num_tiles;
  division->in_place = true;
  if (!CutsOfOperand(p, &division->dims, &division->first_tile)) return false;
  const Shape shape = SpaceShape(p);
  for (std::size_t d = 0; d < p.operand.size(); ++d) {
    if (division->dims[d].extent != shape[d]) return false;
  }
  for (std::size_t d = p.operand.size(); d < shape.size(); ++d) division->dims.push_back({shape[d]});
  FindSplit(p, division);
  return true;
}

// Makes a division in which the windows are cut into `batch_parts` parts. The operand is spread over a share
// of the tiles for each part; its longest indexed dimension is cut into `split_factor` times the necessary
// number of parts. Returns false if there are not enough tiles.
bool DivisionOfItsOwn(const GatherProblem& p, const TargetModel& target, unsigned num_tiles,
                      std::int64_t batch_parts, std::int64_t split_factor, GatherDivision* division) {
  const std::size_t rank = p.operand.size();
  const Shape shape = SpaceShape(p);
  const Shape operand_space(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(rank));
  std::vector<bool> indexed(rank);
  std::size_t longest = rank;
  for (std::size_t d = 0; d < rank; ++d) {
    indexed[d] = Indexed(p, d);
    if (indexed[d] && (longest == rank || p.operand[d] > p.operand[longest])) longest = d;
  }
  const auto tiles = static_cast<unsigned>(std::max<std::int64_t>(1, num_tiles / batch_parts));
  Grid space = SliceGrid(operand_space, indexed, p.type, tiles, OperandBudget(p, target));
  if (split_factor > 1) {
    if (longest == rank) return false;
    const std::int64_t grains = CeilDivide(space.shape[longest], space.grain[longest]);
    const std::int64_t before = space.parts[longest];
    const std::int64_t most = std::min(grains, before * std::max<std::int64_t>(1, tiles / space.num_parts()));
    if (before * split_factor / kSplitStep >= most) return false;
    space.parts[longest] = std::min(before * split_factor, most);
  }
  std::int64_t left = batch_parts;
  for (std::size_t d = rank; d < shape.size(); ++d) {
    const std::int64_t parts = std::clamp<std::int64_t>(shape[d], 1, left);
    space.parts.push_back(parts);
    space.grain.push_back(1);
    left /= parts;
  }
  const Shape strides = RowMajorStrides(space.parts);
  for (std::size_t d = 0; d < shape.size(); ++d)
    division->dims.push_back({shape[d], 1, 0, space.parts[d], strides[d], space.grain[d]});
  division->num_tiles = num_tiles;
  FindSplit(p, division);
  return true;
}

// The amount of data of one tile, in rows and elements.
struct Amounts {
  std::int64_t rows = 1, window = 1, operand = 1;
};
Amounts AmountsOf(const GatherProblem& p, const GatherDivision& division, const Shape& chunk) {
  Amounts n;
  const std::vector<int> walked = WalkedDims(p);
  for (std::size_t b = 0; b < walked.size(); ++b) {
    if (walked[b] >= 0) {
      const Cut& cut = division.dims[static_cast<std::size_t>(walked[b])];
      n.rows *= cut.num_parts() > 1 ? cut.Largest() : chunk[b];
    } else {
      n.rows *= CeilDivide(chunk[b], division.dims[p.operand.size() + b].parts);
    }
  }
  for (std::size_t d = 0; d < p.operand.size(); ++d) {
    const std::int64_t largest = division.dims[d].Largest();
    n.operand *= largest;
    if (p.window.batching[d] < 0) n.window *= Indexed(p, d) ? p.slice_sizes[d] : largest;
  }
  return n;
}

std::int64_t ResultOfStep(const GatherProblem& p, const GatherDivision& division, const Shape& chunk) {
  std::int64_t elements = NumElements(p.out);
  for (std::size_t b = 0; b < chunk.size(); ++b) {
    const std::int64_t whole = p.out[static_cast<std::size_t>(p.window.batch_dim[b])];
    elements = whole == 0 ? 0 : elements / whole * chunk[b];
  }
  return CeilDivide(elements, static_cast<std::int64_t>(division.num_tiles));
}

std::int64_t NumSteps(const GatherProblem& p, const Shape& chunk) {
  std::int64_t steps = 1;
  for (std::size_t b = 0; b < chunk.size(); ++b) {
    const std::int64_t whole = p.out[static_cast<std::size_t>(p.window.batch_dim[b])];
    steps *= CeilDivide(whole, std::max<std::int64_t>(1, chunk[b]));
  }
  return steps;
}

// Limits the memory of partial results by cutting batch dimensions into steps. Does not cut batch dimensions
// that follow a cut of the operand: some of the tiles would be idle in each step. Returns whether the buffers
// and a copy of the operand are within their limits.
bool ChooseChunk(const GatherProblem& p, const TargetModel& target, GatherDivision* division) {
  Shape whole;
  for (int b = 0; b < p.window.batch_rank; ++b)
    whole.push_back(p.out[static_cast<std::size_t>(p.window.batch_dim[b])]);
  division->chunk = whole;
  const auto size = static_cast<std::int64_t>(SizeOf(p.type));
  const bool copy_fits =
      division->in_place || AmountsOf(p, *division, whole).operand * size <= OperandBudget(p, target);
  if (division->split.empty()) return copy_fits;
  const std::vector<int> walked = WalkedDims(p);
  const std::int64_t index_bytes = p.window.num_components * static_cast<std::int64_t>(SizeOf(p.index_type));
  const auto bytes = [&](const Shape& chunk) {
    const Amounts n = AmountsOf(p, *division, chunk);
    const std::int64_t copied = division->in_place || p.buffer_limit == 0 ? 0 : n.operand * size;
    return (n.rows * n.window + division->num_partials() * ResultOfStep(p, *division, chunk)) * size +
           n.rows * index_bytes + copied;
  };
  const std::int64_t most = p.buffer_limit > 0 ? p.buffer_limit : SliceBudget(target.bytes_per_tile);
  for (std::int64_t budget = BufferBudget(p, target);; budget *= 2) {
    // More steps rather than more memory than an operand may take.
    const bool last = budget >= most;
    budget = std::min(budget, most);
    const std::int64_t most_steps = last ? static_cast<std::int64_t>(kMostLimitedSteps) : MostSteps(p);
    Shape chunk = whole;
    while (bytes(chunk) > budget && NumSteps(p, chunk) < most_steps) {
      std::size_t longest = chunk.size();
      for (std::size_t b = 0; b < chunk.size(); ++b) {
        const bool follows =
            walked[b] >= 0 && division->dims[static_cast<std::size_t>(walked[b])].num_parts() > 1;
        if (!follows && chunk[b] > 1 && (longest == chunk.size() || chunk[b] > chunk[longest])) longest = b;
      }
      if (longest == chunk.size()) break;
      chunk[longest] = CeilDivide(chunk[longest], std::int64_t{2});
    }
    division->chunk = chunk;
    if (NumSteps(p, chunk) < most_steps || last) break;
  }
  for (std::size_t b = 0; b < walked.size(); ++b) {
    Cut& cut = division->dims[p.operand.size() + b];
    if (walked[b] >= 0) continue;
    cut.extent = std::max<std::int64_t>(1, division->chunk[b]);
    cut.parts = std::min(cut.parts, cut.extent);
  }
  return copy_fits && bytes(division->chunk) <= most;
}

double CyclesOf(const GatherProblem& p, const TargetModel& target, const GatherDivision& division) {
  const Amounts n = AmountsOf(p, division, division.chunk);
  const auto size = static_cast<double>(SizeOf(p.type));
  const double index_bytes =
      static_cast<double>(p.window.num_components) * static_cast<double>(SizeOf(p.index_type));
  // The cost of wraps is left out: it is small, and the same for all divisions.
  double cycles = static_cast<double>(SliceCycles(target, p.type, n.rows, n.window, 0)) + target.sync_cycles;
  double bytes = static_cast<double>(n.rows) * index_bytes;
  if (!division.in_place) bytes += kShareOfCopy * static_cast<double>(n.operand) * size;
  if (!division.split.empty()) {
    const std::int64_t elements = ResultOfStep(p, division, division.chunk);
    const std::int64_t rows = CeilDivide(elements, std::max<std::int64_t>(1, n.window));
    bytes += static_cast<double>(elements * division.num_partials()) * size +
             static_cast<double>(rows) * index_bytes;
    cycles += static_cast<double>(SliceCycles(target, p.type, rows, std::min(elements, n.window), 0)) +
              target.sync_cycles;
  }
  return static_cast<double>(NumSteps(p, division.chunk)) *
         (cycles + bytes / target.exchange_bytes_per_cycle);
}

}  // namespace

std::int64_t Cut::Begin(std::int64_t part) const {
  const std::int64_t grains = CeilDivide(inner(), grain);
  return part / parts * inner() + std::min(inner(), part % parts * grains / parts * grain);
}

std::int64_t Cut::PartOf(std::int64_t index) const {
  const std::int64_t grains = CeilDivide(inner(), grain);
  return index / inner() * parts + ((index % inner() / grain + 1) * parts - 1) / grains;
}

std::int64_t Cut::Largest() const {
  return std::min(inner(), CeilDivide(CeilDivide(inner(), grain), parts) * grain);
}

void Cut::AppendTo(Grid* grid) const {
  if (outer > 1) grid->Append(outer, outer, outer_stride);
  grid->Append(inner(), parts, stride, grain);
}

bool Indexed(const GatherProblem& p, std::size_t d) {
  return p.window.component[d] >= 0 && p.slice_sizes[d] < p.operand[d];
}

std::vector<int> WalkedDims(const GatherProblem& p) {
  std::vector<int> walked(static_cast<std::size_t>(p.window.batch_rank), -1);
  for (std::size_t d = 0; d < p.operand.size(); ++d) {
    if (p.window.batching[d] >= 0)
      walked[static_cast<std::size_t>(p.window.batching[d])] = static_cast<int>(d);
  }
  return walked;
}

namespace {

struct Choice {
  GatherDivision division;
  double cycles = std::numeric_limits<double>::max();
  bool fits = false;  // whether buffers and a copy of the operand are within their limits
};

// Returns the cheapest of the divisions that copy the operand.
Choice ChooseOwnDivision(const GatherProblem& p, const TargetModel& target, unsigned num_tiles) {
  std::int64_t rows = 1;
  for (int b = 0; b < p.window.batch_rank; ++b)
    rows *= p.out[static_cast<std::size_t>(p.window.batch_dim[b])];
  Choice best;
  for (std::int64_t parts = 1;; parts = std::min<std::int64_t>(2 * parts, num_tiles)) {
    for (std::int64_t factor = 1;; factor *= kSplitStep) {
      GatherDivision division;
      if (!DivisionOfItsOwn(p, target, num_tiles, parts, factor, &division)) break;
      const bool fits = ChooseChunk(p, target, &division);
      const double cycles = CyclesOf(p, target, division);
      if (fits != best.fits ? fits : cycles < best.cycles) best = {std::move(division), cycles, fits};
    }
    if (parts >= std::min<std::int64_t>(num_tiles, std::max<std::int64_t>(rows, 1))) break;
  }
  return best;
}

// A pass over all elements: two loads and a store per vector, all workers together.
double PassCycles(const TargetModel& target, DType type, double elements) {
  return 3.0 * elements / target.VectorWidth(type);
}

}  // namespace

GatherDivision ChooseGatherDivision(const GatherProblem& p, const TargetModel& target, unsigned num_tiles) {
  Choice own = ChooseOwnDivision(p, target, num_tiles);
  own.division.cycles = own.cycles;
  own.division.fits = own.fits;
  GatherDivision in_place;
  if (!DivisionInPlace(p, num_tiles, &in_place)) return own.division;
  in_place.fits = ChooseChunk(p, target, &in_place);
  in_place.cycles = CyclesOf(p, target, in_place);
  if (in_place.fits && !own.fits) return in_place;
  const std::int64_t copied =
      AmountsOf(p, own.division, own.division.chunk).operand * static_cast<std::int64_t>(SizeOf(p.type));
  if (p.buffer_limit > 0 && copied > p.buffer_limit / 2) return in_place;
  return in_place.cycles <= own.cycles ? in_place : own.division;
}

Grid GatherInputGrid(const GatherProblem& p, const TargetModel& target, unsigned num_tiles, bool has_passes) {
  const std::size_t rank = p.operand.size();
  const Shape space = SpaceShape(p);
  std::vector<bool> indexed(rank);
  std::size_t longest = rank;
  for (std::size_t d = 0; d < rank; ++d) {
    indexed[d] = Indexed(p, d);
    if (indexed[d] && (longest == rank || p.operand[d] > p.operand[longest])) longest = d;
  }
  const Choice own = ChooseOwnDivision(p, target, num_tiles);
  const double uncounted =
      has_passes ? 0 : kMostUneven * static_cast<double>(NumElements(p.operand)) / num_tiles;
  const auto pass_cycles = [&](std::int64_t held) {
    return PassCycles(target, p.type, std::max(0.0, static_cast<double>(held) - uncounted));
  };
  // Half of the memory, and a quarter of that for placements that leave some tiles idle, so that others hold
  // more.
  const std::int64_t most_bytes = target.bytes_per_tile * 5 / 8;
  double best_cycles = std::numeric_limits<double>::max();
  Grid best;
  bool best_fits = false;
  std::int64_t best_excess = 0;
  // Fewer tiles for the dimensions that are not indexed leave more tiles for the indexed ones.
  for (unsigned tiles = num_tiles; tiles > 0; tiles /= 2) {
    Grid grid = SliceGrid(p.operand, indexed, p.type, tiles, SliceBudget(target.bytes_per_tile));
    grid.num_tiles = num_tiles;
    for (const bool all_tiles : {false, true}) {
      if (all_tiles) {
        if (longest == rank) break;
        const std::int64_t free = num_tiles / std::max<std::int64_t>(1, grid.num_parts());
        const std::int64_t grains = CeilDivide(grid.shape[longest], grid.grain[longest]);
        grid.parts[longest] =
            std::clamp<std::int64_t>(grid.parts[longest] * free, 1, std::max<std::int64_t>(1, grains));
        grid.tile_stride = RowMajorStrides(grid.parts);
      }
      GatherDivision division;
      division.num_tiles = num_tiles;
      division.in_place = true;
      std::int64_t held = 1;
      for (std::size_t d = 0; d < space.size(); ++d) {
        Cut cut;
        cut.extent = space[d];
        if (d < rank) {
          cut.parts = grid.parts[d];
          cut.stride = grid.tile_stride[d];
          cut.grain = grid.grain[d];
          held *= grid.LargestPart(static_cast<int>(d));
        }
        division.dims.push_back(cut);
      }
      FindSplit(p, &division);
      // Where the buffers do not fit in place, the operand is copied.
      const bool in_place = ChooseChunk(p, target, &division);
      const std::int64_t bytes = held * static_cast<std::int64_t>(SizeOf(p.type));
      const bool fits = (in_place || own.fits) && bytes <= SliceBudget(target.bytes_per_tile);
      const double pass = pass_cycles(held);
      const double planned = CyclesOf(p, target, division);
      const double cycles = (!own.fits || (in_place && planned < own.cycles) ? planned : own.cycles) + pass;
      // Where no buffers fit, the operand itself should.
      const std::int64_t excess = std::max<std::int64_t>(0, bytes - most_bytes);
      const bool spreads = best.shape.empty() || excess < best_excess;
      if (fits != best_fits ? fits : excess != best_excess ? spreads : cycles < best_cycles) {
        best_cycles = cycles;
        best_fits = fits;
        best_excess = excess;
        best = grid;
      }
    }
  }
  Grid of_rounds;
  const std::optional<GatherRounds> rounds = RoundsOfNewTable(p, target, num_tiles, &of_rounds);
  if (!rounds) return best;
  std::int64_t held = 1;
  for (std::size_t d = 0; d < rank; ++d) held *= of_rounds.LargestPart(static_cast<int>(d));
  const double cycles = rounds->cycles + pass_cycles(held);
  return !best_fits || cycles < best_cycles ? of_rounds : best;
}

}  // namespace ipu_model
