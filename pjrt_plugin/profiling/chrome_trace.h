// Profiles in Chrome's trace event format, which Perfetto (ui.perfetto.dev) shows.
#ifndef JAX_IPU_PROFILING_CHROME_TRACE_H_
#define JAX_IPU_PROFILING_CHROME_TRACE_H_

#include <string>
#include <vector>

#include "profiling/trace_planes.h"

namespace jax_ipu {

// A JSON object: a process for each plane, a thread for each line. Times are in microseconds.
std::string SerializeChromeTrace(const std::vector<TracePlane>& planes);

}  // namespace jax_ipu

#endif  // JAX_IPU_PROFILING_CHROME_TRACE_H_
