// Makes devices of the IPU model.
#ifndef POPLAR_IPUMODEL_HPP
#define POPLAR_IPUMODEL_HPP

#include <string>
#include <utility>
#include <vector>

#include "poplar/Device.hpp"
#include "poplar/GlobalExchange.hpp"

namespace poplar {

class IPUModel {
 public:
  explicit IPUModel(std::string version = "ipu2") : IPUVersion(std::move(version)) {}

  std::string IPUVersion;  // "ipu1", "ipu2", "ipu21", "bow"
  unsigned numIPUs = 1;
  unsigned tilesPerIPU = 0;  // 0: all of the architecture
  // No effect: the model knows the links between its IPUs.
  std::vector<GlobalExchangeConstraint> globalExchangeConstraints;
  bool compileIPUCode = false;  // no effect: vertices run as code of the host

  Device createDevice(unsigned id = 0) const {
    return Device(tilesPerIPU == 0 ? Target::createIPUTarget(numIPUs, IPUVersion)
                                   : Target::createIPUTarget(numIPUs, tilesPerIPU, IPUVersion),
                  id);
  }
};

}  // namespace poplar

#endif  // POPLAR_IPUMODEL_HPP
