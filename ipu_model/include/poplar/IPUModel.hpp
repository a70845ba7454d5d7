// Makes devices of the IPU model. Source: Graphcore's Poplar and PopLibs API reference, class
// poplar::IPUModel.
#ifndef POPLAR_IPUMODEL_HPP
#define POPLAR_IPUMODEL_HPP

#include <string>
#include <vector>

#include "poplar/Device.hpp"
#include "poplar/GlobalExchange.hpp"
#include "poplar/OptionFlags.hpp"

namespace poplar {

// The numbers of an architecture, which may be changed before createDevice.
class IPUModel {
 public:
  enum class RelativeSyncDelayType {
    AUTO,  // every tile has its own delay: a sync takes as long as the slowest tile's, at least the minimum
    NO_DELAY  // every tile has the minimum
  };

  // "ipu1", "ipu2", "ipu21", "bow". Throws poplar_error for any other.
  explicit IPUModel(const std::string& version = "ipu2");

  std::string IPUVersion;
  unsigned numIPUs = 1;
  unsigned tilesPerIPU;  // at most those of the architecture; 0: all of them
  unsigned numWorkerContexts;
  unsigned memoryBytesPerTile;
  double tileClockFrequency;  // Hz
  unsigned exchangeBytesPerCycle;
  unsigned memcpyBytesPerCycle;
  unsigned dataPathWidth;  // bits
  // Of the convolution units. Poplar's may be changed; createDevice refuses numbers other than those that
  // follow from the architecture and dataPathWidth.
  unsigned fp8ConvUnitInputLoadElemsPerCycle, fp16ConvUnitInputLoadElemsPerCycle,
      fp32ConvUnitInputLoadElemsPerCycle;
  unsigned fp16ConvUnitMaxPipelineDepth;
  unsigned fp16InFp16OutConvUnitsPerTile, fp16InFp32OutConvUnitsPerTile;
  unsigned instructionBytes;
  unsigned minIPUSyncDelay = 0;  // cycles
  RelativeSyncDelayType relativeSyncDelay = RelativeSyncDelayType::AUTO;
  unsigned globalSyncCycles;
  // No effect: the model knows the links between its IPUs.
  std::vector<GlobalExchangeConstraint> globalExchangeConstraints;
  bool compileIPUCode = false;  // the model has no IPU code: changes nothing

  // No options are known: throws invalid_option for any, and invalid_machine_model for numbers that no
  // machine has. In the model, half values always have 16 bits.
  Device createDevice(const OptionFlags& options = {}, bool accurateHalf = true, unsigned id = 0) const;
};

}  // namespace poplar

#endif  // POPLAR_IPUMODEL_HPP
