// PJRT_Buffer and the entry points that look at, copy and delete buffers.
#include "pjrt/buffers/buffer.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "pjrt/abi/element_type.h"
#include "pjrt/abi/entry.h"
#include "pjrt/abi/event.h"
#include "pjrt/abi/layout.h"
#include "pjrt/client/client.h"
#include "runtime/host_calls/host_callbacks.h"
#include "runtime/memory/link_copy.h"
#include "runtime/memory/strided_copy.h"

using jax_ipu::Array;
using jax_ipu::Code;
using jax_ipu::Error;

PJRT_Buffer::PJRT_Buffer(std::shared_ptr<PJRT_Device> on_device, jax_ipu::pjrt::MemoryKind kind,
                         PJRT_Buffer_Type element_type, std::shared_ptr<Array> value,
                         jax_ipu::DimensionOrder major_to_minor)
    : device(std::move(on_device)),
      memory(device->memory(kind)),
      type(element_type),
      order(std::move(major_to_minor)),
      spec(jax_ipu::pjrt::SpecFromMemory(value->shared_spec(), order)),
      array_(std::move(value)) {}

const std::int64_t* PJRT_Buffer::MinorToMajor() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (minor_to_major_.empty()) minor_to_major_ = jax_ipu::pjrt::MinorToMajor(order, spec->shape.size());
  return minor_to_major_.data();
}

std::shared_ptr<Array> PJRT_Buffer::Get() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return array_;
}

std::shared_ptr<Array> PJRT_Buffer::Use(const char* what) const {
  if (std::shared_ptr<Array> array = Get()) return array;
  throw Error(Code::kInvalidArgument, std::string(what) + "() called on deleted or donated buffer");
}

std::shared_ptr<Array> PJRT_Buffer::Take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (external_references_ == 0) Hide();
  return std::move(array_);
}

void PJRT_Buffer::PutBack(std::shared_ptr<Array> array) {
  const std::lock_guard<std::mutex> lock(mutex_);
  array_ = std::move(array);
}

bool PJRT_Buffer::IsReadOnHost() {
  // XLA packs sub-byte elements on a CPU; here each takes a byte.
  if (jax_ipu::pjrt::IsSubByte(type)) return false;
  const bool guarded = jax_ipu::AreReadsGuarded();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!array_) return false;
  // NumPy's buffer protocol would wait for a pending array in a way that no signal interrupts.
  if (!array_->on_host() || !jax_ipu::IsReady(array_->ready())) copied_ = true;
  if (!guarded && !copied_) shown_ = true;
  return shown_ && !copied_;
}

void PJRT_Buffer::AddExternalReference() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!pinned_) pinned_ = array_;
  if (!pinned_) throw Error(Code::kInvalidArgument, "Buffer has been deleted or donated.");
  ++external_references_;
}

void PJRT_Buffer::Hide() {
  exposed_.reset();
  exposed_memory_.reset();
}

void PJRT_Buffer::RemoveExternalReference() {
  std::shared_ptr<Array> released;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (external_references_ == 0) {
    throw Error(Code::kFailedPrecondition, "The buffer has no external reference to remove");
  }
  if (--external_references_ > 0) return;
  released = std::move(pinned_);
  if (!array_) Hide();
}

void* PJRT_Buffer::HostPointer() {
  std::shared_ptr<Array> array;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    array = pinned_ ? pinned_ : array_;
  }
  if (!array) throw Error(Code::kInvalidArgument, "Buffer has been deleted or donated.");
  const jax_ipu::CompletionPtr fetched = device->runtime->FetchToHost(array);
  if (!IsReady(fetched)) jax_ipu::HostCallbacks::Get().Wait([&fetched] { fetched->Wait(); });
  if (const Error* error = Wait(fetched)) throw Error(*error);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!exposed_) {
    // A forwarded result shares its argument's memory: copy it, so that the pointer is unique.
    exposed_ = array->host();
    if (array->host().use_count() > 2) {
      exposed_ = jax_ipu::HostBlock::Allocate(device->client->pool, exposed_->bytes());
      std::memcpy(exposed_->data(), array->host()->data(), exposed_->bytes());
    }
    exposed_memory_ = exposed_->Hold();
    exposed_data_ = exposed_->data();
  }
  return exposed_data_;
}

