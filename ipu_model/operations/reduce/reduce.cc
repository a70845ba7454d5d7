// Reduction as an operation: partial results on all tiles, then the final results on the tiles that hold
// them.
#include "hlo/Reduce.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/graph/expandable.h"
#include "core/graph/graph_impl.h"
#include "core/mapping/strides.h"
#include "core/operation/combining_operation.h"
#include "core/operation/operand_check.h"
#include "core/operation/serialise.h"
#include "core/target/target_model.h"
#include "kernels/reduce/reduce.h"
#include "operations/arithmetic.h"
#include "operations/data_views.h"
#include "operations/readers.h"
#include "operations/reduce/reduce_cost.h"
#include "operations/reduce/reduce_stages.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

// Values on a tile that are tried where the reduction's values are spread anew.
constexpr std::int64_t kSmallestShares[] = {64, 16, 4};

// Splits the iteration space into blocks, kept dimensions first: every split of a reduced dimension makes
// partial results. With each halving the kept dimensions (the first one, if all are reduced) have half as
// many parts, and the others more.
Grid SpreadOverTiles(const Shape& shape, std::uint32_t mask, std::int64_t smallest_share, int halvings,
                     unsigned num_tiles) {
  const std::int64_t all =
      std::max<std::int64_t>(1, std::min<std::int64_t>(num_tiles, NumElements(shape) / smallest_share));
  bool keeps = false;
  for (std::size_t d = 0; d < shape.size(); ++d) keeps = keeps || (!IsReduced(mask, d) && shape[d] > 1);
  Shape parts(shape.size(), 1);
  std::int64_t used = 1;
  for (const bool reduced : {false, true}) {
    std::int64_t budget = reduced && keeps ? all : all >> halvings;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (IsReduced(mask, d) != reduced || shape[d] == 1) continue;
      parts[d] = std::max<std::int64_t>(1, std::min(shape[d], budget / used));
      used *= parts[d];
      if (reduced) budget = all;
    }
  }
  return Grid::Of(shape, parts, num_tiles);
}

// inputs: values, then inits; outputs: results.
class ReduceOperation : public CombiningOperation, public Expandable {
 public:
  ReduceOperation(Expression body, std::uint32_t mask)
      : body_(std::move(body)),
        mask_(mask),
        kernel_(std::make_shared<const ReduceKernel>(body_)),
        cost_(body_) {}

