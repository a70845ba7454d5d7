// The graph: variables, constants, their tile mapping, and the streams that connect it to the host. Sizes are
// in elements. Source: Graphcore's Poplar and PopLibs API reference, class poplar::Graph.
#ifndef POPLAR_GRAPH_HPP
#define POPLAR_GRAPH_HPP

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <istream>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "ipu_model/Owned.hpp"
#include "poplar/ArrayRef.hpp"
#include "poplar/CodeletFileType.hpp"
#include "poplar/DataStream.hpp"
#include "poplar/DebugContext.hpp"
#include "poplar/Device.hpp"
#include "poplar/GraphElements.hpp"
#include "poplar/Interval.hpp"
#include "poplar/OptionFlags.hpp"
#include "poplar/PerfEstimateFunc.hpp"
#include "poplar/ProgramTypes.hpp"
#include "poplar/Quarter.hpp"
#include "poplar/ReplicatedStreamMode.hpp"
#include "poplar/StringRef.hpp"
#include "poplar/Target.hpp"
#include "poplar/Tensor.hpp"
#include "poplar/TensorCloneMethod.hpp"
#include "poplar/TypeConversion.hpp"
#include "poplar/TypeTraits.hpp"
#include "poplar/VariableMappingMethod.hpp"
#include "poplar/VariableRef.hpp"
#include "poplar/replication_factor.hpp"

namespace ipu_model {
class GraphImpl;  // core/graph/graph_impl.h
}

namespace poplar {

// The format of Graph::serializeTensors.
enum class SerializationFormat { Binary, JSON };

class Graph {
 public:
  using TileToTensorMapping = std::vector<std::vector<Interval>>;

  // The replicas divide the target: each has equally many of its IPUs, or of the tiles of an IPU; getTarget()
  // is that of one replica. Throws graph_replication_error for a factor that does not divide the target.
  explicit Graph(const Target& target, replication_factor replicationFactor = replication_factor(1));
  explicit Graph(const Device& device, replication_factor replicationFactor = replication_factor(1))
      : Graph(device.getTarget(), replicationFactor) {}
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  const Target& getTarget() const;
  unsigned getReplicationFactor() const;

  // A view of the graph with some of its tiles, which have the numbers from 0 on in it; everything else is
  // shared, and lives as long as any view. Tensors of a view that have elements on other tiles are not mapped
  // completely there. Throws poplar_error for tiles that there are not, or twice. The functions of the
  // model's own popops and poplin place what they create on the tiles of the top level.
  Graph createVirtualGraph(unsigned numTiles) { return createVirtualGraph(0, numTiles); }
  Graph createVirtualGraph(unsigned lowerTile, unsigned upperTile);
  Graph createVirtualGraph(const std::vector<unsigned>& tiles);
  Graph getTopLevelGraph() const;
  unsigned convertVirtualTileToPhysicalTile(unsigned virtualTileId) const;
#ifndef POPLAR_API_ONLY
  bool isVirtual() const { return virtual_ != nullptr; }  // not part of Poplar
#endif

