// The gather operation.
#include "kernels/index/gather.h"

#include <algorithm>
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
#include "kernels/index/bound_windows.h"
#include "operations/data_views.h"
#include "operations/index/gather_division.h"
#include "operations/index/gather_plan.h"
#include "operations/readers.h"
#include "poplar/exceptions.hpp"
#include "popops/Gather.hpp"

namespace ipu_model {
namespace {

Shape ResultShape(const Shape& operand, const Shape& indices, const WindowDims& dims, const Shape& sizes,
                  const std::string& name);

// inputs: operand, indices; outputs: result.
class GatherOperation : public Operation, public LimitsBuffers, public Expandable {
 public:
  GatherOperation(WindowDims dims, Shape slice_sizes, std::int64_t buffer_limit = 0)
      : dims_(std::move(dims)), slice_sizes_(std::move(slice_sizes)) {
    limit_ = buffer_limit;
  }

  std::string_view kind() const override { return "popops::gather"; }

  bool OperandsFit(unsigned /*num_tiles*/) const override {
    if (!HasOperands(*this, 2, 1) || inputs[0].type != outputs[0].type || !IsInteger(inputs[1].type))
      return false;
    if (!IndexVectorsFit(dims_, inputs[1].shape) ||
        outputs[0].shape != ResultShape(inputs[0].shape, inputs[1].shape, dims_, slice_sizes_, name))
      return false;
    // Only indices are clamped, not positions along batching dimensions.
    const IndexedWindow window = MakeProblem().window;
    for (std::size_t d = 0; d < inputs[0].shape.size(); ++d) {
      if (window.batching[d] >= 0 &&
          outputs[0].shape[static_cast<std::size_t>(window.batch_dim[window.batching[d]])] >
              inputs[0].shape[d])
        return false;
    }
    return true;
  }
  void Write(Writer& writer) const override {
    WriteWindowDims(writer, dims_);
    writer.Write(slice_sizes_);
    writer.Write(limit_);
  }

  void Prepare() override { problem_ = MakeProblem(); }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    Gather(context, problem_.window, WholePlacement(problem_.operand, slice_sizes_), in[0], in[1], out[0]);
  }

  std::unique_ptr<BoundKernel> Bind(const std::vector<HostTensor>& in,
                                    const std::vector<HostTensor>& out) const override {
    return BindGather(problem_.window, WholePlacement(problem_.operand, slice_sizes_), in[0], in[1], out[0]);
  }

  // Bands run along batch dimensions: over the indices, and over the operand if it has that batch dimension
  // too.
  std::vector<int> BandDimensions(int d) const override {
    const IndexedWindow window = MakeProblem().window;
    const int* const batch_end = window.batch_dim + window.batch_rank;
    const int* const found = std::find(window.batch_dim, batch_end, d);
    if (found == batch_end) return {};
    const int batch = static_cast<int>(found - window.batch_dim);
    const int* const along = std::find(window.batching, window.batching + window.operand_rank, batch);
    const bool batched = along != window.batching + window.operand_rank;
    return {batched ? static_cast<int>(along - window.batching) : -1, window.index_dim[batch], d};
  }

  TilePlan Plan(const DeviceContext& context) const override {
    GatherProblem problem = MakeProblem();
    problem.mapping = &context.mapping(inputs[0].variable);
    problem.out_mapping = &context.mapping(outputs[0].variable);
    return PlanGather(problem, context.target(), context.num_tiles());
  }

  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    GatherProblem problem = MakeProblem();
    problem.mapping = &graph.impl().variables[inputs[0].variable].mapping;
    problem.out_mapping = &graph.impl().variables[outputs[0].variable].mapping;
    const poplar::Target& target = graph.getTarget();
    const std::vector<poplar::Tensor> reads = InputsBesideOutputs(*this, graph, in, prog);
    hlo::GatherPlan plan = DescribeGather(problem, target.model(), target.getNumTiles());
    plan.plan = PlanOf(*this, graph);
    library.gather(graph, reads[0], reads[1], dims_, {slice_sizes_.begin(), slice_sizes_.end()}, out[0], plan,
                   prog, name);
  }

  GatherProblem MakeProblem() const {
    GatherProblem problem;
    problem.window = IndexedWindow::Resolve(dims_, static_cast<int>(inputs[0].shape.size()),
                                            static_cast<int>(inputs[1].shape.size()),
                                            static_cast<int>(outputs[0].shape.size()));
    problem.type = inputs[0].type;
    problem.index_type = inputs[1].type;
    problem.operand = inputs[0].shape;
    problem.indices = inputs[1].shape;
    problem.out = outputs[0].shape;
    problem.slice_sizes = slice_sizes_;
    problem.codelet = "popops::MultiSlice";
    problem.view = inputs[0];
    problem.out_view = outputs[0];
    problem.buffer_limit = limit_;
    return problem;
  }

 private:
  WindowDims dims_;
  Shape slice_sizes_;
  GatherProblem problem_;
};

