// Plans host memory: copies that vanish, streams without copies, arena offsets by liveness.
#include "engine/fast/make_host_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "core/mapping/strides.h"
#include "engine/fast/bands.h"
#include "engine/fast/part_copies.h"
#include "engine/program/liveness.h"

namespace ipu_model {

namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::uint32_t kNone = 0xffffffff;

std::size_t Aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool Overlap(const std::vector<LiveRange>& a, const std::vector<LiveRange>& b) {
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].end < b[j].begin) {
      ++i;
    } else if (b[j].end < a[i].begin) {
      ++j;
    } else {
      return true;
    }
  }
  return false;
}

std::vector<LiveRange> Union(const std::vector<LiveRange>& a, const std::vector<LiveRange>& b) {
  std::vector<LiveRange> all, joined;
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all),
             [](const LiveRange& x, const LiveRange& y) { return x.begin < y.begin; });
  for (const LiveRange& r : all) {
    if (!joined.empty() && joined.back().end + 1 >= r.begin) {
      joined.back().end = std::max(joined.back().end, r.end);
    } else {
      joined.push_back(r);
    }
  }
  return joined;
}

bool SameElements(const View& a, const View& b) {
  const View x = Coalesced(a), y = Coalesced(b);
  return x.offset == y.offset && x.shape == y.shape && x.strides == y.strides;
}

// Gives memory offsets to intervals in the order in which they begin; the smallest hole that fits.
class IntervalAllocator {
 public:
  struct Request {
    std::uint32_t begin, end;
    std::size_t bytes;
    std::size_t* offset;
  };
  // Returns the bytes used.
  std::size_t Place(std::vector<Request> requests) {
    std::stable_sort(requests.begin(), requests.end(),
                     [](const Request& a, const Request& b) { return a.begin < b.begin; });
    std::multimap<std::uint32_t, std::pair<std::size_t, std::size_t>> active;  // by end: offset, bytes
    for (const Request& r : requests) {
      while (!active.empty() && active.begin()->first < r.begin) {
        Free(active.begin()->second.first, active.begin()->second.second);
        active.erase(active.begin());
      }
      *r.offset = Take(r.bytes);
      active.emplace(r.end, std::make_pair(*r.offset, r.bytes));
    }
    return top_;
  }

 private:
  std::size_t Take(std::size_t bytes) {
    if (const auto it = by_size_.lower_bound({bytes, 0}); it != by_size_.end()) {
      const auto [size, offset] = *it;
      Remove(offset, size);
      if (size > bytes) Insert(offset + bytes, size - bytes);
      return offset;
    }
    // Grow, from the last hole when it is at the top.
    std::size_t offset = top_;
    if (!holes_.empty() && holes_.rbegin()->first + holes_.rbegin()->second == top_) {
      offset = holes_.rbegin()->first;
      Remove(offset, top_ - offset);
    }
    top_ = offset + bytes;
    return offset;
  }
  void Free(std::size_t offset, std::size_t bytes) {
    auto next = holes_.lower_bound(offset);
    if (next != holes_.end() && offset + bytes == next->first) {
      bytes += next->second;
      Remove(next->first, next->second);
    }
    auto previous = holes_.lower_bound(offset);
    if (previous != holes_.begin()) {
      --previous;
      if (previous->first + previous->second == offset) {
        offset = previous->first;
        bytes += previous->second;
        Remove(offset, previous->second);
      }
    }
    Insert(offset, bytes);
  }
  void Insert(std::size_t offset, std::size_t bytes) {
    holes_[offset] = bytes;
    by_size_.insert({bytes, offset});
  }
  void Remove(std::size_t offset, std::size_t bytes) {
    holes_.erase(offset);
    by_size_.erase({bytes, offset});
  }

  std::size_t top_ = 0;
  std::map<std::size_t, std::size_t> holes_;
  std::set<std::pair<std::size_t, std::size_t>> by_size_;
};

class Planner {
 public:
  Planner(const CompiledProgram& program, bool stream_memory_stays, bool streams_in_place)
      : program_(program), streams_in_place_(streams_in_place) {
    plan_.code = Flatten(program);
    targets_ = JumpTargets(plan_.code);
    const std::size_t n = program.variables.size();
    plan_.locations.resize(n);
    plan_.streams.resize(program.programs.size());
    root_.resize(n);
    std::iota(root_.begin(), root_.end(), 0u);
    home_.assign(n, kNone);
    state_.assign(n, false);
    fed_.assign(n, stream_memory_stays);
  }