  std::string_view kind() const override { return "popops::reduce"; }
  bool OperandsFit(unsigned /*num_tiles*/) const override {
    const std::size_t n = kernel_->size();
    if (n == 0 || !HasOperands(*this, 2 * n, n) || !SameShapes(inputs, 0, n) || !SameShapes(outputs, 0, n) ||
        (mask_ >> inputs[0].shape.size()) != 0)
      return false;
    Shape kept;
    for (std::size_t d = 0; d < inputs[0].shape.size(); ++d) {
      if (!IsReduced(mask_, d)) kept.push_back(inputs[0].shape[d]);
    }
    bool fits = outputs[0].shape == kept;
    for (std::size_t i = 0; i < n; ++i) {
      fits = fits && IsScalar(inputs[n + i]);
      for (const View* view : {&inputs[i], &inputs[n + i]}) fits = fits && view->type == body_.inputs[i];
      // A result may keep the type of partial results.
      const DType type = outputs[i].type;
      fits = fits && (type == body_.inputs[i] || type == kernel_->PartialType(static_cast<unsigned>(i)));
    }
    return fits;
  }
  void Write(Writer& writer) const override {
    writer.Write(body_);
    writer.Write(mask_);
  }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    const std::size_t n = kernel_->size();
    kernel_->Run(context, in.data(), in.data() + n, mask_, out.data());
  }
  std::unique_ptr<BoundKernel> Bind(const std::vector<HostTensor>& in,
                                    const std::vector<HostTensor>& out) const override {
    return kernel_->Bind(in.data(), mask_, out.data());
  }

  double flops() const override {
    const std::int64_t steps = inputs[0].num_elements() - outputs[0].num_elements();
    return ArithmeticOf(body_) * static_cast<double>(std::max<std::int64_t>(0, steps));
  }

  std::vector<int> BandDimensions(int d) const override {
    int kept = 0, along = 0;
    while (IsReduced(mask_, static_cast<std::size_t>(along)) || kept++ != d) ++along;
    std::vector<int> dimensions(3 * size(), d);
    std::fill_n(dimensions.begin(), size(), along);
    std::fill_n(dimensions.begin() + size(), size(), -1);  // the inits
    return dimensions;
  }

  // Parts along the outermost reduced dimension keep the order of the elements, which matters to some bodies.
  std::vector<int> PartDimensions(int d) const override {
    const Shape& shape = inputs[0].shape;
    for (int outer = 0; outer < d; ++outer) {
      const auto i = static_cast<std::size_t>(outer);
      if (IsReduced(mask_, i) && shape[i] > 1 && !kernel_->any_order()) return {};
    }
    if (!IsReduced(mask_, static_cast<std::size_t>(d))) return {};
    std::vector<int> dimensions(inputs.size(), -1);
    std::fill_n(dimensions.begin(), size(), d);
    return dimensions;
  }
  DType PartialType(unsigned output) const override { return kernel_->PartialType(output); }
  void RunPart(HostContext& context, const std::vector<HostTensor>& in,
               const std::vector<HostTensor>& partials) const override {
    kernel_->Run(context, in.data(), nullptr, mask_, partials.data());
  }
  void Combine(HostContext& context, const std::vector<HostTensor>& partials,
               const std::vector<HostTensor>& in, const std::vector<HostTensor>& out) const override {
    kernel_->RunOnPartials(context, partials.data(), in.data() + size(), 1, out.data());
  }

  TilePlan Plan(const DeviceContext& context) const override {
    const std::vector<Grid> stages = Stages(context);
    return stages.empty() ? PlanAtResults(context) : PlanPartials(context, stages);
  }

  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    const std::vector<poplar::Tensor> reads = InputsBesideOutputs(*this, graph, in, prog);
    std::vector<std::size_t> dims;
    for (std::size_t d = 0; d < inputs[0].shape.size(); ++d)
      if (IsReduced(mask_, d)) dims.push_back(d);
    library.reduce(graph, {reads.begin(), reads.begin() + size()}, {reads.begin() + size(), reads.end()},
                   dims, body_, out, PlanOf(*this, graph), prog, name);
  }

 private:
  unsigned size() const { return static_cast<unsigned>(kernel_->size()); }

  // Uses the mapping of the values if it is a grid over their dimensions; otherwise spreads them evenly.
  std::vector<Grid> Stages(const DeviceContext& context) const {
    const View& values = inputs[0];
    const Grid* grid = context.mapping(values.variable).grid();
    const bool in_place =
        grid != nullptr && grid->shape == values.shape && values.offset == 0 && IsRowMajorContiguous(values);
    ReduceProblem problem{cost_, mask_, {}, in_place, values.type, kernel_->PartialType(0), outputs[0].type,
                          0,     0,     1,  1};
    for (unsigned i = 0; i < size(); ++i) {
      problem.value_bytes += static_cast<std::int64_t>(SizeOf(inputs[i].type));
      problem.partial_bytes += static_cast<std::int64_t>(SizeOf(kernel_->PartialType(i)));
    }
    for (std::size_t d = 0; d < values.shape.size(); ++d)
      if (IsReduced(mask_, d)) problem.reduced *= values.shape[d];
    const auto& mapping = context.mapping(outputs[0].variable);
    if (mapping.grid() != nullptr) problem.first_tile = mapping.grid()->first_tile;
    for (const Vertex& vertex : mapping.VerticesOver(outputs[0], context.num_tiles()))
      problem.results = std::max(problem.results, vertex.box.num_elements());
    if (in_place) {
      problem.work = *grid;
      return ChooseReduceStages(problem, context.target(), context.num_tiles()).partials;
    }
    ReduceStages best;
    for (const std::int64_t share : kSmallestShares) {
      for (int halvings = 0; context.num_tiles() >> halvings > 0; ++halvings) {
        problem.work = SpreadOverTiles(values.shape, mask_, share, halvings, context.num_tiles());
        problem.work.first_tile = problem.first_tile;
        ReduceStages stages = ChooseReduceStages(problem, context.target(), context.num_tiles());
        if (best.cycles == 0 || stages.cycles < best.cycles) best = std::move(stages);
      }
    }
    return std::move(best.partials);
  }

  void AddInits(VertexGroup* group) const {
    for (unsigned i = 0; i < size(); ++i)
      group->reads.push_back({{OperandRef::Kind::kInput, size() + i}, [](const Box&) { return Box{}; }});
  }
  void AddResults(const DeviceContext& context, VertexGroup* group) const {
    group->vertices = context.mapping(outputs[0].variable).VerticesOver(outputs[0], context.num_tiles());
    for (unsigned i = 0; i < size(); ++i)
      group->writes.push_back({{OperandRef::Kind::kOutput, i}, [](const Box& box) { return box; }});
    group->code_bytes = cost_.CodeBytes(context.target());
    group->vertex_bytes = 16 + 8 * size();
  }

  // One superstep: a result's tile receives all of its values.
  TilePlan PlanAtResults(const DeviceContext& context) const {
    VertexGroup group;
    group.codelet = "popops::Reduce";
    const Shape shape = inputs[0].shape;
    const std::uint32_t mask = mask_;
    const auto region = [shape, mask](const Box& box) {
      Box values = Box::Whole(shape);
      std::size_t k = 0;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        if (IsReduced(mask, d)) continue;
        values.begin[d] = box.begin[k];
        values.end[d] = box.end[k++];
      }
      return values;
    };
    for (unsigned i = 0; i < size(); ++i) group.reads.push_back({{OperandRef::Kind::kInput, i}, region});
    AddInits(&group);
    AddResults(context, &group);
    group.compute = [kernel = kernel_, mask](HostContext& host, const Box&,
                                             const std::vector<HostTensor>& reads,
                                             const std::vector<HostTensor>& writes) {
      kernel->Run(host, reads.data(), reads.data() + kernel->size(), mask, writes.data());
    };
    const ReducedTypes types{inputs[0].type, outputs[0].type};
    group.cycles = [cost = cost_, types, region, mask](const TargetModel& target, const Box& box) {
      const Box values = region(box);
      return ReduceCycles(target, cost, types, values.num_elements(), box.num_elements(),
                          ReducesInnermost(mask, values.extents()));
    };
    TilePlan plan;
    plan.supersteps.push_back({{std::move(group)}});
    return plan;
  }

  TilePlan PlanPartials(const DeviceContext& context, const std::vector<Grid>& stages) const {
    TilePlan plan;
    std::uint32_t mask = mask_;
    std::size_t lead = 0;  // the leading dimensions of the partial results, which are still to be reduced
    for (std::size_t d = 0; d < inputs[0].shape.size(); ++d) lead += IsReduced(mask_, d) ? 1 : 0;
    for (const Grid& work : stages) {
      AddStage(context, work, mask, lead, &plan);
      mask = (1u << lead) - 1;
    }
    AddFinalStage(context, PartialsPlacement(stages.back(), stages.size() == 1 ? mask_ : mask).shape, lead,
                  &plan);
    return plan;
  }

  // Adds a superstep that combines the values, or the partial results of the stage before, to partial
  // results. These have `lead` dimensions for the parts of the reduced ones, then the kept dimensions.
  void AddStage(const DeviceContext& context, const Grid& work, std::uint32_t mask, std::size_t lead,
                TilePlan* plan) const {
    const bool first = plan->temporaries.empty();
    const auto from = first ? OperandRef::Kind::kInput : OperandRef::Kind::kTemporary;
    const auto base = static_cast<unsigned>(plan->temporaries.size());
    const Grid placement = PartialsPlacement(work, mask);
    VertexGroup group;
    group.codelet = "popops::ReducePartial";
    group.vertices = work.Vertices();
    const auto region = [work, mask](const Box& box) {
      Box result;
      for (std::size_t d = 0; d < work.shape.size(); ++d) {
        if (!IsReduced(mask, d)) continue;
        const std::int64_t part = work.PartOf(static_cast<int>(d), box.begin[d]);
        result.begin.push_back(part);
        result.end.push_back(part + 1);
      }
      for (std::size_t d = 0; d < work.shape.size(); ++d) {
        if (IsReduced(mask, d)) continue;
        result.begin.push_back(box.begin[d]);
        result.end.push_back(box.end[d]);
      }
      return result;
    };
    for (unsigned i = 0; i < size(); ++i) {
      plan->temporaries.push_back({kernel_->PartialType(i), placement});
      group.reads.push_back(
          {{from, first ? i : base - size() + i}, [](const Box& box) { return box; }, true});
      group.writes.push_back({{OperandRef::Kind::kTemporary, base + i}, region});
    }
    group.compute = [kernel = kernel_, mask, lead, first](HostContext& host, const Box&,
                                                          const std::vector<HostTensor>& reads,
                                                          const std::vector<HostTensor>& writes) {
      std::vector<HostTensor> out = writes;
      for (HostTensor& t : out) {  // drop the leading dimensions, of one part each
        t.rank -= static_cast<int>(lead);
        std::copy(t.shape + lead, t.shape + lead + t.rank, t.shape);
        std::copy(t.strides + lead, t.strides + lead + t.rank, t.strides);
      }
      if (first) {
        kernel->Run(host, reads.data(), nullptr, mask, out.data());
      } else {
        kernel->CombinePartials(host, reads.data(), mask, out.data());
      }
    };
    const DType partial = kernel_->PartialType(0);
    const ReducedTypes types{first ? inputs[0].type : partial, partial};
    group.cycles = [cost = cost_, types, region, mask](const TargetModel& target, const Box& box) {
      return ReduceCycles(target, cost, types, box.num_elements(), region(box).num_elements(),
                          ReducesInnermost(mask, box.extents()));
    };
    group.code_bytes = cost_.CodeBytes(context.target());
    group.vertex_bytes = 16 + 8 * size();
    plan->supersteps.push_back({{std::move(group)}});
  }

  void AddFinalStage(const DeviceContext& context, const Shape& partial_shape, std::size_t lead,
                     TilePlan* plan) const {
    VertexGroup group;
    group.codelet = "popops::ReduceFinal";
    const auto all_parts = [partial_shape, lead](const Box& box) {
      Box region = Box::Whole(partial_shape);
      for (std::size_t d = lead; d < partial_shape.size(); ++d) {
        region.begin[d] = box.begin[d - lead];
        region.end[d] = box.end[d - lead];
      }
      return region;
    };
    const auto base = static_cast<unsigned>(plan->temporaries.size()) - size();
    for (unsigned i = 0; i < size(); ++i)
      group.reads.push_back({{OperandRef::Kind::kTemporary, base + i}, all_parts});
    AddInits(&group);
    AddResults(context, &group);
    group.compute = [kernel = kernel_, lead](HostContext& host, const Box&,
                                             const std::vector<HostTensor>& reads,
                                             const std::vector<HostTensor>& writes) {
      kernel->RunOnPartials(host, reads.data(), reads.data() + kernel->size(), (1u << lead) - 1,
                            writes.data());
    };
    const ReducedTypes types{kernel_->PartialType(0), outputs[0].type};
    group.cycles = [cost = cost_, types, all_parts](const TargetModel& target, const Box& box) {
      return ReduceCycles(target, cost, types, all_parts(box).num_elements(), box.num_elements(),
                          box.num_elements() == 1);
    };
    plan->supersteps.push_back({{std::move(group)}});
  }

  Expression body_;
  std::uint32_t mask_;
  std::shared_ptr<const ReduceKernel> kernel_;
  ElementwiseCost cost_;
};

