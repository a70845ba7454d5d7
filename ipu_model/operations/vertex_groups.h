// Helpers that several operations use to make vertex groups.
#ifndef IPU_MODEL_OPERATIONS_VERTEX_GROUPS_H_
#define IPU_MODEL_OPERATIONS_VERTEX_GROUPS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/operation/operation.h"

namespace ipu_model {

// The region of an operand that has the vertex's own shape.
inline Box Same(const Box& box) { return box; }

// code_bytes: size of the codelet's code. vertex_bytes: size of the state of each vertex.
inline VertexGroup MakeVertexGroup(std::string codelet, std::vector<Vertex> vertices,
                                   std::uint64_t code_bytes, std::uint64_t vertex_bytes) {
  VertexGroup group;
  group.codelet = std::move(codelet);
  group.vertices = std::move(vertices);
  group.code_bytes = code_bytes;
  group.vertex_bytes = vertex_bytes;
  return group;
}

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_VERTEX_GROUPS_H_
