// Entry points that make buffers: from host memory, as views, uninitialised, and with errors.
#include <cstring>
#include <string>
#include <utility>

#include "pjrt/abi/element_type.h"
#include "pjrt/abi/entry.h"
#include "pjrt/abi/event.h"
#include "pjrt/abi/layout.h"
#include "pjrt/buffers/buffer.h"
#include "pjrt/client/client.h"
#include "runtime/memory/strided_copy.h"

namespace jax_ipu::pjrt {
namespace {

// NumPy guarantees this alignment; a smaller one would slow the kernels down.
constexpr std::uintptr_t kZeroCopyAlignment = 16;
// Up to this size a copy costs no more than a reference to the caller's array. A copy is also safer: callers
// like SciPy change such arrays for a moment, while the program still runs.
constexpr std::size_t kCopiedBytes = std::size_t{4} << 10;

PJRT_Buffer* BufferIn(const PJRT_Memory* memory, PJRT_Buffer_Type type,
                      const std::shared_ptr<const TensorSpec>& spec, std::shared_ptr<HostBlock> host,
                      CompletionPtr ready, const DimensionOrder& order) {
  return MakeBuffer(memory->device->client->Share(memory->device), memory->kind, type,
                    std::make_shared<Array>(SpecInMemory(spec, order), std::move(host), std::move(ready)),
                    order);
}

void FromHost(PJRT_Client_BufferFromHostBuffer_Args& args) {
  const std::shared_ptr<const TensorSpec> array = MakeSpec(args.type, args.dims, args.num_dims);
  const DimensionOrder order = ReadLayout(args.device_layout, *array);
  const std::shared_ptr<const TensorSpec> spec = SpecInMemory(array, order);
  const PJRT_Memory* memory = MemoryOf(args.device, args.memory);
  const std::size_t element = ipu_model::SizeOf(spec->type), bytes = spec->bytes();
  if (args.byte_strides != nullptr && args.num_byte_strides != 0 && args.num_byte_strides != args.num_dims) {
    throw Error(Code::kInvalidArgument, "The host array has " + std::to_string(args.num_dims) +
                                            " dimensions but " + std::to_string(args.num_byte_strides) +
                                            " strides");
  }
  const bool has_strides = args.byte_strides != nullptr && args.num_byte_strides != 0;
  const Strides strides = InMemory(has_strides ? Strides(args.byte_strides, args.byte_strides + args.num_dims)
                                               : DenseStrides(array->shape, element),
                                   order);
  const bool dense = IsDense(spec->shape, element, strides);
  // The other semantics let the caller change the array after this call, or after its transfer.
  const bool may_alias = args.host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableZeroCopy ||
                         args.host_buffer_semantics == PJRT_HostBufferSemantics_kMutableZeroCopy;
  const bool keep = may_alias && dense && bytes > kCopiedBytes &&
                    reinterpret_cast<std::uintptr_t>(args.data) % kZeroCopyAlignment == 0;
  std::shared_ptr<HostBlock> block;
  CompletionPtr released;
  if (keep) {
    released = std::make_shared<Completion>();
    block = HostBlock::Borrow(args.data, bytes, [released] { released->Complete(); });
  } else {
    block = HostBlock::Allocate(memory->device->client->pool, bytes);
    if (dense) {
      if (bytes > 0) std::memcpy(block->data(), args.data, bytes);
    } else {
      CopyStrided(block->data(), DenseStrides(spec->shape, element), args.data, strides, spec->shape,
                  element);
    }
  }
  PJRT_Event* done = MakeEvent(std::move(released));
  args.buffer = BufferIn(memory, args.type, array, std::move(block), nullptr, order);
  args.done_with_host_buffer = done;
}

void ViewOf(PJRT_Client_CreateViewOfDeviceBuffer_Args& args) {
  const std::shared_ptr<const TensorSpec> spec = MakeSpec(args.element_type, args.dims, args.num_dims);
  const DimensionOrder order = ReadLayout(args.layout, *spec);
  const PJRT_Memory* memory = MemoryOf(args.device, PJRT_HAS(args, memory) ? args.memory : nullptr);
  std::function<void()> release;
  if (args.on_delete_callback != nullptr) {
    release = [callback = args.on_delete_callback, pointer = args.device_buffer_ptr,
               argument = args.on_delete_callback_arg] { callback(pointer, argument); };
  }
  args.buffer =
      BufferIn(memory, args.element_type, spec,
               HostBlock::Borrow(args.device_buffer_ptr, spec->bytes(), std::move(release)), nullptr, order);
}

void Uninitialised(PJRT_Client_CreateUninitializedBuffer_Args& args) {
  const std::shared_ptr<const TensorSpec> spec =
      MakeSpec(args.shape_element_type, args.shape_dims, args.shape_num_dims);
  const DimensionOrder order = ReadLayout(args.shape_layout, *spec);
  const PJRT_Memory* memory = MemoryOf(args.device, args.memory);
  std::shared_ptr<HostBlock> block = HostBlock::Allocate(memory->device->client->pool, spec->bytes());
  // The pool's memory held other arrays, whose contents the caller must not see.
  std::memset(block->data(), 0, block->bytes());
  args.buffer = BufferIn(memory, args.shape_element_type, spec, std::move(block), nullptr, order);
}

void WithError(PJRT_Client_CreateErrorBuffer_Args& args) {
  const std::shared_ptr<const TensorSpec> spec =
      MakeSpec(args.shape_element_type, args.shape_dims, args.shape_num_dims);
  const Error error(static_cast<Code>(args.error_code),
                    std::string(args.error_message, args.error_message_size));
  args.buffer = BufferIn(MemoryOf(nullptr, args.memory), args.shape_element_type, spec, nullptr,
                         Completion::Failed(error), ReadLayout(args.shape_layout, *spec));
}

}  // namespace

std::shared_ptr<const TensorSpec> MakeSpec(PJRT_Buffer_Type type, const std::int64_t* dims,
                                           std::size_t rank) {
  auto spec = std::make_shared<TensorSpec>();
  spec->type = StorageType(type);
  spec->shape.assign(dims, dims + rank);
  const std::string problem = SizeProblem(*spec);
  if (!problem.empty()) throw Error(Code::kInvalidArgument, problem);
  return spec;
}

PJRT_Memory* MemoryOf(PJRT_Device* device, PJRT_Memory* memory) {
  if (memory != nullptr) return memory;
  if (device != nullptr) return CheckAddressable(device)->memory(MemoryKind::kDevice);
  throw Error(Code::kInvalidArgument, "Neither a device nor a memory was given for the new buffer");
}

void InstallBufferCreation(PJRT_Api& api) {
  PJRT_INSTALL_ON_DEVICE(api, Client_BufferFromHostBuffer, FromHost);
  PJRT_INSTALL_ON_DEVICE(api, Client_CreateViewOfDeviceBuffer, ViewOf);
  PJRT_INSTALL_ON_DEVICE(api, Client_CreateUninitializedBuffer, Uninitialised);
  PJRT_INSTALL_ON_DEVICE(api, Client_CreateErrorBuffer, WithError);
}

}  // namespace jax_ipu::pjrt
