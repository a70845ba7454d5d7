// Wrong calls of the Poplar API, which throw its exceptions: of programs, engines, streams, devices and
// targets. And calls at the edge that are right.
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "poplar/CycleCount.hpp"
#include "poplar/DeviceManager.hpp"
#include "poplar/Engine.hpp"
#include "poplar/IPUModel.hpp"
#include "poplar/exceptions.hpp"
#include "popops/ElementWise.hpp"
#include "testing/small_device.h"
#include "testing/throwing_calls.h"

namespace {

using namespace poplar;
using namespace poplar::program;
using ipu_model::toy::CheckWrong;
using ipu_model::toy::InBothModes;
using ipu_model::toy::OnTile;
using ipu_model::toy::SmallDevice;

constexpr unsigned kNone = std::numeric_limits<unsigned>::max();

TEST(Programs) {
  const Device device = SmallDevice();
  Graph graph(device), other(device);
  const Tensor x = OnTile(graph, FLOAT, {2, 3}, 0, "x"), y = OnTile(graph, FLOAT, {6}, 1, "y");
  const Tensor flag = OnTile(graph, BOOL, {}, 0, "flag"), number = OnTile(graph, INT, {}, 0, "number");
  const Tensor foreign = OnTile(other, FLOAT, {2, 3}, 0, "foreign"), empty;
  const Tensor one = graph.addConstant(FLOAT, {6}, 1.0f), row = x[0][0].expand({0}).broadcast(6, 0);
  const DataStream in = graph.addHostToDeviceFIFO("in", FLOAT, 6),
                   out = graph.addDeviceToHostFIFO("out", FLOAT, 6);
  const DataStream theirs = other.addHostToDeviceFIFO("in", FLOAT, 6);
  const RemoteBuffer buffer = graph.addRemoteBuffer("buffer", FLOAT, 6, 4);
  const RemoteBuffer of_other = other.addRemoteBuffer("buffer", FLOAT, 6, 4);
  const HostFunction host = graph.addHostFunction("host", {{FLOAT, 6}}, {{FLOAT, 6}});
  Sequence body, gone;
  const Sequence taken = std::move(gone);
  Switch cases(number);
  cases.add(1, body);
  CheckWrong(__FILE__, {
                           WRONG(control_program_error, Copy(x, y.slice(0, 5))),
                           WRONG(control_program_error, Copy(x, graph.addVariable(INT, {6}))),
                           WRONG(control_program_error, Copy(empty, y)),
                           WRONG(control_program_error, Copy(x, empty)),
                           WRONG(control_program_error, Copy(x, foreign)),
                           WRONG(control_program_error, Copy(x, one)),
                           WRONG(control_program_error, Copy(x, row)),
                           WRONG(control_program_error, Copy(in, empty)),
                           WRONG(control_program_error, Copy(empty, out)),
                           WRONG(control_program_error, Copy(out, y)),
                           WRONG(control_program_error, Copy(x, in)),
                           WRONG(control_program_error, Copy(in, y.slice(0, 5))),
                           WRONG(control_program_error, Copy(in, graph.addVariable(INT, {6}))),
                           WRONG(control_program_error, Copy(in, one)),
                           WRONG(control_program_error, Copy(in, row)),
                           WRONG(control_program_error, Copy(theirs, y)),
                           WRONG(control_program_error, Copy(DataStream(), y)),
                           WRONG(control_program_error, Copy(y, DataStream())),
                           WRONG(control_program_error, Copy(buffer, empty)),
                           WRONG(control_program_error, Copy(empty, buffer)),
                           WRONG(control_program_error, Copy(buffer, y.slice(0, 5))),
                           WRONG(control_program_error, Copy(buffer, y, flag)),
                           WRONG(control_program_error, Copy(buffer, y, graph.addVariable(INT, {2}))),
                           WRONG(control_program_error, Copy(buffer, one)),
                           WRONG(control_program_error, Copy(foreign, buffer)),
                           WRONG(control_program_error, Copy(of_other, y)),
                           WRONG(control_program_error, Copy(buffer, y, other.addVariable(INT, {}))),
                           WRONG(control_program_error, Copy(RemoteBuffer(), y)),
                           WRONG(control_program_error, CrossReplicaCopy(x, empty, {{0, 0}})),
                           WRONG(control_program_error, CrossReplicaCopy(x, y, {{0, 1}})),
                           WRONG(control_program_error, CrossReplicaCopy(x, y, {})),
                           WRONG(control_program_error, CrossReplicaCopy(x, y.slice(0, 5), {{0, 0}})),
                           WRONG(control_program_error, AssumeEqualAcrossReplicas(empty)),
                           WRONG(control_program_error, Execute(ComputeSet())),
                           WRONG(poplar_error, Repeat(2, gone)),
                           WRONG(poplar_error, Sequence({body, gone})),
                           WRONG(poplar_error, Sequence(body, gone)),
                           WRONG(poplar_error, body.add(gone)),
                           WRONG(poplar_error, gone.add(body)),
                           WRONG(poplar_error, gone.isEmpty()),
                           WRONG(poplar_error, Block(gone)),
                           WRONG(poplar_error, graph.addFunction(gone)),
                           WRONG(poplar_error, Engine(graph, gone)),
                           WRONG(control_program_error, RepeatWhileTrue(body, empty, body)),
                           WRONG(control_program_error, RepeatWhileTrue(body, y[0], body)),
                           WRONG(control_program_error, RepeatWhileFalse(body, x, body)),
                           WRONG(poplar_error, RepeatWhileFalse(gone, flag, body)),
                           WRONG(control_program_error, If(empty, body, body)),
                           WRONG(control_program_error, If(y[0], body, body)),
                           WRONG(control_program_error, If(flag.expand({0}).broadcast(2, 0), body, body)),
                           WRONG(poplar_error, If(flag, body, gone)),
                           WRONG(control_program_error, Switch(empty, {{1, body}})),
                           WRONG(control_program_error, Switch(y[0], {{1, body}})),
                           WRONG(control_program_error, Switch(number, {{1, body}, {1, body}})),
                           WRONG(control_program_error, cases.add(1, body)),
                           WRONG(control_program_error, Switch::switchWithBoundsChecking(x, {})),
                           WRONG(control_program_error, Call(Function())),
                           WRONG(control_program_error, Call(HostFunction(), {}, {})),
                           WRONG(control_program_error, Call(host, {x}, {})),
                           WRONG(control_program_error, Call(host, {x}, {empty})),
                           WRONG(control_program_error, Call(host, {y.slice(0, 5)}, {y})),
                           WRONG(control_program_error, Call(host, {x}, {one})),
                           WRONG(control_program_error, WriteUndef(empty)),
                           WRONG(control_program_error, WriteUndef(one)),
                           WRONG(control_program_error, PrintTensor(empty)),
                           WRONG(control_program_error, PrintTensor("title", empty)),
                           WRONG(control_program_error, ErrorProgram("message", empty)),
                           WRONG(control_program_error, AbortOnCondition(empty)),
                           WRONG(control_program_error, AbortOnCondition(x, "message")),
                           WRONG(invalid_tile_mapping, cycleCount(graph, body, 4)),
                           WRONG(invalid_tile_mapping, cycleStamp(graph, body, kNone)),
                       });
}

// What is only found when a program is compiled, with handles that say what the graph does not.
TEST(ProgramsThatDoNotFitTheGraph) {
  const Device device = SmallDevice();
  Graph graph(device), other(device), recursive(device);
  const Tensor y = OnTile(graph, FLOAT, {6}, 1, "y");
  const DataStream in = graph.addHostToDeviceFIFO("in", FLOAT, 6);
  const std::uint32_t number = in.graphNumber();
  const Function theirs = other.addFunction(Sequence());
  const Function calls_itself = recursive.addFunction(Call(Function(0, y.graphNumber() + 2)));
  Tensor many = y;
  for (int i = 0; i < 17; ++i) many = many.expand({0});
  Sequence prog;
  CheckWrong(
      __FILE__,
      {
          WRONG(control_program_error, Engine(graph, std::vector<Program>{})),
          WRONG(control_program_error, Engine(other, Copy(in, y))),
          WRONG(control_program_error, Engine(graph, Call(theirs))),
          WRONG(control_program_error, Engine(recursive, Call(calls_itself))),
          WRONG(control_program_error, Engine(graph, Call(Function(77, number)))),
          WRONG(control_program_error, Engine(graph, Copy(DataStream("in", FLOAT, 6, true, 77, number), y))),
          WRONG(control_program_error, Engine(graph, Copy(y, DataStream("in", FLOAT, 6, false, 0, number)))),
          WRONG(control_program_error,
                Engine(graph, Copy(DataStream("in", FLOAT, 3, true, 0, number), y.slice(0, 3)))),
          WRONG(control_program_error, Engine(graph, Call(HostFunction(77, {}, {}, number), {}, {}))),
          WRONG(control_program_error, Engine(graph, Copy(RemoteBuffer("b", FLOAT, 6, 2, 77, number), y))),
          WRONG(invalid_option, Engine(graph, Sequence(), {{"no such option", "1"}})),
          WRONG(invalid_option, Engine(graph, Sequence(), {{"execution", "slow"}})),
          WRONG(invalid_option, Engine(graph, Sequence(), {{"debug.allowOutOfMemory", "perhaps"}})),
          WRONG(invalid_tile_mapping, Engine(graph, PrintTensor(graph.addVariable(FLOAT, {6})))),
          WRONG(poplar_error, popops::expInPlace(graph, many, prog)),
      });
}

struct Engines {
  explicit Engines(const OptionFlags& options) {
    graph.createHostWrite("w", y);
    graph.createHostRead("r", y);
    const DataStream in = graph.addHostToDeviceFIFO("in", FLOAT, 6),
                     out = graph.addDeviceToHostFIFO("out", FLOAT, 6);
    const HostFunction host = graph.addHostFunction("host", {{FLOAT, 6}}, {{FLOAT, 6}});
    const RemoteBuffer buffer = graph.addRemoteBuffer("buffer", FLOAT, 6, 4);
    const Tensor index = OnTile(graph, UNSIGNED_INT, {}, 0, "index");
    graph.createHostWrite("index", index);
    engine = std::make_unique<Engine>(
        graph,
        std::vector<Program>{Copy(in, y), Copy(y, out), Call(host, {y}, {y}), Copy(buffer, y, index),
                             Copy(y, buffer, index), Abort("on purpose")},
        options);
  }
  Device device = SmallDevice();
  Graph graph{device};
  Tensor y = OnTile(graph, FLOAT, {6}, 1, "y");
  std::unique_ptr<Engine> engine;
};

TEST(EnginesAndStreams) {
  InBothModes([](const OptionFlags& options) {
    Engines engines(options);
    Engine& engine = *engines.engine;
    std::vector<float> memory(12);
    float* const begin = memory.data();
    float* const none = nullptr;
    const Device two = SmallDevice(2);
    Device gone = SmallDevice();
    const Device taken = std::move(gone);
    CheckWrong(__FILE__, {
                             WRONG(poplar_error, engine.run()),
                             WRONG(poplar_error, engine.writeTensor("w", begin, begin + 6)),
                             WRONG(poplar_error, engine.readTensor("r", begin)),
                             WRONG(poplar_error, engine.load(Device())),
                             WRONG(poplar_error, engine.load(gone)),
                             WRONG(poplar_error, engine.load(two)),
                             WRONG(poplar_error, engine.prepare(two)),
                             WRONG(poplar_error, engine.loadAndRun(two)),
                         });
    engine.load(engines.device);
    const Engine::HostFunctionCallback no_function;
    const std::function<void(void*)> no_callback;
    const std::uint32_t five = 5;
    CheckWrong(
        __FILE__,
        {
            WRONG(poplar_error, engine.run(6)),
            WRONG(poplar_error, engine.run(kNone)),
            WRONG(poplar_error, engine.loadAndRun(engines.device, 6)),
            WRONG(stream_connection_error, engine.run(0)),
            WRONG(stream_connection_error, engine.run(1)),
            WRONG(stream_connection_error, engine.run(2)),
            WRONG(application_runtime_error, engine.run(5)),
            WRONG(stream_connection_error, engine.connectStream("no", begin)),
            WRONG(stream_connection_error, engine.connectStream("no", begin, begin + 6)),
            WRONG(stream_connection_error, engine.connectStream(Engine::StreamIndex{99}, begin)),
            WRONG(stream_connection_error, engine.connectStream("in", none)),
            WRONG(stream_connection_error, engine.connectStream("in", none, none)),
            WRONG(stream_connection_error, engine.connectStream("in", begin, begin)),
            WRONG(stream_connection_error, engine.connectStream("in", begin, begin + 5)),
            WRONG(stream_connection_error, engine.connectStream("in", begin, begin + 7)),
            WRONG(stream_connection_error, engine.connectStream("in", begin + 6, begin)),
            WRONG(stream_connection_error, engine.connectStream("in", 1, begin, begin + 6)),
            WRONG(stream_connection_error, engine.connectStreamToCallback("no", [](void*) {})),
            WRONG(stream_connection_error, engine.connectStreamToCallback("in", 1, [](void*) {})),
            WRONG(stream_connection_error, engine.connectStreamToCallback("in", no_callback)),
            WRONG(stream_connection_error,
                  engine.connectStreamToCallback("in", std::unique_ptr<StreamCallback>())),
            WRONG(stream_connection_error, engine.connectHostFunction("no", 0, [](auto&, auto&) {})),
            WRONG(stream_connection_error, engine.connectHostFunction("host", 1, [](auto&, auto&) {})),
            WRONG(stream_connection_error, engine.connectHostFunction("host", 0, no_function)),
            WRONG(stream_connection_error,
                  engine.connectHostFunction("host", 0, std::unique_ptr<HostCallback>())),
            WRONG(stream_connection_error, engine.writeTensor("r", begin, begin + 6)),
            WRONG(stream_connection_error, engine.writeTensor("no", begin)),
            WRONG(stream_connection_error, engine.writeTensor("w", begin, begin + 5)),
            WRONG(stream_connection_error, engine.writeTensor("w", begin, begin)),
            WRONG(stream_connection_error, engine.writeTensor("w", begin + 6, begin)),
            WRONG(stream_connection_error, engine.writeTensor("w", none)),
            WRONG(stream_connection_error, engine.writeTensor("w", none, none)),
            WRONG(stream_connection_error, engine.writeTensor("w", ArrayRef<float>())),
            WRONG(stream_connection_error, engine.writeTensor("w", 1, begin, begin + 6)),
            WRONG(stream_connection_error, engine.readTensor("w", begin, begin + 6)),
            WRONG(stream_connection_error, engine.readTensor("no", begin)),
            WRONG(stream_connection_error, engine.readTensor("r", begin, begin + 5)),
            WRONG(stream_connection_error, engine.readTensor("r", none)),
            WRONG(stream_connection_error, engine.readTensor("r", none, none)),
            WRONG(stream_connection_error, engine.readTensor("r", 1, begin, begin + 6)),
            WRONG(application_runtime_error, (engine.writeTensor("index", &five), engine.run(3))),
            WRONG(application_runtime_error, engine.run(4)),
            WRONG(stream_connection_error, engine.copyToRemoteBuffer(begin, "no", 0)),
            WRONG(stream_connection_error, engine.copyToRemoteBuffer(begin, "buffer", 4)),
            WRONG(stream_connection_error, engine.copyToRemoteBuffer(begin, "buffer", ~std::uint64_t{0})),
            WRONG(stream_connection_error, engine.copyToRemoteBuffer(begin, "buffer", 0, 1)),
            WRONG(stream_connection_error, engine.copyToRemoteBuffer(none, "buffer", 0)),
            WRONG(stream_connection_error, engine.copyFromRemoteBuffer("no", begin, 0)),
            WRONG(stream_connection_error, engine.copyFromRemoteBuffer("buffer", begin, 4)),
            WRONG(stream_connection_error, engine.copyFromRemoteBuffer("buffer", begin, 0, 1)),
            WRONG(stream_connection_error, engine.copyFromRemoteBuffer("buffer", none, 0)),
            WRONG(poplar_error, engine.serializeExecutable("/no/such/folder/file")),
            WRONG(invalid_option, engine.printProfileSummary(std::cerr, {{"showEverything", "true"}})),
        });
    // A call that was refused has changed nothing.
    memory.assign(12, 2.5f);
    engine.connectStream("in", begin, begin + 12);
    CheckWrong(__FILE__, {WRONG(stream_connection_error, engine.connectStream("in", none))});
    engine.run(0);
    std::vector<float> read(6);
    engine.readTensor("r", read.data());
    CHECK(read == std::vector<float>(6, 2.5f));
    Engine moved = std::move(engine);
    CheckWrong(__FILE__, {
                             WRONG(poplar_error, engine.run(0)),
                             WRONG(poplar_error, engine.load(engines.device)),
                             WRONG(poplar_error, engine.getTarget()),
                         });
  });
}

TEST(StreamsBuffersAndExecutables) {
  const Device device = SmallDevice();
  Graph graph(device), other(device);
  const Tensor y = OnTile(graph, FLOAT, {6}, 1, "y"), foreign = OnTile(other, FLOAT, {6}, 1, "foreign");
  const Tensor one = graph.addConstant(FLOAT, {6}, 1.0f);
  constexpr std::size_t kHuge = std::size_t{1} << 63;
  graph.addHostToDeviceFIFO("in", FLOAT, 6);
  graph.addRemoteBuffer("buffer", FLOAT, 6, 4);
  graph.addHostFunction("host", {}, {});
  graph.createHostWrite("w", y);
  graph.createHostRead("r", y);
  Executable executable = compileGraph(graph, {Sequence()});
  const Executable taken = std::move(executable);
  std::istringstream damaged("no executable"), none;
  std::ostringstream out;
  const ProfileValue nothing;
  CheckWrong(__FILE__,
             {
                 WRONG(poplar_error, graph.addHostToDeviceFIFO("in", FLOAT, 6)),
                 WRONG(poplar_error, graph.addDeviceToHostFIFO("in", FLOAT, 6)),
                 WRONG(overflow_error, graph.addHostToDeviceFIFO("a", FLOAT, kHuge)),
                 WRONG(overflow_error, graph.addDeviceToHostFIFO("b", FLOAT, kHuge / 2)),
                 WRONG(invalid_option, graph.addDeviceToHostFIFO("c", FLOAT, 1, {{"depth", "2"}})),
                 WRONG(invalid_option, graph.addDeviceToHostFIFO("c", FLOAT, 1, {{"bufferingDepth", "two"}})),
                 WRONG(poplar_error, graph.addRemoteBuffer("buffer", FLOAT, 1)),
                 WRONG(poplar_error, graph.addRemoteBuffer("d", FLOAT, kHuge)),
                 WRONG(poplar_error, graph.addRemoteBuffer("d", FLOAT, kHuge / 2, 2)),
                 WRONG(poplar_error, graph.addRemoteBuffer("d", FLOAT, 6, 0)),
                 WRONG(poplar_error, graph.addHostFunction("host", {}, {})),
                 WRONG(overflow_error, graph.addHostFunction("e", {{FLOAT, 2}, {FLOAT, kHuge}}, {})),
                 WRONG(poplar_error, graph.createHostWrite("w", y)),
                 WRONG(poplar_error, graph.createHostWrite("x", Tensor())),
                 WRONG(poplar_error, graph.createHostWrite("x", foreign)),
                 WRONG(poplar_error, graph.createHostWrite("x", one)),
                 WRONG(poplar_error, graph.createHostRead("r", y)),
                 WRONG(poplar_error, graph.createHostRead("x", Tensor())),
                 WRONG(poplar_error, graph.createHostRead("x", foreign)),
                 WRONG(poplar_error, Engine(executable)),
                 WRONG(poplar_error, executable.serialize(out)),
                 WRONG(poplar_error, Executable::deserialize(damaged)),
                 WRONG(poplar_error, Executable::deserialize(none)),
                 WRONG(invalid_option, Executable::deserialize(none, {{"codelets", "perhaps"}})),
                 WRONG(poplar_error, graph.deserializeTensors(damaged, SerializationFormat::Binary)),
                 WRONG(poplar_error, graph.serializeTensors(out, {Tensor()}, SerializationFormat::Binary)),
                 WRONG(poplar_error, printProfileSummary(out, nothing, nothing)),
                 WRONG(poplar_error, printGraphSummary(out, "/no/such/file")),
             });
  // Names whose calls were refused are free.
  graph.addHostFunction("e", {{FLOAT, 2}}, {});
  graph.createHostWrite("x", y);
}

TEST(DevicesAndTargets) {
  const Device device = SmallDevice();
  const Target target = device.getTarget(), cpu = Target::createCPUTarget();
  const Target none;
  Target gone = target;
  const Target taken = std::move(gone);
  const DeviceManager manager = DeviceManager::createDeviceManager();
  const auto changed = [](const std::function<void(IPUModel&)>& change) {
    IPUModel model;
    change(model);
    return model.createDevice();
  };
  const auto offered = [&](const char* text) {
    setenv("IPU_MODEL_DEVICES", text, 1);
    return manager.getDevices();
  };
  CheckWrong(__FILE__,
             {
                 WRONG(poplar_error, Target::createIPUTarget(0, "ipu2")),
                 WRONG(poplar_error, Target::createIPUTarget(1, "ipu9")),
                 WRONG(poplar_error, Target::createIPUTarget(1, "cpu")),
                 WRONG(poplar_error, Target::createIPUTarget(1000, "ipu2")),
                 WRONG(poplar_error, Target::createIPUTarget(1, 0, "ipu2")),
                 WRONG(poplar_error, Target::createIPUTarget(1, 5000, "ipu2")),
                 WRONG(poplar_error, target.createVirtualTarget(0, 4)),
                 WRONG(poplar_error, target.createVirtualTarget(1, 0)),
                 WRONG(poplar_error, target.createVirtualTarget(1, 5)),
                 WRONG(poplar_error, target.createVirtualTarget(kNone, 1)),
                 WRONG(poplar_error, cpu.createVirtualTarget(2, 1)),
                 WRONG(poplar_error, none.getNumTiles()),
                 WRONG(poplar_error, none.getNumIPUs()),
                 WRONG(poplar_error, none.getTilesPerIPU()),
                 WRONG(poplar_error, none.createVirtualTarget(1, 1)),
                 WRONG(poplar_error, gone.getBytesPerTile()),
                 WRONG(poplar_error, gone.getTargetType()),
                 WRONG(type_error, target.getTypeLimitsMaxAs<int>(FLOAT)),
                 WRONG(poplar_error, IPUModel("ipu9")),
                 WRONG(invalid_option, IPUModel().createDevice({{"option", "1"}})),
                 WRONG(invalid_machine_model, changed([](IPUModel& m) { m.numIPUs = 0; })),
                 WRONG(invalid_machine_model, changed([](IPUModel& m) { m.tilesPerIPU = 9999; })),
                 WRONG(invalid_machine_model, changed([](IPUModel& m) { m.numWorkerContexts = 0; })),
                 WRONG(invalid_machine_model, changed([](IPUModel& m) { m.memoryBytesPerTile = 0; })),
                 WRONG(invalid_machine_model, changed([](IPUModel& m) { m.tileClockFrequency = -1; })),
                 WRONG(invalid_machine_model, changed([](IPUModel& m) { m.dataPathWidth = 12; })),
                 WRONG(poplar_error, changed([](IPUModel& m) { m.IPUVersion = "ipu9"; })),
                 WRONG(poplar_error, Device().getTarget()),
                 WRONG(poplar_error, Device().getDriverIDs()),
                 WRONG(poplar_error, Device().getAttributes()),
                 WRONG(poplar_error, Device().createVirtualDevice(1)),
                 WRONG(poplar_error, device.getAttribute("colour")),
                 WRONG(poplar_error, device.createVirtualDevice(0)),
                 WRONG(poplar_error, device.createVirtualDevice(5)),
                 WRONG(poplar_error, Device::createSimulatorDevice(target)),
                 WRONG(poplar_error, manager.getDevice(99)),
                 WRONG(invalid_option, manager.getDevice(0, {{"option", "1"}})),
                 WRONG(invalid_option, manager.getDevices(TargetType::IPU, 1, {{"option", "1"}})),
                 WRONG(invalid_machine_model, manager.getDevices(TargetType::IPU_MODEL, 0)),
                 WRONG(poplar_error, offered("many")),
                 WRONG(poplar_error, offered("65")),
                 WRONG(poplar_error, offered("1 ipu9")),
                 WRONG(poplar_error, offered("1 ipu2 more")),
             });
  unsetenv("IPU_MODEL_DEVICES");
  CHECK(!Device().attach() && manager.getDevices().empty());
}

// What has no elements, or does nothing, is right.
TEST(EdgesThatAreRight) {
  InBothModes([](const OptionFlags& options) {
    const Device device = SmallDevice();
    Graph graph(device);
    const Tensor none = graph.addVariable(FLOAT, {3, 0}, "none"), x = OnTile(graph, FLOAT, {3, 2}, 0, "x");
    const Tensor other = graph.addVariable(FLOAT, {0, 3}, VariableMappingMethod::LINEAR, "other");
    graph.setTileMapping(none, 3);
    graph.setTileMapping(none, Graph::TileToTensorMapping{{{0, 0}}});
    bool complete = false;
    CHECK_EQ(graph.getTileMapping(none, &complete).size(), 4u);
    CHECK(complete);
    (void)graph.getTileMapping(none, static_cast<bool*>(nullptr));
    CHECK_EQ(none.slice(1, 3).dim(0), 2u);
    CHECK_EQ(none[2].numElements(), 0u);
    CHECK_EQ(concat(none, x, 1).numElements(), 6u);
    CHECK_EQ(concat({none, none}).dim(0), 6u);
    CHECK_EQ(x.broadcast(0, 1).dim(1), 0u);
    CHECK(none.transpose() == none.dimShuffle({1, 0}));
    CHECK_EQ(none.reshape({0, 7}).dim(1), 7u);
    CHECK_EQ(none.reverse(0).subSample(2, 0).dim(0), 2u);
    CHECK_EQ(none.upsample(2, 0, UpsampleMethod::REPEAT).dim(0), 6u);
    CHECK_EQ(none.expand({0}).squeeze({0}).rank(), 2u);
    CHECK(none.isParallelWriteable() && !none.intersectsWith(x) && none.getVarRegions().empty());
    CHECK_EQ(graph.clone(none).numElements(), 0u);
    CHECK_EQ(graph.cloneN(x, 0).dim(0), 0u);
    const Tensor quarter = graph.addVariable(QUARTER, {2}, VariableMappingMethod::LINEAR, "quarter");
    CHECK_EQ(graph.cloneN(quarter, 3).dim(0), 3u);
    CHECK_EQ(graph.addConstant(FLOAT, {0, 4}, 1.0f).dim(1), 4u);
    CHECK_EQ(graph.addConstant(FLOAT, {0}, static_cast<const float*>(nullptr)).numElements(), 0u);
    graph.setInitialValue(none, 1.0f);
    graph.createHostWrite("none.w", none);
    graph.createHostRead("none.r", none);
    graph.createHostRead("x.r", x);
    const DataStream in = graph.addHostToDeviceFIFO("in", FLOAT, 0),
                     out = graph.addDeviceToHostFIFO("out", FLOAT, 0);
    const RemoteBuffer buffer = graph.addRemoteBuffer("buffer", FLOAT, 0, 3);
    const HostFunction host = graph.addHostFunction("host", {{FLOAT, 0}}, {{FLOAT, 0}});
    Sequence one_more;
    const Tensor one = graph.addConstant(FLOAT, {}, 1.0f);
    graph.setTileMapping(one, 1);
    popops::addInPlace(graph, x, one, one_more);
    Sequence prog(Copy(none, other), Copy(in, none), Copy(none, out), Copy(buffer, none), Copy(none, buffer),
                  Call(host, {none}, {none}), WriteUndef(none), PrintTensor(none), Repeat(0, one_more),
                  Repeat(2, one_more), Sequence(), Program(), Switch(OnTile(graph, INT, {}, 0, "s")));
    popops::addInPlace(graph, none, none, prog);
    popops::expInPlace(graph, other, prog);
    Engine engine(graph, prog, options);
    std::ostringstream printed;
    engine.setPrintTensorStream(printed);
    engine.load(device);
    engine.connectStream("in", nullptr);
    engine.connectStream("out", nullptr, nullptr);
    int calls = 0;
    engine.connectHostFunction("host", 0, [&](auto&, auto&) { ++calls; });
    engine.writeTensor("none.w", nullptr, nullptr);
    engine.readTensor("none.r", nullptr);
    engine.copyToRemoteBuffer(nullptr, "buffer", 2);
    engine.run();
    CHECK_EQ(calls, 1);
    std::vector<float> values(6);
    engine.readTensor("x.r", values.data());
    CHECK(values == std::vector<float>(6, 2.0f));
  });
}

}  // namespace