  HostPlan Plan() {
    FindState();
    FindFed();
    for (std::uint32_t p = 0; p < program_.programs.size(); ++p) {
      LoadProgram(p);
      RemoveCopies();
      PlaceParts();
      BindStreams();
      ReuseInputs();
      liveness_of_.push_back(std::move(ranges_));
    }
    Allocate();
    std::vector<VariableId> memory_of(root_.size());
    for (VariableId v = 0; v < memory_of.size(); ++v) memory_of[v] = Root(v);
    FormBands(program_, memory_of, &plan_);
    Compact();
    return std::move(plan_);
  }

 private:
  std::int64_t Elements(VariableId v) const { return program_.variables[v].num_elements; }
  std::size_t Bytes(VariableId v) const {
    return static_cast<std::size_t>(Elements(v)) * SizeOf(program_.variables[v].type);
  }
  // Variables that share memory have one root.
  VariableId Root(VariableId v) {
    while (root_[v] != v) v = root_[v] = root_[root_[v]];
    return v;
  }
  bool IsWhole(const std::vector<View>& views) const {
    return views.size() == 1 && IsWholeVariable(views[0], Elements(views[0].variable));
  }

  // A variable keeps its contents between runs when several programs use it or one reads it before writing
  // it.
  void FindState() {
    const std::size_t n = program_.variables.size();
    for (std::uint32_t p = 0; p < program_.programs.size(); ++p) {
      accesses_of_.push_back(Accesses(program_, plan_.code, plan_.code.begin[p], plan_.code.begin[p + 1]));
      for (const auto& instruction : accesses_of_.back()) {
        for (const VariableAccess& a : instruction) {
          if (home_[a.variable] != kNone && home_[a.variable] != p) state_[a.variable] = true;
          home_[a.variable] = p;
        }
      }
    }
    const std::vector<bool> nothing(n, false);
    for (std::uint32_t p = 0; p < program_.programs.size(); ++p) {
      const ProgramLiveness live = AnalyseLiveness(program_, plan_.code, plan_.code.begin[p],
                                                   plan_.code.begin[p + 1], accesses_of_[p], nothing);
      for (VariableId v : live.live_at_entry) state_[v] = true;
    }
    for (VariableId v = 0; v < n; ++v) {
      if (program_.variables[v].constant != nullptr) {
        state_[v] = false;
        plan_.locations[v].kind = HostLocation::Kind::kConstant;
      }
    }
  }

  // Finds the variables that keep their contents and that one transfer of one stream alone writes. Not those
  // of which a program streams out all elements: their owner reads them back, and may have given up what it
  // sent.
  void FindFed() {
    const std::size_t n = program_.variables.size();
    std::vector<int> writes(n, 0), uses(program_.streams.size(), 0);
    std::vector<std::uint32_t> stream(n, kNone);
    std::vector<bool> is_read_back(n, false);
    for (std::uint32_t p = 0; p < program_.programs.size(); ++p) {
      for (std::uint32_t i = plan_.code.begin[p]; i < plan_.code.begin[p + 1]; ++i) {
        const HostInstruction& in = plan_.code.code[i];
        const bool reads_stream = in.code == OpCode::kStreamIn;
        if (reads_stream || in.code == OpCode::kStreamOut) ++uses[plan_.code.transfers[in.a].stream];
        if (in.code == OpCode::kStreamOut) {
          std::map<VariableId, std::int64_t> sent;
          for (const View& view : plan_.code.transfers[in.a].tensor)
            sent[view.variable] += view.num_elements();
          for (const auto& [v, elements] : sent) {
            if (elements >= Elements(v)) is_read_back[v] = true;
          }
        }
        for (const VariableAccess& a : accesses_of_[p][i - plan_.code.begin[p]]) {
          if (!a.written) continue;
          ++writes[a.variable];
          if (reads_stream) stream[a.variable] = plan_.code.transfers[in.a].stream;
        }
      }
    }
    for (VariableId v = 0; v < n; ++v) {
      fed_[v] = fed_[v] && state_[v] && !is_read_back[v] && writes[v] == 1 && stream[v] != kNone &&
                uses[stream[v]] == 1;
    }
  }

  void LoadProgram(std::uint32_t p) {
    current_ = p;
    begin_ = plan_.code.begin[p];
    end_ = plan_.code.begin[p + 1];
    ranges_ = AnalyseLiveness(program_, plan_.code, begin_, end_, accesses_of_[p], state_).ranges;
    users_.assign(program_.variables.size(), {});
    for (std::uint32_t i = begin_; i < end_; ++i) {
      for (const VariableAccess& a : accesses_of_[p][i - begin_]) users_[a.variable].push_back(i);
    }
  }

