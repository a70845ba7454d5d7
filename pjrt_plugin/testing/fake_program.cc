// The text programs: parser and interpreter.
#include "testing/fake_program.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

namespace jax_ipu::testing {
namespace {

DType TypeNamed(const std::string& name) {
  for (int i = 0; i < static_cast<int>(DType::kCount); ++i) {
    if (name == NameOf(static_cast<DType>(i))) return static_cast<DType>(i);
  }
  throw Error(Code::kInvalidArgument, "fake program: unknown type " + name);
}

TensorSpec ReadTensor(std::istream& line) {
  std::string type, dims;
  line >> type >> dims;
  TensorSpec tensor;
  tensor.type = TypeNamed(type);
  std::istringstream list(dims == "." ? "" : dims);
  for (std::string d; std::getline(list, d, 'x');) tensor.shape.push_back(std::stoll(d));
  return tensor;
}

struct Operation {
  std::string name;
  std::size_t a = 0, b = 0;
};

struct Parsed {
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::vector<Operation> operations;  // by output
  double host_nanoseconds = 0;
  int sleep_milliseconds = 0;
  int partitions = 1;
  bool swap = false;
  std::string failure;  // on all replicas, or on `failing` alone
  int failing = -1;
};

// Adds, after the programs that write and read, those that swap the state of an input with that of the first
// input of its type.
void AddSwaps(std::vector<InputSpec>* inputs) {
  for (std::size_t i = 0; i < inputs->size(); ++i) {
    InputSpec& input = (*inputs)[i];
    for (std::size_t first = 0; first < i && input.aliased_output >= 0 && input.swap_with < 0; ++first) {
      const InputSpec& other = (*inputs)[first];
      if (other.aliased_output < 0 || other.tensor.type != input.tensor.type ||
          other.tensor.shape != input.tensor.shape)
        continue;
      input.swap_with = static_cast<int>(first);
      input.swap_program = static_cast<int>(1 + 2 * inputs->size() + i);
    }
  }
}

Parsed Parse(const std::string& text) {
  Parsed parsed;
  std::istringstream lines(text);
  for (std::string row; std::getline(lines, row);) {
    std::istringstream line(row);
    std::string statement;
    if (!(line >> statement)) continue;
    if (statement == "in") {
      InputSpec input;
      input.tensor = ReadTensor(line);
      for (std::string word; line >> word;) {
        if (word == "donated") input.donated = true;
        if (word == "unchanged") input.unchanged = true;
        if (word == "unused") input.used = false;
        if (word == "kept") input.write_program = 1 + 2 * static_cast<int>(parsed.inputs.size());
        if (word.rfind("alias=", 0) == 0) {
          input.donated = true;
          input.aliased_output = std::stoi(word.substr(6));
        }
      }
      const int index = static_cast<int>(parsed.inputs.size());
      if (input.aliased_output >= 0) {
        input.write_program = 1 + 2 * index;
        input.read_program = 2 + 2 * index;
      }
      parsed.inputs.push_back(std::move(input));
    } else if (statement == "out") {
      OutputSpec output;
      output.tensor = ReadTensor(line);
      Operation operation;
      line >> operation.name >> operation.a;
      if (!(line >> operation.b)) operation.b = operation.a;
      if (operation.name == "forward") output.forwarded_input = static_cast<int>(operation.a);
      parsed.outputs.push_back(std::move(output));
      parsed.operations.push_back(std::move(operation));
    } else if (statement == "cost") {
      line >> parsed.host_nanoseconds;
    } else if (statement == "sleep") {
      line >> parsed.sleep_milliseconds;
    } else if (statement == "partitions") {
      line >> parsed.partitions;
    } else if (statement == "swap") {
      parsed.swap = true;
    } else if (statement == "failing") {
      line >> parsed.failing;
    } else if (statement == "fail") {
      std::getline(line >> std::ws, parsed.failure);
    } else {
      throw Error(Code::kInvalidArgument, "fake program: unknown statement " + statement);
    }
  }
  for (std::size_t i = 0; i < parsed.inputs.size(); ++i) {
    const int output = parsed.inputs[i].aliased_output;
    if (output >= 0) parsed.outputs.at(static_cast<std::size_t>(output)).aliased_input = static_cast<int>(i);
  }
  if (parsed.swap) AddSwaps(&parsed.inputs);
  return parsed;
}

// A module with the program's signature.
std::string Mlir(const Parsed& parsed) {
  const auto type = [](const TensorSpec& tensor) {
    std::string element = NameOf(tensor.type);
    if (element == "pred") element = "i1";
    if (element[0] == 's') element[0] = 'i';
    if (element[0] == 'u') element.insert(1, "i");
    if (element[0] == 'c') element = element == "c64" ? "complex<f32>" : "complex<f64>";
    std::string dims;
    for (const std::int64_t d : tensor.shape) dims += std::to_string(d) + "x";
    return "tensor<" + dims + element + ">";
  };
  std::string arguments, results, values, body;
  for (std::size_t i = 0; i < parsed.inputs.size(); ++i) {
    arguments += (i > 0 ? ", %arg" : "%arg") + std::to_string(i) + ": " + type(parsed.inputs[i].tensor);
  }
  for (std::size_t j = 0; j < parsed.outputs.size(); ++j) {
    const std::string result = type(parsed.outputs[j].tensor), name = "%" + std::to_string(j);
    body += name + " = stablehlo.custom_call @fake() : () -> " + result + "\n";
    values += (j > 0 ? ", " : "") + name;
    results += (j > 0 ? ", " : "") + result;
  }
  return "module @fake { func.func public @main(" + arguments + ") -> (" + results + ") {\n" + body +
         "return " + values + (results.empty() ? "" : " : ") + results + "\n} }";
}

constexpr std::uint64_t kCycles = 100;  // of every run of main

class FakeEngine : public DeviceEngine {
 public:
  explicit FakeEngine(const std::string& text) : parsed_(Parse(text)), state_(parsed_.inputs.size()) {
    for (std::size_t i = 0; i < parsed_.inputs.size(); ++i) {
      const std::string number = std::to_string(i);
      if (parsed_.inputs[i].aliased_output >= 0) {
        AddStream("state" + number);
        AddStream("state" + number + ".out");
      } else if (parsed_.inputs[i].kept()) {
        AddStream("state" + number);
      } else if (parsed_.inputs[i].used) {
        AddStream("in" + number);
      }
    }
    for (std::size_t j = 0; j < parsed_.outputs.size(); ++j) {
      if (parsed_.outputs[j].aliased_input < 0 && parsed_.outputs[j].forwarded_input < 0) {
        AddStream("out" + std::to_string(j));
      }
    }
  }

