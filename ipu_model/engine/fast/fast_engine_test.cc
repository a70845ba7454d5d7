// Compares the fast engine with a plain interpreter of the program tree, in which every variable has its own
// memory.
#include "engine/fast/fast_engine.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "core/graph/graph_impl.h"
#include "engine/fast/make_host_plan.h"
#include "poplar/Graph.hpp"
#include "poplar/exceptions.hpp"
#include "testing/mix_operation.h"

namespace {

using ipu_model::CompiledProgram;
using ipu_model::FastEngine;
using ipu_model::HostTensor;
using ipu_model::ProgramKind;
using ipu_model::ProgramNode;
using ipu_model::View;
using ipu_model::toy::AddMix;
using ipu_model::toy::Compile;
using ipu_model::toy::ViewOf;
using poplar::Tensor;
using poplar::program::Copy;
using poplar::program::Program;
using poplar::program::Sequence;

class Interpreter {
 public:
  explicit Interpreter(const CompiledProgram& program) : program_(program) {
    for (const ipu_model::Variable& v : program.variables) {
      memory_.emplace_back(static_cast<std::size_t>(v.num_elements), 0);
      if (v.constant) std::memcpy(memory_.back().data(), v.constant->data(), v.constant->size());
    }
  }
  std::map<std::uint32_t, std::vector<std::int32_t>> streams;

  void Run(unsigned program) { Node(*program_.programs[program]); }

 private:
  std::vector<std::int32_t*> Elements(const std::vector<View>& views) {
    std::vector<std::int32_t*> elements;
    for (const View& v : views) {
      for (std::int64_t i = 0; i < v.num_elements(); ++i) {
        std::int64_t rest = i, at = v.offset;
        for (std::size_t d = v.shape.size(); d-- > 0;) {
          at += rest % v.shape[d] * v.strides[d];
          rest /= v.shape[d];
        }
        elements.push_back(&memory_[v.variable][static_cast<std::size_t>(at)]);
      }
    }
    return elements;
  }
  void Node(const ProgramNode& node) {
    const auto elements = Elements(node.tensor);
    switch (node.kind) {
      case ProgramKind::kSequence:
        for (const auto& child : node.children) Node(*child);
        break;
      case ProgramKind::kOperation: {
        std::vector<std::vector<std::int32_t>> in;
        for (const View& v : node.operation->inputs) {
          in.emplace_back();
          for (const std::int32_t* e : Elements({v})) in.back().push_back(*e);
        }
        for (std::size_t o = 0; o < node.operation->outputs.size(); ++o) {
          const auto out = Elements({node.operation->outputs[o]});
          for (std::size_t i = 0; i < out.size(); ++i) {
            *out[i] = node.operation->kind() == "poplar::copy"
                          ? in[o][i]
                          : static_cast<std::int32_t>(static_cast<std::uint32_t>(in[0][i]) * 3u +
                                                      static_cast<std::uint32_t>(in[1][i]) + 1u);
          }
        }
        break;
      }
      case ProgramKind::kStreamIn:
        for (std::size_t i = 0; i < elements.size(); ++i) *elements[i] = streams[node.stream][i];
        break;
      case ProgramKind::kStreamOut:
        streams[node.stream].clear();
        for (const std::int32_t* e : elements) streams[node.stream].push_back(*e);
        break;
      case ProgramKind::kRepeat:
        for (std::uint64_t i = 0; i < node.count; ++i) Node(*node.children[0]);
        break;
      case ProgramKind::kRepeatWhileTrue:
      case ProgramKind::kRepeatWhileFalse:
        while (true) {
          Node(*node.children[0]);
          if ((*elements[0] != 0) != (node.kind == ProgramKind::kRepeatWhileTrue)) break;
          Node(*node.children[1]);
        }
        break;
      case ProgramKind::kIf:
        Node(*node.children[*elements[0] != 0 ? 0 : 1]);
        break;
      case ProgramKind::kSwitch: {
        const auto found = std::find(node.cases.begin(), node.cases.end(), *elements[0]);
        Node(*node.children[static_cast<std::size_t>(found - node.cases.begin())]);
        break;
      }
      case ProgramKind::kCall:
        Node(*program_.functions[node.function]);
        break;
      default:
        break;
    }
  }