  // A new variable without a tile mapping: compileGraph requires one for every element. Throws poplar_error
  // when there are more than ipu_model::kMaxRank dimensions or more elements than 64 bits can count. A
  // QUARTER gets metadata of its own, a variable on tile 0.
  Tensor addVariable(const Type& type, const std::vector<std::size_t>& shape,
                     const DebugContext& debugContext = {});
  Tensor addVariable(const Type& type, const std::vector<std::size_t>& shape,
                     VariableMappingMethod mappingMethod, const DebugContext& debugContext = {});
  // The metadata of a QUARTER, a tensor of one QUARTER_METADATA; for other types it is not valid().
  Tensor addVariable(const Type& type, const Tensor& metadata, const std::vector<std::size_t>& shape,
                     const DebugContext& debugContext = {});
  Tensor addVariable(const Type& type, const Tensor& metadata, const std::vector<std::size_t>& shape,
                     VariableMappingMethod mappingMethod, const DebugContext& debugContext = {});
  // `values` are the elements in row-major order, in host representation (ipu_model/Types.hpp); they are
  // copied.
  Tensor addConstant(const Type& type, const std::vector<std::size_t>& shape, const void* values,
                     const DebugContext& debugContext = {});
  // The same with the values as a C++ type, which are converted to `type`.
  template <typename T, std::enable_if_t<ipu_model::kIsNumber<T>, int> = 0>
  Tensor addConstant(const Type& type, const std::vector<std::size_t>& shape, const T* values,
                     const DebugContext& debugContext = {}) {
    return addConstant(type, shape, static_cast<const void*>(values), TypeTraits::make<T>(), false,
                       debugContext);
  }
  // Converts the values to `type`. One value is for all elements.
  template <typename T>
  Tensor addConstant(const Type& type, const std::vector<std::size_t>& shape, const std::vector<T>& values,
                     const DebugContext& debugContext = {}) {
    return addConstantNumbers(type, shape, ipu_model::NumbersOf(values), debugContext);
  }
  template <typename T>
  Tensor addConstant(const Type& type, const std::vector<std::size_t>& shape, std::initializer_list<T> values,
                     const DebugContext& debugContext = {}) {
    return addConstantNumbers(type, shape, ipu_model::NumbersOf(std::vector<T>(values)), debugContext);
  }
  template <typename T>
  Tensor addConstant(const Type& type, const std::vector<std::size_t>& shape, ArrayRef<T> values,
                     const DebugContext& debugContext = {}) {
    return addConstantNumbers(type, shape, ipu_model::NumbersOf(values.cloneAsVector()), debugContext);
  }
  template <typename T, std::enable_if_t<ipu_model::kIsNumber<T>, int> = 0>
  Tensor addConstant(const Type& type, const std::vector<std::size_t>& shape, T value,
                     const DebugContext& debugContext = {}) {
    return addConstantNumbers(type, shape, {ipu_model::NumberOf(value)}, debugContext);
  }
  // `values` have the C++ type that `traits` describes. `broadcast`: one number for all elements.
  Tensor addConstant(const Type& type, const std::vector<std::size_t>& shape, const void* values,
                     const TypeTraits& traits, bool broadcast, const DebugContext& debugContext = {});
  // QUARTER: as for addVariable. Values other than 0 need metadata that is a constant.
  template <typename T, std::enable_if_t<ipu_model::kIsNumber<T>, int> = 0>
  Tensor addConstant(const Type& type, const Tensor& metadata, const std::vector<std::size_t>& shape, T value,
                     const DebugContext& debugContext = {}) {
    return addQuarterConstant(type, metadata, shape, {ipu_model::NumberOf(value)}, debugContext);
  }
  template <typename T>
  Tensor addConstant(const Type& type, const Tensor& metadata, const std::vector<std::size_t>& shape,
                     ArrayRef<T> values, const DebugContext& debugContext = {}) {
    return addQuarterConstant(type, metadata, shape, ipu_model::NumbersOf(values.cloneAsVector()),
                              debugContext);
  }
  // A constant of HALF, whose values are given as their bits.
  Tensor addConstantHalf(const Type& type, const std::vector<std::size_t>& shape, std::uint16_t value,
                         const DebugContext& debugContext = {});
  Tensor addConstantHalf(const Type& type, const std::vector<std::size_t>& shape, const std::uint16_t* values,
                         const DebugContext& debugContext = {});
  // An UNSIGNED_INT scalar that holds the index of the replica, which differs between replicas. Like other
  // constants it needs a tile mapping.
  Tensor addReplicationIndexConstant(const DebugContext& debugContext = {});
  // New variable of the same shape, with the same tile mapping. The metadata of a QUARTER is cloned, too,
  // unless other metadata is given.
  Tensor clone(const Tensor& tensor, const DebugContext& debugContext = {},
               TensorCloneMethod method = TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);
  Tensor clone(const Type& type, const Tensor& tensor, const DebugContext& debugContext = {},
               TensorCloneMethod method = TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);
  Tensor clone(const Tensor& metadata, const Tensor& tensor, const DebugContext& debugContext = {},
               TensorCloneMethod method = TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);
  Tensor clone(const Type& type, const Tensor& metadata, const Tensor& tensor,
               const DebugContext& debugContext = {},
               TensorCloneMethod method = TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);
  // N clones, as a tensor with a new first dimension of size N.
  Tensor cloneN(const Tensor& tensor, std::size_t N, const DebugContext& debugContext = {},
                TensorCloneMethod method = TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES,
                TensorCloneDuplicationMethod duplicationMethod =
                    TensorCloneDuplicationMethod::DUPLICATE_BY_OUTER_DIMENSION);
  Tensor cloneN(const Type& type, const Tensor& tensor, std::size_t N, const DebugContext& debugContext = {},
                TensorCloneMethod method = TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES,
                TensorCloneDuplicationMethod duplicationMethod =
                    TensorCloneDuplicationMethod::DUPLICATE_BY_OUTER_DIMENSION);

