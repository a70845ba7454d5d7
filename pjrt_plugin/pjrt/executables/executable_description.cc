// PJRT_Executable and its entry points.
#include "pjrt/executables/executable_description.h"

#include <cstring>
#include <string_view>
#include <utility>

#include "pjrt/abi/element_type.h"
#include "pjrt/abi/entry.h"
#include "pjrt/abi/serialized_bytes.h"
#include "pjrt/client/memory.h"
#include "pjrt/executables/compile_options.h"

PJRT_Executable::PJRT_Executable(std::shared_ptr<const jax_ipu::Executable> compiled, std::string options)
    : executable(std::move(compiled)), compile_options(std::move(options)) {
  using jax_ipu::pjrt::MemoryKind;
  for (const jax_ipu::OutputSpec& output : executable->outputs) {
    output_types.push_back(jax_ipu::pjrt::PjrtType(output.tensor.type));
    const std::vector<std::int64_t> shape = jax_ipu::FromMemory(output.tensor.shape, output.major_to_minor);
    output_dimensions.insert(output_dimensions.end(), shape.begin(), shape.end());
    output_ranks.push_back(shape.size());
    const std::string_view memory =
        jax_ipu::pjrt::NameOf(output.in_host_memory ? MemoryKind::kPinnedHost : MemoryKind::kDevice);
    output_memory_kinds.push_back(memory.data());
    output_memory_kind_sizes.push_back(memory.size());
    output_layouts.Add(output.major_to_minor, shape.size());
  }
  for (const jax_ipu::InputSpec& input : executable->inputs)
    input_layouts.Add(input.major_to_minor, input.tensor.shape.size());
  if (executable->num_replicas * executable->num_partitions > 1) {
    for (const jax_ipu::InputSpec& input : executable->inputs) input_shardings.Add(input.sharding);
    for (const jax_ipu::OutputSpec& output : executable->outputs) output_shardings.Add(output.sharding);
  }
  // The first three use XLA's property names.
  const jax_ipu::CostReport& report = executable->cost;
  cost.Add("flops", static_cast<float>(report.flops));
  cost.Add("bytes accessed", static_cast<float>(report.bytes_accessed));
  cost.Add("transcendentals", static_cast<float>(report.transcendentals));
  if (report.clock_hz > 0) {
    cost.Add("optimal_seconds", static_cast<float>(static_cast<double>(report.cycles) / report.clock_hz));
  }
  cost.Add("cycles", static_cast<std::int64_t>(report.cycles));
  cost.Add("compute cycles", static_cast<std::int64_t>(report.compute_cycles));
  cost.Add("exchange cycles", static_cast<std::int64_t>(report.exchange_cycles));
  cost.Add("sync cycles", static_cast<std::int64_t>(report.sync_cycles));
  cost.Add("exchange bytes", static_cast<std::int64_t>(report.exchange_bytes));
  cost.Add("link bytes", static_cast<std::int64_t>(report.link_bytes));
  cost.Add("sram bytes", static_cast<std::int64_t>(executable->memory.total_bytes));
  cost.Add("fullest tile bytes", static_cast<std::int64_t>(executable->memory.max_tile_bytes));
}

