#include "engine/fast/bands.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "core/mapping/strides.h"
#include "core/operation/combining_operation.h"
#include "engine/fast/part_copies.h"

namespace ipu_model {

namespace {

// The operands of a band should fit into a part of the second-level cache. Groups that fit as a whole gain
// nothing.
constexpr std::int64_t kBandBytes = 512 << 10, kSmallestGroup = 512 << 10;
// With fewer bands, some threads would have no work.
constexpr std::int64_t kFewestBands = 8;
constexpr std::size_t kLargestGroup = 32;
// The largest ratio of a group's bytes to the bytes that one of its operations passes to another. For
// example, a vector passed to an operation on a matrix does not justify bands along the matrix's columns.
constexpr std::int64_t kMostPerPassed = 8;
// The shortest piece of memory in a band of an operand that is not cut along its outermost dimension. Shorter
// ones cost more than they gain: the next piece is on another page.
constexpr std::int64_t kShortestPiece = 2 << 10;
// The smallest ratio of a part's bytes to those of its partial results.
constexpr std::int64_t kFewestPerPartial = 8;
// Some operations work on this many rows at once, one in each lane of a vector.
constexpr std::int64_t kVectorRows = 16;

constexpr std::size_t kNoDimension = static_cast<std::size_t>(-1);

std::int64_t Aligned(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

// The bytes of one variable's memory that one operation accesses. Those of the position (outer, r) start
// `outer_stride * outer + stride * r` bytes after those of the first position.
struct Footprint {
  VariableId memory = 0;
  std::int64_t space = 0;  // footprints with equal `space` can be compared: the arena, or one stream
  std::int64_t begin = 0, end = 0;
  std::int64_t stride = 0, outer_stride = 0;  // 0 if every position accesses the same
  std::int64_t band_begin = 0, band_end = 0;  // of the first position
  std::int64_t line_begin = 0, line_end = 0;  // of the first outer position
  std::size_t operation = 0;                  // index in the group
  bool written = false, whole = false;        // whole: accesses every element of the variable
  // The dimensions that move, as (stride, extent), and those along which the bands run.
  std::vector<std::pair<std::int64_t, std::int64_t>> dimensions;
  std::size_t band_dimension = kNoDimension, outer_dimension = kNoDimension;

  // Whether every band of so many rows is in pieces that are long enough.
  bool InLongPieces(std::int64_t rows) const {
    const std::int64_t step = std::abs(stride);
    bool outermost = true;
    for (std::size_t d = 0; d < dimensions.size(); ++d)
      outermost = outermost && (d == outer_dimension || std::abs(dimensions[d].first) <= step);
    return step == 0 || outermost || rows * step >= kShortestPiece;
  }
};

// What a band is of an operation: positions along dimensions of its first output or, for partial results, of
// its first input. The outer dimension is -1 if bands run along one dimension only.
struct Cut {
  bool partial = false;
  int dimension = -1, outer = -1;
};

// Whether every position of one footprint shares memory at most with the same position of the other.
bool MayShareBands(const Footprint& a, const Footprint& b, bool has_outer) {
  if (!a.written && !b.written) return true;
  if (a.space != b.space || a.end <= b.begin || b.end <= a.begin) return true;
  if (a.stride != b.stride || a.stride <= 0) return false;
  if (has_outer && (a.outer_stride != b.outer_stride || a.outer_stride <= 0)) return false;
  const bool apart = std::max(a.band_end, b.band_end) - std::min(a.band_begin, b.band_begin) <= a.stride;
  const bool lines_apart =
      !has_outer || std::max(a.line_end, b.line_end) - std::min(a.line_begin, b.line_begin) <= a.outer_stride;
  if (apart && lines_apart) return true;
  return a.begin == b.begin && a.dimensions == b.dimensions && a.band_dimension == b.band_dimension &&
         a.outer_dimension == b.outer_dimension;
}

class Former {
 public:
  Former(const CompiledProgram& program, const std::vector<VariableId>& memory_of, HostPlan* plan)
      : program_(program),
        memory_of_(memory_of),
        plan_(*plan),
        host_(plan->code),
        entered_(JumpTargets(host_)),
        uses_(memory_of.size(), 0) {
    CountUses();
  }

  void Run() {
    for (std::size_t i = 0; i < host_.code.size(); ++i) {
      if (host_.code[i].code == OpCode::kRun) i = Form(i);
    }
  }

 private:
  void CountUses() {
    const auto count = [this](const std::vector<View>& views) {
      for (const View& v : views) ++uses_[memory_of_[v.variable]];
    };
    for (const HostInstruction& in : host_.code) {
      if (in.code == OpCode::kRun) {
        count(host_.operations[in.a]->inputs);
        count(host_.operations[in.a]->outputs);
      } else if (in.code == OpCode::kStreamIn || in.code == OpCode::kStreamOut) {
        count(host_.transfers[in.a].tensor);
      }
    }
    count(host_.predicates);
    for (const ProgramNode* node : host_.prints) count(node->tensor);
  }

  // Returns the last instruction of the group that begins at `first`.
  std::size_t Form(std::size_t first) {
    const Operation& leader = *host_.operations[host_.code[first].a];
    BandGroup group;
    std::vector<std::size_t> members;
    Cut cut = CutOfLeader(leader, /*partial=*/true);
    if (cut.dimension < 0 || !Grow(first, cut, &group, &members)) {
      cut = CutOfLeader(leader, /*partial=*/false);
      group = {};
      if (cut.dimension < 0 || !Grow(first, cut, &group, &members)) return first;
    }
    if (TrafficOf(group).of_row > kBandBytes) {
      // One position is too large for the cache: bands along the next dimension, for each position by itself.
      cut.outer = cut.dimension++;
      BandGroup finer;
      std::vector<std::size_t> finer_members;
      std::vector<Footprint> footprints = footprints_;
      if (Grow(first, cut, &finer, &finer_members) && finer_members.size() >= members.size()) {
        group = std::move(finer);
        members = std::move(finer_members);
      } else {
        footprints_ = std::move(footprints);
      }
    }
    PlaceLocals(&group);
    PlacePartials(&group);
    for (const std::size_t i : members) host_.code[i].code = OpCode::kUndefined;
    host_.code[first] = {OpCode::kRunBands, static_cast<std::uint32_t>(plan_.bands.size()), 0};
    plan_.bands.push_back(std::move(group));
    return members.back();
  }

  // Collects the instructions of a group that starts with `first`, cut as told. Returns false if there is
  // none.
  bool Grow(std::size_t first, Cut cut, BandGroup* group, std::vector<std::size_t>* members) {
    const Operation& leader = *host_.operations[host_.code[first].a];
    const Shape& shape = cut.partial ? leader.inputs[0].shape : leader.outputs[0].shape;
    if (cut.dimension >= static_cast<int>(shape.size())) return false;
    group->extent = shape[static_cast<std::size_t>(cut.dimension)];
    if (cut.outer >= 0) group->outer = shape[static_cast<std::size_t>(cut.outer)];
    footprints_.clear();
    if (group->extent <= 1 || !Add(host_.code[first].a, cut, group)) return false;
    members->assign({first});
    for (std::size_t i = first + 1; i < host_.code.size() && group->operations.size() < kLargestGroup; ++i) {
      if (entered_[i]) break;
      if (host_.code[i].code == OpCode::kUndefined) continue;
      if (host_.code[i].code != OpCode::kRun || !AddAlongAny(host_.code[i].a, group)) break;
      members->push_back(i);
    }
    if (TrafficOf(*group).bytes < kSmallestGroup) return false;
    // The longest beginning for which bands pay.
    while (members->size() > 1 && !ChooseBands(group)) {
      members->pop_back();
      group->operations.pop_back();
      while (footprints_.back().operation == members->size()) footprints_.pop_back();
    }
    return members->size() > 1;
  }

  // Returns the cut along the outermost dimension that is long enough, if there is one.
  static Cut CutOfLeader(const Operation& op, bool partial) {
    const auto* combining = dynamic_cast<const CombiningOperation*>(&op);
    if (op.outputs.empty() || (partial && combining == nullptr)) return {};
    const Shape& shape = partial ? op.inputs[0].shape : op.outputs[0].shape;
    const auto found = std::find_if(shape.begin(), shape.end(), [](auto n) { return n >= kFewestBands; });
    if (found == shape.end()) return {};
    const int d = static_cast<int>(found - shape.begin());
    if (partial && combining->PartDimensions(d).empty()) return {};
    return {partial, d, -1};
  }

  bool AddAlongAny(std::uint32_t operation, BandGroup* group) {
    const Operation& op = *host_.operations[operation];
    if (op.outputs.empty()) return false;
    const bool combining = dynamic_cast<const CombiningOperation*>(&op) != nullptr;
    for (const bool partial : {false, true}) {
      if (partial && !combining) break;
      const Shape& shape = partial ? op.inputs[0].shape : op.outputs[0].shape;
      const int rank = static_cast<int>(shape.size());
      for (int d = 0; d < rank; ++d) {
        if (shape[static_cast<std::size_t>(d)] != group->extent) continue;
        if (group->outer == 1 && Add(operation, {partial, d, -1}, group)) return true;
        for (int outer = 0; outer < rank && group->outer > 1; ++outer) {
          if (outer != d && shape[static_cast<std::size_t>(outer)] == group->outer &&
              Add(operation, {partial, d, outer}, group))
            return true;
        }
      }
    }
    return false;
  }

  // Returns the dimensions of all operands that correspond to dimension `d` of a cut; empty if there are
  // none.
  static std::vector<int> OperandDimensions(const Operation& op, bool partial, int d) {
    if (!partial) return op.BandDimensions(d);
    std::vector<int> dimensions = dynamic_cast<const CombiningOperation&>(op).PartDimensions(d);
    if (!dimensions.empty()) dimensions.resize(op.inputs.size() + op.outputs.size(), -1);
    return dimensions;
  }

  bool Add(std::uint32_t operation, Cut cut, BandGroup* group) {
    const Operation& op = *host_.operations[operation];
    BandedOperation banded{operation, OperandDimensions(op, cut.partial, cut.dimension), {}, {}, {}};
    if (banded.dimensions.empty()) return false;
    if (cut.outer >= 0) {
      banded.outer_dimensions = OperandDimensions(op, cut.partial, cut.outer);
      if (banded.outer_dimensions.empty()) return false;
    }
    if (cut.partial) banded.partials.resize(op.outputs.size());
    std::vector<Footprint> own;
    for (std::size_t k = 0; k < banded.dimensions.size(); ++k) {
      const bool written = k >= op.inputs.size();
      const View& view = written ? op.outputs[k - op.inputs.size()] : op.inputs[k];
      if (view.num_elements() == 0) return false;
      const int dimension = banded.dimensions[k], outer = cut.outer >= 0 ? banded.outer_dimensions[k] : -1;
      if (dimension >= 0 && dimension == outer) return false;
      if (plan_.locations[view.variable].kind == HostLocation::Kind::kConstant) continue;
      own.push_back(FootprintOf(view, dimension, outer, written));
      own.back().operation = group->operations.size();
      if (!own.back().InLongPieces(MostRows(*group))) return false;
    }
    for (const Footprint& a : own) {
      if (cut.partial && a.written) continue;  // after all bands
      for (const Footprint& b : footprints_) {
        if (!MayShareBands(a, b, group->outer > 1)) return false;
      }
    }
    footprints_.insert(footprints_.end(), own.begin(), own.end());
    group->operations.push_back(std::move(banded));
    return true;
  }

  Footprint FootprintOf(const View& of, int dimension, int outer, bool written) const {
    const HostLocation& location = plan_.locations[of.variable];
    const View view = location.Placed(of);
    const auto size = static_cast<std::int64_t>(SizeOf(view.type));
    const bool in_arena = location.kind == HostLocation::Kind::kArena;
    const std::int64_t base = in_arena ? static_cast<std::int64_t>(location.offset) : 0;
    std::int64_t low, high;
    ElementRange(view, &low, &high);
    Footprint f;
    f.memory = memory_of_[view.variable];
    f.whole = view.num_elements() == program_.variables[view.variable].num_elements;
    f.space = in_arena ? 0 : 1 + static_cast<std::int64_t>(location.stream);
    f.begin = base + low * size;
    f.end = base + (high + 1) * size;
    f.written = written;
    f.band_begin = f.line_begin = f.begin;
    f.band_end = f.line_end = f.end;
    for (std::size_t d = 0; d < view.shape.size(); ++d) {
      if (view.shape[d] == 1 || view.strides[d] == 0) continue;
      const std::int64_t stride = view.strides[d] * size, reach = (view.shape[d] - 1) * stride;
      if (static_cast<int>(d) == dimension) {
        f.stride = stride;
        f.band_dimension = f.dimensions.size();
        f.band_end -= reach;
      }
      if (static_cast<int>(d) == outer) {
        f.outer_stride = stride;
        f.outer_dimension = f.dimensions.size();
        f.band_end -= reach;
        f.line_end -= reach;
      }
      f.dimensions.emplace_back(stride, view.shape[d]);
    }
    return f;
  }

  // With fewer bands, some threads would have no work.
  static std::int64_t MostRows(const BandGroup& group) {
    return std::min(group.extent, std::max<std::int64_t>(1, group.outer * group.extent / kFewestBands));
  }

  // The bytes of the group's operands that move with the bands, all and for one position, and those that one
  // operation passes to another.
  struct Traffic {
    std::int64_t bytes = 0, of_row = 0, passed_on = 0;
  };
  Traffic TrafficOf(const BandGroup& group) const {
    Traffic traffic;
    for (std::size_t i = 0; i < footprints_.size(); ++i) {
      const Footprint& f = footprints_[i];
      bool touched = false, by_another = false;
      for (std::size_t j = 0; j < i; ++j) {
        const Footprint& other = footprints_[j];
        if (other.space != f.space || other.begin != f.begin) continue;
        touched = true;
        by_another = by_another || other.operation != f.operation;
      }
      if (by_another) traffic.passed_on += f.end - f.begin;
      if (!touched && f.stride != 0) traffic.bytes += f.end - f.begin;
    }
    traffic.of_row = std::max<std::int64_t>(1, traffic.bytes / (group.outer * group.extent));
    return traffic;
  }

  // Chooses the rows per band. Returns false if bands do not pay.
  bool ChooseBands(BandGroup* group) const {
    const Traffic traffic = TrafficOf(*group);
    group->rows = std::clamp<std::int64_t>(kBandBytes / traffic.of_row, 1, MostRows(*group));
    if (group->rows > kVectorRows) group->rows -= group->rows % kVectorRows;
    if (group->outer > 1) group->rows = (group->extent + group->inner_bands() - 1) / group->inner_bands();
    if (traffic.passed_on < traffic.bytes / kMostPerPassed || traffic.bytes < kSmallestGroup) return false;
    for (const Footprint& f : footprints_) {
      if (!f.InLongPieces(group->rows)) return false;
    }
    return std::all_of(
        group->operations.begin(), group->operations.end(), [&](const BandedOperation& banded) {
          const Operation& op = *host_.operations[banded.operation];
          return banded.partials.empty() ||
                 PartialBytes(*group, banded, 0) * kFewestPerPartial <=
                     op.inputs[0].num_elements() * static_cast<std::int64_t>(SizeOf(op.inputs[0].type));
        });
  }

  // Returns the bytes of the partial results of all bands for one output.
  std::int64_t PartialBytes(const BandGroup& group, const BandedOperation& banded, unsigned output) const {
    const auto& op = dynamic_cast<const CombiningOperation&>(*host_.operations[banded.operation]);
    return group.bands() * op.outputs[output].num_elements() *
           static_cast<std::int64_t>(SizeOf(op.PartialType(output)));
  }

  void PlacePartials(BandGroup* group) const {
    for (BandedOperation& banded : group->operations) {
      for (unsigned o = 0; o < banded.partials.size(); ++o) {
        banded.partials[o] = group->partial_bytes;
        group->partial_bytes += Aligned(PartialBytes(*group, banded, o));
      }
    }
  }

  // Whether all uses of a variable are in the group, the group writes it before it reads it, and a band of it
  // is one piece of memory.
  bool IsLocal(VariableId memory) const {
    const HostLocation& location = plan_.locations[memory];
    if (location.kind != HostLocation::Kind::kArena || location.offset < plan_.state_bytes) return false;
    const auto base = static_cast<std::int64_t>(location.offset);
    std::int64_t uses = 0, stride = 0, outer_stride = 0;
    for (const Footprint& f : footprints_) {
      if (f.memory != memory) continue;
      if (uses == 0) {
        if (!f.written || !f.whole) return false;
        stride = f.stride;
        outer_stride = f.outer_stride;
      }
      ++uses;
      if (f.outer_stride != outer_stride || f.stride != stride || stride <= 0 || f.begin < base ||
          f.band_end > base + stride)
        return false;
    }
    return uses == uses_[memory];
  }

  void PlaceLocals(BandGroup* group) const {
    std::map<VariableId, std::int64_t> places;
    for (const Footprint& f : footprints_) {
      if (places.count(f.memory) != 0 || !IsLocal(f.memory)) continue;
      places[f.memory] = group->local_bytes;
      group->local_bytes += Aligned(group->rows * f.stride);
    }
    for (BandedOperation& banded : group->operations) {
      const Operation& op = *host_.operations[banded.operation];
      for (std::size_t k = 0; k < banded.dimensions.size(); ++k) {
        const View& view = k < op.inputs.size() ? op.inputs[k] : op.outputs[k - op.inputs.size()];
        const auto place = places.find(memory_of_[view.variable]);
        const auto offset = view.offset * static_cast<std::int64_t>(SizeOf(view.type));
        banded.local.push_back(place == places.end() ? -1 : place->second + offset);
      }
    }
  }

  const CompiledProgram& program_;
  const std::vector<VariableId>& memory_of_;
  HostPlan& plan_;
  HostCode& host_;
  std::vector<bool> entered_;          // by instruction: whether it is the target of a jump
  std::vector<std::int64_t> uses_;     // by memory: number of operands and results in all code
  std::vector<Footprint> footprints_;  // of the group that is being formed
};

}  // namespace

void FormBands(const CompiledProgram& program, const std::vector<VariableId>& memory_of, HostPlan* plan) {
  Former(program, memory_of, plan).Run();
}

}  // namespace ipu_model
