// Tiles for input and output: nothing computes there, and their transfers go on beside the other tiles.
#include <numeric>
#include <sstream>

#include "check.h"
#include "ipu_model/IoTiles.hpp"
#include "ipu_model/Model.hpp"
#include "ipu_model/Timeline.hpp"
#include "poplar/Engine.hpp"
#include "poplar/IPUModel.hpp"
#include "poplar/exceptions.hpp"
#include "popops/ElementWise.hpp"
#include "poputil/TileMapping.hpp"

namespace {

using namespace poplar;
using namespace poplar::program;

constexpr unsigned kTiles = 8, kIoTiles = 2, kRows = 4;
constexpr std::size_t kRow = 600;

Device SmallDevice() {
  IPUModel model("ipu2");
  model.tilesPerIPU = kTiles;
  return model.createDevice();
}

// y += each row of a buffer, `work` times; each trip copies a row from the tiles for input and output, and
// starts the transfer of the next one.
struct RowsAhead {
  explicit RowsAhead(unsigned work)
      : graph(ipu_model::GraphWithIoTiles(device.getTarget(), replication_factor(1), kIoTiles)) {
    const RemoteBuffer rows = graph.addRemoteBuffer("rows", FLOAT, kRow, kRows);
    const Tensor x = graph.addVariable(FLOAT, {kRow}, "x"), y = graph.addVariable(FLOAT, {kRow}, "y");
    slot = graph.addVariable(FLOAT, {kRow}, "slot");
    const Tensor number = graph.addVariable(UNSIGNED_INT, {1}, "number");
    const Tensor at = graph.addVariable(UNSIGNED_INT, {1}, "at");
    const Tensor one = graph.addConstant(UNSIGNED_INT, {1}, 1u);
    const Tensor zero = graph.addConstant(FLOAT, {kRow}, 0.0f),
                 first = graph.addConstant(UNSIGNED_INT, {1}, 0u);
    poputil::mapTensorLinearly(graph, x, 1, 2);
    poputil::mapTensorLinearly(graph, y, 1, 2);
    poputil::mapTensorLinearly(graph, zero, 1, 2);
    for (const Tensor& scalar : {number, one, first}) graph.setTileMapping(scalar, 0);
    ipu_model::MapToIoTiles(graph, slot, kIoTiles);
    ipu_model::MapToIoTiles(graph, at, kIoTiles);
    Sequence use, next;
    use.add(Copy(slot, x));
    popops::addInPlace(graph, number, one, next);
    next.add(Copy(number, at));
    next.add(Copy(rows, slot, at));
    Sequence add;
    for (unsigned i = 0; i < work; ++i) popops::addInPlace(graph, y, x, add);
    main = Sequence{Copy(zero, y),
                    Copy(first, number),
                    Copy(number, at),
                    Copy(rows, slot, at),
                    Repeat(kRows - 1, Sequence{use, next, add}),
                    use,
                    add,
                    Copy(y, graph.addDeviceToHostFIFO("y", FLOAT, kRow))};
  }

  Device device = SmallDevice();
  Graph graph;
  Tensor slot;
  Sequence main;
};

}  // namespace

TEST(TheOtherTilesAreThoseOfTheTarget) {
  RowsAhead program(1);
  CHECK_EQ(program.graph.getTarget().getNumTiles(), kTiles - kIoTiles);
  const auto mapping = program.graph.getTileMapping(program.slot);
  for (unsigned tile = 0; tile < kTiles; ++tile) CHECK_EQ(mapping.at(tile).empty(), tile < kTiles - kIoTiles);
  CHECK_THROWS(invalid_tile_mapping, program.graph.setTileMapping(program.slot, kTiles - kIoTiles));
  CHECK_THROWS(poplar_error, ipu_model::MapToIoTiles(program.graph, program.slot, kIoTiles + 1));
  CHECK_THROWS(poplar_error,
               ipu_model::GraphWithIoTiles(program.device.getTarget(), replication_factor(1), kTiles));
}

