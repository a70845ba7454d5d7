// Tests host functions through poplar::Engine, in both execution modes.
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "ipu_model/Model.hpp"
#include "poplar/Engine.hpp"
#include "poplar/IPUModel.hpp"
#include "poplar/exceptions.hpp"
#include "popops/ElementWise.hpp"
#include "popops/codelets.hpp"
#include "poputil/TileMapping.hpp"

namespace {

using poplar::Tensor;
using poplar::program::Call;
using poplar::program::Copy;
using poplar::program::Repeat;
using poplar::program::Sequence;

// out = the last result of three calls of `step(state) -> state`, starting from in.
poplar::Executable CompileLoop() {
  poplar::Graph graph(poplar::Target::createIPUTarget(1, 4, "ipu2"));
  const Tensor state = graph.addVariable(poplar::INT, {2, 3}, "state");
  poputil::mapTensorLinearly(graph, state);
  const auto in = graph.addHostToDeviceFIFO("in", poplar::INT, 6);
  const auto out = graph.addDeviceToHostFIFO("out", poplar::INT, 6);
  const auto step = graph.addHostFunction("step", {{poplar::INT, 6}}, {{poplar::INT, 6}});
  // The function sees the transpose, so its operands are not whole variables.
  const Tensor view = state.dimShuffle({1, 0});
  const Sequence program({Copy(in, state), Repeat(3, Call(step, {view}, {view})), Copy(state, out)});
  return poplar::compileGraph(graph, {program});
}

void AddPosition(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) {
  const auto* in = static_cast<const std::int32_t*>(inputs.at(0));
  auto* out = static_cast<std::int32_t*>(outputs.at(0));
  for (std::int32_t i = 0; i < 6; ++i) out[i] = in[i] + i;
}

TEST(calls_in_a_loop_move_their_operands) {
  for (const char* execution : {"fast", "tile"}) {
    poplar::Engine engine(CompileLoop(), {{"execution", execution}});
    engine.connectHostFunction("step", 0, AddPosition);
    std::vector<std::int32_t> in = {10, 20, 30, 40, 50, 60}, out(6);
    engine.connectStream("in", in.data());
    engine.connectStream("out", out.data());
    engine.load();
    engine.run();
    // Element (r, c) is the function's element 2c + r.
    CHECK(out == (std::vector<std::int32_t>{10, 26, 42, 43, 59, 75}));
  }
}

// As PopART has them: a class, with or without a handle of its own.
class Position : public poplar::HostCallback {
 public:
  void operator()(poplar::ArrayRef<const void*> inputs, poplar::ArrayRef<void*> outputs) override {
    AddPosition({inputs[0]}, {outputs[0]});
  }
};

TEST(callbacks_are_objects) {
  CHECK_THROWS(poplar::stream_connection_error,
               poplar::HostCallbackHandle(std::unique_ptr<poplar::HostCallback>()));
  for (const bool handle : {false, true}) {
    poplar::Engine engine(CompileLoop());
    if (handle) {
      poplar::HostCallbackHandle callback{std::unique_ptr<poplar::HostCallback>(new Position)};
      engine.connectHostFunction("step", 0, std::move(callback));
    } else {
      engine.connectHostFunction("step", 0, std::make_unique<Position>());
    }
    std::vector<std::int32_t> in = {10, 20, 30, 40, 50, 60}, out(6);
    engine.connectStream("in", in.data());
    engine.connectStream("out", out.data());
    engine.load();
    engine.run();
    CHECK(out == (std::vector<std::int32_t>{10, 26, 42, 43, 59, 75}));
  }
}

TEST(what_is_not_connected_or_does_not_exist_is_an_error) {
  for (const char* execution : {"fast", "tile"}) {
    poplar::Engine engine(CompileLoop(), {{"execution", execution}});
    std::vector<std::int32_t> memory(6);
    engine.connectStream("in", memory.data());
    engine.connectStream("out", memory.data());
    engine.load();
    std::string message;
    try {
      engine.run();
    } catch (const poplar::stream_connection_error& error) {
      message = error.what();
    }
    CHECK(message.find("host function 'step'") != std::string::npos);
    message.clear();
    try {
      engine.connectHostFunction("other", 0, AddPosition);
    } catch (const poplar::stream_connection_error& error) {
      message = error.what();
    }
    CHECK(message.find("the executable has: step") != std::string::npos);
  }
}

// Doubles row `row` of the remote buffer.
poplar::Executable DoubleRow(std::int32_t row) {
  poplar::Graph graph(poplar::Target::createIPUTarget(1, 4, "ipu2"));
  popops::addCodelets(graph);
  const auto buffer = graph.addRemoteBuffer("rows", poplar::INT, 2, 3);
  const Tensor values = graph.addVariable(poplar::INT, {2}, "values");
  const Tensor number = graph.addConstant(poplar::INT, {1}, &row, "number");
  poputil::mapTensorLinearly(graph, values);
  poputil::mapTensorLinearly(graph, number);
  Sequence program({Copy(buffer, values, number)});
  popops::addInPlace(graph, values, values, program);
  program.add(Copy(values, buffer, number));
  return poplar::compileGraph(graph, {program});
}

TEST(a_remote_buffer_is_the_memory_that_is_connected) {
  for (const char* execution : {"fast", "tile"}) {
    poplar::Engine engine(DoubleRow(1), {{"execution", execution}});
    engine.load();
    std::vector<std::int32_t> memory = {1, 2, 3, 4, 5, 6};
    ipu_model::ConnectRemoteBuffer(engine, "rows", memory.data());
    engine.run();
    CHECK(memory == (std::vector<std::int32_t>{1, 2, 6, 8, 5, 6}));
    ipu_model::ConnectRemoteBuffer(engine, "rows", nullptr);
    engine.run();
    CHECK(memory == (std::vector<std::int32_t>{1, 2, 6, 8, 5, 6}));
    const ipu_model::RemoteTraffic traffic = ipu_model::RemoteTrafficOf(engine);
    CHECK(traffic.bytes_read == 16 && traffic.bytes_written == 16);
    CHECK_THROWS(poplar::stream_connection_error,
                 ipu_model::ConnectRemoteBuffer(engine, "columns", memory.data()));
  }
}

TEST(an_exception_ends_the_run_and_the_next_one_is_whole) {
  poplar::Engine engine(CompileLoop());
  int calls = 0;
  engine.connectHostFunction("step", 0, [&calls](const auto& inputs, const auto& outputs) {
    if (++calls == 2) throw std::runtime_error("no");
    AddPosition(inputs, outputs);
  });
  std::vector<std::int32_t> in(6), out(6);
  engine.connectStream("in", in.data());
  engine.connectStream("out", out.data());
  engine.load();
  bool thrown = false;
  try {
    engine.run();
  } catch (const std::runtime_error&) {
    thrown = true;
  }
  CHECK(thrown);
  engine.run();
  CHECK_EQ(out[5], 15);
}

}  // namespace
