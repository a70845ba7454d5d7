// Donation and spilling with counted bytes, errors, threads: which values stay in SRAM, which move, and in
// which order.
#include "runtime/device/device_runtime.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"
#include "runtime/memory/link_copy.h"
#include "testing/fake_program.h"

namespace jax_ipu {
namespace {

constexpr const char* kTarget = "ipu2:1472";
// Long enough to be queued instead of run inline.
const std::string kQueued = "cost 1e9\n";

std::shared_ptr<LoadedProgram> Compile(const std::string& text) {
  return std::make_shared<LoadedProgram>(testing::CompileFake(text, kTarget));
}

class Device {
 public:
  explicit Device(bool is_only_device = true)
      : pool_(std::make_shared<HostPool>()),
        runtime_(std::make_shared<DeviceRuntime>(DeviceConfig(), testing::CreateFakeEngine, pool_, 0,
                                                 is_only_device)) {}

  std::shared_ptr<Array> Put(std::vector<float> values) {
    auto spec = std::make_shared<TensorSpec>();
    spec->shape = {static_cast<std::int64_t>(values.size())};
    std::shared_ptr<HostBlock> block = HostBlock::Allocate(pool_, spec->bytes());
    if (!values.empty()) std::memcpy(block->data(), values.data(), spec->bytes());
    return std::make_shared<Array>(spec, block, nullptr);
  }
  // Donates what the program says is donated, as PJRT does.
  ArrayList Run(const std::shared_ptr<LoadedProgram>& program, ArrayList arrays) {
    return Execute(program, std::move(arrays)).outputs;
  }
  DeviceRuntime::Results Execute(const std::shared_ptr<LoadedProgram>& program, ArrayList arrays) {
    std::vector<Argument> arguments;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      arguments.push_back({std::move(arrays[i]), program->executable()->inputs[i].donated});
    }
    return runtime_->Execute(program, std::move(arguments));
  }
  std::vector<float> Get(const std::shared_ptr<Array>& array) {
    const CompletionPtr ready = runtime_->FetchToHost(array);
    if (const Error* error = Wait(ready)) throw Error(*error);
    std::vector<float> values(array->spec().bytes() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), array->host()->data(), array->spec().bytes());
    return values;
  }
  // Counters since the last call: "h2d_bytes d2h_bytes loads runs".
  std::string Moved() {
    const Counters now = runtime_->counters();
    const std::string text = std::to_string(now.h2d_bytes - last_.h2d_bytes) + " " +
                             std::to_string(now.d2h_bytes - last_.d2h_bytes) + " " +
                             std::to_string(now.engine_loads - last_.engine_loads) + " " +
                             std::to_string(now.runs - last_.runs);
    last_ = now;
    return text;
  }
  // Bytes received over the links, and cycles, since the last call.
  std::pair<std::uint64_t, std::uint64_t> MovedOverLinks() {
    const Counters now = runtime_->counters();
    const Counters last = std::exchange(last_links_, now);
    return {now.link_bytes - last.link_bytes, now.cycles - last.cycles};
  }
  DeviceRuntime& runtime() { return *runtime_; }
  // As one of two IPUs.
  LinkEnd Place(unsigned place) const { return {runtime_, place}; }

 private:
  const std::shared_ptr<HostPool> pool_;
  const std::shared_ptr<DeviceRuntime> runtime_;
  Counters last_links_;
  Counters last_;
};

using Values = std::vector<float>;
bool Equal(const Values& a, const Values& b) { return a == b; }

// state 4 floats, value 4 floats -> state + value, value + 1
const char* const kStep = "in f32 4 alias=0\nin f32 4\nout f32 4 add 0 1\nout f32 4 inc 1\n";
const char* const kOther = "in f32 2\nout f32 2 inc 0\n";

