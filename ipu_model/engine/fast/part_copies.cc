#include "engine/fast/part_copies.h"

#include <algorithm>

#include "core/mapping/strides.h"

namespace ipu_model {
namespace {

// Pieces of memory of so many elements would be a block of the writer each: more, and smaller ones, than if
// it wrote its result in one piece.
constexpr std::int64_t kFewest = 256, kEnough = 2048;
// Limits the time of planning.
constexpr int kMostBetween = 64;

bool IsWhole(const View& view, const std::vector<Variable>& variables) {
  return IsWholeVariable(view, variables[view.variable].num_elements);
}

// Whether a writer takes no longer for a part than for a result in one piece.
bool IsCheap(const View& part) {
  const View pieces = Coalesced(part);
  if (pieces.strides.back() != 1) return true;
  const std::int64_t length = pieces.shape.back();
  return length < kFewest || length >= kEnough || pieces.shape.size() == 1;
}

// The extent of the dimension with a stride; 1 if there is none.
std::int64_t ExtentOf(const View& view, std::int64_t stride) {
  for (std::size_t d = 0; d < view.shape.size(); ++d)
    if (view.shape[d] > 1 && view.strides[d] == stride) return view.shape[d];
  return 1;
}

// Whether two views of one variable are seen to have no common element: boxes of the index space that the
// strides of both have.
bool AreApart(const View& a, const View& b) {
  Shape strides = {1};
  for (const View* view : {&a, &b}) {
    for (std::size_t d = 0; d < view->shape.size(); ++d)
      if (view->shape[d] > 1) strides.push_back(view->strides[d]);
  }
  std::sort(strides.rbegin(), strides.rend());
  strides.erase(std::unique(strides.begin(), strides.end()), strides.end());
  if (strides.back() != 1) return false;
  bool apart = false;
  std::int64_t rest_a = a.offset, rest_b = b.offset;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    const std::int64_t stride = strides[i];
    if (i > 0 && strides[i - 1] % stride != 0) return false;
    const std::int64_t begin_a = rest_a / stride, end_a = begin_a + ExtentOf(a, stride);
    const std::int64_t begin_b = rest_b / stride, end_b = begin_b + ExtentOf(b, stride);
    rest_a %= stride;
    rest_b %= stride;
    if (i > 0 && std::max(end_a, end_b) > strides[i - 1] / stride) return false;
    apart = apart || end_a <= begin_b || end_b <= begin_a;
  }
  return apart;
}

// Whether an instruction only writes the other variable, and not in the part.
bool LeavesAlone(const HostCode& code, const HostInstruction& instruction, const PartCopy& copy,
                 const View& part) {
  if (instruction.code != OpCode::kRun) return false;
  const Operation& operation = *code.operations[instruction.a];
  const bool reads = std::any_of(operation.inputs.begin(), operation.inputs.end(),
                                 [&](const View& view) { return copy.shares(view.variable); });
  if (reads) return false;
  return std::all_of(operation.outputs.begin(), operation.outputs.end(), [&](const View& output) {
    const View view = copy.placed(output);
    return !copy.shares(view.variable) ||
           (view.variable == part.variable && AreApart(Coalesced(view), Coalesced(part)));
  });
}

}  // namespace

std::vector<bool> JumpTargets(const HostCode& code) {
  std::vector<bool> targets(code.code.size() + 1, false);
  for (const HostInstruction& in : code.code) targets[in.target] = true;
  for (const SwitchTable& table : code.switches) {
    for (const std::uint32_t target : table.targets) targets[target] = true;
  }
  for (const std::uint32_t begin : code.begin) targets[begin] = true;
  return targets;
}

std::optional<View> FindPart(const HostCode& code, const std::vector<bool>& targets, const PartCopy& copy,
                             const std::vector<Variable>& variables) {
  const Operation& operation = *code.operations[code.code[copy.copy].a];
  if (operation.kind() != "poplar::copy" || operation.inputs.size() != 1) return std::nullopt;
  const View &from = operation.inputs[0], &to = operation.outputs[0];
  if (copy.temporary_users->size() != 2 || copy.shares(from.variable) || !IsWhole(from, variables) ||
      to.num_elements() >= variables[to.variable].num_elements || from.type != to.type || !IsCheap(to))
    return std::nullopt;
  const std::vector<std::uint32_t>& pair = *copy.temporary_users;
  const std::uint32_t writer = pair[0] == copy.copy ? pair[1] : pair[0];
  if (writer >= copy.copy || code.code[writer].code != OpCode::kRun) return std::nullopt;
  const Operation& maker = *code.operations[code.code[writer].a];
  if (!maker.AnyOutputStrides() && !(maker.AnyOutputOrder() && IsRowMajorContiguous(to))) return std::nullopt;
  const auto made = std::find_if(maker.outputs.begin(), maker.outputs.end(),
                                 [&](const View& view) { return view.variable == from.variable; });
  const bool reads = std::any_of(maker.inputs.begin(), maker.inputs.end(),
                                 [&](const View& view) { return view.variable == from.variable; });
  View part;
  if (reads || made == maker.outputs.end() || !IsWhole(*made, variables) ||
      !ReshapeView(to, made->shape, &part))
    return std::nullopt;
  for (std::uint32_t i = writer + 1; i <= copy.copy; ++i) {
    const OpCode next = code.code[i].code;
    const bool straight = next == OpCode::kRun || next == OpCode::kUndefined || next == OpCode::kStreamIn ||
                          next == OpCode::kStreamOut || next == OpCode::kSync;
    if (targets[i] || !straight) return std::nullopt;
  }
  int between = 0;
  for (const std::uint32_t user : *copy.users) {
    if (user < writer || user >= copy.copy) continue;
    if (++between > kMostBetween || !LeavesAlone(code, code.code[user], copy, to)) return std::nullopt;
  }
  return part;
}

}  // namespace ipu_model