  const CompiledProgram& program_;
  std::vector<std::vector<std::int32_t>> memory_;
};

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
  for (unsigned seed = 0; seed < 4000; ++seed) {
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
      if (jax_ipu::testing::GetState().failures > 0) {
        std::fprintf(stderr, "seed %u run %u\n", seed, run);
        return;
      }
    }
  }
  CHECK(outputs > 1000);
}

poplar::Graph NewGraph() { return poplar::Graph(poplar::Target::createIPUTarget(1, 4, "ipu2")); }

TEST(WholeStreamsAreNotCopied) {
  poplar::Graph graph = NewGraph();
  const std::size_t n = 1000;
  const Tensor a = graph.addVariable(poplar::INT, {n}, "a"), b = graph.addVariable(poplar::INT, {n}, "b"),
               c = graph.addVariable(poplar::INT, {n}, "c");
  const auto in0 = graph.addHostToDeviceFIFO("in0", poplar::INT, n);
  const auto in1 = graph.addHostToDeviceFIFO("in1", poplar::INT, n);
  const auto out0 = graph.addDeviceToHostFIFO("out0", poplar::INT, n);
  Sequence prog;
  prog.add(Copy(in0, a));
  prog.add(Copy(in1, b));
  AddMix(&prog, a, b, c, false);
  prog.add(Copy(c, out0));
  const auto compiled = Compile(graph, {prog});
  const ipu_model::HostPlan plan = ipu_model::MakeHostPlan(*compiled);
  CHECK_EQ(plan.arena_bytes, 0u);
  CHECK_EQ(plan.code.code.size(), 2u);  // the operation and the end
  FastEngine engine(compiled);
  std::vector<std::int32_t> x(n, 2), y(n, 5), z(n, 0);
  engine.ConnectStream(0, x.data());
  CHECK_THROWS(poplar::stream_connection_error, engine.Run(0));
  engine.ConnectStream(1, y.data());
  engine.ConnectStream(2, z.data());
  engine.Run(0);
  CHECK(z == std::vector<std::int32_t>(n, 12));
}

// The main program reads a variable that another program writes from a stream.
TEST(WhatOneStreamAloneWritesLivesInItsMemory) {
  for (const bool stays : {false, true}) {
    for (const bool updated : {false, true}) {
      poplar::Graph graph = NewGraph();
      const std::size_t n = 1000;
      const Tensor a = graph.addVariable(poplar::INT, {n}, "a"), b = graph.addVariable(poplar::INT, {n}, "b"),
                   c = graph.addVariable(poplar::INT, {n}, "c");
      const auto in0 = graph.addHostToDeviceFIFO("in0", poplar::INT, n);
      const auto in1 = graph.addHostToDeviceFIFO("in1", poplar::INT, n);
      const auto out0 = graph.addDeviceToHostFIFO("out0", poplar::INT, n);
      Sequence write, prog;
      write.add(Copy(in0, a));
      prog.add(Copy(in1, b));
      AddMix(&prog, a, b, c, false);
      prog.add(Copy(c, out0));
      if (updated) prog.add(Copy(b, a));
      const auto compiled = Compile(graph, {prog, write});
      const ipu_model::HostPlan plan = ipu_model::MakeHostPlan(*compiled, stays);
      CHECK_EQ(plan.state_bytes > 0, updated || !stays);
      FastEngine engine(compiled, stays);
      std::vector<std::int32_t> x(n, 2), y(n, 5), z(n, 0), other(n, 3);
      engine.ConnectStream(1, y.data());
      engine.ConnectStream(2, z.data());
      CHECK_THROWS(poplar::stream_connection_error, engine.Run(1));
      engine.ConnectStream(0, x.data());
      engine.Run(1);
      engine.Run(0);
      CHECK(z == std::vector<std::int32_t>(n, 12));
      std::fill(y.begin(), y.end(), 1);
      if (updated) {
        engine.Run(0);  // a is 5 now
        CHECK(z == std::vector<std::int32_t>(n, 17));
      }
      engine.ConnectStream(0, other.data());
      engine.Run(1);
      engine.Run(0);
      CHECK(z == std::vector<std::int32_t>(n, 11));
    }
  }
}