  // Maps all elements to one tile, or to each tile intervals of the flattened tensor, which must not overlap.
  // Throws invalid_tile_mapping for a tile that the target does not have and for intervals outside of the
  // tensor, poplar_error for a tensor that is empty (default-constructed) or of another graph.
  void setTileMapping(const Tensor& tensor, unsigned tile);
  void setTileMapping(const Tensor& tensor, const TileToTensorMapping& mapping);
  // The intervals of the flattened tensor on each tile, sorted and merged. Throws invalid_tile_mapping for an
  // element on no tile, unless told that the mapping need not be complete.
  TileToTensorMapping getTileMapping(const Tensor& tensor, StringRef tensorName = "") const;
  TileToTensorMapping getTileMapping(const Tensor& tensor, bool requireComplete) const;
  TileToTensorMapping getTileMapping(const Tensor& tensor, bool* isComplete) const;

  // The given regions of the flattened tensor in the order in which the elements are in memory. Each set is
  // one region of memory; its intervals are as long as possible. Elements that are the same in memory are in
  // sets of their own, or only once with `removeAliasedIntervals`. `aliases` is the first element of the
  // tensor with the same memory, for each interval of the result.
  std::vector<std::vector<Interval>> getSortedContiguousRegions(
      const Tensor& tensor, ArrayRef<Interval> regions, bool removeAliasedIntervals = false,
      std::vector<std::size_t>* aliases = nullptr) const;
  // Flattens the tensors and gives all of them the order in which the elements of the first are in memory.
  void reorderToSimplify(Tensor* tensor, ArrayRef<Tensor*> others, bool requireSimplestOrder = true) const;
  // The tensor with size 1 in each dimension that is a broadcast.
  Tensor findUnbroadcastTensor(const Tensor& tensor) const;
  Tensor getVariable(VariableRef variable) const;
  bool isConstant(VariableRef variable) const;

  // The value that a variable has after Engine::load: one number for all elements, or one for each.
  template <typename T, std::enable_if_t<ipu_model::kIsNumber<T>, int> = 0>
  void setInitialValue(const Tensor& tensor, T value) {
    setInitialTensor(tensor, {ipu_model::NumberOf(value)});
  }
  template <typename T>
  void setInitialValue(const Tensor& tensor, ArrayRef<T> values) {
    setInitialTensor(tensor, ipu_model::NumbersOf(values.cloneAsVector()));
  }
  // Not for a list in braces, which could be a vector or an ArrayRef.
  template <typename T, typename Allocator>
  void setInitialValue(const Tensor& tensor, const std::vector<T, Allocator>& values) {
    setInitialTensor(tensor, ipu_model::NumbersOf(values));
  }

  // Of HALF, given as the bits of the elements.
  void setInitialValueHalf(const Tensor& tensor, ArrayRef<std::uint16_t> values);

  // A stream that moves `elements` elements in each transfer. Throws poplar_error when the handle is taken,
  // overflow_error for a transfer of more bytes than 63 bits can count, invalid_option for options that
  // Poplar's streams do not have; those that they have change nothing here.
  DataStream addHostToDeviceFIFO(const std::string& handle, const Type& type, std::size_t elements,
                                 ReplicatedStreamMode mode = ReplicatedStreamMode::REPLICATE,
                                 const OptionFlags& options = {});
  DataStream addDeviceToHostFIFO(const std::string& handle, const Type& type, std::size_t elements,
                                 const OptionFlags& options = {});

  // Memory outside of the IPU, of each replica: `repeats` rows of `numElements` elements, which are 0 at
  // first. Throws poplar_error when the handle is taken, for no rows, and for more bytes than 63 bits can
  // count. Rows may have no elements.
  RemoteBuffer addRemoteBuffer(const std::string& handle, const Type& type, std::size_t numElements,
                               std::size_t repeats = 1, bool rearrangeOnHost = false,
                               bool optimiseMemory = false);

