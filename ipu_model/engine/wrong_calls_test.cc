// Wrong calls of the Poplar API, which throw its exceptions: of graphs and tensors. None is silent, and none
// ends the process. wrong_vertices_test.cc and wrong_runs_test.cc have those of vertices, programs and
// engines.
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "poplar/Engine.hpp"
#include "poplar/IPUModel.hpp"
#include "poplar/exceptions.hpp"
#include "popops/ElementWise.hpp"
#include "poputil/TileMapping.hpp"
#include "testing/small_device.h"
#include "testing/throwing_calls.h"

namespace {

using namespace poplar;
using namespace poplar::program;
using ipu_model::toy::CheckWrong;
using ipu_model::toy::OnTile;
using ipu_model::toy::SmallDevice;

constexpr std::size_t kHuge = std::size_t{1} << 40, kTooBig = std::size_t{1} << 63;
constexpr unsigned kNone = std::numeric_limits<unsigned>::max();

// A graph of 4 tiles, another one, and tensors of both.
struct World {
  Device device = SmallDevice();
  Graph graph{device}, other{device};
  Tensor empty;
  Tensor x = OnTile(graph, FLOAT, {2, 3}, 0, "x"), y = OnTile(graph, FLOAT, {6}, 1, "y");
  Tensor flag = OnTile(graph, BOOL, {}, 0, "flag"), number = OnTile(graph, INT, {}, 0, "number");
  Tensor bytes = OnTile(graph, UNSIGNED_CHAR, {4}, 0, "bytes");
  Tensor foreign = OnTile(other, FLOAT, {2, 3}, 0, "foreign");
  Tensor one = graph.addConstant(FLOAT, {}, 1.0f, "one");
  World() { graph.setTileMapping(one, 0); }
};

TEST(Variables) {
  World w;
  Graph& graph = w.graph;
  const float value = 1;
  const std::uint16_t half = 0;
  const float* const none = nullptr;
  const Tensor two = graph.addVariable(QUARTER_METADATA, {2}),
               meta = graph.addVariable(QUARTER_METADATA, {1});
  const Tensor theirs = w.other.addVariable(QUARTER_METADATA, {1});
  CheckWrong(
      __FILE__,
      {
          WRONG(poplar_error, graph.addVariable(FLOAT, std::vector<std::size_t>(17, 1))),
          WRONG(poplar_error, graph.addVariable(FLOAT, {kHuge, kHuge})),
          WRONG(poplar_error, graph.addVariable(FLOAT, {kTooBig})),
          WRONG(poplar_error, graph.addVariable(FLOAT, {0, kTooBig})),
          WRONG(poplar_error, graph.addVariable(FLOAT, {kHuge, kHuge}, VariableMappingMethod::LINEAR)),
          WRONG(tensor_metadata_error, graph.addVariable(QUARTER, Tensor(), {2})),
          WRONG(tensor_metadata_error, graph.addVariable(QUARTER, w.x, {2})),
          WRONG(tensor_metadata_error, graph.addVariable(QUARTER, two, {2})),
          WRONG(poplar_error, graph.addVariable(QUARTER, theirs, {2})),
          WRONG(tensor_metadata_error, graph.addConstant(QUARTER, {2}, 1.0f)),
          WRONG(tensor_metadata_error, graph.addConstant(QUARTER, {1}, static_cast<const void*>(&value))),
          WRONG(tensor_metadata_error, graph.addConstant(QUARTER, meta, {1}, 1.0f)),
          WRONG(poplar_error, graph.addConstant(QUARTER, Tensor(), {1}, 0.0f)),
          WRONG(poplar_error, graph.addConstant(FLOAT, {3}, std::vector<float>{1, 2})),
          WRONG(poplar_error, graph.addConstant(FLOAT, {2}, {1.0f, 2.0f, 3.0f})),
          WRONG(poplar_error, graph.addConstant(FLOAT, {2}, ArrayRef<float>())),
          WRONG(poplar_error, graph.addConstant(FLOAT, {2}, none)),
          WRONG(poplar_error, graph.addConstant(INT, {2}, none)),
          WRONG(poplar_error, graph.addConstant(FLOAT, {2}, static_cast<const void*>(nullptr))),
          WRONG(overflow_error, graph.addConstant(FLOAT, {kHuge, kHuge}, 1.0f)),
          WRONG(overflow_error, graph.addConstant(FLOAT, {kTooBig}, 1.0f)),
          WRONG(graph_connection_error, graph.addConstant(UNSIGNED_CHAR, {}, 256)),
          WRONG(graph_connection_error, graph.addConstant(INT, {}, 1.5f)),
          WRONG(poplar_error, graph.addConstantHalf(FLOAT, {1}, &half)),
          WRONG(poplar_error, graph.addConstantHalf(HALF, {1}, static_cast<const std::uint16_t*>(nullptr))),
          WRONG(overflow_error, graph.addConstantHalf(HALF, {kHuge, kHuge}, half)),
          WRONG(poplar_error, graph.clone(Tensor())),
          WRONG(poplar_error, graph.clone(w.foreign)),
          WRONG(poplar_error, graph.clone(HALF, Tensor())),
          WRONG(poplar_error, graph.clone(QUARTER, w.bytes)),
          WRONG(poplar_error, graph.clone(QUARTER, meta, Tensor())),
          WRONG(tensor_metadata_error, graph.clone(QUARTER, Tensor(), w.bytes)),
          WRONG(poplar_error, graph.clone(QUARTER, theirs, w.bytes)),
          WRONG(poplar_error, graph.cloneN(Tensor(), 2)),
          WRONG(poplar_error, graph.cloneN(w.foreign, 2)),
          WRONG(poplar_error, graph.setInitialValue(Tensor(), 1.0f)),
          WRONG(poplar_error, graph.setInitialValue(w.foreign, 1.0f)),
          WRONG(poplar_error, graph.setInitialValue(w.one, 1.0f)),
          WRONG(poplar_error, graph.setInitialValue(w.x[0][0].expand({0}).broadcast(2, 0), 1.0f)),
          WRONG(poplar_error, graph.setInitialValue(w.x, std::vector<float>{1, 2})),
          WRONG(graph_connection_error, graph.setInitialValue(w.number, 1.5f)),
          WRONG(type_error, graph.setInitialValueHalf(w.number, {half})),
          WRONG(poplar_error, graph.getVariable(VariableRef(1000))),
          WRONG(poplar_error, graph.isConstant(VariableRef(1000))),
      });
}

TEST(TileMappings) {
  World w;
  Graph& graph = w.graph;
  const Tensor unmapped = graph.addVariable(FLOAT, {4}, "unmapped");
  const Tensor zero = graph.addVariable(FLOAT, {3, 0}), theirs = w.other.addVariable(FLOAT, {3, 0});
  using Tiles = Graph::TileToTensorMapping;
  Graph part = graph.createVirtualGraph(2);
  bool complete = true;
  Tensor nothing, flat = w.y;
  CheckWrong(__FILE__,
             {
                 WRONG(invalid_tile_mapping, graph.setTileMapping(w.x, 4)),
                 WRONG(invalid_tile_mapping, graph.setTileMapping(w.x, kNone)),
                 WRONG(invalid_tile_mapping, graph.setTileMapping(zero, 4)),
                 WRONG(invalid_tile_mapping, part.setTileMapping(w.x, 2)),
                 WRONG(poplar_error, graph.setTileMapping(Tensor(), 0)),
                 WRONG(poplar_error, graph.setTileMapping(w.foreign, 0)),
                 WRONG(poplar_error, graph.setTileMapping(theirs, 0)),
                 WRONG(poplar_error, graph.setTileMapping(Tensor(), Tiles{})),
                 WRONG(poplar_error, graph.setTileMapping(w.foreign, Tiles{})),
                 WRONG(invalid_tile_mapping, graph.setTileMapping(w.x, Tiles{{{0, 7}}})),
                 WRONG(invalid_tile_mapping, graph.setTileMapping(w.x, Tiles{{{0, kTooBig + 1}}})),
                 WRONG(invalid_tile_mapping, graph.setTileMapping(w.x, Tiles{{{4, 2}}})),
                 WRONG(invalid_tile_mapping, graph.setTileMapping(w.x, Tiles{{{7, 7}}})),
                 WRONG(invalid_tile_mapping, graph.setTileMapping(w.x, Tiles{{{0, 4}}, {{3, 6}}})),
                 WRONG(invalid_tile_mapping, graph.setTileMapping(w.x, Tiles{{}, {}, {}, {}, {{0, 6}}})),
                 WRONG(invalid_tile_mapping, graph.getTileMapping(unmapped)),
                 WRONG(invalid_tile_mapping, graph.getTileMapping(unmapped, true)),
                 WRONG(invalid_tile_mapping, graph.getTileMapping(unmapped, "by a name")),
                 WRONG(poplar_error, graph.getTileMapping(Tensor())),
                 WRONG(poplar_error, graph.getTileMapping(Tensor(), false)),
                 WRONG(poplar_error, graph.getTileMapping(Tensor(), &complete)),
                 WRONG(poplar_error, graph.getTileMapping(w.foreign)),
                 WRONG(poplar_error, graph.getSortedContiguousRegions(Tensor(), {Interval(0, 1)})),
                 WRONG(poplar_error, graph.getSortedContiguousRegions(w.foreign, {Interval(0, 1)})),
                 WRONG(poplar_error, graph.getSortedContiguousRegions(w.x, {Interval(0, 7)})),
                 WRONG(poplar_error, graph.getSortedContiguousRegions(w.x, {Interval(3, 2)})),
                 WRONG(poplar_error, graph.reorderToSimplify(&nothing, {})),
                 WRONG(poplar_error, graph.reorderToSimplify(&flat, {&nothing})),
                 WRONG(poplar_error, graph.findUnbroadcastTensor(Tensor())),
                 WRONG(poplar_error, graph.createVirtualGraph(0)),
                 WRONG(poplar_error, graph.createVirtualGraph(5)),
                 WRONG(poplar_error, graph.createVirtualGraph(kNone)),
                 WRONG(poplar_error, graph.createVirtualGraph(3, 2)),
                 WRONG(poplar_error, graph.createVirtualGraph(std::vector<unsigned>{})),
                 WRONG(poplar_error, graph.createVirtualGraph(std::vector<unsigned>{4})),
                 WRONG(poplar_error, graph.createVirtualGraph(std::vector<unsigned>{1, 1})),
                 WRONG(poplar_error, graph.convertVirtualTileToPhysicalTile(4)),
                 WRONG(poplar_error, part.convertVirtualTileToPhysicalTile(2)),
                 WRONG(poplar_error, poputil::mapTensorLinearly(graph, Tensor())),
                 WRONG(poplar_error, poputil::mapTensorLinearly(graph, w.foreign)),
                 WRONG(graph_replication_error, Graph(w.device, replication_factor(0))),
                 WRONG(graph_replication_error, Graph(w.device, replication_factor(3))),
                 WRONG(graph_replication_error, Graph(w.device, replication_factor(8))),
                 WRONG(poplar_error, Graph(Device())),
                 WRONG(poplar_error, Graph(Target())),
             });
}

TEST(Tensors) {
  World w;
  const Tensor &x = w.x, &y = w.y;
  const Tensor wide = w.one.expand({0}).broadcast(1u << 31, 0);
  const Tensor huge = wide.expand({0}).broadcast(1u << 31, 0);
  const std::vector<std::vector<Interval>> beyond{{{0, 1}, {5, 7}}}, backwards{{{1, 0}}};
  Graph& graph = w.graph;
  const auto constant = [&](std::uint8_t bits) { return graph.addConstant(QUARTER_METADATA, {1}, bits); };
  const Tensor q = graph.addVariable(QUARTER, constant(0), {2}),
               r = graph.addVariable(QUARTER, constant(1), {2});
  CheckWrong(__FILE__,
             {
                 WRONG(index_error, x[2]),
                 WRONG(index_error, x[std::numeric_limits<std::size_t>::max()]),
                 WRONG(index_error, w.flag[0]),
                 WRONG(index_error, x.slice(0, 3)),
                 WRONG(index_error, x.slice(2, 1)),
                 WRONG(index_error, x.slice(0, 1, 2)),
                 WRONG(index_error, x.slice(Interval(1, 4), 1)),
                 WRONG(poplar_error, x.slice({0, 0, 0}, {1, 1, 1})),
                 WRONG(poplar_error, x.slice(ArrayRef<std::size_t>{0, 0}, ArrayRef<std::size_t>{1})),
                 WRONG(index_error, x.slice({0, 0}, {1, 4})),
                 WRONG(index_error, x.slices({Interval(0, 3)})),
                 WRONG(index_error, x.slices({Interval(0, 1)}, 2)),
                 WRONG(index_error, y.slices(beyond)),
                 WRONG(index_error, y.slices(backwards)),
                 WRONG(index_error, x.slices(backwards, 1)),
                 WRONG(index_error, y[0].expand({0}).slices(backwards)),
                 WRONG(index_error, x.slices(ArrayRef<unsigned>{2u})),
                 WRONG(index_error, x.slices(ArrayRef<unsigned>{kNone})),
                 WRONG(index_error, x.index({0, 0, 0})),
                 WRONG(index_error, x.index({2})),
                 WRONG(index_error, x.dim(2)),
                 WRONG(poplar_error, x.reshape({5})),
                 WRONG(poplar_error, x.reshape({})),
                 WRONG(overflow_error, x.reshape({kTooBig, 2})),
                 WRONG(overflow_error, w.graph.addVariable(FLOAT, {0}).reshape({kHuge, kHuge})),
                 WRONG(index_error, x.reshapePartial(0, 3, {6})),
                 WRONG(index_error, x.reshapePartial(2, 1, {})),
                 WRONG(poplar_error, x.reshapePartial(0, 2, {5})),
                 WRONG(poplar_error, x.dimShuffle({0})),
                 WRONG(poplar_error, x.dimShuffle({0, 0})),
                 WRONG(poplar_error, x.dimShuffle({0, 2})),
                 WRONG(poplar_error, x.dimShufflePartial({0}, {2})),
                 WRONG(poplar_error, x.dimShufflePartial({2}, {0})),
                 WRONG(poplar_error, x.dimShufflePartial({0, 1}, {0})),
                 WRONG(poplar_error, x.dimShufflePartial({0, 0}, {0, 1})),
                 WRONG(index_error, x.dimRoll(2)),
                 WRONG(index_error, x.dimRoll(0, 2)),
                 WRONG(poplar_error, y.transpose()),
                 WRONG(index_error, x.flatten(0, 3)),
                 WRONG(index_error, x.flatten(2, 1)),
                 WRONG(index_error, x.expand({3})),
                 WRONG(index_error, x.squeeze({2})),
                 WRONG(index_error, x.squeeze({std::size_t{1} << 32})),
                 WRONG(poplar_error, x.squeeze({0})),
                 WRONG(index_error, x.broadcast(2, 2)),
                 WRONG(overflow_error, huge.expand({0}).broadcast(2, 0)),
                 WRONG(overflow_error, huge.broadcast(4, 0)),
                 WRONG(overflow_error, huge.upsample(4, 0, UpsampleMethod::REPEAT)),
                 WRONG(overflow_error, concat({huge, huge, huge})),
                 WRONG(poplar_error, x.subSample(0, 0)),
                 WRONG(index_error, x.subSample(1, 2)),
                 WRONG(index_error, x.reverse(2)),
                 WRONG(index_error, x.upsample(2, 2, UpsampleMethod::REPEAT)),
                 WRONG(type_error, x.reinterpret(HALF)),
                 WRONG(type_error, x.reinterpret(LONGLONG)),
                 WRONG(poplar_error, concat(std::vector<Tensor>{})),
                 WRONG(index_error, concat(x, x, 2)),
                 WRONG(poplar_error, concat(x, y)),
                 WRONG(poplar_error, concat(x, x.slice(0, 2, 1))),
                 WRONG(poplar_error, concat(x, w.foreign)),
                 WRONG(poplar_error, concat(y, w.graph.addVariable(INT, {6}))),
                 WRONG(tensor_metadata_error, concat(q, r)),
                 WRONG(poplar_error, append(x, x, 0)),
                 WRONG(index_error, append(x, y, 2)),
             });
}

TEST(EmptyTensors) {
  World w;
  const Tensor empty;
  float value = 0;
  std::ostringstream text;
  Sequence prog;
  CheckWrong(__FILE__, {
                           WRONG(poplar_error, empty.shape()),
                           WRONG(poplar_error, empty.dim(0)),
                           WRONG(poplar_error, empty.rank()),
                           WRONG(poplar_error, empty.numElements()),
                           WRONG(poplar_error, empty.elementType()),
                           WRONG(poplar_error, empty.shapeToString()),
                           WRONG(poplar_error, empty[0]),
                           WRONG(poplar_error, empty.slice(0, 0)),
                           WRONG(poplar_error, empty.slice(ArrayRef<std::size_t>(), ArrayRef<std::size_t>())),
                           WRONG(poplar_error, empty.slices(ArrayRef<Interval>())),
                           WRONG(poplar_error, empty.slices(std::vector<std::vector<Interval>>())),
                           WRONG(poplar_error, empty.slices(ArrayRef<unsigned>())),
                           WRONG(poplar_error, empty.index({})),
                           WRONG(poplar_error, empty.reshape({})),
                           WRONG(poplar_error, empty.reshapePartial(0, 0, {})),
                           WRONG(poplar_error, empty.dimShuffle({})),
                           WRONG(poplar_error, empty.dimShufflePartial({}, {})),
                           WRONG(poplar_error, empty.dimRoll(0)),
                           WRONG(poplar_error, empty.transpose()),
                           WRONG(poplar_error, empty.flatten()),
                           WRONG(poplar_error, empty.flatten(0, 0)),
                           WRONG(poplar_error, empty.expand({})),
                           WRONG(poplar_error, empty.squeeze({})),
                           WRONG(poplar_error, empty.broadcast(1, 0)),
                           WRONG(poplar_error, empty.subSample(1, 0)),
                           WRONG(poplar_error, empty.reverse(0)),
                           WRONG(poplar_error, empty.upsample(1, 0, UpsampleMethod::REPEAT)),
                           WRONG(poplar_error, empty.reinterpret(INT)),
                           WRONG(poplar_error, empty.containsAliases()),
                           WRONG(poplar_error, empty.containsConstant()),
                           WRONG(poplar_error, empty.isParallelWriteable()),
                           WRONG(poplar_error, empty.isContiguous()),
                           WRONG(poplar_error, empty.intersectsWith(w.x)),
                           WRONG(poplar_error, w.x.intersectsWith(empty)),
                           WRONG(poplar_error, empty.getContiguousRegions()),
                           WRONG(poplar_error, empty.getVarRegions()),
                           WRONG(poplar_error, empty.getConstantValue(&value)),
                           WRONG(poplar_error, concat(empty, w.x)),
                           WRONG(poplar_error, concat(w.x, empty)),
                           WRONG(poplar_error, concat({empty})),
                           WRONG(poplar_error, append(w.x, empty)),
                           WRONG(poplar_error, popops::addInPlace(w.graph, empty, w.x, prog)),
                           WRONG(poplar_error, popops::addInPlace(w.graph, w.x, empty, prog)),
                           WRONG(poplar_error, popops::exp(w.graph, empty, prog)),
                           WRONG(poplar_error, popops::select(w.graph, w.x, w.x, empty, prog)),
                       });
  // What asks whether a tensor is there needs none.
  CHECK(!empty.valid() && !empty.hasMetadata() && !empty.getMetadata().valid());
  CHECK(empty == Tensor() && empty != w.x);
  text << empty << empty.getDebugStr() << empty.getVarStr();
  CHECK_EQ(text.str(), std::string("<empty tensor><empty tensor>"));
}

}  // namespace
