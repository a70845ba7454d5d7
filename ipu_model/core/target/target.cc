// poplar::Target, based on the table of architectures.
#include "poplar/Target.hpp"

#include <stdexcept>
#include <string>
#include <utility>

#include "core/target/target_model.h"
#include "ipu_model/Model.hpp"
#include "ipu_model/Replicas.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {

namespace {

std::shared_ptr<const ipu_model::TargetModel> Find(unsigned num_ipus, const std::string& architecture) {
  try {
    (void)ipu_model::FindTargetModel(architecture);  // throws for "cpu", too
    ipu_model::TargetChanges changes;
    changes.num_ipus = num_ipus;
    return ipu_model::ChangedTargetModel(architecture, changes);
  } catch (const std::invalid_argument& error) {
    throw poplar_error(std::string("Target::createIPUTarget: ") + error.what());
  }
}

}  // namespace

Target::Target(std::shared_ptr<const ipu_model::TargetModel> model, unsigned num_tiles)
    : architecture_(model->version), model_(std::move(model)), num_tiles_(num_tiles) {}

int Target::Order(const Target& a, const Target& b) {
  if (const int models = ipu_model::Order(*a.model_, *b.model_)) return models;
  return a.num_tiles_ == b.num_tiles_ ? 0 : a.num_tiles_ < b.num_tiles_ ? -1 : 1;
}

Target Target::createIPUTarget(unsigned numIPUs, const std::string& architecture) {
  const auto model = Find(numIPUs, architecture);
  return ipu_model::TargetOf(model, model->num_tiles);
}

Target Target::createIPUTarget(unsigned numIPUs, unsigned tilesPerIPU, const std::string& architecture) {
  return ipu_model::TargetOf(Find(numIPUs, architecture), tilesPerIPU);
}

Target Target::createCPUTarget() {
  const ipu_model::TargetModel& model = ipu_model::CpuTargetModel();
  return Target({std::shared_ptr<void>(), &model}, model.num_tiles);
}

Target Target::createVirtualTarget(unsigned numIPUs, unsigned tilesPerIPU) const {
  if (numIPUs == 0 || tilesPerIPU == 0 || tilesPerIPU > getNumTiles() / numIPUs) {
    throw poplar_error("Target::createVirtualTarget: " + std::to_string(numIPUs) + " IPUs with " +
                       std::to_string(tilesPerIPU) + " tiles of a target with " + std::to_string(num_tiles_));
  }
  if (numIPUs == getNumIPUs()) return Target(model_.pointer(), numIPUs * tilesPerIPU);
  ipu_model::TargetChanges changes = ipu_model::ChangesOf(*model_);
  changes.num_ipus = numIPUs;
  try {
    return ipu_model::TargetOf(ipu_model::ChangedTargetModel(architecture_, changes), tilesPerIPU);
  } catch (const std::invalid_argument& error) {
    throw poplar_error(std::string("Target::createVirtualTarget: ") + error.what());
  }
}

TargetType Target::getTargetType() const {
  return model_.get() == &ipu_model::CpuTargetModel() ? TargetType::CPU : TargetType::IPU_MODEL;
}

unsigned Target::getNumTiles() const {
  (void)model_.pointer();  // throws if there is none
  return num_tiles_;
}
unsigned Target::getNumIPUs() const { return model_->num_ipus; }
unsigned Target::getNumWorkerContexts() const { return model_->worker_contexts; }
std::size_t Target::getBytesPerTile() const { return model_->bytes_per_tile; }
double Target::getTileClockFrequency() const { return model_->clock_hz; }
unsigned Target::getExchangeBytesPerCycle() const { return model_->exchange_bytes_per_cycle; }
unsigned Target::getMemcpyBytesPerCycle() const { return model_->memcpy_bytes_per_cycle; }
unsigned Target::getDataPathWidth() const { return 8 * model_->data_path_bytes; }
unsigned Target::getVectorWidth(const Type& type) const { return model_->VectorWidth(type.id()); }
std::size_t Target::getTypeSize(const Type& type) const { return ipu_model::SizeOf(type.id()); }
unsigned Target::getAtomicStoreGranularity() const { return model_->atomic_store_bytes; }
unsigned Target::getRptCountMax() const { return (1u << model_->repeat_count_bits) - 1; }
unsigned Target::getNumStrideBits() const { return model_->stride_bits; }
unsigned Target::getTilesPerSharedExchangeBus() const { return model_->tiles_per_shared_bus; }
unsigned Target::getMaxIPUSyncDelay() const { return model_->sync_cycles; }
unsigned Target::getGlobalSyncCycles() const { return model_->global_sync_cycles; }
double Target::getGlobalExchangeBytesPerSecond() const {
  return model_->ipu_links_to_neighbour * model_->ipu_link_bytes_per_second;
}
std::vector<std::uint32_t> Target::getMemoryElementOffsets() const {
  std::vector<std::uint32_t> offsets;
  for (std::uint32_t begin = 0; begin < model_->bytes_per_tile; begin += model_->memory_element_bytes)
    offsets.push_back(begin);
  return offsets;
}
unsigned Target::getInterleavedMemoryElementIndex() const { return model_->interleaved_element; }
unsigned Target::getWeightsPerConvUnit(const Type& inputType) const {
  return getConvUnitMaxPipelineDepth(inputType) * getConvUnitInputLoadElemsPerCycle(inputType);
}
unsigned Target::getNumConvUnits(const Type& inputType, const Type& partialType) const {
  if (inputType == FLOAT) return partialType == FLOAT ? model_->amp_units_float : 0;
  if (inputType == HALF && (partialType == HALF || partialType == FLOAT))
    return model_->AmpUnits(inputType.id(), partialType == FLOAT);
  if (inputType == QUARTER && model_->amp_macs_quarter > 0)
    return partialType == HALF ? model_->amp_units_half : 0;
  return 0;
}
unsigned Target::getConvUnitMaxPipelineDepth(const Type& /*partialType*/) const {
  return model_->amp_pipeline_depth;
}
unsigned Target::getConvUnitInputLoadElemsPerCycle(const Type& inputType) const {
  return model_->VectorWidth(inputType.id());
}
// With 128-bit loads: PopLibs halves it without them (poplinCycleEstimators.cpp, ConvPartial1x1Out).
unsigned Target::getConvUnitCoeffLoadBytesPerCycle() const { return 2 * model_->amp_coefficient_bytes; }

