// Small functions on tensors: broadcasts, padding, results of elementwise operations, names of vertices.
#include <cstddef>
#include <string>
#include <vector>

#include "check.h"
#include "poplar/Engine.hpp"
#include "poplar/IPUModel.hpp"
#include "poplar/exceptions.hpp"
#include "popops/ElementWiseUtil.hpp"
#include "popops/Pad.hpp"
#include "popops/Zero.hpp"
#include "poputil/Broadcast.hpp"
#include "poputil/VertexTemplates.hpp"

namespace {

using namespace poplar;
using namespace poplar::program;

using Shape = std::vector<std::size_t>;

struct Fixture {
  Fixture() : device(MakeDevice()), graph(device.getTarget()) {}
  static Device MakeDevice() {
    IPUModel model("ipu2");
    model.tilesPerIPU = 4;
    return model.createDevice();
  }
  // 0, 1, 2, ... of the shape, on tile 1.
  Tensor Iota(const Shape& shape) {
    std::size_t n = 1;
    for (const std::size_t d : shape) n *= d;
    std::vector<float> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i);
    const Tensor t = graph.addConstant<float>(FLOAT, shape, values);
    graph.setTileMapping(t, 1);
    return t;
  }
  std::vector<float> Values(const Tensor& t, Sequence prog = Sequence()) {
    std::vector<float> values(t.numElements());
    prog.add(Copy(t.flatten(), graph.addDeviceToHostFIFO("out", FLOAT, values.size())));
    Engine engine(graph, prog);
    engine.connectStream("out", values.data(), values.data() + values.size());
    engine.load(device);
    engine.run();
    return values;
  }
  Device device;
  Graph graph;
};

}  // namespace

TEST(BroadcastsFollowNumPy) {
  Fixture f;
  Tensor row = f.Iota({3}), column = f.Iota({2, 1});
  CHECK(poputil::canBroadcastToMatch(row, column));
  poputil::broadcastToMatch(row, column);
  CHECK(row.shape() == Shape({2, 3}) && column.shape() == Shape({2, 3}));
  CHECK(f.Values(concat(row, column)) == std::vector<float>({0, 1, 2, 0, 1, 2, 0, 0, 0, 1, 1, 1}));
  Fixture g;
  Tensor a = g.Iota({3}), b = g.Iota({2});
  CHECK(!poputil::canBroadcastToMatch(a, b));
  CHECK_THROWS(poplar_error, poputil::broadcastToMatch(a, b));
  CHECK_THROWS(poplar_error, poputil::broadcastToMatch(a, Shape{1}));
  Tensor c = g.Iota({2, 1, 1});
  poputil::expandToMatchRanks(a, c);
  CHECK(a.shape() == Shape({1, 1, 3}) && c.shape() == Shape({2, 1, 1}));
}

TEST(ConstantsPad) {
  Fixture f;
  const Tensor padded = popops::pad(f.graph, f.Iota({2, 2}), {1, -1}, {0, 2}, 7.0f);
  CHECK(padded.shape() == Shape({3, 3}));
  CHECK(f.Values(padded) == std::vector<float>({7, 7, 7, 1, 7, 7, 3, 7, 7}));
  Fixture g;
  const Tensor near = popops::pad(g.graph, g.Iota({2}), 1, 1, 0, 7, popops::padding::MappingMethod::EDGE);
  const auto mapping = g.graph.getTileMapping(near);
  CHECK(mapping.at(0).empty() && mapping.at(1) == std::vector<Interval>({{0, 4}}));
  CHECK(g.Values(near) == std::vector<float>({7, 0, 1, 7}));
  CHECK_THROWS(poplar_error, popops::pad(g.graph, near, -3, -2, 0));
  try {
    popops::pad(g.graph, near, -9, 2, 0);
    CHECK(false);
  } catch (const poplar_error& error) {
    CHECK(std::string(error.what()).find("pad: 9 and 0 elements cannot be taken away from the 4") == 0);
  }
  CHECK_THROWS(poplar_error, popops::pad(g.graph, near, {1, 1}, {1, 1}));
  CHECK_THROWS(poplar_error, popops::pad(g.graph, near, 1, 1, 1));
}

TEST(ElementsPad) {
  Fixture f;
  const Tensor t = f.Iota({4});
  CHECK(f.Values(popops::pad(t, 2, 3, 0, popops::padding::Type::REFLECT)) ==
        std::vector<float>({2, 1, 0, 1, 2, 3, 2, 1, 0}));
  Fixture g;
  CHECK(g.Values(popops::pad(g.Iota({3}), {2}, {1}, popops::padding::Type::EDGE)) ==
        std::vector<float>({0, 0, 0, 1, 2, 2}));
  CHECK_THROWS(poplar_error, popops::pad(t, 4, 0, 0, popops::padding::Type::REFLECT));
}

TEST(OutputsLieWithTheInputOnMostTiles) {
  Fixture f;
  const Tensor a = f.Iota({4}), b = f.graph.addVariable(FLOAT, {4}, "b");
  for (unsigned i = 0; i < 4; ++i) f.graph.setTileMapping(b[i], i);
  const Tensor out = popops::createOutputForElementWiseOp(f.graph, {a, b}, HALF);
  CHECK(out.elementType() == HALF && f.graph.getTileMapping(out) == f.graph.getTileMapping(b));
  CHECK_THROWS(poplar_error, popops::createOutputForElementWiseOp(f.graph, {}, HALF));
  CHECK_THROWS(poplar_error, popops::createOutputForElementWiseOp(f.graph, {a, a.slice(0, 2)}, HALF));
}

TEST(ZeroFills) {
  Fixture f;
  const Tensor t = f.graph.addVariable(FLOAT, {3}, "t");
  f.graph.setTileMapping(t, 0);
  Sequence prog;
  popops::zero(f.graph, t, prog);
  CHECK(f.Values(t, prog) == std::vector<float>(3));
}

TEST(NamesOfTemplates) {
  CHECK_EQ(poputil::templateVertex("V"), std::string("V"));
  CHECK_EQ(poputil::templateVertex("V", FLOAT, HALF, true, 3u, "popops::ADD", std::string("x")),
           std::string("V<float,half,true,3,popops::ADD,x>"));
}
