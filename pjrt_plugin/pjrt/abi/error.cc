// Entry points of PJRT_Error.
#include "pjrt/abi/error.h"

#include <memory>
#include <new>

#include "pjrt/abi/entry.h"

namespace jax_ipu::pjrt {
namespace {

PJRT_Error& OutOfMemory() {
  static PJRT_Error error = {nullptr, Code::kResourceExhausted, "Out of host memory"};
  return error;
}

void ErrorDestroy(PJRT_Error_Destroy_Args& args) { DestroyError(args.error); }

void ErrorMessage(PJRT_Error_Message_Args& args) {
  args.message = args.error->message.data();
  args.message_size = args.error->message.size();
}

void ErrorGetCode(PJRT_Error_GetCode_Args& args) {
  args.code = static_cast<PJRT_Error_Code>(args.error->code);
}

}  // namespace

PJRT_Error* MakeError(const Error& error) noexcept {
  try {
    return Release(std::make_unique<PJRT_Error>(PJRT_Error{nullptr, error.code, error.what()}));
  } catch (const std::bad_alloc&) {
    return &OutOfMemory();
  }
}

PJRT_Error* MakeError(const Error* error) noexcept { return error == nullptr ? nullptr : MakeError(*error); }

void DestroyError(PJRT_Error* error) noexcept {
  if (error != &OutOfMemory()) const std::unique_ptr<PJRT_Error> owner(error);
}

void InstallError(PJRT_Api& api) {
  OutOfMemory();  // creates it while there is memory
  PJRT_INSTALL(api, Error_Destroy, ErrorDestroy);
  PJRT_INSTALL(api, Error_Message, ErrorMessage);
  PJRT_INSTALL(api, Error_GetCode, ErrorGetCode);
}

}  // namespace jax_ipu::pjrt
