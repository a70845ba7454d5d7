#include "engine/engine_options.h"

#include <cstdlib>
#include <functional>
#include <map>
#include <regex>
#include <utility>
#include <vector>

#include "codelets/nearest_names.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

using Value = const std::string&;
// Returns whether the value fits.
using Setter = std::function<bool(Value)>;

Setter Boolean(bool* to) {
  return [to](Value value) {
    if (value != "true" && value != "false") return false;
    if (to != nullptr) *to = value == "true";
    return true;
  };
}

// A count, which may be hexadecimal as in "0x200". Returns whether it is one.
bool ReadCount(Value value, std::uint64_t* count) {
  const bool hexadecimal = value.compare(0, 2, "0x") == 0;
  char* end = nullptr;
  *count = std::strtoull(value.c_str(), &end, hexadecimal ? 16 : 10);
  return !value.empty() && value[0] != '-' && *end == '\0';
}

Setter Count(std::uint64_t* out) {
  return [out](Value value) {
    std::uint64_t count;
    return ReadCount(value, out != nullptr ? out : &count);
  };
}

Setter RegularExpression(std::string* out) {
  return [out](Value value) {
    try {
      std::regex checked(value);
    } catch (const std::regex_error&) {
      return false;
    }
    *out = value;
    return true;
  };
}

// One of the words of `possible`, which are separated by spaces.
bool IsOneOf(const std::string& possible, Value value) {
  return !value.empty() && value.find(' ') == std::string::npos &&
         (" " + possible + " ").find(" " + value + " ") != std::string::npos;
}

Setter Word(const std::string& possible) {
  return [possible](Value value) { return IsOneOf(possible, value); };
}

using Known = std::map<std::string, Setter>;

// What the options say. Some have an effect together only.
struct OptionValues {
  EngineOptions options;
  bool all = false, enable_prefetch = true, has_graph = false, has_execution = false;
  std::string overlap = "any";
};

Known OptionsWithEffect(OptionValues* values) {
  return {
      // The model's own.
      {"execution",
       [values](Value value) {
         values->options.tile = value == "tile";
         return value == "fast" || value == "tile";
       }},
      {"streamMemoryStays", Boolean(&values->options.stream_memory_stays)},
      {"replicas",
       [values](Value value) {
         values->options.one_replica = value == "one";
         return value == "all" || value == "one";
       }},
      {"vertexTimeLimit",
       [values](Value value) {
         char* end = nullptr;
         values->options.vertex_seconds = std::strtod(value.c_str(), &end);
         return !value.empty() && *end == '\0' && values->options.vertex_seconds > 0 &&
                values->options.vertex_seconds <= 1e6;
       }},
      // Poplar's, with an effect.
      {"autoReport.all", Boolean(&values->all)},
      {"autoReport.directory",
       [values](Value value) {
         values->options.report_folder = value;
         return !value.empty();
       }},
      {"autoReport.outputGraphProfile",
       [values](Value value) {
         values->has_graph = true;
         return Boolean(&values->options.graph_profile)(value);
       }},
      {"autoReport.outputExecutionProfile",
       [values](Value value) {
         values->has_execution = true;
         return Boolean(&values->options.execution_profile)(value);
       }},
      {"autoReport.executionProfileProgramRunCount",
       [values](Value value) {
         std::uint64_t runs = 0;
         const bool fits = ReadCount(value, &runs);
         values->options.profiled_runs = static_cast<unsigned>(runs);
         return fits;
       }},
      {"debug.allowOutOfMemory", Boolean(&values->options.allow_out_of_memory)},
      {"exchange.enablePrefetch", Boolean(&values->enable_prefetch)},
      {"exchange.streamBufferOverlap",
       [values](Value value) {
         values->overlap = value;
         return IsOneOf("any hostRearrangeOnly none", value);
       }},
      {"debug.instrumentExternalExchange", Boolean(&values->options.blocks.transfers)},
      {"profiler.blocks.bufferSize", Count(&values->options.blocks.buffer_bytes)},
      {"profiler.blocks.filter", RegularExpression(&values->options.blocks.blocks)},
      {"profiler.blocks.implicitFlush", Boolean(&values->options.blocks.flush)},
      {"profiler.blocks.tile", Count(&values->options.blocks.tile)},
      {"profiler.programs.filter", RegularExpression(&values->options.blocks.programs)},
  };
}

