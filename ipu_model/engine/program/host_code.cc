// Flattens program trees to instructions.
#include "engine/program/host_code.h"

#include <map>
#include <utility>

#include "engine/program/checks.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {

namespace {

constexpr std::size_t kMaxInstructions = std::size_t{1} << 26;
constexpr int kMaxDepth = 2000;  // limit of nested control flow, which prevents stack exhaustion

class Flattener {
 public:
  Flattener(const CompiledProgram& program, HostCode* out, std::vector<const ProgramNode*>* nodes)
      : program_(program), out_(out), nodes_(nodes) {}

  void Program(const ProgramNode& root) {
    functions_.clear();
    Node(root, true, 0);
    Emit(OpCode::kEnd);
    // Emit the functions that are called, including calls from functions emitted here.
    for (bool more = true; more;) {
      more = false;
      for (auto& [id, function] : functions_) {
        if (function.emitted) continue;
        function.emitted = more = true;
        function.entry = Position();
        const std::uint32_t slot = function.slot;
        Node(*program_.functions.at(id), false, 0);
        Emit(OpCode::kReturn, slot);
        break;  // the map may have grown
      }
    }
    for (const auto& [id, function] : functions_) {
      for (std::uint32_t call : function.calls) out_->code[call].target = function.entry;
    }
  }

 private:
  struct FunctionCode {
    std::uint32_t slot = 0, entry = 0;
    bool emitted = false;
    std::vector<std::uint32_t> calls;
  };

  std::uint32_t Position() const { return static_cast<std::uint32_t>(out_->code.size()); }

  std::uint32_t Emit(OpCode code, std::size_t a = 0, std::uint32_t target = 0) {
    if (out_->code.size() >= kMaxInstructions) {
      throw poplar::control_program_error("the program has more than " + std::to_string(kMaxInstructions) +
                                          " steps");
    }
    out_->code.push_back({code, static_cast<std::uint32_t>(a), target});
    if (nodes_ != nullptr) nodes_->push_back(node_);
    return Position() - 1;
  }
  void JumpHere(std::uint32_t jump) { out_->code[jump].target = Position(); }

  std::size_t Predicate(const ProgramNode& node) {
    for (const View& v : node.tensor) {
      if (v.num_elements() == 0) continue;
      out_->predicates.push_back(v);
      return out_->predicates.size() - 1;
    }
    throw poplar::control_program_error("'" + node.name + "' has a predicate without an element");
  }
  std::size_t AddTransfer(const ProgramNode& node, bool once) {
    out_->transfers.push_back({node.stream, node.tensor, once});
    return out_->transfers.size() - 1;
  }

  // `once`: the node runs exactly once in every run of the program.
  void Node(const ProgramNode& node, bool once, int depth) {
    if (depth > kMaxDepth) {
      throw poplar::control_program_error("'" + node.name + "' is nested deeper than " +
                                          std::to_string(kMaxDepth) + " programs");
    }
    const ProgramNode* const outer = std::exchange(node_, &node);
    Instructions(node, once, depth);
    node_ = outer;
  }

