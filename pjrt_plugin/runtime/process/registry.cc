// The process's one registry.
#include "runtime/process/registry.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/device/interrupt.h"
#include "runtime/process/environment.h"
#include "runtime/process/fork.h"

namespace jax_ipu {
namespace {

// Whether a thread of this process has a processor or waits for one.
bool IsRunnable(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  const std::string stat(std::istreambuf_iterator<char>(file), {});
  // The state follows the name, which is in parentheses.
  const std::size_t end = stat.rfind(')');
  return end != std::string::npos && stat.compare(end, 3, ") R") == 0;
}

class ProcessRegistry : public Registry {
 public:
  std::atomic<bool> exiting{false};
  std::thread::id exiting_thread;  // written before `exiting`

  std::atomic<bool> reads_guarded{false};

  // A thread's own setting takes precedence over the process's.
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

  // Marks the calling thread as one that runs programs, until it ends.
  void MarkCaller() {
    struct Caller {
      Caller() { Instance().AddCaller(gettid()); }
      ~Caller() { Instance().RemoveCaller(gettid()); }
    };
    thread_local const Caller caller;
  }
  void RemoveCaller(pid_t thread) {
    if (IsForkedChild()) return;  // a thread of the parent may hold the lock for ever
    const std::lock_guard<std::mutex> lock(mutex_);
    callers_.erase(thread);
  }
  // Waits until every other thread that runs programs has parked, has ended, or waits for something that has
  // nothing to do with the plugin.
  void AwaitCallers() {
    constexpr std::chrono::milliseconds kInterval(10);
    constexpr int kQuietIntervals = 5, kMaxIntervals = 500;
    RemoveCaller(gettid());
    int quiet = 0;
    for (int i = 0; i < kMaxIntervals && quiet < kQuietIntervals; ++i) {
      std::set<pid_t> callers;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        callers = callers_;
      }
      if (callers.empty()) return;
      quiet = std::any_of(callers.begin(), callers.end(), IsRunnable) ? 0 : quiet + 1;
      std::this_thread::sleep_for(kInterval);
    }
  }

  void SetCompiler(Compiler compiler) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    compiler_ = std::move(compiler);
  }
  Compiler GetCompiler() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return compiler_;
  }
  void SetLinker(Linker linker) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    linker_ = std::move(linker);
  }
  Linker GetLinker() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return linker_;
  }
  void SetDeviceConfig(DeviceConfig config) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    config_ = std::move(config);
  }
  DeviceConfig GetDeviceConfig() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return config_ ? *config_ : ConfigFromEnvironment();
  }
  void SetFactory(EngineFactory factory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    factory_ = std::move(factory);
  }
  EngineFactory GetFactory() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!factory_) throw Error(Code::kFailedPrecondition, "SetEngineFactory was not called");
    return factory_;
  }
  void SetCheck(LoadCheck check) {
    const std::lock_guard<std::mutex> lock(mutex_);
    load_check_ = std::move(check);
  }
  LoadCheck GetCheck() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return load_check_;
  }
  void SetTransport(ProcessTransport transport) {
    const std::lock_guard<std::mutex> lock(mutex_);
    transport_ = std::move(transport);
  }
  ProcessTransport GetTransport() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return transport_;
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
  // Includes the devices of replaced clients, as long as they are in use.
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
  void AddCaller(pid_t thread) {
    const std::lock_guard<std::mutex> lock(mutex_);
    callers_.insert(thread);
  }

  mutable std::mutex mutex_;
  std::set<pid_t> callers_;  // threads that have run programs, and have neither parked nor ended
  Compiler compiler_;
  Linker linker_;
  std::optional<DeviceConfig> config_;
  EngineFactory factory_;
  LoadCheck load_check_;
  ProcessTransport transport_;
  std::function<bool()> interrupt_check_;
  std::map<int, std::weak_ptr<DeviceRuntime>> devices_;  // the newest of every id
  std::vector<std::weak_ptr<DeviceRuntime>> alive_;
};

}  // namespace

Registry& Registry::Get() { return ProcessRegistry::Instance(); }

void SetEngineFactory(EngineFactory factory) { ProcessRegistry::Instance().SetFactory(std::move(factory)); }
EngineFactory GetEngineFactory() { return ProcessRegistry::Instance().GetFactory(); }
void SetLoadCheck(LoadCheck check) { ProcessRegistry::Instance().SetCheck(std::move(check)); }
void CheckLoaded(const Executable& executable) {
  if (const LoadCheck check = ProcessRegistry::Instance().GetCheck()) check(executable);
}
void SetProcessTransport(ProcessTransport transport) {
  ProcessRegistry::Instance().SetTransport(std::move(transport));
}
ProcessTransport GetProcessTransport() { return ProcessRegistry::Instance().GetTransport(); }
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
  ProcessRegistry& registry = ProcessRegistry::Instance();
  registry.MarkCaller();
  if (!registry.exiting.load(std::memory_order_acquire)) return;
  if (std::this_thread::get_id() == registry.exiting_thread) return;
  registry.RemoveCaller(gettid());
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
  registry.AwaitCallers();
}

}  // namespace jax_ipu
