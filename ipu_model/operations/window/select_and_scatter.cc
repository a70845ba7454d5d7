// select_and_scatter: the gradient of max pooling, and its general form.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "core/graph/expandable.h"
#include "core/graph/graph_impl.h"
#include "core/operation/operand_check.h"
#include "core/operation/serialise.h"
#include "core/target/target_model.h"
#include "hlo/Window.hpp"
#include "kernels/copy/strided_copy.h"
#include "kernels/elementwise/fill.h"
#include "kernels/window/window.h"
#include "operations/data_views.h"
#include "operations/readers.h"
#include "operations/window/window_cost.h"
#include "operations/window/window_plan.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

constexpr std::uint64_t kVertexBytes = 56;  // pointers, window bounds and counts (model estimate)

bool TakesTwo(const Expression& e, DType type, DType result);

bool IsComparison(const Expression& e, ScalarOp one, ScalarOp other) {
  return e.code.size() == 1 && (e.code[0].op == one || e.code[0].op == other);
}

// The data that the vertices share. A vertex computes a box of the result. It needs every window that may
// select an element inside the box, and the operand elements of those windows.
struct Scattering {
  WindowGeometry geometry;
  SelectAndScatterKernel kernel;
  ElementwiseCost select, scatter;
  bool maximum;  // of max pooling: the gradient of sums of floats
  DType type;
  Shape operand, source;
  int channels;

  Scattering(const WindowGeometry& g, const Expression& select_body, const Expression& scatter_body,
             const View& result, Shape operand_shape, Shape source_shape)
      : geometry(g),
        kernel(select_body, scatter_body),
        select(select_body),
        scatter(scatter_body),
        maximum(IsComparison(select_body, ScalarOp::kGe, ScalarOp::kGt) && scatter.is_sum() &&
                scatter.vector_type() != DType::kPred),
        type(result.type),
        operand(std::move(operand_shape)),
        source(std::move(source_shape)),
        channels(ChannelsOf(g, result)) {}

  Box SourceRegion(const Box& box) const {
    Box region = box;
    for (std::size_t d = 0; d < source.size(); ++d) {
      const WindowRange range = WindowsMeeting(geometry.dim[d], box.begin[d], box.end[d], source[d]);
      region.begin[d] = range.begin;
      region.end[d] = range.end;
    }
    return region;
  }
  Box OperandRegion(const Box& box) const {
    Box region = SourceRegion(box);
    // There is no window: the result is init.
    if (region.num_elements() == 0) return {Shape(operand.size(), 0), Shape(operand.size(), 0)};
    for (std::size_t d = 0; d < operand.size(); ++d) {
      const WindowRange range = OperandRange(geometry.dim[d], region.begin[d], region.end[d], operand[d]);
      region.begin[d] = range.begin;
      region.end[d] = range.end;
    }
    return region;
  }

  void Compute(HostContext& context, const Box& box, const std::vector<HostTensor>& reads,
               const HostTensor& out) const {
    const Box windows = SourceRegion(box), field = OperandRegion(box);
    if (windows.num_elements() == 0 || field.num_elements() == 0) return Fill(context, reads[2].data, out);
    WindowGeometry local = geometry;
    for (std::size_t d = 0; d < operand.size(); ++d) {
      local.dim[d].padding_low += field.begin[d] - windows.begin[d] * geometry.dim[d].stride;
    }
    if (field.begin == box.begin && field.end == box.end) return kernel.Run(context, local, reads, out);
    // Windows at the border also scatter outside the box; other vertices compute that part.
    HostTensor whole = reads[0];
    whole.data =
        context.scratch.Allocate(static_cast<std::size_t>(whole.num_elements()) * SizeOf(whole.type));
    kernel.Run(context, local, reads, whole);
    Fill(context, reads[2].data, out);
    Shape from, to, size;
    for (std::size_t d = 0; d < operand.size(); ++d) {
      const std::int64_t begin = std::max(box.begin[d], field.begin[d]);
      const std::int64_t end = std::max(begin, std::min(box.end[d], field.end[d]));
      from.push_back(begin - field.begin[d]);
      to.push_back(begin - box.begin[d]);
      size.push_back(end - begin);
    }
    if (NumElements(size) == 0) return;
    CopyTensor(context, SubTensor(whole, from.data(), size.data()), SubTensor(out, to.data(), size.data()));
  }

