// The PJRT function table, and GetPjrtApi, through which JAX finds it.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

#include "pjrt/abi/c_api.h"
#include "pjrt/abi/error.h"
#include "pjrt/abi/event.h"
#include "pjrt/buffers/buffer.h"
#include "pjrt/buffers/transfer_manager.h"
#include "pjrt/client/client.h"
#include "pjrt/client/device.h"
#include "pjrt/client/memory.h"
#include "pjrt/client/topology.h"
#include "pjrt/executables/executable_description.h"
#include "pjrt/executables/loaded_executable.h"
#include "pjrt/extensions.h"
#include "pjrt/plugin.h"
#include "runtime/process/processor.h"

namespace jax_ipu::pjrt {
namespace {

// The first version with the layout and sharding extensions that save JAX a conversion of every program. For
// later entries callers look at the struct size.
constexpr int kApiMajor = 0, kApiMinor = 93;
constexpr std::size_t kNumFunctions = static_cast<std::size_t>(PjrtFunction::kCount);

constexpr const char* kFunctionNames[] = {
#define PJRT_NAME(name) "PJRT_" #name,
    PJRT_FUNCTIONS(PJRT_NAME)
#undef PJRT_NAME
};

template <std::size_t index>
PJRT_Error* Unimplemented(void*) noexcept {
  return MakeError(
      Error(Code::kUnimplemented, std::string(kFunctionNames[index]) + " is not implemented for IPUs"));
}

template <std::size_t... indices>
void InstallUnimplemented(PJRT_Api& api, std::index_sequence<indices...>) {
  ((api.functions[indices] = &Unimplemented<indices>), ...);
}

// Replaces every entry if this processor cannot run the plugin.
PJRT_Error* Refuse(void*) noexcept {
  return MakeError(Error(Code::kFailedPrecondition, MissingInstructions()));
}

PJRT_Api MakeApi() {
  PJRT_Api api = {};
  api.struct_size = sizeof(PJRT_Api);
  api.pjrt_api_version.struct_size = PjrtStructSize<PJRT_Api_Version>::full;
  api.pjrt_api_version.major_version = kApiMajor;
  api.pjrt_api_version.minor_version = kApiMinor;
  if (!MissingInstructions().empty()) {
    std::fill(std::begin(api.functions), std::end(api.functions), &Refuse);
    InstallError(api);
    return api;
  }
  InstallUnimplemented(api, std::make_index_sequence<kNumFunctions>());
  InstallError(api);
  InstallPlugin(api);
  InstallEvent(api);
  InstallClient(api);
  InstallTopology(api);
  InstallDevice(api);
  InstallMemory(api);
  InstallBuffer(api);
  InstallBufferCreation(api);
  InstallTransferManager(api);
  InstallExecutable(api);
  InstallLoadedExecutable(api);
  InstallExtensions(api);
  return api;
}

}  // namespace
}  // namespace jax_ipu::pjrt

extern "C" const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api api = jax_ipu::pjrt::MakeApi();
  return &api;
}
