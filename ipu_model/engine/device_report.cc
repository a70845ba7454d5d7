#include "engine/device_report.h"

#include <unordered_map>
#include <utility>

#include "core/limits_buffers.h"
#include "engine/cycle_walk.h"
#include "engine/field_io.h"
#include "engine/operation_plans.h"
#include "engine/stamp_costs.h"
#include "engine/tile_memory.h"

namespace ipu_model {
namespace {

// How often operations are planned until their buffers fit.
constexpr int kMostRounds = 4;

// Lowers the limits of operations whose buffers do not fit. Returns false if no other plan can follow.
bool LimitBuffers(const CompiledProgram& program, const MemoryAnalysis& memory) {
  std::unordered_map<const Operation*, Operation*> operations;
  std::vector<std::shared_ptr<const ProgramNode>> roots = program.programs;
  roots.insert(roots.end(), program.functions.begin(), program.functions.end());
  for (const ProgramNode* node : NodesOf(roots)) {
    if (node->operation != nullptr) operations.emplace(node->operation.get(), node->operation.get());
  }
  bool limited = false;
  for (const auto& [operation, free] : memory.LackingBuffers()) {
    auto* const limits = dynamic_cast<LimitsBuffers*>(operations.at(operation));
    // More steps need more code, so not all that is free is for buffers.
    if (limits != nullptr) limited = limits->LimitBuffers(free / 4 * 3) || limited;
  }
  return limited;
}

}  // namespace

Report Analyse(const CompiledProgram& program, TilePlanCache* cache,
               std::shared_ptr<DeviceAnalysis>* analysis) {
  Report report;
  const auto made = std::make_shared<DeviceAnalysis>(program);
  if (analysis != nullptr) *analysis = made;
  if (!made->memory.VariablesFit(&report)) return report;
  made->planned = true;
  TilePlanCache own;
  for (int round = 1;; ++round) {
    made->uses = PlanOperations(program, cache != nullptr ? cache : &own);
    report = {};
    CountCycles(program, &made->uses, &report);
    made->memory.Fill(made->uses, &report);
    if (report.out_of_memory.empty() || round == kMostRounds || !LimitBuffers(program, made->memory)) {
      if (report.out_of_memory.empty()) SetStampCosts(program, made->uses);
      return report;
    }
  }
}

void WriteReport(Writer& writer, const Report& report) { FieldWriter{writer}.Put(report); }

Report ReadReport(Reader& reader) {
  Report report;
  FieldReader{reader}.Get(report);
  return report;
}

}  // namespace ipu_model
