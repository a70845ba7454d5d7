// What the vertex groups of several operations have in common.
#ifndef IPU_MODEL_OPERATIONS_VERTEX_GROUPS_H_
#define IPU_MODEL_OPERATIONS_VERTEX_GROUPS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/operation.h"
#include "core/target_model.h"

namespace ipu_model {

// The region of an operand of the vertex's own shape.
inline Box Same(const Box& box) { return box; }

// Bytes: of the codelet's code, and of the state of each vertex.
inline VertexGroup MakeVertexGroup(std::string codelet, std::vector<Vertex> vertices,
                                   std::uint64_t code_bytes, std::uint64_t vertex_bytes) {
  VertexGroup group;
  group.codelet = std::move(codelet);
  group.vertices = std::move(vertices);
  group.code_bytes = code_bytes;
  group.vertex_bytes = vertex_bytes;
  return group;
}

// Tile cycles of `products` multiply-adds for each element, in vectors, workers together: load, load,
// multiply-add.
inline std::function<std::uint64_t(const TargetModel&, const Box&)> MultiplyAddCycles(DType type,
                                                                                      double products) {
  return [type, products](const TargetModel& target, const Box& box) {
    const double all = static_cast<double>(box.num_elements()) * products * (IsComplex(type) ? 4 : 1);
    return static_cast<std::uint64_t>(all * 3 / target.VectorWidth(type)) + 6 * 30 +
           target.supervisor_overhead;
  };
}

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_VERTEX_GROUPS_H_
