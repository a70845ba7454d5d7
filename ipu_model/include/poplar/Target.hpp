// The target of a compilation: an architecture and a number of tiles.
#ifndef POPLAR_TARGET_HPP
#define POPLAR_TARGET_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ipu_model/Owned.hpp"
#include "poplar/OptionFlags.hpp"
#include "poplar/StringRef.hpp"
#include "poplar/TargetType.hpp"
#include "poplar/Type.hpp"
#include "poplar/exceptions.hpp"

namespace ipu_model {
struct TargetModel;  // core/target/target_model.h
}
namespace poplar {
class Target;
}
namespace ipu_model {
poplar::Target TargetOf(std::shared_ptr<const TargetModel> model, unsigned tilesPerIPU);
}  // namespace ipu_model

namespace poplar {

class Target {
 public:
  // No target: its methods throw poplar_error.
  Target() : model_(nullptr) {}
  // Architectures: "ipu1", "ipu2", "ipu21", "bow". Throws poplar_error for any other. Tiles are numbered IPU
  // after IPU; data between IPUs goes over the IPU-Links.
  static Target createIPUTarget(unsigned numIPUs, const std::string& architecture);
  // Uses the first tilesPerIPU tiles of each IPU only; throws when the architecture has fewer.
  static Target createIPUTarget(unsigned numIPUs, unsigned tilesPerIPU, const std::string& architecture);
  static Target createCPUTarget();
  // The same architecture with fewer tiles.
  Target createVirtualTarget(unsigned numIPUs, unsigned tilesPerIPU) const;

  TargetType getTargetType() const;
  std::string getTargetSystemString() const { return architecture_; }
  const std::string& getTargetArchString() const { return architecture_; }
  unsigned getNumIPUs() const;
  unsigned getTilesPerIPU() const { return getNumTiles() / getNumIPUs(); }
  unsigned getNumTiles() const;
  unsigned getNumWorkerContexts() const;
  std::size_t getBytesPerTile() const;
  double getTileClockFrequency() const;             // Hz
  unsigned getExchangeBytesPerCycle() const;        // of one tile
  unsigned getMemcpyBytesPerCycle() const;          // of a copy inside one tile
  unsigned getDataPathWidth() const;                // bits
  unsigned getVectorWidth(const Type& type) const;  // elements in one data path word, at least 1
  unsigned getFloatVectorWidth() const { return getVectorWidth(FLOAT); }
  unsigned getHalfVectorWidth() const { return getVectorWidth(HALF); }
  std::size_t getTypeSize(const Type& type) const;  // bytes of one element
  unsigned getNumVirtualTiles() const { return getNumTiles(); }
  // Bytes that a worker writes at once: smaller parts of a word must be of one worker.
  unsigned getAtomicStoreGranularity() const;
  unsigned getRptCountMax() const;    // trips of a hardware loop
  unsigned getNumStrideBits() const;  // of the strides of a load with increment
  bool supportsExchangeBusSharing() const { return getTilesPerSharedExchangeBus() > 1; }
  unsigned getTilesPerSharedExchangeBus() const;
  unsigned getMaxIPUSyncDelay() const;   // cycles
  unsigned getGlobalSyncCycles() const;  // cycles
  double getGlobalExchangeBytesPerSecond() const;
  // Where each element of the memory starts, in bytes, and the first one that is interleaved.
  std::vector<std::uint32_t> getMemoryElementOffsets() const;
  unsigned getInterleavedMemoryElementIndex() const;
  // The AMP: input elements of a group that a unit holds, units for input and partial types (0: no such
  // instruction), input elements and bytes of weights in one load.
  unsigned getWeightsPerConvUnit(const Type& inputType) const;
  unsigned getNumConvUnits(const Type& inputType, const Type& partialType) const;
  unsigned getFp16InFp16OutConvUnitsPerTile() const { return getNumConvUnits(HALF, HALF); }
  unsigned getFp16InFp32OutConvUnitsPerTile() const { return getNumConvUnits(HALF, FLOAT); }
  unsigned getFp32InFp32OutConvUnitsPerTile() const { return getNumConvUnits(FLOAT, FLOAT); }
  unsigned getConvUnitMaxPipelineDepth(const Type& partialType) const;
  unsigned getConvUnitInputLoadElemsPerCycle(const Type& inputType) const;
  unsigned getFp16ConvUnitInputLoadElemsPerCycle() const { return getConvUnitInputLoadElemsPerCycle(HALF); }
  unsigned getFp32ConvUnitInputLoadElemsPerCycle() const { return getConvUnitInputLoadElemsPerCycle(FLOAT); }
  unsigned getConvUnitCoeffLoadBytesPerCycle() const;
  const OptionFlags& getTargetOptions() const { return options_; }
  // The largest and the lowest number of a type, as a T. Throws type_error if a T cannot hold it.
  template <typename T>
  T getTypeLimitsMaxAs(const Type& type) const {
    return LimitAs<T>(type, TypeLimit(type, true));
  }
  template <typename T>
  T getTypeLimitsLowestAs(const Type& type) const {
    return LimitAs<T>(type, TypeLimit(type, false));
  }

#ifndef POPLAR_API_ONLY
  const ipu_model::TargetModel& model() const { return *model_; }  // internals of the model
#endif

  // By the numbers. The order is any total one.
  friend bool operator==(const Target& a, const Target& b) { return Order(a, b) == 0; }
  friend bool operator!=(const Target& a, const Target& b) { return Order(a, b) != 0; }
  friend bool operator<(const Target& a, const Target& b) { return Order(a, b) < 0; }

 private:
  friend Target ipu_model::TargetOf(std::shared_ptr<const ipu_model::TargetModel> model,
                                    unsigned tilesPerIPU);
  Target(std::shared_ptr<const ipu_model::TargetModel> model, unsigned num_tiles);
  static int Order(const Target& a, const Target& b);  // negative: a is first; 0: they are equal
  static long double TypeLimit(const Type& type, bool max);
  template <typename T>
  static T LimitAs(const Type& type, long double limit) {
    if (limit > static_cast<long double>(std::numeric_limits<T>::max()) ||
        limit < static_cast<long double>(std::numeric_limits<T>::lowest()))
      throw type_error("the limits of " + type.toString() + " do not fit the type that is asked for");
    return static_cast<T>(limit);
  }

  std::string architecture_;
  static constexpr char kClass[] = "Target";
  ipu_model::Owned<std::shared_ptr<const ipu_model::TargetModel>, kClass> model_;
  unsigned num_tiles_ = 0;
  OptionFlags options_;
};

}  // namespace poplar

namespace std {
template <>
struct hash<poplar::Target> {
  size_t operator()(const poplar::Target& target) const {
    return hash<string>()(target.getTargetArchString()) * 31 + target.getNumTiles();
  }
};
}  // namespace std

#endif  // POPLAR_TARGET_HPP
