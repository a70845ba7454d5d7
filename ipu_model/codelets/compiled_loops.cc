#include "codelets/compiled_loops.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "codelets/assembly.h"

namespace ipu_model {

using assembly::Function;
using assembly::Instruction;
using assembly::Operand;

namespace {

Work& operator+=(Work& sum, const Work& work) {
  sum.instructions += work.instructions;
  sum.calls += work.calls;
  return sum;
}

Work operator*(const Work& work, std::uint64_t n) { return {work.instructions * n, work.calls * n}; }

bool IsJump(const Instruction& i) { return i.name[0] == 'j'; }
bool IsCall(const Instruction& i) { return i.Begins("call"); }

// Instructions that a function of the C library takes where the IPU has one for it, 0 where it has none: half
// of what popopsCycleEstimators.cpp takes for a vector of two.
std::uint64_t InstructionsOf(const std::string& name) {
  static const std::map<std::string, std::uint64_t> instructions = {
      {"expf", 3},  {"exp2f", 3}, {"logf", 6},   {"log2f", 6},  {"tanhf", 6}, {"sqrtf", 5}, {"fabsf", 1},
      {"fmaxf", 1}, {"fminf", 1}, {"floorf", 1}, {"truncf", 1}, {"ceilf", 1}, {"rintf", 1}, {"roundf", 1}};
  const auto found = instructions.find(name);
  return found == instructions.end() ? 0 : found->second;
}

// Copies of registers, zeros, and moves of 32-bit lanes, as a pair of floats is two registers.
bool IsNaming(const Instruction& i) {
  const std::vector<Operand>& o = i.operands;
  if (o.size() == 2 && o[0].kind == Operand::kRegister && o[1].kind == Operand::kRegister) {
    if (i.Is("movl") || i.Is("movq") || i.Is("movslq") || i.Begins("vmova")) return true;
    if (i.Begins("xor") && o[0].name == o[1].name) return true;
  }
  if ((i.Begins("vxor") || i.Begins("vpxor")) && o.size() == 3 && o[0].name == o[1].name) return true;
  for (const char* name : {"vmovshdup", "vmovsldup", "vunpcklps", "vunpckhps", "vinsertps", "vextractps",
                           "vpermilps", "vshufps", "vmovlhps", "vmovhlps", "vblendps", "vbroadcastss"}) {
    if (i.Begins(name)) return true;
  }
  return false;
}

// Of an instruction other than a call.
Work WorkOf(const Instruction& i) {
  const std::vector<Operand>& o = i.operands;
  if (i.Begins("nop") || i.Is("endbr64") || i.Is("vzeroupper") || i.Is("cltq")) return {};
  const Operand* const memory = i.Memory();
  if (IsNaming(i)) return {memory != nullptr ? 1u : 0u, 0};
  // A branch on zero needs no comparison, and the result of a comparison is a number.
  if (i.Begins("test") && memory == nullptr) return {};
  if (i.Begins("set")) return {};
  const bool is_move = i.Begins("mov") || i.Begins("vmov") || i.Begins("push") || i.Begins("pop") ||
                       i.Begins("vpinsr") || i.Begins("vpextr");
  Work work = {1, 0};
  if (i.Begins("vsqrt")) work.instructions = InstructionsOf("sqrtf");
  if (i.Begins("vdiv")) work.instructions = 3;
  // A comparison of floats is a move more, to a register that a branch can read; so is a conversion from an
  // integer, and one to an integer also rounds.
  if (i.Begins("vucomi") || i.Begins("vcomi") || i.Begins("vcvtsi") || i.Begins("vcvtusi"))
    work.instructions = 2;
  if (i.Begins("vcvtt") && o.back().name.rfind("xmm", 0) != 0) work.instructions = 3;
  if (memory != nullptr && !is_move) {
    const bool writes =
        memory == &o.back() && !i.Begins("cmp") && !i.Begins("test") &&
        (o.size() > 1 || i.Begins("inc") || i.Begins("dec") || i.Begins("neg") || i.Begins("not"));
    // Instructions on vector registers store a result, the others change what is there.
    work.instructions += writes && i.name[0] != 'v' ? 2 : 1;
  }
  const bool divides_integers = i.Begins("div") || i.Begins("idiv");
  const bool is_double = !is_move && i.name[0] == 'v' && i.name[1] != 'p' && i.name.find("sd") != i.name.npos;
  if (divides_integers || is_double) return {memory != nullptr ? 1u : 0u, 1};
  return work;
}

struct Block {
  std::size_t begin = 0, end = 0;  // of its instructions
  std::vector<std::size_t> next, before;
};

struct Loop {
  std::size_t header = 0;
  std::set<std::size_t> blocks, latches;
  std::uint64_t trips = 0;  // 0: depends on the data
  bool holds_loop = false;  // another whose trips depend on the data
};

// The control flow of one function.
class Flow {
 public:
  explicit Flow(const Function& function) : code_(function.instructions) {
    Split(function);
    if (!understood_ || blocks_.empty()) return;
    Order();
    FindLoops();
    for (Loop& loop : loops_) loop.trips = ConstantTrips(loop);
  }

