// Streams of graphs with replicas: one for each replica, or one for all.
#include <vector>

#include "check.h"
#include "poplar/Engine.hpp"
#include "poplar/Graph.hpp"
#include "poplar/IPUModel.hpp"

namespace {

using namespace poplar;
using namespace poplar::program;

// Counts its calls.
struct Counter : StreamCallback {
  explicit Counter(int* calls) : calls(calls) {}
  Result prefetch(void*) override { return Result::NotAvailable; }
  void fetch(void* p) override { *static_cast<int*>(p) = ++*calls; }
  void complete() override {}
  int* calls;
};

// Two replicas add three transfers of a stream "in" to "sum".
struct Sum {
  explicit Sum(ReplicatedStreamMode mode, const OptionFlags& options = {}) {
    IPUModel model("ipu2");
    model.numIPUs = 2;
    model.tilesPerIPU = 2;
    const Device device = model.createDevice();
    Graph graph(device, replication_factor(2));
    const Tensor x = graph.addVariable(INT, {3}, "x");
    graph.setTileMapping(x, 0);
    const DataStream in = graph.addHostToDeviceFIFO("in", INT, 1, mode, {{"bufferingDepth", "2"}});
    graph.createHostRead("x", x);
    Sequence main;
    for (unsigned i = 0; i < 3; ++i) main.add(Copy(in, x.slice(i, i + 1)));
    engine = std::make_unique<Engine>(graph, main, options);
    engine->load(device);
  }
  std::vector<int> Read(unsigned replica) {
    std::vector<int> values(3);
    engine->readTensor("x", replica, values.data(), values.data() + 3);
    return values;
  }
  std::unique_ptr<Engine> engine;
};

}  // namespace

TEST(BroadcastCallsOnceForAllReplicas) {
  for (const char* mode : {"fast", "tile"}) {
    int calls = 0;
    Sum sum(ReplicatedStreamMode::BROADCAST, {{"execution", mode}});
    sum.engine->connectStreamToCallback("in", std::make_unique<Counter>(&calls));
    sum.engine->run();
    CHECK_EQ(calls, 3);
    for (const unsigned replica : {0u, 1u}) CHECK((sum.Read(replica) == std::vector<int>{1, 2, 3}));
    sum.engine->run();
    CHECK_EQ(calls, 6);
    for (const unsigned replica : {0u, 1u}) CHECK((sum.Read(replica) == std::vector<int>{4, 5, 6}));
  }
}

TEST(BroadcastReadsTheSameMemory) {
  std::vector<int> memory{7, 8, 9};
  Sum sum(ReplicatedStreamMode::BROADCAST);
  CHECK_THROWS(stream_connection_error, sum.engine->connectStream("in", 1, memory.data(), memory.data() + 3));
  sum.engine->connectStream("in", 0, memory.data(), memory.data() + 3);
  sum.engine->run();
  for (const unsigned replica : {0u, 1u}) CHECK((sum.Read(replica) == memory));
}

// As PopART fills and reads the memory of weights that differ between replicas.
TEST(MemoryOfAllReplicas) {
  for (const char* mode : {"fast", "tile"}) {
    IPUModel model("ipu2");
    model.numIPUs = 2;
    model.tilesPerIPU = 2;
    const Device device = model.createDevice();
    Graph graph(device, replication_factor(2));
    const Tensor x = graph.addVariable(INT, {2}, "x"), y = graph.addVariable(INT, {2}, "y");
    for (const Tensor& t : {x, y}) graph.setTileMapping(t, 0);
    const DataStream own = graph.addHostToDeviceFIFO("own", INT, 2);
    const DataStream same = graph.addHostToDeviceFIFO("same", INT, 2, ReplicatedStreamMode::BROADCAST);
    const DataStream out = graph.addDeviceToHostFIFO("out", INT, 2);
    Sequence main({Copy(own, x), Copy(same, y), Copy(x, out)});
    graph.createHostRead("y", y);
    Engine engine(graph, main, {{"execution", mode}});
    std::vector<int> weights{1, 2, 3, 4}, shared{5, 6}, read(4), of_y(2);
    engine.connectStream("own", weights.data());
    engine.connectStream("same", shared.data());
    engine.connectStream("out", read.data());
    engine.load(device);
    engine.run();
    CHECK(read == weights);
    for (const unsigned replica : {0u, 1u}) {
      engine.readTensor("y", replica, of_y.data(), of_y.data() + 2);
      CHECK(of_y == shared);
    }
  }
}

TEST(ReplicatedStreamsAreSeparate) {
  std::vector<int> first{1, 2, 3}, second{4, 5, 6};
  Sum sum(ReplicatedStreamMode::REPLICATE);
  sum.engine->connectStream("in", 0, first.data(), first.data() + 3);
  sum.engine->connectStream("in", 1, second.data(), second.data() + 3);
  sum.engine->run();
  CHECK((sum.Read(0) == first) && (sum.Read(1) == second));
  Graph graph(IPUModel("ipu2").createDevice());
  CHECK_THROWS(invalid_option, graph.addDeviceToHostFIFO("out", INT, 1, {{"depth", "2"}}));
  CHECK_THROWS(invalid_option, graph.addDeviceToHostFIFO("out", INT, 1, {{"splitLimit", "-1"}}));
}