  // Names a tensor for Engine::writeTensor and readTensor. `rearrangeOnHost` changes nothing in the model.
  void createHostWrite(const std::string& handle, const Tensor& tensor, bool rearrangeOnHost = false);
  void createHostRead(const std::string& handle, const Tensor& tensor, bool rearrangeOnHost = false);

  // ---- Codelets and vertices.

  // Compiles C++ source of codelets with the host's compiler, and adds its vertex classes. `compileFlags` are
  // the compiler's (-D, -I, -O); results are kept in a cache. Throws graph_program_compilation_error with the
  // compiler's message, or if there is no compiler; poplar_error for a file that cannot be read, and for
  // types other than C++ source and .gp files, which popc makes.
  bool addCodelets(const std::string& path, CodeletFileType type = CodeletFileType::Auto,
                   const std::string& compileFlags = "");
  bool addCodelets(const std::vector<std::string>& paths, const std::string& compileFlags = "");
  bool addCodelets(std::stringstream& stream, const std::string& compileFlags = "",
                   CodeletFileType type = CodeletFileType::CppSource);
  bool addCodelets(std::istream& stream, const std::string& compileFlags = "",
                   CodeletFileType type = CodeletFileType::CppSource);
  bool hasCodelet(const std::string& vertexType) const;

  ComputeSet addComputeSet(const DebugContext& debugContext = {});
  // Throws unknown_vertex_type with the known ones.
  VertexRef addVertex(const ComputeSet& cs, const std::string& vertexType,
                      const DebugContext& debugContext = {});
  VertexRef addVertex(const ComputeSet& cs, const std::string& vertexType,
                      std::initializer_list<ConnectionDesc> connections,
                      const DebugContext& debugContext = {});
  VertexRef addVertex(const ComputeSet& cs, const std::string& vertexType,
                      const std::vector<ConnectionDesc>& connections, const DebugContext& debugContext = {});

  // Connects an edge to the elements of a tensor, in row-major order: one element for Input<T>, any number
  // for Input<Vector<T>>. A field of several edges takes a tensor (its first dimension are the edges), a list
  // of tensors, or a tensor for each field[i]. Numbers become constants on the vertex's tile. Throws
  // unknown_field; graph_connection_error for another type or number of elements and for an edge that is
  // already connected.
  void connect(const FieldRef& field, const Tensor& tensor);
  void connect(const FieldRef& field, const std::vector<Tensor>& tensors);
  template <typename T, std::enable_if_t<ipu_model::kIsNumber<T>, int> = 0>
  void connect(const FieldRef& field, T value) {
    connectNumbers(field, {ipu_model::NumberOf(value)});
  }
  template <typename T, std::enable_if_t<ipu_model::kIsNumber<T>, int> = 0>
  void connect(const FieldRef& field, const std::vector<T>& values) {
    connectNumbers(field, ipu_model::NumbersOf(values));
  }

  // The value of a field that is no edge, converted to its type; a list for a Vector. Throws unknown_field,
  // and graph_connection_error for an edge and for a number that the type cannot hold.
  template <typename T, std::enable_if_t<ipu_model::kIsNumber<T>, int> = 0>
  void setInitialValue(const FieldRef& field, T value) {
    setInitialNumbers(field, {ipu_model::NumberOf(value)}, false);
  }
  template <typename T>
  void setInitialValue(const FieldRef& field, const std::vector<T>& values) {
    setInitialNumbers(field, ipu_model::NumbersOf(values), true);
  }
  template <typename T>
  void setInitialValue(const FieldRef& field, std::initializer_list<T> values) {
    setInitialNumbers(field, ipu_model::NumbersOf(std::vector<T>(values)), true);
  }
  template <typename T>
  void setInitialValue(const FieldRef& field, ArrayRef<T> values) {
    setInitialNumbers(field, ipu_model::NumbersOf(values.cloneAsVector()), true);
  }
  // Sets numbers of HALF, given as their bits.
  void setInitialValueHalf(const FieldRef& field, std::uint16_t bits);
  void setInitialValueHalf(const FieldRef& field, ArrayRef<std::uint16_t> bits);
  // The number of elements of a Vector in the state, which are 0, or the number of edges of a field.
  void setFieldSize(const FieldRef& field, std::size_t size);