  // A copy of one whole variable to another one goes away when both can have the same memory.
  void RemoveCopies() {
    for (std::uint32_t i = begin_; i < end_; ++i) {
      if (!WholeCopy(i)) continue;
      const Operation& copy = *plan_.code.operations[plan_.code.code[i].a];
      const VariableId a = Root(copy.inputs[0].variable), b = Root(copy.outputs[0].variable);
      if (a == b || Join(a, b)) plan_.code.code[i].code = OpCode::kUndefined;
    }
  }

  // What is copied into a part of another variable is written there.
  void PlaceParts() {
    for (std::uint32_t i = begin_; i < end_; ++i) {
      if (plan_.code.code[i].code != OpCode::kRun) continue;
      const Operation& copy = *plan_.code.operations[plan_.code.code[i].a];
      if (copy.kind() != "poplar::copy" || copy.inputs.size() != 1) continue;
      const VariableId from = copy.inputs[0].variable, to = Root(copy.outputs[0].variable);
      if (Root(from) != from || from == to || !IsTemporary(from)) continue;
      const PartCopy part_copy{i, &users_[from], &users_[to], [&](VariableId v) { return Root(v) == to; },
                               [this](const View& view) {
                                 const auto found = parts_.find(view.variable);
                                 return found == parts_.end() ? view : found->second;
                               }};
      std::optional<View> part = FindPart(plan_.code, targets_, part_copy, program_.variables);
      if (!part.has_value()) continue;
      parts_[from] = *std::move(part);
      root_[from] = to;
      ranges_[to] = Union(ranges_[to], ranges_[from]);
      users_[to].insert(users_[to].end(), users_[from].begin(), users_[from].end());
      users_[to].erase(std::remove(users_[to].begin(), users_[to].end(), i), users_[to].end());
      users_[from] = {};
      plan_.code.code[i].code = OpCode::kUndefined;
    }
  }
  bool IsTemporary(VariableId v) const {
    return !state_[v] && plan_.locations[v].kind == HostLocation::Kind::kArena;
  }

  // An operation that may run in place writes over an input that nobody needs afterwards.
  void ReuseInputs() {
    for (std::uint32_t i = begin_; i < end_; ++i) {
      if (plan_.code.code[i].code != OpCode::kRun) continue;
      const Operation& operation = *plan_.code.operations[plan_.code.code[i].a];
      for (unsigned o = 0; o < operation.outputs.size(); ++o) {
        if (!IsWhole({operation.outputs[o]}) || parts_.count(operation.outputs[o].variable) != 0) continue;
        for (unsigned k = 0; k < operation.inputs.size(); ++k) {
          if (!operation.CanAlias(o, k) || !IsWhole({operation.inputs[k]})) continue;
          const VariableId a = Root(operation.inputs[k].variable), b = Root(operation.outputs[o].variable);
          if (a != b && IsTemporary(a) && IsTemporary(b) && Join(a, b)) break;
        }
      }
    }
  }

  // Gives two roots one memory, if their contents are never needed at the same time and no operation that
  // reads one and writes the other minds.
  bool Join(VariableId a, VariableId b) {
    if (Bytes(a) != Bytes(b) || !Movable(a, b) || Overlap(ranges_[a], ranges_[b])) return false;
    // What uses both is in the shorter list.
    if (users_[a].size() < users_[b].size()) std::swap(a, b);
    if (!AliasAllowed(users_[b], a, b)) return false;
    // State stays the root: its memory is the one that lasts.
    const VariableId root = state_[b] ? b : a, gone = state_[b] ? a : b;
    root_[gone] = root;
    ranges_[root] = Union(ranges_[a], ranges_[b]);
    users_[a].insert(users_[a].end(), users_[b].begin(), users_[b].end());
    if (root != a) users_[root].swap(users_[a]);
    users_[gone] = {};
    return true;
  }

  bool WholeCopy(std::uint32_t i) const {
    if (plan_.code.code[i].code != OpCode::kRun) return false;
    const Operation& operation = *plan_.code.operations[plan_.code.code[i].a];
    return operation.kind() == "poplar::copy" && IsWhole(operation.inputs) && IsWhole(operation.outputs);
  }

