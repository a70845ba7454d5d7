// The process's one registry.
#include "runtime/registry.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/environment.h"
#include "runtime/fork.h"
#include "runtime/interrupt.h"

namespace jax_ipu {
namespace {

class ProcessRegistry : public Registry {
 public:
  std::atomic<bool> exiting{false};
  std::thread::id exiting_thread;  // written before `exiting`

  std::atomic<bool> reads_guarded{false};

  // A thread's own setting goes before the process's.
  static std::optional<bool>& ReadsGuardedHere() {
    thread_local std::optional<bool> guarded;
    return guarded;
  }

  static ProcessRegistry& Instance() {
    // Never destroyed: the compiler may hold a Python object, and the interpreter ends before static objects
    // do.
    static ProcessRegistry& registry = *std::make_unique<ProcessRegistry>().release();
    return registry;
  }

  void SetCompiler(Compiler compiler) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    compiler_ = std::move(compiler);
  }
  Compiler GetCompiler() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return compiler_;
  }
  void SetDeviceConfig(DeviceConfig config) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    config_ = std::move(config);
  }
  DeviceConfig GetDeviceConfig() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return config_ ? *config_ : ConfigFromEnvironment();
  }
  void SetFactory(ProgramFactory factory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    factory_ = std::move(factory);
  }
  ProgramFactory GetFactory() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!factory_) throw Error(Code::kFailedPrecondition, "SetProgramFactory was not called");
    return factory_;
  }
  void SetExchange(ProcessExchange exchange) {
    const std::lock_guard<std::mutex> lock(mutex_);
    exchange_ = std::move(exchange);
  }
  ProcessExchange GetExchange() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return exchange_;
  }
  void SetInterruptCheck(std::function<bool()> check) {
    const std::lock_guard<std::mutex> lock(mutex_);
    interrupt_check_ = std::move(check);
  }
  std::function<bool()> GetInterruptCheck() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return interrupt_check_;
  }
  void SetDevice(int id, std::weak_ptr<DeviceRuntime> device) {
    const std::lock_guard<std::mutex> lock(mutex_);
    alive_.erase(std::remove_if(alive_.begin(), alive_.end(), [](const auto& d) { return d.expired(); }),
                 alive_.end());
    alive_.push_back(device);
    devices_[id] = std::move(device);
  }
  // Those of clients that have been replaced, too, as long as someone uses them.
  std::vector<std::shared_ptr<DeviceRuntime>> Devices() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::shared_ptr<DeviceRuntime>> devices;
    for (const std::weak_ptr<DeviceRuntime>& device : alive_) devices.push_back(device.lock());
    return devices;
  }
  std::shared_ptr<DeviceRuntime> FindDevice(int id) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = devices_.find(id);
    return found == devices_.end() ? nullptr : found->second.lock();
  }

 private:
  mutable std::mutex mutex_;
  Compiler compiler_;
  std::optional<DeviceConfig> config_;
  ProgramFactory factory_;
  ProcessExchange exchange_;
  std::function<bool()> interrupt_check_;
  std::map<int, std::weak_ptr<DeviceRuntime>> devices_;  // the newest of every id
  std::vector<std::weak_ptr<DeviceRuntime>> alive_;
};

}  // namespace

Registry& Registry::Get() { return ProcessRegistry::Instance(); }

void SetProgramFactory(ProgramFactory factory) { ProcessRegistry::Instance().SetFactory(std::move(factory)); }
ProgramFactory GetProgramFactory() { return ProcessRegistry::Instance().GetFactory(); }
void SetProcessExchange(ProcessExchange exchange) {
  ProcessRegistry::Instance().SetExchange(std::move(exchange));
}
ProcessExchange GetProcessExchange() { return ProcessRegistry::Instance().GetExchange(); }
void RegisterDevice(int device_id, std::weak_ptr<DeviceRuntime> device) {
  ProcessRegistry::Instance().SetDevice(device_id, std::move(device));
}

Counters ReadCounters(int device_id) {
  RefuseInForkedChild();
  if (const std::shared_ptr<DeviceRuntime> device = ProcessRegistry::Instance().FindDevice(device_id)) {
    return device->counters();
  }
  throw Error(Code::kNotFound, "There is no IPU device with id " + std::to_string(device_id) +
                                   ". Call jax.devices('ipu') to create the devices and see their ids.");
}

void GuardReads(bool guarded) { ProcessRegistry::Instance().reads_guarded.store(guarded); }
void GuardReadsOfThread(std::optional<bool> guarded) { ProcessRegistry::ReadsGuardedHere() = guarded; }
bool AreReadsGuarded() {
  return ProcessRegistry::ReadsGuardedHere().value_or(
      ProcessRegistry::Instance().reads_guarded.load(std::memory_order_relaxed));
}

void SetInterruptCheck(std::function<bool()> check) {
  ProcessRegistry::Instance().SetInterruptCheck(std::move(check));
}
bool IsInterrupted() {
  const std::function<bool()> check = ProcessRegistry::Instance().GetInterruptCheck();
  return check && check();
}
void CancelRuns() {
  for (const std::shared_ptr<DeviceRuntime>& device : ProcessRegistry::Instance().Devices()) {
    if (device) device->Cancel(std::this_thread::get_id());
  }
}

void ParkIfExiting() {
  const ProcessRegistry& registry = ProcessRegistry::Instance();
  if (!registry.exiting.load(std::memory_order_acquire)) return;
  if (std::this_thread::get_id() == registry.exiting_thread) return;
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

void FinishWork() {
  if (IsForkedChild()) return;  // the work is the parent's
  for (const std::shared_ptr<DeviceRuntime>& device : ProcessRegistry::Instance().Devices()) {
    if (device) device->Finish();
  }
}

void PrepareExit() {
  if (IsForkedChild()) return;
  ProcessRegistry& registry = ProcessRegistry::Instance();
  registry.exiting_thread = std::this_thread::get_id();
  registry.exiting.store(true, std::memory_order_release);
  for (const std::shared_ptr<DeviceRuntime>& device : registry.Devices()) {
    if (device) device->Shutdown();
  }
  // Threads that wait for the GIL on their way out of the plugin get it now, and park at their next call.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

}  // namespace jax_ipu
