// Entry points about the plugin as a whole, and those that need no object.
#include "pjrt/plugin.h"

#include <memory>
#include <string>

#include "pjrt/abi/entry.h"
#include "pjrt/abi/named_values.h"
#include "pjrt/abi/version.h"

// The caller's context of a launch; IPU programs do not use it.
struct PJRT_ExecuteContext {};

namespace jax_ipu::pjrt {
namespace {

void PluginInitialize(PJRT_Plugin_Initialize_Args&) {}

void PluginAttributes(PJRT_Plugin_Attributes_Args& args) {
  // JAX writes its programs in the StableHLO version given here as current, even if it knows a newer one.
  static const NamedValues& attributes = *[] {
    static NamedValues values;
    values.Add("jax_ipu_version", std::string(kPackageVersion));
    values.Add("stablehlo_current_version", std::vector<std::int64_t>{1, 17, 0});
    values.Add("stablehlo_minimum_version", std::vector<std::int64_t>{1, 0, 0});
    return &values;
  }();
  args.attributes = attributes.data();
  args.num_attributes = attributes.size();
}

void ExecuteContextCreate(PJRT_ExecuteContext_Create_Args& args) {
  args.context = Release(std::make_unique<PJRT_ExecuteContext>());
}
void ExecuteContextDestroy(PJRT_ExecuteContext_Destroy_Args& args) { Destroy(args.context); }

}  // namespace

void InstallPlugin(PJRT_Api& api) {
  PJRT_INSTALL(api, Plugin_Initialize, PluginInitialize);
  PJRT_INSTALL(api, Plugin_Attributes, PluginAttributes);
  PJRT_INSTALL(api, ExecuteContext_Create, ExecuteContextCreate);
  PJRT_INSTALL(api, ExecuteContext_Destroy, ExecuteContextDestroy);
}

}  // namespace jax_ipu::pjrt