  bool understood() const { return understood_; }
  const std::vector<Block>& blocks() const { return blocks_; }
  bool IsReached(std::size_t block) const { return position_[block] != kNone; }
  // Smaller ones first.
  std::vector<Loop>& loops() { return loops_; }

  // Registers that a loop steps, and otherwise only uses as addresses or compares.
  std::set<std::string> PointersOf(const Loop& loop) const {
    std::set<std::string> stepped, addresses, others;
    ForEachIn(loop, [&](const Instruction& i, std::int64_t) {
      const auto step = assembly::StepOf(i);
      if (step.has_value()) stepped.insert(step->to);
      const bool compares = i.Begins("cmp") || i.Begins("test");
      for (const Operand& o : i.operands) {
        if (o.kind == Operand::kMemory) {
          // The sum of two registers that is no access is a number.
          std::set<std::string>& uses = i.Begins("lea") && !step.has_value() ? others : addresses;
          uses.insert({o.base, o.index});
        } else if (o.kind == Operand::kRegister && !step.has_value()) {
          (compares ? addresses : others).insert(o.name);
        }
      }
      // What a copy of a pointer is used for is seen at the copy.
      if (step.has_value() && step->from != step->to) addresses.insert(step->from);
    });
    for (const std::size_t latch : loop.latches) {
      if (CountsTrips(loop, latch)) addresses.insert(assembly::Changes(code_[blocks_[latch].end - 2]));
    }
    std::set<std::string> pointers;
    for (const std::string& name : stepped) {
      if (addresses.count(name) != 0 && others.count(name) == 0) pointers.insert(name);
    }
    return pointers;
  }

  // Whether a block ends a trip of a loop by comparing what each trip steps.
  bool CountsTrips(const Loop& loop, std::size_t block) const {
    if (loop.latches.count(block) == 0 || blocks_[block].end - blocks_[block].begin < 2) return false;
    const Instruction& test = code_[blocks_[block].end - 2];
    if (const auto step = assembly::StepOf(test); step.has_value()) return step->to == step->from;
    if (!test.Begins("cmp") && !test.Begins("test")) return false;
    for (const Operand& o : test.operands) {
      if (o.kind == Operand::kRegister && RegisterStep(o.name, loop, 0) != 0) return true;
    }
    return false;
  }

