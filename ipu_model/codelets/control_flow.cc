#include "codelets/control_flow.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

namespace ipu_model {

using assembly::Function;
using assembly::Instruction;
using assembly::Operand;

namespace {

bool IsJump(const Instruction& i) { return i.name[0] == 'j'; }

}  // namespace

ControlFlow::ControlFlow(const Function& function) : code_(function.instructions) {
  Split(function);
  if (!understood_ || blocks_.empty()) return;
  Order();
  FindLoops();
  for (CodeLoop& loop : loops_) loop.trips = ConstantTrips(loop);
}

void ControlFlow::Split(const Function& function) {
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

void ControlFlow::Order() {
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

std::size_t ControlFlow::CommonDominator(std::size_t a, std::size_t b) const {
  while (a != b) {
    while (position_[a] > position_[b]) a = dominator_[a];
    while (position_[b] > position_[a]) b = dominator_[b];
  }
  return a;
}

bool ControlFlow::Dominates(std::size_t a, std::size_t b) const {
  while (position_[b] > position_[a]) b = dominator_[b];
  return a == b;
}

void ControlFlow::FindLoops() {
  std::map<std::size_t, CodeLoop> by_header;
  for (const std::size_t latch : order_) {
    for (const std::size_t header : blocks_[latch].next) {
      if (!Dominates(header, latch)) continue;
      CodeLoop& loop = by_header[header];
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
                   [](const CodeLoop& a, const CodeLoop& b) { return a.blocks.size() < b.blocks.size(); });
}

template <typename Visit>
void ControlFlow::ForEachIn(const CodeLoop& loop, const Visit& visit) const {
  for (const std::size_t b : loop.blocks) {
    std::int64_t times = 1;
    for (const CodeLoop& inner : loops_) {
      if (inner.trips > 0 && inner.header != loop.header && inner.blocks.count(b) != 0 &&
          inner.blocks.size() < loop.blocks.size())
        times *= static_cast<std::int64_t>(inner.trips);
    }
    for (std::size_t i = blocks_[b].begin; i < blocks_[b].end; ++i) visit(code_[i], times);
  }
}

std::set<std::string> ControlFlow::PointersOf(const CodeLoop& loop) const {
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

bool ControlFlow::CountsTrips(const CodeLoop& loop, std::size_t block) const {
  if (loop.latches.count(block) == 0 || blocks_[block].end - blocks_[block].begin < 2) return false;
  const Instruction& test = code_[blocks_[block].end - 2];
  if (const auto step = assembly::StepOf(test); step.has_value()) return step->to == step->from;
  if (!test.Begins("cmp") && !test.Begins("test")) return false;
  for (const Operand& o : test.operands) {
    if (o.kind != Operand::kRegister || RegisterStep(o.name, loop, 0) == 0) continue;
    // No instruction counts on the stack.
    const auto copy = ChangedIn(o.name, loop).copy;
    if (!copy.has_value() || !assembly::IsOnStack(copy->from)) return true;
  }
  return false;
}

std::uint64_t ControlFlow::StrideOf(const CodeLoop& loop) const {
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

ControlFlow::Changed ControlFlow::ChangedIn(const std::string& place, const CodeLoop& loop) const {
  Changed result;
  ForEachIn(loop, [&](const Instruction& i, std::int64_t times) {
    if (assembly::ChangesOnStack(i) != place) return;
    const auto step = assembly::StepOnStackOf(i);
    if (step.has_value() && step->from == place) {
      result.sum += step->number * times;
      result.is_stepped = true;
    } else if (step.has_value()) {
      result.copy = step;
    } else {
      result.is_other = true;
    }
  });
  return result;
}

std::int64_t ControlFlow::RegisterStep(const std::string& name, const CodeLoop& loop, int depth) const {
  if (name.empty() || name == "rip" || depth > 8) return 0;
  const Changed of_name = ChangedIn(name, loop);
  if (of_name.is_other) return 0;
  if (!of_name.copy.has_value()) return of_name.is_stepped ? of_name.sum : 0;
  // A register that is what another was, plus a constant: "lea 4(%rax), %rcx ... mov %rcx, %rax".
  std::string at = of_name.copy->from;
  std::int64_t offset = of_name.copy->number + of_name.sum;
  for (int n = 0; n < 8; ++n) {
    const Changed before = ChangedIn(at, loop);
    if (before.is_other || !before.copy.has_value()) break;
    offset += before.copy->number + before.sum;
    at = before.copy->from;
    if (at == name) return offset;
  }
  return RegisterStep(of_name.copy->from, loop, depth + 1);
}

std::int64_t ControlFlow::AddressStep(const Operand& memory, const CodeLoop& loop, std::size_t block,
                                      std::size_t at, int depth) const {
  return StepAt(memory.base, loop, block, at, depth) +
         memory.scale * StepAt(memory.index, loop, block, at, depth);
}

std::int64_t ControlFlow::StepAt(const std::string& name, const CodeLoop& loop, std::size_t block,
                                 std::size_t at, int depth) const {
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

std::uint64_t ControlFlow::ConstantTrips(const CodeLoop& loop) const {
  if (loop.latches.size() != 1) return 0;
  const CodeBlock& latch = blocks_[*loop.latches.begin()];
  if (latch.end - latch.begin < 2 || latch.next.size() != 2) return 0;
  const Instruction& jump = code_[latch.end - 1];
  // Moves leave the flags as they are: a volatile counter is stored behind its test.
  std::size_t at = latch.end - 2;
  while (at > latch.begin && code_[at].Begins("mov")) --at;
  const Instruction& test = code_[at];
  std::string name;
  std::int64_t limit = 0;
  if (test.Begins("cmp") && test.operands.size() == 2 && test.operands[0].kind == Operand::kImmediate) {
    name = test.operands[1].name;
    limit = test.operands[0].number;
  } else if (const auto step = assembly::StepOnStackOf(test); step.has_value() && step->to == step->from) {
    name = step->to;
  }
  if (name.empty()) return 0;
  const std::int64_t step = RegisterStep(name, loop, 0);
  // A counter on the stack is loaded for the test.
  const auto copy = ChangedIn(name, loop).copy;
  const auto start =
      ConstantBefore(copy.has_value() && assembly::IsOnStack(copy->from) ? copy->from : name, loop);
  if (step == 0 || !start.has_value()) return 0;
  const std::int64_t distance = (limit - *start) * (step > 0 ? 1 : -1), size = std::abs(step);
  if (distance <= 0) return 0;
  const bool includes_limit = jump.Is("jle") || jump.Is("jbe") || jump.Is("jge") || jump.Is("jae");
  return static_cast<std::uint64_t>(includes_limit ? distance / size + 1 : (distance + size - 1) / size);
}

std::optional<std::int64_t> ControlFlow::ConstantBefore(const std::string& name, const CodeLoop& loop) const {
  for (std::size_t b = loop.header; b != 0;) {
    b = dominator_[b];
    for (std::size_t i = blocks_[b].end; i > blocks_[b].begin; --i) {
      const Instruction& at = code_[i - 1];
      if (assembly::ChangesOnStack(at) != name) continue;
      const std::vector<Operand>& o = at.operands;
      if (o.size() != 2) return std::nullopt;
      if (at.Begins("mov") && o[0].kind == Operand::kImmediate) return o[0].number;
      if (at.Begins("xor") && o[0].name == name) return 0;
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace ipu_model
