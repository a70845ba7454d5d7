// Estimates of the cycles of a vertex: those of the thread that runs it. A worker has one in six of the
// tile's cycles; the estimate of a MultiVertex or a SupervisorVertex counts all of the tile's cycles.
#ifndef POPLAR_PERFESTIMATEFUNC_HPP
#define POPLAR_PERFESTIMATEFUNC_HPP

#include <cstdint>
#include <functional>

#include "poplar/Target.hpp"
#include "poplar/VertexIntrospector.hpp"

namespace poplar {

struct VertexPerfEstimate {
  VertexPerfEstimate() = default;
  VertexPerfEstimate(std::uint64_t c, std::uint64_t f = 0) : cycles(c), flops(f) {}
  std::uint64_t cycles = 0, flops = 0;
};

using PerfEstimateFunc = std::function<VertexPerfEstimate(const VertexIntrospector&, const Target&)>;

}  // namespace poplar

#endif  // POPLAR_PERFESTIMATEFUNC_HPP