namespace jax_ipu::pjrt {
namespace {

void BufferDestroy(PJRT_Buffer_Destroy_Args& args) { Destroy(args.buffer); }
void BufferDelete(PJRT_Buffer_Delete_Args& args) { args.buffer->Take(); }
void BufferIsDeleted(PJRT_Buffer_IsDeleted_Args& args) { args.is_deleted = args.buffer->Get() == nullptr; }

void BufferElementType(PJRT_Buffer_ElementType_Args& args) { args.type = args.buffer->type; }
void BufferDimensions(PJRT_Buffer_Dimensions_Args& args) {
  args.dims = args.buffer->spec->shape.data();
  args.num_dims = args.buffer->spec->shape.size();
}
void BufferUnpaddedDimensions(PJRT_Buffer_UnpaddedDimensions_Args& args) {
  args.unpadded_dims = args.buffer->spec->shape.data();
  args.num_dims = args.buffer->spec->shape.size();
}
void BufferDynamicDimensions(PJRT_Buffer_DynamicDimensionIndices_Args& args) {
  args.dynamic_dim_indices = nullptr;
  args.num_dynamic_dims = 0;
}

void BufferMemoryLayout(PJRT_Buffer_GetMemoryLayout_Args& args) {
  args.layout.struct_size = PjrtStructSize<PJRT_Buffer_MemoryLayout>::full;
  args.layout.extension_start = nullptr;
  args.layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  args.layout.tiled = {};
  args.layout.tiled.struct_size = PjrtStructSize<PJRT_Buffer_MemoryLayout_Tiled>::full;
  args.layout.tiled.minor_to_major_size = args.buffer->spec->shape.size();
  args.layout.tiled.minor_to_major = args.buffer->MinorToMajor();
}
void BufferSize(PJRT_Buffer_OnDeviceSizeInBytes_Args& args) {
  args.on_device_size_in_bytes = args.buffer->spec->bytes();
}
void BufferDevice(PJRT_Buffer_Device_Args& args) { args.device = args.buffer->device.get(); }
void BufferMemory(PJRT_Buffer_Memory_Args& args) { args.memory = args.buffer->memory; }

void BufferIsOnCpu(PJRT_Buffer_IsOnCpu_Args& args) { args.is_on_cpu = args.buffer->IsReadOnHost(); }

void BufferReadyEvent(PJRT_Buffer_ReadyEvent_Args& args) {
  const std::shared_ptr<Array> array = args.buffer->Get();
  args.event =
      MakeEvent(array ? array->ready()
                      : Completion::Failed(Error(Code::kInvalidArgument,
                                                 "GetReadyFuture() called on deleted or donated buffer")),
                /*of_array=*/true);
}

// Byte strides of the caller's copy: from `layout`, or those of the buffer when it is null.
Strides HostStrides(const PJRT_Buffer_MemoryLayout* layout, const PJRT_Buffer& buffer) {
  const TensorSpec& spec = *buffer.spec;
  const std::size_t element = ipu_model::SizeOf(spec.type), rank = spec.shape.size();
  if (layout == nullptr) return LayoutStrides(spec.shape, element, buffer.MinorToMajor());
  if (layout->type == PJRT_Buffer_MemoryLayout_Type_Strides) {
    if (layout->strides.num_byte_strides != rank) {
      throw Error(Code::kInvalidArgument, "The host layout has another rank than the buffer");
    }
    return Strides(layout->strides.byte_strides, layout->strides.byte_strides + rank);
  }
  const PJRT_Buffer_MemoryLayout_Tiled& tiled = layout->tiled;
  if (tiled.num_tiles != 0) throw Error(Code::kUnimplemented, "Tiled host layouts are not supported on IPUs");
  if (tiled.minor_to_major_size != rank) {
    throw Error(Code::kInvalidArgument, "The host layout has another rank than the buffer");
  }
  if (!IsOrder(DimensionOrder(tiled.minor_to_major, tiled.minor_to_major + rank), rank)) {
    throw Error(Code::kInvalidArgument, "The host layout does not name each dimension of the buffer once");
  }
  return LayoutStrides(spec.shape, element, tiled.minor_to_major);
}

// Throws Error unless an array with these strides lies inside the caller's memory.
void CheckFits(const TensorSpec& spec, const Strides& strides, std::size_t size) {
  if (std::find(spec.shape.begin(), spec.shape.end(), 0) != spec.shape.end()) return;
  std::int64_t last = 0, end = 0;  // of the last element
  bool fits = true;
  for (std::size_t d = 0; d < spec.shape.size(); ++d) {
    std::int64_t span = 0;
    if (spec.shape[d] == 1) continue;
    if (strides[d] < 0) {
      throw Error(Code::kInvalidArgument, "The host layout has the negative stride " +
                                              std::to_string(strides[d]) +
                                              ", which leads to memory before that of the host buffer");
    }
    fits = fits && !__builtin_mul_overflow(spec.shape[d] - 1, strides[d], &span) &&
           !__builtin_add_overflow(last, span, &last);
  }
  fits = fits && !__builtin_add_overflow(last, static_cast<std::int64_t>(ipu_model::SizeOf(spec.type)), &end);
  if (fits && size >= static_cast<std::size_t>(end)) return;
  throw Error(Code::kInvalidArgument, "The host buffer has " + std::to_string(size) +
                                          " bytes, the array needs " +
                                          (fits ? std::to_string(end) : "more than 2^63"));
}

// From a dense row-major array.
void CopyOut(void* to, const Strides& strides, const HostBlock& from, const TensorSpec& spec) {
  const std::shared_ptr<void> held = from.Hold();
  const std::size_t element = ipu_model::SizeOf(spec.type);
  if (IsDense(spec.shape, element, strides)) {
    std::memcpy(to, from.data(), from.bytes());
  } else {
    CopyStrided(to, strides, from.data(), DenseStrides(spec.shape, element), spec.shape, element);
  }
}

// Copies on the thread that makes the array ready on the host; at once if it is ready already.
void CopyWhenReady(const std::shared_ptr<Array>& array, const CompletionPtr& ready,
                   std::function<void(const HostBlock&)> copy, PJRT_Event*& event) {
  if (IsReady(ready)) {
    const Error* error = ready ? ready->error() : nullptr;
    if (error == nullptr) copy(*array->host());
    event = MakeEvent(error == nullptr ? nullptr : Completion::Failed(*error));
    return;
  }
  auto done = std::make_shared<Completion>();
  event = MakeEvent(done);
  ready->OnReady([array, done, copy = std::move(copy)](const Error* error) {
    if (error != nullptr) {
      done->Fail(*error);
    } else {
      copy(*array->host());
      done->Complete();
    }
  });
}

void BufferToHost(PJRT_Buffer_ToHostBuffer_Args& args) {
  const PJRT_Buffer& buffer = *args.src;
  const std::size_t bytes = buffer.spec->bytes();
  if (args.dst == nullptr) {
    args.dst_size = bytes;
    args.event = nullptr;
    return;
  }
  Strides strides = HostStrides(args.host_layout, buffer);
  CheckFits(*buffer.spec, strides, args.dst_size);
  strides = InMemory(strides, buffer.order);
  const std::shared_ptr<Array> array = buffer.Use("ToLiteral");
  // A resident array takes its place in the device's queue now, before a later call may donate it.
  const CompletionPtr ready = buffer.device->runtime->FetchToHost(array);
  CopyWhenReady(
      array, ready,
      [to = args.dst, strides = std::move(strides), spec = array->shared_spec()](const HostBlock& from) {
        CopyOut(to, strides, from, *spec);
      },
      args.event);
}

void BufferCopyRawToHost(PJRT_Buffer_CopyRawToHost_Args& args) {
  const PJRT_Buffer& buffer = *args.buffer;
  const auto size = static_cast<std::int64_t>(buffer.spec->bytes());
  if (args.offset < 0 || args.transfer_size < 0 || args.offset > size ||
      args.transfer_size > size - args.offset) {
    throw Error(Code::kInvalidArgument, "Copying " + std::to_string(args.transfer_size) +
                                            " bytes from offset " + std::to_string(args.offset) +
                                            " leaves the buffer of " + std::to_string(size) + " bytes");
  }
  const std::shared_ptr<Array> array = buffer.Use("CopyRawToHost");
  const CompletionPtr ready = buffer.device->runtime->FetchToHost(array);
  CopyWhenReady(
      array, ready,
      [to = args.dst, offset = args.offset, bytes = args.transfer_size](const HostBlock& from) {
        const std::shared_ptr<void> held = from.Hold();
        std::memcpy(to, static_cast<const char*>(from.data()) + offset, static_cast<std::size_t>(bytes));
      },
      args.event);
}

LinkEnd LinkEndOf(const PJRT_Device* device) {
  const std::vector<PJRT_Device*>& all = device->client->device_pointers;
  return {device->runtime, static_cast<unsigned>(std::find(all.begin(), all.end(), device) - all.begin())};
}

// Arrays never change, so a copy in another memory shares the host memory until a device loads it.
PJRT_Buffer* CopyTo(const PJRT_Buffer& buffer, const PJRT_Memory* memory) {
  CheckAddressable(memory->device);
  const std::shared_ptr<Array> array = buffer.Use("CopyToMemorySpace");
  const bool between_ipus = memory->device != buffer.device.get() &&
                            memory->device->client == buffer.device->client &&
                            memory->kind == MemoryKind::kDevice && buffer.memory->kind == MemoryKind::kDevice;
  std::shared_ptr<Array> copy;
  if (between_ipus) {
    const auto ring = static_cast<unsigned>(buffer.device->client->device_pointers.size());
    copy = CopyOverLinks(array, LinkEndOf(buffer.device.get()), LinkEndOf(memory->device), ring);
  } else if (array->on_host()) {
    array->host()->Own(buffer.device->client->pool);
    copy = std::make_shared<Array>(array->shared_spec(), array->host(), array->ready());
  } else {
    const CompletionPtr fetched = buffer.device->runtime->FetchToHost(array);
    if (IsReady(fetched) && (!fetched || fetched->error() == nullptr)) {
      copy = std::make_shared<Array>(array->shared_spec(), array->host(), fetched);
    } else {
      auto ready = std::make_shared<Completion>();
      copy = std::make_shared<Array>(array->shared_spec(), nullptr, ready);
      fetched->OnReady([array, copy, ready](const Error* error) {
        if (error != nullptr) {
          ready->Fail(*error);
        } else {
          copy->PublishHost(array->host());
          ready->Complete();
        }
      });
    }
  }
  return MakeBuffer(memory->device->client->Share(memory->device), memory->kind, buffer.type, std::move(copy),
                    buffer.order);
}

void BufferCopyToDevice(PJRT_Buffer_CopyToDevice_Args& args) {
  args.dst_buffer = CopyTo(*args.buffer, args.dst_device->memory(MemoryKind::kDevice));
}
void BufferCopyToMemory(PJRT_Buffer_CopyToMemory_Args& args) {
  args.dst_buffer = CopyTo(*args.buffer, args.dst_memory);
}

void BufferUnsafePointer(PJRT_Buffer_UnsafePointer_Args& args) {
  args.buffer_pointer = reinterpret_cast<std::uintptr_t>(args.buffer->HostPointer());
}
void BufferOpaquePointer(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args& args) {
  args.device_memory_ptr = args.buffer->HostPointer();
}
void BufferAddReference(PJRT_Buffer_IncreaseExternalReferenceCount_Args& args) {
  args.buffer->AddExternalReference();
}
void BufferRemoveReference(PJRT_Buffer_DecreaseExternalReferenceCount_Args& args) {
  args.buffer->RemoveExternalReference();
}

}  // namespace

PJRT_Buffer* MakeBuffer(std::shared_ptr<PJRT_Device> device, MemoryKind kind, PJRT_Buffer_Type type,
                        std::shared_ptr<Array> array, DimensionOrder order) {
  return Release(
      std::make_unique<PJRT_Buffer>(std::move(device), kind, type, std::move(array), std::move(order)));
}

std::shared_ptr<Array> Rearranged(const PJRT_Buffer& buffer, const std::shared_ptr<Array>& array,
                                  const DimensionOrder& order) {
  const std::shared_ptr<const TensorSpec> spec = SpecInMemory(buffer.spec, order);
  const std::size_t element = ipu_model::SizeOf(spec->type);
  const Strides strides = InMemory(FromMemory(DenseStrides(spec->shape, element), order), buffer.order);
  const CompletionPtr fetched = buffer.device->runtime->FetchToHost(array);
  auto block = HostBlock::Allocate(buffer.device->client->pool, spec->bytes());
  auto ready = std::make_shared<Completion>();
  auto copy = std::make_shared<Array>(spec, block, ready);
  const auto fill = [array, block, ready, strides](const Error* error) {
    if (error != nullptr) {
      ready->Fail(*error);
    } else {
      CopyOut(block->data(), strides, *array->host(), array->spec());
      ready->Complete();
    }
  };
  if (IsReady(fetched)) {
    fill(fetched ? fetched->error() : nullptr);
  } else {
    fetched->OnReady(fill);
  }
  return copy;
}

void InstallBuffer(PJRT_Api& api) {
  PJRT_INSTALL(api, Buffer_Destroy, BufferDestroy);
  PJRT_INSTALL(api, Buffer_ElementType, BufferElementType);
  PJRT_INSTALL(api, Buffer_Dimensions, BufferDimensions);
  PJRT_INSTALL(api, Buffer_UnpaddedDimensions, BufferUnpaddedDimensions);
  PJRT_INSTALL(api, Buffer_DynamicDimensionIndices, BufferDynamicDimensions);
  PJRT_INSTALL(api, Buffer_GetMemoryLayout, BufferMemoryLayout);
  PJRT_INSTALL(api, Buffer_OnDeviceSizeInBytes, BufferSize);
  PJRT_INSTALL(api, Buffer_Device, BufferDevice);
  PJRT_INSTALL(api, Buffer_Memory, BufferMemory);
  PJRT_INSTALL(api, Buffer_Delete, BufferDelete);
  PJRT_INSTALL(api, Buffer_IsDeleted, BufferIsDeleted);
  PJRT_INSTALL_ON_DEVICE(api, Buffer_CopyToDevice, BufferCopyToDevice);
  PJRT_INSTALL_ON_DEVICE(api, Buffer_CopyToMemory, BufferCopyToMemory);
  PJRT_INSTALL(api, Buffer_ToHostBuffer, BufferToHost);
  PJRT_INSTALL(api, Buffer_CopyRawToHost, BufferCopyRawToHost);
  PJRT_INSTALL(api, Buffer_IsOnCpu, BufferIsOnCpu);
  PJRT_INSTALL(api, Buffer_ReadyEvent, BufferReadyEvent);
  PJRT_INSTALL(api, Buffer_UnsafePointer, BufferUnsafePointer);
  PJRT_INSTALL(api, Buffer_IncreaseExternalReferenceCount, BufferAddReference);
  PJRT_INSTALL(api, Buffer_DecreaseExternalReferenceCount, BufferRemoveReference);
  PJRT_INSTALL(api, Buffer_OpaqueDeviceMemoryDataPointer, BufferOpaquePointer);
}

}  // namespace jax_ipu::pjrt