std::unique_ptr<ReduceOperation> MakeReduce(const Expression& body, std::uint32_t mask,
                                            const std::string& name) {
  try {
    return std::make_unique<ReduceOperation>(body, mask);
  } catch (const std::invalid_argument& error) {
    throw poplar::poplar_error(name + ": reduce: " + error.what());
  }
}

// Whether all reduced dimensions come after all others.
bool ReducesTrailing(std::uint32_t mask, const Shape& shape) {
  bool reduced = false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    if (reduced && !IsReduced(mask, d)) return false;
    reduced = reduced || IsReduced(mask, d);
  }
  return reduced;
}

// The results stay with the values if those are on a grid that is not split along reduced dimensions.
Mapping ResultMapping(const poplar::Graph& graph, const View& values, std::uint32_t mask, DType type,
                      const Shape& shape) {
  const Variable& variable = graph.impl().variables[values.variable];
  const Grid* grid = variable.mapping.grid();
  if (grid != nullptr && grid->shape == values.shape && values.offset == 0 && IsRowMajorContiguous(values)) {
    Grid kept = *grid;
    kept.shape.clear();
    kept.parts.clear();
    kept.grain.clear();
    kept.tile_stride.clear();
    bool split = false;
    for (std::size_t d = 0; d < values.shape.size(); ++d) {
      if (IsReduced(mask, d)) {
        split = split || grid->parts[d] > 1;
        continue;
      }
      kept.shape.push_back(grid->shape[d]);
      kept.parts.push_back(grid->parts[d]);
      kept.grain.push_back(grid->grain[d]);
      kept.tile_stride.push_back(grid->tile_stride[d]);
    }
    if (!split && !kept.shape.empty()) return Mapping(kept);
  }
  // Fewer than mapTensorLinearly's 128 bytes per tile: each result stands for a whole line of values, so more
  // tiles should share the work.
  const std::int64_t results = NumElements(shape);
  const poplar::Target& target = graph.getTarget();
  if (results == 0) return {};
  Grid linear =
      Grid::Linear(results, 1, target.model().VectorWidth(type), target.getNumTiles(), FirstTile(graph));
  // Values that are spread linearly and adjacent for each result: with as many parts, results are where their
  // values are. Another number of parts would move almost all values.
  if (grid != nullptr && grid->shape == Shape{NumElements(values.shape)} && values.offset == 0 &&
      IsRowMajorContiguous(values) && ReducesTrailing(mask, values.shape) &&
      grid->parts[0] > linear.parts[0] && grid->parts[0] <= results / linear.grain[0]) {
    linear.parts = grid->parts;
    linear.tile_stride = grid->tile_stride;
    linear.first_tile = grid->first_tile;
  }
  return Mapping(linear);
}

}  // namespace

