#include "runtime/executable/executable_checks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "runtime/device/device_engine.h"
#include "runtime/executable/utf8.h"

namespace jax_ipu {
namespace {

// Thrown and caught in this file: the first problem ends the search.
struct Problem {
  std::string reason;
};

void Require(bool holds, const std::string& otherwise) {
  if (!holds) throw Problem{otherwise};
}

bool IsIndex(int index, std::size_t size) { return index >= 0 && static_cast<std::size_t>(index) < size; }
// -1: none.
bool IsIndexOrNone(int index, std::size_t size) { return index == -1 || IsIndex(index, size); }
// A program number; the number of programs is known only where the program has been read.
bool IsProgramOrNone(int program) { return program >= -1; }

void CheckTensor(const TensorSpec& tensor, const DimensionOrder& order) {
  Require(tensor.type < DType::kCount, "it has an unknown element type");
  const std::string problem = SizeProblem(tensor);
  Require(problem.empty(), problem);
  Require(IsOrder(order, tensor.shape.size()), "a layout is not an order of the tensor's dimensions");
}

void CheckAttribute(const FfiAttribute& attribute) {
  using Kind = FfiAttribute::Kind;
  const std::size_t element = ipu_model::SizeOf(attribute.type), bytes = attribute.data.size();
  if (attribute.kind == Kind::kScalar || attribute.kind == Kind::kArray) {
    const bool fits = attribute.kind == Kind::kScalar ? bytes == element : bytes % element == 0;
    Require(fits, "an attribute of a foreign function has not the size of its type");
  }
  for (const FfiAttribute& member : attribute.members) CheckAttribute(member);
}

void CheckFfiCall(const FfiCallSpec& call) {
  for (const auto* buffers : {&call.operands, &call.results}) {
    for (const FfiBuffer& buffer : *buffers) CheckTensor(buffer.tensor, {});
  }
  Require(call.aliased_operands.size() == call.results.size(),
          "a foreign function has not one alias for each result");
  for (std::size_t i = 0; i < call.results.size(); ++i) {
    const int operand = call.aliased_operands[i];
    Require(IsIndexOrNone(operand, call.operands.size()) &&
                (operand < 0 || call.operands[static_cast<std::size_t>(operand)].tensor.bytes() ==
                                    call.results[i].tensor.bytes()),
            "a result of a foreign function has not the size of the operand that it aliases");
  }
  CheckAttribute(call.attributes);
}

bool SameType(const TensorSpec& a, const TensorSpec& b) { return a.type == b.type && a.shape == b.shape; }

void CheckInput(const Executable& e, std::size_t i) {
  const InputSpec& input = e.inputs[i];
  CheckTensor(input.tensor, input.major_to_minor);
  Require(IsIndexOrNone(input.aliased_output, e.outputs.size()),
          "an input aliases an output that does not exist");
  if (input.aliased_output < 0) return;
  const OutputSpec& output = e.outputs[static_cast<std::size_t>(input.aliased_output)];
  Require(output.aliased_input == static_cast<int>(i), "the alias table contradicts itself");
  Require(SameType(input.tensor, output.tensor), "an output has another type than the input that it aliases");
}

void CheckPrograms(const Executable& e, const InputSpec& input) {
  for (const int program : {input.write_program, input.read_program, input.swap_program}) {
    Require(IsProgramOrNone(program), "an input has a program with a negative number");
  }
  Require(IsIndexOrNone(input.swap_with, e.inputs.size()),
          "an input is swapped with one that does not exist");
  Require(!input.kept() || (!input.donated && input.used), "a kept input is donated or not used");
  if (input.aliased_output < 0) {
    Require(input.read_program < 0 && input.swap_with < 0 && input.swap_program < 0,
            "an input that is not resident has programs of a resident one");
    return;
  }
  Require(input.write_program >= 0 && input.read_program >= 0, "a resident input has no transfer programs");
  Require((input.swap_with < 0) == (input.swap_program < 0), "an input is swapped without a program for it");
  if (input.swap_with < 0) return;
  const InputSpec& other = e.inputs[static_cast<std::size_t>(input.swap_with)];
  Require(other.aliased_output >= 0 && SameType(other.tensor, input.tensor),
          "two inputs of different types are swapped");
  // The runtime swaps states with the first input of a type, which itself has no swap program.
  Require(other.swap_with < 0 && &other != &input, "an input is swapped with one that is no first");
}

void CheckOutput(const Executable& e, std::size_t j) {
  const OutputSpec& output = e.outputs[j];
  CheckTensor(output.tensor, output.major_to_minor);
  Require(IsIndexOrNone(output.aliased_input, e.inputs.size()) &&
              IsIndexOrNone(output.forwarded_input, e.inputs.size()),
          "an output refers to an input that does not exist");
  if (output.aliased_input >= 0) {
    const InputSpec& input = e.inputs[static_cast<std::size_t>(output.aliased_input)];
    Require(input.aliased_output == static_cast<int>(j), "the alias table contradicts itself");
    Require(!output.in_host_memory, "an output in host memory is resident with an input");
    Require(output.forwarded_input < 0, "an output is resident and forwarded");
  }
  if (output.forwarded_input >= 0) {
    const InputSpec& input = e.inputs[static_cast<std::size_t>(output.forwarded_input)];
    Require(SameType(input.tensor, output.tensor), "an output has another type than the input that it is");
    Require(input.aliased_output < 0, "a forwarded input is resident");
  }
}

void CheckTarget(const std::string& target) {
  const std::size_t colon = target.find(':');
  const std::string tiles = colon == std::string::npos ? "" : target.substr(colon + 1);
  Require(!tiles.empty() && tiles.size() < 7 && tiles.find_first_not_of("0123456789") == std::string::npos,
          "its target is not of the form <version>:<tiles>");
}

class FiniteNumbers {
 public:
  template <typename T>
  void operator()(const char* name, const T& value) {
    if constexpr (std::is_same_v<T, double>) {
      Require(std::isfinite(value) && value >= 0 && value < 1e30,
              std::string("its cost '") + name + "' is not a possible number");
    }
  }
};

// One stream that the executable's description implies.
struct Expected {
  std::string name;
  const TensorSpec* tensor;
  bool host_to_device;
};

class InterfaceCheck {
 public:
  InterfaceCheck(const Executable& executable, const ipu_model::ProgramInterface& program)
      : executable_(executable), program_(program) {
    for (std::uint32_t s = 0; s < program.streams.size(); ++s) numbers_.emplace(program.streams[s].name, s);
  }

