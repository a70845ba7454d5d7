// reduce_window: pooling, cumulative operations and all other window reductions.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "core/graph/expandable.h"
#include "core/graph/graph_impl.h"
#include "core/operation/operand_check.h"
#include "core/operation/serialise.h"
#include "core/target/target_model.h"
#include "hlo/Window.hpp"
#include "kernels/window/window.h"
#include "operations/arithmetic.h"
#include "operations/data_views.h"
#include "operations/readers.h"
#include "operations/window/cumulative_plan.h"
#include "operations/window/window_cost.h"
#include "operations/window/window_plan.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

constexpr std::uint64_t kVertexBytes = 48;  // pointers, window bounds and counts (model estimate)

// The data that the vertices share.
struct Reduction {
  WindowGeometry geometry;
  Expression combiner;
  ReduceWindowKernel kernel;
  ElementwiseCost cost;
  Shape operand;
  WindowCombiner kind;
  int channels;

  Reduction(const WindowGeometry& g, const Expression& e, Shape operand_shape, const View& result)
      : geometry(g),
        combiner(e),
        kernel(e),
        cost(e),
        operand(std::move(operand_shape)),
        kind(ClassifyCombiner(e)),
        channels(ChannelsOf(g, result)) {}

  Box OperandRegion(const Box& box) const {
    Box region = box;
    for (std::size_t d = 0; d < operand.size(); ++d) {
      const WindowRange range = OperandRange(geometry.dim[d], box.begin[d], box.end[d], operand[d]);
      region.begin[d] = range.begin;
      region.end[d] = range.end;
    }
    return region;
  }

  // Returns the geometry of a vertex on its local copies.
  WindowGeometry Local(const Box& box) const {
    WindowGeometry local = geometry;
    for (std::size_t d = 0; d < operand.size(); ++d) {
      WindowDimension& w = local.dim[d];
      const WindowRange range = OperandRange(geometry.dim[d], box.begin[d], box.end[d], operand[d]);
      w.padding_low += range.begin * w.base_dilation - box.begin[d] * w.stride;
    }
    return local;
  }

  std::uint64_t Cycles(const TargetModel& target, const Box& box) const {
    bool pooling = kind != WindowCombiner::kOther && cost.vector_type() != DType::kPred;
    for (std::size_t d = 0; d < operand.size(); ++d)
      pooling = pooling && !IsRunning(geometry.dim[d], operand[d]);
    if (!pooling) return WindowCycles(target, cost, Values(box), box.num_elements());
    const bool sum = kind == WindowCombiner::kAdd || kind == WindowCombiner::kMultiply;
    return PoolingCycles(target, sum ? Pooling::kSum : Pooling::kMax, cost.vector_type(),
                         PoolingShapeOf(geometry, operand, box, channels, /*gradient=*/false));
  }

  // Returns the number of elements that the vertex combines.
  std::int64_t Values(const Box& box) const {
    double values = static_cast<double>(box.num_elements());
    double scanned = values;
    for (std::size_t d = 0; d < operand.size(); ++d) {
      const WindowDimension& w = geometry.dim[d];
      const WindowRange range = OperandRange(w, box.begin[d], box.end[d], operand[d]);
      const double met = static_cast<double>(std::min(w.size, range.end - range.begin));
      values *= met;
      // A running result visits every element once.
      scanned *= IsRunning(w, operand[d]) ? static_cast<double>(range.end - range.begin) /
                                                static_cast<double>(box.end[d] - box.begin[d])
                                          : met;
    }
    return static_cast<std::int64_t>(std::min(values, scanned));
  }
};

// inputs: n operands, n scalar inits; outputs: n results.
class ReduceWindowOperation : public Operation, public Expandable {
 public:
  ReduceWindowOperation(const WindowGeometry& geometry, Expression combiner, Grid split)
      : geometry_(geometry), combiner_(std::move(combiner)), split_(std::move(split)) {}

  std::string_view kind() const override { return "hlo::reduceWindow"; }

