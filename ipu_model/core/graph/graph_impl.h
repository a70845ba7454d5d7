// The implementation of poplar::Graph, and what PopLibs functions use to add operations to a program.
#ifndef IPU_MODEL_CORE_GRAPH_GRAPH_IMPL_H_
#define IPU_MODEL_CORE_GRAPH_GRAPH_IMPL_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "codelets/codelet_library.h"
#include "core/mapping/mapping.h"
#include "core/operation/operation.h"
#include "poplar/Graph.hpp"

namespace ipu_model {

struct Variable {
  DType type = DType::kF32;
  std::int64_t num_elements = 0;
  Shape shape;  // as created, row-major
  std::string name;
  Mapping mapping;
  std::shared_ptr<const std::vector<unsigned char>> constant;  // null for variables
  bool is_replica_index = false;  // a constant for which the engine substitutes the index of its replica
};

// A named FIFO between host and device. One transfer moves num_elements elements.
struct Stream {
  std::string name;
  DType type = DType::kF32;
  std::int64_t num_elements = 0;
  bool host_to_device = true;
  bool remote = false;     // of a remote buffer: moves over the link to the streaming memory
  bool broadcast = false;  // one for all replicas
};

// Memory outside of the IPU, in rows.
struct RemoteBuffer {
  std::string name;
  DType type = DType::kF32;
  std::int64_t num_elements = 0, rows = 0;  // elements of a row
};

// A host function that programs call. Each operand has its own stream, whose host memory belongs to the
// engine.
struct HostFunction {
  std::string name;
  std::vector<std::uint32_t> inputs, outputs;  // streams from the device, and to the device
  // The buffer whose rows it reads or writes, or -1 for a function of the user. Inputs: the indices of the
  // rows, if there are any, and the rows that are written.
  int remote_buffer = -1;
};

// A tensor that the host writes or reads between runs, by a program of its own.
struct HostHandle {
  std::string name;
  bool write = true;          // by the host
  std::uint32_t stream = 0;   // index
  std::uint32_t program = 0;  // in a compiled program
  std::string initial;        // bytes that are written when the program is loaded
};

// The handle of the metadata of the QUARTER tensor with this handle.
inline std::string MetadataHandle(const std::string& handle) { return handle + " (metadata)"; }

class GraphImpl;

// What tensors know their graph by: unlike its address, no later graph has the same.
struct GraphIdentity {
  const GraphImpl* graph;  // null when it is gone
  std::uint32_t number;    // of this process' graphs, from 1; what is in programs has only this
};
std::uint32_t NextGraphNumber();

class GraphImpl {
 public:
  GraphImpl(const poplar::Target& target, unsigned replication_factor)
      : target(target), device(target), replication_factor(replication_factor) {}
  ~GraphImpl() { identity_->graph = nullptr; }
  GraphImpl(const GraphImpl&) = delete;
  GraphImpl& operator=(const GraphImpl&) = delete;

  VariableId AddVariable(DType type, const Shape& shape, const std::string& name, Mapping mapping = {});
  // A library that the graph has already changes nothing. Throws poplar::poplar_error if another library has
  // a class of the same name.
  void AddCodelets(std::shared_ptr<const CodeletLibrary> library);
  // Returns null for a class that there is not.
  const codelet::Class* FindCodelet(const std::string& name,
                                    std::shared_ptr<const CodeletLibrary>* library) const;
  // Returns the whole variable as a tensor of the shape with which it was created.
  poplar::Tensor TensorOf(VariableId id) const;

  std::shared_ptr<const GraphIdentity> identity() const { return identity_; }
  std::uint32_t number() const { return identity_->number; }

  poplar::Target target;
  poplar::Target device;  // `target`, and behind its tiles those for input and output: ipu_model/IoTiles.hpp
  unsigned replication_factor;
  std::vector<Variable> variables;
  std::vector<poplar::program::Program> functions;
  std::vector<Stream> streams;
  std::vector<HostFunction> host_functions;
  std::vector<RemoteBuffer> remote_buffers;
  std::vector<std::shared_ptr<const CodeletLibrary>> codelets;
  std::map<std::string, poplar::PerfEstimateFunc> perf_estimators;  // by the name of the class
  unsigned num_compute_sets = 0;
  unsigned first_tile = 0;  // see ipu_model/FirstTile.hpp
  std::vector<HostHandle> host_handles;
  std::vector<poplar::program::Program> handle_programs;  // by handle

 private:
  const std::shared_ptr<GraphIdentity> identity_ =
      std::make_shared<GraphIdentity>(GraphIdentity{this, NextGraphNumber()});
  struct KnownClass {
    const codelet::Class* type;
    std::size_t library;  // index into `codelets`
  };
  // By name, which is the class' own: libraries are not unloaded.
  std::unordered_map<std::string_view, KnownClass> classes_;
};

// Throws poplar::poplar_error that names `method` if the tensor is of another graph.
void CheckGraph(const GraphImpl& graph, const poplar::Tensor& tensor, const char* method);

// Returns the tensor as one strided view. If that is not possible (a concatenation, or a reshape across
// strides), adds a Copy into a new, linearly mapped variable to `prog`; the device rearranges the data in
// this case, too.
View StridedView(poplar::Graph& graph, const poplar::Tensor& tensor, poplar::program::Sequence& prog,
                 const poplar::DebugContext& debug_context);

// Adds `operation`, whose inputs and outputs are set, to `prog`.
void AddOperation(poplar::program::Sequence& prog, std::unique_ptr<Operation> operation);

// Returns a new variable with the given mapping, as a tensor.
poplar::Tensor NewTensor(poplar::Graph& graph, DType type, const Shape& shape, Mapping mapping,
                         const std::string& name);
// New variables for the elements of `tensor`, with their order in memory and their aliases; see
// TensorCloneMethod. `gather`: one variable for each tile.
poplar::Tensor CloneKeepingAliases(poplar::Graph* graph, poplar::Type type, const poplar::Tensor& tensor,
                                   const std::string& name, bool gather);
// As Graph::clone; a tensor that is not one strided view gives a row-major one, which operations take
// directly.
poplar::Tensor CloneForOperation(poplar::Graph& graph, poplar::Type type, const poplar::Tensor& tensor,
                                 const poplar::DebugContext& debug_context);
// Returns a linear mapping by poputil::mapTensorLinearly's rule for this many elements. Tile numbers wrap
// around after the last tile.
Mapping LinearMapping(const poplar::Target& target, DType type, std::int64_t num_elements,
                      unsigned first_tile = 0);
// The same from the tile on where linear mappings of this graph's operations start.
Mapping LinearMapping(const poplar::Graph& graph, DType type, std::int64_t num_elements);
// That tile.
unsigned FirstTile(const poplar::Graph& graph);

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_GRAPH_GRAPH_IMPL_H_