TEST(StreamedArgumentsMoveOnEveryCall) {
  Device device;
  const auto program = Compile(kOther);
  const auto x = device.Put({1, 2});
  for (int i = 0; i < 3; ++i) {
    const ArrayList y = device.Run(program, {x});
    CHECK(Equal(device.Get(y[0]), {2, 3}));
    CHECK_EQ(device.Moved(), i == 0 ? "8 8 1 1" : "8 8 0 1");
  }
}

TEST(DonatedStateStaysOnTheDevice) {
  Device device;
  const auto step = Compile(kStep);
  const auto value = device.Put({1, 1, 1, 1});
  std::shared_ptr<Array> state = device.Put({0, 0, 0, 0});
  for (int i = 0; i < 4; ++i) {
    state = device.Run(step, {std::move(state), value})[0];
    CHECK_EQ(device.Moved(), i == 0 ? "32 16 1 1" : "16 16 0 1");
  }
  CHECK(!state->on_host());
  CHECK(Equal(device.Get(state), {4, 4, 4, 4}));
  CHECK_EQ(device.Moved(), "0 16 0 0");
  CHECK(Equal(device.Get(state), {4, 4, 4, 4}));
  CHECK_EQ(device.Moved(), "0 0 0 0");
  // Reading does not end residency.
  state = device.Run(step, {std::move(state), value})[0];
  CHECK_EQ(device.Moved(), "16 16 0 1");
  CHECK(Equal(device.Get(state), {5, 5, 5, 5}));
}

TEST(AnotherExecutableSpillsAndTheStateComesBack) {
  Device device;
  const auto step = Compile(kStep), other = Compile(kOther);
  const auto value = device.Put({1, 1, 1, 1}), x = device.Put({1, 2});
  std::shared_ptr<Array> state = device.Run(step, {device.Put({0, 0, 0, 0}), value})[0];
  device.Moved();
  device.Run(other, {x});
  CHECK_EQ(device.Moved(), "8 24 1 1");  // 16 bytes of state, 8 of the result
  CHECK(state->on_host());
  state = device.Run(step, {std::move(state), value})[0];
  CHECK_EQ(device.Moved(), "32 16 1 1");
  CHECK(Equal(device.Get(state), {2, 2, 2, 2}));
}

TEST(ReadStateIsNotSpilledAgain) {
  Device device;
  const auto step = Compile(kStep), other = Compile(kOther);
  const std::shared_ptr<Array> state =
      device.Run(step, {device.Put({0, 0, 0, 0}), device.Put({1, 1, 1, 1})})[0];
  device.Get(state);
  device.Moved();
  device.Run(other, {device.Put({1, 2})});
  CHECK_EQ(device.Moved(), "8 8 1 1");
  CHECK(Equal(device.Get(state), {1, 1, 1, 1}));
}

TEST(DeletedStateIsNotSpilled) {
  Device device;
  const auto step = Compile(kStep), other = Compile(kOther);
  device.Run(step, {device.Put({0, 0, 0, 0}), device.Put({1, 1, 1, 1})});
  device.Moved();
  device.Run(other, {device.Put({1, 2})});
  CHECK_EQ(device.Moved(), "8 8 1 1");
}

TEST(AnotherArrayInTheVariableIsSavedFirst) {
  Device device;
  const auto step = Compile(kStep);
  const auto value = device.Put({1, 1, 1, 1});
  const std::shared_ptr<Array> a = device.Run(step, {device.Put({0, 0, 0, 0}), value})[0];
  device.Moved();
  const std::shared_ptr<Array> b = device.Run(step, {device.Put({10, 10, 10, 10}), value})[0];
  CHECK_EQ(device.Moved(), "32 32 0 1");
  CHECK(Equal(device.Get(a), {1, 1, 1, 1}));
  CHECK(Equal(device.Get(b), {11, 11, 11, 11}));
}

