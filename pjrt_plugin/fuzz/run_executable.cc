#include "fuzz/run_executable.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/program/compiled_program.h"
#include "ipu_model/Stored.hpp"
#include "runtime/device/run_once.h"
#include "runtime/executable/executable.h"

namespace jax_ipu::fuzz {
namespace {

constexpr std::string_view kMagic = "JAXIPUEX";
constexpr std::int64_t kMaxElements = 1 << 16;
constexpr double kMaxSteps = 2000;

// Steps of a node with its children: loops multiply, and a loop without a known trip count is endless.
double Steps(const ipu_model::ProgramNode& node, const ipu_model::CompiledProgram& program, int depth) {
  using ipu_model::ProgramKind;
  if (depth > 100) return kMaxSteps;
  double steps = 1;
  for (const auto& child : node.children) {
    steps += Steps(*child, program, depth + 1);
    if (steps > kMaxSteps) return steps;
  }
  switch (node.kind) {
    case ProgramKind::kRepeat:
      return steps * static_cast<double>(node.count);
    case ProgramKind::kRepeatWhileTrue:
    case ProgramKind::kRepeatWhileFalse:
      return 2 * kMaxSteps;
    case ProgramKind::kCall:
      return steps + Steps(*program.functions[node.function], program, depth + 1);
    default:
      return steps;
  }
}

bool IsSmall(const Executable& executable) {
  std::int64_t elements = 0;
  const auto add = [&elements](std::int64_t n) {
    elements = n > kMaxElements || elements > kMaxElements ? kMaxElements + 1 : elements + n;
  };
  for (const InputSpec& input : executable.inputs) add(static_cast<std::int64_t>(input.tensor.bytes() / 4));
  for (const OutputSpec& output : executable.outputs)
    add(static_cast<std::int64_t>(output.tensor.bytes() / 4));
  const poplar::Executable program = ipu_model::DeserialiseContent(executable.poplar_executable);
  for (const ipu_model::Variable& v : program.program()->variables) add(v.num_elements);
  for (const ipu_model::Stream& s : program.program()->streams) add(s.num_elements);
  if (elements > kMaxElements || program.program()->variables.size() > 2000) return false;
  double steps = 0;
  for (const auto& root : program.program()->programs) steps += Steps(*root, *program.program(), 0);
  return steps <= kMaxSteps;
}

}  // namespace

std::string ContentOf(std::string_view executable) {
  return std::string(ipu_model::Unseal(kMagic, executable));
}

Outcome RunContent(std::string_view content) {
  Executable executable;
  try {
    executable = Executable::Deserialize(ipu_model::Seal(kMagic, content));
    if (executable.num_replicas * executable.num_partitions > 4) return Outcome::kTooLarge;
    if (!IsSmall(executable)) return Outcome::kTooLarge;
  } catch (const std::exception&) {
    return Outcome::kRefused;
  }
  const auto replicas = static_cast<std::size_t>(executable.num_replicas * executable.num_partitions);
  std::vector<std::string> arguments;
  for (const InputSpec& input : executable.inputs) arguments.emplace_back(input.tensor.bytes(), '\0');
  const std::size_t colon = executable.target.find(':');
  DeviceConfig config;
  config.version = executable.target.substr(0, colon);
  config.num_tiles = static_cast<unsigned>(std::stoul(executable.target.substr(colon + 1)));
  Outcome outcome = Outcome::kCompleted;
  for (const char* execution : {"fast", "tile"}) {
    config.execution = execution;
    try {
      if (replicas == 1) {
        RunOnce(executable, arguments, config);
      } else {
        RunReplicasOnce(executable, std::vector<std::vector<std::string>>(replicas, arguments), config);
      }
    } catch (const std::exception&) {
      outcome = Outcome::kFailed;
    }
  }
  return outcome;
}

}  // namespace jax_ipu::fuzz
