// The value behind one PJRT buffer: on the host, resident in a device's SRAM, or both.
#ifndef JAX_IPU_RUNTIME_ARRAY_H_
#define JAX_IPU_RUNTIME_ARRAY_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "runtime/completion.h"
#include "runtime/executable.h"
#include "runtime/host_memory.h"

namespace jax_ipu {

class LoadedProgram;

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
  // Before the array is shared.
  void set_ready(CompletionPtr ready) { ready_ = std::move(ready); }

  // Whether host() is known; its bytes are valid once ready() is. Never turns false again.
  bool on_host() const { return on_host_.load(std::memory_order_acquire); }
  const std::shared_ptr<HostBlock>& host() const { return host_; }
  // It came from another IPU: it need not be sent from the host, until it has lost its place on this one.
  // Before the array is shared.
  void set_received(bool only_on_ipus) {
    received_ = true;
    only_on_ipus_.store(only_on_ipus, std::memory_order_relaxed);
  }
  // The host memory is how the model passes the value between IPUs: a host has not read it yet.
  bool only_on_ipus() const { return only_on_ipus_.load(std::memory_order_relaxed); }
  // At most once, by the only thread that may: the device's.
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

  bool received_ = false;  // from here on for the device's thread only
  // Where it is resident: input `slot_` of `program_`, or null.
  std::shared_ptr<LoadedProgram> program_;
  std::size_t slot_ = 0;
};

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_ARRAY_H_