TEST(ResidentArraysCanBeStreamedToTheirOwnProgram) {
  Device device;
  const auto step = Compile(kStep);
  const std::shared_ptr<Array> state =
      device.Run(step, {device.Put({1, 2, 3, 4}), device.Put({1, 1, 1, 1})})[0];
  device.Moved();
  const ArrayList results = device.Run(step, {device.Put({0, 0, 0, 0}), state});
  CHECK_EQ(device.Moved(), "32 32 0 1");
  CHECK(Equal(device.Get(results[0]), {2, 3, 4, 5}));
  CHECK(Equal(device.Get(state), {2, 3, 4, 5}));
}

// Two states of the same shape whose results come back in the other order.
TEST(StatesThatChangePlacesAreSwapped) {
  Device device;
  const auto program = Compile("in f32 2 alias=1\nin f32 2 alias=0\nout f32 2 inc 0\nout f32 2 inc 1\n");
  ArrayList state = {device.Put({1, 1}), device.Put({20, 20})};
  state = device.Run(program, std::move(state));
  device.Moved();
  // Output 0 (2) lives in variable 1, and is now passed as argument 0.
  state = device.Run(program, std::move(state));
  CHECK_EQ(device.Moved(), "16 16 0 1");
  CHECK(Equal(device.Get(state[0]), {3, 3}));
  CHECK(Equal(device.Get(state[1]), {22, 22}));
}

// A program over `count` states of each type, all mixed, that adds one to every state. `crosswise`: the new
// value of a state is left in the variable of another of its type.
std::shared_ptr<LoadedProgram> CompileStates(std::size_t count, const std::vector<std::size_t>& sizes,
                                             bool crosswise) {
  const std::size_t types = sizes.size();
  std::string inputs, outputs;
  for (std::size_t i = 0; i < count * types; ++i) {
    const std::string type = "f32 " + std::to_string(sizes[i % types]);
    const std::size_t alias = crosswise ? (count - 1 - i / types) * types + i % types : i;
    inputs += "in " + type + " alias=" + std::to_string(alias) + "\n";
    outputs += "out " + type + " inc " + std::to_string(i) + "\n";
  }
  return Compile("swap\n" + inputs + outputs);
}

TEST(PermutedStatesMoveOnTheDevice) {
  struct Permutation {
    const char* name;
    std::function<std::size_t(std::size_t i, std::size_t n)> place;  // of state i of n of one type
  };
  const std::vector<Permutation> permutations = {
      {"rotation", [](std::size_t i, std::size_t n) { return (i + 1) % n; }},
      {"long rotation", [](std::size_t i, std::size_t n) { return (i + n / 2) % n; }},
      {"reversal", [](std::size_t i, std::size_t n) { return n - 1 - i; }},
      // Cycles of three; remaining states keep their places.
      {"many cycles",
       [](std::size_t i, std::size_t n) { return i / 3 * 3 + 3 > n ? i : i / 3 * 3 + (i + 1) % 3; }},
      {"all but the first", [](std::size_t i, std::size_t n) { return i == 0 ? 0 : i % (n - 1) + 1; }},
  };
  for (const std::size_t count : {std::size_t{3}, std::size_t{9}, std::size_t{40}}) {
    for (const std::vector<std::size_t>& sizes : {std::vector<std::size_t>{2}, {2, 5, 3}}) {
      for (const bool crosswise : {false, true}) {
        for (const Permutation& permutation : permutations) {
          Device device;
          const auto program = CompileStates(count, sizes, crosswise), other = Compile(kOther);
          const std::size_t n = count * sizes.size();
          ArrayList state;
          std::vector<float> expected;
          std::size_t bytes = 0;
          for (std::size_t i = 0; i < n; ++i) {
            expected.push_back(static_cast<float>(100 * i));
            state.push_back(device.Put(Values(sizes[i % sizes.size()], expected.back())));
            bytes += state.back()->spec().bytes();
          }
          for (int call = 0; call < 6; ++call) {
            const bool spilled = call == 3;
            if (spilled) {
              device.Run(other, {device.Put({1, 2})});
              device.Moved();
            }
            const ArrayList results = device.Run(program, std::exchange(state, ArrayList(n)));
            const std::string moved = call == 0 || spilled ? std::to_string(bytes) + " 0 1 1" : "0 0 0 1";
            if (device.Moved() != moved) {
              testing::Fail(__FILE__, __LINE__,
                            std::string(permutation.name) + ": call " + std::to_string(call));
            }
            std::vector<float> next(n);
            for (std::size_t i = 0; i < n; ++i) {
              const std::size_t type = i % sizes.size();
              const std::size_t to = permutation.place(i / sizes.size(), count) * sizes.size() + type;
              state[to] = results[i];
              next[to] = expected[i] + 1;
            }
            expected = next;
          }
          for (std::size_t i = 0; i < n; ++i) {
            CHECK(Equal(device.Get(state[i]), Values(sizes[i % sizes.size()], expected[i])));
          }
        }
      }
    }
  }
}

