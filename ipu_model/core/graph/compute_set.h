// Compute sets while a graph is built: vertices, and what their fields are connected to.
#ifndef IPU_MODEL_CORE_GRAPH_COMPUTE_SET_H_
#define IPU_MODEL_CORE_GRAPH_COMPUTE_SET_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codelets/codelet_library.h"
#include "core/vertices/vertex_program.h"
#include "poplar/GraphElements.hpp"
#include "poplar/PerfEstimateFunc.hpp"

namespace ipu_model {

class GraphImpl;     // core/graph/graph_impl.h
struct ProgramNode;  // core/program/program_node.h

struct FieldState {
  std::vector<poplar::Tensor> edges;  // not valid(): not connected
  std::string value;                  // bytes of the numbers in the state
};

struct VertexState {
  std::shared_ptr<const CodeletLibrary> library;
  const codelet::Class* type = nullptr;
  std::string name;  // debug name
  std::optional<unsigned> tile;
  std::optional<poplar::VertexPerfEstimate> estimate;
  std::vector<FieldState> fields;
};

struct ComputeSetData {
  unsigned id = 0;
  std::uint32_t graph = 0;  // its number
  std::string name;
  // Of a library function that returns compute sets: what it does, instead of vertices.
  std::shared_ptr<ProgramNode> program;
  std::vector<VertexState> vertices;
  // Constants that vertices are connected to, by vertex: they lie on its tile.
  std::vector<std::pair<std::size_t, VariableId>> constants;
};

// For messages: "vertex 3 of compute set 'add' (Adder)".
std::string NameOfVertex(const ComputeSetData& set, std::size_t vertex);
inline bool IsEdgeField(const codelet::Field& field) { return field.direction != codelet::kNoDirection; }
inline bool IsSeveral(const codelet::Field& field) {
  return field.kind == codelet::kScalarEdges || field.kind == codelet::kVectorEdges;
}

// The operands and vertices of a compute set.
struct ResolvedComputeSet {
  std::vector<View> inputs, outputs;
  std::shared_ptr<const VertexProgram> program;
};

// Maps the constants of the set. Throws poplar::invalid_tile_mapping for a vertex without a tile, and
// poplar::graph_connection_error, with the names of vertices and fields, for an edge that is not connected, a
// constant that is written, and elements that two vertices write, or that one reads and another writes.
ResolvedComputeSet Resolve(const ComputeSetData& set, GraphImpl* graph);

// The bytes of a number of this type. Throws poplar::graph_connection_error, with `what`, if the type cannot
// hold it.
std::string BytesOfNumber(const Number& number, DType type, const std::string& what);

// The number that an element of this type holds; of a complex number the real part.
Number NumberOfBytes(const void* bytes, DType type);

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_GRAPH_COMPUTE_SET_H_
