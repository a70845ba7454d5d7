#include "kernels/host/host_limits.h"

#include <strings.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

namespace ipu_model {
namespace {

HostLimits FromEnvironment() {
  HostLimits limits;
  if (const char* isa = std::getenv("JAX_IPU_MAX_ISA")) limits.avx512 = strcasecmp(isa, "avx2") != 0;
  if (const char* threads = std::getenv("JAX_IPU_HOST_THREADS")) {
    limits.threads = static_cast<int>(std::clamp(std::strtol(threads, nullptr, 10), 0L, 1024L));
  }
  if (const char* code = std::getenv("JAX_IPU_MACHINE_CODE")) {
    for (const char* no : {"0", "false", "no", "f", "off"})
      if (strcasecmp(code, no) == 0) limits.machine_code = false;
  }
  return limits;
}

struct State {
  std::mutex mutex;
  HostLimits limits = FromEnvironment();
  bool final = false;
};
State& GetState() {
  static State state;
  return state;
}

}  // namespace

const HostLimits& FinalHostLimits() {
  State& state = GetState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.final = true;
  return state.limits;
}

bool SetHostLimits(const HostLimits& limits) {
  State& state = GetState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  if (state.final) {
    return limits.avx512 == state.limits.avx512 && limits.threads == state.limits.threads &&
           limits.machine_code == state.limits.machine_code;
  }
  state.limits = limits;
  return true;
}

}  // namespace ipu_model