// Arguments are existing arrays in any places and new ones; some are kept. Only values that are not on the
// device are sent, and only values that lose their variable are read back.
TEST(AnyMixOfNewResidentAndKeptStates) {
  constexpr std::size_t kStates = 7;
  std::mt19937 random(1);
  Device device;
  const auto program = CompileStates(kStates, {2}, false);
  struct Known {
    std::shared_ptr<Array> array;
    float value;
  };
  std::vector<Known> known;
  for (int call = 0; call < 300; ++call) {
    std::shuffle(known.begin(), known.end(), random);
    const std::size_t given = std::min<std::size_t>(known.size(), random() % (kStates + 1));
    std::vector<Known> arguments(known.begin(), known.begin() + static_cast<std::ptrdiff_t>(given));
    known.erase(known.begin(), known.begin() + static_cast<std::ptrdiff_t>(given));
    while (arguments.size() < kStates) {
      const auto value = static_cast<float>(random() % 1000);
      arguments.push_back({device.Put({value, value}), value});
    }
    std::shuffle(arguments.begin(), arguments.end(), random);
    std::size_t h2d = 0, d2h = 0;
    ArrayList arrays;
    for (Known& argument : arguments) {
      h2d += argument.array->on_host() ? 8 : 0;
      arrays.push_back(std::move(argument.array));
    }
    for (const Known& kept : known) d2h += kept.array->on_host() ? 0 : 8;
    const ArrayList results = device.Run(program, std::move(arrays));
    CHECK_EQ(device.Moved(), std::to_string(h2d) + " " + std::to_string(d2h) + (call == 0 ? " 1 1" : " 0 1"));
    for (std::size_t i = 0; i < kStates; ++i) known.push_back({results[i], arguments[i].value + 1});
    while (known.size() > 2 * kStates) known.erase(known.begin());
  }
  for (const Known& k : known) CHECK(Equal(device.Get(k.array), {k.value, k.value}));
}

struct Case {
  const char* name;
  const char* text;
  int num_inputs;
  std::vector<int> next;  // output that is the next call's argument; -1: a fresh array
  const char* steady;     // bytes of a steady call
};

