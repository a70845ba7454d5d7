#include "engine/profile_file.h"

#include <set>
#include <stdexcept>
#include <utility>

#include "core/target_model.h"
#include "engine/device_report.h"
#include "engine/field_io.h"
#include "engine/operation_plans.h"
#include "ipu_model/Stored.hpp"
#include "ipu_model/Timeline.hpp"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

constexpr std::string_view kMagic = "IPUPROFI";
constexpr std::uint64_t kMostSteps = 20000;  // of a run

const char* NameOf(Timeline::Kind kind) {
  switch (kind) {
    case Timeline::Kind::kOperation:
      return "operation";
    case Timeline::Kind::kDecision:
      return "decision";
    case Timeline::Kind::kStreamIn:
      return "stream in";
    case Timeline::Kind::kStreamOut:
      return "stream out";
    case Timeline::Kind::kHostCall:
      return "host call";
    case Timeline::Kind::kLoopBegin:
      return "loop";
    case Timeline::Kind::kLoopEnd:
      return "loop end";
    case Timeline::Kind::kOther:
      break;
  }
  return "other";
}

// The same executable with one of its programs as the only one.
std::shared_ptr<CompiledProgram> Alone(const CompiledProgram& program, std::uint32_t number) {
  auto alone = std::make_shared<CompiledProgram>(program.target);
  alone->replication_factor = program.replication_factor;
  alone->variables = program.variables;
  alone->programs = {program.programs.at(number)};
  alone->functions = program.functions;
  alone->streams = program.streams;
  alone->host_functions = program.host_functions;
  alone->remote_buffers = program.remote_buffers;
  alone->codelets = program.codelets;
  alone->report = Analyse(*alone);
  return alone;
}

}  // namespace

ProfileFile DescribeProgram(const CompiledProgram& program) {
  const TargetModel& model = program.target.model();
  ProfileFile file;
  file.version = "jax_ipu ipu_model";
  file.architecture = program.target.getTargetArchString();
  file.num_ipus = program.target.getNumIPUs();
  file.num_tiles = program.target.getNumTiles();
  file.replicas = program.replication_factor;
  file.worker_contexts = model.worker_contexts;
  file.exchange_bytes_per_cycle = model.exchange_bytes_per_cycle;
  file.bytes_per_tile = model.bytes_per_tile;
  file.clock_hz = model.clock_hz;
  file.report = program.report;
  for (const Variable& v : program.variables) file.variables += v.num_elements > 0 ? 1 : 0;

  std::shared_ptr<DeviceAnalysis> analysis = program.analysis;
  if (analysis == nullptr) {
    TilePlanCache cache(true);
    Analyse(program, &cache, &analysis);
  }
  for (const auto& [operation, use] : analysis->uses) {
    file.compute_sets += use->steps.size();
    file.vertices += use->num_vertices;
    file.edges += use->num_edges;
  }
  file.profile = ProfileOfAnalysis(program, analysis.get());
  const Runs& total = file.profile.memory.total;
  for (std::size_t i = 0; i + 1 < total.size(); i += 2)
    file.tile_bytes.insert(file.tile_bytes.end(), static_cast<std::size_t>(total[i + 1]), total[i]);
  file.tile_bytes.resize(file.num_tiles);
  return file;
}

ProfiledRun DescribeRun(const CompiledProgram& program, std::uint32_t number, const std::string& name,
                        const std::vector<LoopRun>& loops) {
  const std::shared_ptr<CompiledProgram> alone = Alone(program, number);
  const std::shared_ptr<const Timeline> timeline = MakeTimeline(poplar::Executable(alone));
  ProfiledRun run;
  run.program = number;
  run.name = name;
  timeline->Visit(loops, kMostSteps, kMostSteps, [&](const Timeline::Step& step) {
    ProfiledStep& s = run.steps.emplace_back();
    s.kind = NameOf(step.kind);
    if (step.kind == Timeline::Kind::kOperation) {
      const OperationCost& operation = alone->report.operations.at(step.operation);
      s.name = operation.name.empty() ? operation.kind : operation.name;
    } else {
      s.name = std::string(step.name);
    }
    s.executions = step.executions;
    s.cycles = step.cycles;
    s.host_cycles = step.host_cycles;
    s.bytes = step.bytes;
    run.cycles += step.cycles;
  });
  return run;
}

std::string WriteProfileFile(const ProfileFile& file) {
  Writer writer;
  FieldWriter{writer}.Put(file);
  return Seal(kMagic, writer.data());
}

ProfileFile ReadProfileFile(std::string_view data) {
  try {
    Reader reader(Unseal(kMagic, data));
    ProfileFile file;
    FieldReader{reader}.Get(file);
    return file;
  } catch (const std::runtime_error& error) {
    throw poplar::poplar_error(std::string("the profile cannot be read: ") + error.what() +
                               ". Make it again with the engine option autoReport.all = true");
  }
}

}  // namespace ipu_model
