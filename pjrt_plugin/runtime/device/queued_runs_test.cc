// Runs that are queued: their order, errors, waits, and threads that share a device.
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"
#include "runtime/device/device_runtime.h"
#include "testing/counted_device.h"

namespace jax_ipu {
namespace {

using namespace testing;

TEST(QueuedRunsKeepTheirOrder) {
  Device device;
  const auto step = Compile(kQueued + "sleep 1\n" + kStep), other = Compile(kOther);
  const auto value = device.Put({1, 1, 1, 1});
  std::shared_ptr<Array> state = device.Put({0, 0, 0, 0});
  ArrayList others;
  for (int i = 0; i < 20; ++i) {
    state = device.Run(step, {std::move(state), value})[0];
    if (i % 5 == 0) others.push_back(device.Run(other, {device.Put({1, static_cast<float>(i)})})[0]);
  }
  CHECK(Equal(device.Get(state), {20, 20, 20, 20}));
  for (std::size_t k = 0; k < others.size(); ++k) {
    CHECK(Equal(device.Get(others[k]), {2, static_cast<float>(5 * k + 1)}));
  }
}

// A read that is requested before the next call donates the array gets the value before that call.
TEST(MemoryOfDroppedResultsIsFreeWhenTheirRunIsDone) {
  Device device;
  const auto program = Compile(kQueued + kOther);
  const auto x = device.Put({1, 2});
  const void* first = nullptr;
  for (int i = 0; i < 50; ++i) {
    DeviceRuntime::Results results = device.Execute(program, {x});
    const void* data = results.outputs[0]->host()->data();
    if (i == 0) first = data;
    CHECK(data == first);
    results.outputs.clear();
    CHECK(Wait(results.done) == nullptr);
  }
}

TEST(ReadBeforeDonationSeesTheOldValue) {
  Device device;
  const auto step = Compile(kQueued + "sleep 5\n" + kStep);
  const auto value = device.Put({1, 1, 1, 1});
  std::shared_ptr<Array> state = device.Run(step, {device.Put({0, 0, 0, 0}), value})[0];
  const std::shared_ptr<Array> old = state;
  const CompletionPtr read = device.runtime().FetchToHost(old);
  state = device.Run(step, {std::move(state), value})[0];
  CHECK(Wait(read) == nullptr);
  CHECK_EQ(static_cast<const float*>(old->host()->data())[0], 1.0f);
  CHECK(Equal(device.Get(state), {2, 2, 2, 2}));
}

std::string ErrorOf(Device& device, const std::shared_ptr<Array>& array) {
  try {
    device.Get(array);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(ErrorsReachEveryDependentResult) {
  for (const std::string& cost : {std::string(), kQueued}) {
    Device device;
    const auto good = Compile(cost + kStep), bad = Compile(cost + "fail boom\n" + kStep);
    const auto value = device.Put({1, 1, 1, 1});
    const DeviceRuntime::Results failed = device.Execute(bad, {device.Put({0, 0, 0, 0}), value});
    CHECK(Wait(failed.done) != nullptr);
    const ArrayList chained = device.Run(good, {failed.outputs[0], failed.outputs[1]});
    const ArrayList chained_again = device.Run(good, {chained[0], value});
    for (const std::shared_ptr<Array>& array :
         {failed.outputs[0], failed.outputs[1], chained[0], chained[1], chained_again[1]}) {
      CHECK_EQ(ErrorOf(device, array), "boom");
    }
    // The device is still usable.
    CHECK(Equal(device.Get(device.Run(good, {device.Put({1, 1, 1, 1}), value})[0]), {2, 2, 2, 2}));
  }
}

TEST(CallersThatWaitAtOnceRunTheProgramThemselves) {
  Device device, one_of_several(/*is_only_device=*/false);
  // How many of `calls` run on the calling thread. `wait`: the caller waits for each result.
  const auto runs_here = [](Device& device, const std::string& cost, int calls, bool wait) {
    const auto x = device.Put({1, 2});
    const auto program = Compile(cost + kOther);
    int here = 0;
    for (int i = 0; i < calls; ++i) {
      const DeviceRuntime::Results results = device.Execute(program, {x});
      here += results.done ? 0 : 1;
      if (wait && results.done) results.done->NoteWaiter();
      CHECK(Wait(results.done) == nullptr);
      CHECK(Equal(device.Get(results.outputs[0]), {2, 3}));
    }
    return here;
  };
  const std::string medium = "cost 1e6\n";
  // Now and then a run is queued, to see whether its caller still waits.
  const int here = runs_here(device, medium, 2000, true);
  CHECK(here > 0 && here <= 2000 * 31 / 32);
  CHECK_EQ(runs_here(device, medium, 200, false), 0);
  CHECK_EQ(runs_here(device, kQueued, 200, true), 0);
  // The caller may have another device to start before it waits.
  CHECK_EQ(runs_here(one_of_several, medium, 200, true), 0);
}

TEST(WaitHabits) {
  WaitHabit habit;
  habit.Observe(true);
  CHECK(!habit.expected());
  habit.Observe(true);
  CHECK(habit.expected());
  int trusted = 0;
  for (; habit.expected(); ++trusted) habit.Trust();
  CHECK_EQ(trusted, 31);
  habit.Observe(true);
  CHECK(habit.expected());
  habit.Observe(false);
  CHECK(!habit.expected());
}

TEST(ProgramsThatCannotBeCreatedFailAsynchronously) {
  auto pool = std::make_shared<HostPool>();
  DeviceRuntime runtime(
      DeviceConfig(),
      [](const Executable&, const DeviceConfig&) -> std::unique_ptr<DeviceEngine> {
        throw Error(Code::kResourceExhausted, "no memory");
      },
      pool);
  auto spec = std::make_shared<TensorSpec>(TensorSpec{DType::kF32, {2}});
  const auto x = std::make_shared<Array>(spec, HostBlock::Allocate(pool, 8), nullptr);
  const DeviceRuntime::Results results = runtime.Execute(Compile(kOther), {{x, false}});
  const Error* error = Wait(results.done);
  CHECK(error != nullptr && error->code == Code::kResourceExhausted);
}

TEST(WorkAfterShutdownRunsOnTheCaller) {
  Device device;
  const auto step = Compile(kQueued + kStep);
  const auto value = device.Put({1, 1, 1, 1});
  std::shared_ptr<Array> state = device.Run(step, {device.Put({0, 0, 0, 0}), value})[0];
  device.runtime().Shutdown();
  CHECK(state->ready()->IsReady());
  state = device.Run(step, {std::move(state), value})[0];
  CHECK(Equal(device.Get(state), {2, 2, 2, 2}));
  device.runtime().Shutdown();
}

TEST(ArraysAndProgramsMayOutliveTheDevice) {
  std::shared_ptr<Array> state;
  std::shared_ptr<LoadedProgram> program;
  {
    Device device;
    program = Compile(kQueued + "sleep 5\n" + kStep);
    state = device.Run(program, {device.Put({0, 0, 0, 0}), device.Put({1, 1, 1, 1})})[0];
  }
  CHECK(state->ready()->IsReady());
  CHECK(state->ready()->error() == nullptr);
}

TEST(CallbacksMayUseTheDevice) {
  Device device;
  const auto program = Compile(kQueued + "sleep 2\n" + kOther);
  const ArrayList y = device.Run(program, {device.Put({1, 2})});
  std::atomic<bool> called{false};
  auto inner = std::make_shared<Completion>();
  OnReady(y[0]->ready(), [&](const Error* error) {
    called = error == nullptr;
    OnReady(device.Run(program, {y[0]})[0]->ready(), [inner](const Error*) { inner->Complete(); });
  });
  CHECK(inner->Wait() == nullptr);
  CHECK(called);
}

// Several threads with their own state on one device: each variable changes its owner in every call.
TEST(ThreadsDoNotMixTheirStates) {
  Device device;
  const std::vector<std::shared_ptr<LoadedProgram>> steps = {Compile(kStep), Compile(kQueued + kStep)};
  std::vector<std::thread> threads;
  std::atomic<int> correct{0};
  constexpr int kThreads = 4, kSteps = 50;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto value = device.Put({1, 1, 1, 1});
      const auto start = static_cast<float>(1000 * t);
      std::shared_ptr<Array> state = device.Put({start, start, start, start});
      for (int i = 0; i < kSteps; ++i) {
        state = device.Run(steps[static_cast<std::size_t>((i / 3 + t) % 2)], {std::move(state), value})[0];
        if (i % 7 == 0 && device.Get(state)[0] != start + static_cast<float>(i + 1)) return;
      }
      if (device.Get(state)[3] == start + kSteps) ++correct;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(correct.load(), kThreads);
}

TEST(MemoryOfTheLoadedProgramIsReported) {
  Device device;
  CHECK_EQ(device.runtime().bytes_in_use(), 0u);
  device.Get(device.Run(Compile(kOther), {device.Put({1, 2})})[0]);
  CHECK_EQ(device.runtime().bytes_in_use(), 4096u);
  CHECK_EQ(device.runtime().peak_bytes_in_use(), 4096u);
}

}  // namespace
}  // namespace jax_ipu
