// Entry points of the transfer manager.
#include "pjrt/buffers/transfer_manager.h"

#include <cstring>
#include <string>
#include <utility>

#include "pjrt/abi/entry.h"
#include "pjrt/abi/event.h"
#include "pjrt/abi/layout.h"
#include "pjrt/buffers/buffer.h"

using Manager = PJRT_AsyncHostToDeviceTransferManager;

Manager::~PJRT_AsyncHostToDeviceTransferManager() {
  for (Slot& slot : slots) {
    if (IsReady(slot.array->ready())) continue;
    slot.array->ready()->Fail(jax_ipu::Error(jax_ipu::Code::kCancelled,
                                             "The transfer manager was destroyed before all data arrived"));
  }
}

Manager::Slot& Manager::At(int index) {
  if (index < 0 || static_cast<std::size_t>(index) >= slots.size()) {
    throw jax_ipu::Error(jax_ipu::Code::kInvalidArgument,
                         "The transfer manager has no buffer " + std::to_string(index));
  }
  return slots[static_cast<std::size_t>(index)];
}

namespace jax_ipu::pjrt {
namespace {

void ManagerCreate(PJRT_Client_CreateBuffersForAsyncHostToDevice_Args& args) {
  auto manager = std::make_unique<Manager>();
  const PJRT_Memory* memory = MemoryOf(nullptr, args.memory);
  PJRT_Device* device = memory->device;
  manager->kind = memory->kind;
  manager->device = device->client->Share(device);
  for (std::size_t i = 0; i < args.num_shape_specs; ++i) {
    const PJRT_ShapeSpec& shape = args.shape_specs[i];
    std::shared_ptr<const TensorSpec> spec = MakeSpec(shape.element_type, shape.dims, shape.num_dims);
    DimensionOrder order;
    if (args.device_layouts != nullptr && i < args.num_device_layouts) {
      order = ReadLayout(args.device_layouts[i], *spec);
    }
    spec = SpecInMemory(std::move(spec), order);
    std::shared_ptr<HostBlock> block = HostBlock::Allocate(device->client->pool, spec->bytes());
    auto array = std::make_shared<Array>(std::move(spec), std::move(block), std::make_shared<Completion>());
    manager->slots.push_back({shape.element_type, std::move(array), std::move(order)});
  }
  args.transfer_manager = Release(std::move(manager));
}

void ManagerDestroy(PJRT_AsyncHostToDeviceTransferManager_Destroy_Args& args) {
  Destroy(args.transfer_manager);
}

void ManagerTransfer(PJRT_AsyncHostToDeviceTransferManager_TransferData_Args& args) {
  Manager& manager = *args.transfer_manager;
  const std::lock_guard<std::mutex> lock(manager.mutex);
  Manager::Slot& slot = manager.At(args.buffer_index);
  const auto size = static_cast<std::int64_t>(slot.array->spec().bytes());
  if (args.offset < 0 || args.transfer_size < 0 || args.offset > size ||
      args.transfer_size > size - args.offset) {
    throw Error(Code::kInvalidArgument, "A transfer of " + std::to_string(args.transfer_size) +
                                            " bytes to offset " + std::to_string(args.offset) +
                                            " leaves the buffer of " + std::to_string(size) + " bytes");
  }
  if (IsReady(slot.array->ready())) {
    throw Error(Code::kFailedPrecondition, "The last transfer to this buffer was made already");
  }
  if (args.transfer_size > 0) {
    std::memcpy(static_cast<char*>(slot.array->host()->data()) + args.offset, args.data,
                static_cast<std::size_t>(args.transfer_size));
  }
  args.done_with_h2d_transfer = MakeEvent(nullptr);
  if (args.is_last_transfer) slot.array->ready()->Complete();
}

void ManagerRetrieve(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args& args) {
  Manager& manager = *args.transfer_manager;
  const std::lock_guard<std::mutex> lock(manager.mutex);
  Manager::Slot& slot = manager.At(args.buffer_index);
  if (std::exchange(slot.retrieved, true)) {
    throw Error(Code::kFailedPrecondition, "The buffer was retrieved already");
  }
  args.buffer_out = MakeBuffer(manager.device, manager.kind, slot.type, slot.array, slot.order);
}

void ManagerDevice(PJRT_AsyncHostToDeviceTransferManager_Device_Args& args) {
  args.device_out = args.transfer_manager->device.get();
}
void ManagerBufferCount(PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args& args) {
  args.buffer_count = args.transfer_manager->slots.size();
}
void ManagerBufferSize(PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args& args) {
  args.buffer_size = args.transfer_manager->At(args.buffer_index).array->spec().bytes();
}

void ManagerSetError(PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args& args) {
  Manager& manager = *args.transfer_manager;
  const std::lock_guard<std::mutex> lock(manager.mutex);
  const CompletionPtr& ready = manager.At(args.buffer_index).array->ready();
  if (IsReady(ready)) throw Error(Code::kFailedPrecondition, "The buffer is complete already");
  ready->Fail(
      Error(static_cast<Code>(args.error_code), std::string(args.error_message, args.error_message_size)));
}

}  // namespace

void InstallTransferManager(PJRT_Api& api) {
  PJRT_INSTALL_ON_DEVICE(api, Client_CreateBuffersForAsyncHostToDevice, ManagerCreate);
  PJRT_INSTALL(api, AsyncHostToDeviceTransferManager_Destroy, ManagerDestroy);
  PJRT_INSTALL_ON_DEVICE(api, AsyncHostToDeviceTransferManager_TransferData, ManagerTransfer);
  PJRT_INSTALL(api, AsyncHostToDeviceTransferManager_RetrieveBuffer, ManagerRetrieve);
  PJRT_INSTALL(api, AsyncHostToDeviceTransferManager_Device, ManagerDevice);
  PJRT_INSTALL(api, AsyncHostToDeviceTransferManager_BufferCount, ManagerBufferCount);
  PJRT_INSTALL(api, AsyncHostToDeviceTransferManager_BufferSize, ManagerBufferSize);
  PJRT_INSTALL(api, AsyncHostToDeviceTransferManager_SetBufferError, ManagerSetError);
}

}  // namespace jax_ipu::pjrt
