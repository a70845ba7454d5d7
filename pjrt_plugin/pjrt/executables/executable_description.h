// PJRT_Executable: the description of an executable, independent of the devices that run it.
#ifndef JAX_IPU_PJRT_EXECUTABLES_EXECUTABLE_DESCRIPTION_H_
#define JAX_IPU_PJRT_EXECUTABLES_EXECUTABLE_DESCRIPTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pjrt/abi/c_api.h"
#include "pjrt/abi/named_values.h"
#include "pjrt/abi/tensor_lists.h"
#include "runtime/executable/executable.h"

struct PJRT_Executable {
  PJRT_Executable(std::shared_ptr<const jax_ipu::Executable> compiled, std::string options);

  const std::shared_ptr<const jax_ipu::Executable> executable;
  const std::string compile_options;  // serialised xla.CompileOptionsProto

  // Answers to queries, in the form that the C API returns them.
  std::vector<PJRT_Buffer_Type> output_types;
  std::vector<std::int64_t> output_dimensions;
  std::vector<std::size_t> output_ranks;
  std::vector<const char*> output_memory_kinds;
  std::vector<std::size_t> output_memory_kind_sizes;
  jax_ipu::pjrt::LayoutList input_layouts, output_layouts;
  // Empty for a program of one device.
  jax_ipu::pjrt::ShardingList input_shardings, output_shardings;
  jax_ipu::pjrt::NamedValues cost;
};

namespace jax_ipu::pjrt {

void InstallExecutable(PJRT_Api& api);

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_EXECUTABLES_EXECUTABLE_DESCRIPTION_H_
