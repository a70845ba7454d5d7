// The walk of ExchangeAnalyser over the supersteps of an operation; exchange.cc has what it counts of one
// operand.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "core/deadline.h"
#include "core/operation/replica_operation.h"
#include "core/program/execute.h"
#include "engine/cost/exchange.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

// The codelet of program::Copy: its code, and the addresses of a row.
constexpr const char* kLocalCopy = "poplar::copy";
constexpr std::uint64_t kLocalCopyCodeBytes = 64;
constexpr std::int64_t kLocalCopyRowBytes = 8;

std::uint64_t CeilDivide(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

// Whether the views select the same elements of two variables with one mapping.
bool SameElements(const View& a, const View& b) {
  return a.offset == b.offset && a.shape == b.shape && a.strides == b.strides;
}

// May return false for equal placements with different descriptions.
bool SamePlacement(const Mapping& a, const Mapping& b) {
  return &a == &b || (a.grid() != nullptr && b.grid() != nullptr && *a.grid() == *b.grid());
}

std::size_t HashOfExtents(const Box& box) {
  std::uint64_t h = 0;
  for (std::size_t d = 0; d < box.begin.size(); ++d) {
    h = (h + static_cast<std::uint64_t>(box.end[d] - box.begin[d])) * 0x9e3779b97f4a7c15u;
  }
  return h >> 32;
}

bool SameExtents(const Box& a, const Box& b) {
  for (std::size_t d = 0; d < a.begin.size(); ++d) {
    if (a.end[d] - a.begin[d] != b.end[d] - b.begin[d]) return false;
  }
  return a.begin.size() == b.begin.size();
}

// By tile: the boxes of a group with one vertex on each tile, empty where that has one box only. Empty if all
// tiles have.
std::vector<std::vector<const Box*>> SeveralBoxes(const VertexGroup& group, unsigned num_tiles) {
  std::vector<unsigned> count(num_tiles, 0);
  unsigned most = 0;
  for (const Vertex& vertex : group.vertices)
    if (vertex.tile < num_tiles) most = std::max(most, ++count[vertex.tile]);
  std::vector<std::vector<const Box*>> boxes;
  if (most < 2) return boxes;
  boxes.resize(num_tiles);
  for (const Vertex& vertex : group.vertices)
    if (vertex.tile < num_tiles && count[vertex.tile] > 1) boxes[vertex.tile].push_back(&vertex.box);
  return boxes;
}

}  // namespace

// What one operation is analysed with.
struct ExchangeAnalyser::Analysis {
  const Operation& operation;
  const TilePlan plan;
  // Vertices of users read rows of variables, in any pieces and through any fields.
  const bool in_rows;
  std::vector<Mapping> placements;  // of temporaries
  std::vector<bool> computing;      // by tile
  OperationUse result;
};

// What is gathered of one superstep.
struct ExchangeAnalyser::Step {
  unsigned number;
  bool later_trip;
  SuperstepUse use;
  std::map<std::string_view, std::vector<bool>> called;  // by codelet: the tiles whose supervisor calls it
  std::vector<std::string> codelets;                     // in detailed analyses
  std::map<std::string, RunLengths> vertices;
};

OperationUse ExchangeAnalyser::Analyse(const Operation& operation) {
  if (const auto* between = dynamic_cast<const ReplicaOperation*>(&operation))
    return OverLinks(operation, *between);
  Analysis a{operation, operation.Plan(context_), dynamic_cast<const Execute*>(&operation) != nullptr, {}, {},
             {}};
  a.computing.assign(num_tiles_, false);
  AddTemporaries(&a);
  FindShared(operation);
  if (detailed_) a.result.last_reads.assign(operation.inputs.size(), -1);
  auto loop = a.plan.loops.begin();
  for (std::size_t s = 0; s < a.plan.supersteps.size(); ++s) {
    const Superstep& superstep = a.plan.supersteps[s];
    Step step{static_cast<unsigned>(a.result.steps.size()), superstep.later_trip, {}, {}, {}, {}};
    for (const VertexGroup& group : superstep.groups) {
      CheckDeadline();
      if (group.vertices.empty()) continue;
      AddVertices(group, &step, &a);
      if (detailed_) AddDetails(group, &step, &a);
      AddOperands(group, &step, &a);
    }
    EndStep(std::move(step), &a);
    if (loop != a.plan.loops.end() && loop->end == s + 1) AddLaterTrips(*loop++, &a.result);
  }
  a.result.computing_tiles = static_cast<unsigned>(std::count(a.computing.begin(), a.computing.end(), true));
  return std::move(a.result);
}