  bool OperandsFit(unsigned num_tiles) const override {
    const std::size_t n = combiner_.outputs.size();
    if (!HasOperands(*this, 2 * n, n) || !SameShapes(inputs, 0, n) || !SameShapes(outputs, 0, n) ||
        !WindowsFit(geometry_, inputs[0].shape, outputs[0].shape))
      return false;
    bool fits = IsSplitOf(split_, outputs[0].shape, num_tiles);
    for (std::size_t i = 0; i < n; ++i) {
      fits = fits && IsScalar(inputs[n + i]) && combiner_.inputs[n + i] == inputs[i].type &&
             combiner_.inputs[i] == inputs[n + i].type && outputs[i].type == combiner_.inputs[i] &&
             combiner_.TypeOf(combiner_.outputs[i]) == combiner_.inputs[i];
    }
    return fits;
  }
  void Write(Writer& writer) const override {
    WriteWindow(writer, geometry_);
    writer.Write(combiner_);
    writer.Write(split_);
  }

  void Prepare() override { kernel_ = std::make_unique<ReduceWindowKernel>(combiner_); }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    kernel_->Run(context, geometry_, in, out);
  }

  double flops() const override {
    bool backwards = false;
    const int scan = FindScan(geometry_, inputs[0].shape.data(), outputs[0].shape.data(), &backwards);
    double steps = 1;
    for (int d = 0; d < geometry_.rank && scan < 0; ++d) {
      steps *=
          static_cast<double>(std::min(geometry_.dim[d].size, inputs[0].shape[static_cast<std::size_t>(d)]));
    }
    if (scan < 0) steps = std::max(0.0, steps - 1);
    return static_cast<double>(outputs[0].num_elements()) * ArithmeticOf(combiner_) * steps;
  }

  TilePlan Plan(const DeviceContext& context) const override {
    TilePlan plan;
    if (outputs[0].num_elements() == 0) return plan;
    bool backwards = false;
    const int scan = FindScan(geometry_, inputs[0].shape.data(), outputs[0].shape.data(), &backwards);
    if (scan >= 0 && split_.parts[static_cast<std::size_t>(scan)] > 1 && MayBeCut(combiner_)) {
      return CumulativePlan(context.target(), combiner_, split_, scan, backwards);
    }
    const auto shared = std::make_shared<const Reduction>(geometry_, combiner_, inputs[0].shape, outputs[0]);
    const auto n = static_cast<unsigned>(outputs.size());
    VertexGroup group;
    group.codelet = shared->kind == WindowCombiner::kOther ? "hlo::ReduceWindow" : "popnn::Pool";
    group.codelet += std::string("<") + NameOf(inputs[0].type) + ">";
    group.vertices = split_.Vertices();
    for (unsigned i = 0; i < 2 * n; ++i) {
      if (i < n) {
        group.reads.push_back(
            {{OperandRef::Kind::kInput, i}, [shared](const Box& box) { return shared->OperandRegion(box); }});
      } else {
        group.reads.push_back({{OperandRef::Kind::kInput, i}, [](const Box&) { return Box{}; }});
      }
    }
    for (unsigned i = 0; i < n; ++i) {
      group.writes.push_back({{OperandRef::Kind::kOutput, i}, [](const Box& box) { return box; }, true});
    }
    group.compute = [shared](HostContext& host, const Box& box, const std::vector<HostTensor>& reads,
                             const std::vector<HostTensor>& writes) {
      shared->kernel.Run(host, shared->Local(box), reads, writes);
    };
    group.cycles = [shared](const TargetModel& target, const Box& box) {
      return shared->Cycles(target, box);
    };
    group.code_bytes = shared->cost.CodeBytes(context.target());
    group.vertex_bytes = kVertexBytes;
    plan.supersteps.push_back({{std::move(group)}});
    return plan;
  }

  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    const std::vector<poplar::Tensor> reads = InputsBesideOutputs(*this, graph, in, prog);
    const auto n = static_cast<std::ptrdiff_t>(outputs.size());
    hlo::Running running{-1, false, false};
    running.dimension =
        FindScan(geometry_, inputs[0].shape.data(), outputs[0].shape.data(), &running.backwards);
    running.rounds = running.dimension >= 0 && geometry_.dim[running.dimension].size <= kLongestRoundedScan;
    library.reduceWindow(graph, {reads.begin(), reads.begin() + n}, {reads.begin() + n, reads.end()},
                         geometry_, running, combiner_, out, PlanOf(*this, graph), prog, name);
  }

 private:
  WindowGeometry geometry_;
  Expression combiner_;
  Grid split_;
  std::unique_ptr<ReduceWindowKernel> kernel_;
};

}  // namespace