  // May share memory: no constant, at most one of them lasts (two states are both needed by someone else).
  bool Movable(VariableId a, VariableId b) const {
    if (program_.variables[a].constant != nullptr || program_.variables[b].constant != nullptr) return false;
    return !(state_[a] && state_[b]) && !fed_[a] && !fed_[b];
  }

  // No instruction that uses both, other than as allowed, is among `instructions`.
  bool AliasAllowed(const std::vector<std::uint32_t>& instructions, VariableId a, VariableId b) {
    for (std::uint32_t i : instructions) {
      const HostInstruction& in = plan_.code.code[i];
      if (in.code != OpCode::kRun) continue;
      const Operation& operation = *plan_.code.operations[in.a];
      for (unsigned o = 0; o < operation.outputs.size(); ++o) {
        const VariableId out = Root(operation.outputs[o].variable);
        if (out != a && out != b) continue;
        for (unsigned k = 0; k < operation.inputs.size(); ++k) {
          const VariableId source = Root(operation.inputs[k].variable);
          if (source == out || (source != a && source != b)) continue;
          // One whole copy becomes a copy of something to itself and goes away.
          if (WholeCopy(i)) continue;
          if (parts_.count(operation.outputs[o].variable) != 0) return false;
          if (!operation.CanAlias(o, k) || !SameElements(operation.outputs[o], operation.inputs[k]))
            return false;
        }
        for (unsigned other = 0; other < operation.outputs.size(); ++other) {
          const VariableId second = Root(operation.outputs[other].variable);
          if (second != out && (second == a || second == b)) return false;
        }
      }
    }
    return true;
  }

  // A temporary that is only ever a whole input stream, or that ends as a whole output stream, lives in the
  // host's memory, and so does what is fed by one stream whose memory stays.
  void BindStreams() {
    std::map<std::uint32_t, int> uses;  // transfers of each stream
    std::map<VariableId, std::vector<std::uint32_t>> writers;
    for (std::uint32_t i = begin_; i < end_; ++i) {
      const HostInstruction& in = plan_.code.code[i];
      const bool transfer = in.code == OpCode::kStreamIn || in.code == OpCode::kStreamOut;
      if (transfer) ++uses[plan_.code.transfers[in.a].stream];
      if (in.code == OpCode::kUndefined) continue;
      for (const VariableAccess& a : accesses_of_[current_][i - begin_]) {
        if (a.written) writers[Root(a.variable)].push_back(i);
      }
    }
    std::map<std::uint32_t, bool> bound;
    for (const auto& [stream, n] : uses) bound[stream] = false;
    for (std::uint32_t i = begin_; i < end_; ++i) {
      HostInstruction& in = plan_.code.code[i];
      if (in.code != OpCode::kStreamIn && in.code != OpCode::kStreamOut) continue;
      const Transfer& transfer = plan_.code.transfers[in.a];
      if (!streams_in_place_ || !transfer.once || uses[transfer.stream] != 1 || transfer.tensor.size() != 1)
        continue;
      const VariableId v = Root(transfer.tensor[0].variable);
      HostLocation& location = plan_.locations[v];
      // What a stream feeds in another program is not written in this one, and must not move to a result.
      const bool stays = state_[v] && !(fed_[v] && in.code == OpCode::kStreamIn);
      if (Bytes(v) == 0 || stays || location.kind != HostLocation::Kind::kArena) continue;
      // What runs once is in the main code. Functions come after that: they count as writing too late.
      const std::vector<std::uint32_t>& written = writers[v];
      const bool possible =
          in.code == OpCode::kStreamIn
              ? written.size() == 1
              : std::all_of(written.begin(), written.end(), [i](std::uint32_t w) { return w < i; });
      if (!possible) continue;
      if (!IsWhole(transfer.tensor)) {
        if (!IsWrittenInOrderOf(i, v)) continue;
        location.in_view_order = true;
      }
      location.kind = HostLocation::Kind::kStream;
      location.stream = transfer.stream;
      bound[transfer.stream] = true;
      in.code = OpCode::kUndefined;
    }
    for (const auto& [stream, is_bound] : bound) plan_.streams[current_].push_back({stream, is_bound});
  }

