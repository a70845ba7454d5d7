// Compares the fast engine with a plain interpreter, on random programs.
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "engine/fast/fast_engine.h"
#include "poplar/Graph.hpp"
#include "testing/interpreter.h"
#include "testing/mix_operation.h"

namespace {

using ipu_model::FastEngine;
using ipu_model::toy::AddMix;
using ipu_model::toy::Compile;
using ipu_model::toy::Interpreter;
using ipu_model::toy::ViewOf;
using poplar::Tensor;
using poplar::program::Copy;
using poplar::program::Sequence;

// Random programs over a few variables of a few elements: all constructs, two engine programs, state between
// runs.
class RandomProgram {
 public:
  static constexpr std::size_t kElements = 4;

  explicit RandomProgram(unsigned seed) : rng_(seed), graph_(poplar::Target::createIPUTarget(1, 4, "ipu2")) {
    for (int i = 0; i < 9; ++i) vars_.push_back(graph_.addVariable(poplar::INT, {kElements}, "v"));
    const std::int32_t values[kElements] = {1, 0, 3, 2};
    constant_ = graph_.addConstant(poplar::INT, {kElements}, values, "c");
    for (int i = 0; i < 3; ++i) {
      in_.push_back(graph_.addHostToDeviceFIFO("in" + std::to_string(i), poplar::INT, kElements));
    }
    // Input 0 is read into its own variable once, like an argument.
    main_.add(Copy(in_[0], vars_[0]));
    // Half of the programs begin by defining all variables, so that few are state.
    for (std::size_t i = 1; seed % 2 == 0 && i < vars_.size(); ++i) {
      AddMix(&main_, vars_[Below(i)], vars_[0], vars_[i], true);
    }
    Sequence function;
    Fill(&function, 2, 1);
    function_ = graph_.addFunction(function);
    has_function_ = true;
    Fill(&main_, 8, 2);
    for (std::size_t i = 0; i < vars_.size(); ++i) {
      if (Below(2) == 0) Output(&main_, vars_[i]);
    }
    Fill(&second_, 3, 1);
    Output(&second_, vars_[Below(vars_.size())]);
  }

  poplar::Graph& graph() { return graph_; }
  const Sequence& main() const { return main_; }
  const Sequence& second() const { return second_; }

