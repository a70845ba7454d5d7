// Running an executable: checks and donates the arguments, wraps the results.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "pjrt/abi/entry.h"
#include "pjrt/buffers/buffer.h"
#include "pjrt/client/client.h"
#include "pjrt/executables/loaded_executable.h"
#include "runtime/device/interrupt.h"
#include "runtime/host_calls/host_callbacks.h"

namespace jax_ipu::pjrt {
namespace {

// Takes the arguments out of their buffers, and puts donated ones back unless the call is committed.
class ArgumentTransaction {
 public:
  // `instance` counts the partitions of all replicas.
  ArgumentTransaction(const Executable& executable, unsigned instance, PJRT_Buffer* const* buffers,
                      const PJRT_ExecuteOptions* options)
      : executable_(executable),
        replica_(std::to_string(instance / static_cast<unsigned>(executable.num_partitions))),
        partition_(std::to_string(instance % static_cast<unsigned>(executable.num_partitions))),
        buffers_(buffers),
        options_(options) {
    arguments_.reserve(executable.inputs.size());
  }
  ~ArgumentTransaction() {
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      if (arguments_[i].donated) buffers_[i]->PutBack(std::move(arguments_[i].array));
    }
  }
  ArgumentTransaction(const ArgumentTransaction&) = delete;
  ArgumentTransaction& operator=(const ArgumentTransaction&) = delete;

  void TakeAll(const PJRT_Device* device) {
    for (std::size_t i = 0; i < executable_.inputs.size(); ++i) TakeOne(i, device);
    if (num_donated_ > 0) CheckUsedOnce();
  }
  // Converts arguments to the program's layout by a copy: a client may not know that layout.
  std::vector<Argument> Commit() {
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      const DimensionOrder& order = executable_.inputs[i].major_to_minor;
      if (buffers_[i]->order != order)
        rearranged_.emplace_back(i, Rearranged(*buffers_[i], arguments_[i].array, order));
    }
    for (auto& [i, array] : rearranged_) arguments_[i].array = std::move(array);
    return std::exchange(arguments_, {});
  }

 private:
  void TakeOne(std::size_t i, const PJRT_Device* device) {
    const InputSpec& input = executable_.inputs[i];
    PJRT_Buffer& buffer = *buffers_[i];
    const bool donated = input.donated && IsDonatable(i);
    std::shared_ptr<Array> array = donated ? buffer.Take() : buffer.Get();
    if (!array) ThrowMissing(i, donated);
    arguments_.push_back({std::move(array), donated});
    num_donated_ += donated ? 1 : 0;
    if (buffer.device.get() != device) {
      throw Error(Code::kInvalidArgument, "Buffer passed to Execute() as argument " + std::to_string(i) +
                                              " to replica " + replica_ + " is on device " +
                                              buffer.device->description->to_string +
                                              ", but replica is assigned to device " +
                                              device->description->to_string + "." + Named(i));
    }
    if (buffer.spec->bytes() != input.tensor.bytes()) {
      throw Error(Code::kInvalidArgument, "Executable expected parameter " + std::to_string(i) + " of size " +
                                              std::to_string(input.tensor.bytes()) +
                                              " but got buffer with incompatible size " +
                                              std::to_string(buffer.spec->bytes()) + "." + Named(i));
    }
    if (buffer.spec->type != input.tensor.type) {
      throw Error(Code::kInvalidArgument, "Executable expected parameter " + std::to_string(i) + " of type " +
                                              ipu_model::NameOf(input.tensor.type) +
                                              " but got buffer of type " +
                                              ipu_model::NameOf(buffer.spec->type) + "." + Named(i));
    }
    if (buffer.order != input.major_to_minor &&
        buffer.spec->shape != FromMemory(input.tensor.shape, input.major_to_minor)) {
      throw Error(Code::kInvalidArgument, "Executable expected parameter " + std::to_string(i) +
                                              " of another shape than the buffer's, in another layout." +
                                              Named(i));
    }
  }

  // Where an array is used twice, for messages.
  std::string Place(std::size_t argument, std::size_t first) const {
    const std::string &name = executable_.inputs[argument].name, &other = executable_.inputs[first].name;
    const std::string names = name.empty() ? "" : " It is " + name + " and " + other + ".";
    return " (flattened argument " + std::to_string(argument) + ", replica " + replica_ + ", partition " +
           partition_ + ", first use: " + std::to_string(first) + ")." + names +
           " Toy example for this bug: ";
  }

  // What the caller calls the argument, as a sentence after a message that is worded as XLA's.
  std::string Named(std::size_t i) const {
    const std::string& name = executable_.inputs[i].name;
    return name.empty() ? "" : " It is the argument " + name + " of " + executable_.name + ".";
  }

  bool IsDonatable(std::size_t i) const {
    if (options_ == nullptr || options_->num_non_donatable_input_indices == 0) return true;
    const std::int64_t* begin = options_->non_donatable_input_indices;
    const std::int64_t* end = begin + options_->num_non_donatable_input_indices;
    return std::find(begin, end, static_cast<std::int64_t>(i)) == end;
  }

