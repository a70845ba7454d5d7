#include "engine/cost/stamp_costs.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/program/cycle_stamp.h"
#include "engine/cost/cycle_walk.h"
#include "engine/program/compiled_program.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

[[noreturn]] void Refuse(const CycleStamp& stamp, const std::string& where) {
  throw poplar::control_program_error("'" + stamp.name + "' counts cycles " + where +
                                      ", where the model does not know them; count before and after instead");
}

class StampWalk : public CycleObserver {
 public:
  void Enter(const ProgramNode& node, std::uint64_t) override {
    open_.push_back({&node, now_, now_, stamps_.size()});
    auto* const stamp = dynamic_cast<CycleStamp*>(node.operation.get());
    if (stamp == nullptr) return;
    for (const Stamp& known : stamps_) {
      if (known.stamp == stamp) Refuse(*stamp, "in a function that is called more than once");
    }
    stamps_.push_back({stamp, {now_, {}}, false});
  }
  void Superstep(std::size_t, const OperationUse*, std::size_t, const Cycles&) override {}
  void Decision(const Cycles& cycles) override {
    // A conditional decides before its branches, a loop after its condition.
    if (IsConditional(*open_.back().node)) open_.back().inside = now_ = open_.back().before + cycles.total();
  }
  void Transfer(std::uint64_t) override {}
  void HostCall() override {}

  void Leave(const Cycles& cycles, std::size_t) override {
    const Open closed = open_.back();
    open_.pop_back();
    now_ = closed.before + cycles.total();
    if (open_.empty()) return;
    const Open& around = open_.back();
    const ProgramNode& parent = *around.node;
    const bool is_while =
        parent.kind == ProgramKind::kRepeatWhileTrue || parent.kind == ProgramKind::kRepeatWhileFalse;
    if (!is_while && !IsConditional(parent) && parent.kind != ProgramKind::kRepeat) return;
    for (std::size_t i = closed.first_stamp; i < stamps_.size(); ++i) {
      Stamp& s = stamps_[i];
      if (is_while && closed.node == parent.children[0].get()) Refuse(*s.stamp, "in the condition of a loop");
      if (parent.kind != ProgramKind::kRepeat) {
        s.uncounted = true;
      } else if (s.uncounted && parent.count > 1) {
        Refuse(*s.stamp, "in a conditional or a loop of unknown trip count, inside a loop");
      } else if (!s.uncounted) {
        s.cost.repeats.push_back({parent.count, cycles.total()});
      }
    }
    // The engine adds what a loop of unknown trip count has done so far, all of it.
    if (is_while || IsConditional(parent)) now_ = around.inside;
  }

  void Store() {
    for (Stamp& s : stamps_) s.stamp->set_cost(std::move(s.cost));
  }

 private:
  struct Open {
    const ProgramNode* node;
    std::uint64_t before, inside;  // cycles before the node, and before its children
    std::size_t first_stamp;
  };
  struct Stamp {
    CycleStamp* stamp;
    CycleStamp::Cost cost;
    bool uncounted;  // how often it runs is not known
  };
  static bool IsConditional(const ProgramNode& node) {
    return node.kind == ProgramKind::kIf || node.kind == ProgramKind::kSwitch;
  }

  std::uint64_t now_ = 0;
  std::vector<Open> open_;
  std::vector<Stamp> stamps_;
};

}  // namespace

void SetStampCosts(const CompiledProgram& program, const OperationUses& uses) {
  std::vector<std::shared_ptr<const ProgramNode>> roots = program.programs;
  roots.insert(roots.end(), program.functions.begin(), program.functions.end());
  const std::vector<const ProgramNode*> nodes = NodesOf(roots);
  const bool any = std::any_of(nodes.begin(), nodes.end(), [](const ProgramNode* node) {
    return dynamic_cast<const CycleStamp*>(node->operation.get()) != nullptr;
  });
  if (!any) return;
  std::vector<unsigned> mains = {0};
  for (const FurtherMain& main : program.further_mains) mains.push_back(main.program);
  for (const unsigned main : mains) {
    StampWalk walk;
    Report report;
    CountCycles(program, &uses, &report, &walk, main);
    walk.Store();
  }
}

}  // namespace ipu_model