 private:
  std::size_t Below(std::size_t n) { return rng_() % n; }
  Tensor Any() { return vars_[Below(vars_.size())]; }
  // Often a new variable, so that many are temporaries with short lives.
  Tensor Target() {
    if (Below(2) == 0) return Any();
    vars_.push_back(graph_.addVariable(poplar::INT, {kElements}, "t"));
    if (vars_.size() > 12) vars_.erase(vars_.begin());
    return vars_.back();
  }
  Tensor Source() {
    if (Below(6) == 0) return constant_;
    const Tensor t = Any();
    return Below(5) == 0 ? t.reverse(0) : Below(5) == 0 ? t.slice(1, 2, 0).broadcast(kElements, 0) : t;
  }
  void Output(Sequence* prog, const Tensor& tensor) {
    out_.push_back(graph_.addDeviceToHostFIFO("out" + std::to_string(out_.size()), poplar::INT, kElements));
    prog->add(Copy(Below(4) == 0 ? tensor.reverse(0) : tensor, out_.back()));
  }
  void Fill(Sequence* prog, std::size_t steps, int depth) {
    for (std::size_t i = 0; i < steps; ++i) Step(prog, depth);
  }
  // Halves of a variable, adjacent or interleaved, are made elsewhere and copied, while others may use it.
  void Parts(Sequence* prog) {
    const Tensor out = Target(), other = Below(3) == 0 ? Target() : out;
    const bool interleaved = Below(2) == 0;
    std::vector<std::pair<Tensor, Tensor>> copies;
    for (const std::size_t half : {0, 1}) {
      const Tensor part = graph_.addVariable(poplar::INT, {2}, "part"), into = half == 0 ? out : other;
      AddMix(prog, Any().slice(0, 2, 0), Any().slice(1, 3, 0), part, Below(2) == 0);
      copies.emplace_back(
          part, interleaved ? into.slice(half, 4, 0).subSample(2, 0) : into.slice(2 * half, 2 * half + 2, 0));
      if (Below(2) == 0) continue;
      if (Below(3) == 0) AddMix(prog, Any(), Any(), Target(), true);
      for (const auto& [from, to] : copies) prog->add(Copy(from, to));
      if (Below(4) != 0) copies.clear();
    }
    for (const auto& [from, to] : copies) prog->add(Copy(from, to));
  }
  void Step(Sequence* prog, int depth) {
    Sequence a, b;
    switch (Below(depth > 0 ? 14 : 9)) {
      case 0:
      case 1:
      case 2:
        // An output may be exactly an input, because the operation allows it.
        AddMix(prog, Any(), Any(), Target(), true);
        return;
      case 3: {
        const Tensor x = Any(), y = Any(), out = Target();
        if (ViewOf(x).variable == ViewOf(out).variable || ViewOf(y).variable == ViewOf(out).variable) return;
        AddMix(prog, x, y, out, false);
        // A new value for an old variable: a case in which copies can be removed.
        if (Below(2) == 0) prog->add(Copy(out, Below(2) == 0 ? x : y));
        return;
      }
      case 4:
      case 5:
        prog->add(Copy(Any(), Target()));
        return;
      case 6:
        prog->add(Copy(Source(), Target()));
        return;
      case 7: {
        if (Below(2) == 0) return Parts(prog);
        const Tensor x = Any(), y = Any(), out = Target();
        prog->add(Copy(x.slice(0, 2, 0), out.slice(2, 4, 0)));
        if (Below(2) == 0) prog->add(Copy(y.slice(1, 3, 0), out.slice(0, 2, 0)));
        return;
      }
      case 8:
        if (Below(2) == 0) return Output(prog, Any());
        prog->add(Copy(in_[1 + Below(2)], Any()));
        return;
      case 9:
        Fill(&a, 3, depth - 1);
        prog->add(poplar::program::Repeat(static_cast<unsigned>(Below(4)), a));
        return;
      case 10:
        Fill(&a, 2, depth - 1);
        Fill(&b, 2, depth - 1);
        prog->add(poplar::program::If(Any().slice(0, 1, 0), a, b));
        return;
      case 11: {
        Fill(&a, 2, depth - 1);
        Fill(&b, 2, depth - 1);
        const std::size_t at = Below(kElements);
        prog->add(poplar::program::Switch(constant_.slice(at, at + 1, 0), {{1, a}, {3, b}}, Sequence()));
        return;
      }
      case 12:
        if (has_function_) prog->add(poplar::program::Call(function_));
        return;
      default: {
        // The loop runs its body as often as the constant counts down: 3, then 0.
        const Tensor counter = graph_.addVariable(poplar::INT, {2}, "counter");
        prog->add(Copy(constant_.slice(2, 4, 0), counter));
        Fill(&a, 1, depth - 1);
        Fill(&b, 2, depth - 1);
        b.add(Copy(constant_.slice(1, 2, 0), counter.slice(0, 1, 0)));
        prog->add(poplar::program::RepeatWhileTrue(a, counter.slice(0, 1, 0), b));
      }
    }
  }

  std::mt19937 rng_;
  poplar::Graph graph_;
  std::vector<Tensor> vars_;
  Tensor constant_;
  std::vector<poplar::DataStream> in_, out_;
  poplar::Function function_;
  bool has_function_ = false;
  Sequence main_, second_;
};

TEST(RandomProgramsGiveTheValuesOfTheInterpreter) {
  int outputs = 0;
  // A quarter of the programs for every change.
  const unsigned programs = jax_ipu::testing::Everything() ? 4000 : 1000;
  for (unsigned seed = 0; seed < programs; ++seed) {
    RandomProgram random(seed);
    const auto compiled = Compile(random.graph(), {random.main(), random.second()});
    FastEngine engine(compiled);
    Interpreter interpreter(*compiled);
    std::vector<std::vector<std::int32_t>> host(compiled->streams.size(),
                                                std::vector<std::int32_t>(RandomProgram::kElements));
    std::mt19937 rng(seed);
    for (unsigned run = 0; run < 4; ++run) {
      for (std::uint32_t s = 0; s < host.size(); ++s) {
        for (std::int32_t& x : host[s]) x = static_cast<std::int32_t>(rng() % 5);
        if (compiled->streams[s].host_to_device) interpreter.streams[s] = host[s];
        // New memory for every run, like results.
        std::vector<std::int32_t> fresh = host[s];
        host[s].swap(fresh);
        engine.ConnectStream(s, host[s].data());
      }
      const unsigned program = run == 2 ? 1 : 0;
      interpreter.Run(program);
      engine.Run(program);
      for (std::uint32_t s = 0; s < host.size(); ++s) {
        if (interpreter.streams.count(s) == 0) continue;
        CHECK(host[s] == interpreter.streams[s]);
        if (!compiled->streams[s].host_to_device) ++outputs;
        if (!compiled->streams[s].host_to_device) interpreter.streams.erase(s);
      }
      if (jax_ipu::testing::Failures() > 0) {
        std::fprintf(stderr, "seed %u run %u\n", seed, run);
        return;
      }
    }
  }
  CHECK(outputs > 1000);
}

}  // namespace
