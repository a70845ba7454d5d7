#include "runtime/host_calls/ffi_calls.h"

#include <cstring>

namespace jax_ipu {
namespace {

// Element types are numbered as in XLA (PrimitiveType in xla_data.proto).
XLA_FFI_DataType FfiType(DType type) {
  // clang-format off
  constexpr int kNumbers[] = {
      1,                                   // pred
      26, 21, 2, 3, 4, 5,                  // s2, s4, s8, s16, s32, s64
      27, 22, 6, 7, 8, 9,                  // u2, u4, u8, u16, u32, u64
      32,                                  // f4e2m1fn
      29, 28, 20, 25, 23, 19, 24, 33,      // f8e3m4, e4m3, e4m3fn, e4m3fnuz, e4m3b11fnuz, e5m2, e5m2fnuz, e8m0fnu
      10, 16, 11, 12, 15, 18,              // f16, bf16, f32, f64, c64, c128
  };
  // clang-format on
  static_assert(sizeof(kNumbers) / sizeof(int) == static_cast<std::size_t>(DType::kCount),
                "one for each type");
  return static_cast<XLA_FFI_DataType>(kNumbers[static_cast<std::size_t>(type)]);
}

std::string Describe(const std::vector<FfiBuffer>& buffers) {
  std::string text;
  for (const FfiBuffer& buffer : buffers) {
    text += (text.empty() ? "" : ", ") +
            std::string(buffer.is_token ? "token" : ipu_model::NameOf(buffer.tensor.type));
    std::string dims;
    for (const std::int64_t d : buffer.tensor.shape) dims += (dims.empty() ? "" : ",") + std::to_string(d);
    if (!buffer.is_token) text += "[" + dims + "]";
  }
  return "(" + text + ")";
}
// "(f32[4]) -> (f32[2]) at model.py:3"
std::string Describe(const FfiCallSpec& spec) {
  const std::string where = spec.location.empty() ? "" : " at " + spec.location;
  return Describe(spec.operands) + " -> " + Describe(spec.results) + where;
}

// Operands or results of one call, as handlers read them.
class Buffers {
 public:
  explicit Buffers(const std::vector<FfiBuffer>& specs) : dims_(specs.size()), buffers_(specs.size()) {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const FfiBuffer& spec = specs[i];
      if (!spec.is_token) dims_[i] = spec.tensor.shape;
      buffers_[i] = {sizeof(XLA_FFI_Buffer),
                     nullptr,
                     spec.is_token ? XLA_FFI_DataType_TOKEN : FfiType(spec.tensor.type),
                     nullptr,
                     static_cast<std::int64_t>(dims_[i].size()),
                     dims_[i].data()};
      pointers_.push_back(&buffers_[i]);
    }
  }
  // Handlers may read the address of an array without elements.
  template <typename Pointer>
  void SetMemory(const std::vector<FfiBuffer>& specs, const std::vector<Pointer>& memory) {
    alignas(64) static char nothing[64];
    auto next = memory.begin();
    for (std::size_t i = 0; i < specs.size(); ++i) {
      buffers_[i].data = specs[i].tensor.bytes() == 0 ? nothing : const_cast<void*>(*next++);
    }
  }
  XLA_FFI_Buffer& operator[](std::size_t i) { return buffers_[i]; }
  std::int64_t size() const { return static_cast<std::int64_t>(buffers_.size()); }
  void** data() { return pointers_.data(); }

 private:
  std::vector<std::vector<std::int64_t>> dims_;
  std::vector<XLA_FFI_Buffer> buffers_;
  std::vector<void*> pointers_;
};

}  // namespace

FfiAttributes::FfiAttributes(const FfiAttribute& dictionary) {
  for (const FfiAttribute& member : dictionary.members) Add(member);
  attrs_ = {sizeof(attrs_), nullptr,       static_cast<std::int64_t>(types_.size()),
            types_.data(),  names_.data(), values_.data()};
}

