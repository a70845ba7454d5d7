// poplar::compileGraph: checks, device analysis, and the executable.
#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "core/graph/graph_impl.h"
#include "core/program/execute.h"
#include "engine/engine_options.h"
#include "engine/program/checks.h"
#include "engine/program/compiled_program.h"
#include "engine/program/empty_programs.h"
#include "engine/report/device_report.h"
#include "engine/report/profile_file.h"
#include "engine/stored/serialised_program.h"
#include "ipu_model/Log.hpp"
#include "ipu_model/Model.hpp"
#include "poplar/Engine.hpp"
#include "poplar/exceptions.hpp"

namespace ipu_model {

namespace {

std::int64_t Elements(const std::vector<View>& views) {
  std::int64_t elements = 0;
  for (const View& v : views) elements += v.num_elements();
  return elements;
}

double Bytes(const std::vector<View>& views) {
  double bytes = 0;
  for (const View& v : views) {
    bytes += static_cast<double>(v.num_elements()) * static_cast<double>(SizeOf(v.type));
  }
  return bytes;
}

// A rough model of one core-pair host: 10 GB/s of operand traffic, 200 GFLOP/s, 200 ns per operation. Only
// good enough to tell short programs from long ones.
double NanosecondsOf(const CompiledProgram& program, unsigned main) {
  constexpr double kNanosecondsPerByte = 0.1, kNanosecondsPerFlop = 1 / 200.0, kNanosecondsPerOperation = 200;
  std::unordered_map<const ProgramNode*, double> cost;
  const auto add = [&](const std::shared_ptr<const ProgramNode>& root) {
    for (const ProgramNode* node : NodesOf({root})) {
      if (cost.count(node) != 0) continue;
      double own = kNanosecondsPerByte * Bytes(node->tensor);
      if (node->operation != nullptr) {
        const Operation& operation = *node->operation;
        own += kNanosecondsPerOperation + kNanosecondsPerFlop * operation.flops() +
               kNanosecondsPerByte * (Bytes(operation.inputs) + Bytes(operation.outputs));
      }
      double children = 0;
      const bool alternatives = node->kind == ProgramKind::kIf || node->kind == ProgramKind::kSwitch;
      for (const auto& child : node->children) {
        children = alternatives ? std::max(children, cost[child.get()]) : children + cost[child.get()];
      }
      if (node->kind == ProgramKind::kRepeat) children *= static_cast<double>(node->count);
      if (node->kind == ProgramKind::kCall && node->function < program.functions.size()) {
        children += cost[program.functions[node->function].get()];
      }
      cost[node] = own + children;
    }
  };
  for (const auto& function : program.functions) add(function);
  if (program.programs.empty()) return 0;
  add(program.programs.at(main));
  return cost[program.programs[main].get()];
}

// Drops variables that no program uses: they need no mapping and no memory.
void DropUnused(CompiledProgram* program, const std::vector<const ProgramNode*>& nodes) {
  std::vector<bool> used(program->variables.size(), false);
  const auto mark = [&used](const std::vector<View>& views) {
    for (const View& v : views) used.at(v.variable) = true;
  };
  for (const ProgramNode* node : nodes) {
    mark(node->tensor);
    if (node->operation == nullptr) continue;
    mark(node->operation->inputs);
    mark(node->operation->outputs);
  }
  for (std::size_t v = 0; v < used.size(); ++v) {
    if (used[v]) continue;
    Variable unused;
    unused.shape = {0};
    program->variables[v] = std::move(unused);
  }
}

// Lines of the operations of the program, and of the program.
void LogReport(const Report& report, const std::string& name) {
  const std::string program = name.empty() ? "a program" : name;
  if (!report.out_of_memory.empty()) {
    Log(LogModule::kGraph, LogLevel::kWarn, program + " does not fit: " + report.out_of_memory);
    return;
  }
  for (const OperationCost& operation : report.operations) {
    const LogModule module = ModuleOfKind(operation.kind);
    if (!IsLogged(module, LogLevel::kInfo)) continue;
    Log(module, LogLevel::kInfo,
        operation.kind + " '" + operation.name + "' on " + std::to_string(operation.tiles) +
            " tiles: " + std::to_string(operation.cycles.total()) + " cycles, " +
            std::to_string(operation.exchange_bytes) + " bytes exchanged");
  }
  if (!IsLogged(LogModule::kGraph, LogLevel::kInfo)) return;
  Log(LogModule::kGraph, LogLevel::kInfo,
      "compiled " + program + ": " + std::to_string(report.operations.size()) + " operations, " +
          std::to_string(report.cycles.total()) + " cycles, " + std::to_string(report.total_bytes) +
          " bytes, " + std::to_string(report.max_tile_bytes) + " of " +
          std::to_string(report.limit_tile_bytes) + " on the fullest tile");
}

// What a program refers to by its own number, beside tensors.
const char* ReferenceOf(ProgramKind kind) {
  if (kind == ProgramKind::kOperation) return "compute set";
  return kind == ProgramKind::kStreamIn || kind == ProgramKind::kStreamOut ? "stream" : "function";
}

// Whether the stream or the function of a node is one that the graph has: handles of them can be made without
// the graph.
bool IsThere(const GraphImpl& graph, const ProgramNode& node) {
  switch (node.kind) {
    case ProgramKind::kStreamIn:
    case ProgramKind::kStreamOut:
      return node.stream < graph.streams.size() &&
             graph.streams[node.stream].host_to_device == (node.kind == ProgramKind::kStreamIn) &&
             graph.streams[node.stream].num_elements == Elements(node.tensor);
    case ProgramKind::kCall:
      return node.function < graph.functions.size();
    case ProgramKind::kHostCall:
      return node.function < graph.host_functions.size() &&
             graph.host_functions[node.function].remote_buffer <
                 static_cast<int>(graph.remote_buffers.size());
    default:
      return true;
  }
}

// Variables, streams and functions are numbers, which mean others in another graph.
void CheckGraphs(const GraphImpl& graph, const CompiledProgram& program) {
  const auto fail = [](const ProgramNode& node, const char* what, const char* problem) {
    throw poplar::control_program_error("compileGraph: the program " +
                                        (node.name.empty() ? "" : "'" + node.name + "' ") + "uses a " + what +
                                        problem);
  };
  const auto check = [&](const ProgramNode& node, std::uint32_t number, const char* what) {
    if (number != 0 && number != graph.number()) fail(node, what, " of another graph");
  };
  std::vector<std::shared_ptr<const ProgramNode>> roots = program.programs;
  roots.insert(roots.end(), program.functions.begin(), program.functions.end());
  for (const ProgramNode* node : NodesOf(roots)) {
    check(*node, node->graph, ReferenceOf(node->kind));
    if (!IsThere(graph, *node)) fail(*node, ReferenceOf(node->kind), " that the graph does not have");
    for (const View& view : node->tensor) check(*node, view.graph, "tensor");
    if (node->operation == nullptr) continue;
    for (const View& view : node->operation->inputs) check(*node, view.graph, "tensor");
    for (const View& view : node->operation->outputs) check(*node, view.graph, "tensor");
  }
}

// Sets the operands and vertices of all compute sets. This maps the constants that vertices are connected to,
// so it comes before the variables are copied.
void ResolveComputeSets(const poplar::Graph& graph, CompiledProgram* program) {
  std::vector<std::shared_ptr<const ProgramNode>> roots = program->programs;
  roots.insert(roots.end(), program->functions.begin(), program->functions.end());
  for (const ProgramNode* node : NodesOf(roots)) {
    auto* const execute = dynamic_cast<Execute*>(node->operation.get());
    if (execute == nullptr) continue;
    execute->Resolve(&graph.impl());
    for (const VertexType& type : execute->program()->types) {
      std::vector<std::shared_ptr<const CodeletLibrary>>& used = program->codelets;
      if (std::find(used.begin(), used.end(), type.code) == used.end()) used.push_back(type.code);
    }
  }
}

// Of a program that does not fit, the executable has a report and a profile only if that is allowed.
poplar::Executable Compile(const poplar::Graph& graph, const std::vector<poplar::program::Program>& programs,
                           const std::string& name, TilePlanCache* cache, bool allow_out_of_memory,
                           const std::vector<unsigned>& further_mains = {}) {
  const GraphImpl& impl = graph.impl();
  auto compiled = std::make_shared<CompiledProgram>(impl.device);
  compiled->io_tiles = impl.device.getNumTiles() - impl.target.getNumTiles();
  if (programs.empty()) throw poplar::control_program_error("compileGraph: there is no program");
  compiled->host_handles = impl.host_handles;
  for (const poplar::program::Program& p : programs) compiled->programs.push_back(p.node());
  for (const unsigned main : further_mains) {
    if (main == 0 || main >= programs.size())
      throw poplar::control_program_error("compileGraph: program " + std::to_string(main) +
                                          " cannot be a further main program of " +
                                          std::to_string(programs.size()));
    compiled->further_mains.push_back({main, {}, 0});
  }
  for (std::size_t i = 0; i < impl.host_handles.size(); ++i) {
    compiled->host_handles[i].program = static_cast<std::uint32_t>(compiled->programs.size());
    compiled->programs.push_back(impl.handle_programs[i].node());
  }
  for (const poplar::program::Program& f : impl.functions) compiled->functions.push_back(f.node());
  CheckGraphs(impl, *compiled);
  ResolveComputeSets(graph, compiled.get());
  DropEmptyPrograms({&compiled->programs, &compiled->functions});
  compiled->replication_factor = impl.replication_factor;
  for (const Variable& variable : impl.variables) variable.mapping.Settle();
  compiled->variables = impl.variables;
  compiled->streams = impl.streams;
  compiled->host_functions = impl.host_functions;
  compiled->remote_buffers = impl.remote_buffers;

  std::vector<std::shared_ptr<const ProgramNode>> roots = compiled->programs;
  roots.insert(roots.end(), compiled->functions.begin(), compiled->functions.end());
  const std::vector<const ProgramNode*> nodes = NodesOf(roots);
  DropUnused(compiled.get(), nodes);
  CheckProgram(*compiled);
  const bool detailed = cache != nullptr && cache->detailed();
  std::shared_ptr<DeviceAnalysis> analysis;
  compiled->report = Analyse(*compiled, cache, &analysis);
  if (detailed) compiled->analysis = analysis;
  LogReport(compiled->report, name);
  if (!compiled->report.out_of_memory.empty()) {
    if (allow_out_of_memory) return poplar::Executable(std::move(compiled));
    const std::string message = (name.empty() ? "" : name + ": ") + compiled->report.out_of_memory;
    Report report = std::move(compiled->report);
    throw OutOfMemory(message, std::move(report), std::move(compiled));
  }
  compiled->host_nanoseconds = NanosecondsOf(*compiled, 0);
  for (FurtherMain& main : compiled->further_mains) {
    main.report = ReportOfMain(*compiled, main.program, analysis.get());
    main.host_nanoseconds = NanosecondsOf(*compiled, main.program);
  }
  return poplar::Executable(std::move(compiled));
}

}  // namespace

poplar::Executable CompileGraph(const poplar::Graph& graph,
                                const std::vector<poplar::program::Program>& programs,
                                const std::string& name, TilePlanCache* cache,
                                const std::vector<unsigned>& further_mains) {
  return Compile(graph, programs, name, cache, false, further_mains);
}

const Report& ReportOf(const poplar::Executable& executable, unsigned main) {
  const Report* const report = executable.program()->report_of(main);
  if (report != nullptr) return *report;
  throw poplar::poplar_error("ReportOf: program " + std::to_string(main) + " is not a main program");
}
double HostNanoseconds(const poplar::Executable& executable, unsigned main) {
  for (const FurtherMain& further : executable.program()->further_mains) {
    if (further.program == main) return further.host_nanoseconds;
  }
  return executable.program()->host_nanoseconds;
}

}  // namespace ipu_model