  // Bytes between the accesses of two trips: the most of all accesses.
  std::uint64_t StrideOf(const Loop& loop) const {
    std::int64_t stride = 0;
    for (const std::size_t b : loop.blocks) {
      for (std::size_t i = blocks_[b].begin; i < blocks_[b].end; ++i) {
        const Operand* const memory = code_[i].Memory();
        if (memory == nullptr) continue;
        stride = std::max(stride, std::abs(AddressStep(*memory, loop, b, i, 0)));
      }
    }
    return static_cast<std::uint64_t>(stride);
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  void Split(const Function& function) {
    std::set<std::size_t> starts = {0};
    for (const auto& [label, at] : function.labels) starts.insert(at);
    for (std::size_t i = 0; i < code_.size(); ++i) {
      if (IsJump(code_[i]) || code_[i].Begins("ret") || code_[i].Is("ud2")) starts.insert(i + 1);
    }
    std::map<std::size_t, std::size_t> block_at;
    for (auto at = starts.begin(); at != starts.end() && *at < code_.size(); ++at) {
      const auto after = std::next(at);
      block_at[*at] = blocks_.size();
      blocks_.push_back({*at, after == starts.end() ? code_.size() : std::min(*after, code_.size()), {}, {}});
    }
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      const Instruction& last = code_[blocks_[b].end - 1];
      const auto add = [&](std::size_t to) {
        blocks_[b].next.push_back(to);
        blocks_[to].before.push_back(b);
      };
      if (IsJump(last)) {
        const auto label =
            last.operands.size() == 1 ? function.labels.find(last.operands[0].text) : function.labels.end();
        const auto to = label == function.labels.end() ? block_at.end() : block_at.find(label->second);
        if (to == block_at.end()) {
          understood_ = false;
          return;
        }
        add(to->second);
      }
      const bool goes_on = !last.Is("jmp") && !last.Begins("ret") && !last.Is("ud2");
      if (goes_on && b + 1 < blocks_.size()) add(b + 1);
    }
  }

  // Blocks in reverse postorder, and the immediate dominator of each (Cooper, Harvey and Kennedy, "A Simple,
  // Fast Dominance Algorithm").
  void Order() {
    std::vector<std::size_t> postorder;
    std::vector<bool> seen(blocks_.size());
    std::vector<std::pair<std::size_t, std::size_t>> stack = {{0, 0}};
    seen[0] = true;
    while (!stack.empty()) {
      auto& [block, n] = stack.back();
      if (n == blocks_[block].next.size()) {
        postorder.push_back(block);
        stack.pop_back();
        continue;
      }
      const std::size_t to = blocks_[block].next[n++];
      if (seen[to]) continue;
      seen[to] = true;
      stack.emplace_back(to, 0);
    }
    order_.assign(postorder.rbegin(), postorder.rend());
    position_.assign(blocks_.size(), kNone);
    for (std::size_t i = 0; i < order_.size(); ++i) position_[order_[i]] = i;
    dominator_.assign(blocks_.size(), kNone);
    dominator_[0] = 0;
    for (bool changed = true; changed;) {
      changed = false;
      for (const std::size_t b : order_) {
        if (b == 0) continue;
        std::size_t common = kNone;
        for (const std::size_t p : blocks_[b].before) {
          if (dominator_[p] == kNone) continue;
          common = common == kNone ? p : CommonDominator(p, common);
        }
        if (dominator_[b] != common) {
          dominator_[b] = common;
          changed = true;
        }
      }
    }
  }

  std::size_t CommonDominator(std::size_t a, std::size_t b) const {
    while (a != b) {
      while (position_[a] > position_[b]) a = dominator_[a];
      while (position_[b] > position_[a]) b = dominator_[b];
    }
    return a;
  }

  bool Dominates(std::size_t a, std::size_t b) const {
    while (position_[b] > position_[a]) b = dominator_[b];
    return a == b;
  }