  // The largest number that a field which is no edge can hold, and the most elements of dimension `dimension`
  // of an edge: of the edges themselves if there are several, then of one edge, as the field's layout on the
  // device allows. Throws unknown_vertex_type and unknown_field.
  std::uint64_t getMaxVertexFieldValue(const std::string& vertexType, const std::string& field) const;
  std::size_t getMaxFieldDim(const std::string& vertexType, const std::string& field,
                             unsigned dimension) const;

  // Throws invalid_tile_mapping for a tile that the target does not have.
  void setTileMapping(const VertexRef& vertex, unsigned tile);
  // `cycles` are those of the thread that runs the vertex: see PerfEstimateFunc.hpp.
  void setPerfEstimate(const VertexRef& vertex, std::uint64_t cycles, std::uint64_t flops = 0);
  void setCycleEstimate(const VertexRef& vertex, std::uint64_t cycles) { setPerfEstimate(vertex, cycles); }
  // For the vertices of this type that have no estimate of their own.
  void registerPerfEstimator(const std::string& vertexType, PerfEstimateFunc estimator);

  // Writes what tensors are, without their values: type, shape, order in memory, tile mapping, and which
  // elements they share. deserializeTensors makes new variables for them, without values. Only the binary
  // format is there, which is the model's own: data of Graphcore's SDK is refused. Throws poplar_error with
  // the reason.
  void serializeTensors(std::ostream& out, ArrayRef<Tensor> tensors, SerializationFormat format) const;
  std::vector<Tensor> deserializeTensors(std::istream& in, SerializationFormat format);

  // Writes the operations of programs in Graphviz's DOT: a node with the name of each, in the order in which
  // they run, and the variables between them.
  void outputComputeGraph(std::ostream& out, const std::vector<program::Program>& programs = {}) const;
  // The same of the vertices of the compute sets that programs execute: a node for each, with its type and
  // tile.
  void outputVertexGraph(std::ostream& out, const std::vector<program::Program>& programs = {}) const;

  // Writes a description in JSON, the model's own, in either format: the target, variables with their type,
  // shape and tiles, streams.
  void serialize(std::ostream& out, SerializationFormat format) const;

  // A program for Call, whose code is stored only once.
  Function addFunction(const program::Program& program);

  using HostFunctionArgument = std::tuple<Type, std::size_t>;  // type and number of elements
  HostFunction addHostFunction(const std::string& handle, const std::vector<HostFunctionArgument>& inputs,
                               const std::vector<HostFunctionArgument>& outputs);

#ifndef POPLAR_API_ONLY
  ipu_model::GraphImpl& impl() const { return *impl_; }  // internals of the model, not part of Poplar
#endif

 private:
  Tensor addConstantNumbers(const Type& type, const std::vector<std::size_t>& shape,
                            const std::vector<ipu_model::Number>& values, const DebugContext& debugContext);
  Tensor addQuarterConstant(const Type& type, const Tensor& metadata, const std::vector<std::size_t>& shape,
                            const std::vector<ipu_model::Number>& values, const DebugContext& debugContext);
  void setInitialTensor(const Tensor& tensor, const std::vector<ipu_model::Number>& values);
  void connectNumbers(const FieldRef& field, const std::vector<ipu_model::Number>& values);
  void setInitialNumbers(const FieldRef& field, const std::vector<ipu_model::Number>& values, bool list);

  struct VirtualTiles {
    Target target;
    std::vector<unsigned> tiles;  // of the top level
  };
  Graph(std::shared_ptr<ipu_model::GraphImpl> impl, std::shared_ptr<const VirtualTiles> tiles)
      : impl_(std::move(impl)), virtual_(std::move(tiles)) {}
  // Throws invalid_tile_mapping for a tile that this view does not have.
  unsigned physicalTile(unsigned tile, const std::string& what) const;

  static constexpr char kClass[] = "Graph";
  ipu_model::Owned<std::shared_ptr<ipu_model::GraphImpl>, kClass> impl_;
  std::shared_ptr<const VirtualTiles> virtual_;  // null: all tiles
};

// The name and version of the library.
std::string versionString();
// Ten digits that differ between versions of the public headers.
std::string packageHash();

}  // namespace poplar

#endif  // POPLAR_GRAPH_HPP
