// Dynamic slice and dynamic update slice.
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "core/graph/expandable.h"
#include "core/graph/graph_impl.h"
#include "core/operation/operand_check.h"
#include "core/operation/serialise.h"
#include "core/target/target_model.h"
#include "core/vertices/limits_buffers.h"
#include "hlo/Index.hpp"
#include "kernels/copy/slice.h"
#include "kernels/copy/strided_copy.h"
#include "operations/data_views.h"
#include "operations/index/gather_plan.h"
#include "operations/index/index_cost.h"
#include "operations/index/long_slice_plan.h"
#include "operations/index/slice_grid.h"
#include "operations/readers.h"
#include "poplar/exceptions.hpp"
#include "popops/DynamicSlice.hpp"

namespace ipu_model {
namespace {

// Whether `slice` can be one of the first operand, with the starts from `first` on.
bool SliceFits(const std::vector<View>& inputs, std::size_t first, const View& slice) {
  if (inputs.empty()) return false;
  const std::size_t rank = inputs[0].shape.size();
  if (inputs.size() != first + rank || slice.shape.size() != rank || slice.type != inputs[0].type)
    return false;
  for (std::size_t d = 0; d < rank; ++d) {
    const View& start = inputs[first + d];
    if (slice.shape[d] > inputs[0].shape[d] || !IsScalar(start) || !IsInteger(start.type)) return false;
  }
  return true;
}

// inputs: operand, one scalar start per dimension; outputs: slice.
class DynamicSliceOperation : public Operation, public LimitsBuffers, public Expandable {
 public:
  explicit DynamicSliceOperation(std::int64_t buffer_limit = 0) { limit_ = buffer_limit; }

  std::string_view kind() const override { return "popops::dynamicSlice"; }
  void Write(Writer& writer) const override { writer.Write(limit_); }
  bool OperandsFit(unsigned /*num_tiles*/) const override {
    return outputs.size() == 1 && SliceFits(inputs, 1, outputs[0]);
  }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    DynamicSlice(context, in[0], in.data() + 1, out[0]);
  }
  std::unique_ptr<BoundKernel> Bind(const std::vector<HostTensor>& in,
                                    const std::vector<HostTensor>& out) const override {
    return BindDynamicSlice(in.data(), out[0]);
  }

  TilePlan Plan(const DeviceContext& context) const override {
    if (IsLong(context.target(), context.num_tiles())) return PlanLong(context.num_tiles()).plan;
    return PlanGather(MakeProblem(&context.mapping(inputs[0].variable)), context.target(),
                      context.num_tiles());
  }

  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    const poplar::Target& target = graph.getTarget();
    const unsigned tiles = target.getNumTiles();
    const std::vector<poplar::Tensor> reads = InputsBesideOutputs(*this, graph, in, prog);
    if (IsLong(target.model(), tiles)) {
      library.longSlice(graph, reads[0], {reads.begin() + 1, reads.end()}, out[0],
                        {PlanOf(*this, graph), PlanLong(tiles).digits}, prog, name);
      return;
    }
    const GatherProblem problem = MakeProblem(&graph.impl().variables[inputs[0].variable].mapping);
    hlo::GatherPlan plan = DescribeGather(problem, target.model(), tiles);
    plan.plan = PlanOf(*this, graph);
    library.dynamicSlice(graph, reads[0], {reads.begin() + 1, reads.end()}, out[0], plan, prog, name);
  }

  Grid OutputGrid(const TargetModel& target, unsigned num_tiles, const Mapping& mapping) const {
    if (IsLong(target, num_tiles)) return SpreadGrid(outputs[0].shape, inputs[0].type, num_tiles);
    return GatherOutputGrid(MakeProblem(&mapping), target, num_tiles);
  }

 private:
  bool IsLong(const TargetModel& target, unsigned num_tiles) const {
    return IsLongSlice(inputs[0].shape, outputs[0].shape, inputs[0].type, target, num_tiles);
  }
  LongSlice PlanLong(unsigned num_tiles) const {
    return PlanLongSlice(inputs[0].shape, outputs[0].shape, inputs[0].type, num_tiles, limit_);
  }