// The later trips of a loop whose supersteps were the last: they are alike, and have no code of their own.
void ExchangeAnalyser::AddLaterTrips(const StepLoop& loop, OperationUse* result) {
  const std::size_t count = loop.end - loop.begin, first = result->steps.size() - count;
  result->steps.reserve(result->steps.size() + count * (loop.trips - 1));
  for (std::uint64_t i = 0; i < count * (loop.trips - 1); ++i) {
    result->steps.push_back(result->steps[first + i]);
    if (detailed_) result->details.push_back(result->details[first + i]);
  }
  const std::size_t last = result->steps.size() - 1;
  for (TemporaryUse& temporary : result->temporaries) {
    if (temporary.first_step <= temporary.last_step && temporary.last_step >= first)
      temporary.last_step = static_cast<unsigned>(last);
  }
  for (int& read : result->last_reads) {
    if (read >= static_cast<int>(first)) read = static_cast<int>(last);
  }
}

OperationUse ExchangeAnalyser::OverLinks(const Operation& operation, const ReplicaOperation& between) {
  OperationUse result;
  const LinkUse links = between.Links(target_);
  SuperstepUse use;
  use.exchange_cycles = links.cycles;
  use.link_bytes = links.bytes;
  use.link_syncs = links.syncs;
  result.coded_steps = 1;
  if (detailed_) {
    Describe({}, use, &result);
    result.last_reads.assign(operation.inputs.size(), 0);
  }
  result.steps.push_back(std::move(use));
  return result;
}

void ExchangeAnalyser::FindShared(const Operation& operation) {
  unsent_.clear();
  std::set<VariableId> read;
  for (const View& view : operation.inputs) {
    if (!read.insert(view.variable).second) unsent_.try_emplace(view.variable);
  }
}

void ExchangeAnalyser::AddTemporaries(Analysis* a) {
  std::size_t runs = 0;
  a->plan.ForEachRun([&](std::size_t) { ++runs; });
  for (const Temporary& temporary : a->plan.temporaries) {
    a->placements.emplace_back(temporary.placement);
    TemporaryUse use;
    use.bytes = a->placements.back().ElementsPerTile(NumElements(temporary.placement.shape), num_tiles_);
    for (std::int64_t& n : use.bytes) n = (n * static_cast<std::int64_t>(SizeOf(temporary.type)) + 7) / 8 * 8;
    use.first_step = static_cast<unsigned>(runs);
    a->result.temporaries.push_back(std::move(use));
  }
}

void ExchangeAnalyser::AddVertices(const VertexGroup& group, Step* step, Analysis* a) {
  OperationUse& result = a->result;
  CodeletUse codelet{group.codelet, group.code_bytes, std::vector<bool>(num_tiles_, false)};
  const bool has_state = group.vertex_bytes > 0 && !step->later_trip;
  if (has_state) Grow(&result.vertex_state);
  std::vector<std::vector<const Box*>> joined;
  if (group.cycles_of_boxes) joined = SeveralBoxes(group, num_tiles_);
  std::size_t vertices = 0;
  // Many boxes have the same extents, and so the same cycles: each slot has the last box with its hash.
  std::fill(known_cycles_.begin(), known_cycles_.end(), std::pair<const Box*, std::uint64_t>());
  for (const Vertex& vertex : group.vertices) {
    if (vertex.tile >= num_tiles_) {
      throw poplar::poplar_error("operation '" + a->operation.name + "' (" +
                                 std::string(a->operation.kind()) + "): a vertex is on tile " +
                                 std::to_string(vertex.tile) + " of a target with " +
                                 std::to_string(num_tiles_) + " tiles");
    }
    const bool several = !joined.empty() && !joined[vertex.tile].empty();
    if (several && codelet.tiles[vertex.tile]) continue;
    codelet.tiles[vertex.tile] = true;
    ++vertices;
    if (has_state) result.vertex_state[vertex.tile] += static_cast<std::int64_t>(group.vertex_bytes);
    if (several) {
      compute_[vertex.tile] += group.cycles_of_boxes(target_, joined[vertex.tile]);
    } else if (group.cycles) {
      auto& [box, cycles] = known_cycles_[HashOfExtents(vertex.box) % known_cycles_.size()];
      if (box == nullptr || !SameExtents(*box, vertex.box)) {
        cycles = group.cycles(target_, vertex.box);
        box = &vertex.box;
      }
      compute_[vertex.tile] += cycles;
    }
  }
  result.num_vertices += vertices;
  result.num_edges += vertices * (group.reads.size() + group.writes.size());
  if (group.call_cycles > 0) {
    std::vector<bool>& tiles = step->called[group.codelet];
    tiles.resize(num_tiles_);
    for (unsigned tile = 0; tile < num_tiles_; ++tile) {
      if (!codelet.tiles[tile] || tiles[tile]) continue;
      tiles[tile] = true;
      compute_[tile] += group.call_cycles;
    }
  }
  for (unsigned tile = 0; tile < num_tiles_; ++tile) {
    if (codelet.tiles[tile]) a->computing[tile] = true;
  }
  result.codelets.push_back(std::move(codelet));
}