void FfiAttributes::Add(const FfiAttribute& attribute) {
  names_.push_back(&spans_.emplace_back(XLA_FFI_ByteSpan{attribute.name.data(), attribute.name.size()}));
  std::vector<std::uint64_t>& data = data_.emplace_back(attribute.data.size() / sizeof(std::uint64_t) + 1);
  std::memcpy(data.data(), attribute.data.data(), attribute.data.size());
  switch (attribute.kind) {
    case FfiAttribute::Kind::kScalar:
      types_.push_back(XLA_FFI_AttrType_SCALAR);
      values_.push_back(&scalars_.emplace_back(XLA_FFI_Scalar{FfiType(attribute.type), data.data()}));
      break;
    case FfiAttribute::Kind::kArray: {
      const std::size_t count = attribute.data.size() / ipu_model::SizeOf(attribute.type);
      types_.push_back(XLA_FFI_AttrType_ARRAY);
      values_.push_back(&arrays_.emplace_back(XLA_FFI_Array{FfiType(attribute.type), count, data.data()}));
      break;
    }
    case FfiAttribute::Kind::kString:
      types_.push_back(XLA_FFI_AttrType_STRING);
      values_.push_back(&spans_.emplace_back(XLA_FFI_ByteSpan{attribute.data.data(), attribute.data.size()}));
      break;
    case FfiAttribute::Kind::kDictionary:
      types_.push_back(XLA_FFI_AttrType_DICTIONARY);
      values_.push_back(&dictionaries_.emplace_back(attribute).attrs());
      break;
    case FfiAttribute::Kind::kCount:
      break;
  }
}

FfiCall::FfiCall(const FfiCallSpec& spec)
    : spec_(spec),
      handlers_(FfiHandlers::Get().Find(spec.target, Describe(spec))),
      attributes_(spec.attributes) {
  XLA_FFI_CallFrame frame = FfiCallFrame(XLA_FFI_ExecutionStage_INSTANTIATE, &context_);
  frame.attrs = attributes_.attrs();
  CallStage(handlers_.instantiate, frame, XLA_FFI_ExecutionStage_INSTANTIATE);
}

void FfiCall::Call(const std::vector<const void*>& inputs, const std::vector<void*>& outputs,
                   std::int32_t device_ordinal, std::int64_t run_id) {
  Buffers operands(spec_.operands), results(spec_.results);
  operands.SetMemory(spec_.operands, inputs);
  results.SetMemory(spec_.results, outputs);
  for (std::size_t i = 0; i < spec_.results.size(); ++i) {
    if (spec_.aliased_operands[i] < 0) continue;
    XLA_FFI_Buffer& operand = operands[static_cast<std::size_t>(spec_.aliased_operands[i])];
    std::memcpy(results[i].data, operand.data, spec_.results[i].tensor.bytes());
    operand.data = results[i].data;
  }
  context_.device_ordinal = device_ordinal;
  context_.run_id = run_id;
  XLA_FFI_CallFrame frame = FfiCallFrame(XLA_FFI_ExecutionStage_EXECUTE, &context_);
  std::vector<XLA_FFI_ArgType> operand_types(spec_.operands.size(), XLA_FFI_ArgType_BUFFER);
  std::vector<XLA_FFI_RetType> result_types(spec_.results.size(), XLA_FFI_RetType_BUFFER);
  frame.args = {sizeof(frame.args), nullptr, operands.size(), operand_types.data(), operands.data()};
  frame.rets = {sizeof(frame.rets), nullptr, results.size(), result_types.data(), results.data()};
  frame.attrs = attributes_.attrs();
  // State that handlers of one stage leave for later stages of this call only.
  struct Cleanup {
    XLA_FFI_ExecutionContext& context;
    ~Cleanup() {
      context.scratch.clear();
      for (std::size_t stage = 1; stage < context.states.size(); ++stage) context.states[stage] = {};
    }
  } cleanup{context_};
  CallStage(handlers_.prepare, frame, XLA_FFI_ExecutionStage_PREPARE);
  CallStage(handlers_.initialize, frame, XLA_FFI_ExecutionStage_INITIALIZE);
  CallStage(handlers_.execute, frame, XLA_FFI_ExecutionStage_EXECUTE);
}

void FfiCall::CallStage(XLA_FFI_Handler* handler, XLA_FFI_CallFrame frame, XLA_FFI_ExecutionStage stage) {
  if (handler == nullptr) return;
  frame.stage = stage;
  const std::string where = spec_.location.empty() ? "" : " at " + spec_.location;
  CallFfiHandler(handler, frame, "", " (the foreign function '" + spec_.target + "'" + where + ")");
}

void FfiCall::FillWithZeros(const std::vector<void*>& outputs) const {
  std::size_t next = 0;
  for (const FfiBuffer& result : spec_.results) {
    if (const std::size_t bytes = result.tensor.bytes(); bytes > 0) std::memset(outputs.at(next++), 0, bytes);
  }
}

std::uint64_t FfiCall::BytesOf(const std::vector<FfiBuffer>& buffers) {
  std::uint64_t bytes = 0;
  for (const FfiBuffer& buffer : buffers) bytes += buffer.tensor.bytes();
  return bytes;
}

}  // namespace jax_ipu
