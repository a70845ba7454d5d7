// The value behind one PJRT buffer: on the host, resident in a device's SRAM, or both.
#ifndef JAX_IPU_RUNTIME_MEMORY_ARRAY_H_
#define JAX_IPU_RUNTIME_MEMORY_ARRAY_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "runtime/device/completion.h"
#include "runtime/executable/executable.h"
#include "runtime/memory/host_memory.h"

namespace jax_ipu {

class LoadedImage;

class Array {
 public:
  // `host` may be null: the value is then resident, or a host copy is published later.
  Array(std::shared_ptr<const TensorSpec> spec, std::shared_ptr<HostBlock> host, CompletionPtr ready)
      : spec_(std::move(spec)),
        ready_(std::move(ready)),
        host_(std::move(host)),
        on_host_(host_ != nullptr) {}

  const TensorSpec& spec() const { return *spec_; }
  const std::shared_ptr<const TensorSpec>& shared_spec() const { return spec_; }
  const CompletionPtr& ready() const { return ready_; }
  // Call only before the array is shared.
  void set_ready(CompletionPtr ready) { ready_ = std::move(ready); }

  // Whether host() is known; its bytes are valid once ready() is. Never turns false again.
  bool on_host() const { return on_host_.load(std::memory_order_acquire); }
  const std::shared_ptr<HostBlock>& host() const { return host_; }
  // The value came from another IPU, so its first write to this IPU does not count as a host transfer. Call
  // only before the array is shared.
  void set_received(bool only_on_ipus) {
    received_ = true;
    only_on_ipus_.store(only_on_ipus, std::memory_order_relaxed);
  }
  // The host memory only carries the value between IPUs in the model: the host has not read it yet.
  bool only_on_ipus() const { return only_on_ipus_.load(std::memory_order_relaxed); }
  // Called at most once, by the device's thread.
  void PublishHost(std::shared_ptr<HostBlock> host) {
    host_ = std::move(host);
    on_host_.store(true, std::memory_order_release);
  }

 private:
  friend class Residency;

  const std::shared_ptr<const TensorSpec> spec_;
  CompletionPtr ready_;
  std::shared_ptr<HostBlock> host_;
  std::atomic<bool> on_host_;

  std::atomic<bool> only_on_ipus_{false};

  bool received_ = false;  // this and the members below: used by the device's thread only
  // The value is in variable `slot_` of `image_`. Null: not resident.
  std::shared_ptr<LoadedImage> image_;
  std::size_t slot_ = 0;
};

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_MEMORY_ARRAY_H_