void ExchangeAnalyser::AddDetails(const VertexGroup& group, Step* step, Analysis* a) {
  step->codelets.push_back(group.codelet);
  RunLengths& of_codelet = step->vertices[group.codelet];
  std::vector<bool> seen(group.cycles_of_boxes ? num_tiles_ : 0, false);
  for (const Vertex& vertex : group.vertices) {
    if (!seen.empty() && seen[vertex.tile]) continue;
    if (!seen.empty()) seen[vertex.tile] = true;
    if (of_codelet.empty() || of_codelet[of_codelet.size() - 2] != vertex.tile)
      of_codelet.insert(of_codelet.end(), {vertex.tile, 0});
    ++of_codelet.back();
  }
  for (const auto& access : group.reads) {
    if (access.tensor.kind == OperandRef::Kind::kInput)
      a->result.last_reads.at(access.tensor.index) = static_cast<int>(step->number);
  }
}

// Collects operands that are completely on the vertices' tiles: other operands with the same placement need
// no further analysis. Writes come first, because vertices are usually on the tiles of their results.
void ExchangeAnalyser::AddOperands(const VertexGroup& group, Step* step, Analysis* a) {
  std::vector<std::pair<View, const Mapping*>> local;
  const auto analyse = [&](const VertexGroup::Access& access, bool is_read) {
    const bool is_temporary = access.tensor.kind == OperandRef::Kind::kTemporary;
    if (is_temporary) {
      TemporaryUse& temporary = a->result.temporaries.at(access.tensor.index);
      temporary.first_step = std::min(temporary.first_step, step->number);
      temporary.last_step = std::max(temporary.last_step, step->number);
    }
    View view = ViewOf(a->operation, a->plan, access.tensor);
    if (a->in_rows) return AddRows(group, access, view, !is_read);
    const Mapping& mapping =
        is_temporary ? a->placements.at(access.tensor.index) : program_.variables.at(view.variable).mapping;
    if (access.identity && std::any_of(local.begin(), local.end(), [&](const auto& known) {
          return SameElements(known.first, view) && SamePlacement(*known.second, mapping);
        })) {
      return;
    }
    const bool all_held = is_read ? Read(group, access, view, mapping, &step->use)
                                  : Write(group, access, view, mapping, &step->use);
    if (access.identity && all_held) local.emplace_back(std::move(view), &mapping);
  };
  for (const auto& access : group.writes) analyse(access, false);
  for (const auto& access : group.reads) analyse(access, true);
}

void ExchangeAnalyser::AddLocalCopies(Step* step, Analysis* a) {
  if (const auto* const execute = dynamic_cast<const Execute*>(&a->operation)) {
    edge_copies_.Count(*execute->program(), execute->inputs, execute->outputs, target_, &before_, &after_);
  }
  if (!before_.any() && !after_.any()) return;
  CodeletUse copy{kLocalCopy, kLocalCopyCodeBytes, std::vector<bool>(num_tiles_, false)};
  const std::vector<bool>& called = step->called[kLocalCopy];
  Grow(&step->use.buffers);
  for (LocalCopies* const copies : {&before_, &after_}) {
    if (!copies->any()) continue;
    for (unsigned tile = 0; tile < num_tiles_; ++tile) {
      if (copies->rows[tile] == 0) continue;
      copy.tiles[tile] = true;
      compute_[tile] += copies->cycles[tile];
      if (called.empty() || !called[tile]) compute_[tile] += target_.local_copy_call_cycles;
      step->use.buffers[tile] += copies->bytes[tile];
      if (step->later_trip) continue;
      Grow(&a->result.vertex_state);
      a->result.vertex_state[tile] += copies->rows[tile] * kLocalCopyRowBytes;
    }
    copies->Reset(num_tiles_);
  }
  if (detailed_) step->codelets.emplace_back(kLocalCopy);
  a->result.codelets.push_back(std::move(copy));
}