// Its owner reads it back, so its contents are the program's own: what was sent may be gone by then.
TEST(WhatIsReadBackDoesNotLiveInTheMemoryOfItsStream) {
  for (const bool reversed : {false, true}) {
    poplar::Graph graph = NewGraph();
    const std::size_t n = 100;
    const Tensor a = graph.addVariable(poplar::INT, {n}, "a"), b = graph.addVariable(poplar::INT, {n}, "b");
    const auto in = graph.addHostToDeviceFIFO("in", poplar::INT, n);
    const auto out = graph.addDeviceToHostFIFO("out", poplar::INT, n);
    const auto back = graph.addDeviceToHostFIFO("back", poplar::INT, n);
    Sequence prog;
    AddMix(&prog, a, a, b, false);
    prog.add(Copy(b, out));
    const Tensor whole = reversed ? a.reverse(0) : a;
    FastEngine engine(Compile(graph, {prog, Copy(in, a), Copy(whole, back)}), true);
    std::vector<std::int32_t> sent(n, 2), result(n, 0), read(n, 0);
    engine.ConnectStream(0, sent.data());
    engine.ConnectStream(1, result.data());
    engine.ConnectStream(2, read.data());
    engine.Run(1);
    std::fill(sent.begin(), sent.end(), 9);
    engine.Run(0);
    engine.Run(2);
    CHECK(read == std::vector<std::int32_t>(n, 2));
  }
}

TEST(ResultsAreWrittenInTheOrderOfTheirStreams) {
  for (const bool read_again : {false, true}) {
    poplar::Graph graph = NewGraph();
    const std::size_t n = 35;
    const Tensor a = graph.addVariable(poplar::INT, {n}, "a"), b = graph.addVariable(poplar::INT, {n}, "b"),
                 c = graph.addVariable(poplar::INT, {n}, "c").reverse(0),
                 d = graph.addVariable(poplar::INT, {n}, "d");
    const auto in0 = graph.addHostToDeviceFIFO("in0", poplar::INT, n);
    const auto in1 = graph.addHostToDeviceFIFO("in1", poplar::INT, n);
    const auto out0 = graph.addDeviceToHostFIFO("out0", poplar::INT, n);
    const auto out1 = graph.addDeviceToHostFIFO("out1", poplar::INT, n);
    Sequence prog;
    prog.add(Copy(in0, a));
    prog.add(Copy(in1, b));
    AddMix(&prog, a, b, c, false);
    if (read_again) {
      AddMix(&prog, c, b, d, false);
      prog.add(Copy(d, out1));
    }
    prog.add(Copy(c, out0));
    const auto compiled = Compile(graph, {prog});
    const ipu_model::HostPlan plan = ipu_model::MakeHostPlan(*compiled);
    // A result with another reader keeps its own order and is copied to the stream.
    CHECK_EQ(plan.arena_bytes > 0, read_again);
    CHECK_EQ(plan.code.code.size(), read_again ? 4u : 2u);
    FastEngine engine(compiled);
    std::vector<std::int32_t> x(n), y(n), z(n, 0), again(n, 0);
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = static_cast<std::int32_t>(i * i);
      y[i] = static_cast<std::int32_t>(3 * i + 1);
    }
    engine.ConnectStream(0, x.data());
    engine.ConnectStream(1, y.data());
    engine.ConnectStream(2, z.data());
    if (read_again) engine.ConnectStream(3, again.data());
    Interpreter interpreter(*compiled);
    interpreter.streams[0] = x;
    interpreter.streams[1] = y;
    interpreter.Run(0);
    engine.Run(0);
    CHECK(z == interpreter.streams[2]);
    if (read_again) CHECK(again == interpreter.streams[3]);
  }
}

