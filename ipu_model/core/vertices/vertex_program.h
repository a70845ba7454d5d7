// The vertices of one compute set with their edges, as plain data: what program::Execute runs.
#ifndef IPU_MODEL_CORE_VERTICES_VERTEX_PROGRAM_H_
#define IPU_MODEL_CORE_VERTICES_VERTEX_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codelets/codelet_library.h"
#include "codelets/isolation.h"
#include "codelets/vertex_guard.h"
#include "core/mapping/box.h"

namespace ipu_model {

class Reader;  // core/operation/serialise.h
class Writer;

// Elements [begin, begin + count) of an input or an output of the operation, which is one dimension.
struct VertexInterval {
  std::uint32_t operand = 0;
  std::int64_t begin = 0, count = 0;
};

// One Input, Output or InOut. What it reads and what it writes have the same intervals of elements, one after
// another.
struct VertexEdge {
  std::uint32_t field = 0;   // of the class
  bool is_metadata = false;  // one element: the metadata of the edge of QUARTER before this one
  std::vector<VertexInterval> reads, writes;
  std::int64_t elements() const;
};

// Where the cycles of a vertex come from: it or an estimator gives them, or nobody does.
enum class CycleSource : std::uint8_t { kGiven, kDefault, kCompiledLoop, kCount };

struct ProgramVertex {
  std::uint32_t type = 0, tile = 0;
  std::uint64_t cycles = 0;  // that it adds to those of its tile
  std::uint64_t flops = 0;
  CycleSource cycle_source = CycleSource::kGiven;
  std::vector<VertexEdge> edges;    // in the order of the fields
  std::vector<std::string> values;  // by field: the bytes of the numbers in its state
};

struct VertexType {
  std::string name, library;  // the library's hash
  std::shared_ptr<const CodeletLibrary> code;
  const codelet::Class* type = nullptr;
};

struct VertexProgram {
  std::string compute_set;
  std::vector<VertexType> types;
  std::vector<ProgramVertex> vertices;

  const codelet::Field& FieldOf(const ProgramVertex& vertex, const VertexEdge& edge) const {
    return types[vertex.type].type->fields[edge.field];
  }
  // For messages: "vertex 3 of compute set 'add' (Adder, tile 7)".
  std::string Name(std::size_t vertex) const;

  void Write(Writer* writer) const;
  static VertexProgram Read(Reader* reader);
  // Sets the code of the types. Throws SerialiseError if a library or class is missing.
  void Attach(const std::vector<std::shared_ptr<const CodeletLibrary>>& libraries);
  // Whether the edges fit the classes and these operands, on a target of so many tiles, and no element is
  // written by two edges or read by another edge than the one that writes it. `*problem` says what does not
  // fit; `variable` gives the name of a variable.
  bool Fits(const std::vector<View>& inputs, const std::vector<View>& outputs, unsigned num_tiles,
            const std::function<std::string(VariableId)>& variable, std::string* problem) const;
};

// The state of the vertices of a program: what their compute functions see.
class VertexInstances {
 public:
  explicit VertexInstances(std::shared_ptr<const VertexProgram> program);

  // The state before the first execution. Edges stay connected.
  void Reset();
  // `edge`: its number in the vertex.
  void Connect(std::size_t vertex, std::size_t edge, void* data);
  // What it is connected to.
  void* data(std::size_t vertex, std::size_t edge) const { return slots_[first_slot_[vertex] + edge].data; }
  // By vertex.
  const std::vector<GuardedVertex>& vertices() const { return vertices_; }
  // The memory of all of them.
  IsolatedMemory memory() const { return {memory_.get(), bytes_}; }

 private:
  struct Slot {
    codelet::EdgeRef* ref;
    void* data;
    std::size_t size;
    bool is_metadata;
    codelet::EdgeRef* all;  // the field, if the edge is the first of several

    void Set() const;
  };
  struct Free {
    void operator()(unsigned char* p) const { std::free(p); }
  };

  std::shared_ptr<const VertexProgram> program_;
  std::unique_ptr<unsigned char, Free> memory_;
  std::size_t bytes_ = 0;
  std::vector<GuardedVertex> vertices_;
  std::vector<std::size_t> first_slot_;  // by vertex
  std::vector<Slot> slots_;              // by edge
  // References inside a vertex to the numbers and edges behind it.
  struct Inner {
    codelet::EdgeRef* ref;
    unsigned char* data;
    std::size_t size;
    const std::string* value;  // null for edges
  };
  std::vector<Inner> inner_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_VERTICES_VERTEX_PROGRAM_H_
