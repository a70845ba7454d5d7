#include "engine/bands.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/strides.h"

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
// Some operations work on this many rows at once, one in each lane of a vector.
constexpr std::int64_t kVectorRows = 16;
constexpr std::int64_t kLocalAlignment = 64;

// The bytes of one variable's memory that one operation accesses. Band r starts `stride * r` bytes after band
// 0.
struct Footprint {
  VariableId memory = 0;
  std::int64_t space = 0;  // footprints with equal `space` can be compared: the arena, or one stream
  std::int64_t begin = 0, end = 0;
  std::int64_t stride = 0;  // 0 if every band accesses all of it
  std::int64_t band_begin = 0, band_end = 0;
  std::size_t operation = 0;            // index in the group
  bool written = false, whole = false;  // whole: accesses every element of the variable
  // The dimensions that move, as (stride, extent), and the one along which the bands run.
  std::vector<std::pair<std::int64_t, std::int64_t>> dimensions;
  std::size_t band_dimension = 0;
};

// Whether a band r of one footprint shares memory at most with band r of the other.
bool MayShareBands(const Footprint& a, const Footprint& b) {
  if (!a.written && !b.written) return true;
  if (a.space != b.space || a.end <= b.begin || b.end <= a.begin) return true;
  if (a.stride != b.stride || a.stride <= 0) return false;
  if (std::max(a.band_end, b.band_end) - std::min(a.band_begin, b.band_begin) <= a.stride) return true;
  return a.begin == b.begin && a.dimensions == b.dimensions && a.band_dimension == b.band_dimension;
}

class Former {
 public:
  Former(const CompiledProgram& program, const std::vector<VariableId>& memory_of, HostPlan* plan)
      : program_(program),
        memory_of_(memory_of),
        plan_(*plan),
        host_(plan->code),
        entered_(host_.code.size() + 1, false),
        uses_(memory_of.size(), 0) {
    for (const HostInstruction& in : host_.code) entered_[in.target] = true;
    for (const SwitchTable& table : host_.switches) {
      for (const std::uint32_t target : table.targets) entered_[target] = true;
    }
    for (const std::uint32_t begin : host_.begin) entered_[begin] = true;
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
    const Shape& shape = leader.outputs.empty() ? Shape{} : leader.outputs[0].shape;
    const auto along =
        std::find_if(shape.begin(), shape.end(), [](std::int64_t n) { return n >= kFewestBands; });
    if (along == shape.end()) return first;
    BandGroup group;
    group.extent = *along;
    footprints_.clear();
    if (!Add(host_.code[first].a, static_cast<int>(along - shape.begin()), &group)) return first;
    std::vector<std::size_t> members = {first};
    for (std::size_t i = first + 1; i < host_.code.size() && group.operations.size() < kLargestGroup; ++i) {
      if (entered_[i]) break;
      if (host_.code[i].code == OpCode::kUndefined) continue;
      if (host_.code[i].code != OpCode::kRun || !AddAlongAny(host_.code[i].a, &group)) break;
      members.push_back(i);
    }
    if (members.size() < 2 || !ChooseBands(&group)) return first;
    PlaceLocals(&group);
    for (const std::size_t i : members) host_.code[i].code = OpCode::kUndefined;
    host_.code[first] = {OpCode::kRunBands, static_cast<std::uint32_t>(plan_.bands.size()), 0};
    plan_.bands.push_back(std::move(group));
    return members.back();
  }

  bool AddAlongAny(std::uint32_t operation, BandGroup* group) {
    const Operation& op = *host_.operations[operation];
    if (op.outputs.empty()) return false;
    const Shape& shape = op.outputs[0].shape;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == group->extent && Add(operation, static_cast<int>(d), group)) return true;
    }
    return false;
  }

  bool Add(std::uint32_t operation, int dimension, BandGroup* group) {
    const Operation& op = *host_.operations[operation];
    BandedOperation banded{operation, op.BandDimensions(dimension), {}};
    if (banded.dimensions.empty()) return false;
    std::vector<Footprint> own;
    for (std::size_t k = 0; k < banded.dimensions.size(); ++k) {
      const bool written = k >= op.inputs.size();
      const View& view = written ? op.outputs[k - op.inputs.size()] : op.inputs[k];
      if (view.num_elements() == 0) return false;
      if (plan_.locations[view.variable].kind == HostLocation::Kind::kConstant) continue;
      own.push_back(FootprintOf(view, banded.dimensions[k], written));
      own.back().operation = group->operations.size();
    }
    for (const Footprint& a : own) {
      for (const Footprint& b : footprints_) {
        if (!MayShareBands(a, b)) return false;
      }
    }
    footprints_.insert(footprints_.end(), own.begin(), own.end());
    group->operations.push_back(std::move(banded));
    return true;
  }

  Footprint FootprintOf(const View& of, int dimension, bool written) const {
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
    f.band_begin = f.begin;
    f.band_end = f.end;
    for (std::size_t d = 0; d < view.shape.size(); ++d) {
      if (view.shape[d] == 1 || view.strides[d] == 0) continue;
      if (static_cast<int>(d) == dimension) {
        f.stride = view.strides[d] * size;
        f.band_dimension = f.dimensions.size();
        f.band_end -= (view.shape[d] - 1) * f.stride;
      }
      f.dimensions.emplace_back(view.strides[d] * size, view.shape[d]);
    }
    return f;
  }

  // Chooses the rows per band. Returns false if bands do not pay.
  bool ChooseBands(BandGroup* group) const {
    std::int64_t bytes = 0, passed_on = 0;
    for (std::size_t i = 0; i < footprints_.size(); ++i) {
      const Footprint& f = footprints_[i];
      bool touched = false, by_another = false;
      for (std::size_t j = 0; j < i; ++j) {
        const Footprint& other = footprints_[j];
        if (other.space != f.space || other.begin != f.begin) continue;
        touched = true;
        by_another = by_another || other.operation != f.operation;
      }
      if (by_another) passed_on += f.end - f.begin;
      if (!touched && f.stride != 0) bytes += f.end - f.begin;
    }
    const std::int64_t of_row = std::max<std::int64_t>(1, bytes / group->extent);
    group->rows = std::clamp<std::int64_t>(kBandBytes / of_row, 1, group->extent / kFewestBands);
    if (group->rows > kVectorRows) group->rows -= group->rows % kVectorRows;
    return passed_on >= bytes / kMostPerPassed && bytes >= kSmallestGroup;
  }

  // Whether all uses of a variable are in the group, the group writes it before it reads it, and a band of it
  // is one piece of memory.
  bool IsLocal(VariableId memory) const {
    const HostLocation& location = plan_.locations[memory];
    if (location.kind != HostLocation::Kind::kArena || location.offset < plan_.state_bytes) return false;
    const auto base = static_cast<std::int64_t>(location.offset);
    std::int64_t uses = 0, stride = 0;
    for (const Footprint& f : footprints_) {
      if (f.memory != memory) continue;
      if (uses == 0) {
        if (!f.written || !f.whole) return false;
        stride = f.stride;
      }
      ++uses;
      if (f.stride != stride || stride <= 0 || f.begin < base || f.band_end > base + stride) return false;
    }
    return uses == uses_[memory];
  }

  void PlaceLocals(BandGroup* group) const {
    std::map<VariableId, std::int64_t> places;
    for (const Footprint& f : footprints_) {
      if (places.count(f.memory) != 0 || !IsLocal(f.memory)) continue;
      places[f.memory] = group->local_bytes;
      group->local_bytes +=
          (group->rows * f.stride + kLocalAlignment - 1) / kLocalAlignment * kLocalAlignment;
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