  void Load() override {
    for (std::vector<std::byte>& state : state_) state.clear();
  }
  bool HasStream(const std::string& name) const override { return indices_.count(name) != 0; }
  int StreamIndex(const std::string& name) const override {
    const auto found = indices_.find(name);
    if (found == indices_.end()) throw Error(Code::kInternal, "fake program: no stream " + name);
    return found->second;
  }
  void ConnectStream(int stream, void* host) override {
    streams_.at(static_cast<std::size_t>(stream)) = host;
  }
  void ConnectFfiCalls(FfiCalls&, int) override {}  // there is no statement for foreign calls
  void SetReplica(const ipu_model::Replica& replica) override { replica_ = replica; }
  std::uint64_t LastRunCycles() const override { return kCycles; }
  void SetCancellation(const std::atomic<bool>* cancelled, std::function<void()>) override {
    cancelled_ = cancelled;
  }
  void Run(int program) override {
    if (program == 0) return RunMain();
    if (static_cast<std::size_t>(program) > 2 * parsed_.inputs.size()) return Swap(program);
    const auto i = static_cast<std::size_t>((program - 1) / 2);
    const std::size_t bytes = parsed_.inputs.at(i).tensor.bytes();
    const std::string name = "state" + std::to_string(i);
    if (program % 2 == 1) {
      const auto* from = static_cast<const std::byte*>(Memory(name));
      state_[i].assign(from, from + bytes);
    } else {
      std::memcpy(Memory(name + ".out"), State(i), bytes);
    }
  }

