// A device that an engine can be loaded onto. Here always the IPU model.
#ifndef POPLAR_DEVICE_HPP
#define POPLAR_DEVICE_HPP

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "poplar/Target.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {

class Device {
 public:
  Device() = default;
  Device(Target target, unsigned id) : target_(std::move(target)), id_(id) {}
  // What was moved from is empty, as a default-constructed one.
  Device(Device&& other) noexcept { *this = std::move(other); }
  Device& operator=(Device&& other) noexcept {
    target_ = std::exchange(other.target_, std::nullopt);
    id_ = other.id_;
    attached_ = std::exchange(other.attached_, false);
    return *this;
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Any number of programs can use a device of the model at once.
  bool attach() const { return attached_ = target_.has_value(); }
  void detach() const { attached_ = false; }
  bool isAttached() const { return attached_; }
  unsigned getId() const { return id_; }
  // The numbers of its IPUs.
  std::vector<int> getDriverIDs() const;
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
  bool supportsRemoteBuffers() const { return target_.has_value(); }
  // Properties by name, as text; getAttribute throws poplar_error for a name that the device has not.
  std::map<std::string, std::string> getAttributes() const;
  std::string getAttribute(const std::string& name) const;
  // The same device with the first tiles of each IPU only.
  Device createVirtualDevice(unsigned tilesPerIPU) const;

 private:
  std::optional<Target> target_;
  unsigned id_ = 0;
  mutable bool attached_ = false;
};

}  // namespace poplar

#endif  // POPLAR_DEVICE_HPP