  // Natural loops; those of one header are one.
  void FindLoops() {
    std::map<std::size_t, Loop> by_header;
    for (const std::size_t latch : order_) {
      for (const std::size_t header : blocks_[latch].next) {
        if (!Dominates(header, latch)) continue;
        Loop& loop = by_header[header];
        loop.header = header;
        loop.latches.insert(latch);
        loop.blocks.insert(header);
        std::vector<std::size_t> left = {latch};
        while (!left.empty()) {
          const std::size_t b = left.back();
          left.pop_back();
          if (!IsReached(b) || !loop.blocks.insert(b).second) continue;
          left.insert(left.end(), blocks_[b].before.begin(), blocks_[b].before.end());
        }
      }
    }
    for (auto& [header, loop] : by_header) loops_.push_back(std::move(loop));
    std::stable_sort(loops_.begin(), loops_.end(),
                     [](const Loop& a, const Loop& b) { return a.blocks.size() < b.blocks.size(); });
  }

  // Calls visit(instruction, trips) for the instructions of one trip of the loop.
  template <typename Visit>
  void ForEachIn(const Loop& loop, const Visit& visit) const {
    for (const std::size_t b : loop.blocks) {
      std::int64_t times = 1;
      for (const Loop& inner : loops_) {
        if (inner.trips > 0 && inner.header != loop.header && inner.blocks.count(b) != 0 &&
            inner.blocks.size() < loop.blocks.size())
          times *= static_cast<std::int64_t>(inner.trips);
      }
      for (std::size_t i = blocks_[b].begin; i < blocks_[b].end; ++i) visit(code_[i], times);
    }
  }

  // What one trip adds to a register; 0 if it is not a constant.
  std::int64_t RegisterStep(const std::string& name, const Loop& loop, int depth) const {
    if (name.empty() || name == "rip" || depth > 8) return 0;
    std::int64_t sum = 0;
    bool is_stepped = false, is_other = false;
    const Instruction* copy = nullptr;
    ForEachIn(loop, [&](const Instruction& i, std::int64_t times) {
      if (assembly::Changes(i) != name) return;
      const auto step = assembly::StepOf(i);
      if (step.has_value() && step->from == name) {
        sum += step->number * times;
        is_stepped = true;
      } else if (step.has_value() || i.Begins("lea")) {
        copy = &i;
      } else {
        is_other = true;
      }
    });
    if (is_other) return 0;
    if (copy == nullptr) return is_stepped ? sum : 0;
    const auto step = assembly::StepOf(*copy);
    if (!step.has_value()) return 0;
    // A register that is what another was, plus a constant: "lea 4(%rax), %rcx ... mov %rcx, %rax".
    std::string at = step->from;
    std::int64_t offset = step->number + sum;
    for (int n = 0; n < 8; ++n) {
      std::optional<assembly::Step> before;
      ForEachIn(loop, [&](const Instruction& i, std::int64_t) {
        const auto s = assembly::StepOf(i);
        if (s.has_value() && s->to == at && s->from != at) before = s;
      });
      if (!before.has_value()) break;
      offset += before->number;
      at = before->from;
      if (at == name) return offset;
    }
    return RegisterStep(step->from, loop, depth + 1);
  }

  // What one trip adds to an address that an instruction of a block uses.
  std::int64_t AddressStep(const Operand& memory, const Loop& loop, std::size_t block, std::size_t at,
                           int depth) const {
    return StepAt(memory.base, loop, block, at, depth) +
           memory.scale * StepAt(memory.index, loop, block, at, depth);
  }

  // The same of a register, which may get its value right before.
  std::int64_t StepAt(const std::string& name, const Loop& loop, std::size_t block, std::size_t at,
                      int depth) const {
    for (std::size_t i = at; i > blocks_[block].begin && depth <= 8 && !name.empty(); --i) {
      const Instruction& before = code_[i - 1];
      if (assembly::Changes(before) != name) continue;
      const auto step = assembly::StepOf(before);
      if (step.has_value() && step->from == name) continue;
      if (step.has_value()) return StepAt(step->from, loop, block, i - 1, depth + 1);
      if (before.Begins("lea")) return AddressStep(before.operands[0], loop, block, i - 1, depth + 1);
      return 0;
    }
    return RegisterStep(name, loop, depth);
  }

