// The fast engine: which memory variables have, what operations in place save, streams, and what is refused.
#include "engine/fast/fast_engine.h"

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "check.h"
#include "core/graph/graph_impl.h"
#include "engine/fast/make_host_plan.h"
#include "poplar/Graph.hpp"
#include "poplar/exceptions.hpp"
#include "testing/interpreter.h"
#include "testing/mix_operation.h"

namespace {

using ipu_model::FastEngine;
using ipu_model::toy::AddMix;
using ipu_model::toy::Compile;
using ipu_model::toy::Interpreter;
using poplar::Tensor;
using poplar::program::Copy;
using poplar::program::Sequence;

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

// Two results are interleaved, or one behind the other: each is written in its place, unless something reads
// the whole before it is copied, or reads the result as well.
TEST(PartsAreWrittenInTheirPlace) {
  enum class Use { kCopied, kWholeIsReadBefore, kPartIsReadToo, kPartIsMadeOfTheWhole };
  for (const Use use :
       {Use::kCopied, Use::kWholeIsReadBefore, Use::kPartIsReadToo, Use::kPartIsMadeOfTheWhole}) {
    for (const bool interleaved : {false, true}) {
      poplar::Graph graph = NewGraph();
      const std::size_t n = 48;
      const auto variable = [&](std::size_t size) { return graph.addVariable(poplar::INT, {size}, "v"); };
      const Tensor a = variable(n), b = variable(n), first = variable(n), second = variable(n),
                   whole = variable(2 * n), more = variable(n);
      const auto in0 = graph.addHostToDeviceFIFO("in0", poplar::INT, n);
      const auto in1 = graph.addHostToDeviceFIFO("in1", poplar::INT, n);
      const auto out0 = graph.addDeviceToHostFIFO("out0", poplar::INT, 2 * n);
      const auto out1 = graph.addDeviceToHostFIFO("out1", poplar::INT, n);
      const auto part = [&](std::size_t i) {
        return interleaved ? whole.slice(i, 2 * n).subSample(2, 0) : whole.slice(i * n, i * n + n);
      };
      Sequence prog;
      prog.add(Copy(in0, a));
      prog.add(Copy(in1, b));
      if (use == Use::kWholeIsReadBefore || use == Use::kPartIsMadeOfTheWhole) {
        prog.add(Copy(a, part(0)));
        prog.add(Copy(a, part(1)));
      }
      AddMix(&prog, a, b, first, false);
      AddMix(&prog, b, use == Use::kPartIsMadeOfTheWhole ? part(1) : a, second, false);
      if (use == Use::kWholeIsReadBefore) AddMix(&prog, part(0), part(1), more, false);
      prog.add(Copy(first, part(0)));
      prog.add(Copy(second, part(1)));
      if (use == Use::kPartIsReadToo) AddMix(&prog, first, second, more, false);
      prog.add(Copy(whole, out0));
      const bool gives_more = use == Use::kWholeIsReadBefore || use == Use::kPartIsReadToo;
      if (gives_more) prog.add(Copy(more, out1));
      const auto compiled = Compile(graph, {prog});
      const ipu_model::HostPlan plan = ipu_model::MakeHostPlan(*compiled);
      if (use == Use::kCopied) {
        CHECK_EQ(plan.code.code.size(), 3u);  // the operations and the end
        CHECK_EQ(plan.arena_bytes, 0u);
      }
      FastEngine engine(compiled);
      std::vector<std::int32_t> x(n), y(n), z(2 * n, 0), again(n, 0);
      for (std::size_t i = 0; i < n; ++i) {
        x[i] = static_cast<std::int32_t>(i * i);
        y[i] = static_cast<std::int32_t>(3 * i + 1);
      }
      engine.ConnectStream(0, x.data());
      engine.ConnectStream(1, y.data());
      engine.ConnectStream(2, z.data());
      engine.ConnectStream(3, again.data());
      Interpreter interpreter(*compiled);
      interpreter.streams[0] = x;
      interpreter.streams[1] = y;
      interpreter.Run(0);
      engine.Run(0);
      CHECK(z == interpreter.streams[2]);
      if (gives_more) CHECK(again == interpreter.streams[3]);
    }
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
  body.add(poplar::program::Call(poplar::Function(0, graph.impl().number())));
  graph.addFunction(body);
  CHECK_THROWS(poplar::control_program_error, FastEngine(Compile(graph, {body})));
  body.node()->children.clear();
}

}  // namespace