namespace poplar {

Executable compileGraph(const Graph& graph, const std::vector<program::Program>& programs,
                        const OptionFlags& options, const ProgressFunc& progress,
                        const DebugContext& debugContext) {
  const bool allow_out_of_memory = ipu_model::ReadEngineOptions(options).allow_out_of_memory;
  ipu_model::TilePlanCache cache;
  if (progress) {
    cache.poll = [&progress](std::size_t done, std::size_t total) {
      progress(static_cast<int>(done), static_cast<int>(total));
    };
  }
  try {
    return ipu_model::Compile(graph, programs, debugContext.getPathName(), &cache, allow_out_of_memory);
  } catch (ipu_model::OutOfMemory& failure) {
    failure.graphProfile = ipu_model::GraphProfileOf(ipu_model::DescribeProgram(*failure.program));
    throw;
  }
}

void Executable::serialize(std::ostream& out) const {
  const std::string data = ipu_model::SerialiseProgram(*program_);
  out.write(data.data(), static_cast<std::streamsize>(data.size()));
  if (!out)
    throw poplar_error("Executable::serialize: writing " + std::to_string(data.size()) + " bytes failed");
}

Executable Executable::deserialize(std::istream& in, const OptionFlags& options) {
  // The environment is the choice of whoever runs the program.
  const char* const trusted = std::getenv("IPU_MODEL_CODELETS");
  bool compile_codelets = trusted != nullptr && std::string(trusted) == "compile";
  for (const auto& [name, value] : options) {
    if (name != "codelets" || (value != "refuse" && value != "compile")) {
      throw invalid_option("Executable::deserialize: the option '" + name + "' = '" + value +
                           "' is not known; possible: codelets = refuse, compile");
    }
    compile_codelets = value == "compile";
  }
  std::ostringstream data;
  data << in.rdbuf();
  try {
    return Executable(ipu_model::DeserialiseProgram(data.str(), compile_codelets));
  } catch (const ipu_model::SerialiseError& error) {
    throw poplar_error(std::string("Executable::deserialize: ") + error.what());
  }
}

}  // namespace poplar