std::unique_ptr<Operation> ReadReduceWindow(Reader& reader) {
  const WindowGeometry geometry = ReadWindow(reader);
  Expression combiner = reader.Read<Expression>();
  if (combiner.outputs.empty() || combiner.inputs.size() != 2 * combiner.outputs.size()) {
    reader.Fail("a window combiner needs an accumulator and a value for every result");
  }
  return std::make_unique<ReduceWindowOperation>(geometry, std::move(combiner), reader.Read<Grid>());
}

}  // namespace ipu_model

namespace hlo {

using namespace ipu_model;

std::vector<poplar::Tensor> reduceWindow(poplar::Graph& graph, const std::vector<poplar::Tensor>& tensors,
                                         const std::vector<poplar::Tensor>& inits,
                                         const WindowParameters& params, const Expression& combiner,
                                         poplar::program::Sequence& prog,
                                         const poplar::DebugContext& debugContext) {
  const std::size_t n = tensors.size();
  const std::string& name = debugContext.getPathName();
  if (n == 0 || inits.size() != n || combiner.inputs.size() != 2 * n || combiner.outputs.size() != n) {
    throw poplar::poplar_error(
        name + ": reduce_window of " + std::to_string(n) +
        " tensors needs as many inits and combiner outputs, and two combiner inputs each");
  }
  for (std::size_t i = 0; i < n; ++i) {
    const DType result = combiner.TypeOf(combiner.outputs[i]);
    if (tensors[i].shape() != tensors[0].shape() || inits[i].numElements() != 1 ||
        combiner.inputs[n + i] != tensors[i].elementType().id() ||
        combiner.inputs[i] != inits[i].elementType().id() || result != combiner.inputs[i]) {
      throw poplar::poplar_error(name + ": operand " + std::to_string(i) +
                                 " of reduce_window does not fit the first operand's shape, its init or the "
                                 "combiner's types");
    }
  }
  const std::vector<std::size_t> out = windowOutputShape(tensors[0].shape(), params);
  std::vector<View> inputs;
  for (const poplar::Tensor& t : tensors)
    inputs.push_back(StridedView(graph, t, prog, {debugContext, "operand"}));
  for (const poplar::Tensor& t : inits) {
    inputs.push_back(StridedView(graph, t.reshape({}), prog, {debugContext, "init"}));
  }
  std::vector<std::int64_t> halo;
  for (int d = 0; d < params.geometry.rank; ++d) {
    const WindowDimension& w = params.geometry.dim[d];
    halo.push_back((w.size - 1) * w.window_dilation);
  }
  const Shape shape(out.begin(), out.end());
  bool backwards = false;
  const int scan = FindScan(params.geometry, inputs[0].shape.data(), shape.data(), &backwards);
  const poplar::Target& target = graph.getTarget();
  const std::vector<std::int64_t> order = MemoryOrder(inputs[0]);
  const auto width = static_cast<std::int64_t>(target.model().VectorWidth(inputs[0].type));
  if (scan >= 0 && MayBeCut(combiner)) {
    const auto d = static_cast<std::size_t>(scan);
    const std::int64_t lines =
        order.back() == scan ? 1 : std::min(width, NumElements(shape) / std::max<std::int64_t>(1, shape[d]));
    halo[d] = CumulativeHalo(target.model(), combiner, shape[d], lines, halo[d]);
  }
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < n; ++i) bytes += static_cast<std::int64_t>(2 * SizeOf(inputs[i].type));
  const ipu_model::Grid split = SplitForWindows(shape, halo, order, width, target.getNumTiles(), bytes,
                                                target.model().bytes_per_tile / 2);
  auto operation = std::make_unique<ReduceWindowOperation>(params.geometry, combiner, split);
  operation->name = name;
  operation->inputs = std::move(inputs);
  std::vector<poplar::Tensor> results;
  for (std::size_t i = 0; i < n; ++i) {
    results.push_back(NewInOrder(graph, combiner.inputs[i], split, order, name));
    results.back().asView(&operation->outputs.emplace_back());
  }
  AddOperation(prog, std::move(operation));
  return results;
}

}  // namespace hlo
