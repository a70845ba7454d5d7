// Launches over several devices: results, order between threads, failing replicas, shutdown.
#include "runtime/device/launch.h"

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"
#include "testing/fake_program.h"

namespace jax_ipu {
namespace {

using Values = std::vector<float>;

class Machine {
 public:
  explicit Machine(std::size_t devices) : pool_(std::make_shared<HostPool>()) {
    for (std::size_t d = 0; d < devices; ++d) {
      devices_.push_back(std::make_shared<DeviceRuntime>(DeviceConfig(), testing::CreateFakeEngine, pool_));
    }
  }

  struct Loaded {
    std::vector<std::size_t> devices;
    std::vector<std::shared_ptr<LoadedProgram>> programs;
  };
  static Loaded Load(const std::string& text, std::vector<std::size_t> devices) {
    Loaded loaded{std::move(devices), {}};
    const auto executable = testing::CompileFake(text, "ipu2:1472");
    for (unsigned r = 0; r < loaded.devices.size(); ++r)
      loaded.programs.push_back(std::make_shared<LoadedProgram>(executable, r));
    return loaded;
  }

  std::shared_ptr<Array> Put(const Values& values) const {
    auto spec = std::make_shared<TensorSpec>();
    spec->shape = {static_cast<std::int64_t>(values.size())};
    std::shared_ptr<HostBlock> block = HostBlock::Allocate(pool_, spec->bytes());
    std::memcpy(block->data(), values.data(), spec->bytes());
    return std::make_shared<Array>(spec, block, nullptr);
  }
  Values Get(std::size_t device, const std::shared_ptr<Array>& array) {
    const CompletionPtr ready = devices_[device]->FetchToHost(array);
    if (const Error* error = Wait(ready)) throw Error(*error);
    Values values(array->spec().bytes() / sizeof(float));
    std::memcpy(values.data(), array->host()->data(), array->spec().bytes());
    return values;
  }

  // One argument for each replica.
  std::vector<DeviceRuntime::Results> Launch(const Loaded& loaded, const ArrayList& arguments) {
    std::vector<ReplicaCall> calls;
    for (std::size_t r = 0; r < loaded.devices.size(); ++r) {
      const bool donated = loaded.programs[r]->executable()->inputs[0].donated;
      calls.push_back({devices_[loaded.devices[r]], loaded.programs[r], {{arguments[r], donated}}});
    }
    return launcher_.Launch(std::move(calls));
  }
  DeviceRuntime& device(std::size_t d) { return *devices_[d]; }
  void Shutdown() {
    for (const auto& device : devices_) device->Shutdown();
  }

 private:
  const std::shared_ptr<HostPool> pool_;
  std::vector<std::shared_ptr<DeviceRuntime>> devices_;
  Launcher launcher_;
};

const char* const kSum = "partitions 2\nin f32 2\nout f32 2 allreduce 0\n";
const char* const kState = "partitions 2\nin f32 2 alias=0\nout f32 2 allreduce 0\n";

TEST(ReplicasCommunicate) {
  Machine machine(2);
  const auto program = Machine::Load(kSum, {0, 1});
  const auto results = machine.Launch(program, {machine.Put({1, 2}), machine.Put({10, 20})});
  CHECK_EQ(results.size(), std::size_t{2});
  for (std::size_t d = 0; d < 2; ++d) CHECK(machine.Get(d, results[d].outputs[0]) == (Values{11, 22}));
}

TEST(StateStaysOnItsDevice) {
  Machine machine(2);
  const auto program = Machine::Load(kState, {0, 1});
  ArrayList state = {machine.Put({1, 2}), machine.Put({10, 20})};
  for (int step = 0; step < 4; ++step) {
    const auto results = machine.Launch(program, state);
    for (std::size_t d = 0; d < 2; ++d) state[d] = results[d].outputs[0];
  }
  for (std::size_t d = 0; d < 2; ++d) {
    const Counters counters = machine.device(d).counters();
    CHECK_EQ(counters.h2d_bytes, std::uint64_t{8});  // the first state only
    CHECK_EQ(counters.d2h_bytes, std::uint64_t{0});
    CHECK_EQ(counters.runs, std::uint64_t{4});
    CHECK(machine.Get(d, state[d]) == (Values{88, 176}));
  }
}

// Threads launch over overlapping sets of devices in opposite orders: acquiring the devices one by one would
// deadlock.
TEST(OverlappingLaunchesOfSeveralThreads) {
  Machine machine(4);
  const std::vector<std::vector<std::size_t>> sets = {{0, 1}, {1, 0}, {1, 2}, {2, 3}, {3, 0}, {0, 2}};
  std::vector<std::thread> threads;
  std::vector<int> wrong(sets.size(), 0);
  for (std::size_t t = 0; t < sets.size(); ++t) {
    threads.emplace_back([&, t] {
      const auto program = Machine::Load(kSum, sets[t]);
      for (int i = 0; i < 50; ++i) {
        const auto x = static_cast<float>(t), y = static_cast<float>(i);
        const auto results = machine.Launch(program, {machine.Put({x, y}), machine.Put({1, 2})});
        for (std::size_t r = 0; r < 2; ++r)
          if (machine.Get(sets[t][r], results[r].outputs[0]) != Values{x + 1, y + 2}) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(sets.size(), 0));
}

TEST(FailureOfOneReplicaEndsTheOthers) {
  Machine machine(2);
  const auto program = Machine::Load(std::string(kSum) + "fail broken wire\nfailing 1\n", {0, 1});
  const auto results = machine.Launch(program, {machine.Put({1, 2}), machine.Put({10, 20})});
  for (std::size_t d = 0; d < 2; ++d) {
    const Error* error = Wait(results[d].done);
    CHECK(error != nullptr);
    if (error != nullptr) CHECK_EQ(std::string(error->what()), std::string("broken wire"));
  }
  const auto again = machine.Launch(Machine::Load(kSum, {0, 1}), {machine.Put({1, 2}), machine.Put({3, 4})});
  CHECK(machine.Get(0, again[0].outputs[0]) == (Values{4, 6}));
}

TEST(FailedArgumentFailsAllReplicas) {
  Machine machine(2);
  auto bad = machine.Put({1, 2});
  bad->set_ready(Completion::Failed(Error(Code::kInternal, "never came")));
  const auto results = machine.Launch(Machine::Load(kSum, {0, 1}), {bad, machine.Put({10, 20})});
  for (std::size_t d = 0; d < 2; ++d) {
    const Error* error = Wait(results[d].done);
    CHECK(error != nullptr && std::string(error->what()) == "never came");
  }
}

TEST(LaunchAfterShutdown) {
  Machine machine(3);
  const auto program = Machine::Load(kSum, {0, 2});
  const auto before = machine.Launch(program, {machine.Put({1, 2}), machine.Put({10, 20})});
  machine.Shutdown();
  CHECK(machine.Get(0, before[0].outputs[0]) == (Values{11, 22}));
  const auto after = machine.Launch(program, {machine.Put({1, 1}), machine.Put({2, 2})});
  CHECK(machine.Get(2, after[1].outputs[0]) == (Values{3, 3}));
}

TEST(ReplicaThatNeverComes) {
  ipu_model::ReplicaGroup group(2);
  bool missed = false;
  std::thread waiting([&] {
    const float value = 0;
    try {
      group.Gather(0, 0, &value, sizeof(value), [](const std::vector<const void*>&) {});
    } catch (const ipu_model::ReplicaMissing&) {
      missed = true;
    }
  });
  group.Leave(1);
  waiting.join();
  CHECK(missed);
}

}  // namespace
}  // namespace jax_ipu