  // Describes the slice as a gather of one window, whose start vector consists of scalars.
  GatherProblem MakeProblem(const Mapping* mapping) const {
    GatherProblem problem;
    const std::int64_t rank = static_cast<std::int64_t>(inputs[0].shape.size());
    WindowDims dims;
    for (std::int64_t d = 0; d < rank; ++d) {
      dims.offset_dims.push_back(d);
      dims.start_index_map.push_back(d);
    }
    problem.window = IndexedWindow::Resolve(dims, static_cast<int>(rank), 1, static_cast<int>(rank));
    problem.type = inputs[0].type;
    problem.index_type = rank > 0 ? inputs[1].type : DType::kS32;
    problem.operand = inputs[0].shape;
    problem.indices = {rank};
    problem.out = problem.slice_sizes = outputs[0].shape;
    problem.scalar_starts = true;
    problem.codelet = "popops::DynamicSlice";
    problem.view = inputs[0];
    problem.mapping = mapping;
    problem.buffer_limit = limit_;
    return problem;
  }
};

// inputs: operand, update, one scalar start per dimension; outputs: operand with the update.
class DynamicUpdateOperation : public Operation, public LimitsBuffers, public Expandable {
 public:
  explicit DynamicUpdateOperation(std::int64_t buffer_limit = 0) { limit_ = buffer_limit; }

  std::string_view kind() const override { return "popops::dynamicUpdate"; }
  void Write(Writer& writer) const override { writer.Write(limit_); }
  bool OperandsFit(unsigned /*num_tiles*/) const override {
    return outputs.size() == 1 && inputs.size() >= 2 && SliceFits(inputs, 2, inputs[1]) &&
           outputs[0].shape == inputs[0].shape && outputs[0].type == inputs[0].type;
  }
  bool CanAlias(unsigned, unsigned input) const override { return input == 0; }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    DynamicUpdateSlice(context, in[0], in[1], in.data() + 2, out[0]);
  }
  std::unique_ptr<BoundKernel> Bind(const std::vector<HostTensor>& in,
                                    const std::vector<HostTensor>& out) const override {
    return BindDynamicUpdateSlice(in.data(), out[0], IsInPlace(*this, 0));
  }

  // Every tile updates the part of the result that it holds; the update's sliced dimensions are sent to all
  // tiles.
  TilePlan Plan(const DeviceContext& context) const override {
    const Shape operand = outputs[0].shape, update = inputs[1].shape;
    const DType type = outputs[0].type;
    const Mapping& mapping = context.mapping(outputs[0].variable);
    if (IsLong(context.target(), context.num_tiles())) return PlanLong(mapping, context.num_tiles()).plan;
    const auto update_region = [operand, update](const Box& box) {
      Box region = box;
      for (std::size_t d = 0; d < operand.size(); ++d) {
        if (update[d] < operand[d]) {
          region.begin[d] = 0;
          region.end[d] = update[d];
        }
      }
      return region;
    };
    VertexGroup group;
    group.codelet = "popops::DynamicUpdateSlice";
    group.vertices = mapping.VerticesOver(outputs[0], context.num_tiles());
    group.code_bytes = 300;
    group.vertex_bytes = 28;
    const auto identity = [](const Box& box) { return box; };
    group.reads.push_back({{OperandRef::Kind::kInput, 0}, identity});
    group.reads.push_back({{OperandRef::Kind::kInput, 1}, update_region});
    for (unsigned d = 0; d < operand.size(); ++d) {
      group.reads.push_back({{OperandRef::Kind::kInput, 2 + d}, [](const Box&) { return Box{}; }});
    }
    group.writes.push_back({{OperandRef::Kind::kOutput, 0}, identity});
    group.compute = [operand, update](HostContext& host, const Box& box, const std::vector<HostTensor>& reads,
                                      const std::vector<HostTensor>& writes) {
      CopyTensor(host, reads[0], writes[0]);
      std::int64_t to[kMaxRank], from[kMaxRank], extent[kMaxRank];
      for (std::size_t d = 0; d < operand.size(); ++d) {
        const bool sliced = update[d] < operand[d];
        const std::int64_t start = std::clamp<std::int64_t>(ReadIndex(reads[2 + d].type, reads[2 + d].data),
                                                            0, operand[d] - update[d]);
        // position of the local update in the operand
        const std::int64_t first = sliced ? start : box.begin[d];
        const std::int64_t low = std::max(first, box.begin[d]);
        const std::int64_t high = std::min(first + reads[1].shape[d], box.end[d]);
        if (high <= low) return;
        to[d] = low - box.begin[d];
        from[d] = low - first;
        extent[d] = high - low;
      }
      CopyTensor(host, SubTensor(reads[1], from, extent), SubTensor(writes[0], to, extent));
    };
    group.cycles = [update_region, type](const TargetModel& target, const Box& box) {
      return DynamicSliceCycles(target, type,
                                std::min(box.num_elements(), update_region(box).num_elements()));
    };
    TilePlan plan;
    plan.supersteps.push_back({{std::move(group)}});
    return plan;
  }

  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    const poplar::Target& target = graph.getTarget();
    const std::vector<poplar::Tensor> reads = InputsBesideOutputs(*this, graph, in, prog);
    const unsigned tiles = target.getNumTiles();
    if (IsLong(target.model(), tiles)) {
      library.longUpdate(
          graph, reads[0], reads[1], {reads.begin() + 2, reads.end()}, out[0], IsInPlace(*this, 0),
          {PlanOf(*this, graph), PlanLong(graph.impl().variables[outputs[0].variable].mapping, tiles).digits},
          prog, name);
      return;
    }
    library.dynamicUpdateSlice(graph, reads[0], reads[1], {reads.begin() + 2, reads.end()}, out[0],
                               IsInPlace(*this, 0), prog, name);
  }

 private:
  bool IsLong(const TargetModel& target, unsigned num_tiles) const {
    return IsLongSlice(inputs[0].shape, inputs[1].shape, inputs[0].type, target, num_tiles);
  }
  LongSlice PlanLong(const Mapping& mapping, unsigned num_tiles) const {
    return PlanLongUpdate(inputs[0].shape, inputs[1].shape, inputs[0].type,
                          mapping.VerticesOver(outputs[0], num_tiles), num_tiles, limit_);
  }
};

