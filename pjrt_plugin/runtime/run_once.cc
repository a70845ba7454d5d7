#include "pjrt_plugin/runtime/run_once.h"

#include <memory>
#include <utility>

#include "pjrt_plugin/runtime/program.h"

namespace jax_ipu {
namespace {

void Connect(Program& program, const std::string& stream, std::string& bytes) {
  if (bytes.empty()) return;  // nothing to move: the program has no such stream
  program.ConnectStream(program.StreamIndex(stream), bytes.data());
}

}  // namespace

std::vector<std::string> RunOnce(const Executable& executable, std::vector<std::string> arguments,
                                 const DeviceConfig& config) {
  const std::vector<InputSpec>& inputs = executable.inputs;
  if (arguments.size() != inputs.size())
    throw Error(Code::kInvalidArgument, executable.name + " takes " + std::to_string(inputs.size()) +
                                            " arguments, not " + std::to_string(arguments.size()));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (arguments[i].size() != inputs[i].tensor.bytes())
      throw Error(Code::kInvalidArgument, "argument " + std::to_string(i) + " of " + executable.name +
                                              " has " + std::to_string(inputs[i].tensor.bytes()) +
                                              " bytes, not " + std::to_string(arguments[i].size()));

  const std::unique_ptr<Program> program = CreatePoplarProgram(executable, config);
  program->Load();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].write_program >= 0) {
      Connect(*program, "state" + std::to_string(i), arguments[i]);
      program->Run(inputs[i].write_program);
    } else if (inputs[i].used) {
      Connect(*program, "in" + std::to_string(i), arguments[i]);
    }
  }
  std::vector<std::string> results;
  results.reserve(executable.outputs.size());  // streams point into them
  for (std::size_t j = 0; j < executable.outputs.size(); ++j) {
    const OutputSpec& output = executable.outputs[j];
    results.emplace_back(output.tensor.bytes(), '\0');
    if (output.forwarded_input >= 0)
      results[j] = arguments[static_cast<std::size_t>(output.forwarded_input)];
    else if (output.aliased_input < 0)
      Connect(*program, "out" + std::to_string(j), results[j]);
  }
  program->Run(executable.main_program);
  for (std::size_t j = 0; j < executable.outputs.size(); ++j) {
    const int input = executable.outputs[j].aliased_input;
    if (input < 0) continue;
    Connect(*program, "state" + std::to_string(input) + ".out", results[j]);
    program->Run(inputs[static_cast<std::size_t>(input)].read_program);
  }
  return results;
}

}  // namespace jax_ipu
