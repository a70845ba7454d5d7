// The calls of foreign functions in one executable on one device.
#ifndef JAX_IPU_RUNTIME_HOST_CALLS_FFI_CALLS_H_
#define JAX_IPU_RUNTIME_HOST_CALLS_FFI_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "runtime/executable/executable.h"
#include "runtime/host_calls/ffi_context.h"
#include "runtime/host_calls/ffi_handlers.h"

namespace jax_ipu {

// The attributes of a call in XLA's C structs, built once.
class FfiAttributes {
 public:
  explicit FfiAttributes(const FfiAttribute& dictionary);
  FfiAttributes(const FfiAttributes&) = delete;
  FfiAttributes& operator=(const FfiAttributes&) = delete;
  XLA_FFI_Attrs& attrs() { return attrs_; }

 private:
  void Add(const FfiAttribute& attribute);

  std::deque<XLA_FFI_ByteSpan> spans_;
  std::deque<XLA_FFI_Scalar> scalars_;
  std::deque<XLA_FFI_Array> arrays_;
  std::deque<FfiAttributes> dictionaries_;
  std::deque<std::vector<std::uint64_t>> data_;  // aligned for every type
  std::vector<XLA_FFI_AttrType> types_;
  std::vector<XLA_FFI_ByteSpan*> names_;
  std::vector<void*> values_;
  XLA_FFI_Attrs attrs_ = {};
};

// A call site of a foreign function, with the state of its handlers. Not thread
// safe: a device runs one program at a time.
class FfiCall {
 public:
  // Calls the handler of the stage `instantiate`. Throws Error when there is no handler, or it fails. The
  // spec must outlive this object.
  explicit FfiCall(const FfiCallSpec& spec);
  FfiCall(const FfiCall&) = delete;
  FfiCall& operator=(const FfiCall&) = delete;

  // `inputs` and `outputs`: the memory of operands and results that have elements. Throws the handler's
  // error.
  void Call(const std::vector<const void*>& inputs, const std::vector<void*>& outputs,
            std::int32_t device_ordinal, std::int64_t run_id);

  // In place of Call: gives results of zeros.
  void FillWithZeros(const std::vector<void*>& outputs) const;

  std::uint64_t input_bytes() const { return BytesOf(spec_.operands); }
  std::uint64_t output_bytes() const { return BytesOf(spec_.results); }

 private:
  static std::uint64_t BytesOf(const std::vector<FfiBuffer>& buffers);
  void CallStage(XLA_FFI_Handler* handler, XLA_FFI_CallFrame frame, XLA_FFI_ExecutionStage stage);

  const FfiCallSpec& spec_;
  const FfiHandlerBundle handlers_;
  FfiAttributes attributes_;
  XLA_FFI_ExecutionContext context_;
};

// All call sites of an executable, in its order.
class FfiCalls {
 public:
  explicit FfiCalls(const std::vector<FfiCallSpec>& specs) {
    for (const FfiCallSpec& spec : specs) calls_.emplace_back(spec);
  }
  std::size_t size() const { return calls_.size(); }
  FfiCall& operator[](std::size_t i) { return calls_[i]; }

 private:
  std::deque<FfiCall> calls_;
};

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_HOST_CALLS_FFI_CALLS_H_