void CheckSlice(const poplar::Tensor& operand, const std::vector<poplar::Tensor>& starts,
                const std::vector<std::size_t>& sizes, const char* what,
                const poplar::DebugContext& debug_context) {
  const std::string& name = debug_context.getPathName();
  if (starts.size() != operand.rank() || sizes.size() != operand.rank()) {
    throw poplar::poplar_error(name + ": " + what + " needs one start and one size per dimension");
  }
  for (unsigned d = 0; d < operand.rank(); ++d) {
    if (sizes[d] > operand.dim(d)) {
      throw poplar::poplar_error(name + ": " + what + " of " + std::to_string(sizes[d]) +
                                 " elements from dimension " + std::to_string(d) + " of " +
                                 operand.shapeToString());
    }
    if (starts[d].numElements() != 1 || !IsInteger(starts[d].elementType().id())) {
      throw poplar::poplar_error(name + ": " + what + " starts must be integer scalars");
    }
  }
}

// The grid of a tensor of which slices of `window` are taken, on at most `most` tiles.
Grid SlicedGrid(const Shape& whole, const Shape& window, DType type, const poplar::Target& target,
                std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  const auto tiles = static_cast<unsigned>(std::min<std::int64_t>(most, target.getNumTiles()));
  if (IsLongSlice(whole, window, type, target.model(), target.getNumTiles()))
    return SpreadGrid(whole, type, tiles);
  std::vector<bool> sliced;
  for (std::size_t d = 0; d < whole.size(); ++d) sliced.push_back(window[d] < whole[d]);
  return SliceGrid(whole, sliced, type, tiles, SliceBudget(target.getBytesPerTile()));
}

View ScalarView(poplar::Graph& graph, const poplar::Tensor& start, poplar::program::Sequence& prog,
                const poplar::DebugContext& debug_context) {
  return StridedView(graph, start.reshape({}), prog, {debug_context, "start"});
}

}  // namespace

std::unique_ptr<Operation> ReadDynamicSlice(Reader& reader) {
  return std::make_unique<DynamicSliceOperation>(LimitsBuffers::ReadLimit(reader));
}
std::unique_ptr<Operation> ReadDynamicUpdate(Reader& reader) {
  return std::make_unique<DynamicUpdateOperation>(LimitsBuffers::ReadLimit(reader));
}

}  // namespace ipu_model