  void Instructions(const ProgramNode& node, bool once, int depth) {
    switch (node.kind) {
      case ProgramKind::kSequence:
        for (const auto& child : node.children) Node(*child, once, depth + 1);
        return;
      case ProgramKind::kOperation:
        if (node.operation->outputs.empty() && node.operation->kind() == "poplar::copy") return;
        out_->operations.push_back(node.operation.get());
        Emit(OpCode::kRun, out_->operations.size() - 1);
        return;
      case ProgramKind::kStreamIn:
        Emit(OpCode::kStreamIn, AddTransfer(node, once));
        return;
      case ProgramKind::kStreamOut:
        Emit(OpCode::kStreamOut, AddTransfer(node, once));
        return;
      case ProgramKind::kWriteUndef:
        Emit(OpCode::kUndefined, AddTransfer(node, once));
        return;
      case ProgramKind::kRepeat: {
        if (node.count == 0) return;
        if (node.count == 1) return Node(*node.children[0], once, depth + 1);
        out_->counts.push_back(node.count);
        const std::size_t counter = out_->counts.size() - 1;
        Emit(OpCode::kSetCounter, counter);
        const std::uint32_t top = Position();
        Node(*node.children[0], false, depth + 1);
        Emit(OpCode::kLoop, counter, top);
        return;
      }
      case ProgramKind::kRepeatWhileTrue:
      case ProgramKind::kRepeatWhileFalse:
        return RepeatWhile(node, depth);
      case ProgramKind::kIf:
        return If(node, depth);
      case ProgramKind::kSwitch:
        return Switch(node, depth);
      case ProgramKind::kCall: {
        const auto [it, added] = functions_.try_emplace(node.function);
        if (added) it->second.slot = out_->num_return_slots++;
        it->second.calls.push_back(Emit(OpCode::kCall, it->second.slot));
        return;
      }
      case ProgramKind::kPrint:
        out_->prints.push_back(&node);
        Emit(OpCode::kPrint, out_->prints.size() - 1);
        return;
      case ProgramKind::kHostCall:
        Emit(OpCode::kHostCall, node.function);
        return;
      case ProgramKind::kAbort:
        out_->messages.push_back(node.text);
        if (node.tensor.empty()) {
          Emit(OpCode::kAbort, 0, static_cast<std::uint32_t>(out_->messages.size() - 1));
        } else {
          Emit(OpCode::kAbortIfNotZero, Predicate(node),
               static_cast<std::uint32_t>(out_->messages.size() - 1));
        }
        return;
      case ProgramKind::kSync:
        Emit(OpCode::kSync);
        return;
      case ProgramKind::kCount:
        break;
    }
    throw poplar::control_program_error("'" + node.name + "' is not a program");
  }

  void RepeatWhile(const ProgramNode& node, int depth) {
    out_->loops.push_back(&node);
    const std::size_t loop = out_->loops.size() - 1;
    Emit(OpCode::kEnterLoop, loop);
    const std::uint32_t top = Position();
    Node(*node.children[0], false, depth + 1);
    const bool stop_at_zero = node.kind == ProgramKind::kRepeatWhileTrue;
    const std::uint32_t exit =
        Emit(stop_at_zero ? OpCode::kJumpIfZero : OpCode::kJumpIfNotZero, Predicate(node));
    Emit(OpCode::kTrip, loop);
    Node(*node.children[1], false, depth + 1);
    Emit(OpCode::kJump, 0, top);
    JumpHere(exit);
  }

  void If(const ProgramNode& node, int depth) {
    const std::uint32_t to_else = Emit(OpCode::kJumpIfZero, Predicate(node));
    Node(*node.children[0], false, depth + 1);
    const std::uint32_t to_end = Emit(OpCode::kJump);
    JumpHere(to_else);
    Node(*node.children[1], false, depth + 1);
    JumpHere(to_end);
  }

  void Switch(const ProgramNode& node, int depth) {
    SwitchTable table;
    table.predicate = static_cast<std::uint32_t>(Predicate(node));
    table.cases = node.cases;
    const std::size_t index = out_->switches.size();
    out_->switches.emplace_back();
    Emit(OpCode::kSwitch, index);
    std::vector<std::uint32_t> ends;
    for (const auto& child : node.children) {
      table.targets.push_back(Position());
      Node(*child, false, depth + 1);
      ends.push_back(Emit(OpCode::kJump));
    }
    for (std::uint32_t end : ends) JumpHere(end);
    out_->switches[index] = std::move(table);
  }

  const CompiledProgram& program_;
  HostCode* out_;
  std::vector<const ProgramNode*>* nodes_;
  const ProgramNode* node_ = nullptr;                // whose instructions are emitted
  std::map<std::uint32_t, FunctionCode> functions_;  // of the current program
};

}  // namespace

HostCode Flatten(const CompiledProgram& program, std::vector<const ProgramNode*>* nodes) {
  CheckNotRecursive(program);
  HostCode code;
  Flattener flattener(program, &code, nodes);
  for (const auto& root : program.programs) {
    code.begin.push_back(static_cast<std::uint32_t>(code.code.size()));
    flattener.Program(*root);
  }
  code.begin.push_back(static_cast<std::uint32_t>(code.code.size()));
  return code;
}

}  // namespace ipu_model