  // The trips of a loop that counts from a constant to a constant, else 0.
  std::uint64_t ConstantTrips(const Loop& loop) const {
    if (loop.latches.size() != 1) return 0;
    const Block& latch = blocks_[*loop.latches.begin()];
    if (latch.end - latch.begin < 2 || latch.next.size() != 2) return 0;
    const Instruction &jump = code_[latch.end - 1], &test = code_[latch.end - 2];
    std::string name;
    std::int64_t limit = 0;
    if (test.Begins("cmp") && test.operands.size() == 2 && test.operands[0].kind == Operand::kImmediate) {
      name = test.operands[1].name;
      limit = test.operands[0].number;
    } else if (const auto step = assembly::StepOf(test); step.has_value() && step->to == step->from) {
      name = step->to;
    }
    if (name.empty()) return 0;
    const std::int64_t step = RegisterStep(name, loop, 0);
    const auto start = ConstantBefore(name, loop);
    if (step == 0 || !start.has_value()) return 0;
    const std::int64_t distance = (limit - *start) * (step > 0 ? 1 : -1), size = std::abs(step);
    if (distance <= 0) return 0;
    const bool includes_limit = jump.Is("jle") || jump.Is("jbe") || jump.Is("jge") || jump.Is("jae");
    return static_cast<std::uint64_t>(includes_limit ? distance / size + 1 : (distance + size - 1) / size);
  }