  void Run() {
    const Executable& e = executable_;
    Require(e.target == program_.architecture + ":" + std::to_string(program_.num_tiles),
            "it says that it is for " + e.target + ", its program is for " + program_.architecture + ":" +
                std::to_string(program_.num_tiles));
    Require(static_cast<unsigned>(e.num_replicas * e.num_partitions) == program_.replication_factor,
            "it has " + std::to_string(e.num_replicas * e.num_partitions) + " replicas, its program " +
                std::to_string(program_.replication_factor));
    std::vector<Expected> of_main;
    for (std::size_t i = 0; i < e.inputs.size(); ++i) Input(i, &of_main);
    for (std::size_t j = 0; j < e.outputs.size(); ++j) {
      const OutputSpec& output = e.outputs[j];
      if (output.aliased_input < 0 && output.forwarded_input < 0)
        of_main.push_back({"out" + std::to_string(j), &output.tensor, false});
    }
    const TensorSpec seed = {DType::kU64, {static_cast<std::int64_t>(Seed().size())}};
    if (numbers_.count(kSeedStream) != 0) of_main.push_back({kSeedStream, &seed, true});
    RemoteBuffers(&of_main);
    Program(e.main_program, "the main program", of_main);
    for (std::size_t p = 0; p < program_.programs.size(); ++p) {
      const bool is_main = p == static_cast<std::size_t>(e.main_program);
      Require(program_.programs[p].communicates == (is_main && e.communicates),
              is_main ? "its main program communicates otherwise than it declares"
                      : "a program other than the main program communicates");
    }
    for (const HostCallbackSpec& callback : e.host_callbacks) {
      HostFunction("callback" + std::to_string(callback.id), callback.input_bytes, callback.output_bytes);
    }
    for (std::size_t i = 0; i < e.ffi_calls.size(); ++i) {
      HostFunction("ffi" + std::to_string(i), Bytes(e.ffi_calls[i].operands), Bytes(e.ffi_calls[i].results));
    }
    CheckVariables();
  }

