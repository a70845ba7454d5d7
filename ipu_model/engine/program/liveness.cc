// Backward data flow over the flattened program.
#include "engine/program/liveness.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/mapping/strides.h"

namespace ipu_model {

namespace {

// Blocks, and the successors of instructions that do not fall through.
struct Block {
  std::uint32_t begin = 0, end = 0;
  std::vector<std::uint32_t> successors;
};

std::vector<Block> BlocksOf(const HostCode& host, std::uint32_t begin, std::uint32_t end) {
  std::vector<std::vector<std::uint32_t>> targets(end - begin);
  std::vector<bool> leader(end - begin + 1, false);
  std::map<std::uint32_t, std::vector<std::uint32_t>> return_sites;  // by slot
  leader[0] = true;
  for (std::uint32_t i = begin; i < end; ++i) {
    if (host.code[i].code == OpCode::kCall) return_sites[host.code[i].a].push_back(i + 1);
  }
  for (std::uint32_t i = begin; i < end; ++i) {
    const HostInstruction& in = host.code[i];
    std::vector<std::uint32_t>& to = targets[i - begin];
    bool ends = true;
    switch (in.code) {
      case OpCode::kJump:
      case OpCode::kCall:
        to = {in.target};
        break;
      case OpCode::kJumpIfZero:
      case OpCode::kJumpIfNotZero:
      case OpCode::kLoop:
        to = {i + 1, in.target};
        break;
      case OpCode::kSwitch:
        to = host.switches[in.a].targets;
        break;
      case OpCode::kReturn:
        to = return_sites[in.a];
        break;
      case OpCode::kEnd:
        break;
      default:
        ends = false;
    }
    if (!ends) continue;
    leader[i - begin + 1] = true;
    for (std::uint32_t t : to) leader[t - begin] = true;
  }
  std::vector<Block> blocks;
  std::vector<std::uint32_t> block_of(end - begin);
  for (std::uint32_t i = begin; i < end; ++i) {
    if (leader[i - begin]) {
      if (!blocks.empty()) blocks.back().end = i;
      blocks.emplace_back();
      blocks.back().begin = i;
    }
    block_of[i - begin] = static_cast<std::uint32_t>(blocks.size() - 1);
  }
  if (!blocks.empty()) blocks.back().end = end;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const std::uint32_t last = blocks[b].end - 1;
    std::vector<std::uint32_t> to = targets[last - begin];
    const bool falls_through = blocks[b].end < end && to.empty() && host.code[last].code != OpCode::kEnd &&
                               host.code[last].code != OpCode::kReturn;
    if (falls_through) to.push_back(blocks[b].end);
    for (std::uint32_t t : to) blocks[b].successors.push_back(block_of[t - begin]);
  }
  return blocks;
}

using Bits = std::vector<std::uint64_t>;
bool Test(const Bits& bits, VariableId v) { return (bits[v / 64] >> (v % 64)) & 1; }
void Set(Bits* bits, VariableId v) { (*bits)[v / 64] |= std::uint64_t{1} << (v % 64); }
void Clear(Bits* bits, VariableId v) { (*bits)[v / 64] &= ~(std::uint64_t{1} << (v % 64)); }

}  // namespace

std::vector<std::vector<VariableAccess>> Accesses(const CompiledProgram& program, const HostCode& host,
                                                  std::uint32_t begin, std::uint32_t end) {
  std::vector<std::vector<VariableAccess>> accesses(end - begin);
  // The partial writes since the block began or the variable was read.
  struct Partial {
    std::uint32_t block = 0, first = 0;
    std::int64_t elements = 0;
    std::vector<View> views;
  };
  std::map<VariableId, Partial> partial;
  // By variable: its access in the list of the last instruction that has one.
  struct Place {
    std::uint32_t instruction = ~0u;
    std::size_t index = 0;
  };
  std::vector<Place> places(program.variables.size());
  const std::vector<Block> blocks = BlocksOf(host, begin, end);
  for (std::uint32_t b = 0; b < blocks.size(); ++b) {
    for (std::uint32_t i = blocks[b].begin; i < blocks[b].end; ++i) {
      std::vector<VariableAccess>& here = accesses[i - begin];
      const auto access = [&here, &places, i](VariableId v) -> VariableAccess& {
        Place& place = places[v];
        if (place.instruction != i) {
          place = {i, here.size()};
          here.push_back({v});
        }
        return here[place.index];
      };
      const auto reads = [&](const std::vector<View>& views) {
        for (const View& v : views) {
          if (v.num_elements() == 0) continue;
          access(v.variable).read = true;
          partial.erase(v.variable);
        }
      };
      const auto writes = [&](const std::vector<View>& views) {
        for (const View& v : views) {
          if (v.num_elements() == 0) continue;
          const std::int64_t elements = program.variables[v.variable].num_elements;
          VariableAccess& a = access(v.variable);
          a.written = true;
          if (v.num_elements() == elements && AreDisjoint({v})) {
            a.defines = true;
            partial.erase(v.variable);
            continue;
          }
          Partial& p = partial[v.variable];
          if (p.views.empty() || p.block != b) p = {b, i, 0, {}};
          p.views.push_back(v);
          p.elements += v.num_elements();
          if (p.elements == elements && AreDisjoint(p.views)) {
            for (VariableAccess& first : accesses[p.first - begin]) {
              if (first.variable == v.variable) first.defines = true;
            }
            partial.erase(v.variable);
          }
        }
      };
      const HostInstruction& in = host.code[i];
      switch (in.code) {
        case OpCode::kRun:
          reads(host.operations[in.a]->inputs);
          writes(host.operations[in.a]->outputs);
          break;
        case OpCode::kStreamIn:
        case OpCode::kUndefined:
          writes(host.transfers[in.a].tensor);
          break;
        case OpCode::kStreamOut:
          reads(host.transfers[in.a].tensor);
          break;
        case OpCode::kJumpIfZero:
        case OpCode::kJumpIfNotZero:
        case OpCode::kAbortIfNotZero:
          reads({host.predicates[in.a]});
          break;
        case OpCode::kSwitch:
          reads({host.predicates[host.switches[in.a].predicate]});
          break;
        case OpCode::kPrint:
          reads(host.prints[in.a]->tensor);
          break;
        default:
          break;
      }
    }
  }
  return accesses;
}

