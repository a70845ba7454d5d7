// Top-k. Long rows are cut: every part gives its k best elements, then vertices merge them, in stages. Where
// k is so large that a sort of the rows takes less, they are sorted in chunks, which stay spread over the
// tiles.
#include "kernels/sort/top_k.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "core/graph/expandable.h"
#include "core/graph/graph_impl.h"
#include "core/mapping/strides.h"
#include "core/operation/operand_check.h"
#include "core/operation/serialise.h"
#include "core/target/target_model.h"
#include "hlo/Sort.hpp"
#include "kernels/host/dense_tensor.h"
#include "kernels/host/integer_division.h"
#include "operations/arithmetic.h"
#include "operations/data_views.h"
#include "operations/index/slice_grid.h"
#include "operations/readers.h"
#include "operations/sort/chunked_sort.h"
#include "operations/sort/row_parts.h"
#include "operations/sort/sort_cost.h"
#include "poplar/exceptions.hpp"
#include "popops/TopK.hpp"

namespace ipu_model {
namespace {

std::int64_t NumRows(const Shape& shape) {
  return std::max<std::int64_t>(1, NumElements(shape) / std::max<std::int64_t>(1, shape.back()));
}

bool Sorts(const Shape& shape, std::int64_t k, DType type, unsigned num_tiles, const TargetModel& target) {
  return TopKSorts(target, shape.back(), k, NumRows(shape), type, num_tiles);
}

// a goes before b.
Expression Before(DType type, bool largest) {
  Expression before;
  before.inputs = {type, type};
  Instruction code;
  code.op = IsFloat(type) ? ScalarOp::kTotalLt : ScalarOp::kLt;
  code.operand_type = type;
  code.result_type = DType::kPred;
  code.operand[largest ? 0 : 1] = 1;
  before.code = {code};
  before.outputs = {2};
  return before;
}

// The grid of `mapping`, if it divides a single row, whole, into contiguous parts; else null.
const Grid* PartsOfRow(const View& row, const Mapping& mapping) {
  const Grid* const grid = mapping.grid();
  const bool divides = grid != nullptr && grid->shape == Shape{row.shape.back()} && NumRows(row.shape) == 1 &&
                       row.offset == 0 && IsRowMajorContiguous(row);
  return divides ? grid : nullptr;
}

// Rows are spread; the last dimension is cut into parts of at least k elements. The parts in which a single
// row lies, `held`, need no exchange.
Grid ScanGrid(const Shape& shape, std::int64_t k, DType type, const Grid* held, unsigned num_tiles,
              const TargetModel& target) {
  const std::size_t last = shape.size() - 1;
  Grid grid;
  grid.shape = shape;
  grid.num_tiles = num_tiles;
  grid.parts.assign(shape.size(), 1);
  grid.grain.assign(shape.size(), 1);
  const RowParts chosen = ChooseTopKParts(target, shape[last], k, NumRows(shape), type, num_tiles);
  grid.parts[last] = chosen.parts;
  if (held != nullptr && TopKStays(target, *held, k, type, chosen)) {
    grid.parts[last] = held->parts[0];
    grid.grain[last] = held->grain[0];
    grid.tile_stride.assign(shape.size(), held->tile_stride[0]);
    grid.first_tile = held->first_tile;
    return grid;
  }
  std::int64_t tiles = std::max<std::int64_t>(1, num_tiles / grid.parts[last]);
  for (std::size_t d = 0; d < last; ++d) {
    grid.parts[d] = std::clamp<std::int64_t>(shape[d], 1, tiles);
    tiles /= grid.parts[d];
  }
  grid.tile_stride = RowMajorStrides(grid.parts);
  return grid;
}

// Returns the grid of the results in parts: the rows of `scan`, k elements each.
Grid RowsOfResult(Grid scan, std::int64_t k) {
  scan.shape.back() = k;
  scan.parts.back() = 1;
  return scan;
}

Grid RowsSorted(const Shape& shape, DType type, unsigned num_tiles, const TargetModel& target) {
  return SortGrid(shape, shape.size() - 1, {1, static_cast<std::int64_t>(SizeOf(type))}, num_tiles, target);
}

Grid ResultGrid(const Shape& shape, std::int64_t k, DType type, const Grid* held, unsigned num_tiles,
                const TargetModel& target) {
  if (!Sorts(shape, k, type, num_tiles, target))
    return RowsOfResult(ScanGrid(shape, k, type, held, num_tiles, target), k);
  if (k == shape.back()) return RowsSorted(shape, type, num_tiles, target);
  Shape result = shape;
  result.back() = k;
  return SpreadGrid(result, DType::kS32, num_tiles);
}

// The candidates of the rows of `box` from parts [begin, end); the last dimension of the box is that of the
// row.
Box CandidatesOf(const Box& box, std::int64_t begin, std::int64_t end, std::int64_t k) {
  Box region = box;
  region.begin.back() = begin;
  region.end.back() = end;
  region.begin.push_back(0);
  region.end.push_back(k);
  return region;
}

HostTensor SplitLast(const HostTensor& t, std::int64_t extent) {
  HostTensor flat = t;  // [..., parts, k] as [..., parts * k]
  flat.rank = t.rank - 1;
  flat.shape[flat.rank - 1] = extent;
  SetDenseStrides(&flat);
  return flat;
}

// The first k elements of the rows of `box`.
Box FirstOfRow(Box box, std::int64_t k) {
  box.begin.back() = 0;
  box.end.back() = k;
  return box;
}

// inputs: operand; outputs: values, indices.
class TopKOperation : public Operation, public Expandable {
 public:
  explicit TopKOperation(bool largest) : largest_(largest) {}

