// Profiles in the format of XLA's profiler: the message tensorflow.profiler.XSpace.
#ifndef JAX_IPU_PROFILING_XSPACE_H_
#define JAX_IPU_PROFILING_XSPACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "profiling/trace_planes.h"

namespace jax_ipu {

// The serialised message. `begin_ns`: the time at which the recording began.
std::string SerializeXSpace(const std::vector<TracePlane>& planes, std::int64_t begin_ns);

}  // namespace jax_ipu

#endif  // JAX_IPU_PROFILING_XSPACE_H_
