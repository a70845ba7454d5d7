#include "runtime/device/run_once.h"

#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "ipu_model/Model.hpp"
#include "runtime/device/device_engine.h"
#include "runtime/host_calls/ffi_calls.h"

namespace jax_ipu {
namespace {

void Connect(DeviceEngine& engine, const std::string& stream, std::string& bytes) {
  if (bytes.empty()) return;  // tensors without elements have no stream
  if (engine.HasRemoteBuffer(stream)) return engine.ConnectRemoteBuffer(stream, bytes.data());
  engine.ConnectStream(engine.StreamIndex(stream), bytes.data());
}

std::vector<std::string> Run(const Executable& executable, std::vector<std::string> arguments,
                             const DeviceConfig& config, const ipu_model::Replica& replica) {
  const std::vector<InputSpec>& inputs = executable.inputs;
  if (arguments.size() != inputs.size())
    throw Error(Code::kInvalidArgument, executable.name + " takes " + std::to_string(inputs.size()) +
                                            " arguments, not " + std::to_string(arguments.size()));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (arguments[i].size() != inputs[i].tensor.bytes())
      throw Error(Code::kInvalidArgument,
                  "argument " + (inputs[i].name.empty() ? std::to_string(i) : inputs[i].name) + " of " +
                      executable.name + " has " + std::to_string(inputs[i].tensor.bytes()) + " bytes, not " +
                      std::to_string(arguments[i].size()));

  FfiCalls ffi_calls(executable.ffi_calls);
  const std::unique_ptr<DeviceEngine> engine = CreatePoplarEngine(executable, config);
  engine->ConnectFfiCalls(ffi_calls, static_cast<int>(replica.index));
  engine->Load();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].write_program >= 0) {
      Connect(*engine, "state" + std::to_string(i), arguments[i]);
      engine->Run(inputs[i].write_program);
    } else if (inputs[i].used) {
      Connect(*engine, "in" + std::to_string(i), arguments[i]);
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
      Connect(*engine, "out" + std::to_string(j), results[j]);
  }
  Seed seed = FirstSeed(replica.index);
  if (engine->HasStream(kSeedStream)) {
    engine->ConnectStream(engine->StreamIndex(kSeedStream), seed.data());
  }
  engine->SetReplica(replica);
  engine->Run(executable.main_program);
  for (std::size_t j = 0; j < executable.outputs.size(); ++j) {
    const int input = executable.outputs[j].aliased_input;
    if (input < 0) continue;
    Connect(*engine, "state" + std::to_string(input) + ".out", results[j]);
    engine->Run(inputs[static_cast<std::size_t>(input)].read_program);
  }
  return results;
}

}  // namespace

std::vector<std::string> RunOnce(const Executable& executable, std::vector<std::string> arguments,
                                 const DeviceConfig& config) {
  return Run(executable, std::move(arguments), config, {});
}

std::vector<std::vector<std::string>> RunReplicasOnce(const Executable& executable,
                                                      std::vector<std::vector<std::string>> arguments,
                                                      const DeviceConfig& config) {
  const auto n = static_cast<unsigned>(arguments.size());
  ipu_model::ReplicaGroup group(n);
  std::vector<std::vector<std::string>> results(n);
  std::mutex mutex;
  std::exception_ptr error;  // of the first replica that failed; the others fail because it left
  std::vector<std::thread> threads;
  for (unsigned r = 0; r < n; ++r) {
    threads.emplace_back([&, r] {
      try {
        results[r] = Run(executable, std::move(arguments[r]), config, {&group, r});
      } catch (const std::exception&) {
        const std::lock_guard<std::mutex> lock(mutex);
        if (!error) error = std::current_exception();
      }
      group.Leave(r);
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
  return results;
}

}  // namespace jax_ipu
