// Arguments that are kept in SRAM without being donated: when they move, and what they are read from.
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

const char* const kRead = "in f32 2 kept\nin f32 2\nout f32 2 add 0 1\n";

TEST(KeptArgumentsMoveOnce) {
  for (const std::string& cost : {std::string(), kQueued}) {
    Device device;
    const auto program = Compile(cost + kRead);
    const auto weights = device.Put({1, 2});
    for (int call = 0; call < 4; ++call) {
      const auto step = static_cast<float>(call);
      const ArrayList sum = device.Run(program, {weights, device.Put({step, step})});
      CHECK(Equal(device.Get(sum[0]), {1 + step, 2 + step}));
      CHECK_EQ(device.Moved(), call == 0 ? "16 8 1 1" : "8 8 0 1");
    }
  }
}

TEST(AnotherArrayInTheVariableOfAKeptArgument) {
  Device device;
  const auto program = Compile(kRead);
  const auto x = device.Put({1, 1}), a = device.Put({10, 20});
  device.Run(program, {a, x});
  for (int call = 0; call < 3; ++call) {
    // Another array each time, perhaps where the last one was in host memory.
    const auto value = static_cast<float>(call);
    device.Moved();
    CHECK(Equal(device.Get(device.Run(program, {device.Put({value, value}), x})[0]), {value + 1, value + 1}));
    CHECK_EQ(device.Moved(), "16 8 0 1");  // nothing is read back: the host still has the value
  }
  CHECK(Equal(device.Get(device.Run(program, {a, x})[0]), {11, 21}));
  CHECK_EQ(device.Moved(), "16 8 0 1");
  CHECK(Equal(device.Get(device.Run(program, {a, x})[0]), {11, 21}));
  CHECK_EQ(device.Moved(), "8 8 0 1");
}

TEST(OneArrayInSeveralVariables) {
  Device device;
  const auto program =
      Compile("in f32 2 kept\nin f32 2 kept\nin f32 2 alias=1\nout f32 2 add 0 1\nout f32 2 add 0 2\n");
  const auto x = device.Put({1, 2});
  std::shared_ptr<Array> state = device.Put({0, 0});
  for (int call = 0; call < 3; ++call) {
    const ArrayList results = device.Run(program, {x, x, std::move(state)});
    CHECK_EQ(device.Moved(), call == 0 ? "24 8 1 1" : "0 8 0 1");
    CHECK(Equal(device.Get(results[0]), {2, 4}));
    state = results[1];
  }
  CHECK(Equal(device.Get(state), {3, 6}));
}

TEST(AnotherExecutableTakesTheMemoryOfKeptArguments) {
  Device device;
  const auto read = Compile(kRead), other = Compile(kOther);
  const auto weights = device.Put({1, 2}), x = device.Put({3, 4});
  for (int round = 0; round < 3; ++round) {
    for (int call = 0; call < 2; ++call) {
      CHECK(Equal(device.Get(device.Run(read, {weights, x})[0]), {4, 6}));
      CHECK_EQ(device.Moved(), call == 0 ? "16 8 1 1" : "8 8 0 1");
    }
    device.Run(other, {x});
    CHECK_EQ(device.Moved(), "8 8 1 1");  // no copy of the weights to the host
  }
}

// One program updates a donated state, another one reads it, in turn.
TEST(StateThatAnotherProgramReads) {
  Device device;
  const auto step = Compile("in f32 2 alias=0\nout f32 2 inc 0\n"), read = Compile(kRead);
  const auto x = device.Put({1, 1});
  std::shared_ptr<Array> state = device.Put({0, 0});
  for (int round = 0; round < 3; ++round) {
    state = device.Run(step, {std::move(state)})[0];
    CHECK_EQ(device.Moved(), "8 0 1 1");
    for (int call = 0; call < 2; ++call) {
      const auto value = static_cast<float>(round + 2);
      CHECK(Equal(device.Get(device.Run(read, {state, x})[0]), {value, value}));
      CHECK_EQ(device.Moved(), call == 0 ? "16 16 1 1" : "8 8 0 1");
    }
  }
  CHECK(Equal(device.Get(state), {3, 3}));
}

// The results of a program are the kept arguments of its next run.
TEST(ResidentStateAsAKeptArgument) {
  Device device;
  const auto program = Compile("in f32 2 alias=0\nin f32 2 kept\nout f32 2 add 0 1\n");
  std::shared_ptr<Array> a = device.Run(program, {device.Put({1, 1}), device.Put({5, 5})})[0];
  device.Moved();
  const std::shared_ptr<Array> b = device.Run(program, {device.Put({10, 10}), a})[0];
  CHECK_EQ(device.Moved(), "16 8 0 1");
  CHECK(Equal(device.Get(b), {16, 16}));
  CHECK(Equal(device.Get(a), {6, 6}));
}

TEST(FailedRunsForgetKeptArguments) {
  Device device;
  const auto bad = Compile(std::string("fail boom\n") + kRead), good = Compile(kRead);
  const auto weights = device.Put({1, 2}), x = device.Put({3, 4});
  for (int call = 0; call < 2; ++call) {
    CHECK(Wait(device.Execute(bad, {weights, x}).done) != nullptr);
    CHECK_EQ(device.Moved(), call == 0 ? "16 8 1 0" : "16 8 0 0");
  }
  CHECK(Equal(device.Get(device.Run(good, {weights, x})[0]), {4, 6}));
}

TEST(ThreadsShareTheWeightsOfTwoPrograms) {
  Device device;
  const auto add = Compile(kQueued + kRead), twice = Compile("in f32 2 kept\nout f32 2 add 0 0\n");
  const auto weights = device.Put({1, 2});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const auto value = static_cast<float>(100 * t + i);
        const auto x = device.Put({value, value});
        if (!Equal(device.Get(device.Run(add, {weights, x})[0]), {value + 1, value + 2})) ++wrong;
        if (!Equal(device.Get(device.Run(twice, {t % 2 == 0 ? weights : x})[0]),
                   t % 2 == 0 ? Values{2, 4} : Values{2 * value, 2 * value})) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace jax_ipu
