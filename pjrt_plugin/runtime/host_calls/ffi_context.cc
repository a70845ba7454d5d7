#include "runtime/host_calls/ffi_context.h"

#include <exception>
#include <future>
#include <string_view>
#include <utility>

struct XLA_FFI_Error {
  jax_ipu::Code code;
  std::string message;
};

// Any thread of the handler may complete the promise. Ownership is shared: the runtime may see it completed
// and drop it before the completing thread has returned.
struct XLA_FFI_Future {
  std::shared_ptr<std::promise<std::unique_ptr<XLA_FFI_Error>>> promise =
      std::make_shared<std::promise<std::unique_ptr<XLA_FFI_Error>>>();
};

namespace jax_ipu {
namespace {

// An error belongs to its receiver, a handler or the runtime.
XLA_FFI_Error* NewError(Code code, std::string message) {
  return std::make_unique<XLA_FFI_Error>(XLA_FFI_Error{code, std::move(message)}).release();
}

// No exception may reach a handler.
template <typename Args, void (*Function)(Args&)>
XLA_FFI_Error* FfiEntry(Args* args) {
  try {
    Function(*args);
    return nullptr;
  } catch (const Error& error) {
    return NewError(error.code, error.what());
  } catch (const std::exception& error) {
    return NewError(Code::kInternal, error.what());
  }
}

XLA_FFI_Error* ErrorCreate(XLA_FFI_Error_Create_Args* args) {
  return NewError(static_cast<Code>(args->errc), args->message == nullptr ? "" : args->message);
}
void ErrorGetDetails(XLA_FFI_Error_GetDetails_Args* args) {
  args->message = args->error->message.c_str();
  if (args->struct_size > offsetof(XLA_FFI_Error_GetDetails_Args, errc)) {
    args->errc = static_cast<XLA_FFI_Error_Code>(args->error->code);
  }
}
void ErrorDestroy(XLA_FFI_Error_Destroy_Args* args) {
  const std::unique_ptr<XLA_FFI_Error> owner(args->error);
}

XLA_FFI_Error* HandlerRegister(XLA_FFI_Handler_Register_Args*) {
  return NewError(Code::kUnimplemented,
                  "Handlers are registered for ipu from Python: jax.ffi.register_ffi_target(name, "
                  "jax.ffi.pycapsule(library.function), platform='ipu')");
}
void TypeRegister(XLA_FFI_Type_Register_Args& args) {
  FfiHandlers::Get().RegisterType({args.name.ptr, args.name.len}, *args.type_id,
                                  args.type_info == nullptr ? nullptr : args.type_info->deleter);
}

void StreamGet(XLA_FFI_Stream_Get_Args&) {
  throw Error(Code::kUnimplemented, "an IPU has no stream: handlers of ipu run on the host");
}
void ContextGet(XLA_FFI_ExecutionContext_Get_Args&) {
  throw Error(Code::kNotFound, "the execution has no user data of this type");
}
void FindExtension(XLA_FFI_InvokeContext_FindExtension_Args& args) { args.extension = nullptr; }
void CustomOptionsGet(XLA_FFI_CustomOptions_Get_Args& args) {
  static const XLA_FFI_Attrs none = {sizeof(XLA_FFI_Attrs), nullptr, 0, nullptr, nullptr, nullptr};
  args.attrs = &none;
}

XLA_FFI_ExecutionContext::State& StateOf(XLA_FFI_State_Args& args) {
  const auto stage = static_cast<std::size_t>(args.stage);
  if (stage >= args.ctx->states.size()) {
    throw Error(Code::kInvalidArgument, "the stage 'execute' has no state");
  }
  return args.ctx->states[stage];
}
void StateSet(XLA_FFI_State_Args& args) {
  XLA_FFI_ExecutionContext::State& state = StateOf(args);
  const std::optional<FfiHandlers::Deleter> deleter = FfiHandlers::Get().DeleterOf(*args.type_id);
  if (!deleter) {
    throw Error(Code::kInvalidArgument,
                "the type of the handler's state is not registered; call jax.ffi.register_ffi_type(name, "
                "{'type_id': ..., 'type_info': ...}, platform='ipu')");
  }
  if (state.object) throw Error(Code::kAlreadyExists, "the handler's state is set already");
  const auto keep = [](void*) {};
  state.object = {args.state, *deleter == nullptr ? keep : *deleter};
  state.type = *args.type_id;
}
void StateGet(XLA_FFI_State_Args& args) {
  const XLA_FFI_ExecutionContext::State& state = StateOf(args);
  if (!state.object) throw Error(Code::kNotFound, "the handler has set no state");
  if (state.type.type_id != args.type_id->type_id) {
    throw Error(Code::kInvalidArgument, "the handler's state is of another type");
  }
  args.state = state.object.get();
}

void MemoryAllocate(XLA_FFI_DeviceMemory_Allocate_Args& args) {
  using Free = XLA_FFI_ExecutionContext::Free;
  const auto alignment = std::align_val_t{std::max<std::size_t>(args.alignment, alignof(std::max_align_t))};
  std::unique_ptr<void, Free> memory(::operator new(args.size, alignment), Free{alignment});
  args.data = memory.get();
  args.ctx->scratch.emplace(args.data, std::move(memory));
}
void MemoryFree(XLA_FFI_DeviceMemory_Free_Args& args) { args.ctx->scratch.erase(args.data); }

// The pool has one thread, the caller's: handlers run while the device waits for them.
void ThreadPoolSchedule(XLA_FFI_ThreadPool_Schedule_Args& args) { args.task(args.data); }
void ThreadPoolNumThreads(XLA_FFI_ThreadPool_NumThreads_Args& args) { *args.num_threads = 1; }

void FutureCreate(XLA_FFI_Future_Create_Args& args) {
  args.future = std::make_unique<XLA_FFI_Future>().release();
}
void Complete(XLA_FFI_Future* future, XLA_FFI_Error* error) {
  const auto promise = future->promise;
  promise->set_value(std::unique_ptr<XLA_FFI_Error>(error));
}
void FutureSetAvailable(XLA_FFI_Future_SetAvailable_Args& args) { Complete(args.future, nullptr); }
void FutureSetError(XLA_FFI_Future_SetError_Args& args) { Complete(args.future, args.error); }

void RunIdGet(XLA_FFI_RunId_Get_Args& args) { args.run_id = args.ctx->run_id; }
void DeviceOrdinalGet(XLA_FFI_DeviceOrdinal_Get_Args& args) {
  args.device_ordinal = args.ctx->device_ordinal;
}

constexpr XLA_FFI_Api kApi = {
    sizeof(XLA_FFI_Api),
    nullptr,
    {sizeof(XLA_FFI_Api_Version), nullptr, 0, 5},
    nullptr,
    &ErrorCreate,
    &ErrorGetDetails,
    &ErrorDestroy,
    &HandlerRegister,
    &FfiEntry<XLA_FFI_Stream_Get_Args, &StreamGet>,
    &FfiEntry<XLA_FFI_Type_Register_Args, &TypeRegister>,
    &FfiEntry<XLA_FFI_ExecutionContext_Get_Args, &ContextGet>,
    &FfiEntry<XLA_FFI_State_Args, &StateSet>,
    &FfiEntry<XLA_FFI_State_Args, &StateGet>,
    &FfiEntry<XLA_FFI_DeviceMemory_Allocate_Args, &MemoryAllocate>,
    &FfiEntry<XLA_FFI_DeviceMemory_Free_Args, &MemoryFree>,
    &FfiEntry<XLA_FFI_ThreadPool_Schedule_Args, &ThreadPoolSchedule>,
    &FfiEntry<XLA_FFI_ThreadPool_NumThreads_Args, &ThreadPoolNumThreads>,
    &FfiEntry<XLA_FFI_Future_Create_Args, &FutureCreate>,
    &FfiEntry<XLA_FFI_Future_SetAvailable_Args, &FutureSetAvailable>,
    &FfiEntry<XLA_FFI_Future_SetError_Args, &FutureSetError>,
    &FfiEntry<XLA_FFI_RunId_Get_Args, &RunIdGet>,
    &FfiEntry<XLA_FFI_DeviceOrdinal_Get_Args, &DeviceOrdinalGet>,
    &FfiEntry<XLA_FFI_InvokeContext_FindExtension_Args, &FindExtension>,
    &FfiEntry<XLA_FFI_CustomOptions_Get_Args, &CustomOptionsGet>,
};

}  // namespace

XLA_FFI_CallFrame FfiCallFrame(XLA_FFI_ExecutionStage stage, XLA_FFI_ExecutionContext* context) {
  XLA_FFI_CallFrame frame = {};
  frame.struct_size = kXlaFfiCallFrameSize;
  frame.api = &kApi;
  frame.ctx = context;
  frame.stage = stage;
  frame.args.struct_size = sizeof(frame.args);
  frame.rets.struct_size = sizeof(frame.rets);
  frame.attrs.struct_size = sizeof(frame.attrs);
  return frame;
}

void CallFfiHandler(XLA_FFI_Handler* handler, XLA_FFI_CallFrame& frame, const std::string& prefix,
                    const std::string& suffix) {
  std::unique_ptr<XLA_FFI_Error> error;
  try {
    error.reset(handler(&frame));
  } catch (const std::exception& exception) {
    throw Error(Code::kInternal, prefix + exception.what() + suffix);
  }
  if (frame.future != nullptr) {
    const std::unique_ptr<XLA_FFI_Future> future(std::exchange(frame.future, nullptr));
    if (!error) error = future->promise->get_future().get();
  }
  if (error) throw Error(error->code, prefix + error->message + suffix);
}

}  // namespace jax_ipu