namespace hlo {

poplar::Tensor dynamicSlice(poplar::Graph& graph, const poplar::Tensor& operand,
                            const std::vector<poplar::Tensor>& starts, const std::vector<std::size_t>& sizes,
                            poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  CheckSlice(operand, starts, sizes, "dynamic_slice", debugContext);
  auto operation = std::make_unique<DynamicSliceOperation>();
  operation->name = debugContext.getPathName();
  operation->inputs.push_back(StridedView(graph, operand, prog, {debugContext, "operand"}));
  for (const poplar::Tensor& start : starts) {
    operation->inputs.push_back(ScalarView(graph, start, prog, debugContext));
  }
  View& view = operation->outputs.emplace_back();
  view.shape.assign(sizes.begin(), sizes.end());
  const poplar::Target& target = graph.getTarget();
  const ipu_model::Grid grid = operation->OutputGrid(
      target.model(), target.getNumTiles(), graph.impl().variables[operation->inputs[0].variable].mapping);
  // Allocate the variable in the result's shape: the grid may cut one of its dimensions into two.
  const poplar::Tensor result =
      NewTensor(graph, operand.elementType().id(), view.shape, Mapping(grid), operation->name);
  result.asView(&view);
  AddOperation(prog, std::move(operation));
  return result;
}

poplar::Tensor dynamicUpdateSlice(poplar::Graph& graph, const poplar::Tensor& operand,
                                  const poplar::Tensor& update, const std::vector<poplar::Tensor>& starts,
                                  poplar::program::Sequence& prog, bool inPlace,
                                  const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  CheckSlice(operand, starts, update.shape(), "dynamic_update_slice", debugContext);
  auto operation = std::make_unique<DynamicUpdateOperation>();
  operation->name = debugContext.getPathName();
  poplar::Tensor result = operand;
  View out;
  if (inPlace) {
    out = InPlaceView(operand, debugContext);
    operation->inputs.push_back(out);
  } else {
    operation->inputs.push_back(StridedView(graph, operand, prog, {debugContext, "operand"}));
    const poplar::Target& target = graph.getTarget();
    result = NewTensorLike(graph, operation->inputs[0],
                           SlicedGrid(ShapeOf(operand), ShapeOf(update), operand.elementType().id(), target),
                           operation->name);
    result.asView(&out);
  }
  operation->outputs.push_back(std::move(out));
  operation->inputs.push_back(StridedView(graph, update, prog, {debugContext, "update"}));
  for (const poplar::Tensor& start : starts) {
    operation->inputs.push_back(ScalarView(graph, start, prog, debugContext));
  }
  AddOperation(prog, std::move(operation));
  return result;
}

}  // namespace hlo

namespace popops {
namespace {

// PopLibs gives starts for some dimensions only. The other dimensions are whole and start at 0.
void ExpandStarts(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& offset,
                  const std::vector<std::size_t>& dims, const std::vector<std::size_t>& sizes,
                  std::vector<poplar::Tensor>* starts, std::vector<std::size_t>* all_sizes) {
  if (dims.size() != sizes.size() || offset.numElements() != dims.size()) {
    throw poplar::poplar_error("dynamicSlice: offset, dims and sizes differ in length");
  }
  const std::int32_t zero = 0;
  const poplar::Tensor start_zero = graph.addConstant(poplar::INT, {}, &zero, "start");
  graph.setTileMapping(start_zero, 0);
  starts->assign(t.rank(), start_zero);
  *all_sizes = t.shape();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    starts->at(dims[i]) = offset.flatten()[i];
    all_sizes->at(dims[i]) = sizes[i];
  }
}

ipu_model::WindowDims MultiSliceDims(const poplar::Tensor& t, const std::vector<std::size_t>& dims) {
  ipu_model::WindowDims window;
  for (unsigned d = 0; d < t.rank(); ++d) window.offset_dims.push_back(d + 1);
  window.start_index_map.assign(dims.begin(), dims.end());
  window.index_vector_dim = 1;
  return window;
}

ipu_model::Expression UpdateExpression(poplar::Type type, bool add) {
  ipu_model::Expression update;
  update.inputs = {type.id(), type.id()};
  if (add) {
    ipu_model::Instruction sum;
    sum.op = ipu_model::ScalarOp::kAdd;
    sum.operand_type = sum.result_type = type.id();
    sum.operand[1] = 1;
    update.code.push_back(sum);
  }
  update.outputs = {static_cast<std::uint16_t>(add ? 2 : 1)};
  return update;
}

}  // namespace