namespace jax_ipu::pjrt {
namespace {

constexpr std::string_view kProgramFormat = "mlir";

void ExecutableDestroy(PJRT_Executable_Destroy_Args& args) { Destroy(args.executable); }
void ExecutableName(PJRT_Executable_Name_Args& args) {
  args.executable_name = args.executable->executable->name.data();
  args.executable_name_size = args.executable->executable->name.size();
}
void ExecutableNumReplicas(PJRT_Executable_NumReplicas_Args& args) {
  args.num_replicas = static_cast<std::size_t>(args.executable->executable->num_replicas);
}
void ExecutableNumPartitions(PJRT_Executable_NumPartitions_Args& args) {
  args.num_partitions = static_cast<std::size_t>(args.executable->executable->num_partitions);
}
void ExecutableNumOutputs(PJRT_Executable_NumOutputs_Args& args) {
  args.num_outputs = args.executable->executable->outputs.size();
}
std::int64_t CodeBytes(const MemoryReport& memory) {
  return static_cast<std::int64_t>(memory.code_bytes + memory.vertex_bytes + memory.constant_bytes);
}
void ExecutableCodeSize(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args& args) {
  args.size_in_bytes = CodeBytes(args.executable->executable->memory);
}
void ExecutableCost(PJRT_Executable_GetCostAnalysis_Args& args) {
  args.properties = args.executable->cost.data();
  args.num_properties = args.executable->cost.size();
}
void ExecutableOutputTypes(PJRT_Executable_OutputElementTypes_Args& args) {
  args.output_types = args.executable->output_types.data();
  args.num_output_types = args.executable->output_types.size();
}
void ExecutableOutputDimensions(PJRT_Executable_OutputDimensions_Args& args) {
  args.num_outputs = args.executable->output_ranks.size();
  args.dims = args.executable->output_dimensions.data();
  args.dim_sizes = args.executable->output_ranks.data();
}
void ExecutableOutputMemoryKinds(PJRT_Executable_OutputMemoryKinds_Args& args) {
  args.num_outputs = args.executable->output_memory_kinds.size();
  args.memory_kinds = args.executable->output_memory_kinds.data();
  args.memory_kind_sizes = args.executable->output_memory_kind_sizes.data();
}

// Called twice: without memory to learn the size, then with it.
void ExecutableOptimizedProgram(PJRT_Executable_OptimizedProgram_Args& args) {
  const std::string& mlir = args.executable->executable->mlir;
  PJRT_Program& program = *args.program;
  CheckStruct(program);
  if (program.code != nullptr) {
    if (program.code_size < mlir.size()) {
      throw Error(Code::kInvalidArgument, "The optimised program has " + std::to_string(mlir.size()) +
                                              " bytes, the caller's memory has " +
                                              std::to_string(program.code_size));
    }
    std::memcpy(program.code, mlir.data(), mlir.size());
  }
  program.code_size = mlir.size();
  program.format = kProgramFormat.data();
  program.format_size = kProgramFormat.size();
}

void ExecutableSerialize(PJRT_Executable_Serialize_Args& args) {
  const Executable& executable = *args.executable->executable;
  // A client that loads it without options runs it where this one does.
  std::vector<int> devices;
  for (const std::vector<int>& replica :
       ParseCompileOptions(args.executable->compile_options).device_assignment) {
    devices.insert(devices.end(), replica.begin(), replica.end());
  }
  SerializedBytes bytes(executable.Serialize(devices.empty() ? executable.devices : devices));
  bytes.Give(args.serialized_bytes, args.serialized_bytes_size, args.serialized_executable,
             args.serialized_executable_deleter);
}
void ExecutableFingerprint(PJRT_Executable_Fingerprint_Args& args) {
  args.executable_fingerprint = args.executable->executable->fingerprint.data();
  args.executable_fingerprint_size = args.executable->executable->fingerprint.size();
}
void ExecutableCompileOptions(PJRT_Executable_GetCompileOptions_Args& args) {
  SerializedBytes bytes(args.executable->compile_options);
  bytes.Give(args.serialized_bytes, args.serialized_bytes_size, args.serialized_compile_options,
             args.serialized_compile_options_deleter);
}

void ExecutableMemoryStats(PJRT_Executable_GetCompiledMemoryStats_Args& args) {
  const MemoryReport& memory = args.executable->executable->memory;
  args.generated_code_size_in_bytes = CodeBytes(memory);
  args.argument_size_in_bytes = static_cast<std::int64_t>(memory.argument_bytes);
  args.output_size_in_bytes = static_cast<std::int64_t>(memory.output_bytes);
  args.alias_size_in_bytes = static_cast<std::int64_t>(memory.alias_bytes);
  args.temp_size_in_bytes = static_cast<std::int64_t>(memory.temp_bytes + memory.exchange_buffer_bytes);
  args.host_generated_code_size_in_bytes = 0;
  args.host_argument_size_in_bytes = static_cast<std::int64_t>(memory.host_argument_bytes);
  args.host_output_size_in_bytes = static_cast<std::int64_t>(memory.host_output_bytes);
  args.host_alias_size_in_bytes = 0;
  args.host_temp_size_in_bytes = 0;
  const auto total = static_cast<std::int64_t>(memory.total_bytes);
  if (PJRT_HAS(args, peak_memory_in_bytes)) args.peak_memory_in_bytes = total;
  if (PJRT_HAS(args, total_size_in_bytes)) args.total_size_in_bytes = total;
  if (PJRT_HAS(args, total_allocation_bytes)) args.total_allocation_bytes = total;
  if (PJRT_HAS(args, indefinite_allocations)) args.indefinite_allocations = 0;
  if (PJRT_HAS(args, peak_unpadded_heap_bytes)) args.peak_unpadded_heap_bytes = total;
}

}  // namespace

void InstallExecutable(PJRT_Api& api) {
  PJRT_INSTALL(api, Executable_Destroy, ExecutableDestroy);
  PJRT_INSTALL(api, Executable_Name, ExecutableName);
  PJRT_INSTALL(api, Executable_NumReplicas, ExecutableNumReplicas);
  PJRT_INSTALL(api, Executable_NumPartitions, ExecutableNumPartitions);
  PJRT_INSTALL(api, Executable_NumOutputs, ExecutableNumOutputs);
  PJRT_INSTALL(api, Executable_SizeOfGeneratedCodeInBytes, ExecutableCodeSize);
  PJRT_INSTALL(api, Executable_GetCostAnalysis, ExecutableCost);
  PJRT_INSTALL(api, Executable_OutputElementTypes, ExecutableOutputTypes);
  PJRT_INSTALL(api, Executable_OutputDimensions, ExecutableOutputDimensions);
  PJRT_INSTALL(api, Executable_OutputMemoryKinds, ExecutableOutputMemoryKinds);
  PJRT_INSTALL(api, Executable_OptimizedProgram, ExecutableOptimizedProgram);
  PJRT_INSTALL(api, Executable_Serialize, ExecutableSerialize);
  PJRT_INSTALL(api, Executable_Fingerprint, ExecutableFingerprint);
  PJRT_INSTALL(api, Executable_GetCompileOptions, ExecutableCompileOptions);
  PJRT_INSTALL(api, Executable_GetCompiledMemoryStats, ExecutableMemoryStats);
}

}  // namespace jax_ipu::pjrt
