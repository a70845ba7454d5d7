// Tests the plugin through its function table, as a PJRT client uses it: out fields, errors, donation, any
// order of deletion.
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "pjrt/c_api.h"
#include "runtime/process/registry.h"
#include "testing/fake_program.h"

namespace jax_ipu {
namespace {

// An args struct whose out fields hold garbage, as in jaxlib.
template <typename Args>
Args Garbage() {
  Args args;
  std::memset(static_cast<void*>(&args), 0x5a, sizeof(args));
  args.struct_size = PjrtStructSize<Args>::full;
  args.extension_start = nullptr;
  return args;
}

PJRT_Error* Raw(PjrtFunction function, void* args) {
  return GetPjrtApi()->functions[static_cast<int>(function)](args);
}
// Empty: success. Else "<code>: <message>".
std::string Take(PJRT_Error* error) {
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

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

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

std::string Await(PJRT_Event* event) {
  auto await = Garbage<PJRT_Event_Await_Args>();
  await.event = event;
  const std::string error = CALL(Event_Await, await);
  auto destroy = Garbage<PJRT_Event_Destroy_Args>();
  destroy.event = event;
  CALL_OK(Event_Destroy, destroy);
  return error;
}

std::string Execute(PJRT_LoadedExecutable* executable, const std::vector<PJRT_Buffer*>& arguments,
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
std::string Get(PJRT_Buffer* buffer) {
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

bool IsDeleted(PJRT_Buffer* buffer) {
  auto args = Garbage<PJRT_Buffer_IsDeleted_Args>();
  args.buffer = buffer;
  CALL_OK(Buffer_IsDeleted, args);
  return args.is_deleted;
}
void Destroy(PJRT_Buffer* buffer) {
  auto args = Garbage<PJRT_Buffer_Destroy_Args>();
  args.buffer = buffer;
  CALL_OK(Buffer_Destroy, args);
}
void Destroy(PJRT_LoadedExecutable* executable) {
  auto args = Garbage<PJRT_LoadedExecutable_Destroy_Args>();
  args.executable = executable;
  CALL_OK(LoadedExecutable_Destroy, args);
}

const char* const kStep = "in f32 2 alias=0\nin f32 2\nout f32 2 add 0 1\n";

TEST(TableIsCompleteAndUnimplementedEntriesSayTheirName) {
  const PJRT_Api* api = GetPjrtApi();
  CHECK_EQ(api->struct_size, 1072u);
  CHECK_EQ(api->pjrt_api_version.minor_version, 93);
  for (const PjrtEntry entry : api->functions) CHECK(entry != nullptr);
  char args[256] = {};
  CHECK_EQ(CALL(CopyToDeviceStream_AddChunk, args),
           "12: PJRT_CopyToDeviceStream_AddChunk is not implemented for IPUs");
}

TEST(OldCallersAreRefused) {
  auto args = Garbage<PJRT_Client_Create_Args>();
  args.struct_size = 24;
  CHECK(Has(CALL(Client_Create, args), "3: The caller's PJRT struct has 24 bytes"));
}

// A caller of an older version has a shorter struct: the plugin must not write beyond it.
TEST(NothingIsWrittenBehindTheCallersStruct) {
  Client client;
  auto args = Garbage<PJRT_Device_MemoryStats_Args>();
  args.device = client.Devices()[0];
  args.struct_size = PjrtStructSize<PJRT_Device_MemoryStats_Args>::oldest;
  const std::int64_t behind = args.peak_allocated_bytes;
  CALL_OK(Device_MemoryStats, args);
  CHECK_EQ(args.peak_allocated_bytes, behind);
  CHECK_EQ(args.bytes_limit, std::int64_t{1472} * 638976);
  CHECK_EQ(args.bytes_reservable_limit, args.bytes_limit);
  CHECK(args.bytes_limit_is_set && args.bytes_reservable_limit_is_set && args.peak_bytes_in_use_is_set &&
        !args.num_allocs_is_set);
  args.struct_size = PjrtStructSize<PJRT_Device_MemoryStats_Args>::full;
  CALL_OK(Device_MemoryStats, args);
  CHECK(!args.peak_allocated_bytes_is_set);
}

TEST(DonationDeletesAndFailedCallsRestore) {
  Client client;
  PJRT_LoadedExecutable* step = client.Compile(kStep);
  PJRT_Buffer *a = client.Put({1, 2}), *b = client.Put({10, 20}), *wrong = client.Put({1, 2, 3});
  std::vector<PJRT_Buffer*> out(1);
  CHECK(Has(Execute(step, {a, a}, out),
            "previously donated in the same call to Execute() (flattened argument 1"));
  CHECK(Has(Execute(step, {a, wrong}, out), "expected parameter 1 of size 8"));
  CHECK(Has(Execute(step, {a}, out), "supplied 1 buffers but compiled program expected 2"));
  CHECK(!IsDeleted(a));
  CHECK_EQ(Execute(step, {a, b}, out), "");
  CHECK(IsDeleted(a) && !IsDeleted(b));
  CHECK_EQ(Get(out[0]), "11 22 ");
  CHECK_EQ(
      Execute(step, {a, b}, out),
      "3: Invalid buffer passed to Execute() as argument 0 to replica 0: INVALID_ARGUMENT: Buffer has been "
      "deleted or donated.");
  CHECK(Has(Get(a), "called on deleted or donated buffer"));
  PJRT_LoadedExecutable* last = client.Compile("in f32 2\nin f32 2 alias=0\nout f32 2 add 0 1\n");
  CHECK(Has(Execute(last, {b, b}, out), "donate a buffer which is also used by the same call"));
  PJRT_LoadedExecutable* both = client.Compile("in f32 2 alias=0\nin f32 2 donated\nout f32 2 add 0 1\n");
  CHECK(Has(Execute(both, {b, b}, out), "donate the same buffer twice"));
  CHECK(!IsDeleted(b));
  for (PJRT_Buffer* buffer : {a, b, wrong, out[0]}) Destroy(buffer);
  for (PJRT_LoadedExecutable* executable : {step, last, both}) Destroy(executable);
}

TEST(NonDonatableInputsAreKept) {
  Client client;
  PJRT_LoadedExecutable* step = client.Compile(kStep);
  PJRT_Buffer *a = client.Put({1, 2}), *b = client.Put({10, 20});
  std::vector<PJRT_Buffer*> out(1), again(1);
  CHECK_EQ(Execute(step, {a, b}, out, {0}), "");
  CHECK(!IsDeleted(a));
  CHECK_EQ(Execute(step, {out[0], b}, again, {0, 1}), "");
  CHECK_EQ(Get(a) + Get(out[0]) + Get(again[0]), "1 2 11 22 21 42 ");
  for (PJRT_Buffer* buffer : {a, b, out[0], again[0]}) Destroy(buffer);
  Destroy(step);
}

// Every order of destroying client, executable and buffers, also with work still queued.
TEST(AnyOrderOfDestructionIsSafe) {
  for (int order = 0; order < 6; ++order) {
    for (const std::string& queued : {std::string(), std::string("cost 1e9\nsleep 2\n")}) {
      auto client = std::make_unique<Client>();
      PJRT_LoadedExecutable* step = client->Compile(queued + kStep);
      PJRT_Buffer *a = client->Put({1, 2}), *b = client->Put({10, 20});
      std::vector<PJRT_Buffer*> out(1);
      CHECK_EQ(Execute(step, {a, b}, out), "");
      const auto destroy_buffers = [&] {
        for (PJRT_Buffer* buffer : {a, b, out[0]}) Destroy(buffer);
      };
      const int steps[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
      for (const int what : steps[order]) {
        if (what == 0) client.reset();
        if (what == 1) Destroy(step);
        if (what == 2) destroy_buffers();
      }
    }
  }
}

TEST(BuffersCanBeReadAfterTheClient) {
  auto client = std::make_unique<Client>();
  PJRT_LoadedExecutable* step = client->Compile(kStep);
  PJRT_Buffer *a = client->Put({1, 2}), *b = client->Put({10, 20});
  std::vector<PJRT_Buffer*> out(1);
  CHECK_EQ(Execute(step, {a, b}, out), "");
  client.reset();
  CHECK_EQ(Get(out[0]), "11 22 ");  // resident: read back now
  for (PJRT_Buffer* buffer : {a, b, out[0]}) Destroy(buffer);
  Destroy(step);
}

PJRT_Memory* MemoryOf(PJRT_Buffer* buffer) {
  auto args = Garbage<PJRT_Buffer_Memory_Args>();
  args.buffer = buffer;
  CALL_OK(Buffer_Memory, args);
  return args.memory;
}

TEST(BuffersAreInTheMemoryThatTheyWereCopiedTo) {
  Client client;
  PJRT_Buffer* buffer = client.Put({1, 2});
  auto memories = Garbage<PJRT_Device_AddressableMemories_Args>();
  memories.device = client.Devices()[0];
  CALL_OK(Device_AddressableMemories, memories);
  CHECK_EQ(memories.num_memories, std::size_t{2});
  CHECK(MemoryOf(buffer) == memories.memories[0]);
  const std::string_view names[] = {"device", "pinned_host"};
  for (int i = 0; i < 2; ++i) {
    PJRT_Memory* memory = memories.memories[i];
    auto kind = Garbage<PJRT_Memory_Kind_Args>();
    kind.memory = memory;
    CALL_OK(Memory_Kind, kind);
    CHECK(std::string_view(kind.kind, kind.kind_size) == names[i]);
    auto copy = Garbage<PJRT_Buffer_CopyToMemory_Args>();
    copy.buffer = buffer;
    copy.dst_memory = memory;
    CALL_OK(Buffer_CopyToMemory, copy);
    CHECK(MemoryOf(copy.dst_buffer) == memory);
    CHECK_EQ(Get(copy.dst_buffer), "1 2 ");
    Destroy(copy.dst_buffer);
  }
  Destroy(buffer);
}

TEST(ExternalReferencesKeepTheMemory) {
  Client client;
  PJRT_LoadedExecutable* step = client.Compile(kStep);
  PJRT_Buffer *a = client.Put({1, 2}), *b = client.Put({10, 20});
  auto add = Garbage<PJRT_Buffer_IncreaseExternalReferenceCount_Args>();
  add.buffer = a;
  CALL_OK(Buffer_IncreaseExternalReferenceCount, add);
  auto pointer = Garbage<PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args>();
  pointer.buffer = a;
  CALL_OK(Buffer_OpaqueDeviceMemoryDataPointer, pointer);
  std::vector<PJRT_Buffer*> out(1);
  CHECK_EQ(Execute(step, {a, b}, out), "");
  CHECK(IsDeleted(a));
  CHECK_EQ(static_cast<float*>(pointer.device_memory_ptr)[1], 2.0f);
  auto remove = Garbage<PJRT_Buffer_DecreaseExternalReferenceCount_Args>();
  remove.buffer = a;
  CALL_OK(Buffer_DecreaseExternalReferenceCount, remove);
  CHECK(Has(CALL(Buffer_DecreaseExternalReferenceCount, remove), "9: "));
  for (PJRT_Buffer* buffer : {a, b, out[0]}) Destroy(buffer);
  Destroy(step);
}

std::string OptionsFor(int device) {
  const std::string ids = {'\x0a', '\x01', static_cast<char>(device)};
  const std::string assignment = std::string("\x08\x01\x10\x01\x1a") + static_cast<char>(ids.size()) + ids;
  const std::string build =
      std::string("\x20\x01\x28\x01\x4a") + static_cast<char>(assignment.size()) + assignment;
  return std::string("\x1a") + static_cast<char>(build.size()) + build;
}

TEST(ExecutablesRunOnTheirAssignedDevice) {
  Client client(2);
  const std::vector<PJRT_Device*> devices = client.Devices();
  CHECK_EQ(devices.size(), 2u);
  PJRT_LoadedExecutable* step = client.Compile(kStep, OptionsFor(10));
  auto on = Garbage<PJRT_LoadedExecutable_AddressableDevices_Args>();
  on.executable = step;
  CALL_OK(LoadedExecutable_AddressableDevices, on);
  CHECK(on.num_addressable_devices == 1 && on.addressable_devices[0] == devices[1]);
  PJRT_Buffer *a = client.Put({1, 2}, devices[0]), *b = client.Put({10, 20}, devices[1]);
  std::vector<PJRT_Buffer*> out(1);
  CHECK(Has(Execute(step, {a, b}, out), "is on device IpuDevice(id=0"));
  auto copy = Garbage<PJRT_Buffer_CopyToDevice_Args>();
  copy.buffer = a;
  copy.dst_device = devices[1];
  CALL_OK(Buffer_CopyToDevice, copy);
  CHECK_EQ(Execute(step, {copy.dst_buffer, b}, out), "");
  CHECK_EQ(Get(out[0]) + Get(a), "11 22 1 2 ");
  CHECK_EQ(ReadCounters(10).runs, 1u);
  CHECK_EQ(ReadCounters(0).runs, 0u);
  // A resident array on another device.
  copy.buffer = out[0];
  copy.dst_device = devices[0];
  PJRT_Buffer* first = copy.dst_buffer;
  CALL_OK(Buffer_CopyToDevice, copy);
  CHECK_EQ(Get(copy.dst_buffer), "11 22 ");
  std::string error;
  client.Compile(kStep, OptionsFor(7), &error);
  CHECK(Has(error, "assigned to IPU 7"));
  client.Compile(std::string("partitions 2\n") + kStep, OptionsFor(10), &error);
  CHECK(Has(error, "needs 2 IPUs, its device assignment has 1"));
  client.Compile(kStep, "\xff\xff", &error);
  CHECK(Has(error, "3: The compile options are not"));
  for (PJRT_Buffer* buffer : {a, b, out[0], first, copy.dst_buffer}) Destroy(buffer);
  Destroy(step);
}

TEST(SerialisedExecutablesLoadOnTheirTargetOnly) {
  Client client;
  for (const char* target : {"ipu2:1472", "ipu2:4"}) {
    const std::string bytes = testing::CompileFake(kStep, target)->Serialize();
    auto args = Garbage<PJRT_Executable_DeserializeAndLoad_Args>();
    args.client = client.get();
    args.serialized_executable = bytes.data();
    args.serialized_executable_size = bytes.size();
    args.overridden_serialized_compile_options = nullptr;
    args.overridden_serialized_compile_options_size = 0;
    const std::string error = CALL(Executable_DeserializeAndLoad, args);
    if (std::string(target) == "ipu2:1472") {
      CHECK_EQ(error, "");
      Destroy(args.loaded_executable);
    } else {
      CHECK(Has(error, "3: The executable was compiled for target ipu2:4, these IPUs are ipu2:1472"));
    }
  }
}

TEST(ErrorsOfARunArriveWithItsEvents) {
  Client client;
  PJRT_LoadedExecutable* bad = client.Compile("fail it broke\ncost 1e9\n" + std::string(kStep));
  PJRT_Buffer *a = client.Put({1, 2}), *b = client.Put({10, 20});
  std::vector<PJRT_Buffer*> out(1);
  CHECK_EQ(Execute(bad, {a, b}, out), "");
  auto ready = Garbage<PJRT_Buffer_ReadyEvent_Args>();
  ready.buffer = out[0];
  CALL_OK(Buffer_ReadyEvent, ready);
  CHECK_EQ(Await(ready.event), "13: it broke");
  CHECK_EQ(Get(out[0]), "13: it broke");
  for (PJRT_Buffer* buffer : {a, b, out[0]}) Destroy(buffer);
  Destroy(bad);
}

TEST(CompilerErrorsKeepTheirCode) {
  Client client;
  std::string error;
  client.Compile("nonsense", "", &error);
  CHECK_EQ(error, "3: fake program: unknown statement nonsense");
}

// Small arrays are copied at once, so that the caller may change them. Larger ones stay in the caller's
// memory if its layout is that of the buffer, here column-major.
TEST(LargeHostArraysAreNotCopied) {
  Client client;
  for (const std::int64_t rows : {std::int64_t{32}, std::int64_t{1024}}) {
    std::vector<double> data(static_cast<std::size_t>(rows) * 2);
    const std::int64_t dims[2] = {rows, 2}, strides[2] = {8, 8 * rows}, column_major[2] = {0, 1};
    auto layout = Garbage<PJRT_Buffer_MemoryLayout>();
    layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
    layout.tiled = {};
    layout.tiled.minor_to_major = column_major;
    layout.tiled.minor_to_major_size = 2;
    auto args = Garbage<PJRT_Client_BufferFromHostBuffer_Args>();
    args.client = client.get();
    args.data = data.data();
    args.type = PJRT_Buffer_Type_F64;
    args.dims = dims;
    args.num_dims = 2;
    args.byte_strides = strides;
    args.num_byte_strides = 2;
    args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableZeroCopy;
    args.device = client.Devices()[0];
    args.memory = nullptr;
    args.device_layout = &layout;
    CALL_OK(Client_BufferFromHostBuffer, args);
    auto pointer = Garbage<PJRT_Buffer_UnsafePointer_Args>();
    pointer.buffer = args.buffer;
    CALL_OK(Buffer_UnsafePointer, pointer);
    CHECK_EQ(pointer.buffer_pointer == reinterpret_cast<std::uintptr_t>(data.data()), rows == 1024);
    Destroy(args.buffer);
    CHECK_EQ(Await(args.done_with_host_buffer), "");
  }
}

// Only zero-copy semantics let the runtime keep the caller's memory after the call, and then as long as the
// buffer.
TEST(CallersMayChangeTheirMemory) {
  Client client;
  std::vector<float> data(2000, 0.0F);
  const auto dim = static_cast<std::int64_t>(data.size());
  auto args = Garbage<PJRT_Client_BufferFromHostBuffer_Args>();
  args.client = client.get();
  args.data = data.data();
  args.type = PJRT_Buffer_Type_F32;
  args.dims = &dim;
  args.num_dims = 1;
  args.byte_strides = nullptr;
  args.num_byte_strides = 0;
  args.device = client.Devices()[0];
  args.memory = nullptr;
  args.device_layout = nullptr;
  for (const PJRT_HostBufferSemantics semantics : {PJRT_HostBufferSemantics_kImmutableOnlyDuringCall,
                                                   PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes,
                                                   PJRT_HostBufferSemantics_kImmutableZeroCopy}) {
    const bool zero_copy = semantics == PJRT_HostBufferSemantics_kImmutableZeroCopy;
    args.host_buffer_semantics = semantics;
    data[0] = 0;
    CALL_OK(Client_BufferFromHostBuffer, args);
    if (!zero_copy) CHECK_EQ(Await(args.done_with_host_buffer), "");
    auto copy = Garbage<PJRT_Buffer_CopyToMemory_Args>();
    copy.buffer = args.buffer;
    auto memory = Garbage<PJRT_Buffer_Memory_Args>();
    memory.buffer = args.buffer;
    CALL_OK(Buffer_Memory, memory);
    copy.dst_memory = memory.memory;
    CALL_OK(Buffer_CopyToMemory, copy);
    if (zero_copy) Destroy(args.buffer);
    data[0] = 1;
    CHECK_EQ(Get(copy.dst_buffer).substr(0, 2), "0 ");
    if (!zero_copy) {
      CHECK_EQ(Get(args.buffer).substr(0, 2), "0 ");
      Destroy(args.buffer);
    }
    Destroy(copy.dst_buffer);
    if (zero_copy) CHECK_EQ(Await(args.done_with_host_buffer), "");
  }
}

TEST(StridedAndOddLayouts) {
  Client client;
  const float data[6] = {0, 1, 2, 3, 4, 5};
  const std::int64_t dims[2] = {3, 2}, strides[2] = {4, 12};  // the transpose of a 2x3 array
  auto args = Garbage<PJRT_Client_BufferFromHostBuffer_Args>();
  args.client = client.get();
  args.data = data;
  args.type = PJRT_Buffer_Type_F32;
  args.dims = dims;
  args.num_dims = 2;
  args.byte_strides = strides;
  args.num_byte_strides = 2;
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableZeroCopy;
  args.device = client.Devices()[0];
  args.memory = nullptr;
  args.device_layout = nullptr;
  CALL_OK(Client_BufferFromHostBuffer, args);
  CHECK_EQ(Await(args.done_with_host_buffer), "");  // it was copied
  CHECK_EQ(Get(args.buffer), "0 3 1 4 2 5 ");
  // Read back in column-major order.
  const std::int64_t column_major[2] = {0, 1};
  auto layout = Garbage<PJRT_Buffer_MemoryLayout>();
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled = {};
  layout.tiled.minor_to_major = column_major;
  layout.tiled.minor_to_major_size = 2;
  float back[6];
  auto read = Garbage<PJRT_Buffer_ToHostBuffer_Args>();
  read.src = args.buffer;
  read.host_layout = &layout;
  read.dst = back;
  read.dst_size = sizeof(back);
  CALL_OK(Buffer_ToHostBuffer, read);
  CHECK_EQ(Await(read.event), "");
  CHECK(std::memcmp(back, data, sizeof(data)) == 0);
  read.dst_size = 4;
  CHECK(Has(CALL(Buffer_ToHostBuffer, read), "has 4 bytes, the array needs 24"));
  Destroy(args.buffer);
  // A column-major buffer, like the caller's memory.
  args.device_layout = &layout;
  CALL_OK(Client_BufferFromHostBuffer, args);
  auto dimensions = Garbage<PJRT_Buffer_Dimensions_Args>();
  dimensions.buffer = args.buffer;
  CALL_OK(Buffer_Dimensions, dimensions);
  CHECK(dimensions.num_dims == 2 && dimensions.dims[0] == 3 && dimensions.dims[1] == 2);
  auto own = Garbage<PJRT_Buffer_GetMemoryLayout_Args>();
  own.buffer = args.buffer;
  CALL_OK(Buffer_GetMemoryLayout, own);
  CHECK_EQ(own.layout.tiled.minor_to_major_size, std::size_t{2});
  CHECK(own.layout.tiled.minor_to_major[0] == 0 && own.layout.tiled.minor_to_major[1] == 1);
  auto pointer = Garbage<PJRT_Buffer_UnsafePointer_Args>();
  pointer.buffer = args.buffer;
  CALL_OK(Buffer_UnsafePointer, pointer);
  CHECK(std::memcmp(reinterpret_cast<const void*>(pointer.buffer_pointer), data, sizeof(data)) == 0);
  read.src = args.buffer;
  read.dst_size = sizeof(back);
  for (PJRT_Buffer_MemoryLayout* wish : {static_cast<PJRT_Buffer_MemoryLayout*>(nullptr), &layout}) {
    read.host_layout = wish;
    CALL_OK(Buffer_ToHostBuffer, read);
    CHECK_EQ(Await(read.event), "");
    CHECK(std::memcmp(back, data, sizeof(data)) == 0);
  }
  const std::int64_t row_major[2] = {1, 0};
  layout.tiled.minor_to_major = row_major;
  read.host_layout = &layout;
  CALL_OK(Buffer_ToHostBuffer, read);
  CHECK_EQ(Await(read.event), "");
  CHECK(back[0] == 0 && back[1] == 3 && back[2] == 1 && back[5] == 5);
  Destroy(args.buffer);
  CHECK_EQ(Await(args.done_with_host_buffer), "");  // it was borrowed
  const std::int64_t twice[2] = {1, 1};
  layout.tiled.minor_to_major = twice;
  CHECK(Has(CALL(Client_BufferFromHostBuffer, args), "3: The layout does not name each dimension"));
  layout.tiled.minor_to_major_size = 1;
  CHECK(Has(CALL(Client_BufferFromHostBuffer, args), "3: The layout has 1 dimensions, the array has 2"));
  layout.tiled.num_tiles = 1;
  CHECK(Has(CALL(Client_BufferFromHostBuffer, args), "12: "));
  // The same layout given by strides.
  layout.type = PJRT_Buffer_MemoryLayout_Type_Strides;
  layout.strides = {};
  layout.strides.byte_strides = strides;
  layout.strides.num_byte_strides = 2;
  CALL_OK(Client_BufferFromHostBuffer, args);
  CHECK_EQ(Get(args.buffer), "0 1 2 3 4 5 ");  // as it lies in memory
  Destroy(args.buffer);
  CHECK_EQ(Await(args.done_with_host_buffer), "");
  const std::int64_t gaps[2] = {4, 16};
  layout.strides.byte_strides = gaps;
  CHECK(Has(CALL(Client_BufferFromHostBuffer, args), "12: "));
}

PJRT_Client_BufferFromHostBuffer_Args HostBuffer(const Client& client, const void* data,
                                                 const std::vector<std::int64_t>& dims) {
  auto args = Garbage<PJRT_Client_BufferFromHostBuffer_Args>();
  args.client = client.get();
  args.data = data;
  args.type = PJRT_Buffer_Type_F32;
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.byte_strides = nullptr;
  args.num_byte_strides = 0;
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  args.device = client.Devices()[0];
  args.memory = nullptr;
  args.device_layout = nullptr;
  return args;
}

// Sizes from 2^64 bytes, which overflow to small ones, and sizes that no allocator can provide.
TEST(SizesThatOverflowAreRefused) {
  Client client;
  const float data[4] = {1, 2, 3, 4};
  const std::vector<std::vector<std::int64_t>> shapes = {
      {std::int64_t{1} << 62},
      {6148914691236517206, 3},
      {std::int64_t{1} << 61},
      {0, std::int64_t{1} << 62, 1 << 20},
      {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::max()}};
  for (const std::vector<std::int64_t>& dims : shapes) {
    auto args = HostBuffer(client, data, dims);
    CHECK(Has(CALL(Client_BufferFromHostBuffer, args), "3: An array of type f32 and shape ["));
    auto empty = Garbage<PJRT_Client_CreateUninitializedBuffer_Args>();
    empty.client = client.get();
    empty.shape_dims = dims.data();
    empty.shape_num_dims = dims.size();
    empty.shape_element_type = PJRT_Buffer_Type_F32;
    empty.shape_layout = nullptr;
    empty.device = client.Devices()[0];
    empty.memory = nullptr;
    CHECK(Has(CALL(Client_CreateUninitializedBuffer, empty), "3: An array of type f32"));
    auto view = Garbage<PJRT_Client_CreateViewOfDeviceBuffer_Args>();
    view.client = client.get();
    view.device_buffer_ptr = const_cast<float*>(data);
    view.dims = dims.data();
    view.num_dims = dims.size();
    view.element_type = PJRT_Buffer_Type_F32;
    view.layout = nullptr;
    view.device = client.Devices()[0];
    view.memory = nullptr;
    view.on_delete_callback = nullptr;
    CHECK(Has(CALL(Client_CreateViewOfDeviceBuffer, view), "3: An array of type f32"));
    auto memories = Garbage<PJRT_Device_AddressableMemories_Args>();
    memories.device = client.Devices()[0];
    CALL_OK(Device_AddressableMemories, memories);
    auto spec = Garbage<PJRT_ShapeSpec>();
    spec.dims = dims.data();
    spec.num_dims = dims.size();
    spec.element_type = PJRT_Buffer_Type_F32;
    auto transfer = Garbage<PJRT_Client_CreateBuffersForAsyncHostToDevice_Args>();
    transfer.client = client.get();
    transfer.shape_specs = &spec;
    transfer.num_shape_specs = 1;
    transfer.device_layouts = nullptr;
    transfer.num_device_layouts = 0;
    transfer.memory = memories.memories[0];
    CHECK(Has(CALL(Client_CreateBuffersForAsyncHostToDevice, transfer), "3: An array of type f32"));
    auto error = Garbage<PJRT_Client_CreateErrorBuffer_Args>();
    error.client = client.get();
    error.error_code = static_cast<decltype(error.error_code)>(13);
    error.error_message = "x";
    error.error_message_size = 1;
    error.shape_dims = dims.data();
    error.shape_num_dims = dims.size();
    error.shape_element_type = PJRT_Buffer_Type_F32;
    error.shape_layout = nullptr;
    error.memory = memories.memories[0];
    CHECK(Has(CALL(Client_CreateErrorBuffer, error), "3: An array of type f32"));
  }
  // It could be addressed, but no machine has that much memory.
  const std::vector<std::int64_t> large = {std::int64_t{1} << 60};
  auto args = HostBuffer(client, data, large);
  CHECK(Has(CALL(Client_BufferFromHostBuffer, args), "8: Out of host memory"));
}

TEST(ReadsStayInTheCallersMemory) {
  Client client;
  const float data[6] = {0, 1, 2, 3, 4, 5};
  const std::vector<std::int64_t> dims = {3, 2};
  auto args = HostBuffer(client, data, dims);
  CALL_OK(Client_BufferFromHostBuffer, args);
  CHECK_EQ(Await(args.done_with_host_buffer), "");
  std::vector<float> back(9, -1);
  auto layout = Garbage<PJRT_Buffer_MemoryLayout>();
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled = {};
  layout.tiled.minor_to_major_size = 2;
  auto read = Garbage<PJRT_Buffer_ToHostBuffer_Args>();
  read.src = args.buffer;
  read.host_layout = &layout;
  read.dst = back.data();
  read.dst_size = 24;
  const std::int64_t no_orders[][2] = {{0, 0}, {0, 2}, {-1, 0}, {std::int64_t{1} << 40, 1}};
  for (const auto& order : no_orders) {
    layout.tiled.minor_to_major = order;
    CHECK(Has(CALL(Buffer_ToHostBuffer, read), "3: The host layout does not name each dimension"));
  }
  layout.type = PJRT_Buffer_MemoryLayout_Type_Strides;
  layout.strides = {};
  layout.strides.num_byte_strides = 2;
  const std::int64_t gaps[2] = {12, 4};
  layout.strides.byte_strides = gaps;
  CHECK(Has(CALL(Buffer_ToHostBuffer, read), "3: The host buffer has 24 bytes, the array needs 32"));
  CHECK(back[6] == -1 && back[0] == -1);
  const std::int64_t backwards[2] = {-8, 4}, wrapping[2] = {std::numeric_limits<std::int64_t>::max(), 8};
  layout.strides.byte_strides = backwards;
  CHECK(Has(CALL(Buffer_ToHostBuffer, read), "3: The host layout has the negative stride -8"));
  layout.strides.byte_strides = wrapping;
  CHECK(Has(CALL(Buffer_ToHostBuffer, read), "the array needs more than 2^63"));
  layout.strides.byte_strides = gaps;
  read.dst_size = 32;
  CALL_OK(Buffer_ToHostBuffer, read);
  CHECK_EQ(Await(read.event), "");
  CHECK(back == (std::vector<float>{0, 1, -1, 2, 3, -1, 4, 5, -1}));
  Destroy(args.buffer);
}

bool IsOnCpu(PJRT_Buffer* buffer) {
  auto args = Garbage<PJRT_Buffer_IsOnCpu_Args>();
  args.buffer = buffer;
  CALL_OK(Buffer_IsOnCpu, args);
  return args.is_on_cpu;
}

// jaxlib 0.12 asks twice for one read, and fails if no copy was needed at the second time only.
TEST(AReadThatNeedsACopyNeedsItForGood) {
  Client client;
  PJRT_LoadedExecutable* step = client.Compile(kStep);
  PJRT_Buffer *a = client.Put({1, 2}), *b = client.Put({10, 20});
  CHECK(IsOnCpu(b));
  std::vector<PJRT_Buffer*> out(1);
  CHECK_EQ(Execute(step, {a, b}, out), "");
  CHECK(!IsOnCpu(out[0]));
  CHECK_EQ(Get(out[0]), "11 22 ");  // is on the host too now
  CHECK(!IsOnCpu(out[0]));
  CHECK(IsOnCpu(b));
  for (PJRT_Buffer* buffer : {a, b, out[0]}) Destroy(buffer);
  Destroy(step);
}

TEST(DamagedDeviceAssignmentsAreRefused) {
  Client client(2);
  // Two computations, of two and of one replica; and one IPU for both partitions.
  const std::string ragged = std::string("\x08\x01\x10\x02\x1a\x04\x0a\x02\x00\x0a\x1a\x03\x0a\x01\x0a", 15);
  const std::string twice = std::string("\x08\x01\x10\x02\x1a\x03\x0a\x01\x0a\x1a\x03\x0a\x01\x0a", 14);
  const auto options = [](const std::string& assignment) {
    const std::string build = std::string("\x4a") + static_cast<char>(assignment.size()) + assignment;
    return std::string("\x1a") + static_cast<char>(build.size()) + build;
  };
  std::string error;
  client.Compile(std::string("partitions 3\n") + kStep, options(ragged), &error);
  CHECK(
      Has(error, "3: The program needs 3 IPUs, its device assignment has 3: it must name one IPU for each"));
  client.Compile(std::string("partitions 2\n") + kStep, options(twice), &error);
  CHECK(Has(error, "3: The device assignment names IPU 10 more than once"));
  // Build options with 2^31 - 1 replicas of as many partitions.
  client.Compile(kStep, "\x1a\x0c\x20\xff\xff\xff\xff\x07\x28\xff\xff\xff\xff\x07", &error);
  CHECK(Has(error, "3: The compile options ask for 2147483647 replicas"));
}

TEST(DeviceAttributesAndStrings) {
  Client client;
  auto description = Garbage<PJRT_Device_GetDescription_Args>();
  description.device = client.Devices()[0];
  CALL_OK(Device_GetDescription, description);
  auto attributes = Garbage<PJRT_DeviceDescription_Attributes_Args>();
  attributes.device_description = description.device_description;
  CALL_OK(DeviceDescription_Attributes, attributes);
  std::set<std::string> names;
  for (std::size_t i = 0; i < attributes.num_attributes; ++i) {
    const PJRT_NamedValue& value = attributes.attributes[i];
    names.emplace(value.name, value.name_size);
    // jaxlib aborts on other types.
    CHECK(value.type == PJRT_NamedValue_kString || value.type == PJRT_NamedValue_kInt64);
  }
  CHECK(names == (std::set<std::string>{"num_tiles", "bytes_per_tile", "num_worker_contexts",
                                        "tile_clock_frequency", "version", "is_ipu_model", "target_type"}));
  auto text = Garbage<PJRT_DeviceDescription_ToString_Args>();
  text.device_description = description.device_description;
  CALL_OK(DeviceDescription_ToString, text);
  CHECK_EQ(std::string(text.to_string, text.to_string_size), "IpuDevice(id=0, num_tiles=1472, version=ipu2)");
}

TEST(TopologiesComeBackFromTheirBytes) {
  auto create = Garbage<PJRT_TopologyDescription_Create_Args>();
  const std::string name = "ipu2:100";
  create.topology_name = name.data();
  create.topology_name_size = name.size();
  create.num_options = 0;
  CALL_OK(TopologyDescription_Create, create);
  auto bytes = Garbage<PJRT_TopologyDescription_Serialize_Args>();
  bytes.topology = create.topology;
  CALL_OK(TopologyDescription_Serialize, bytes);
  auto back = Garbage<PJRT_TopologyDescription_Deserialize_Args>();
  back.serialized_topology = bytes.serialized_bytes;
  back.serialized_topology_size = bytes.serialized_bytes_size;
  CALL_OK(TopologyDescription_Deserialize, back);
  auto devices = Garbage<PJRT_TopologyDescription_GetDeviceDescriptions_Args>();
  devices.topology = back.topology;
  CALL_OK(TopologyDescription_GetDeviceDescriptions, devices);
  CHECK_EQ(devices.num_descriptions, 1u);
  auto text = Garbage<PJRT_DeviceDescription_ToString_Args>();
  text.device_description = devices.descriptions[0];
  CALL_OK(DeviceDescription_ToString, text);
  CHECK(Has(std::string(text.to_string, text.to_string_size), "num_tiles=100"));
  for (const std::string& bad :
       {std::string(), std::string("jax_ipu topology 1 model ipu2:100"), std::string("x")}) {
    auto damaged = back;
    damaged.serialized_topology = bad.data();
    damaged.serialized_topology_size = bad.size();
    CHECK(Has(CALL(TopologyDescription_Deserialize, damaged), "3: "));
  }
  for (const std::string& bad :
       {std::string("ipu9"), std::string("ipu2:x"), std::string("ipu2:0"), std::string("ipu2:9999")}) {
    auto wrong = create;
    wrong.topology_name = bad.data();
    wrong.topology_name_size = bad.size();
    CHECK(Has(CALL(TopologyDescription_Create, wrong), "3: "));
  }
  bytes.serialized_topology_deleter(bytes.serialized_topology);
  for (PJRT_TopologyDescription* topology : {create.topology, back.topology}) {
    auto destroy = Garbage<PJRT_TopologyDescription_Destroy_Args>();
    destroy.topology = topology;
    CALL_OK(TopologyDescription_Destroy, destroy);
  }
}

}  // namespace
}  // namespace jax_ipu

int main() { return jax_ipu::testing::RunTests(); }