long double Target::TypeLimit(const Type& type, bool max) {
  const auto of = [max](auto zero) {
    using Limits = std::numeric_limits<decltype(zero)>;
    return static_cast<long double>(max ? Limits::max() : Limits::lowest());
  };
  switch (type.id()) {
    case ipu_model::DType::kPred:
      return max ? 1 : 0;
    case ipu_model::DType::kS8:
      return of(std::int8_t{});
    case ipu_model::DType::kU8:
      return of(std::uint8_t{});
    case ipu_model::DType::kS16:
      return of(std::int16_t{});
    case ipu_model::DType::kU16:
      return of(std::uint16_t{});
    case ipu_model::DType::kS32:
      return of(std::int32_t{});
    case ipu_model::DType::kU32:
      return of(std::uint32_t{});
    case ipu_model::DType::kS64:
      return of(std::int64_t{});
    case ipu_model::DType::kU64:
      return of(std::uint64_t{});
    case ipu_model::DType::kF16:
      return max ? 65504 : -65504;
    case ipu_model::DType::kF32:
      return of(float{});
    case ipu_model::DType::kF64:
      return of(double{});
    default:
      throw type_error("Target::getTypeLimits: the model does not know the limits of " + type.toString());
  }
}

}  // namespace poplar

namespace ipu_model {

// Here, as targets are the lowest part of the model that owns something.
void FailMovedFrom(const char* name) {
  throw poplar::poplar_error(std::string(name) +
                             ": the object is empty: it was moved from, or default-constructed");
}

poplar::Target TargetOf(std::shared_ptr<const TargetModel> model, unsigned tilesPerIPU) {
  if (tilesPerIPU == 0 || tilesPerIPU > model->num_tiles) {
    throw poplar::poplar_error("Target::createIPUTarget: " + std::to_string(tilesPerIPU) + " tiles; " +
                               model->version + " has 1 to " + std::to_string(model->num_tiles));
  }
  const unsigned num_tiles = model->num_ipus * tilesPerIPU;
  return poplar::Target(std::move(model), num_tiles);
}

poplar::Target TargetOfReplica(const poplar::Target& target, unsigned replicas) {
  if (replicas == 0) throw poplar::graph_replication_error("Graph: a graph has at least one replica, not 0");
  if (replicas == 1) {
    (void)target.getNumTiles();  // throws if there is none
    return target;
  }
  const unsigned ipus = target.getNumIPUs(), tiles = target.getTilesPerIPU();
  const bool divides_ipus = ipus % replicas == 0;
  if (!divides_ipus && (replicas % ipus != 0 || tiles % (replicas / ipus) != 0)) {
    throw poplar::graph_replication_error("Graph: " + std::to_string(replicas) +
                                          " replicas do not divide a target of " + std::to_string(ipus) +
                                          " IPUs with " + std::to_string(tiles) + " tiles each");
  }
  if (!divides_ipus) return target.createVirtualTarget(1, tiles / (replicas / ipus));
  return target.createVirtualTarget(ipus / replicas, tiles);
}

poplar::Target TargetOfReplicas(const poplar::Target& replica, unsigned replicas) {
  if (replicas == 1) return replica;
  TargetChanges changes = ChangesOf(ModelOf(replica));
  changes.num_ipus *= replicas;
  try {
    return TargetOf(ChangedTargetModel(replica.getTargetArchString(), changes), replica.getTilesPerIPU());
  } catch (const std::invalid_argument& error) {
    throw poplar::poplar_error(std::string("replicas: ") + error.what());
  }
}

const TargetModel& ModelOf(const poplar::Target& target) { return target.model(); }

}  // namespace ipu_model