  [[noreturn]] void ThrowMissing(std::size_t i, bool donated) const {
    for (std::size_t first = 0; first < i; ++first) {
      if (buffers_[first] != buffers_[i]) continue;
      if (donated) {
        throw Error(Code::kInvalidArgument, "Attempt to donate the same buffer twice in Execute()" +
                                                Place(i, first) + "`f(donate(a), donate(a))`.");
      }
      throw Error(Code::kInvalidArgument,
                  "Attempt to use a buffer that was previously donated in the same call to Execute()" +
                      Place(i, first) + "`f(donate(a), a)`.");
    }
    throw Error(Code::kInvalidArgument,
                "Invalid buffer passed to Execute() as argument " + std::to_string(i) + " to replica " +
                    replica_ + ": INVALID_ARGUMENT: Buffer has been deleted or donated." + Named(i));
  }

  // Detects a buffer that is passed as a plain argument and, later in the list, as a donated one.
  void CheckUsedOnce() const {
    std::vector<std::pair<const Array*, std::size_t>> uses;
    uses.reserve(arguments_.size());
    for (std::size_t i = 0; i < arguments_.size(); ++i) uses.emplace_back(arguments_[i].array.get(), i);
    std::sort(uses.begin(), uses.end());
    for (std::size_t k = 1; k < uses.size(); ++k) {
      const std::size_t first = uses[k - 1].second, second = uses[k].second;
      if (uses[k - 1].first != uses[k].first || !arguments_[second].donated) continue;
      throw Error(Code::kInvalidArgument,
                  "Attempt to donate a buffer which is also used by the same call to Execute()" +
                      Place(second, first) + "`f(a, donate(a))`.");
    }
  }

  const Executable& executable_;
  const std::string replica_, partition_;
  PJRT_Buffer* const* const buffers_;
  const PJRT_ExecuteOptions* const options_;
  std::vector<Argument> arguments_;
  std::vector<std::pair<std::size_t, std::shared_ptr<Array>>> rearranged_;
  std::size_t num_donated_ = 0;
};

// The call itself raises the errors of callbacks, as on JAX's CPU backend. Otherwise a caller that reads no
// result would miss the error, and jax.effects_barrier would raise it again each time.
void AwaitAll(const std::vector<DeviceRuntime::Results>& results) {
  const Error* first = nullptr;
  HostCallbacks::Get().Wait([&] {
    for (const DeviceRuntime::Results& result : results) {
      while (result.done && !result.done->WaitFor(std::chrono::milliseconds(50))) {
        if (!IsInterrupted()) continue;
        CancelRuns();
        throw Error(Code::kCancelled,
                    "The run was cancelled by an interrupt (Ctrl-C). It has no results, and the arrays that "
                    "were donated to it are deleted");
      }
      const Error* error = Wait(result.done);
      if (first == nullptr) first = error;
    }
  });
  if (first != nullptr) throw Error(*first);
}

}  // namespace

std::vector<CompletionPtr> ExecuteAll(const PJRT_LoadedExecutable& loaded,
                                      const std::vector<PJRT_LoadedExecutable::Instance>& instances,
                                      PJRT_Buffer* const* const* arguments, std::size_t num_arguments,
                                      const PJRT_ExecuteOptions* options, PJRT_Buffer** const* outputs) {
  const Executable& executable = *loaded.executable;
  if (num_arguments != executable.inputs.size()) {
    throw Error(Code::kInvalidArgument, "Execution supplied " + std::to_string(num_arguments) +
                                            " buffers but compiled program expected " +
                                            std::to_string(executable.inputs.size()) + " buffers");
  }
  std::deque<ArgumentTransaction> transactions;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    transactions.emplace_back(executable, instances[i].program->replica(),
                              arguments == nullptr ? nullptr : arguments[i], options);
    transactions.back().TakeAll(instances[i].device.get());
  }
  std::vector<ReplicaCall> calls;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    const PJRT_LoadedExecutable::Instance& on = instances[i];
    calls.push_back({on.device->runtime, on.program, transactions[i].Commit()});
  }
  std::vector<CompletionPtr> done;
  std::vector<DeviceRuntime::Results> results =
      loaded.client->launcher.Launch(std::move(calls), loaded.remote);
  if (executable.calls_host()) AwaitAll(results);
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (std::size_t j = 0; j < results[i].outputs.size(); ++j) {
      const MemoryKind kind =
          executable.outputs[j].in_host_memory ? MemoryKind::kPinnedHost : MemoryKind::kDevice;
      outputs[i][j] = MakeBuffer(instances[i].device, kind, loaded.output_types[j],
                                 std::move(results[i].outputs[j]), executable.outputs[j].major_to_minor);
    }
    done.push_back(std::move(results[i].done));
  }
  return done;
}

}  // namespace jax_ipu::pjrt