  // An output stream in another order than that of its variable v, which is only the result of one operation
  // that can as well write it in the stream's order.
  bool IsWrittenInOrderOf(std::uint32_t i, VariableId v) {
    if (plan_.code.code[i].code != OpCode::kStreamOut) return false;
    std::uint32_t writer = kNone;
    for (const std::uint32_t user : users_[v]) {
      if (user == i || plan_.code.code[user].code == OpCode::kUndefined) continue;
      if (writer != kNone) return false;
      writer = user;
    }
    if (writer == kNone || plan_.code.code[writer].code != OpCode::kRun) return false;
    const Operation& operation = *plan_.code.operations[plan_.code.code[writer].a];
    if (!operation.AnyOutputOrder()) return false;
    const View& streamed = plan_.code.transfers[plan_.code.code[i].a].tensor[0];
    return std::any_of(operation.outputs.begin(), operation.outputs.end(), [&](const View& out) {
      return Root(out.variable) == v && out.num_elements() == Elements(v) && SameElements(out, streamed);
    });
  }

  void Allocate() {
    const std::size_t n = program_.variables.size();
    for (VariableId v = 0; v < n; ++v) {
      if (!state_[v] || Root(v) != v || plan_.locations[v].kind != HostLocation::Kind::kArena) continue;
      plan_.locations[v].offset = plan_.state_bytes;
      plan_.state_bytes += Aligned(Bytes(v));
    }
    plan_.arena_bytes = plan_.state_bytes;
    for (std::uint32_t p = 0; p < program_.programs.size(); ++p) {
      std::vector<IntervalAllocator::Request> requests;
      for (VariableId v = 0; v < n; ++v) {
        const std::vector<LiveRange>& ranges = liveness_of_[p][v];
        if (state_[v] || Root(v) != v || plan_.locations[v].kind != HostLocation::Kind::kArena) continue;
        if (ranges.empty() || Bytes(v) == 0) continue;
        std::uint32_t end = 0;
        for (const LiveRange& r : ranges) end = std::max(end, r.end);
        // An operation's output must not take over memory of its inputs: from the reads of that instruction
        // on.
        requests.push_back(
            {ranges.front().begin / 2 * 2, end, Aligned(Bytes(v)), &plan_.locations[v].offset});
      }
      const std::vector<IntervalAllocator::Request> placed = requests;
      IntervalAllocator allocator;
      plan_.arena_bytes =
          std::max(plan_.arena_bytes, plan_.state_bytes + allocator.Place(std::move(requests)));
      for (const auto& r : placed) *r.offset += plan_.state_bytes;
    }
    for (VariableId v = 0; v < n; ++v) {
      if (Root(v) != v) plan_.locations[v] = plan_.locations[Root(v)];
    }
    for (auto& [v, part] : parts_) plan_.locations[v].part = std::move(part);
  }

  // Drops instructions that do nothing.
  void Compact() {
    HostCode& host = plan_.code;
    std::vector<std::uint32_t> moved(host.code.size() + 1);
    std::uint32_t kept = 0;
    for (std::size_t i = 0; i < host.code.size(); ++i) {
      moved[i] = kept;
      if (host.code[i].code != OpCode::kUndefined) host.code[kept++] = host.code[i];
    }
    moved[host.code.size()] = kept;
    host.code.resize(kept);
    for (HostInstruction& in : host.code) {
      switch (in.code) {
        case OpCode::kJump:
        case OpCode::kJumpIfZero:
        case OpCode::kJumpIfNotZero:
        case OpCode::kLoop:
        case OpCode::kCall:
          in.target = moved[in.target];
          break;
        default:
          break;
      }
    }
    for (SwitchTable& table : host.switches) {
      for (std::uint32_t& target : table.targets) target = moved[target];
    }
    for (std::uint32_t& begin : host.begin) begin = moved[begin];
  }

  const CompiledProgram& program_;
  const bool streams_in_place_;
  HostPlan plan_;
  std::vector<VariableId> root_;
  std::vector<std::uint32_t> home_;   // the last program that uses a variable
  std::vector<bool> targets_;         // see JumpTargets
  std::map<VariableId, View> parts_;  // the places of variables in others, which are their roots
  std::vector<bool> state_;
  std::vector<bool> fed_;  // see FindFed
  std::vector<std::vector<std::vector<VariableAccess>>> accesses_of_;
  std::vector<std::vector<std::vector<LiveRange>>> liveness_of_;
  std::vector<std::vector<LiveRange>> ranges_;     // of the current program, by root
  std::vector<std::vector<std::uint32_t>> users_;  // instructions of the current program, by root
  std::uint32_t current_ = 0, begin_ = 0, end_ = 0;
};

}  // namespace

HostPlan MakeHostPlan(const CompiledProgram& program, bool stream_memory_stays, bool streams_in_place) {
  return Planner(program, stream_memory_stays, streams_in_place).Plan();
}

}  // namespace ipu_model
