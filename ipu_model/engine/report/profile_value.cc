// The totals of a profile as trees of values, in the form of older Poplar, and back.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/report/profile_file.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

using poplar::ProfileValue;
using Map = ProfileValue::Map;
using Vector = ProfileValue::Vector;

// What Poplar calls a step of this kind.
const char* TypeOf(const std::string& kind) {
  if (kind == "operation") return "OnTileExecute";
  if (kind == "stream in" || kind == "stream out") return "StreamCopy";
  if (kind == "host call") return "HostFunction";
  return "ControlFlow";
}

// The parts of the memory, in the order of the printed summary.
template <typename Self, typename Visitor>
void Categories(Self& report, Visitor&& visit) {
  visit("variables", report.variable_bytes);
  visit("constants", report.constant_bytes);
  visit("temporaries", report.temporary_bytes);
  visit("exchangeBuffers", report.exchange_buffer_bytes);
  visit("vertexState", report.vertex_bytes);
  visit("code", report.code_bytes);
}

Map CyclesOf(const Cycles& cycles) {
  return {{"total", cycles.total()},
          {"compute", cycles.compute},
          {"exchange", cycles.exchange},
          {"sync", cycles.sync}};
}

Cycles ReadCycles(const ProfileValue& value) {
  Cycles cycles;
  cycles.compute = value["compute"].asUint();
  cycles.exchange = value["exchange"].asUint();
  cycles.sync = value["sync"].asUint();
  return cycles;
}

}  // namespace

ProfileValue GraphProfileOf(const ProfileFile& file) {
  Map target{{"type", "IPU_MODEL"},
             {"architecture", file.architecture},
             {"bytesPerTile", file.bytes_per_tile},
             {"clockFrequency", file.clock_hz},
             {"numIPUs", file.num_ipus},
             {"numReplicas", file.replicas},
             {"numTiles", file.num_tiles},
             {"tilesPerIpu", file.num_tiles / std::max(1u, file.num_ipus)},
             {"totalMemory", file.bytes_per_tile * file.num_tiles}};
  Map graph{{"numVertices", file.vertices},
            {"numEdges", file.edges},
            {"numVars", file.variables},
            {"numComputeSets", file.compute_sets}};
  Vector total, largest, types, sets;
  for (const std::int64_t bytes : file.tile_bytes) total.emplace_back(bytes);
  for (const TensorUse& use : file.report.largest_tensors)
    largest.emplace_back(Map{{"name", use.name}, {"role", use.role}, {"bytesOnTile", use.bytes_on_tile}});
  Map categories;
  Categories(file.report,
             [&](const char* name, std::uint64_t bytes) { categories.emplace(name, ProfileValue(bytes)); });
  Map memory{{"byTile", Map{{"total", std::move(total)}}}, {"byCategory", std::move(categories)},
             {"total", file.report.total_bytes},           {"maximum", file.report.max_tile_bytes},
             {"maximumTile", file.report.max_tile},        {"largestOnMaximumTile", std::move(largest)}};
  std::vector<std::uint64_t> counts(file.vertex_types.size());
  for (const ProfiledComputeSet& set : file.sets) {
    sets.emplace_back(set.name);
    for (std::size_t i = 0; i + 2 < set.vertices.size(); i += 3)
      counts.at(static_cast<std::size_t>(set.vertices[i])) += static_cast<std::uint64_t>(set.vertices[i + 2]);
  }
  for (std::size_t i = 0; i < counts.size(); ++i)
    types.emplace_back(Map{{"name", file.vertex_types[i]}, {"instances", counts[i]}});
  return Map{{"computeSets", Map{{"names", std::move(sets)}}},
             {"graph", std::move(graph)},
             {"memory", std::move(memory)},
             {"target", std::move(target)},
             {"vertexTypes", std::move(types)}};
}

