// Donation and spilling with counted bytes: which values stay in SRAM, which move, and in which order.
#include "runtime/device/device_runtime.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "runtime/memory/link_copy.h"
#include "testing/counted_device.h"

namespace jax_ipu {
namespace {

using namespace testing;

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

TEST(EmptyTensorsNeedNoStreams) {
  Device device;
  const auto program = Compile("in f32 0 alias=0\nin f32 0\nout f32 0 copy 0\nout f32 0 copy 1\n");
  ArrayList y = device.Run(program, {device.Put({}), device.Put({})});
  y = device.Run(program, {std::move(y[0]), std::move(y[1])});
  CHECK(device.Get(y[0]).empty() && device.Get(y[1]).empty());
  CHECK_EQ(device.Moved(), "0 0 1 2");
}

}  // namespace
}  // namespace jax_ipu