// Of parts of the device or of the compiler that the model does not have.
Known OptionsWithoutEffect() {
  const Setter flag = Boolean(nullptr);
  const Setter count = Count(nullptr);
  const Setter text = [](Value) { return true; };
  return {
      {"autoReport.outputArchive", flag},
      {"autoReport.outputDebugInfo", flag},
      {"autoReport.outputLoweredVars", flag},
      {"autoReport.outputSerializedGraph", flag},
      {"autoReport.streamAtEachRun", flag},
      {"debug.branchRecordTile", count},
      {"debug.checkpointAfter", text},
      {"debug.computeInstrumentationLevel", Word("off vertex tile ipu device")},
      {"debug.cpuMultiThreadExecution", flag},
      {"debug.exceptOnSOCError", flag},
      {"debug.floatPointOpException", flag},
      {"debug.graphConsistencyCheck", flag},
      {"debug.graphReportDestination", text},
      {"debug.instrument", flag},
      {"debug.instrumentCompute", flag},
      {"debug.instrumentControlFlow", flag},
      {"debug.loweredVarDumpFile", text},
      {"debug.nanOverflowException", flag},
      {"debug.nanOverflowMode", text},
      {"debug.outputAllSymbols", flag},
      {"debug.profilingTile", count},
      {"debug.retainDebugInformation", flag},
      {"debug.runtimeVerify", flag},
      {"debug.trace", flag},
      {"debug.traceFile", text},
      {"debug.verify", flag},
      {"exchange.multiAccessStreamCopies", flag},
      {"exchange.multicastPolicy", text},
      {"opt.enableInlining", flag},
      {"opt.enableMultiAccessCopies", flag},
      {"opt.enableSwSyncs", flag},
      {"opt.internalExchangeOptimisationTarget", Word("balanced cycles memory")},
      {"opt.limitVertexStateToLower256K", flag},
      {"opt.maxCompilationThreads", count},
      {"opt.maxCopyMergeSize", count},
      {"opt.maxLinkerThreads", count},
      {"opt.useAutoloader", flag},
      {"profiler.format", text},
      {"profiler.includeFlopEstimates", flag},
      {"streamCallbacks.maxLookahead", text},
      {"streamCallbacks.multiThreadMode", Word("singleThread dynamicPool fixedPool affinity")},
      {"streamCallbacks.numWorkerThreads", text},
      {"streamCallbacks.numaAware", flag},
      {"target.deterministicWorkers", Word("true false portable")},
      {"target.exceptionPollPeriodUs", count},
      {"target.extendedMemory", flag},
      {"target.firstRuntimeReplica", count},
      {"target.gatewayMode", flag},
      {"target.gatewayWriteCombining", flag},
      {"target.hostSyncTimeout", text},
      {"target.maxStreamCallbackThreadsPerNumaNode", text},
      {"target.numberRuntimeReplica", count},
      {"target.saveArchive", text},
      {"target.supervisorStackSizeInBytes", count},
      {"target.syncMethod", text},
      {"target.syncPollPeriodUs", count},
      {"target.syncReplicasIndependently", flag},
      {"target.workerStackSizeInBytes", count},
  };
}

}  // namespace

EngineOptions ReadEngineOptions(const poplar::OptionFlags& given) {
  poplar::OptionFlags flags = given;
  // The runtime, whose engines have this option, reads the variable itself (jax_ipu/environment.py).
  if (flags.find("replicas") == flags.end()) poplar::readJSONFromEnv("POPLAR_ENGINE_OPTIONS", flags);
  OptionValues values;
  Known known = OptionsWithEffect(&values);
  known.merge(OptionsWithoutEffect());
  for (const auto& [name, value] : flags) {
    const auto found = known.find(name);
    if (found != known.end() && found->second(value)) continue;
    if (found != known.end())
      throw poplar::invalid_option("Engine: the option '" + name + "' cannot be '" + value + "'");
    std::vector<std::string> names;
    for (const auto& entry : known) names.push_back(entry.first);
    std::string nearest;
    for (const std::string& one : NearestNames(name, std::move(names), 5))
      nearest += (nearest.empty() ? "" : ", ") + one;
    throw poplar::invalid_option("Engine: there is no option '" + name + "'; the nearest are: " + nearest);
  }
  if (values.all && !values.has_graph) values.options.graph_profile = true;
  if (values.all && !values.has_execution) values.options.execution_profile = true;
  values.options.prefetch = values.enable_prefetch && values.overlap == "none";
  return values.options;
}

}  // namespace ipu_model
