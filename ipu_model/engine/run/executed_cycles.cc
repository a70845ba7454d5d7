#include "engine/run/executed_cycles.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

namespace ipu_model {

ExecutedCycles::ExecutedCycles(std::shared_ptr<const CompiledProgram> program,
                               const std::vector<const ProgramNode*>& loops)
    : program_(std::move(program)), loops_(loops.size()) {
  std::vector<unsigned> mains = {0};
  for (const FurtherMain& main : program_->further_mains) mains.push_back(main.program);
  const bool any = std::any_of(mains.begin(), mains.end(),
                               [this](unsigned main) { return !program_->report_of(main)->loops.empty(); });
  if (!any) return;
  std::vector<std::shared_ptr<const ProgramNode>> roots = program_->programs;
  roots.insert(roots.end(), program_->functions.begin(), program_->functions.end());
  const std::vector<const ProgramNode*> nodes = NodesOf(roots);
  std::unordered_map<const ProgramNode*, std::vector<std::size_t>> indices;
  for (std::size_t i = 0; i < loops.size(); ++i) indices[loops[i]].push_back(i);
  for (const unsigned main : mains) {
    for (const LoopCost& cost : program_->report_of(main)->loops) {
      of_report_[main].push_back(indices[nodes.at(cost.node)]);
      for (const std::size_t i : of_report_[main].back()) {
        loops_[i].condition = cost.condition.total();
        loops_[i].body = cost.body.total();
      }
    }
  }
}

std::vector<LoopRun> ExecutedCycles::runs(unsigned program) const {
  std::vector<LoopRun> runs;
  const auto loops = of_report_.find(program);
  if (loops == of_report_.end()) return runs;
  for (const std::vector<std::size_t>& same_node : loops->second) {
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

std::uint64_t ExecutedCycles::total(unsigned program) const {
  const Report* const report = program_->report_of(program);
  return report == nullptr ? 0 : report->cycles.total() + OfLoops();
}

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