 private:
  void Input(std::size_t i, std::vector<Expected>* of_main) {
    const InputSpec& input = executable_.inputs[i];
    const std::string number = std::to_string(i), state = "state" + number;
    if (input.write_program < 0) {
      if (input.used) of_main->push_back({"in" + number, &input.tensor, true});
      return;
    }
    Program(input.write_program, "the program that writes input " + number, {{state, &input.tensor, true}});
    writers_.emplace_back(input.write_program, input.kept());
    if (input.kept()) return;
    Program(input.read_program, "the program that reads input " + number,
            {{state + ".out", &input.tensor, false}});
    others_.push_back(input.read_program);
    if (input.swap_program < 0) return;
    Program(input.swap_program, "the program that swaps input " + number, {});
    others_.push_back(input.swap_program);
  }

  // An argument or result may be a remote buffer in place of a stream of main. The memory of an argument is
  // the caller's, so no program may write it.
  void RemoteBuffers(std::vector<Expected>* of_main) const {
    for (const auto& buffer : program_.remote_buffers) {
      const auto found = std::find_if(of_main->begin(), of_main->end(),
                                      [&buffer](const Expected& e) { return e.name == buffer.name; });
      const std::string what = "the remote buffer '" + buffer.name + "' of its program";
      if (found == of_main->end()) {
        Require(buffer.name.rfind("offloaded", 0) == 0, what + " is no argument, result or offloaded value");
        continue;
      }
      Require(buffer.type == ipu_model::NameOf(found->tensor->type) && buffer.bytes == found->tensor->bytes(),
              what + " has " + std::to_string(buffer.bytes) + " bytes of type " + buffer.type +
                  ", not the type and size that it declares");
      Require(!found->host_to_device || !buffer.is_written, what + " is an argument, and is written");
      of_main->erase(found);
    }
  }

  // Requires that the program exists, and moves these streams and no others.
  void Program(int index, const std::string& what, const std::vector<Expected>& streams) {
    Require(IsIndex(index, program_.programs.size()), what + " does not exist");
    std::set<std::uint32_t> allowed;
    for (const Expected& expected : streams) {
      const auto found = numbers_.find(expected.name);
      if (found == numbers_.end()) {
        // The compiler may leave out streams of tensors without elements.
        Require(expected.tensor->bytes() == 0, "its program has no stream '" + expected.name + "'");
        continue;
      }
      const ipu_model::ProgramInterface::Stream& stream = program_.streams[found->second];
      Require(stream.host_to_device == expected.host_to_device &&
                  stream.type == ipu_model::NameOf(expected.tensor->type) &&
                  stream.bytes == expected.tensor->bytes(),
              "the stream '" + expected.name + "' of its program has " + std::to_string(stream.bytes) +
                  " bytes of type " + stream.type + ", not the type, size and direction that it declares");
      allowed.insert(found->second);
    }
    for (const std::uint32_t stream : program_.programs[static_cast<std::size_t>(index)].streams) {
      Require(allowed.count(stream) != 0, what + " moves the stream '" + program_.streams[stream].name + "'");
    }
  }