ProfileValue ExecutionProfileOf(const ProfileFile& file) {
  Vector steps, runs;
  Cycles all;
  for (std::size_t r = 0; r < file.runs.size(); ++r) {
    const ProfiledRun& run = file.runs[r];
    all += run.cycles;
    runs.emplace_back(
        Map{{"program", run.program}, {"name", run.name}, {"cycles", Map(CyclesOf(run.cycles))}});
    for (const ProfiledStep& step : run.steps) {
      steps.emplace_back(Map{{"type", TypeOf(step.kind)},
                             {"kind", step.kind},
                             {"name", step.name},
                             {"run", r},
                             {"executions", step.executions},
                             {"cycles", step.cycles.compute},
                             {"exchangeCycles", step.cycles.exchange},
                             {"syncCycles", step.cycles.sync},
                             {"hostCycles", step.host_cycles},
                             {"bytes", step.bytes}});
    }
  }
  Vector operations;
  for (const OperationCost& operation : file.report.operations)
    operations.emplace_back(
        Map{{"kind", operation.kind}, {"name", operation.name}, {"cycles", CyclesOf(operation.cycles)}});
  return Map{{"profilerMode", "IPU_MODEL"},
             {"operations", std::move(operations)},
             {"runs", std::move(runs)},
             {"simulation",
              Map{{"cycles", all.total()}, {"cyclesByKind", CyclesOf(all)}, {"steps", std::move(steps)}}}};
}

ProfileFile FileOfProfiles(const ProfileValue& graph, const ProfileValue& execution) {
  ProfileFile file;
  const ProfileValue &target = graph["target"], &counts = graph["graph"], &memory = graph["memory"];
  const auto number = [](const ProfileValue& value) { return static_cast<std::uint32_t>(value.asUint()); };
  file.architecture = target["architecture"].asString();
  file.bytes_per_tile = target["bytesPerTile"].asUint();
  file.clock_hz = target["clockFrequency"].asDouble();
  file.num_ipus = number(target["numIPUs"]);
  file.replicas = number(target["numReplicas"]);
  file.num_tiles = number(target["numTiles"]);
  file.vertices = counts["numVertices"].asUint();
  file.edges = counts["numEdges"].asUint();
  file.variables = counts["numVars"].asUint();
  file.compute_sets = counts["numComputeSets"].asUint();
  for (const ProfileValue& bytes : memory["byTile"]["total"].asVector())
    file.tile_bytes.push_back(bytes.asInt());
  Report& report = file.report;
  Categories(report,
             [&](const char* name, std::uint64_t& bytes) { bytes = memory["byCategory"][name].asUint(); });
  report.total_bytes = memory["total"].asUint();
  report.max_tile_bytes = memory["maximum"].asUint();
  report.max_tile = number(memory["maximumTile"]);
  for (const ProfileValue& use : memory["largestOnMaximumTile"].asVector()) {
    TensorUse& tensor = report.largest_tensors.emplace_back();
    tensor.name = use["name"].asString();
    tensor.role = use["role"].asString();
    tensor.bytes_on_tile = use["bytesOnTile"].asUint();
  }
  for (const ProfileValue& value : execution["operations"].asVector()) {
    OperationCost& operation = report.operations.emplace_back();
    operation.kind = value["kind"].asString();
    operation.name = value["name"].asString();
    operation.cycles = ReadCycles(value["cycles"]);
  }
  for (const ProfileValue& value : execution["runs"].asVector()) {
    ProfiledRun& run = file.runs.emplace_back();
    run.program = number(value["program"]);
    run.name = value["name"].asString();
    run.cycles = ReadCycles(value["cycles"]);
  }
  for (const ProfileValue& value : execution["simulation"]["steps"].asVector()) {
    const std::uint64_t run = value["run"].asUint();
    if (run >= file.runs.size()) throw poplar::poplar_error("printProfileSummary: a step is of no run");
    ProfiledStep& step = file.runs[run].steps.emplace_back();
    step.kind = value["kind"].asString();
    step.name = value["name"].asString();
    step.executions = value["executions"].asUint();
    step.cycles.compute = value["cycles"].asUint();
    step.cycles.exchange = value["exchangeCycles"].asUint();
    step.cycles.sync = value["syncCycles"].asUint();
    step.host_cycles = value["hostCycles"].asUint();
    step.bytes = value["bytes"].asUint();
  }
  return file;
}

}  // namespace ipu_model
