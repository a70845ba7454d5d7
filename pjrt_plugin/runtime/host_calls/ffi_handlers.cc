#include "runtime/host_calls/ffi_handlers.h"

#include "runtime/host_calls/ffi_context.h"

namespace jax_ipu {
namespace {

// Oldest supported API version: the call frame has not changed since.
constexpr int kOldestMinorVersion = 3;

void CheckVersion(const std::string& name, XLA_FFI_Handler* handler) {
  XLA_FFI_Metadata metadata = {};
  metadata.struct_size = sizeof(metadata);
  metadata.api_version.struct_size = sizeof(metadata.api_version);
  XLA_FFI_Metadata_Extension extension = {{sizeof(extension), XLA_FFI_Extension_Metadata, nullptr},
                                          &metadata};
  XLA_FFI_CallFrame frame = FfiCallFrame(XLA_FFI_ExecutionStage_EXECUTE, nullptr);
  frame.extension_start = &extension.extension_base;
  CallFfiHandler(handler, frame,
                 "The handler '" + name + "' cannot say which XLA FFI it was compiled with: ");
  const XLA_FFI_Api_Version& version = metadata.api_version;
  if (version.major_version != 0 || version.minor_version < kOldestMinorVersion) {
    throw Error(Code::kInvalidArgument,
                "The handler '" + name + "' was compiled with XLA FFI " +
                    std::to_string(version.major_version) + "." + std::to_string(version.minor_version) +
                    ", but ipu calls handlers of version 0." + std::to_string(kOldestMinorVersion) +
                    " and later. Compile it with the headers in jax.ffi.include_dir().");
  }
}

}  // namespace

FfiHandlers& FfiHandlers::Get() {
  // Never destroyed: executables may be loaded while static objects are destroyed.
  static FfiHandlers& handlers = *std::make_unique<FfiHandlers>().release();
  return handlers;
}

void FfiHandlers::Register(const std::string& name, const FfiHandlerBundle& bundle) {
  if (bundle.execute == nullptr) {
    throw Error(Code::kInvalidArgument, "The foreign function '" + name + "' has no handler for 'execute'");
  }
  CheckVersion(name, bundle.execute);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto [known, added] = bundles_.emplace(name, bundle); !added && !(known->second == bundle)) {
    throw Error(Code::kAlreadyExists,
                "The foreign function '" + name +
                    "' is registered for ipu with other handlers. Choose another name.");
  }
}

FfiHandlerBundle FfiHandlers::Find(const std::string& name, const std::string& call) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = bundles_.find(name);
  if (found == bundles_.end()) {
    throw Error(Code::kUnimplemented,
                "The program calls the foreign function '" + name + "', " + call +
                    ", for which no handler is registered on ipu. Register one that runs on the host: "
                    "jax.ffi.register_ffi_target('" +
                    name + "', jax.ffi.pycapsule(library.function), platform='ipu').");
  }
  return found->second;
}

void FfiHandlers::RegisterType(const std::string& name, XLA_FFI_TypeId& type_id, Deleter deleter) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto known = types_.find(name); known != types_.end()) {
    if (type_id.type_id != 0 && type_id.type_id != known->second.id) {
      throw Error(Code::kAlreadyExists, "The foreign type '" + name + "' is registered with another type id");
    }
    type_id.type_id = known->second.id;
    return;
  }
  for (const auto& [other, type] : types_) {
    if (type.id == type_id.type_id) {
      throw Error(Code::kAlreadyExists, "The foreign type '" + name + "' has the type id of '" + other + "'");
    }
  }
  if (type_id.type_id == 0) type_id.type_id = next_type_++;
  types_[name] = {type_id.type_id, deleter};
}

std::optional<FfiHandlers::Deleter> FfiHandlers::DeleterOf(XLA_FFI_TypeId type_id) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [name, type] : types_) {
    if (type.id == type_id.type_id) return type.deleter;
  }
  return std::nullopt;
}

}  // namespace jax_ipu