TEST(StateIsUpdatedInPlace) {
  // new = state * 3 + gradient + 1; state = new: the copy and the second buffer are removed.
  poplar::Graph graph = NewGraph();
  const std::size_t n = 64;
  const Tensor state = graph.addVariable(poplar::INT, {n}, "state"),
               gradient = graph.addVariable(poplar::INT, {n}, "gradient"),
               next = graph.addVariable(poplar::INT, {n}, "new");
  const auto write = graph.addHostToDeviceFIFO("state0", poplar::INT, n);
  const auto read = graph.addDeviceToHostFIFO("state0.out", poplar::INT, n);
  const auto in = graph.addHostToDeviceFIFO("in0", poplar::INT, n);
  Sequence main;
  main.add(Copy(in, gradient));
  AddMix(&main, state, gradient, next, true);
  main.add(Copy(next, state));
  const auto compiled = Compile(graph, {main, Sequence({Copy(write, state)}), Sequence({Copy(state, read)})});
  const ipu_model::HostPlan plan = ipu_model::MakeHostPlan(*compiled);
  CHECK_EQ(plan.arena_bytes, n * sizeof(std::int32_t));
  CHECK_EQ(plan.state_bytes, n * sizeof(std::int32_t));
  FastEngine engine(compiled);
  std::vector<std::int32_t> values(n, 1), ones(n, 1);
  engine.ConnectStream(0, values.data());
  engine.ConnectStream(1, values.data());
  engine.ConnectStream(2, ones.data());
  engine.Run(1);
  engine.Run(0);
  engine.Run(0);
  engine.Run(2);
  CHECK(values == std::vector<std::int32_t>(n, 17));
  engine.Load();  // clears the device
  engine.Run(2);
  CHECK(values == std::vector<std::int32_t>(n, 0));
}

TEST(TemporariesShareMemory) {
  poplar::Graph graph = NewGraph();
  const std::size_t n = 1024;
  const auto in = graph.addHostToDeviceFIFO("in0", poplar::INT, n);
  const auto out = graph.addDeviceToHostFIFO("out0", poplar::INT, n);
  Sequence prog;
  Tensor x = graph.addVariable(poplar::INT, {n}, "x");
  prog.add(Copy(in, x));
  for (int i = 0; i < 20; ++i) {
    const Tensor y = graph.addVariable(poplar::INT, {n}, "y");
    AddMix(&prog, x, x, y, false);
    x = y;
  }
  prog.add(Copy(x, out));
  const ipu_model::HostPlan plan = ipu_model::MakeHostPlan(*Compile(graph, {prog}));
  CHECK_EQ(plan.arena_bytes, 2 * n * sizeof(std::int32_t));
  CHECK_EQ(plan.state_bytes, 0u);
}

TEST(OperationsInPlaceUseOneMemory) {
  poplar::Graph graph = NewGraph();
  const std::size_t n = 1024;
  const auto in = graph.addHostToDeviceFIFO("in0", poplar::INT, n);
  const auto out = graph.addDeviceToHostFIFO("out0", poplar::INT, n);
  Sequence prog;
  Tensor x = graph.addVariable(poplar::INT, {n}, "x");
  prog.add(Copy(in, x));
  for (int i = 0; i < 20; ++i) {
    const Tensor y = graph.addVariable(poplar::INT, {n}, "y");
    // The last two operations read the previous result also in reverse order, so they must not overwrite it.
    AddMix(&prog, x, i < 18 ? x : x.reverse(0), y, true);
    x = y;
  }
  prog.add(Copy(x, out));
  // x stays in the stream's memory; the first 18 results share one buffer, the next one has another.
  const ipu_model::HostPlan plan = ipu_model::MakeHostPlan(*Compile(graph, {prog}));
  CHECK_EQ(plan.arena_bytes, 2 * n * sizeof(std::int32_t));
}

TEST(PartsThatTogetherDefineAVariableMakeNoState) {
  poplar::Graph graph = NewGraph();
  const auto in = graph.addHostToDeviceFIFO("in0", poplar::INT, 4);
  const auto out = graph.addDeviceToHostFIFO("out0", poplar::INT, 8);
  const Tensor x = graph.addVariable(poplar::INT, {4}, "x"), y = graph.addVariable(poplar::INT, {8}, "y");
  Sequence prog;
  prog.add(Copy(in, x));
  prog.add(Copy(x, y.slice(4, 8, 0)));
  prog.add(Copy(x, y.slice(0, 4, 0)));
  prog.add(Copy(y, out));
  const ipu_model::HostPlan plan = ipu_model::MakeHostPlan(*Compile(graph, {prog}));
  CHECK_EQ(plan.arena_bytes, 0u);  // both are in the host's memory
}