  std::uint64_t Cycles(const TargetModel& target, const Box& box) const {
    if (maximum)
      return PoolingCycles(target, Pooling::kMaxGradient, type,
                           PoolingShapeOf(geometry, operand, box, channels, /*gradient=*/true));
    const std::int64_t windows = SourceRegion(box).num_elements();
    std::int64_t taps = 1;
    for (std::size_t d = 0; d < operand.size(); ++d) taps *= std::min(geometry.dim[d].size, operand[d]);
    return SelectAndScatterCycles(target, select, scatter, type, windows, taps, box.num_elements());
  }
};

// inputs: operand, source, init; outputs: the result.
class SelectAndScatterOperation : public Operation, public Expandable {
 public:
  SelectAndScatterOperation(const WindowGeometry& geometry, Expression select, Expression scatter, Grid split)
      : geometry_(geometry),
        select_(std::move(select)),
        scatter_(std::move(scatter)),
        split_(std::move(split)) {}

  std::string_view kind() const override { return "hlo::selectAndScatter"; }

  bool OperandsFit(unsigned num_tiles) const override {
    if (!HasOperands(*this, 3, 1) || !WindowsFit(geometry_, inputs[0].shape, inputs[1].shape)) return false;
    const DType type = inputs[0].type;
    bool fits = outputs[0].shape == inputs[0].shape && IsScalar(inputs[2]) &&
                TakesTwo(select_, type, DType::kPred) && TakesTwo(scatter_, type, type) &&
                IsSplitOf(split_, outputs[0].shape, num_tiles);
    for (const View* view : {&inputs[1], &inputs[2], &outputs[0]}) fits = fits && view->type == type;
    for (int d = 0; d < geometry_.rank; ++d) {
      const WindowDimension& w = geometry_.dim[d];
      fits = fits && w.base_dilation == 1 && w.window_dilation == 1;
    }
    return fits;
  }
  void Write(Writer& writer) const override {
    WriteWindow(writer, geometry_);
    writer.Write(select_);
    writer.Write(scatter_);
    writer.Write(split_);
  }

  void Prepare() override { kernel_ = std::make_unique<SelectAndScatterKernel>(select_, scatter_); }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    kernel_->Run(context, geometry_, in, out[0]);
  }

  double flops() const override {
    double taps = 1;
    for (int d = 0; d < geometry_.rank; ++d) taps *= static_cast<double>(geometry_.dim[d].size);
    return static_cast<double>(inputs[1].num_elements()) * taps;  // taps - 1 comparisons, one addition
  }

  TilePlan Plan(const DeviceContext& context) const override {
    TilePlan plan;
    if (outputs[0].num_elements() == 0) return plan;
    const auto shared = std::make_shared<const Scattering>(geometry_, select_, scatter_, outputs[0],
                                                           inputs[0].shape, inputs[1].shape);
    VertexGroup group;
    group.codelet = std::string("popnn::MaxPoolingGradient<") + NameOf(inputs[0].type) + ">";
    group.vertices = split_.Vertices();
    group.reads = {
        {{OperandRef::Kind::kInput, 0}, [shared](const Box& box) { return shared->OperandRegion(box); }},
        {{OperandRef::Kind::kInput, 1}, [shared](const Box& box) { return shared->SourceRegion(box); }},
        {{OperandRef::Kind::kInput, 2}, [](const Box&) { return Box{}; }}};
    group.writes = {{{OperandRef::Kind::kOutput, 0}, [](const Box& box) { return box; }, true}};
    group.compute = [shared](HostContext& host, const Box& box, const std::vector<HostTensor>& reads,
                             const std::vector<HostTensor>& writes) {
      shared->Compute(host, box, reads, writes[0]);
    };
    group.cycles = [shared](const TargetModel& target, const Box& box) {
      return shared->Cycles(target, box);
    };
    group.code_bytes =
        shared->select.CodeBytes(context.target()) + shared->scatter.CodeBytes(context.target());
    group.vertex_bytes = kVertexBytes;
    plan.supersteps.push_back({{std::move(group)}});
    return plan;
  }

  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    const std::vector<poplar::Tensor> reads = InputsBesideOutputs(*this, graph, in, prog);
    library.selectAndScatter(graph, reads[0], reads[1], reads[2], geometry_, select_, scatter_, out[0],
                             PlanOf(*this, graph), prog, name);
  }

 private:
  WindowGeometry geometry_;
  Expression select_, scatter_;
  Grid split_;
  std::unique_ptr<SelectAndScatterKernel> kernel_;
};

