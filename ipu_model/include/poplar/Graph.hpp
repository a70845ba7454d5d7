// The graph: variables, constants, their tile mapping, and the streams that connect it to the host. Sizes are
// in elements. Source: Graphcore's Poplar and PopLibs API reference, class poplar::Graph.
#ifndef POPLAR_GRAPH_HPP
#define POPLAR_GRAPH_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "poplar/DataStream.hpp"
#include "poplar/DebugContext.hpp"
#include "poplar/Interval.hpp"
#include "poplar/Program.hpp"
#include "poplar/Target.hpp"
#include "poplar/Tensor.hpp"
#include "poplar/TensorCloneMethod.hpp"
#include "poplar/replication_factor.hpp"

namespace ipu_model {
class GraphImpl;  // core/graph_impl.h
}

namespace poplar {

class Graph {
 public:
  using TileToTensorMapping = std::vector<std::vector<Interval>>;

  // The programs of the graph run on `replicationFactor` targets, each with tile memories of its own. Throws
  // poplar_error when it is 0.
  explicit Graph(const Target& target, replication_factor replicationFactor = replication_factor(1));
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  const Target& getTarget() const;
  unsigned getReplicationFactor() const;

  // A new variable without a tile mapping: compileGraph requires one for every element. Throws poplar_error
  // when there are more than ipu_model::kMaxRank dimensions or more elements than 64 bits can count.
  Tensor addVariable(const Type& type, const std::vector<std::size_t>& shape,
                     const DebugContext& debugContext = {});
  // `values` are the elements in row-major order, in host representation (ipu_model/Types.hpp); they are
  // copied.
  Tensor addConstant(const Type& type, const std::vector<std::size_t>& shape, const void* values,
                     const DebugContext& debugContext = {});
  template <typename T>
  Tensor addConstant(const Type& type, const std::vector<std::size_t>& shape, const T* values,
                     const DebugContext& debugContext = {}) {
    return addConstant(type, shape, static_cast<const void*>(values), debugContext);
  }
  // An UNSIGNED_INT scalar that holds the index of the replica, which differs between replicas. Like other
  // constants it needs a tile mapping.
  Tensor addReplicationIndexConstant(const DebugContext& debugContext = {});
  // New variable of the same shape, with the same tile mapping.
  Tensor clone(const Tensor& tensor, const DebugContext& debugContext = {});
  Tensor clone(const Type& type, const Tensor& tensor, const DebugContext& debugContext = {},
               TensorCloneMethod method = TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);

  // Maps all elements to one tile, or to each tile intervals of the flattened tensor, which must not overlap.
  // Throws invalid_tile_mapping for a tile that the target does not have and for intervals outside of the
  // tensor.
  void setTileMapping(const Tensor& tensor, unsigned tile);
  void setTileMapping(const Tensor& tensor, const TileToTensorMapping& mapping);
  TileToTensorMapping getTileMapping(const Tensor& tensor) const;

  // A stream that moves `elements` elements in each transfer. Throws poplar_error when the handle is taken.
  DataStream addHostToDeviceFIFO(const std::string& handle, const Type& type, std::size_t elements);
  DataStream addDeviceToHostFIFO(const std::string& handle, const Type& type, std::size_t elements);

  // A program for Call, whose code is stored only once.
  Function addFunction(const program::Program& program);

  using HostFunctionArgument = std::tuple<Type, std::size_t>;  // type and number of elements
  HostFunction addHostFunction(const std::string& handle, const std::vector<HostFunctionArgument>& inputs,
                               const std::vector<HostFunctionArgument>& outputs);

  ipu_model::GraphImpl& impl() const { return *impl_; }  // internals of the model, not part of Poplar

 private:
  std::unique_ptr<ipu_model::GraphImpl> impl_;
};

}  // namespace poplar

#endif  // POPLAR_GRAPH_HPP