TEST(PartsOnOneBranchOnlyKeepTheOldContents) {
  poplar::Graph graph = NewGraph();
  const auto in = graph.addHostToDeviceFIFO("in0", poplar::INT, 1);
  const auto out = graph.addDeviceToHostFIFO("out0", poplar::INT, 4);
  const std::int32_t sevens[4] = {7, 7, 7, 7};
  const Tensor x = graph.addVariable(poplar::INT, {1}, "x"), y = graph.addVariable(poplar::INT, {4}, "y"),
               c = graph.addConstant(poplar::INT, {4}, sevens, "c");
  Sequence prog;
  prog.add(Copy(in, x));
  prog.add(Copy(c.slice(0, 2, 0), y.slice(0, 2, 0)));
  prog.add(poplar::program::If(x, Copy(c.slice(2, 4, 0), y.slice(2, 4, 0)), Sequence()));
  Tensor t = y;
  for (int i = 0; i < 3; ++i) {  // other variables in between
    const Tensor u = graph.addVariable(poplar::INT, {4}, "u");
    AddMix(&prog, t, t, u, false);
    t = u;
  }
  prog.add(Copy(y, out));
  FastEngine engine(Compile(graph, {prog}));
  std::int32_t yes = 1;
  std::vector<std::int32_t> result(4);
  engine.ConnectStream(0, &yes);
  engine.ConnectStream(1, result.data());
  engine.Run(0);
  CHECK(result == (std::vector<std::int32_t>{7, 7, 7, 7}));
  engine.Load();
  yes = 0;
  engine.Run(0);
  CHECK(result == (std::vector<std::int32_t>{7, 7, 0, 0}));
}

TEST(StreamsMoveThroughTheirMemory) {
  poplar::Graph graph = NewGraph();
  const auto in = graph.addHostToDeviceFIFO("in0", poplar::INT, 2);
  const auto out = graph.addDeviceToHostFIFO("out0", poplar::INT, 2);
  const Tensor x = graph.addVariable(poplar::INT, {2}, "x"), y = graph.addVariable(poplar::INT, {2}, "y");
  for (const bool loop : {false, true}) {
    Sequence body;
    body.add(Copy(in, x));
    AddMix(&body, x, x, y, true);
    body.add(Copy(y, out));
    const Sequence prog = loop ? Sequence({poplar::program::Repeat(3, body)}) : body;
    FastEngine engine(Compile(graph, {prog}));
    std::vector<std::int32_t> source = {0, 1, 2, 3, 4, 5}, result(6, 0);
    engine.ConnectStream(0, source.data(), source.data() + 6);
    engine.ConnectStream(1, result.data(), result.data() + 6);
    for (int i = 0; i < (loop ? 1 : 3); ++i) engine.Run(0);
    CHECK(result == (std::vector<std::int32_t>{1, 5, 9, 13, 17, 21}));
    result.assign(6, 0);
    engine.Run(0);
    CHECK_EQ(result[0], 1);
    CHECK_THROWS(poplar::stream_connection_error, engine.ConnectStream(0, source.data(), source.data() + 5));
  }
}

TEST(AbortAndPrint) {
  poplar::Graph graph = NewGraph();
  const auto in = graph.addHostToDeviceFIFO("in0", poplar::INT, 4);
  const Tensor x = graph.addVariable(poplar::INT, {2, 2}, "x");
  Sequence prog;
  prog.add(Copy(in, x.flatten()));
  prog.add(poplar::program::PrintTensor("rows", x.reverse(1)));
  prog.add(poplar::program::AbortOnCondition(x[0][0], "index out of range"));
  FastEngine engine(Compile(graph, {prog}));
  std::ostringstream text;
  engine.SetPrintTensorStream(text);
  std::vector<std::int32_t> values = {0, 1, 2, 3};
  engine.ConnectStream(0, values.data());
  engine.Run(0);
  CHECK(text.str().find("rows: [") != std::string::npos);
  CHECK(text.str().find("[1 0]") != std::string::npos);
  values[0] = 1;
  try {
    engine.Run(0);
    CHECK(false);
  } catch (const poplar::application_runtime_error& error) {
    CHECK_EQ(std::string(error.what()), std::string("index out of range"));
  }
  values[0] = 0;
  engine.Run(0);  // an abort leaves the engine usable
}

