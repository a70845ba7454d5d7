#include "runtime/device/launch.h"

#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "runtime/recording/trace.h"

namespace jax_ipu {
namespace {

// State shared by the replicas of one launch. Lives until the last replica has ended.
class SharedLaunch {
 public:
  SharedLaunch(unsigned replicas, std::shared_ptr<RemoteLaunch> remote)
      : remote_(std::move(remote)), group_(replicas, remote_.get()), round_(group_) {}

  ipu_model::ReplicaGroup* group() { return &group_; }
  LinkRound* round() { return &round_; }

  template <typename F>
  void RunReplica(unsigned replica, F&& run) {
    try {
      run();
    } catch (const ipu_model::ReplicaMissing& missing) {
      // The replica that left has recorded its error, unless it ended normally.
      Abandon(replica, Error(Code::kInternal, missing.what()));
      const std::lock_guard<std::mutex> lock(mutex_);
      throw Error(*first_error_);
    } catch (const std::exception& exception) {
      const auto* error = dynamic_cast<const Error*>(&exception);
      Abandon(replica, error != nullptr ? *error : Error(Code::kInternal, exception.what()));
      throw;
    }
    group_.Leave(replica);
  }

  // The replica ends, or never starts, because of `error`.
  void Abandon(unsigned replica, const Error& error) {
    std::string reason;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!first_error_) first_error_ = error;
      reason = first_error_->what();
    }
    group_.Leave(replica);
    if (remote_) remote_->Fail(reason);
  }

 private:
  const std::shared_ptr<RemoteLaunch> remote_;
  ipu_model::ReplicaGroup group_;
  LinkRound round_;
  std::mutex mutex_;
  std::optional<Error> first_error_;
};

}  // namespace

std::vector<DeviceRuntime::Results> Launcher::Launch(std::vector<ReplicaCall> calls,
                                                     std::shared_ptr<RemoteLaunch> remote) {
  std::vector<DeviceRuntime::Results> results;
  const std::uint64_t run_id = Trace::IsActive() ? Trace::NextRunId() : 0;
  const auto replicas = remote ? remote->num_replicas() : static_cast<unsigned>(calls.size());
  const bool several = !calls.empty() && replicas > 1;
  // Between processes the replicas do not decide together. One that differs there would wait for ever.
  const bool decides = several && !remote && calls[0].program->asks_others();
  if (!several || !(decides || calls[0].program->executable()->communicates)) {
    for (std::size_t r = 0; r < calls.size(); ++r) {
      results.push_back(calls[r].device->Execute(calls[r].program, std::move(calls[r].arguments), run_id));
    }
    return results;
  }

  auto shared = std::make_shared<SharedLaunch>(replicas, std::move(remote));
  std::vector<DeviceRuntime::Work> work;
  for (std::size_t r = 0; r < calls.size(); ++r) {
    ReplicaCall& call = calls[r];
    results.emplace_back();
    DeviceRuntime::Work run =
        call.device->MakeWork(call.program, std::move(call.arguments), shared->group(), run_id,
                              &results.back(), decides ? shared->round() : nullptr);
    run.run = [shared, replica = call.program->replica(), alone = std::move(run.run)] {
      shared->RunReplica(replica, alone);
    };
    work.push_back(std::move(run));
  }
  // Devices that were shut down have no thread: each of their replicas gets a temporary one.
  std::vector<std::thread> threads;
  {
    const std::lock_guard<std::mutex> lock(order_);
    for (std::size_t r = 0; r < calls.size(); ++r) {
      try {
        if (calls[r].device->TryEnqueue(work[r])) continue;
      } catch (const Error& error) {  // release replicas that are already waiting
        shared->Abandon(calls[r].program->replica(), error);
        work[r].done->Fail(error);
        continue;
      }
      threads.emplace_back([device = calls[r].device, run = std::move(work[r])] { device->Enqueue(run); });
    }
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace jax_ipu
