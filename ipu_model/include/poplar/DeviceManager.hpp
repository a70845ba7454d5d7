// Finds attached hardware: there is none, as this build runs on the IPU model.
#ifndef POPLAR_DEVICEMANAGER_HPP
#define POPLAR_DEVICEMANAGER_HPP

#include <vector>

#include "poplar/Device.hpp"

namespace poplar {

class DeviceManager {
 public:
  static DeviceManager createDeviceManager() { return {}; }
  std::vector<Device> getDevices() const { return {}; }
  std::vector<Device> getDevices(TargetType, unsigned /*numIPUs*/) const { return {}; }
};

}  // namespace poplar

#endif  // POPLAR_DEVICEMANAGER_HPP
