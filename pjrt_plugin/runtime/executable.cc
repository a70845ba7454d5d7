// Serialised form of an Executable: magic, format version, payload length, checksum, then the fields.
#include "runtime/executable.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace jax_ipu {
namespace {

constexpr char kMagic[8] = {'J', 'A', 'X', 'I', 'P', 'U', 'E', 'X'};
// Raised when the meaning of the bytes changes; older files are then refused and compiled again.
constexpr std::uint32_t kFormatVersion = 6;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t reserved;
  std::uint64_t payload_bytes;
  std::uint64_t checksum;
};
static_assert(sizeof(Header) == 32, "no padding");

// Detects damage, not malice. Eight bytes at a time, because programs carry large constants.
std::uint64_t Checksum(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u ^ bytes.size();
  const auto mix = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  };
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    mix(word);
  }
  for (; i < bytes.size(); ++i) mix(static_cast<unsigned char>(bytes[i]));
  return hash;
}

[[noreturn]] void Refuse(const std::string& reason) {
  throw Error(Code::kInvalidArgument, "Cannot load serialised IPU executable: " + reason +
                                          ". Compile the program again (or clear the compilation cache).");
}

// One list of the fields serves writing and reading.
template <typename Archive>
void Fields(Archive& archive, TensorSpec& spec) {
  archive(spec.type, spec.shape);
}
template <typename Archive>
void Fields(Archive& archive, InputSpec& input) {
  archive(input.tensor, input.major_to_minor, input.donated, input.aliased_output, input.unchanged,
          input.used, input.write_program, input.read_program, input.exchange_with, input.exchange_program,
          input.sharding);
}
template <typename Archive>
void Fields(Archive& archive, OutputSpec& output) {
  archive(output.tensor, output.major_to_minor, output.aliased_input, output.forwarded_input,
          output.in_host_memory, output.sharding);
}
template <typename Archive>
void Fields(Archive& archive, HostCallbackSpec& callback) {
  archive(callback.id, callback.input_bytes, callback.output_bytes);
}
template <typename Archive>
void Fields(Archive& archive, FfiAttribute& attribute) {
  archive(attribute.name, attribute.kind, attribute.type, attribute.data, attribute.members);
}
template <typename Archive>
void Fields(Archive& archive, FfiBuffer& buffer) {
  archive(buffer.tensor, buffer.is_token);
}
template <typename Archive>
void Fields(Archive& archive, FfiCallSpec& call) {
  archive(call.target, call.location, call.operands, call.results, call.aliased_operands, call.attributes);
}
template <typename Archive>
void Fields(Archive& archive, CostReport& cost) {
  archive(cost.flops, cost.bytes_accessed, cost.transcendentals, cost.cycles, cost.compute_cycles,
          cost.exchange_cycles, cost.sync_cycles, cost.exchange_bytes, cost.link_bytes, cost.clock_hz,
          cost.host_nanoseconds);
}
template <typename Archive>
void Fields(Archive& archive, MemoryReport& memory) {
  archive(memory.total_bytes, memory.max_tile_bytes, memory.limit_tile_bytes, memory.max_tile,
          memory.num_tiles, memory.argument_bytes, memory.output_bytes, memory.alias_bytes, memory.temp_bytes,
          memory.code_bytes, memory.constant_bytes, memory.exchange_buffer_bytes, memory.vertex_bytes,
          memory.host_argument_bytes, memory.host_output_bytes);
}
template <typename Archive>
void Fields(Archive& archive, Executable& executable) {
  archive(executable.name, executable.fingerprint, executable.target, executable.num_replicas,
          executable.num_partitions, executable.inputs, executable.outputs, executable.poplar_executable,
          executable.host_callbacks, executable.ffi_calls, executable.main_program, executable.mlir,
          executable.cost, executable.memory);
}

class Writer {
 public:
  template <typename... Ts>
  void operator()(Ts&... values) {
    (Put(values), ...);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  template <typename T>
  void Put(T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    } else {
      Fields(*this, value);
    }
  }
  void PutSize(std::size_t size) {
    std::uint64_t n = size;
    Put(n);
  }
  void Put(std::string& value) {
    PutSize(value.size());
    bytes_.append(value);
  }
  template <typename T>
  void Put(std::vector<T>& values) {
    PutSize(values.size());
    for (T& value : values) Put(value);
  }
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <typename... Ts>
  void operator()(Ts&... values) {
    (Get(values), ...);
  }
  bool AtEnd() const { return bytes_.empty(); }

 private:
  template <typename T>
  void Get(T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      std::memcpy(&value, Take(sizeof(T)).data(), sizeof(T));
    } else {
      Fields(*this, value);
    }
  }
  // A length field can be no longer than what follows, so damage cannot ask for much memory.
  std::size_t GetSize() {
    std::uint64_t n = 0;
    Get(n);
    if (n > bytes_.size()) Refuse("a length field is larger than the data that follows it");
    return static_cast<std::size_t>(n);
  }
  void Get(std::string& value) { value = Take(GetSize()); }
  template <typename T>
  void Get(std::vector<T>& values) {
    const std::size_t n = GetSize();
    values.clear();
    for (std::size_t i = 0; i < n; ++i) Get(values.emplace_back());
  }
  std::string_view Take(std::size_t n) {
    if (n > bytes_.size()) Refuse("the data ends inside a field");
    const std::string_view taken = bytes_.substr(0, n);
    bytes_.remove_prefix(n);
    return taken;
  }
  std::string_view bytes_;
};