bool TakesTwo(const Expression& e, DType type, DType result) {
  return e.inputs.size() == 2 && e.outputs.size() == 1 && e.inputs[0] == type && e.inputs[1] == type &&
         e.TypeOf(e.outputs[0]) == result;
}

}  // namespace

std::unique_ptr<Operation> ReadSelectAndScatter(Reader& reader) {
  const WindowGeometry geometry = ReadWindow(reader);
  Expression select = reader.Read<Expression>();
  Expression scatter = reader.Read<Expression>();
  if (select.inputs.size() != 2 || select.outputs.size() != 1 || scatter.inputs.size() != 2 ||
      scatter.outputs.size() != 1) {
    reader.Fail("the bodies of select_and_scatter have two inputs and one output");
  }
  return std::make_unique<SelectAndScatterOperation>(geometry, std::move(select), std::move(scatter),
                                                     reader.Read<Grid>());
}

}  // namespace ipu_model

namespace hlo {

using namespace ipu_model;

poplar::Tensor selectAndScatter(poplar::Graph& graph, const poplar::Tensor& operand,
                                const poplar::Tensor& source, const poplar::Tensor& init,
                                const WindowParameters& params, const Expression& select,
                                const Expression& scatter, poplar::program::Sequence& prog,
                                const poplar::DebugContext& debugContext) {
  const std::string& name = debugContext.getPathName();
  const DType type = operand.elementType().id();
  if (windowOutputShape(operand.shape(), params) != source.shape()) {
    throw poplar::poplar_error(name + ": select_and_scatter of " + operand.shapeToString() +
                               " has a source " + source.shapeToString() +
                               ", which is not one element per window");
  }
  for (int d = 0; d < params.geometry.rank; ++d) {
    if (params.geometry.dim[d].base_dilation != 1 || params.geometry.dim[d].window_dilation != 1) {
      throw poplar::poplar_error(name + ": windows of select_and_scatter have no dilation");
    }
  }
  if (init.numElements() != 1 || init.elementType() != operand.elementType() ||
      source.elementType() != operand.elementType() || !TakesTwo(select, type, DType::kPred) ||
      !TakesTwo(scatter, type, type)) {
    throw poplar::type_error(name +
                             ": select_and_scatter needs operand, source, init and bodies of one type (" +
                             NameOf(type) + "), and a select body that returns pred");
  }
  std::vector<View> inputs = {StridedView(graph, operand, prog, {debugContext, "operand"}),
                              StridedView(graph, source, prog, {debugContext, "source"}),
                              StridedView(graph, init.reshape({}), prog, {debugContext, "init"})};
  std::vector<std::int64_t> halo;
  for (int d = 0; d < params.geometry.rank; ++d) {
    const WindowDimension& w = params.geometry.dim[d];
    const bool windowed = w.size > 1 || w.stride > 1 || w.padding_low != 0 ||
                          params.paddingHigh[static_cast<std::size_t>(d)] != 0;
    halo.push_back(windowed ? std::max(2 * (w.size - 1), w.stride) : 0);
  }
  const poplar::Target& target = graph.getTarget();
  const std::vector<std::int64_t> order = MemoryOrder(inputs[0]);
  const ipu_model::Grid split =
      SplitForWindows(inputs[0].shape, halo, order, target.model().VectorWidth(type), target.getNumTiles(),
                      static_cast<std::int64_t>(3 * SizeOf(type)), target.model().bytes_per_tile / 2);
  auto operation = std::make_unique<SelectAndScatterOperation>(params.geometry, select, scatter, split);
  operation->name = name;
  operation->inputs = std::move(inputs);
  const poplar::Tensor result = NewInOrder(graph, type, split, order, name);
  result.asView(&operation->outputs.emplace_back());
  AddOperation(prog, std::move(operation));
  return result;
}

}  // namespace hlo
