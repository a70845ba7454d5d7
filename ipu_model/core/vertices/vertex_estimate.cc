#include "core/vertices/vertex_estimate.h"

#include <algorithm>

namespace ipu_model {
namespace {

std::uint64_t CeilDiv(std::uint64_t n, std::uint64_t d) { return (n + d - 1) / d; }

}  // namespace

VertexSizes SizesOf(const codelet::Class& type, const std::vector<VertexEdge>& edges) {
  VertexSizes sizes;
  for (std::size_t e = 0; e < edges.size();) {
    const codelet::Field& field = type.fields[edges[e].field];
    std::uint64_t elements = 0, vectors = 0;
    for (const std::uint32_t f = edges[e].field; e < edges.size() && edges[e].field == f; ++e) {
      if (edges[e].is_metadata) continue;
      elements += static_cast<std::uint64_t>(edges[e].elements());
      ++vectors;
    }
    sizes.elements += elements;
    sizes.largest = std::max(sizes.largest, elements);
    if (elements * field.element_bytes > sizes.largest_bytes) {
      sizes.largest_bytes = elements * field.element_bytes;
      sizes.element_bytes = field.element_bytes;
    }
    if (field.kind != codelet::kVectorEdges) continue;
    sizes.vectors = std::max(sizes.vectors, vectors);
    sizes.has_list = true;
  }
  return sizes;
}

std::uint64_t LoopCycles(const TargetModel& target, codelet::VertexKind kind, const CompiledLoops& loops,
                         const VertexSizes& sizes) {
  const std::uint64_t workers = kind == codelet::kMultiVertex ? target.worker_contexts : 1;
  // Far more than a vertex can take; products of 64-bit integers would wrap.
  constexpr double kMost = 1e12;
  const auto cycles = [&](const Work& work) {
    return static_cast<double>(work.instructions) +
           static_cast<double>(work.calls) * target.library_call_cycles;
  };
  double sum = cycles(loops.once) + cycles(loops.each_vector) * static_cast<double>(sizes.vectors);
  for (const CompiledLoops::Innermost& loop : loops.innermost) {
    std::uint64_t trips =
        loop.stride_bytes == 0 ? sizes.largest : CeilDiv(sizes.largest_bytes, loop.stride_bytes);
    // A worker that strides over the elements of the others has its share by that.
    const bool strides_over_others =
        loop.stride_bytes != 0 && loop.stride_bytes % (workers * sizes.element_bytes) == 0;
    if (!strides_over_others) trips = CeilDiv(trips, workers);
    // From vector to vector: a worker, to that of the next one.
    const std::uint64_t between_vectors = workers * sizeof(codelet::EdgeRef);
    if (sizes.has_list && loop.stride_bytes != 0 && loop.stride_bytes % between_vectors == 0)
      trips = CeilDiv(sizes.vectors * sizeof(codelet::EdgeRef), loop.stride_bytes);
    sum += cycles(loop.work) * static_cast<double>(trips);
  }
  return target.supervisor_overhead + workers * static_cast<std::uint64_t>(std::min(sum, kMost));
}

std::uint64_t DefaultCycles(const TargetModel& target, codelet::VertexKind kind, const VertexSizes& sizes) {
  const std::uint64_t workers = kind == codelet::kMultiVertex ? target.worker_contexts : 1;
  return target.supervisor_overhead +
         workers * CeilDiv(sizes.elements, workers) * target.codelet_cycles_per_element;
}

bool IsPossibleEstimate(std::uint64_t cycles, std::uint64_t flops) {
  return cycles <= std::uint64_t{1} << 50 && flops <= std::uint64_t{1} << 60;
}

std::uint64_t EstimateCycles(const TargetModel& target, const CodeletLibrary& library,
                             const codelet::Class& type, const std::vector<VertexEdge>& edges,
                             CycleSource* source) {
  const VertexSizes sizes = SizesOf(type, edges);
  if (const CompiledLoops* const loops = library.Loops(type)) {
    *source = CycleSource::kCompiledLoop;
    return LoopCycles(target, type.kind, *loops, sizes);
  }
  *source = CycleSource::kDefault;
  return DefaultCycles(target, type.kind, sizes);
}

}  // namespace ipu_model