void ExchangeAnalyser::EndStep(Step step, Analysis* a) {
  SuperstepUse& use = step.use;
  if (a->in_rows) use.exchange_bytes += rows_.Count(program_.variables, &traffic_, &use.buffers);
  const std::uint64_t vertices = *std::max_element(compute_.begin(), compute_.end());
  AddLocalCopies(&step, a);
  use.compute_cycles = *std::max_element(compute_.begin(), compute_.end());
  use.local_copy_cycles = use.compute_cycles - vertices;
  if (several_ipus_) {
    AddLinks(&use);
    if (!detailed_ && traffic_.moved) {
      SuperstepDetail unused;
      EndExchange(&unused);
    }
  }
  if (detailed_) {
    Describe(std::move(step.codelets), use, &a->result);
    a->result.details.back().vertices = std::move(step.vertices);
  }
  std::fill(compute_.begin(), compute_.end(), 0);
  for (auto& [variable, unsent] : unsent_) unsent.clear();
  if (use.exchange_bytes > 0) CountExchange(step.later_trip, &use, &a->result);
  if (!step.later_trip) ++a->result.coded_steps;
  a->result.steps.push_back(std::move(use));
}

void ExchangeAnalyser::CountExchange(bool later_trip, SuperstepUse* use, OperationUse* result) {
  const std::uint64_t rate = target_.exchange_bytes_per_cycle;
  for (unsigned tile = 0; tile < num_tiles_; ++tile) {
    // Both tiles of a pair wait for the data that they share, which arrives at twice the rate.
    const std::int64_t shared = traffic_.shared[tile - tile % 2];
    const auto alone =
        static_cast<std::uint64_t>(std::max<std::int64_t>(0, traffic_.received[tile] - shared));
    use->exchange_cycles =
        std::max(use->exchange_cycles,
                 CeilDivide(alone, rate) + CeilDivide(static_cast<std::uint64_t>(shared), 2 * rate));
  }
  if (traffic_.sends) use->exchange_cycles = std::max(use->exchange_cycles, SendCycles());
  if (!later_trip) {
    Grow(&result->exchange_code);
    for (unsigned tile = 0; tile < num_tiles_; ++tile) {
      result->exchange_code[tile] +=
          traffic_.fragments[tile] * static_cast<std::int64_t>(target_.exchange_code_bytes_per_fragment);
    }
  }
  for (TileBytes* bytes : {&traffic_.received, &traffic_.shared, &traffic_.fragments})
    std::fill(bytes->begin(), bytes->end(), 0);
}

// A tile sends on its own bus, and 64 bits at a time for pairs of receivers with that of its neighbour.
std::uint64_t ExchangeAnalyser::SendCycles() {
  const std::uint64_t rate = target_.exchange_bytes_per_cycle;
  const unsigned buses = target_.tiles_per_shared_bus;
  std::uint64_t cycles = 0;
  for (unsigned first = 0; first < num_tiles_; first += buses) {
    std::int64_t alone = 0, to_pairs = 0;
    for (unsigned tile = first; tile < std::min(num_tiles_, first + buses); ++tile) {
      alone = std::max(alone, traffic_.sent_alone[tile]);
      to_pairs += traffic_.sent_to_pairs[tile];
    }
    cycles = std::max(cycles, CeilDivide(static_cast<std::uint64_t>(alone), rate) +
                                  CeilDivide(static_cast<std::uint64_t>(to_pairs), buses * rate));
  }
  std::fill(traffic_.sent_alone.begin(), traffic_.sent_alone.end(), 0);
  std::fill(traffic_.sent_to_pairs.begin(), traffic_.sent_to_pairs.end(), 0);
  traffic_.sends = false;
  return cycles;
}

void ExchangeAnalyser::Describe(std::vector<std::string> codelets, const SuperstepUse& use,
                                OperationUse* result) {
  SuperstepDetail detail;
  std::sort(codelets.begin(), codelets.end());
  codelets.erase(std::unique(codelets.begin(), codelets.end()), codelets.end());
  for (const std::string& codelet : codelets)
    detail.codelets += (detail.codelets.empty() ? "" : " + ") + codelet;
  if (use.compute_cycles > 0) {
    detail.compute_cycles = RunLengthsOf(compute_);
    for (const std::uint64_t cycles : compute_) {
      detail.active_tiles += cycles > 0 ? 1 : 0;
      detail.total_compute += cycles;
    }
  }
  if (traffic_.moved) EndExchange(&detail);
  result->details.push_back(std::move(detail));
}

}  // namespace ipu_model