// Donation in every place. Inputs of 2 floats; each output is its input plus one.
TEST(EveryDonationOrder) {
  const std::vector<Case> cases = {
      {"first", "in f32 2 alias=0\nin f32 2\nout f32 2 inc 0\nout f32 2 inc 1\n", 2, {0, -1}, "8 8 0 1"},
      {"last", "in f32 2\nin f32 2 alias=1\nout f32 2 inc 0\nout f32 2 inc 1\n", 2, {-1, 1}, "8 8 0 1"},
      {"reversed",
       "in f32 2 alias=1\nin f32 2 alias=0\nout f32 2 inc 1\nout f32 2 inc 0\n",
       2,
       {1, 0},
       "0 0 0 1"},
      {"interleaved",
       "in f32 2 alias=0\nin f32 2\nin f32 2 alias=2\nout f32 2 inc 0\nout f32 2 inc 1\nout f32 2 inc 2\n",
       3,
       {0, -1, 2},
       "8 8 0 1"},
      {"interleaved reversed",
       "in f32 2 alias=2\nin f32 2\nin f32 2 alias=0\nout f32 2 inc 2\nout f32 2 inc 1\nout f32 2 inc 0\n",
       3,
       {2, -1, 0},
       "8 8 0 1"},
      {"all", "in f32 2 alias=0\nin f32 2 alias=1\nout f32 2 inc 0\nout f32 2 inc 1\n", 2, {0, 1}, "0 0 0 1"},
      {"not aliased", "in f32 2 donated\nin f32 2 alias=0\nout f32 2 inc 1\n", 2, {-1, 0}, "8 0 0 1"},
      {"unused", "in f32 2 unused\nin f32 2 alias=0\nout f32 2 inc 1\n", 2, {-1, 0}, "0 0 0 1"},
  };
  for (const Case& c : cases) {
    Device device;
    const auto program = Compile(c.text);
    ArrayList results;
    constexpr int kCalls = 4;
    for (int call = 0; call < kCalls; ++call) {
      ArrayList arguments;
      for (int i = 0; i < c.num_inputs; ++i) {
        const int from = c.next[static_cast<std::size_t>(i)];
        const auto start = static_cast<float>(100 * i);
        arguments.push_back(call > 0 && from >= 0 ? std::move(results[static_cast<std::size_t>(from)])
                                                  : device.Put({start, start + 1}));
      }
      results = device.Run(program, std::move(arguments));
      const std::string moved = device.Moved();
      if (call > 0 && moved != c.steady) {
        testing::Fail(__FILE__, __LINE__, std::string(c.name) + ": moved " + moved + ", not " + c.steady);
      }
    }
    for (std::size_t i = 0; i < c.next.size(); ++i) {
      if (c.next[i] < 0) continue;
      const auto expected = static_cast<float>(100 * i + kCalls);
      CHECK(Equal(device.Get(results[static_cast<std::size_t>(c.next[i])]), {expected, expected + 1}));
    }
  }
}

TEST(UnchangedStateCostsNothingAndKeepsItsHostCopy) {
  Device device;
  const auto program = Compile("in f32 4 alias=0 unchanged\nout f32 4 copy 0\n");
  std::shared_ptr<Array> state = device.Run(program, {device.Put({1, 2, 3, 4})})[0];
  CHECK_EQ(device.Moved(), "16 0 1 1");
  state = device.Run(program, {std::move(state)})[0];
  CHECK_EQ(device.Moved(), "0 0 0 1");
  CHECK(state->on_host());
  CHECK(Equal(device.Get(state), {1, 2, 3, 4}));
  CHECK_EQ(device.Moved(), "0 0 0 0");
}

TEST(ForwardedArgumentsShareTheirMemory) {
  for (const std::string& cost : {std::string(), kQueued}) {
    Device device;
    const auto program = Compile(cost + "in f32 4 unused\nout f32 4 forward 0\n");
    const auto x = device.Put({1, 2, 3, 4});
    const ArrayList y = device.Run(program, {x});
    CHECK(Equal(device.Get(y[0]), {1, 2, 3, 4}));
    CHECK_EQ(y[0]->host()->data(), x->host()->data());
    CHECK_EQ(device.Moved(), "0 0 1 1");
    // A resident array is read back once, for both.
    const auto step = Compile(kStep);
    const auto state = device.Run(step, {device.Put({0, 0, 0, 0}), x})[0];
    device.Moved();
    const ArrayList forwarded = device.Run(program, {state});
    CHECK(Equal(device.Get(forwarded[0]), {1, 2, 3, 4}));
    CHECK_EQ(device.Moved(), "0 16 1 1");
  }
}