ProgramLiveness AnalyseLiveness(const CompiledProgram& program, const HostCode& host, std::uint32_t begin,
                                std::uint32_t end, const std::vector<std::vector<VariableAccess>>& accesses,
                                const std::vector<bool>& live_at_exit) {
  const std::size_t num_variables = program.variables.size(), words = (num_variables + 63) / 64;
  const std::vector<Block> blocks = BlocksOf(host, begin, end);
  Bits exit(words, 0);
  for (VariableId v = 0; v < num_variables; ++v) {
    if (live_at_exit[v]) Set(&exit, v);
  }
  // An instruction that reads and defines a variable reads it first.
  const auto step = [](const std::vector<VariableAccess>& here, Bits* live) {
    for (const VariableAccess& a : here) {
      if (a.defines) Clear(live, a.variable);
    }
    for (const VariableAccess& a : here) {
      if (a.read) Set(live, a.variable);
    }
  };
  std::vector<Bits> in(blocks.size(), Bits(words, 0)), out(blocks.size(), Bits(words, 0));
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t b = blocks.size(); b-- > 0;) {
      if (host.code[blocks[b].end - 1].code == OpCode::kEnd) out[b] = exit;
      for (std::uint32_t s : blocks[b].successors) {
        for (std::size_t w = 0; w < words; ++w) out[b][w] |= in[s][w];
      }
      Bits live = out[b];
      for (std::uint32_t i = blocks[b].end; i-- > blocks[b].begin;) step(accesses[i - begin], &live);
      if (live != in[b]) {
        in[b] = std::move(live);
        changed = true;
      }
    }
  }

  ProgramLiveness result;
  result.ranges.resize(num_variables);
  // end of the live range that continues upwards from here
  std::vector<std::uint32_t> open(num_variables, 0);
  for (std::size_t b = blocks.size(); b-- > 0;) {
    Bits live = out[b];
    const auto first = 2 * (blocks[b].begin - begin), last = 2 * (blocks[b].end - begin) - 1;
    for (VariableId v = 0; v < num_variables; ++v) {
      if (Test(live, v)) open[v] = last;
    }
    for (std::uint32_t i = blocks[b].end; i-- > blocks[b].begin;) {
      const std::uint32_t at = 2 * (i - begin);
      for (const VariableAccess& a : accesses[i - begin]) {
        if (a.written && !Test(live, a.variable)) {
          // The written value is not needed, but the write needs memory.
          result.ranges[a.variable].push_back({at + 1, at + 1});
        } else if (a.defines && Test(live, a.variable)) {
          result.ranges[a.variable].push_back({at + 1, open[a.variable]});
          Clear(&live, a.variable);
        }
      }
      for (const VariableAccess& a : accesses[i - begin]) {
        if (a.read && !Test(live, a.variable)) {
          Set(&live, a.variable);
          open[a.variable] = at;
        }
      }
    }
    for (VariableId v = 0; v < num_variables; ++v) {
      if (Test(live, v)) result.ranges[v].push_back({first, open[v]});
    }
  }
  for (VariableId v = 0; v < num_variables; ++v) {
    std::vector<LiveRange>& ranges = result.ranges[v];
    std::sort(ranges.begin(), ranges.end(),
              [](const LiveRange& a, const LiveRange& b) { return a.begin < b.begin; });
    std::size_t kept = 0;
    for (const LiveRange& r : ranges) {
      if (kept > 0 && r.begin <= ranges[kept - 1].end + 1) {
        ranges[kept - 1].end = std::max(ranges[kept - 1].end, r.end);
      } else {
        ranges[kept++] = r;
      }
    }
    ranges.resize(kept);
    if (!blocks.empty() && Test(in[0], v)) result.live_at_entry.push_back(v);
  }
  return result;
}

}  // namespace ipu_model