void CheckTensor(const TensorSpec& tensor, const DimensionOrder& order) {
  if (tensor.type >= DType::kCount) Refuse("it has an unknown element type");
  for (const std::int64_t d : tensor.shape) {
    if (d < 0) Refuse("it has a negative dimension");
  }
  if (!IsOrder(order, tensor.shape.size())) Refuse("a layout is not an order of the tensor's dimensions");
}

// What the runtime relies on when it makes call frames.
void CheckAttribute(const FfiAttribute& attribute) {
  if (attribute.kind > FfiAttribute::Kind::kDictionary || attribute.type >= DType::kCount)
    Refuse("an attribute of a foreign function has an unknown type");
  const std::size_t element = ipu_model::SizeOf(attribute.type), bytes = attribute.data.size();
  const bool is_scalar = attribute.kind == FfiAttribute::Kind::kScalar;
  if (is_scalar ? bytes != element : attribute.kind == FfiAttribute::Kind::kArray && bytes % element != 0)
    Refuse("an attribute of a foreign function has not the size of its type");
  for (const FfiAttribute& member : attribute.members) CheckAttribute(member);
}
void CheckFfiCall(const FfiCallSpec& call) {
  for (const auto* buffers : {&call.operands, &call.results}) {
    for (const FfiBuffer& buffer : *buffers) CheckTensor(buffer.tensor, {});
  }
  if (call.aliased_operands.size() != call.results.size())
    Refuse("a foreign function has not one alias for each result");
  for (std::size_t i = 0; i < call.results.size(); ++i) {
    const int operand = call.aliased_operands[i];
    if (operand < 0) continue;
    if (static_cast<std::size_t>(operand) >= call.operands.size() ||
        call.operands[static_cast<std::size_t>(operand)].tensor.bytes() != call.results[i].tensor.bytes())
      Refuse("a result of a foreign function has not the size of the operand that it aliases");
  }
  CheckAttribute(call.attributes);
}

// What the runtime relies on when it indexes inputs and outputs.
void CheckLinks(const Executable& e) {
  const auto valid = [](int index, std::size_t size) {
    return index >= -1 && index < static_cast<int>(size);
  };
  for (std::size_t i = 0; i < e.inputs.size(); ++i) {
    const InputSpec& input = e.inputs[i];
    CheckTensor(input.tensor, input.major_to_minor);
    if (!valid(input.aliased_output, e.outputs.size()))
      Refuse("an input aliases an output that does not exist");
    if (input.aliased_output < 0) continue;
    const OutputSpec& output = e.outputs[static_cast<std::size_t>(input.aliased_output)];
    if (output.aliased_input != static_cast<int>(i)) Refuse("the alias table contradicts itself");
    if (input.write_program < 0 || input.read_program < 0)
      Refuse("a resident input has no transfer programs");
    if (input.exchange_with < 0) continue;
    if (!valid(input.exchange_with, e.inputs.size()) || input.exchange_program < 0)
      Refuse("an input is exchanged with one that does not exist");
    const InputSpec& other = e.inputs[static_cast<std::size_t>(input.exchange_with)];
    if (other.aliased_output < 0 || other.tensor.type != input.tensor.type ||
        other.tensor.shape != input.tensor.shape)
      Refuse("two inputs of different types are exchanged");
  }
  for (const OutputSpec& output : e.outputs) {
    CheckTensor(output.tensor, output.major_to_minor);
    if (output.in_host_memory && output.aliased_input >= 0)
      Refuse("an output in host memory is resident with an input");
    if (!valid(output.aliased_input, e.inputs.size()) || !valid(output.forwarded_input, e.inputs.size())) {
      Refuse("an output refers to an input that does not exist");
    }
    if (output.aliased_input >= 0 &&
        &e.outputs[static_cast<std::size_t>(std::max(
            0, e.inputs[static_cast<std::size_t>(output.aliased_input)].aliased_output))] != &output) {
      Refuse("the alias table contradicts itself");
    }
  }
  for (const InputSpec& input : e.inputs) {
    if (input.kept() && (input.donated || !input.used)) Refuse("a kept input is donated or not used");
  }
}

}  // namespace

std::string Executable::Serialize() const {
  Writer writer;
  Fields(writer, const_cast<Executable&>(*this));  // the writer only reads
  const std::string payload = writer.Take();
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kFormatVersion;
  header.payload_bytes = payload.size();
  header.checksum = Checksum(payload);
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + payload;
}

Executable Executable::Deserialize(std::string_view bytes) {
  Header header;
  if (bytes.size() < sizeof(header)) {
    Refuse("it has " + std::to_string(bytes.size()) + " bytes, less than the header");
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) Refuse("it does not start with an IPU header");
  if (header.version != kFormatVersion) {
    Refuse("it has format version " + std::to_string(header.version) + ", this package reads version " +
           std::to_string(kFormatVersion));
  }
  const std::string_view payload = bytes.substr(sizeof(header));
  if (payload.size() != header.payload_bytes) {
    Refuse("it has " + std::to_string(payload.size()) + " bytes of content, its header says " +
           std::to_string(header.payload_bytes));
  }
  if (Checksum(payload) != header.checksum) Refuse("its checksum is wrong, the content is damaged");
  Executable executable;
  Reader reader(payload);
  Fields(reader, executable);
  if (!reader.AtEnd()) Refuse("it has unread content");
  CheckLinks(executable);
  for (const FfiCallSpec& call : executable.ffi_calls) CheckFfiCall(call);
  return executable;
}

}  // namespace jax_ipu
