#include "engine/report/profile_file.h"

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "core/target/target_model.h"
#include "engine/cost/operation_plans.h"
#include "engine/program/field_io.h"
#include "engine/report/device_report.h"
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
    case Timeline::Kind::kScopeBegin:
    case Timeline::Kind::kScopeEnd:
      return "scope";
    case Timeline::Kind::kOther:
      break;
  }
  return "other";
}

// The same executable with one of its programs as the only one.
std::shared_ptr<CompiledProgram> Alone(const CompiledProgram& program, std::uint32_t number) {
  auto alone = std::make_shared<CompiledProgram>(program.target);
  alone->io_tiles = program.io_tiles;
  alone->replication_factor = program.replication_factor;
  alone->variables = program.variables;
  alone->programs = {program.programs.at(number)};
  alone->functions = program.functions;
  alone->streams = program.streams;
  alone->host_functions = program.host_functions;
  alone->remote_buffers = program.remote_buffers;
  alone->codelets = program.codelets;
  TilePlanCache cache(true);
  alone->report = Analyse(*alone, &cache, &alone->analysis);
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
  for (const Variable& v : program.variables) {
    file.variables += v.num_elements > 0 ? 1 : 0;
    file.variable_names.push_back(v.name);
    file.variable_bytes.push_back(v.num_elements * static_cast<std::int64_t>(SizeOf(v.type)));
  }

  std::shared_ptr<DeviceAnalysis> analysis = program.analysis;
  if (analysis == nullptr) {
    TilePlanCache cache(true);
    Analyse(program, &cache, &analysis);
  }
  std::map<std::string, std::size_t> types;
  file.tile_exchange_code.resize(file.num_tiles);
  file.tile_vertex_state.resize(file.num_tiles);
  const auto add = [](const TileBytes& bytes, std::vector<std::int64_t>* sum) {
    for (std::size_t tile = 0; tile < bytes.size(); ++tile) (*sum)[tile] += bytes[tile];
  };
  for (const auto& [operation, use] : analysis->uses) {
    file.compute_sets += use->steps.size();
    file.vertices += use->num_vertices;
    file.edges += use->num_edges;
    add(use->exchange_code, &file.tile_exchange_code);
    add(use->vertex_state, &file.tile_vertex_state);
    std::set<std::int64_t> read, variables;
    for (const View& view : operation->inputs) read.insert(view.variable);
    for (const View& view : operation->outputs) variables.insert(view.variable);
    variables.insert(read.begin(), read.end());
    for (const SuperstepDetail& detail : use->details) {
      ProfiledComputeSet& set = file.sets.emplace_back();
      set.name = operation->name;
      set.variables.assign(variables.begin(), variables.end());
      if (!detail.received.empty()) set.exchanged.assign(read.begin(), read.end());
      for (const auto& [codelet, vertices] : detail.vertices) {
        // Without the remark where its cycles come from.
        const auto type = types.try_emplace(codelet.substr(0, codelet.find(" (")), types.size()).first;
        for (std::size_t i = 0; i + 1 < vertices.size(); i += 2) {
          set.vertices.insert(set.vertices.end(),
                              {static_cast<std::int64_t>(type->second), vertices[i], vertices[i + 1]});
        }
      }
    }
  }
  file.vertex_types.resize(types.size());
  for (const auto& [type, index] : types) file.vertex_types[index] = type;
  file.profile = ProfileOfAnalysis(program, analysis.get());
  const RunLengths& total = file.profile.memory.total;
  for (std::size_t i = 0; i + 1 < total.size(); i += 2)
    file.tile_bytes.insert(file.tile_bytes.end(), static_cast<std::size_t>(total[i + 1]), total[i]);
  file.tile_bytes.resize(file.num_tiles);
  return file;
}

ProfiledRun DescribeRun(const CompiledProgram& program, std::uint32_t number, const std::string& name,
                        const std::vector<LoopRun>& loops, const BlockOptions& blocks) {
  const std::shared_ptr<CompiledProgram> alone = Alone(program, number);
  ProfiledRun run;
  const Profile profile = ProfileOfAnalysis(*alone, alone->analysis.get());
  run.work.resize(profile.operations.size());
  std::map<std::int32_t, std::uint32_t> nodes;  // of operations: a function's body has one for each call
  for (std::size_t i = 0; i < profile.steps.operation.size(); ++i) {
    const std::int32_t operation = profile.steps.operation[i];
    if (operation < 0 ||
        nodes.try_emplace(operation, profile.steps.node[i]).first->second != profile.steps.node[i])
      continue;
    run.work[static_cast<std::size_t>(operation)].cycles.push_back(
        profile.tile_compute.rows.at(profile.tile_compute.lines.at(i)));
  }
  const std::shared_ptr<const Timeline> timeline = MakeTimeline(poplar::Executable(alone));
  run.program = number;
  run.name = name;
  BlockRecorder recorder(blocks, alone->target);
  timeline->Visit(loops, kMostSteps, kMostSteps, [&](const Timeline::Step& step) {
    if (step.kind == Timeline::Kind::kScopeBegin || step.kind == Timeline::Kind::kScopeEnd)
      return recorder.Add(step, step.name, nullptr);
    ProfiledStep& s = run.steps.emplace_back();
    s.kind = NameOf(step.kind);
    if (step.kind == Timeline::Kind::kOperation) {
      const OperationCost& operation = alone->report.operations.at(step.operation);
      s.name = operation.name.empty() ? operation.kind : operation.name;
      s.operation = static_cast<std::int64_t>(step.operation);
      recorder.Add(step, s.name, &run.work.at(step.operation).cycles);
    } else {
      s.name = std::string(step.name);
      recorder.Add(step, step.name, nullptr);
    }
    s.executions = step.executions;
    s.cycles = step.cycles;
    s.host_cycles = step.host_cycles;
    s.bytes = step.bytes;
    run.cycles += step.cycles;
  });
  run.blocks = recorder.Take();
  run.elapsed = recorder.clock();
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

ProfileFile LoadProfileFile(const std::string& path, const std::string& function) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream data;
  data << in.rdbuf();
  if (!in) {
    throw poplar::poplar_error(function + ": cannot read '" + path +
                               "'; engines write profile.pop with the option autoReport.all = true");
  }
  try {
    return ReadProfileFile(data.str());
  } catch (const poplar::poplar_error& error) {
    throw poplar::poplar_error(function + ": '" + path + "': " + error.what());
  }
}

}  // namespace ipu_model
