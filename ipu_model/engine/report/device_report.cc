#include "engine/report/device_report.h"

#include <unordered_map>
#include <utility>

#include "core/vertices/limits_buffers.h"
#include "engine/cost/cycle_walk.h"
#include "engine/cost/operation_plans.h"
#include "engine/cost/stamp_costs.h"
#include "engine/cost/tile_memory.h"
#include "engine/program/compiled_program.h"
#include "engine/program/field_io.h"

namespace ipu_model {
namespace {

// How often operations are planned until their buffers fit.
constexpr int kMostRounds = 4;

std::unordered_map<const Operation*, Operation*> OperationsOf(const CompiledProgram& program) {
  std::unordered_map<const Operation*, Operation*> operations;
  std::vector<std::shared_ptr<const ProgramNode>> roots = program.programs;
  roots.insert(roots.end(), program.functions.begin(), program.functions.end());
  for (const ProgramNode* node : NodesOf(roots)) {
    if (node->operation != nullptr) operations.emplace(node->operation.get(), node->operation.get());
  }
  return operations;
}

// Takes away the limits that operations have from a compilation of the same graph with other programs.
void Unlimit(const CompiledProgram& program) {
  for (const auto& [key, operation] : OperationsOf(program)) {
    if (auto* const limits = dynamic_cast<LimitsBuffers*>(operation)) limits->Unlimit();
  }
}

// Lowers the limits of operations whose buffers do not fit. Returns false if no other plan can follow.
bool LimitBuffers(const CompiledProgram& program, const MemoryAnalysis& memory) {
  const std::unordered_map<const Operation*, Operation*> operations = OperationsOf(program);
  const auto lacking = memory.LackingBuffers();
  const auto limits_of = [&](const Operation* operation) {
    return dynamic_cast<LimitsBuffers*>(operations.at(operation));
  };
  // More steps need more code, so not all that is free is for buffers.
  const auto bytes_of = [](std::int64_t free) { return free / 4 * 3; };
  for (const auto& [operation, free] : lacking) {
    LimitsBuffers* const limits = limits_of(operation);
    if (limits == nullptr || !limits->CanDoWith(bytes_of(free))) return false;
  }
  bool limited = false;
  for (const auto& [operation, free] : lacking)
    limited = limits_of(operation)->LimitBuffers(bytes_of(free)) || limited;
  return limited;
}

// Notes the supersteps of each operation when it is first visited.
class SuperstepNotes : public CycleObserver {
 public:
  void Enter(const ProgramNode&, std::uint64_t) override {}
  void Superstep(std::size_t row, const OperationUse* use, std::size_t step, const Cycles& cycles) override {
    if (use == nullptr || use->steps.size() < 2) return;
    if (row >= found.size()) found.resize(row + 1);
    if (found[row].size() != step) return;
    found[row].push_back({cycles, use->steps[step].exchange_bytes, use->steps[step].link_bytes});
  }
  void Decision(const Cycles&) override {}
  void Transfer(std::uint64_t) override {}
  void HostCall() override {}
  void Leave(const Cycles&, std::size_t) override {}

  std::vector<std::vector<SuperstepCost>> found;
};

}  // namespace

Report Analyse(const CompiledProgram& program, TilePlanCache* cache,
               std::shared_ptr<DeviceAnalysis>* analysis) {
  Report report;
  const auto made = std::make_shared<DeviceAnalysis>(program);
  if (analysis != nullptr) *analysis = made;
  if (!made->memory.VariablesFit(&report)) return report;
  made->planned = true;
  TilePlanCache own;
  const bool limits_buffers = cache == nullptr || cache->limits_buffers;
  if (!limits_buffers) Unlimit(program);
  for (int round = 1;; ++round) {
    made->uses = PlanOperations(program, cache != nullptr ? cache : &own);
    report = {};
    CountCycles(program, &made->uses, &report);
    made->memory.Fill(made->uses, &report);
    if (report.out_of_memory.empty() || !limits_buffers || round == kMostRounds ||
        !LimitBuffers(program, made->memory)) {
      if (report.out_of_memory.empty()) SetStampCosts(program, made->uses);
      return report;
    }
  }
}

Report ReportOfMain(const CompiledProgram& program, unsigned main, DeviceAnalysis* analysis) {
  Report report;
  CountCycles(program, &analysis->uses, &report, nullptr, main);
  analysis->memory.Fill(analysis->uses, &report);
  return report;
}

std::vector<std::vector<SuperstepCost>> SuperstepsOf(const CompiledProgram& program, unsigned main) {
  std::shared_ptr<DeviceAnalysis> analysis = program.analysis;
  if (!analysis) Analyse(program, nullptr, &analysis);
  SuperstepNotes notes;
  if (!analysis->planned) return {};
  Report report;
  CountCycles(program, &analysis->uses, &report, &notes, main);
  return std::move(notes.found);
}

void WriteReport(Writer& writer, const Report& report) { FieldWriter{writer}.Put(report); }

Report ReadReport(Reader& reader) {
  Report report;
  FieldReader{reader}.Get(report);
  return report;
}

}  // namespace ipu_model
