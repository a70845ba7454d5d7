// A PJRT client for tests: calls the function table as jaxlib does, on programs of testing/fake_program.h.
#ifndef JAX_IPU_TESTING_PJRT_CLIENT_H_
#define JAX_IPU_TESTING_PJRT_CLIENT_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "pjrt/abi/c_api.h"
#include "runtime/process/registry.h"
#include "testing/fake_program.h"

namespace jax_ipu::testing {

// An args struct whose out fields hold garbage, as in jaxlib.
template <typename Args>
Args Garbage() {
  Args args;
  std::memset(static_cast<void*>(&args), 0x5a, sizeof(args));
  args.struct_size = PjrtStructSize<Args>::full;
  args.extension_start = nullptr;
  return args;
}

inline PJRT_Error* Raw(PjrtFunction function, void* args) {
  return GetPjrtApi()->functions[static_cast<int>(function)](args);
}
// Empty: success. Else "<code>: <message>".
inline std::string Take(PJRT_Error* error) {
  if (error == nullptr) return "";
  auto code = Garbage<PJRT_Error_GetCode_Args>();
  code.error = error;
  CHECK(Raw(PjrtFunction::Error_GetCode, &code) == nullptr);
  auto message = Garbage<PJRT_Error_Message_Args>();
  message.error = error;
  Raw(PjrtFunction::Error_Message, &message);
  std::string text = std::to_string(code.code) + ": " + std::string(message.message, message.message_size);
  auto destroy = Garbage<PJRT_Error_Destroy_Args>();
  destroy.error = error;
  Raw(PjrtFunction::Error_Destroy, &destroy);
  return text;
}
#define CALL(name, args) Take(Raw(PjrtFunction::name, &(args)))
#define CALL_OK(name, args) CHECK_EQ(CALL(name, args), "")

inline bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class Client {
 public:
  explicit Client(int num_devices = 1) {
    SetEngineFactory(testing::CreateFakeEngine);
    Registry::Get().SetCompiler([](const CompileRequest& request) {
      return testing::CompileFake(std::string(request.program), request.target);
    });
    DeviceConfig config;
    for (int i = 1; i < num_devices; ++i) config.device_ids.push_back(10 * i);
    Registry::Get().SetDeviceConfig(config);
    auto args = Garbage<PJRT_Client_Create_Args>();
    args.create_options = nullptr;
    args.num_options = 0;
    CALL_OK(Client_Create, args);
    client_ = args.client;
  }
  ~Client() { Destroy(); }
  void Destroy() {
    if (client_ == nullptr) return;
    auto args = Garbage<PJRT_Client_Destroy_Args>();
    args.client = std::exchange(client_, nullptr);
    CALL_OK(Client_Destroy, args);
  }
  PJRT_Client* get() const { return client_; }
  std::vector<PJRT_Device*> Devices() const {
    auto args = Garbage<PJRT_Client_AddressableDevices_Args>();
    args.client = client_;
    CALL_OK(Client_AddressableDevices, args);
    return {args.addressable_devices, args.addressable_devices + args.num_addressable_devices};
  }
  PJRT_LoadedExecutable* Compile(std::string program, const std::string& options = "",
                                 std::string* error = nullptr) {
    auto description = Garbage<PJRT_Program>();
    description.code = program.data();
    description.code_size = program.size();
    description.format = "mlir";
    description.format_size = 4;
    auto args = Garbage<PJRT_Client_Compile_Args>();
    args.client = client_;
    args.program = &description;
    args.compile_options = options.data();
    args.compile_options_size = options.size();
    const std::string result = CALL(Client_Compile, args);
    if (error != nullptr) {
      *error = result;
      return nullptr;
    }
    CHECK_EQ(result, "");
    return args.executable;
  }
  PJRT_Buffer* Put(const std::vector<float>& values, PJRT_Device* device = nullptr) {
    const auto dim = static_cast<std::int64_t>(values.size());
    auto args = Garbage<PJRT_Client_BufferFromHostBuffer_Args>();
    args.client = client_;
    args.data = values.data();
    args.type = PJRT_Buffer_Type_F32;
    args.dims = &dim;
    args.num_dims = 1;
    args.byte_strides = nullptr;
    args.num_byte_strides = 0;
    args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    args.device = device != nullptr ? device : Devices()[0];
    args.memory = nullptr;
    args.device_layout = nullptr;
    CALL_OK(Client_BufferFromHostBuffer, args);
    auto destroy = Garbage<PJRT_Event_Destroy_Args>();
    destroy.event = args.done_with_host_buffer;
    CALL_OK(Event_Destroy, destroy);
    return args.buffer;
  }

 private:
  PJRT_Client* client_ = nullptr;
};

inline std::string Await(PJRT_Event* event) {
  auto await = Garbage<PJRT_Event_Await_Args>();
  await.event = event;
  const std::string error = CALL(Event_Await, await);
  auto destroy = Garbage<PJRT_Event_Destroy_Args>();
  destroy.event = event;
  CALL_OK(Event_Destroy, destroy);
  return error;
}

inline std::string Execute(PJRT_LoadedExecutable* executable, const std::vector<PJRT_Buffer*>& arguments,
                           std::vector<PJRT_Buffer*>& outputs, const std::vector<std::int64_t>& keep = {}) {
  auto options = Garbage<PJRT_ExecuteOptions>();
  options.num_send_ops = options.num_recv_ops = 0;
  options.non_donatable_input_indices = keep.data();
  options.num_non_donatable_input_indices = keep.size();
  PJRT_Buffer* const* argument_list = arguments.data();
  PJRT_Buffer** output_list = outputs.data();
  PJRT_Event* done = nullptr;
  auto args = Garbage<PJRT_LoadedExecutable_Execute_Args>();
  args.executable = executable;
  args.options = &options;
  args.argument_lists = &argument_list;
  args.num_devices = 1;
  args.num_args = arguments.size();
  args.output_lists = &output_list;
  args.device_complete_events = &done;
  args.execute_device = nullptr;
  const std::string error = CALL(LoadedExecutable_Execute, args);
  if (error.empty()) Await(done);
  return error;
}

// The values, or the error.
inline std::string Get(PJRT_Buffer* buffer) {
  auto size = Garbage<PJRT_Buffer_ToHostBuffer_Args>();
  size.src = buffer;
  size.dst = nullptr;
  size.host_layout = nullptr;
  std::string error = CALL(Buffer_ToHostBuffer, size);
  if (!error.empty()) return error;
  std::vector<float> values(size.dst_size / sizeof(float));
  auto args = Garbage<PJRT_Buffer_ToHostBuffer_Args>();
  args.src = buffer;
  args.host_layout = nullptr;
  args.dst = values.data();
  args.dst_size = size.dst_size;
  error = CALL(Buffer_ToHostBuffer, args);
  if (error.empty()) error = Await(args.event);
  if (!error.empty()) return error;
  std::string text;
  for (const float v : values) text += std::to_string(static_cast<int>(v)) + " ";
  return text;
}

inline bool IsDeleted(PJRT_Buffer* buffer) {
  auto args = Garbage<PJRT_Buffer_IsDeleted_Args>();
  args.buffer = buffer;
  CALL_OK(Buffer_IsDeleted, args);
  return args.is_deleted;
}
inline void Destroy(PJRT_Buffer* buffer) {
  auto args = Garbage<PJRT_Buffer_Destroy_Args>();
  args.buffer = buffer;
  CALL_OK(Buffer_Destroy, args);
}
inline void Destroy(PJRT_LoadedExecutable* executable) {
  auto args = Garbage<PJRT_LoadedExecutable_Destroy_Args>();
  args.executable = executable;
  CALL_OK(LoadedExecutable_Destroy, args);
}

constexpr const char* kStep = "in f32 2 alias=0\nin f32 2\nout f32 2 add 0 1\n";

inline PJRT_Memory* MemoryOf(PJRT_Buffer* buffer) {
  auto args = Garbage<PJRT_Buffer_Memory_Args>();
  args.buffer = buffer;
  CALL_OK(Buffer_Memory, args);
  return args.memory;
}

}  // namespace jax_ipu::testing

#endif  // JAX_IPU_TESTING_PJRT_CLIENT_H_
