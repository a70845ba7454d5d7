// poplar::Target, based on the table of architectures.
#include "poplar/Target.hpp"

#include <stdexcept>
#include <utility>

#include "core/target_model.h"
#include "ipu_model/Model.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {

namespace {

const ipu_model::TargetModel& Find(unsigned num_ipus, const std::string& architecture) {
  if (num_ipus != 1) {
    throw poplar_error("Target::createIPUTarget: the model runs one IPU per target, not " +
                       std::to_string(num_ipus) + "; use one target per replica");
  }
  try {
    return ipu_model::FindTargetModel(architecture);
  } catch (const std::invalid_argument& error) {
    throw poplar_error(std::string("Target::createIPUTarget: ") + error.what());
  }
}

}  // namespace

Target::Target(std::string architecture, const ipu_model::TargetModel* model, unsigned num_tiles)
    : architecture_(std::move(architecture)), model_(model), num_tiles_(num_tiles) {}

Target Target::createIPUTarget(unsigned numIPUs, const std::string& architecture) {
  const ipu_model::TargetModel& model = Find(numIPUs, architecture);
  return Target(architecture, &model, model.num_tiles);
}

Target Target::createIPUTarget(unsigned numIPUs, unsigned tilesPerIPU, const std::string& architecture) {
  const ipu_model::TargetModel& model = Find(numIPUs, architecture);
  if (tilesPerIPU == 0 || tilesPerIPU > model.num_tiles) {
    throw poplar_error("Target::createIPUTarget: " + std::to_string(tilesPerIPU) + " tiles; " + architecture +
                       " has 1 to " + std::to_string(model.num_tiles));
  }
  return Target(architecture, &model, tilesPerIPU);
}

unsigned Target::getNumWorkerContexts() const { return model_->worker_contexts; }
std::size_t Target::getBytesPerTile() const { return model_->bytes_per_tile; }
double Target::getTileClockFrequency() const { return model_->clock_hz; }
unsigned Target::getExchangeBytesPerCycle() const { return model_->exchange_bytes_per_cycle; }
unsigned Target::getMemcpyBytesPerCycle() const { return model_->memcpy_bytes_per_cycle; }
unsigned Target::getDataPathWidth() const { return 8 * model_->data_path_bytes; }
unsigned Target::getVectorWidth(const Type& type) const { return model_->VectorWidth(type.id()); }
unsigned Target::getTypeSize(const Type& type) const {
  return static_cast<unsigned>(ipu_model::SizeOf(type.id()));
}

}  // namespace poplar

namespace ipu_model {

unsigned LocalCopyCallCycles(const poplar::Target& target) { return target.model().local_copy_call_cycles; }

std::uint64_t HostLinkCycles(const poplar::Target& target, std::uint64_t transfers, std::uint64_t bytes) {
  const TargetModel& model = target.model();
  return model.global_sync_cycles * transfers +
         static_cast<std::uint64_t>(static_cast<double>(bytes) / model.host_link_bytes_per_second *
                                    model.clock_hz);
}

double PeakFlops(const poplar::Target& target) {
  // A multiply-accumulate is two operations.
  return 2.0 * target.model().amp_macs_half * target.getNumTiles() * target.model().clock_hz;
}

double SramBytesPerSecond(const poplar::Target& target) {
  return 1.0 * target.model().wide_load_bytes * target.getNumTiles() * target.model().clock_hz;
}

double HostLinkBytesPerSecond(const poplar::Target& target) {
  return target.model().host_link_bytes_per_second;
}

double IpuLinkBytesPerSecond(const poplar::Target& target) {
  const TargetModel& model = target.model();
  return model.ipu_links_to_neighbour * model.ipu_link_bytes_per_second;
}

}  // namespace ipu_model