TEST(CopiesBetweenAnyTensors) {
  // Every pair of shapes of the same 24 elements, also overlapping. The result must be as if all elements
  // were read before any is written.
  const auto forms = [](poplar::Graph* graph, const Tensor& x) {
    std::vector<Tensor> t = {x.flatten(), x.dimShuffle({2, 0, 1}).flatten(), x.reverse(1).flatten(),
                             x.dimShuffle({1, 2, 0}).reshape({2, 12}).transpose().flatten(),
                             poplar::concat(x.slice(0, 1, 0), x.slice(1, 2, 0).reverse(2), 2).flatten()};
    const Tensor other = graph->addVariable(poplar::INT, {2, 3, 1}, "other");
    t.push_back(poplar::concat({x.slice(0, 1, 2), other, x.slice(1, 3, 2)}, 2).flatten());
    return t;
  };
  for (std::size_t s = 0; s < 6; ++s) {
    for (std::size_t d = 0; d < 6; ++d) {
      for (const bool same : {false, true}) {
        poplar::Graph graph = NewGraph();
        const Tensor x = graph.addVariable(poplar::INT, {2, 3, 4}, "x");
        const Tensor y = same ? x : graph.addVariable(poplar::INT, {2, 3, 4}, "y");
        const auto in = graph.addHostToDeviceFIFO("in", poplar::INT, 24);
        const auto out = graph.addDeviceToHostFIFO("out", poplar::INT, 24);
        Sequence prog;
        const Tensor source = forms(&graph, x)[s], destination = forms(&graph, y)[d];
        prog.add(Copy(in, source));
        prog.add(Copy(source, destination));
        prog.add(Copy(destination, out));
        FastEngine engine(Compile(graph, {prog}));
        std::vector<std::int32_t> values(24), result(24, -1);
        for (int i = 0; i < 24; ++i) values[static_cast<std::size_t>(i)] = i;
        engine.ConnectStream(0, values.data());
        engine.ConnectStream(1, result.data());
        engine.Run(0);
        CHECK(result == values);
      }
    }
  }
}

TEST(CopiesThatCannotBeAreRefused) {
  poplar::Graph graph = NewGraph();
  const Tensor x = graph.addVariable(poplar::INT, {4}, "x"), f = graph.addVariable(poplar::FLOAT, {4}, "f");
  const std::int32_t one = 1;
  const Tensor c = graph.addConstant(poplar::INT, {1}, &one, "c");
  CHECK_THROWS(poplar::control_program_error, Copy(x, f));
  CHECK_THROWS(poplar::control_program_error, Copy(x, x.slice(0, 2, 0)));
  CHECK_THROWS(poplar::control_program_error, Copy(x, x.slice(0, 1, 0).broadcast(4, 0)));
  CHECK_THROWS(poplar::control_program_error, Copy(x.slice(0, 1, 0), c));
  CHECK_THROWS(poplar::control_program_error, poplar::program::If(x, Sequence(), Sequence()));
  CHECK_THROWS(poplar::control_program_error, poplar::program::If(f.slice(0, 1, 0), Sequence(), Sequence()));
}

TEST(ProgramsThatNeverEndAreRefused) {
  poplar::Graph graph = NewGraph();
  Sequence itself;
  itself.add(itself);
  CHECK_THROWS(poplar::control_program_error, ipu_model::NodesOf({itself.node()}));
  itself.node()->children.clear();
  Sequence body;
  body.add(poplar::program::Call(poplar::Function(0)));
  graph.addFunction(body);
  CHECK_THROWS(poplar::control_program_error, FastEngine(Compile(graph, {body})));
  body.node()->children.clear();
}

}  // namespace

int main() { return jax_ipu::testing::RunTests(); }
