// What a compiled file of codelets exports: its vertex classes with their fields. The generated part of the
// file (codelets/codelet_compilation.cc) makes the table with the templates of CodeletFields.hpp; the model
// reads it. Plain data, because both sides may come from different compilers. Poplar's equivalent: the .gp
// file.
#ifndef IPU_MODEL_CODELETTABLE_HPP
#define IPU_MODEL_CODELETTABLE_HPP

#include <cstddef>
#include <cstdint>

namespace ipu_model {
namespace codelet {

// Raise it when the meaning of the table or of a field in memory changes.
constexpr std::uint32_t kTableVersion = 5;

// The form of every edge in a vertex. A field of several edges refers to an array of edges.
struct EdgeRef {
  void* data;
  std::size_t size;
  const unsigned char* metadata;  // of QUARTER elements, otherwise null
};

enum FieldKind : std::uint8_t {
  kValue,         // a number in the state of the vertex
  kVectorValue,   // numbers in the state: an EdgeRef to them
  kScalarEdge,    // Input<T>
  kVectorEdge,    // Input<Vector<T>>
  kScalarEdges,   // Vector<Input<T>>
  kVectorEdges,   // Vector<Input<Vector<T>>>, Input<VectorList<T>>
  kUnknownField,  // of a type that the graph cannot set: zero
  kFieldKinds
};

enum FieldDirection : std::uint8_t { kNoDirection, kRead, kWrite, kReadWrite };
enum VertexKind : std::uint8_t { kWorkerVertex, kMultiVertex, kSupervisorVertex, kVertexKinds };

struct Field {
  const char* name;
  std::uint64_t offset;
  FieldKind kind;
  FieldDirection direction;
  std::uint8_t type;                // ipu_model::DType, or DType::kCount
  std::uint8_t layout;              // poplar::VectorLayout of the elements, of VectorList: VectorListLayout
  std::uint32_t element_bytes;      // of one element
  std::uint32_t alignment;          // of the first element of an edge; 0: that of an element
  std::uint32_t device_bytes;       // of the field in the state of a vertex on the device
  std::uint32_t device_edge_bytes;  // of each edge in an array of edges
  std::uint8_t outer_layout;        // of several edges: poplar::VectorLayout, or VectorListLayout if is_list
  bool is_list;                     // a VectorList
  bool is_quarter;                  // elements of QUARTER, whose edges come with metadata
};

struct Class {
  const char* name;  // as in C++, with its namespaces
  VertexKind kind;
  std::uint64_t bytes, alignment;
  const Field* fields;
  std::uint64_t num_fields;
  void (*construct)(void* memory);  // null: a vertex starts as zeros
  void (*compute)(void* vertex);
};

struct Table {
  std::uint32_t version;
  std::uint64_t num_classes;
  const Class* classes;
  void (**print)(const char* text, std::size_t bytes);  // takes what codelets print; the model sets it
};

constexpr const char* kTableSymbol = "ipu_model_codelet_table";

}  // namespace codelet
}  // namespace ipu_model

#endif  // IPU_MODEL_CODELETTABLE_HPP
