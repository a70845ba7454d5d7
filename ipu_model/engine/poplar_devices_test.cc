// Devices in the Poplar API: the numbers of a model, the devices that a manager offers, and links between
// IPUs.
#include <cstdlib>
#include <sstream>
#include <vector>

#include "check.h"
#include "ipu_model/Model.hpp"
#include "poplar/DeviceManager.hpp"
#include "poplar/Engine.hpp"
#include "poplar/IPUModel.hpp"
#include "poplar/exceptions.hpp"
#include "testing/small_device.h"

using namespace poplar;
using namespace poplar::program;
using ipu_model::toy::InBothModes;
using ipu_model::toy::OnTile;
using ipu_model::toy::SmallDevice;
using Values = std::vector<float>;

namespace {

TEST(NumbersOfModels) {
  IPUModel model("ipu1");
  CHECK_EQ(model.tilesPerIPU, 1216u);
  model.tilesPerIPU = 10;
  model.numIPUs = 2;
  model.memoryBytesPerTile = 100000;
  model.tileClockFrequency = 1e9;
  model.relativeSyncDelay = IPUModel::RelativeSyncDelayType::NO_DELAY;
  model.minIPUSyncDelay = 5;
  const Device device = model.createDevice(), same = model.createDevice();
  const Target& target = device.getTarget();
  CHECK(target == same.getTarget());
  CHECK(target != Target::createIPUTarget(2, 10, "ipu1"));
  const Target other = Target::createIPUTarget(1, "ipu2");
  CHECK(!(target < same.getTarget()) && (target < other) != (other < target));
  CHECK_EQ(target.getNumIPUs(), 2u);
  CHECK_EQ(target.getTilesPerIPU(), 10u);
  CHECK_EQ(target.getNumTiles(), 20u);
  CHECK_EQ(target.getBytesPerTile(), 100000u);
  CHECK_EQ(target.getTileClockFrequency(), 1e9);
  Graph graph(device);
  std::stringstream stored;
  compileGraph(graph, {Sync(SyncType::INTERNAL)}).serialize(stored);
  Engine engine(Executable::deserialize(stored));
  engine.loadAndRun(device);
  CHECK_EQ(ipu_model::LastRunCycles(engine), 5u);
  IPUModel units("ipu2");
  units.dataPathWidth = 128;
  units.fp16ConvUnitInputLoadElemsPerCycle = 8;
  CHECK_EQ(units.createDevice().getTarget().getFp16ConvUnitInputLoadElemsPerCycle(), 8u);
  units.fp16InFp16OutConvUnitsPerTile = 1;
  CHECK_THROWS(poplar_error, units.createDevice());
  model.dataPathWidth = 24;
  CHECK_THROWS(poplar_error, model.createDevice());
  model.dataPathWidth = 64;
  model.numIPUs = 1000;
  CHECK_THROWS(poplar_error, model.createDevice());
  CHECK_THROWS(poplar_error, IPUModel("ipu9"));
  CHECK_EQ(device.createVirtualDevice(3).getTarget().getNumTiles(), 6u);
  CHECK_EQ(device.getDriverIDs().size(), 2u);
}

TEST(CopiesBetweenIpusCrossTheLinks) {
  const Device device = SmallDevice(2);
  for (const bool other_ipu : {false, true}) {
    Graph graph(device);
    const Tensor x = OnTile(graph, FLOAT, {100}, 0, "x"),
                 y = OnTile(graph, FLOAT, {100}, other_ipu ? 5 : 3, "y");
    graph.createHostWrite("x", x);
    graph.createHostRead("y", y);
    const Executable executable = compileGraph(graph, {Copy(x, y)});
    const ipu_model::Report& report = ipu_model::ReportOf(executable);
    CHECK_EQ(report.link_bytes, other_ipu ? 400u : 0u);
    CHECK_EQ(report.cycles.sync, other_ipu ? 600u : 126u);
    // The links take less than the tile that receives; the sync of all IPUs counts once.
    CHECK(ipu_model::LinkCopyCycles(device.getTarget(), 0, 1, 2, 400) < 600u + 100u);
    CHECK_EQ(report.cycles.exchange, 100u);
    InBothModes([&](const OptionFlags& mode) {
      Engine engine(executable, mode);
      engine.load(device);
      Values values(100, 2), result(100);
      engine.writeTensor("x", values.data(), values.data() + 100);
      engine.run();
      engine.readTensor("y", result.data(), result.data() + 100);
      CHECK(result == values);
    });
  }
}

TEST(DevicesThatTheUserOffers) {
  const DeviceManager manager = DeviceManager::createDeviceManager();
  CHECK(manager.getDevices(TargetType::IPU, 1).empty());
  setenv("IPU_MODEL_DEVICES", "4 bow", 1);
  CHECK_EQ(manager.getDevices().size(), 7u);
  CHECK_EQ(manager.getDevices(TargetType::IPU, 2).size(), 2u);
  const Device device = manager.getDevice(6);
  CHECK_EQ(device.getTarget().getNumIPUs(), 4u);
  CHECK_EQ(device.getTarget().getTargetArchString(), "bow");
  CHECK(device.attach() && device.isAttached());
  setenv("IPU_MODEL_DEVICES", "many", 1);
  CHECK_THROWS(poplar_error, manager.getDevices());
  unsetenv("IPU_MODEL_DEVICES");
}

}  // namespace
