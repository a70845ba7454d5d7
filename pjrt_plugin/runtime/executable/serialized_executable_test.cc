// Serialised executables: round trip, and refusal of every kind of damage.
#include <string>
#include <utility>

#include "check.h"
#include "ipu_model/Model.hpp"
#include "ipu_model/Stored.hpp"
#include "runtime/executable/executable.h"

namespace jax_ipu {
namespace {

Executable Example() {
  Executable e;
  e.name = "train_step";
  e.fingerprint = "abc";
  e.target = "ipu2:1472";
  InputSpec state;
  state.tensor = {DType::kF32, {2, 3}};
  state.major_to_minor = {1, 0};
  state.donated = true;
  state.aliased_output = 1;
  state.unchanged = true;
  state.write_program = 1;
  state.read_program = 2;
  InputSpec scalar;
  scalar.tensor = {DType::kBF16, {}};
  scalar.used = false;
  InputSpec weights;
  weights.tensor = {DType::kF16, {4}};
  weights.write_program = 3;
  e.inputs = {state, scalar, weights};
  OutputSpec forwarded, aliased;
  forwarded.tensor = scalar.tensor;
  forwarded.forwarded_input = 1;
  aliased.tensor = state.tensor;
  aliased.aliased_input = 0;
  e.outputs = {forwarded, aliased};
  e.poplar_executable = std::string("\0\1\2", 3);
  FfiCallSpec call;
  call.target = "foreign";
  call.location = "model.py:3";
  call.operands = {{{DType::kF32, {2}}, false}, {{DType::kPred, {0}}, true}};
  call.results = {{{DType::kF32, {2}}, false}};
  call.aliased_operands = {0};
  FfiAttribute scale, options;
  scale.name = "scale";
  scale.kind = FfiAttribute::Kind::kScalar;
  scale.type = DType::kU16;
  scale.data = "ab";
  options.name = "options";
  options.members = {scale};
  call.attributes.members = {options};
  e.ffi_calls = {call};
  e.main_program = 4;
  e.mlir = "module {}";
  e.cost.flops = 12.5;
  e.cost.cycles = std::uint64_t{1} << 40;
  e.memory.total_bytes = 77;
  e.memory.vertex_bytes = 5;
  e.devices = {3};
  return e;
}

// The reason in the error, or nothing when the bytes were accepted.
std::string Reason(const std::string& bytes) {
  try {
    Executable::Deserialize(bytes);
    return "";
  } catch (const Error& error) {
    return error.code == Code::kInvalidArgument ? error.what() : "wrong code";
  }
}
bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(RoundTripKeepsEveryField) {
  const Executable e = Example();
  const std::string bytes = e.Serialize();
  const Executable back = Executable::Deserialize(bytes);
  CHECK_EQ(back.name, e.name);
  CHECK_EQ(back.fingerprint, e.fingerprint);
  CHECK_EQ(back.target, e.target);
  CHECK_EQ(back.poplar_executable, e.poplar_executable);
  CHECK_EQ(back.main_program, 4);
  CHECK_EQ(back.mlir, e.mlir);
  CHECK_EQ(back.inputs.size(), 3u);
  CHECK(back.inputs[0].tensor.type == DType::kF32);
  CHECK(back.inputs[0].tensor.shape == e.inputs[0].tensor.shape);
  CHECK(back.inputs[0].major_to_minor == e.inputs[0].major_to_minor);
  CHECK(back.inputs[1].major_to_minor.empty());
  CHECK(back.inputs[0].donated && back.inputs[0].unchanged && back.inputs[0].used);
  CHECK_EQ(back.inputs[0].aliased_output, 1);
  CHECK_EQ(back.inputs[0].read_program, 2);
  CHECK(!back.inputs[1].used && back.inputs[1].tensor.shape.empty());
  CHECK(back.inputs[2].kept() && !back.inputs[0].kept() && !back.inputs[1].kept());
  CHECK_EQ(back.inputs[2].write_program, 3);
  CHECK_EQ(back.outputs[0].forwarded_input, 1);
  CHECK_EQ(back.outputs[1].aliased_input, 0);
  CHECK_EQ(back.cost.flops, 12.5);
  CHECK_EQ(back.cost.cycles, e.cost.cycles);
  CHECK_EQ(back.memory.total_bytes, 77u);
  const FfiCallSpec& call = back.ffi_calls.at(0);
  CHECK(call.operands.at(1).is_token && !call.results.at(0).is_token);
  CHECK_EQ(call.aliased_operands.at(0), 0);
  CHECK_EQ(call.attributes.members.at(0).members.at(0).data, "ab");
  CHECK(back.devices == std::vector<int>{3});
  CHECK_EQ(back.Serialize(), bytes);
  CHECK(Executable::Deserialize(e.Serialize({7})).devices == std::vector<int>{7});
  CHECK(Has(Reason(e.Serialize({0, 1})), "names 2 IPUs for its replicas"));
}

TEST(EveryTruncationIsRefused) {
  const std::string bytes = Example().Serialize();
  for (std::size_t n = 0; n < bytes.size(); ++n) CHECK(!Reason(bytes.substr(0, n)).empty());
  CHECK(!Reason(bytes + "x").empty());
}

TEST(EveryFlippedBitIsRefused) {
  const std::string bytes = Example().Serialize();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    CHECK(!Reason(damaged).empty());
  }
}

TEST(ReasonsAreNamed) {
  const std::string bytes = Example().Serialize();
  CHECK(Has(Reason(""), "0 bytes"));
  CHECK(Has(Reason(std::string(100, 'x')), "does not start with"));
  std::string version = bytes;
  version[8] = 9;
  CHECK(Has(Reason(version), "format version 9,"));
  CHECK(Has(Reason(bytes.substr(0, bytes.size() - 1)), "its header says"));
  std::string content = bytes;
  content.back() = static_cast<char>(content.back() + 1);
  CHECK(Has(Reason(content), "checksum"));
}

// Correct checksum, but a table that would make the runtime index out of range.
TEST(InconsistentTablesAreRefused) {
  Executable no_output = Example();
  no_output.inputs[0].aliased_output = 7;
  CHECK(Has(Reason(no_output.Serialize()), "does not exist"));
  Executable one_sided = Example();
  one_sided.outputs[1].aliased_input = -1;
  CHECK(Has(Reason(one_sided.Serialize()), "contradicts"));
  Executable other_side = Example();
  other_side.inputs[0].aliased_output = -1;
  CHECK(Has(Reason(other_side.Serialize()), "contradicts"));
  Executable forwarded = Example();
  forwarded.outputs[0].forwarded_input = 3;
  CHECK(Has(Reason(forwarded.Serialize()), "does not exist"));
  Executable no_programs = Example();
  no_programs.inputs[0].read_program = -1;
  CHECK(Has(Reason(no_programs.Serialize()), "no transfer programs"));
  Executable kept = Example();
  kept.inputs[2].donated = true;
  CHECK(Has(Reason(kept.Serialize()), "kept input is donated"));
  Executable other_type = Example();
  other_type.outputs[1].tensor.shape = {2, 4};
  CHECK(Has(Reason(other_type.Serialize()), "another type than the input that it aliases"));
  Executable other_forwarded = Example();
  other_forwarded.outputs[0].tensor.shape = {1 << 20};
  CHECK(Has(Reason(other_forwarded.Serialize()), "another type than the input that it is"));
  Executable huge = Example();
  huge.inputs[1].tensor.shape = huge.outputs[0].tensor.shape = {std::int64_t{1} << 62, 4};
  CHECK(Has(Reason(huge.Serialize()), "more bytes than memory can be addressed"));
  Executable program = Example();
  program.main_program = -1;
  CHECK(Has(Reason(program.Serialize()), "negative number"));
  for (const int count : {0, -1, 1 << 20}) {
    Executable replicas = Example(), partitions = Example();
    replicas.num_replicas = partitions.num_partitions = count;
    CHECK(Has(Reason(replicas.Serialize()), "must be positive"));
    CHECK(Has(Reason(partitions.Serialize()), "must be positive"));
  }
  Executable product = Example();
  product.num_replicas = product.num_partitions = 1000;
  CHECK(Has(Reason(product.Serialize()), "must be positive, and their product"));
  for (const char* text : {"ipu2", "ipu2:", "ipu2:x", "ipu2:99999999", "ip\xffu:4"}) {
    Executable target = Example();
    target.target = text;
    CHECK(!Reason(target.Serialize()).empty());
  }
  Executable name = Example();
  name.name = "\xc3";
  CHECK(Has(Reason(name.Serialize()), "not UTF-8"));
  Executable cost = Example();
  cost.cost.flops = -1;
  CHECK(Has(Reason(cost.Serialize()), "not a possible number"));
  Executable deep = Example();
  for (int i = 0; i < 200; ++i) {
    FfiAttribute outer;
    outer.members = {deep.ffi_calls[0].attributes};
    deep.ffi_calls[0].attributes = outer;
  }
  CHECK(Has(Reason(deep.Serialize()), "nested too deeply"));
  Executable negative = Example();
  negative.inputs[1].tensor.shape = {-1};
  CHECK(Has(Reason(negative.Serialize()), "negative dimension"));
  Executable alias = Example();
  alias.ffi_calls[0].aliased_operands = {2};
  CHECK(Has(Reason(alias.Serialize()), "the operand that it aliases"));
  alias.ffi_calls[0].aliased_operands = {};
  CHECK(Has(Reason(alias.Serialize()), "one alias for each result"));
  Executable attribute = Example();
  attribute.ffi_calls[0].attributes.members[0].members[0].data = "abc";
  CHECK(Has(Reason(attribute.Serialize()), "not the size of its type"));
  for (const DimensionOrder& order : {DimensionOrder{0}, DimensionOrder{0, 0}, DimensionOrder{1, 2}}) {
    Executable layout = Example();
    layout.outputs[1].major_to_minor = order;
    CHECK(Has(Reason(layout.Serialize()), "not an order"));
  }
}

// Boolean and enumeration fields with every byte that is not one of their values.
TEST(BytesThatAreNoValueAreRefused) {
  Executable donated = Example(), kept = Example();
  kept.inputs[1].used = true;
  kept.inputs[1].donated = true;
  const std::string a = Example().Serialize(), b = kept.Serialize();
  int refused = 0;
  for (std::size_t i = 32; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    std::string content = a.substr(32);
    content[i - 32] = 2;
    refused += Has(Reason(ipu_model::Seal("JAXIPUEX", content)), "is neither true nor false");
  }
  CHECK_EQ(refused, 2);
}

// How many values a struct can be initialised with.
struct Anything {
  template <typename T>
  operator T() const;
};
template <typename T, typename... Values>
constexpr std::size_t Arity(long) {
  return 0;
}
template <typename T, typename... Values>
constexpr auto Arity(int) -> decltype(T{Values{}...}, std::size_t{}) {
  if constexpr (sizeof...(Values) < 32) {
    constexpr std::size_t more = Arity<T, Values..., Anything>(0);
    return more > sizeof...(Values) ? more : sizeof...(Values);
  } else {
    return sizeof...(Values);
  }
}
struct Count {
  template <typename T>
  void operator()(const char*, T&) {
    ++fields;
  }
  template <typename T>
  void Bytes(const char*, T&) {
    ++fields;
  }
  std::size_t fields = 0;
};
template <typename T>
std::size_t NumFields() {
  Count count;
  const T value;
  T::Fields(value, count);
  return count.fields;
}

TEST(FieldsVisitsEveryMember) {
  // A TensorSpec member adds two fields: the type and the shape.
  CHECK_EQ(NumFields<InputSpec>(), Arity<InputSpec>(0) + 1);
  CHECK_EQ(NumFields<OutputSpec>(), Arity<OutputSpec>(0) + 1);
  CHECK_EQ(NumFields<FfiBuffer>(), Arity<FfiBuffer>(0) + 1);
  CHECK_EQ(NumFields<HostCallbackSpec>(), Arity<HostCallbackSpec>(0));
  CHECK_EQ(NumFields<FfiAttribute>(), Arity<FfiAttribute>(0));
  CHECK_EQ(NumFields<FfiCallSpec>(), Arity<FfiCallSpec>(0));
  CHECK_EQ(NumFields<CostReport>(), Arity<CostReport>(0));
  CHECK_EQ(NumFields<MemoryReport>(), Arity<MemoryReport>(0));
  // The devices are no field: whoever serialises it may name others.
  CHECK_EQ(NumFields<Executable>() + 1, Arity<Executable>(0));
}

TEST(FieldsOfTheReportVisitsEveryMember) {
  CHECK_EQ(NumFields<ipu_model::Cycles>(), Arity<ipu_model::Cycles>(0));
  // The three fields of the member of type Cycles are visited one by one.
  CHECK_EQ(NumFields<ipu_model::OperationCost>(), Arity<ipu_model::OperationCost>(0) + 2);
  CHECK_EQ(NumFields<ipu_model::LoopCost>(), Arity<ipu_model::LoopCost>(0));
  CHECK_EQ(NumFields<ipu_model::TileUse>(), Arity<ipu_model::TileUse>(0));
  CHECK_EQ(NumFields<ipu_model::TensorUse>(), Arity<ipu_model::TensorUse>(0));
  CHECK_EQ(NumFields<ipu_model::TilePeak>(), Arity<ipu_model::TilePeak>(0));
  CHECK_EQ(NumFields<ipu_model::Report>(), Arity<ipu_model::Report>(0));
}

}  // namespace
}  // namespace jax_ipu