  std::string_view kind() const override { return "popops::topK"; }
  bool OperandsFit(unsigned /*num_tiles*/) const override {
    if (!HasOperands(*this, 1, 2) || inputs[0].shape.empty() || !TopKSupports(inputs[0].type)) return false;
    Shape out = outputs[0].shape;
    if (out.size() != inputs[0].shape.size() || out.back() > inputs[0].shape.back()) return false;
    out.back() = inputs[0].shape.back();
    return out == inputs[0].shape && SameShapes(outputs, 0, 2) && outputs[0].type == inputs[0].type &&
           outputs[1].type == DType::kS32;
  }
  void Write(Writer& writer) const override { writer.Write(largest_); }
  double flops() const override {
    return static_cast<double>(inputs[0].num_elements()) * ComparisonsPerElement(inputs[0].shape.back());
  }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    TopK(context, largest_, in[0], out[0], out[1]);
  }

  TilePlan Plan(const DeviceContext& context) const override {
    TilePlan plan;
    const std::int64_t k = outputs[0].shape.back();
    if (NumElements(outputs[0].shape) == 0) return plan;
    if (Sorts(inputs[0].shape, k, inputs[0].type, context.num_tiles(), context.target()))
      return PlanSort(context);
    const Grid* const held = PartsOfRow(inputs[0], context.mapping(inputs[0].variable));
    const Grid scan =
        ScanGrid(inputs[0].shape, k, inputs[0].type, held, context.num_tiles(), context.target());
    const std::int64_t parts = scan.parts.back();
    VertexGroup first = Scan(scan, k);
    if (parts == 1) {
      for (unsigned i = 0; i < 2; ++i)
        first.writes.push_back(
            {{OperandRef::Kind::kOutput, i}, [k](const Box& box) { return FirstOfRow(box, k); }});
      plan.supersteps.push_back({{std::move(first)}});
      return plan;
    }
    const std::vector<std::int64_t> stages =
        MergeStages(parts, k, inputs[0].type, context.target().bytes_per_tile);
    // Candidates [..., part, k] of the scan, then [..., group, k] of each stage but the last: on the first of
    // the tiles whose candidates they were.
    std::vector<std::int64_t> merged = {1};  // parts of the scan in one of the stage's
    for (std::size_t s = 0; s < stages.size(); ++s) {
      if (s > 0) merged.push_back(merged.back() * stages[s - 1]);
      Grid candidates = scan;
      candidates.shape.back() = candidates.parts.back() = CeilDivide(parts, merged[s]);
      candidates.grain.back() = 1;
      candidates.tile_stride.back() *= merged[s];
      candidates.shape.push_back(k);
      candidates.parts.push_back(1);
      candidates.grain.push_back(1);
      candidates.tile_stride.push_back(1);
      plan.temporaries.push_back({inputs[0].type, candidates});
      plan.temporaries.push_back({DType::kS32, candidates});
    }
    const auto part_region = [scan, k](const Box& box) {
      const std::int64_t part = scan.PartOf(static_cast<int>(box.begin.size()) - 1, box.begin.back());
      return CandidatesOf(box, part, part + 1, k);
    };
    for (unsigned i = 0; i < 2; ++i) first.writes.push_back({{OperandRef::Kind::kTemporary, i}, part_region});
    plan.supersteps.push_back({{std::move(first)}});
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const bool last = s + 1 == stages.size();
      const Stage stage = {CeilDivide(parts, merged[s]), stages[s], static_cast<unsigned>(2 * s), last};
      plan.supersteps.push_back({{Merge(
          stage, last ? RowsOfResult(scan, k).Vertices() : plan.temporaries[2 * s + 2].placement.Vertices(),
          k)}});
    }
    return plan;
  }

  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    const std::vector<poplar::Tensor> operands = InputsBesideOutputs(*this, graph, in, prog);
    const Shape& shape = inputs[0].shape;
    const poplar::Target& target = graph.getTarget();
    if (Sorts(shape, outputs[0].shape.back(), inputs[0].type, target.getNumTiles(), ModelOf(target))) {
      library.sort(graph, operands, shape.size() - 1, Before(inputs[0].type, largest_), out,
                   PlanOf(*this, graph), prog, name);
    } else {
      library.topK(graph, operands[0], largest_, out[0], out[1], PlanOf(*this, graph), prog, name);
    }
  }

 private:
  // The vertices that find the best elements of each part of the rows; what they write is the caller's.
  VertexGroup Scan(const Grid& scan, std::int64_t k) const {
    const std::int64_t parts = scan.parts.back();
    VertexGroup first;
    first.codelet = "popops::TopK";
    first.vertices = scan.Vertices();
    first.code_bytes = 600;
    first.vertex_bytes = 32;
    first.reads.push_back({{OperandRef::Kind::kInput, 0}, [](const Box& box) { return box; }});
    first.compute = [largest = largest_, parts](HostContext& host, const Box& box,
                                                const std::vector<HostTensor>& reads,
                                                const std::vector<HostTensor>& writes) {
      HostTensor values = writes[0], indices = writes[1];
      if (parts > 1) {
        values = SplitLast(values, values.shape[values.rank - 1]);
        indices = SplitLast(indices, indices.shape[indices.rank - 1]);
      }
      TopK(host, largest, reads[0], values, indices);
      std::int32_t* index = indices.as<std::int32_t>();
      for (std::int64_t i = 0, n = indices.num_elements(); i < n; ++i) {
        index[i] += static_cast<std::int32_t>(box.begin.back());
      }
    };
    first.cycles = [k](const TargetModel& target, const Box& box) {
      const std::int64_t n = box.end.back() - box.begin.back();
      return TopKCycles(target, box.num_elements() / n, n, k);
    };
    return first;
  }

  // A stage makes one group of candidates of `terms` groups; there are `before` of them, in the temporaries
  // `first_temporary` and the next one.
  struct Stage {
    std::int64_t before, terms;
    unsigned first_temporary;
    bool last;
  };
  VertexGroup Merge(const Stage& stage, std::vector<Vertex> vertices, std::int64_t k) const {
    const std::int64_t before = stage.before, terms = stage.terms;
    const bool last = stage.last;
    VertexGroup merge;
    merge.codelet = "popops::TopKMerge";
    merge.vertices = std::move(vertices);
    merge.code_bytes = 600;
    merge.vertex_bytes = 32;
    // The number of a group of candidates is in the box of its vertex.
    const auto group_of = [last](const Box& box) { return last ? 0 : box.begin[box.begin.size() - 2]; };
    const auto terms_of = [before, terms, group_of](const Box& box) {
      return std::min(before - group_of(box) * terms, terms);
    };
    const auto all_terms = [k, terms, last, group_of, terms_of](const Box& box) {
      Box rows = box;
      if (!last) {
        rows.begin.pop_back();
        rows.end.pop_back();
      }
      const std::int64_t from = group_of(box) * terms;
      return CandidatesOf(rows, from, from + terms_of(box), k);
    };
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned number = stage.first_temporary + i;
      merge.reads.push_back({{OperandRef::Kind::kTemporary, number}, all_terms});
      if (last) {
        merge.writes.push_back(
            {{OperandRef::Kind::kOutput, i}, [k](const Box& box) { return FirstOfRow(box, k); }});
      } else {
        merge.writes.push_back(
            {{OperandRef::Kind::kTemporary, number + 2}, [](const Box& box) { return box; }});
      }
    }
    merge.compute = [largest = largest_, k, last, terms_of](HostContext& host, const Box& box,
                                                            const std::vector<HostTensor>& reads,
                                                            const std::vector<HostTensor>& writes) {
      const std::int64_t length = terms_of(box) * k;
      const HostTensor values = last ? writes[0] : SplitLast(writes[0], k);
      const HostTensor places = last ? writes[1] : SplitLast(writes[1], k);
      // Equal candidates are in the order of their positions, so ties resolve as in the whole row.
      TopK(host, largest, SplitLast(reads[0], length), values, places);
      const std::int32_t* positions = reads[1].as<std::int32_t>();
      std::int32_t* index = places.as<std::int32_t>();
      for (std::int64_t i = 0, n = places.num_elements(); i < n; ++i)
        index[i] = positions[i / k * length + index[i]];
    };
    merge.cycles = [k, terms_of](const TargetModel& target, const Box& box) {
      return TopKCycles(target, box.num_elements() / k, terms_of(box) * k, k);
    };
    return merge;
  }

  TilePlan PlanSort(const DeviceContext& context) const {
    const DType type = inputs[0].type;
    const Shape& shape = inputs[0].shape;
    const Grid grid = RowsSorted(shape, type, context.num_tiles(), context.target());
    const bool in_results = LieAs(outputs, grid, context);
    const auto kind = in_results ? OperandRef::Kind::kOutput : OperandRef::Kind::kTemporary;
    TilePlan plan;
    if (!in_results) plan.temporaries = {{type, grid}, {DType::kU32, grid}};
    PlanChunkedSort(grid, shape.size() - 1, Before(type, largest_), {{kind, 0}, {kind, 1}}, true, &plan);
    if (in_results) return plan;
    const Grid result =
        ResultGrid(shape, outputs[0].shape.back(), type, nullptr, context.num_tiles(), context.target());
    plan.supersteps.push_back({{StoreSorted(result.Vertices(), 2)}});
    return plan;
  }

  bool largest_;
};

}  // namespace

