// What of this machine the kernels use, for ipu_model/Model.hpp.
#include "ipu_model/Model.hpp"
#include "kernels/host/context.h"
#include "kernels/host/host_limits.h"
#include "kernels/host/isa.h"

namespace ipu_model {

HostKernels KernelsOfHost() { return {HasAvx512() ? "avx512" : "avx2", ThreadPool::Global().size()}; }

bool LimitHostKernels(bool avx512, int threads, bool machine_code) {
  return SetHostLimits({avx512, threads, machine_code});
}

}  // namespace ipu_model