TEST(RowsThatAreReadAheadHaveTheirValues) {
  for (const char* mode : {"fast", "tile", "codelets"}) {
    RowsAhead program(2);
    std::stringstream stored;
    compileGraph(program.graph, {program.main}).serialize(stored);
    Engine engine(Executable::deserialize(stored), ipu_model::OptionsOfEngine(mode));
    engine.load(program.device);
    std::vector<float> y(kRow), row(kRow);
    engine.connectStream("y", y.data());
    for (unsigned r = 0; r < kRows; ++r) {
      std::iota(row.begin(), row.end(), static_cast<float>(1000 * r));
      engine.copyToRemoteBuffer(row.data(), "rows", r);
    }
    engine.run();
    for (std::size_t i = 0; i < kRow; ++i)
      CHECK_EQ(y[i], static_cast<float>(2 * (1000 * (0 + 1 + 2 + 3) + 4 * i)));
  }
}

TEST(TransfersGoOnBesideTheTilesThatCompute) {
  const auto of = [](unsigned work) {
    RowsAhead program(work);
    return ipu_model::ReportOf(compileGraph(program.graph, {program.main}));
  };
  // Little work: it is beside the transfers as a whole, in each trip but the last one.
  const ipu_model::Report little = of(1), more = of(2);
  CHECK(little.overlapped_link_cycles > 0);
  CHECK_EQ(more.overlapped_link_cycles, 2 * little.overlapped_link_cycles);
  // Much work: the transfers as a whole are beside it, all but the first one. Each is two transfers, of the
  // number and of the row, with a sync each: 2,400 bytes at 20 GB/s and 1.325 GHz are 159 cycles.
  const ipu_model::Report much = of(40);
  CHECK_EQ(much.overlapped_link_cycles, (kRows - 1) * (600u + 600u + 159u));
  CHECK_EQ(much.host_link_cycles, little.host_link_cycles);
  // All but the result.
  CHECK_EQ(much.streaming_in_bytes, kRows * kRow * 4);
  CHECK_EQ(much.streaming_out_bytes, kRows * 4);
  CHECK_EQ(much.streaming_cycles, kRows * (600u + 600u + 159u));
  CHECK(much.overlapped_link_cycles < much.host_link_cycles);
}

TEST(TransfersThatABranchStartsGoOnBesideWhatFollows) {
  const auto of = [](bool in_branch) {
    const Device device = SmallDevice();
    Graph graph(ipu_model::GraphWithIoTiles(device.getTarget(), replication_factor(1), kIoTiles));
    const RemoteBuffer rows = graph.addRemoteBuffer("rows", FLOAT, kRow, 1);
    const Tensor slot = graph.addVariable(FLOAT, {kRow}, "slot"), y = graph.addVariable(FLOAT, {kRow}, "y");
    const Tensor more = graph.addVariable(BOOL, {}, "more");
    ipu_model::MapToIoTiles(graph, slot, kIoTiles);
    poputil::mapTensorLinearly(graph, y, 1, 2);
    graph.setTileMapping(more, 0);
    Sequence add;
    for (unsigned i = 0; i < 40; ++i) popops::addInPlace(graph, y, y, add);
    const Sequence read{Copy(rows, slot)};
    Sequence main;
    if (in_branch) {
      main.add(If(more, read, Sequence{}));
    } else {
      main.add(read);
    }
    main.add(add);
    main.add(Copy(slot, y));
    return ipu_model::ReportOf(compileGraph(graph, {main})).overlapped_link_cycles;
  };
  CHECK(of(false) > 0);
  CHECK_EQ(of(true), of(false));
}

TEST(WithoutTilesForThemTransfersWait) {
  const Device device = SmallDevice();
  Graph graph(device);
  const RemoteBuffer rows = graph.addRemoteBuffer("rows", FLOAT, kRow, kRows);
  const Tensor x = graph.addVariable(FLOAT, {kRow}, "x"), y = graph.addVariable(FLOAT, {kRow}, "y");
  poputil::mapTensorLinearly(graph, x, 1, 2);
  poputil::mapTensorLinearly(graph, y, 1, 2);
  Sequence main{Copy(rows, x)};
  popops::addInPlace(graph, y, y, main);
  const ipu_model::Report report = ipu_model::ReportOf(compileGraph(graph, {main}));
  CHECK_EQ(report.overlapped_link_cycles, 0u);
}