std::unique_ptr<Operation> ReadTopK(Reader& reader) {
  return std::make_unique<TopKOperation>(reader.Read<bool>());
}

}  // namespace ipu_model

namespace hlo {

std::pair<poplar::Tensor, poplar::Tensor> topK(poplar::Graph& graph, const poplar::Tensor& operand,
                                               std::size_t k, poplar::program::Sequence& prog, bool largest,
                                               const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  const std::string& name = debugContext.getPathName();
  const DType type = operand.elementType().id();
  if (operand.rank() == 0 || k > operand.dim(operand.rank() - 1)) {
    throw poplar::poplar_error(name + ": top_k of " + std::to_string(k) + " elements from " +
                               operand.shapeToString());
  }
  if (!TopKSupports(type)) throw poplar::poplar_error(name + ": top_k is not defined for " + NameOf(type));
  auto operation = std::make_unique<TopKOperation>(largest);
  operation->name = name;
  operation->inputs.push_back(StridedView(graph, operand, prog, {debugContext, "operand"}));
  const poplar::Target& target = graph.getTarget();
  const Shape& shape = operation->inputs[0].shape;
  std::int64_t count = static_cast<std::int64_t>(k);
  // Where k is a large share of a row and both it and the whole row would be sorted, the results are whole
  // sorted rows, of which the caller gets the first k: the sort then needs no memory beside them.
  constexpr std::int64_t kLargeShare = 8;
  if (kLargeShare * count > shape.back() &&
      Sorts(shape, count, type, target.getNumTiles(), ModelOf(target)) &&
      Sorts(shape, shape.back(), type, target.getNumTiles(), ModelOf(target)))
    count = shape.back();
  const View& row = operation->inputs[0];
  const ipu_model::Grid* const held = PartsOfRow(row, graph.impl().variables[row.variable].mapping);
  const ipu_model::Grid grid = ResultGrid(shape, count, type, held, target.getNumTiles(), ModelOf(target));
  const poplar::Tensor values = NewTensor(graph, type, grid.shape, Mapping(grid), name);
  const poplar::Tensor indices = NewTensor(graph, DType::kS32, grid.shape, Mapping(grid), name);
  values.asView(&operation->outputs.emplace_back());
  indices.asView(&operation->outputs.emplace_back());
  AddOperation(prog, std::move(operation));
  const auto last = static_cast<unsigned>(values.rank() - 1);
  return {values.slice(0, k, last), indices.slice(0, k, last)};
}

}  // namespace hlo

namespace popops {

std::pair<poplar::Tensor, poplar::Tensor> topKWithPermutation(poplar::Graph& graph,
                                                              poplar::program::Sequence& prog,
                                                              const poplar::Tensor& t,
                                                              const TopKParams& params,
                                                              const poplar::DebugContext& debugContext) {
  auto result = hlo::topK(graph, t, params.k, prog, params.largest, debugContext);
  const SortOrder produced = params.largest ? SortOrder::DESCENDING : SortOrder::ASCENDING;
  if (params.sortOrder != SortOrder::NONE && params.sortOrder != produced) {
    result = {result.first.reverse(t.rank() - 1), result.second.reverse(t.rank() - 1)};
  }
  return result;
}

poplar::Tensor topK(poplar::Graph& graph, poplar::program::Sequence& prog, const poplar::Tensor& t,
                    const TopKParams& params, const poplar::DebugContext& debugContext) {
  return topKWithPermutation(graph, prog, t, params, debugContext).first;
}

}  // namespace popops