// The caller keeps a donated argument (PJRT's non-donatable inputs): main must not destroy it.
TEST(DonatedArgumentsThatTheCallerKeepsSurviveTheRun) {
  Device device;
  const auto step = Compile(kStep);
  const auto value = device.Put({1, 1, 1, 1});
  const std::shared_ptr<Array> state = device.Run(step, {device.Put({0, 0, 0, 0}), value})[0];
  const auto results = device.runtime().Execute(step, {{state, false}, {value, false}});
  CHECK(Equal(device.Get(state), {1, 1, 1, 1}));
  CHECK(Equal(device.Get(results.outputs[0]), {2, 2, 2, 2}));
}

// kept 2 floats, streamed 2 floats -> their sum
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

TEST(CopiesBetweenIpusCrossNoHostLink) {
  for (const std::string& cost : {std::string(), kQueued}) {
    Device a, b;
    const auto step = Compile(cost + kStep), read = Compile("in f32 4 kept\nout f32 4 inc 0\n");
    const auto value = a.Put({1, 1, 1, 1});
    std::shared_ptr<Array> state = a.Run(step, {a.Put({0, 0, 0, 0}), value})[0];
    a.Moved();
    a.MovedOverLinks();
    const std::shared_ptr<Array> copy = CopyOverLinks(state, a.Place(0), b.Place(1), 2);
    CHECK_EQ(a.Moved(), "0 0 0 0");
    CHECK_EQ(b.Moved(), "0 0 0 0");
    const auto sent = a.MovedOverLinks(), received = b.MovedOverLinks();
    CHECK_EQ(sent.first, 0u);
    CHECK_EQ(received.first, 16u);
    CHECK(sent.second > 0 && sent.second == received.second);

    CHECK(Equal(b.Get(b.Run(read, {copy})[0]), {2, 2, 2, 2}));
    CHECK_EQ(b.Moved(), "0 16 1 1");  // only the result
    b.Run(Compile(kOther), {b.Put({1, 2})});
    b.Moved();
    b.Run(read, {copy});
    CHECK_EQ(b.Moved(),
             "16 32 1 1");  // evicted: read back to the host, then written again

    // The first IPU still has the state, and its host reads it once.
    state = a.Run(step, {std::move(state), value})[0];
    CHECK_EQ(a.Moved(), "16 16 0 1");
    const std::shared_ptr<Array> second = CopyOverLinks(state, a.Place(0), b.Place(1), 2);
    CHECK(Equal(a.Get(state), {2, 2, 2, 2}));
    CHECK_EQ(a.Moved(), "0 16 0 0");
    a.Get(state);
    CHECK_EQ(a.Moved(), "0 0 0 0");
    CHECK(Equal(b.Get(second), {2, 2, 2, 2}));
  }
}

TEST(CopiesOfArraysWithErrorsFailWithThem) {
  Device a, b;
  const auto bad = Compile(kQueued + "fail boom\n" + kStep);
  const auto failed = a.Run(bad, {a.Put({0, 0, 0, 0}), a.Put({1, 1, 1, 1})})[0];
  const std::shared_ptr<Array> copy = CopyOverLinks(failed, a.Place(0), b.Place(1), 2);
  const Error* error = Wait(copy->ready());
  CHECK(error != nullptr && std::string(error->what()) == "boom");
  CHECK_EQ(b.MovedOverLinks().first, 0u);
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

TEST(EmptyTensorsNeedNoStreams) {
  Device device;
  const auto program = Compile("in f32 0 alias=0\nin f32 0\nout f32 0 copy 0\nout f32 0 copy 1\n");
  ArrayList y = device.Run(program, {device.Put({}), device.Put({})});
  y = device.Run(program, {std::move(y[0]), std::move(y[1])});
  CHECK(device.Get(y[0]).empty() && device.Get(y[1]).empty());
  CHECK_EQ(device.Moved(), "0 0 1 2");
}

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

int main() { return jax_ipu::testing::RunTests(); }