  // The constant that a register has when a loop begins.
  std::optional<std::int64_t> ConstantBefore(const std::string& name, const Loop& loop) const {
    for (std::size_t b = loop.header; b != 0;) {
      b = dominator_[b];
      for (std::size_t i = blocks_[b].end; i > blocks_[b].begin; --i) {
        const Instruction& at = code_[i - 1];
        if (assembly::Changes(at) != name) continue;
        const std::vector<Operand>& o = at.operands;
        if (o.size() != 2) return std::nullopt;
        if (at.Begins("mov") && o[0].kind == Operand::kImmediate) return o[0].number;
        if (at.Begins("xor") && o[0].name == name) return 0;
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  const std::vector<Instruction>& code_;
  bool understood_ = true;
  std::vector<Block> blocks_;
  std::vector<std::size_t> order_, position_, dominator_;
  std::vector<Loop> loops_;
};

// Finds the loops of functions and of those that they call.
class Finder {
 public:
  explicit Finder(const std::string& text) : functions_(assembly::FunctionsIn(text)) {}
  const std::map<std::string, Function>& functions() const { return functions_; }

  std::optional<CompiledLoops> Find(const std::string& name) {
    const auto [entry, is_new] = found_.try_emplace(name, std::nullopt);
    // Of a function that calls itself nothing is known yet.
    if (is_new) {
      std::optional<CompiledLoops> loops = Count(functions_.at(name));
      found_[name] = std::move(loops);
    }
    return found_[name];
  }

 private:
  // A loop of the function, or null for what is outside of them.
  using PerLoop = std::map<const Loop*, Work>;

  std::optional<CompiledLoops> Count(const Function& function) {
    Flow flow(function);
    if (!flow.understood()) return std::nullopt;
    CompiledLoops result;
    PerLoop work;
    for (std::size_t b = 0; b < flow.blocks().size(); ++b) {
      if (!flow.IsReached(b)) continue;
      Loop *around = nullptr, *inner = nullptr;
      std::uint64_t times = 1;
      for (Loop& loop : flow.loops()) {
        if (loop.blocks.count(b) == 0) continue;
        if (inner == nullptr) inner = &loop;
        if (loop.trips > 0) {
          times *= loop.trips;
        } else if (around == nullptr) {
          around = &loop;
        } else {
          loop.holds_loop = true;
        }
      }
      Work& sum = work[around];
      // A load or a store steps its pointer (ld32step), and the end of a counted loop is one instruction
      // (brnzdec).
      const std::set<std::string> pointers =
          inner != nullptr ? flow.PointersOf(*inner) : std::set<std::string>();
      const bool counts = inner != nullptr && flow.CountsTrips(*inner, b);
      for (std::size_t i = flow.blocks()[b].begin; i < flow.blocks()[b].end; ++i) {
        const Instruction& at = function.instructions[i];
        if (!IsCall(at)) {
          const auto step = assembly::StepOf(at);
          const bool is_step = step.has_value() && pointers.count(step->to) != 0;
          const bool is_end = counts && i + 2 == flow.blocks()[b].end && at.Memory() == nullptr;
          if (!is_step && !is_end) sum += WorkOf(at) * times;
          continue;
        }
        const auto callee = LoopsOfCall(at);
        if (!callee.has_value()) return std::nullopt;
        sum += callee->once * times;
        result.each_vector += callee->each_vector * times;
        for (const CompiledLoops::Innermost& loop : callee->innermost)
          result.innermost.push_back({loop.work * times, loop.stride_bytes});
        if (around != nullptr && !callee->innermost.empty()) around->holds_loop = true;
      }
    }
    for (const auto& [loop, sum] : work) {
      if (loop == nullptr) {
        result.once += sum;
      } else if (loop->holds_loop) {
        result.each_vector += sum;
      } else {
        result.innermost.push_back({sum, flow.StrideOf(*loop)});
      }
    }
    return result;
  }

  std::optional<CompiledLoops> LoopsOfCall(const Instruction& call) {
    std::string name = call.operands.size() == 1 ? call.operands[0].text : "*";
    name = name.substr(0, name.find('@'));
    if (name[0] == '*') return std::nullopt;
    CompiledLoops loops;
    loops.once.instructions = 1;
    if (functions_.count(name) != 0) {
      const auto callee = Find(name);
      if (!callee.has_value()) return std::nullopt;
      loops = *callee;
      ++loops.once.instructions;
    } else if (name == "memcpy" || name == "memmove" || name == "memset") {
      // A load and a store of 64 bits in each trip.
      loops.once.calls = 1;
      loops.innermost.push_back({{2, 0}, 8});
    } else if (const std::uint64_t instructions = InstructionsOf(name); instructions > 0) {
      loops.once.instructions = instructions;
    } else {
      loops.once.calls = 1;
    }
    return loops;
  }

  std::map<std::string, Function> functions_;
  std::map<std::string, std::optional<CompiledLoops>> found_;
};

}  // namespace

std::map<std::string, CompiledLoops> LoopsIn(const std::string& assembly, const std::string& prefix) {
  std::map<std::string, CompiledLoops> result;
  Finder finder(assembly);
  for (const auto& [name, function] : finder.functions()) {
    if (name.rfind(prefix, 0) != 0) continue;
    if (auto loops = finder.Find(name); loops.has_value()) result.emplace(name, std::move(*loops));
  }
  return result;
}

std::string WriteLoops(const CompiledLoops& loops) {
  std::ostringstream text;
  const auto write = [&text](const Work& work) { text << work.instructions << ' ' << work.calls << ' '; };
  write(loops.once);
  write(loops.each_vector);
  for (const CompiledLoops::Innermost& loop : loops.innermost) {
    write(loop.work);
    text << loop.stride_bytes << ' ';
  }
  return text.str();
}

bool ReadLoops(const std::string& line, CompiledLoops* loops) {
  std::istringstream text(line);
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t number; text >> number;) numbers.push_back(number);
  if (!text.eof() || numbers.size() < 4 || (numbers.size() - 4) % 3 != 0) return false;
  loops->once = {numbers[0], numbers[1]};
  loops->each_vector = {numbers[2], numbers[3]};
  loops->innermost.clear();
  for (std::size_t i = 4; i < numbers.size(); i += 3)
    loops->innermost.push_back({{numbers[i], numbers[i + 1]}, numbers[i + 2]});
  return true;
}

}  // namespace ipu_model