  static std::vector<std::uint64_t> Bytes(const std::vector<FfiBuffer>& buffers) {
    std::vector<std::uint64_t> bytes;
    for (const FfiBuffer& buffer : buffers) {
      if (buffer.tensor.bytes() > 0) bytes.push_back(buffer.tensor.bytes());
    }
    return bytes;
  }
  void HostFunction(const std::string& name, const std::vector<std::uint64_t>& inputs,
                    const std::vector<std::uint64_t>& outputs) {
    const auto found = std::find_if(program_.host_functions.begin(), program_.host_functions.end(),
                                    [&name](const auto& function) { return function.name == name; });
    Require(found != program_.host_functions.end(), "its program has no host function '" + name + "'");
    Require(found->input_bytes == inputs && found->output_bytes == outputs,
            "the host function '" + name + "' of its program has other operands than it declares");
  }

  // The variable of a kept input may be the caller's memory, which stays valid only as long as the copy is
  // used. So only main and the program that writes the variable may use it; the programs that run at other
  // times must have variables of their own.
  void CheckVariables() {
    std::set<std::uint32_t> kept;
    for (const auto& [program, is_kept] : writers_) {
      if (!is_kept) continue;
      const auto& variables = program_.programs[static_cast<std::size_t>(program)].variables;
      for (const std::uint32_t v : variables) {
        Require(kept.insert(v).second, "two kept inputs have one variable");
      }
    }
    for (const auto& [program, is_kept] : writers_) {
      if (!is_kept) others_.push_back(program);
    }
    for (const int program : others_) {
      for (const std::uint32_t v : program_.programs[static_cast<std::size_t>(program)].variables) {
        Require(kept.count(v) == 0, "a transfer program uses the variable of a kept input");
      }
    }
  }

  const Executable& executable_;
  const ipu_model::ProgramInterface& program_;
  std::map<std::string, std::uint32_t> numbers_;  // of streams; the first of a name, as Poplar finds it
  std::vector<std::pair<int, bool>> writers_;     // program, whether of a kept input
  std::vector<int> others_;                       // programs that run between calls of main
};

template <typename F>
std::string First(F&& check) {
  try {
    check();
    return "";
  } catch (const Problem& problem) {
    return problem.reason;
  }
}

}  // namespace

std::string FindProblem(const Executable& e) {
  return First([&] {
    for (const std::string* text : {&e.name, &e.fingerprint, &e.target, &e.link_group}) {
      Require(IsUtf8(*text), "its name, fingerprint, target or link group is not UTF-8");
    }
    CheckTarget(e.target);
    Require(!e.is_linked, "it is of linked programs, which are not stored");
    Require(e.num_replicas > 0 && e.num_partitions > 0 && e.num_replicas <= kMaxReplicas &&
                e.num_partitions <= kMaxReplicas && e.num_replicas * e.num_partitions <= kMaxReplicas,
            "it has " + std::to_string(e.num_replicas) + " replicas of " + std::to_string(e.num_partitions) +
                " partitions; both must be positive, and their product at most " +
                std::to_string(kMaxReplicas));
    Require(
        e.devices.empty() || e.devices.size() == static_cast<std::size_t>(e.num_replicas * e.num_partitions),
        "it names " + std::to_string(e.devices.size()) + " IPUs for its replicas");
    Require(e.main_program >= 0, "its main program has a negative number");
    for (std::size_t i = 0; i < e.inputs.size(); ++i) CheckInput(e, i);
    for (std::size_t j = 0; j < e.outputs.size(); ++j) CheckOutput(e, j);
    for (const InputSpec& input : e.inputs) CheckPrograms(e, input);
    for (const FfiCallSpec& call : e.ffi_calls) CheckFfiCall(call);
    FiniteNumbers numbers;
    CostReport::Fields(e.cost, numbers);
  });
}

std::string FindProblem(const Executable& executable, const ipu_model::ProgramInterface& program) {
  return First([&] { InterfaceCheck(executable, program).Run(); });
}

}  // namespace jax_ipu
