// Tests what a device records: transfers and cycles as the counters count them, errors, recordings that begin
// and end while it runs.
#include "runtime/recording/trace.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"
#include "runtime/device/device_runtime.h"
#include "runtime/device/launch.h"
#include "testing/fake_program.h"

namespace jax_ipu {
namespace {

constexpr const char* kTarget = "ipu2:1472";

std::shared_ptr<LoadedProgram> Compile(const std::string& text, unsigned replica = 0) {
  return std::make_shared<LoadedProgram>(testing::CompileFake(text, kTarget), replica);
}

struct Device {
  explicit Device(int id = 0)
      : runtime(std::make_shared<DeviceRuntime>(DeviceConfig(), testing::CreateFakeEngine, pool, id)) {}

  std::shared_ptr<Array> Put(std::vector<float> values) const {
    auto spec = std::make_shared<TensorSpec>();
    spec->shape = {static_cast<std::int64_t>(values.size())};
    std::shared_ptr<HostBlock> block = HostBlock::Allocate(pool, spec->bytes());
    std::memcpy(block->data(), values.data(), spec->bytes());
    return std::make_shared<Array>(spec, block, nullptr);
  }
  ArrayList Run(const std::shared_ptr<LoadedProgram>& program, const ArrayList& arrays) const {
    std::vector<Argument> arguments;
    for (std::size_t i = 0; i < arrays.size(); ++i)
      arguments.push_back({arrays[i], program->executable()->inputs[i].donated});
    return runtime->Execute(program, std::move(arguments)).outputs;
  }

  const std::shared_ptr<HostPool> pool = std::make_shared<HostPool>();
  const std::shared_ptr<DeviceRuntime> runtime;
};

std::string KindsOf(const TracedWork& work) {
  std::string kinds;
  for (const TracedTransfer& transfer : work.transfers) {
    if (!kinds.empty()) kinds += ' ';
    kinds += (transfer.kind == TracedTransfer::Kind::kFromHost ? "in " : "out ") + transfer.name + ' ' +
             std::to_string(transfer.bytes);
  }
  return kinds;
}

}  // namespace
}  // namespace jax_ipu

using namespace jax_ipu;

TEST(RunsWithTheirTransfers) {
  const Device device;
  const auto program = Compile("in f32 4 alias=0\nin f32 4 kept\nout f32 4 add 0 1\n");
  Trace trace;
  const std::shared_ptr<Array> kept = device.Put({1, 1, 1, 1});
  std::shared_ptr<Array> state = device.Put({1, 2, 3, 4});
  for (int i = 0; i < 3; ++i) state = device.Run(program, {state, kept})[0];
  CHECK(Wait(device.runtime->FetchToHost(state)) == nullptr);
  trace.Stop();
  const auto works = trace.works();
  CHECK_EQ(works.size(), 4u);
  CHECK_EQ(KindsOf(*works[0]), "in state0 16 in state1 16");
  CHECK_EQ(KindsOf(*works[1]), "");
  CHECK_EQ(KindsOf(*works[3]), "out state0.out 16");
  CHECK(works[2]->executable == program->executable());
  CHECK(works[3]->executable == nullptr);
  for (std::size_t i = 0; i < works.size(); ++i) {
    CHECK(works[i]->begin_ns >= trace.begin_ns() && works[i]->end_ns >= works[i]->begin_ns);
    CHECK(i == 0 || works[i]->run_id > works[i - 1]->run_id);
    CHECK_EQ(works[i]->version, "ipu2");
  }
}

TEST(RunsThatFail) {
  const Device device;
  const auto program = Compile("in f32 1\nout f32 1 inc 0\nfail broken\n");
  Trace trace;
  const ArrayList outputs = device.Run(program, {device.Put({1})});
  CHECK(Wait(outputs[0]->ready()) != nullptr);
  device.runtime->Finish();
  trace.Stop();
  CHECK_EQ(trace.works().size(), 1u);
  CHECK(trace.works()[0]->error.find("broken") != std::string::npos);
}

TEST(ReplicasOfALaunchHaveOneNumber) {
  const std::string text = "in f32 1\nout f32 1 allreduce 0\npartitions 2\n";
  const Device a(0), b(1);
  const auto on_a = Compile(text, 0), on_b = Compile(text, 1);
  Launcher launcher;
  Trace trace;
  for (int i = 0; i < 2; ++i) {
    std::vector<ReplicaCall> calls;
    calls.push_back({a.runtime, on_a, {{a.Put({1}), false}}});
    calls.push_back({b.runtime, on_b, {{b.Put({2}), false}}});
    for (const DeviceRuntime::Results& result : launcher.Launch(std::move(calls)))
      CHECK(Wait(result.done) == nullptr);
  }
  trace.Stop();
  const auto works = trace.works();
  CHECK_EQ(works.size(), 4u);
  CHECK_EQ(works[0]->run_id, works[1]->run_id);
  CHECK_EQ(works[2]->run_id, works[3]->run_id);
  CHECK(works[0]->run_id != works[2]->run_id);
  CHECK(works[0]->device_id != works[1]->device_id);
  CHECK(works[0]->meets_others && works[3]->meets_others);
}

TEST(RecordingsBeginAndEndWhileDevicesRun) {
  const Device first(0), second(1);
  std::atomic<bool> ended{false};
  std::vector<std::thread> threads;
  for (const Device* device : {&first, &second}) {
    threads.emplace_back([device, &ended] {
      const auto own = Compile("in f32 4 alias=0\nout f32 4 inc 0\ncost 1e9\n");
      std::shared_ptr<Array> state = device->Put({1, 2, 3, 4});
      while (!ended) {
        state = device->Run(own, {state})[0];
        CHECK(Wait(device->runtime->FetchToHost(state)) == nullptr);
      }
    });
  }
  std::size_t recorded = 0;
  for (int i = 0; i < 50 || recorded == 0; ++i) {
    Trace outer;
    {
      const Trace inner;  // ends without Stop
      std::this_thread::yield();
    }
    outer.Stop();
    recorded += outer.works().size();
  }
  ended = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(!Trace::IsActive());
}
