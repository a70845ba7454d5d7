// DeviceEngine over poplar::Engine.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "hlo/Expansion.hpp"
#include "hlo/Library.hpp"
#include "ipu_model/Model.hpp"
#include "ipu_model/Stored.hpp"
#include "ipu_model/Timeline.hpp"
#include "poplar/Device.hpp"
#include "poplar/Engine.hpp"
#include "poplar/Executable.hpp"
#include "poplar/exceptions.hpp"
#include "runtime/device/device_engine.h"
#include "runtime/executable/executable_checks.h"
#include "runtime/host_calls/ffi_calls.h"
#include "runtime/host_calls/host_callbacks.h"

namespace jax_ipu {
namespace {

// Calls into Poplar, and gives its exceptions the status codes of PJRT.
template <typename F>
auto CallPoplar(F&& f) {
  try {
    return f();
  } catch (const poplar::graph_memory_allocation_error& error) {
    throw Error(Code::kResourceExhausted, error.what());
  } catch (const poplar::application_runtime_error& error) {
    throw Error(Code::kAborted, error.what());
  } catch (const poplar::poplar_error& error) {
    throw Error(Code::kInternal, error.what());
  } catch (const hlo::NotExpanded& error) {
    throw Error(Code::kUnimplemented, error.what());
  }
}

poplar::Executable ReadExecutable(const Executable& executable) {
  const auto refuse = [&executable](const std::string& reason) {
    return Error(Code::kInvalidArgument, "The Poplar program of '" + executable.name +
                                             "' cannot be used: " + reason + ". Compile the program again.");
  };
  try {
    poplar::Executable program = ipu_model::DeserialiseContent(executable.poplar_executable);
    const std::optional<ipu_model::ProgramInterface> interface = ipu_model::InterfaceOf(program);
    const bool is_described = interface && !executable.is_linked;
    const std::string problem = is_described ? FindProblem(executable, *interface) : "";
    if (problem.empty()) return program;
    throw refuse(problem);
  } catch (const poplar::poplar_error& error) {
    throw refuse(error.what());
  }
}

poplar::Device CreateDevice(const DeviceConfig& config) {
  try {
    return ipu_model::DeviceOf(config.version, config.num_tiles, config.use_model);
  } catch (const poplar::poplar_error& error) {
    if (config.use_model) throw;
    throw Error(Code::kUnimplemented, error.what());
  }
}

void FillWithZeros(const std::vector<void*>& outputs, const std::vector<std::uint64_t>& bytes) {
  for (std::size_t i = 0; i < outputs.size(); ++i) std::memset(outputs[i], 0, bytes.at(i));
}

class PoplarEngine : public DeviceEngine {
 public:
  PoplarEngine(const Executable& executable, const DeviceConfig& config)
      : program_(ReadExecutable(executable)),
        engine_(program_, ipu_model::OptionsOfEngine(config.execution)),
        device_(CreateDevice(config)),
        synthetic_data_(config.synthetic_data) {
    if (const auto interface = ipu_model::InterfaceOf(program_)) {
      for (const auto& buffer : interface->remote_buffers) remote_buffers_.insert(buffer.name);
    }
    if (config.execution == "codelets") ipu_model::RunExpansions(engine_, hlo::library());
    for (const HostCallbackSpec& callback : executable.host_callbacks) {
      CallPoplar([&] {
        engine_.connectHostFunction("callback" + std::to_string(callback.id), 0,
                                    [this, callback](const auto& in, const auto& out) {
                                      if (synthetic_data_) return FillWithZeros(out, callback.output_bytes);
                                      Call(callback, in, out);
                                    });
      });
    }
  }

