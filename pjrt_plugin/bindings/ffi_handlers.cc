// Python: registration of foreign functions (jax.ffi) and their types.
#include "runtime/host_calls/ffi_handlers.h"

#include <map>
#include <string>

#include "bindings/bindings.h"

namespace jax_ipu::bindings {
namespace {

template <typename T>
T* PointerIn(const nb::capsule& capsule) {
  return reinterpret_cast<T*>(capsule.data());
}

void RegisterTarget(const std::string& name, const std::map<std::string, nb::capsule>& stages) {
  FfiHandlerBundle bundle;
  for (const auto& [stage, capsule] : stages) {
    XLA_FFI_Handler** const slot = stage == "instantiate"  ? &bundle.instantiate
                                   : stage == "prepare"    ? &bundle.prepare
                                   : stage == "initialize" ? &bundle.initialize
                                   : stage == "execute"    ? &bundle.execute
                                                           : nullptr;
    if (slot == nullptr) {
      throw Error(Code::kInvalidArgument,
                  "The foreign function '" + name + "' has a handler for the unknown stage '" + stage +
                      "'; the stages are instantiate, prepare, initialize and execute");
    }
    *slot = PointerIn<XLA_FFI_Handler>(capsule);
  }
  FfiHandlers::Get().Register(name, bundle);
}

void RegisterType(const std::string& name, const nb::capsule& type_id, const nb::object& type_info) {
  FfiHandlers::Deleter deleter = nullptr;
  if (!type_info.is_none()) {
    deleter = PointerIn<const XLA_FFI_TypeInfo>(nb::cast<nb::capsule>(type_info))->deleter;
  }
  FfiHandlers::Get().RegisterType(name, *PointerIn<XLA_FFI_TypeId>(type_id), deleter);
}

}  // namespace

void BindFfiHandlers(nb::module_& module) {
  module.def("register_ffi_target", &RegisterTarget, nb::arg("name"), nb::arg("stages"),
             nb::sig("def register_ffi_target(name: str, stages: dict[str, object]) -> None"),
             "Registers the handlers of a foreign function: capsules with their addresses, by stage.");
  module.def("register_ffi_type", &RegisterType, nb::arg("name"), nb::arg("type_id"),
             nb::arg("type_info").none(),
             nb::sig("def register_ffi_type(name: str, type_id: object, type_info: object | None) -> None"),
             "Registers the type of a handler's state: capsules with the addresses of its id and of its type "
             "info.");
}

}  // namespace jax_ipu::bindings
