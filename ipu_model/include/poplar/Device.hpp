// A device that an engine can be loaded onto. Here always the IPU model.
#ifndef POPLAR_DEVICE_HPP
#define POPLAR_DEVICE_HPP

#include <optional>
#include <utility>

#include "poplar/Target.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {

class Device {
 public:
  Device() = default;
  Device(Target target, unsigned id) : target_(std::move(target)), id_(id) {}
  Device(Device&&) = default;
  Device& operator=(Device&&) = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  bool attach() const { return target_.has_value(); }
  void detach() const {}
  unsigned getId() const { return id_; }
  const Target& getTarget() const {
    if (!target_)
      throw poplar_error("Device::getTarget: this Device is empty; get one from IPUModel::createDevice");
    return *target_;
  }
  // One tile without a limit of memory, whose workers run one after another.
  static Device createCPUDevice() { return Device(Target::createCPUTarget(), 0); }
  // Throws poplar_error: there is no simulator of instructions.
  static Device createSimulatorDevice(const Target& /*target*/) {
    throw poplar_error("Device::createSimulatorDevice: there is no simulator; use IPUModel::createDevice");
  }
  // The same device with the first tiles only. Throws poplar_error when it has fewer.
  Device createVirtualDevice(unsigned tilesPerIPU) const {
    return Device(getTarget().createVirtualTarget(1, tilesPerIPU), id_);
  }
  bool supportsRemoteBuffers() const { return false; }

 private:
  std::optional<Target> target_;
  unsigned id_ = 0;
};

}  // namespace poplar

#endif  // POPLAR_DEVICE_HPP