  void Load() override {
    CallPoplar([this] { engine_.load(device_); });
  }
  bool HasStream(const std::string& name) const override {
    for (const std::string& stream : engine_.listStreams()) {  // with a direction sign at the end
      if (stream.compare(0, stream.size() - 1, name) == 0) return true;
    }
    return false;
  }
  int StreamIndex(const std::string& name) const override {
    return CallPoplar([&] { return ipu_model::StreamNumber(engine_, name); });
  }
  void ConnectStream(int stream, void* host) override { ipu_model::ConnectStream(engine_, stream, host); }
  bool HasRemoteBuffer(const std::string& name) const override { return remote_buffers_.count(name) != 0; }
  void ConnectRemoteBuffer(const std::string& name, void* host) override {
    CallPoplar([&] { ipu_model::ConnectRemoteBuffer(engine_, name, host); });
    connected_.push_back(name);
  }
  // The memory of arguments and results is the caller's again when main has run.
  void DisconnectRemoteBuffers() override {
    for (const std::string& name : connected_) ipu_model::ConnectRemoteBuffer(engine_, name, nullptr);
    connected_.clear();
  }
  void ConnectFfiCalls(FfiCalls& calls, int device_ordinal) override {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      CallPoplar([&] {
        engine_.connectHostFunction(
            "ffi" + std::to_string(i), 0,
            [this, &call = calls[i], device_ordinal](const auto& in, const auto& out) {
              if (synthetic_data_) return call.FillWithZeros(out);
              host_calls_.d2h_bytes += call.input_bytes();
              host_calls_.h2d_bytes += call.output_bytes();
              call.Call(in, out, device_ordinal, num_runs_);
            });
      });
    }
  }
  void SetReplica(const ipu_model::Replica& replica) override { ipu_model::SetReplica(engine_, replica); }
  void SetCancellation(const std::atomic<bool>* cancelled, std::function<void()> poll) override {
    ipu_model::SetCancellation(engine_, cancelled, std::move(poll));
  }
  void Run(int program) override {
    host_calls_ = {};
    ++num_runs_;
    const ipu_model::RemoteTraffic before = ipu_model::RemoteTrafficOf(engine_);
    CallPoplar([this, program] { engine_.run(static_cast<unsigned>(program)); });
    if (synthetic_data_) return;
    const ipu_model::RemoteTraffic after = ipu_model::RemoteTrafficOf(engine_);
    host_calls_.h2d_bytes += after.bytes_read - before.bytes_read;
    host_calls_.d2h_bytes += after.bytes_written - before.bytes_written;
  }
  std::uint64_t LastRunCycles() const override { return ipu_model::LastRunCycles(engine_); }

  HostCallTraffic LastHostCalls() const override { return host_calls_; }
  std::shared_ptr<const ipu_model::Timeline> timeline(int main) override {
    std::shared_ptr<const ipu_model::Timeline>& timeline = timelines_[main];
    if (!timeline) timeline = ipu_model::MakeTimeline(program_, static_cast<unsigned>(main));
    return timeline;
  }
  std::vector<ipu_model::LoopRun> LastRunLoops() const override { return ipu_model::LastRunLoops(engine_); }

 private:
  void Call(const HostCallbackSpec& callback, const std::vector<const void*>& inputs,
            const std::vector<void*>& outputs) {
    std::vector<HostCallbacks::Input> in;
    std::vector<HostCallbacks::Output> out;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      in.push_back({inputs[i], callback.input_bytes.at(i)});
      host_calls_.d2h_bytes += callback.input_bytes[i];
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      out.push_back({outputs[i], callback.output_bytes.at(i)});
      host_calls_.h2d_bytes += callback.output_bytes[i];
    }
    HostCallbacks::Get().Call(callback.id, in, out);
  }

  const poplar::Executable program_;
  poplar::Engine engine_;
  std::map<int, std::shared_ptr<const ipu_model::Timeline>> timelines_;  // each made for its first trace
  HostCallTraffic host_calls_;
  std::int64_t num_runs_ = 0;
  std::set<std::string> remote_buffers_;
  std::vector<std::string> connected_;  // of these
  const poplar::Device device_;
  const bool synthetic_data_;  // host functions are not called
};

}  // namespace

std::unique_ptr<DeviceEngine> CreatePoplarEngine(const Executable& executable, const DeviceConfig& config) {
  return CallPoplar([&] { return std::make_unique<PoplarEngine>(executable, config); });
}

namespace {

// Programs without such operations are read when they run.
bool HasCodelets(const Executable& executable) {
  return executable.poplar_executable.find("poplar::execute") != std::string::npos;
}

}  // namespace

void CompileCodelets(const Executable& executable) {
  if (!HasCodelets(executable)) return;
  try {
    ipu_model::DeserialiseContent(executable.poplar_executable, true);
  } catch (const poplar::poplar_error& error) {
    throw Error(Code::kInvalidArgument, "The codelets of '" + executable.name +
                                            "' cannot be compiled in this process: " + error.what());
  }
}

void CheckCodelets(const Executable& executable) {
  if (!HasCodelets(executable)) return;
  try {
    ipu_model::DeserialiseContent(executable.poplar_executable);
  } catch (const poplar::poplar_error& error) {
    throw Error(Code::kInvalidArgument, "The stored program '" + executable.name + "' cannot be loaded: " +
                                            error.what() + ". Compile it again in this process.");
  }
}

}  // namespace jax_ipu