// Returns the shape of the result. Throws poplar_error if the dimension numbers do not fit the operands.
Shape ResultShape(const Shape& operand, const Shape& indices, const WindowDims& dims, const Shape& sizes,
                  const std::string& name) {
  if (sizes.size() != operand.size()) {
    throw poplar::poplar_error(name + ": gather needs one slice size per operand dimension");
  }
  const auto contains = [](const std::vector<std::int64_t>& list, std::size_t d) {
    for (std::int64_t v : list) {
      if (v == static_cast<std::int64_t>(d)) return true;
    }
    return false;
  };
  Shape window;
  for (std::size_t d = 0; d < operand.size(); ++d) {
    if (sizes[d] < 0 || sizes[d] > operand[d]) {
      throw poplar::poplar_error(name + ": gather slice of " + std::to_string(sizes[d]) +
                                 " elements from a dimension of " + std::to_string(operand[d]));
    }
    if (!contains(dims.collapsed_dims, d) && !contains(dims.operand_batching_dims, d)) {
      window.push_back(sizes[d]);
    } else if (sizes[d] > 1) {
      throw poplar::poplar_error(name + ": a collapsed or batching dimension has a slice size above 1");
    }
  }
  Shape batch;
  for (std::size_t d = 0; d < indices.size(); ++d) {
    if (static_cast<std::int64_t>(d) != dims.index_vector_dim) batch.push_back(indices[d]);
  }
  Shape out(batch.size() + window.size());
  std::size_t b = 0, w = 0;
  for (std::size_t d = 0; d < out.size(); ++d) {
    const bool offset = contains(dims.offset_dims, d);
    if (offset ? w == window.size() : b == batch.size()) {
      throw poplar::poplar_error(name + ": gather offset_dims do not fit the operand and indices");
    }
    out[d] = offset ? window[w++] : batch[b++];
  }
  return out;
}

}  // namespace

std::unique_ptr<Operation> ReadGather(Reader& reader) {
  WindowDims dims = ReadWindowDims(reader);
  Shape slice_sizes = reader.Read<Shape>();
  return std::make_unique<GatherOperation>(std::move(dims), std::move(slice_sizes),
                                           LimitsBuffers::ReadLimit(reader));
}

}  // namespace ipu_model

namespace hlo {

poplar::Tensor gather(poplar::Graph& graph, const poplar::Tensor& operand, const poplar::Tensor& indices,
                      const ipu_model::WindowDims& dims, const std::vector<std::size_t>& sliceSizes,
                      poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  const std::string& name = debugContext.getPathName();
  Shape sizes(sliceSizes.begin(), sliceSizes.end());
  const Shape out = ResultShape(ShapeOf(operand), ShapeOf(indices), dims, sizes, name);
  auto operation = std::make_unique<GatherOperation>(dims, std::move(sizes));
  operation->name = name;
  operation->inputs = {StridedView(graph, operand, prog, {debugContext, "operand"}),
                       StridedView(graph, indices, prog, {debugContext, "indices"})};
  View& view = operation->outputs.emplace_back();
  view.shape = out;
  const poplar::Target& target = graph.getTarget();
  GatherProblem problem = operation->MakeProblem();
  problem.mapping = &graph.impl().variables[problem.view.variable].mapping;
  const ipu_model::Grid grid = GatherOutputGrid(problem, target.model(), target.getNumTiles());
  const poplar::Tensor result = NewTensor(graph, operand.elementType().id(), out, Mapping(grid), name);
  result.asView(&view);
  AddOperation(prog, std::move(operation));
  return result;
}

poplar::Tensor createGatherInput(poplar::Graph& graph, const poplar::Type& type,
                                 const std::vector<std::size_t>& shape,
                                 const std::vector<std::size_t>& indicesShape,
                                 const ipu_model::WindowDims& dims,
                                 const std::vector<std::size_t>& sliceSizes,
                                 const poplar::DebugContext& debugContext, bool hasPasses) {
  using namespace ipu_model;
  const std::string& name = debugContext.getPathName();
  GatherProblem problem;
  problem.type = type.id();
  problem.operand.assign(shape.begin(), shape.end());
  problem.indices.assign(indicesShape.begin(), indicesShape.end());
  problem.slice_sizes.assign(sliceSizes.begin(), sliceSizes.end());
  problem.out = ResultShape(problem.operand, problem.indices, dims, problem.slice_sizes, name);
  problem.window =
      IndexedWindow::Resolve(dims, static_cast<int>(problem.operand.size()),
                             static_cast<int>(problem.indices.size()), static_cast<int>(problem.out.size()));
  const poplar::Target& target = graph.getTarget();
  ipu_model::Grid grid = GatherInputGrid(problem, target.model(), target.getNumTiles(), hasPasses);
  grid.first_tile = FirstTile(graph);
  return NewTensor(graph, problem.type, problem.operand, Mapping(grid), name);
}

}  // namespace hlo

namespace popops {

poplar::Tensor gather(poplar::Graph& graph, const poplar::Tensor& operand, const poplar::Tensor& indices,
                      std::size_t indexVectorDim, const std::vector<std::size_t>& offsetDims,
                      const std::vector<std::size_t>& sliceSizes,
                      const std::vector<std::size_t>& collapsedSliceDims,
                      const std::vector<unsigned>& startIndexMap, poplar::program::Sequence& prog,
                      const poplar::DebugContext& debugContext) {
  ipu_model::WindowDims dims;
  dims.offset_dims.assign(offsetDims.begin(), offsetDims.end());
  dims.collapsed_dims.assign(collapsedSliceDims.begin(), collapsedSliceDims.end());
  dims.start_index_map.assign(startIndexMap.begin(), startIndexMap.end());
  dims.index_vector_dim = static_cast<std::int64_t>(indexVectorDim);
  return hlo::gather(graph, operand, indices, dims, sliceSizes, prog, debugContext);
}

}  // namespace popops
