// Launches over the devices of two processes, simulated by two launchers and a transport in memory.
#include "runtime/process/process_transport.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "check.h"
#include "runtime/device/launch.h"
#include "testing/fake_program.h"

namespace jax_ipu {
namespace {

using Values = std::vector<float>;

// Messages wait here for their receiver. A process that fails ends all receivers.
class Wire {
 public:
  ProcessTransport Transport(int process) {
    return {[this, process](const std::vector<ProcessMessage>& messages) { Carry(process, messages); },
            [this, process](const std::string& reason) {
              const std::lock_guard<std::mutex> lock(mutex_);
              if (failure_.empty()) failure_ = "process " + std::to_string(process) + " gave up " + reason;
              changed_.notify_all();
            }};
  }

 private:
  void Carry(int own, const std::vector<ProcessMessage>& messages) {
    std::unique_lock<std::mutex> lock(mutex_);
    for (const ProcessMessage& message : messages) {
      const auto* bytes = static_cast<const unsigned char*>(message.out);
      if (message.out_bytes > 0) {
        queues_[{own, message.process, message.send_tag}].emplace_back(bytes, bytes + message.out_bytes);
      }
    }
    changed_.notify_all();
    for (const ProcessMessage& message : messages) {
      if (message.in_bytes == 0) continue;
      auto& queue = queues_[{message.process, own, message.receive_tag}];
      changed_.wait(lock, [&] { return !queue.empty() || !failure_.empty(); });
      if (queue.empty()) throw Error(Code::kAborted, failure_);
      CHECK_EQ(queue.front().size(), message.in_bytes);
      std::memcpy(message.in, queue.front().data(), message.in_bytes);
      queue.pop_front();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::tuple<int, int, std::uint32_t>, std::deque<std::vector<unsigned char>>> queues_;
  std::string failure_;
};

// One process with two devices; the executables run on all four.
class Process {
 public:
  Process(Wire& wire, int number)
      : transport_(wire.Transport(number)), number_(number), pool_(std::make_shared<HostPool>()) {
    for (int d = 0; d < 2; ++d) {
      devices_.push_back(std::make_shared<DeviceRuntime>(DeviceConfig(), testing::CreateFakeEngine, pool_));
    }
  }

  // `replicas` by device of this process; places of all replicas.
  std::vector<DeviceRuntime::Results> Launch(const std::string& text,
                                             const std::vector<RemoteLaunch::Place>& places,
                                             const std::vector<Values>& arguments) {
    auto executable = std::make_shared<Executable>(*testing::CompileFake(text, "ipu2:1472"));
    executable->name = text.substr(0, text.find('\n'));
    std::vector<ReplicaCall> calls;
    for (unsigned r = 0; r < places.size(); ++r) {
      if (places[r].process != number_) continue;
      calls.push_back({devices_[places[r].device],
                       std::make_shared<LoadedProgram>(executable, r),
                       {{Put(arguments[r]), false}}});
    }
    return launcher_.Launch(std::move(calls),
                            std::make_shared<RemoteLaunch>(executable->name, places, number_, transport_));
  }
  static Values Get(const DeviceRuntime::Results& results) {
    if (const Error* error = Wait(results.done)) throw Error(*error);
    const Array& array = *results.outputs[0];
    Values values(array.spec().bytes() / sizeof(float));
    std::memcpy(values.data(), array.host()->data(), array.spec().bytes());
    return values;
  }
  static std::string ErrorOf(const DeviceRuntime::Results& results) {
    const Error* error = Wait(results.done);
    return error == nullptr ? "" : error->what();
  }

 private:
  std::shared_ptr<Array> Put(const Values& values) const {
    auto spec = std::make_shared<TensorSpec>();
    spec->shape = {static_cast<std::int64_t>(values.size())};
    std::shared_ptr<HostBlock> block = HostBlock::Allocate(pool_, spec->bytes());
    std::memcpy(block->data(), values.data(), spec->bytes());
    return std::make_shared<Array>(spec, block, nullptr);
  }

  const ProcessTransport transport_;
  const int number_;
  const std::shared_ptr<HostPool> pool_;
  std::vector<std::shared_ptr<DeviceRuntime>> devices_;
  Launcher launcher_;
};

const std::vector<RemoteLaunch::Place> kAll = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};

std::string SumOf(std::size_t elements, int replicas) {
  const std::string n = std::to_string(elements);
  return "partitions " + std::to_string(replicas) + "\nin f32 " + n + "\nout f32 " + n + " allreduce 0\n";
}

TEST(SumsOverTwoProcesses) {
  Wire wire;
  Process first(wire, 0), second(wire, 1);
  for (const std::size_t n : {2, 1000}) {  // inside the first message, and more
    std::vector<Values> arguments;
    for (int r = 0; r < 4; ++r) arguments.emplace_back(n, static_cast<float>(1 << r));
    for (int step = 0; step < 3; ++step) {
      const auto a = first.Launch(SumOf(n, 4), kAll, arguments);
      const auto b = second.Launch(SumOf(n, 4), kAll, arguments);
      CHECK(a.size() == 2 && b.size() == 2);
      for (const auto* results : {&a, &b})
        for (const DeviceRuntime::Results& result : *results) CHECK(Process::Get(result) == Values(n, 15));
    }
  }
}

// Threads launch over devices that overlap in no process, in any order.
TEST(LaunchesOfSeveralThreads) {
  Wire wire;
  Process first(wire, 0), second(wire, 1);
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Process& own = t < 2 ? first : second;
      const std::vector<RemoteLaunch::Place> pair = {{0, t % 2}, {1, t % 2}};
      for (int i = 0; i < 50; ++i) {
        const auto x = static_cast<float>(i + static_cast<int>(t % 2));
        const auto results = own.Launch(SumOf(2, 2), pair, {{x, 1}, {x, 2}});
        if (Process::Get(results[0]) != Values{2 * x, 3}) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST(FailureInOneProcessEndsTheOther) {
  Wire wire;
  Process first(wire, 0), second(wire, 1);
  const std::vector<Values> arguments(4, Values{1, 2});
  const auto a = first.Launch(SumOf(2, 4), kAll, arguments);
  const auto b = second.Launch(SumOf(2, 4) + "fail broken wire\nfailing 3\n", kAll, arguments);
  for (const DeviceRuntime::Results& result : b) CHECK_EQ(Process::ErrorOf(result), "broken wire");
  for (const DeviceRuntime::Results& result : a)
    CHECK_EQ(Process::ErrorOf(result), "process 1 gave up in 'partitions 4': broken wire");
}

TEST(DifferentProgramsAreNoticed) {
  Wire wire;
  Process first(wire, 0), second(wire, 1);
  const std::vector<Values> arguments(4, Values(3, 1)), fewer(4, Values(2, 1));
  const auto a = first.Launch(SumOf(3, 4), kAll, arguments);
  const auto b = second.Launch(SumOf(2, 4), kAll, fewer);
  const std::string message = Process::ErrorOf(a[0]) + Process::ErrorOf(b[0]);
  CHECK(message.find("must run the same programs") != std::string::npos);
}

TEST(ProgramsWithoutCollectivesNeedNoTransport) {
  Wire wire;
  Process first(wire, 0);
  const auto results =
      first.Launch("partitions 4\nin f32 2\nout f32 2 inc 0\n", kAll, std::vector<Values>(4, Values{1, 2}));
  CHECK_EQ(results.size(), std::size_t{2});
  for (const DeviceRuntime::Results& result : results) CHECK(Process::Get(result) == (Values{2, 3}));
}

}  // namespace
}  // namespace jax_ipu
