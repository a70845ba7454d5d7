// Buffers of the plugin, as a PJRT client makes, reads and drops them: memory that is borrowed, copied or
// kept, strides, sizes.
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "pjrt/abi/c_api.h"
#include "testing/pjrt_client.h"

namespace jax_ipu {
namespace {

using namespace testing;

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

}  // namespace
}  // namespace jax_ipu