 private:
  void AddStream(const std::string& name) {
    indices_[name] = static_cast<int>(streams_.size());
    streams_.push_back(nullptr);
  }
  void* Memory(const std::string& name) const {
    void* memory = streams_[static_cast<std::size_t>(StreamIndex(name))];
    if (memory == nullptr) throw Error(Code::kInternal, "fake program: stream " + name + " is not connected");
    return memory;
  }
  std::byte* State(std::size_t i) {
    if (state_[i].size() != parsed_.inputs[i].tensor.bytes()) {
      throw Error(Code::kInternal, "fake program: state " + std::to_string(i) + " was never written");
    }
    return state_[i].data();
  }
  void Swap(int program) {
    const std::size_t i = static_cast<std::size_t>(program) - 1 - 2 * parsed_.inputs.size();
    state_.at(i).swap(state_[static_cast<std::size_t>(parsed_.inputs.at(i).swap_with)]);
  }
  const void* Value(std::size_t i) {
    return parsed_.inputs.at(i).write_program >= 0 ? State(i) : Memory("in" + std::to_string(i));
  }
  std::vector<std::byte> Evaluate(std::size_t j) {
    const Operation& operation = parsed_.operations[j];
    std::vector<std::byte> result(parsed_.outputs[j].tensor.bytes());
    if (result.empty()) return result;
    const void* a = Value(operation.a);
    if (operation.name == "copy") {
      std::memcpy(result.data(), a, result.size());
      return result;
    }
    const void* b = Value(operation.b);
    if (operation.name == "allreduce") {
      AllReduce(a, j, result);
      return result;
    }
    for (std::size_t k = 0; k < result.size(); k += sizeof(float)) {
      float x, y;
      std::memcpy(&x, static_cast<const std::byte*>(a) + k, sizeof(float));
      std::memcpy(&y, static_cast<const std::byte*>(b) + k, sizeof(float));
      x += operation.name == "inc" ? 1.0f : y;
      std::memcpy(result.data() + k, &x, sizeof(float));
    }
    return result;
  }
  // The sum over all replicas of the launch.
  void AllReduce(const void* own, std::size_t output, std::vector<std::byte>& result) {
    replica_.group->Gather(static_cast<std::uint32_t>(output), replica_.index, own, result.size(),
                           [&](const std::vector<const void*>& parts) {
                             for (std::size_t k = 0; k < result.size(); k += sizeof(float)) {
                               float sum = 0;
                               for (const void* part : parts)
                                 sum += static_cast<const float*>(part)[k / sizeof(float)];
                               std::memcpy(result.data() + k, &sum, sizeof(float));
                             }
                           });
  }
  void RunMain() {
    for (int slept = 0; slept < parsed_.sleep_milliseconds; ++slept) {
      if (cancelled_ != nullptr && cancelled_->load())
        throw Error(Code::kInternal, "fake program: cancelled");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const bool failing = parsed_.failing < 0 || parsed_.failing == static_cast<int>(replica_.index);
    if (!parsed_.failure.empty() && failing) throw Error(Code::kInternal, parsed_.failure);
    // Compute all values before storing any: the order of outputs must not matter.
    std::vector<std::vector<std::byte>> results;
    for (std::size_t j = 0; j < parsed_.outputs.size(); ++j) {
      results.push_back(parsed_.outputs[j].forwarded_input >= 0 ? std::vector<std::byte>() : Evaluate(j));
    }
    for (std::size_t j = 0; j < results.size(); ++j) {
      const OutputSpec& output = parsed_.outputs[j];
      if (output.aliased_input >= 0) {
        state_[static_cast<std::size_t>(output.aliased_input)] = std::move(results[j]);
      } else if (output.forwarded_input < 0 && !results[j].empty()) {
        std::memcpy(Memory("out" + std::to_string(j)), results[j].data(), results[j].size());
      }
    }
  }

  const Parsed parsed_;
  ipu_model::Replica replica_;
  const std::atomic<bool>* cancelled_ = nullptr;
  std::map<std::string, int> indices_;
  std::vector<void*> streams_;
  std::vector<std::vector<std::byte>> state_;
};

}  // namespace

std::shared_ptr<const Executable> CompileFake(const std::string& text, const std::string& target) {
  Parsed parsed = Parse(text);
  auto executable = std::make_shared<Executable>();
  executable->name = "fake";
  executable->fingerprint = std::to_string(std::hash<std::string>()(text));
  executable->target = target;
  executable->poplar_executable = text;
  executable->mlir = Mlir(parsed);
  executable->cost.host_nanoseconds = parsed.host_nanoseconds;
  executable->cost.cycles = kCycles;
  executable->num_partitions = parsed.partitions;
  for (const Operation& operation : parsed.operations) {
    if (operation.name == "allreduce") executable->communicates = true;
  }
  executable->memory.total_bytes = 4096;
  executable->inputs = std::move(parsed.inputs);
  executable->outputs = std::move(parsed.outputs);
  return executable;
}

std::unique_ptr<DeviceEngine> CreateFakeEngine(const Executable& executable, const DeviceConfig&) {
  return std::make_unique<FakeEngine>(executable.poplar_executable);
}

}  // namespace jax_ipu::testing
