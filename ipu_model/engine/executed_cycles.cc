#include "engine/executed_cycles.h"

#include <memory>
#include <unordered_map>

namespace ipu_model {

ExecutedCycles::ExecutedCycles(const CompiledProgram& program, const std::vector<const ProgramNode*>& loops)
    : reported_(program.report.cycles.total()), loops_(loops.size()) {
  if (program.report.loops.empty()) return;
  std::vector<std::shared_ptr<const ProgramNode>> roots = program.programs;
  roots.insert(roots.end(), program.functions.begin(), program.functions.end());
  const std::vector<const ProgramNode*> nodes = NodesOf(roots);
  std::unordered_map<const ProgramNode*, const LoopCost*> costs;
  for (const LoopCost& cost : program.report.loops) costs[nodes.at(cost.node)] = &cost;
  for (std::size_t i = 0; i < loops.size(); ++i) {
    const auto cost = costs.find(loops[i]);
    if (cost == costs.end()) continue;
    loops_[i].condition = cost->second->condition.total();
    loops_[i].body = cost->second->body.total();
  }
  for (const LoopCost& cost : program.report.loops) {
    of_report_.emplace_back();
    for (std::size_t i = 0; i < loops.size(); ++i) {
      if (loops[i] == nodes[cost.node]) of_report_.back().push_back(i);
    }
  }
}

std::vector<LoopRun> ExecutedCycles::runs() const {
  std::vector<LoopRun> runs;
  for (const std::vector<std::size_t>& same_node : of_report_) {
    LoopRun& run = runs.emplace_back();
    for (const std::size_t i : same_node) {
      run.entries += loops_[i].entries;
      run.trips += loops_[i].trips;
    }
  }
  return runs;
}

void ExecutedCycles::Reset() {
  for (Loop& loop : loops_) loop.entries = loop.trips = 0;
  stamps_.clear();
}

std::uint64_t ExecutedCycles::total() const { return reported_ + OfLoops(); }

std::uint64_t ExecutedCycles::Read(const CycleStamp& stamp) {
  std::uint64_t cycles = stamp.cost().before + OfLoops();
  std::uint64_t runs = stamps_[&stamp]++;
  for (const CycleStamp::Repeated& repeat : stamp.cost().repeats) {
    cycles += runs % repeat.count * repeat.body;
    runs /= repeat.count;
  }
  return cycles;
}

std::uint64_t ExecutedCycles::OfLoops() const {
  std::uint64_t cycles = 0;
  for (const Loop& loop : loops_) {
    // Arithmetic modulo 2^64: an entry without trips subtracts the body that the report has counted.
    cycles += loop.trips * loop.condition + (loop.trips - loop.entries) * loop.body;
  }
  return cycles;
}

}  // namespace ipu_model
