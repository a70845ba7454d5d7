// The cycles of a vertex that nobody estimates.
#ifndef IPU_MODEL_CORE_VERTICES_VERTEX_ESTIMATE_H_
#define IPU_MODEL_CORE_VERTICES_VERTEX_ESTIMATE_H_

#include <cstdint>
#include <vector>

#include "codelets/compiled_loops.h"
#include "core/target/target_model.h"
#include "core/vertices/vertex_program.h"

namespace ipu_model {

// The edges of a vertex, as far as its loops depend on them.
struct VertexSizes {
  std::uint64_t elements = 0;                          // of all edges
  std::uint64_t largest = 0;                           // elements of the field with most of them
  std::uint64_t largest_bytes = 0, element_bytes = 1;  // of the field with most bytes
  std::uint64_t vectors = 1;                           // of the longest list of vectors
  bool has_list = false;
};
VertexSizes SizesOf(const codelet::Class& type, const std::vector<VertexEdge>& edges);

// Cycles of a thread for a worker, of the tile for the other kinds; instructions take one each. Innermost
// loops stride over the field with most bytes, or over the vectors of a list; loops around them over those.
std::uint64_t LoopCycles(const TargetModel& target, codelet::VertexKind kind, const CompiledLoops& loops,
                         const VertexSizes& sizes);
// Without knowledge of the loops: the same cycles for each element.
std::uint64_t DefaultCycles(const TargetModel& target, codelet::VertexKind kind, const VertexSizes& sizes);

// Whether a vertex can take so long; numbers that have wrapped are larger.
bool IsPossibleEstimate(std::uint64_t cycles, std::uint64_t flops);

// From the compiled loops, or the default where they are not understood.
std::uint64_t EstimateCycles(const TargetModel& target, const CodeletLibrary& library,
                             const codelet::Class& type, const std::vector<VertexEdge>& edges,
                             CycleSource* source);

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_VERTICES_VERTEX_ESTIMATE_H_
