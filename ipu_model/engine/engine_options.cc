#include "engine/engine_options.h"

#include <cstdlib>
#include <functional>
#include <map>

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

bool IsCount(Value value) {
  char* end = nullptr;
  std::strtoull(value.c_str(), &end, 10);
  return !value.empty() && value[0] != '-' && *end == '\0';
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
         values->options.profiled_runs = static_cast<unsigned>(std::strtoul(value.c_str(), nullptr, 10));
         return IsCount(value);
       }},
      {"debug.allowOutOfMemory", Boolean(&values->options.allow_out_of_memory)},
      {"exchange.enablePrefetch", Boolean(&values->enable_prefetch)},
      {"exchange.streamBufferOverlap",
       [values](Value value) {
         values->overlap = value;
         return IsOneOf("any hostRearrangeOnly none", value);
       }},
  };
}

// Of parts of the device or of the compiler that the model does not have.
Known OptionsWithoutEffect() {
  const Setter flag = Boolean(nullptr);
  const Setter count = [](Value value) { return IsCount(value); };
  const Setter text = [](Value) { return true; };
  return {
      {"autoReport.outputArchive", flag},
      {"autoReport.outputDebugInfo", flag},
      {"autoReport.outputLoweredVars", flag},
      {"autoReport.outputSerializedGraph", flag},
      {"autoReport.streamAtEachRun", flag},
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
      {"debug.instrumentExternalExchange", flag},
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
      {"opt.maxCompilationThreads", count},
      {"opt.maxLinkerThreads", count},
      {"opt.useAutoloader", flag},
      {"profiler.blocks.filter", text},
      {"profiler.format", text},
      {"profiler.includeFlopEstimates", flag},
      {"profiler.programs.filter", text},
      {"streamCallbacks.maxLookahead", text},
      {"streamCallbacks.multiThreadMode", Word("singleThread dynamicPool fixedPool affinity")},
      {"streamCallbacks.numWorkerThreads", text},
      {"streamCallbacks.numaAware", flag},
      {"target.deterministicWorkers", Word("true false portable")},
      {"target.extendedMemory", flag},
      {"target.firstRuntimeReplica", count},
      {"target.gatewayMode", flag},
      {"target.gatewayWriteCombining", flag},
      {"target.hostSyncTimeout", text},
      {"target.maxStreamCallbackThreadsPerNumaNode", text},
      {"target.numberRuntimeReplica", count},
      {"target.saveArchive", text},
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
    std::string names;
    for (const auto& entry : known) names += (names.empty() ? "" : ", ") + entry.first;
    throw poplar::invalid_option(
        "Engine: " + (found == known.end() ? "there is no option '" + name + "'; the options are: " + names
                                           : "the option '" + name + "' cannot be '" + value + "'"));
  }
  if (values.all && !values.has_graph) values.options.graph_profile = true;
  if (values.all && !values.has_execution) values.options.execution_profile = true;
  values.options.prefetch = values.enable_prefetch && values.overlap == "none";
  return values.options;
}

}  // namespace ipu_model
