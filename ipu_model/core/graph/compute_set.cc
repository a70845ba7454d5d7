#include "core/graph/compute_set.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>

#include "core/graph/graph_impl.h"
#include "core/graph/tensor_data.h"
#include "core/mapping/stretches.h"
#include "core/mapping/strides.h"
#include "core/target/target_model.h"
#include "core/vertices/vertex_estimate.h"
#include "ipu_model/Log.hpp"
#include "kernels/vector/convert.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {

using codelet::Class;
using codelet::Field;
using poplar::graph_connection_error;
using poplar::Tensor;

namespace {

template <typename T>
std::string BytesOfInteger(const Number& n, const std::string& what) {
  const bool fits = n.is_real ? n.real == std::floor(n.real) &&
                                    n.real >= static_cast<double>(std::numeric_limits<T>::min()) &&
                                    n.real <= static_cast<double>(std::numeric_limits<T>::max())
                    : std::is_same_v<T, std::uint64_t> || std::is_same_v<T, std::int64_t>
                        ? true
                        : n.integer >= static_cast<std::int64_t>(std::numeric_limits<T>::min()) &&
                              n.integer <= static_cast<std::int64_t>(std::numeric_limits<T>::max());
  if (!fits) {
    throw graph_connection_error(what + ": the value " +
                                 (n.is_real ? std::to_string(n.real) : std::to_string(n.integer)) +
                                 " does not fit its integer type");
  }
  const T value = n.is_real ? static_cast<T>(n.real) : static_cast<T>(n.integer);
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

template <typename T>
std::string BytesOfValue(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// A row of consecutive elements of a variable.
struct Range {
  VariableId variable;
  DType type;
  std::int64_t begin, end;
};

// The elements of a tensor in order.
std::vector<Range> RangesOf(const Tensor& tensor) {
  std::vector<Range> ranges;
  const DType type = tensor.elementType().id();
  ForEachRow(tensor, true,
             [&](std::int64_t, VariableId variable, std::int64_t element, std::int64_t length, std::int64_t) {
               if (!ranges.empty() && ranges.back().variable == variable && ranges.back().end == element) {
                 ranges.back().end += length;
               } else {
                 ranges.push_back({variable, type, element, element + length});
               }
             });
  return ranges;
}

// The operands of one direction: the largest rows that the ranges make together.
class Operands {
 public:
  void Add(const std::vector<Range>& ranges) { all_.insert(all_.end(), ranges.begin(), ranges.end()); }

  std::vector<View> Merge() {
    const auto key = [](const Range& s) { return std::make_tuple(s.variable, s.type, s.begin, s.end); };
    std::sort(all_.begin(), all_.end(), [&](const Range& a, const Range& b) { return key(a) < key(b); });
    std::vector<Range> merged;
    for (const Range& s : all_) {
      if (!merged.empty() && merged.back().variable == s.variable && merged.back().type == s.type &&
          s.begin <= merged.back().end) {
        merged.back().end = std::max(merged.back().end, s.end);
      } else {
        merged.push_back(s);
      }
    }
    all_ = std::move(merged);
    std::vector<View> views;
    for (const Range& s : all_) {
      View view;
      view.variable = s.variable;
      view.type = s.type;
      view.offset = s.begin;
      view.shape = {s.end - s.begin};
      view.strides = {1};
      views.push_back(std::move(view));
    }
    return views;
  }

  std::vector<VertexInterval> IntervalsOf(const std::vector<Range>& ranges) const {
    std::vector<VertexInterval> intervals;
    for (const Range& s : ranges) {
      const auto after = std::upper_bound(all_.begin(), all_.end(), s, [](const Range& x, const Range& y) {
        return std::make_tuple(x.variable, x.type, x.begin) < std::make_tuple(y.variable, y.type, y.begin);
      });
      const auto operand = after - 1;
      intervals.push_back(
          {static_cast<std::uint32_t>(operand - all_.begin()), s.begin - operand->begin, s.end - s.begin});
    }
    return intervals;
  }

 private:
  std::vector<Range> all_;
};

// Cycles that vertices add to their tiles, where workers run in turn: each has one in six of the cycles.
class TileCycles {
 public:
  explicit TileCycles(const TargetModel& target) : target_(target) {}

  std::uint64_t Add(unsigned tile, codelet::VertexKind kind, std::uint64_t cycles) {
    if (kind != codelet::kWorkerVertex) return cycles;
    Workers& w = tiles_[tile];
    if (w.busy.empty()) w.busy.assign(target_.worker_contexts, 0);
    std::uint64_t& worker = w.busy[w.next++ % w.busy.size()];
    worker += cycles;
    const std::uint64_t before = w.longest;
    w.longest = std::max(w.longest, worker);
    return (w.longest - before) * target_.worker_contexts;
  }

 private:
  struct Workers {
    std::vector<std::uint64_t> busy;
    std::size_t next = 0;
    std::uint64_t longest = 0;
  };
  const TargetModel& target_;
  std::map<unsigned, Workers> tiles_;
};

// A constant that is read as a whole, by the vertices of one tile, lies there: no exchange has to bring it.
// Libraries make lists of work for vertices so, and map them all to tile 0.
class ConstantReaders {
 public:
  void Add(const GraphImpl& graph, const std::vector<Range>& ranges, unsigned tile) {
    for (const Range& r : ranges) {
      const Variable& variable = graph.variables[r.variable];
      if (variable.constant == nullptr || variable.mapping.empty()) continue;
      Reader& reader = readers_.try_emplace(r.variable, Reader{tile, true, false}).first->second;
      reader.alone = reader.alone && reader.tile == tile;
      reader.whole = reader.whole || (r.begin == 0 && r.end == variable.num_elements);
    }
  }

  void MoveConstants(GraphImpl* graph) const {
    for (const auto& [id, reader] : readers_) {
      if (!reader.alone || !reader.whole) continue;
      Variable& variable = graph->variables[id];
      variable.mapping = Mapping(std::vector<MappedInterval>{{0, variable.num_elements, reader.tile}});
    }
  }

 private:
  struct Reader {
    unsigned tile;
    bool alone, whole;
  };
  std::unordered_map<VariableId, Reader> readers_;
};

// The numbers of a tensor of constants; throws std::out_of_range for one that has variables.
std::vector<double> ConstantNumbers(const Tensor& tensor) {
  std::vector<double> numbers;
  const GraphImpl& graph = GraphOf(tensor, "VertexPerfEstimate");
  for (const Range& s : RangesOf(tensor)) {
    const Variable& variable = graph.variables[s.variable];
    if (variable.constant == nullptr) throw std::out_of_range("'" + variable.name + "' is no constant");
    const std::size_t size = SizeOf(variable.type);
    for (std::int64_t i = s.begin; i < s.end; ++i) {
      const unsigned char* at = variable.constant->data() + static_cast<std::size_t>(i) * size;
      numbers.push_back(NumberOfBytes(at, s.type).real);
    }
  }
  return numbers;
}

poplar::VertexIntrospector IntrospectorOf(const VertexState& vertex) {
  std::vector<poplar::FieldData> fields;
  for (std::size_t f = 0; f < vertex.type->num_fields; ++f) {
    const Field& field = vertex.type->fields[f];
    const FieldState& state = vertex.fields[f];
    std::vector<std::size_t> edges;
    std::vector<double> values;
    std::size_t size = 1;
    if (IsEdgeField(field)) {
      for (const Tensor& edge : state.edges) edges.push_back(edge.numElements());
      size = IsSeveral(field) ? edges.size() : edges.at(0);
    } else if (field.element_bytes > 0) {
      const std::size_t n = state.value.size() / field.element_bytes;
      for (std::size_t i = 0; i < n; ++i)
        values.push_back(
            NumberOfBytes(state.value.data() + i * field.element_bytes, static_cast<DType>(field.type)).real);
      if (field.kind == codelet::kVectorValue) size = n;
    }
    fields.emplace_back(field.name, size, std::move(edges), std::move(values),
                        static_cast<poplar::VectorLayout>(field.layout),
                        static_cast<poplar::VectorLayout>(field.is_list ? 0 : field.outer_layout),
                        static_cast<poplar::VectorListLayout>(field.is_list ? field.outer_layout : 0),
                        [&state](std::size_t edge) { return ConstantNumbers(state.edges.at(edge)); });
  }
  return {vertex.type->name, std::move(fields)};
}

}  // namespace

std::string NameOfVertex(const ComputeSetData& set, std::size_t vertex) {
  const VertexState& v = set.vertices.at(vertex);
  return "vertex " + std::to_string(vertex) + (v.name.empty() ? "" : " '" + v.name + "'") +
         " of compute set '" + set.name + "' (" + v.type->name + ")";
}

Number NumberOfBytes(const void* bytes, DType type) {
  const auto load = [bytes](auto value) {
    std::memcpy(&value, bytes, sizeof(value));
    return NumberOf(value);
  };
  switch (type) {
    case DType::kPred:
    case DType::kU8:
      return load(std::uint8_t{});
    case DType::kS8:
      return load(std::int8_t{});
    case DType::kS16:
      return load(std::int16_t{});
    case DType::kU16:
      return load(std::uint16_t{});
    case DType::kS32:
      return load(std::int32_t{});
    case DType::kU32:
      return load(std::uint32_t{});
    case DType::kS64:
      return load(std::int64_t{});
    case DType::kU64:
      return load(std::uint64_t{});
    case DType::kF16: {
      std::uint16_t half;
      std::memcpy(&half, bytes, sizeof(half));
      return NumberOf(F16ToF32(half));
    }
    case DType::kF64:
      return load(double{});
    default:
      return load(float{});
  }
}

std::string BytesOfNumber(const Number& n, DType type, const std::string& what) {
  switch (type) {
    case DType::kPred:
      return std::string(1, n.real != 0 ? '\1' : '\0');
    case DType::kS8:
      return BytesOfInteger<std::int8_t>(n, what);
    case DType::kU8:
      return BytesOfInteger<std::uint8_t>(n, what);
    case DType::kS16:
      return BytesOfInteger<std::int16_t>(n, what);
    case DType::kU16:
      return BytesOfInteger<std::uint16_t>(n, what);
    case DType::kS32:
      return BytesOfInteger<std::int32_t>(n, what);
    case DType::kU32:
      return BytesOfInteger<std::uint32_t>(n, what);
    case DType::kS64:
      return BytesOfInteger<std::int64_t>(n, what);
    case DType::kU64:
      return BytesOfInteger<std::uint64_t>(n, what);
    case DType::kF16:
      return BytesOfValue(F32ToF16(static_cast<float>(n.real)));
    case DType::kF32:
      return BytesOfValue(n.is_real ? static_cast<float>(n.real) : static_cast<float>(n.integer));
    case DType::kF64:
      return BytesOfValue(n.real);
    default:
      throw graph_connection_error(what + ": numbers of type " + NameOf(type) + " cannot be given as values");
  }
}

namespace {

// Throws graph_connection_error if an edge of field `f` of vertex `i` is not connected.
void CheckConnected(const ComputeSetData& set, std::size_t i, std::size_t f) {
  const Field& field = set.vertices[i].type->fields[f];
  const std::vector<Tensor>& edges = set.vertices[i].fields[f].edges;
  if (edges.empty() && !IsSeveral(field)) {
    throw graph_connection_error("the field '" + std::string(field.name) + "' of " + NameOfVertex(set, i) +
                                 " is not connected: call Graph::connect");
  }
  for (std::size_t e = 0; e < edges.size(); ++e) {
    if (edges[e].valid()) continue;
    throw graph_connection_error("the edge " + std::to_string(e) + " of the field '" + field.name + "' of " +
                                 NameOfVertex(set, i) + " is not connected: call Graph::connect");
  }
}

// Throws graph_connection_error if a vertex writes a constant.
void CheckWritten(const GraphImpl& graph, const std::vector<Range>& ranges, const ComputeSetData& set,
                  std::size_t i, const Field& field) {
  for (const Range& s : ranges) {
    if (graph.variables[s.variable].constant == nullptr) continue;
    throw graph_connection_error(NameOfVertex(set, i) + " writes the constant '" +
                                 graph.variables[s.variable].name + "' through its field '" + field.name +
                                 "'");
  }
}

// The elements of every edge, the operands that hold them, and who reads constants.
struct Edges {
  std::vector<std::vector<Range>> ranges, metadata;
  Operands inputs, outputs;
  ConstantReaders readers;
};

Edges EdgesOf(const ComputeSetData& set, const GraphImpl& graph) {
  Edges found;
  for (std::size_t i = 0; i < set.vertices.size(); ++i) {
    const VertexState& vertex = set.vertices[i];
    for (std::size_t f = 0; f < vertex.type->num_fields; ++f) {
      const Field& field = vertex.type->fields[f];
      if (!IsEdgeField(field)) continue;
      CheckConnected(set, i, f);
      const std::vector<Tensor>& edges = vertex.fields[f].edges;
      for (std::size_t e = 0; e < edges.size(); ++e) {
        found.ranges.push_back(RangesOf(edges[e]));
        if (field.is_quarter) {
          found.metadata.push_back(RangesOf(edges[e].getMetadata()));
          found.inputs.Add(found.metadata.back());
        }
        if ((field.direction & codelet::kRead) != 0) {
          found.inputs.Add(found.ranges.back());
          found.readers.Add(graph, found.ranges.back(), *vertex.tile);
        }
        if ((field.direction & codelet::kWrite) == 0) continue;
        found.outputs.Add(found.ranges.back());
        CheckWritten(graph, found.ranges.back(), set, i, field);
      }
    }
  }
  return found;
}

// What the user or an estimator says of a vertex; else its loops are counted, which `vertex` then tells.
poplar::VertexPerfEstimate EstimateOf(const VertexState& state, const GraphImpl& graph,
                                      ProgramVertex* vertex) {
  poplar::VertexPerfEstimate estimate;
  const auto estimator = graph.perf_estimators.find(state.type->name);
  if (state.estimate.has_value()) {
    estimate = *state.estimate;
  } else if (estimator != graph.perf_estimators.end()) {
    estimate = estimator->second(IntrospectorOf(state), graph.target);
  }
  // An estimator whose numbers wrap for sizes that it was not made for knows nothing of the vertex.
  const bool wraps = !state.estimate.has_value() && !IsPossibleEstimate(estimate.cycles, estimate.flops);
  if (wraps) {
    Log(LogModule::kGraph, LogLevel::kWarn,
        "the estimator of '" + std::string(state.type->name) + "' returns " +
            std::to_string(estimate.cycles) + " cycles and " + std::to_string(estimate.flops) +
            " FLOPs; its loops are counted instead");
    estimate = {};
  }
  if (wraps || (!state.estimate.has_value() && estimator == graph.perf_estimators.end()))
    estimate.cycles = EstimateCycles(graph.target.model(), *state.library, *state.type, vertex->edges,
                                     &vertex->cycle_source);
  return estimate;
}

}  // namespace

ResolvedComputeSet Resolve(const ComputeSetData& set, GraphImpl* graph) {
  for (std::size_t i = 0; i < set.vertices.size(); ++i) {
    if (set.vertices[i].tile.has_value()) continue;
    throw poplar::invalid_tile_mapping(NameOfVertex(set, i) + " is on no tile: call Graph::setTileMapping");
  }
  for (const auto& [vertex, variable] : set.constants) {
    Variable& constant = graph->variables[variable];
    constant.mapping =
        Mapping(std::vector<MappedInterval>{{0, constant.num_elements, *set.vertices[vertex].tile}});
  }

  Edges edges = EdgesOf(set, *graph);
  edges.readers.MoveConstants(graph);
  ResolvedComputeSet resolved;
  resolved.inputs = edges.inputs.Merge();
  resolved.outputs = edges.outputs.Merge();

  auto program = std::make_shared<VertexProgram>();
  program->compute_set = set.name;
  TileCycles tile_cycles(graph->target.model());
  std::map<const Class*, std::uint32_t> types;
  std::size_t next = 0, next_metadata = 0;
  for (const VertexState& state : set.vertices) {
    const Class& type = *state.type;
    const auto [entry, is_new] = types.try_emplace(&type, static_cast<std::uint32_t>(program->types.size()));
    if (is_new) program->types.push_back({type.name, state.library->hash(), state.library, &type});
    ProgramVertex vertex;
    vertex.type = entry->second;
    vertex.tile = *state.tile;
    for (std::uint32_t f = 0; f < type.num_fields; ++f) {
      const Field& field = type.fields[f];
      vertex.values.push_back(state.fields[f].value);
      if (!IsEdgeField(field)) continue;
      for (std::size_t e = 0; e < state.fields[f].edges.size(); ++e, ++next) {
        VertexEdge edge;
        edge.field = f;
        if ((field.direction & codelet::kRead) != 0)
          edge.reads = edges.inputs.IntervalsOf(edges.ranges[next]);
        if ((field.direction & codelet::kWrite) != 0)
          edge.writes = edges.outputs.IntervalsOf(edges.ranges[next]);
        vertex.edges.push_back(std::move(edge));
        if (!field.is_quarter) continue;
        vertex.edges.push_back({f, true, edges.inputs.IntervalsOf(edges.metadata[next_metadata++]), {}});
      }
    }
    const poplar::VertexPerfEstimate estimate = EstimateOf(state, *graph, &vertex);
    vertex.cycles = tile_cycles.Add(vertex.tile, type.kind, estimate.cycles);
    vertex.flops = estimate.flops;
    program->vertices.push_back(std::move(vertex));
  }
  std::string problem;
  const auto name = [graph](VariableId v) { return graph->variables.at(v).name; };
  if (!program->Fits(resolved.inputs, resolved.outputs, graph->target.getNumTiles(), name, &problem))
    throw graph_connection_error(problem);
  resolved.program = std::move(program);
  return resolved;
}

}  // namespace ipu_model
