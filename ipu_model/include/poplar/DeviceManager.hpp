// Finds devices. There is no hardware, as this build runs on the IPU model; programs that look for hardware
// find models instead, if the user asks for that: the environment variable IPU_MODEL_DEVICES is the number of
// IPUs to be found, with an architecture if it is not ipu2: "4", "4 bow".
#ifndef POPLAR_DEVICEMANAGER_HPP
#define POPLAR_DEVICEMANAGER_HPP

#include <vector>

#include "poplar/Device.hpp"
#include "poplar/OptionFlags.hpp"

namespace poplar {

class DeviceManager {
 public:
  static DeviceManager createDeviceManager() { return {}; }

  // Device i, of the first that getDevices returns, is IPU i; those of several IPUs follow. Throws
  // poplar_error for a value of IPU_MODEL_DEVICES that is no number of IPUs.
  std::vector<Device> getDevices() const;
  // Those of this number of IPUs; of type IPU_MODEL, one model of ipu2. CPU devices do not exist.
  std::vector<Device> getDevices(TargetType type, unsigned numIPUs, const OptionFlags& options = {}) const;
  // Throws poplar_error if there is none.
  Device getDevice(unsigned id, const OptionFlags& options = {}) const;
};

}  // namespace poplar

#endif  // POPLAR_DEVICEMANAGER_HPP