std::unique_ptr<Operation> ReadReduce(Reader& reader) {
  Expression body = reader.Read<Expression>();
  const auto mask = reader.Read<std::uint32_t>();
  try {
    return std::make_unique<ReduceOperation>(std::move(body), mask);
  } catch (const std::invalid_argument& error) {
    reader.Fail(error.what());
  }
}

}  // namespace ipu_model

namespace hlo {

std::vector<poplar::Tensor> reduce(poplar::Graph& graph, const std::vector<poplar::Tensor>& tensors,
                                   const std::vector<poplar::Tensor>& inits,
                                   const std::vector<std::size_t>& dims, const ipu_model::Expression& body,
                                   poplar::program::Sequence& prog, const poplar::DebugContext& debugContext,
                                   bool unrounded) {
  using namespace ipu_model;
  const std::string& name = debugContext.getPathName();
  if (tensors.empty() || inits.size() != tensors.size() || body.outputs.size() != tensors.size())
    throw poplar::poplar_error(name + ": reduce needs one init and one result of its body for each operand");
  std::uint32_t mask = 0;
  for (const std::size_t d : dims) {
    if (d >= tensors[0].rank() || (mask >> d & 1) != 0)
      throw poplar::poplar_error(name + ": reduce over dimension " + std::to_string(d) +
                                 " of a tensor of shape " + tensors[0].shapeToString());
    mask |= 1u << d;
  }
  auto operation = MakeReduce(body, mask, name);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].shape() != tensors[0].shape() || inits[i].numElements() != 1 ||
        tensors[i].elementType().id() != body.inputs[i] || inits[i].elementType().id() != body.inputs[i])
      throw poplar::poplar_error(
          name + ": reduce operand " + std::to_string(i) + " of type " + tensors[i].elementType().toString() +
          " and shape " + tensors[i].shapeToString() + " does not match the body's type " +
          NameOf(body.inputs[i]) + ", its init or the shape " + tensors[0].shapeToString());
  }
  Shape shape;
  for (std::size_t d = 0; d < tensors[0].rank(); ++d)
    if (!IsReduced(mask, d))
      shape.push_back(static_cast<std::int64_t>(tensors[0].dim(static_cast<unsigned>(d))));
  operation->name = name;
  for (const poplar::Tensor& t : tensors)
    operation->inputs.push_back(StridedView(graph, t, prog, {debugContext, "operand"}));
  for (const poplar::Tensor& t : inits)
    operation->inputs.push_back(StridedView(graph, t.reshape({}), prog, {debugContext, "init"}));
  const Mapping mapping = ResultMapping(graph, operation->inputs[0], mask, body.inputs[0], shape);
  std::vector<poplar::Tensor> results;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const DType type = unrounded ? operation->PartialType(static_cast<unsigned>(i)) : body.inputs[i];
    results.push_back(NewTensor(graph, type, shape, mapping, name));
    View& view = operation->outputs.emplace_back();
    results.back().asView(&view);
  }
  if (NumElements(shape) > 0) AddOperation(prog, std::move(operation));
  return results;
}

}  // namespace hlo