poplar::Tensor createSliceableTensor(poplar::Graph& graph, const poplar::Type& type,
                                     const std::vector<std::size_t>& shape,
                                     const std::vector<std::size_t>& dims,
                                     const std::vector<std::size_t>& sizes, std::size_t minGrainSize,
                                     const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  if (dims.size() != sizes.size()) {
    throw poplar::poplar_error(debugContext.getPathName() + ": createSliceableTensor needs one size per dim");
  }
  const poplar::Target& target = graph.getTarget();
  const Shape extents(shape.begin(), shape.end());
  Shape window = extents;
  for (std::size_t i = 0; i < dims.size(); ++i) window.at(dims[i]) = static_cast<std::int64_t>(sizes[i]);
  std::int64_t free = 1;
  for (std::size_t d = 0; d < shape.size(); ++d)
    free *= window[d] < extents[d] ? 1 : std::max<std::int64_t>(1, extents[d]);
  const std::int64_t most = minGrainSize == 0
                                ? target.getNumTiles()
                                : std::max<std::int64_t>(1, free / static_cast<std::int64_t>(minGrainSize));
  Grid grid = SlicedGrid(extents, window, type.id(), target, most);
  grid.num_tiles = target.getNumTiles();
  grid.first_tile = FirstTile(graph);
  return NewTensor(graph, type.id(), extents, Mapping(grid), debugContext.getPathName());
}

poplar::Tensor dynamicSlice(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& offset,
                            const std::vector<std::size_t>& dims, const std::vector<std::size_t>& sizes,
                            poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  std::vector<poplar::Tensor> starts;
  std::vector<std::size_t> all_sizes;
  ExpandStarts(graph, t, offset, dims, sizes, &starts, &all_sizes);
  return hlo::dynamicSlice(graph, t, starts, all_sizes, prog, debugContext);
}

void dynamicUpdate(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& s,
                   const poplar::Tensor& offset, const std::vector<std::size_t>& dims,
                   const std::vector<std::size_t>& sizes, poplar::program::Sequence& prog,
                   const poplar::DebugContext& debugContext) {
  std::vector<poplar::Tensor> starts;
  std::vector<std::size_t> all_sizes;
  ExpandStarts(graph, t, offset, dims, sizes, &starts, &all_sizes);
  hlo::dynamicUpdateSlice(graph, t, s, starts, prog, true, debugContext);
}

poplar::Tensor multiSlice(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& offsets,
                          const std::vector<std::size_t>& dims, const std::vector<std::size_t>& sizes,
                          poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  std::vector<std::size_t> slice_sizes = t.shape();
  for (std::size_t i = 0; i < dims.size(); ++i) slice_sizes.at(dims[i]) = sizes.at(i);
  return hlo::gather(graph, t, offsets, MultiSliceDims(t, dims), slice_sizes, prog, debugContext);
}

void multiUpdate(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& s,
                 const poplar::Tensor& offsets, const std::vector<std::size_t>& dims,
                 const std::vector<std::size_t>&, poplar::program::Sequence& prog,
                 const poplar::DebugContext& debugContext) {
  hlo::scatter(graph, {t}, offsets, {s}, MultiSliceDims(t, dims), false,
               UpdateExpression(t.elementType(), false), prog, true, debugContext);
}

void multiUpdateAdd(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& s,
                    const poplar::Tensor& offsets, const std::vector<std::size_t>& dims,
                    const std::vector<std::size_t>&, poplar::program::Sequence& prog,
                    const poplar::DebugContext& debugContext) {
  hlo::scatter(graph, {t}, offsets, {s}, MultiSliceDims(t, dims), false,
               UpdateExpression(t.elementType(), true), prog, true, debugContext);
}

}  // namespace popops
