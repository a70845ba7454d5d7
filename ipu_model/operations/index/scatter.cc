// The scatter operation.
#include "kernels/index/scatter.h"

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
#include "kernels/host/integer_division.h"
#include "operations/arithmetic.h"
#include "operations/data_views.h"
#include "operations/index/gather_plan.h"
#include "operations/index/scatter_partials.h"
#include "operations/index/scatter_problem.h"
#include "operations/index/scatter_rounds.h"
#include "operations/index/slice_grid.h"
#include "operations/readers.h"
#include "poplar/exceptions.hpp"
#include "popops/Scatter.hpp"

namespace ipu_model {
namespace {

Grid ScatterGrid(const ScatterProblem& p, unsigned num_tiles, std::int64_t bytes_per_tile) {
  std::vector<bool> indexed(p.operand.size());
  for (std::size_t d = 0; d < p.operand.size(); ++d) indexed[d] = p.Indexed(d);
  return SliceGrid(p.operand, indexed, p.type, num_tiles, SliceBudget(bytes_per_tile));
}

// Returns consecutive blocks of batch positions, in row-major order, of at most `max_rows` rows (at least
// one). Paired batch dimensions are whole in each block and do not count as rows. The boxes are of the batch
// dimensions.
std::vector<Box> BatchBlocks(const ScatterProblem& p, std::int64_t max_rows) {
  Shape whole, shape;
  for (int b = 0; b < p.window.batch_rank; ++b) {
    whole.push_back(p.updates[p.window.batch_dim[b]]);
    shape.push_back(Walks(p, b) ? 1 : whole.back());
  }
  std::size_t cut = 0;
  std::int64_t inner = NumElements(shape);
  if (inner == 0) return {Box::Whole(whole)};
  for (; cut < shape.size(); ++cut) {
    inner /= shape[cut];
    if (inner <= max_rows && shape[cut] > 1) break;
  }
  if (cut >= shape.size()) return {Box::Whole(whole)};
  const std::int64_t step = std::max<std::int64_t>(1, max_rows / std::max<std::int64_t>(1, inner));
  std::vector<Box> blocks;
  Box block = Box::Whole(whole);
  const auto walks = [&p](std::size_t d) { return Walks(p, static_cast<int>(d)); };
  for (std::size_t d = 0; d < cut; ++d) {
    if (!walks(d)) block.end[d] = 1;
  }
  for (bool more = true; more;) {
    for (std::int64_t i = 0; i < shape[cut]; i += step) {
      block.begin[cut] = i;
      block.end[cut] = std::min(i + step, shape[cut]);
      blocks.push_back(block);
    }
    more = false;
    for (std::size_t d = cut; d-- > 0 && !more;) {
      if (walks(d)) continue;
      more = block.end[d] < shape[d];
      block.begin[d] = more ? block.begin[d] + 1 : 0;
      block.end[d] = block.begin[d] + 1;
    }
  }
  return blocks;
}

// Returns the bytes of indices and updates that the fullest tile needs per position of the batch dimensions
// that are not paired with an operand dimension.
std::int64_t BytesPerRow(const ScatterProblem& p, const std::vector<Vertex>& vertices, DType index_type,
                         unsigned num_tiles) {
  std::vector<std::int64_t> bytes(num_tiles, 0);
  std::vector<Box> last(num_tiles);
  const auto index_bytes = p.window.num_components * static_cast<std::int64_t>(SizeOf(index_type));
  const auto update_bytes = static_cast<std::int64_t>(p.num_operands * SizeOf(p.type));
  for (const Vertex& vertex : vertices) {
    // Vertices of a tile that read the same updates share them.
    Box region = UpdatesRegion(p, Box::Whole(p.updates), vertex.box);
    if (region.begin == last[vertex.tile].begin && region.end == last[vertex.tile].end) continue;
    std::int64_t rows = 1, window = 1;
    for (std::size_t d = 0; d < p.operand.size(); ++d) {
      const std::int64_t extent = vertex.box.end[d] - vertex.box.begin[d];
      if (p.window.batching[d] >= 0) {
        rows *= extent;
      } else {
        window *= p.Indexed(d) ? p.slice_sizes[d] : std::min(extent, p.slice_sizes[d]);
      }
    }
    bytes[vertex.tile] += rows * (index_bytes + window * update_bytes);
    last[vertex.tile] = std::move(region);
  }
  return std::max<std::int64_t>(1, *std::max_element(bytes.begin(), bytes.end()));
}

// Returns the dimension of the updates along which windows are cut where one of them is too large: the
// longest of those whose place an index gives, which every tile reads whole. -1 if there is none.
int CutWindowDim(const ScatterProblem& p) {
  int longest = -1;
  for (std::size_t d = 0; d < p.operand.size(); ++d) {
    const int dim = p.window.window_dim[d];
    if (dim < 0 || !p.Indexed(d) || p.slice_sizes[d] < 2) continue;
    if (longest < 0 || p.slice_sizes[d] > p.updates[static_cast<std::size_t>(longest)]) longest = dim;
  }
  return longest;
}

// Returns the updates of each superstep, in order: blocks of rows, or parts of one row if it needs more than
// `budget` bytes of a tile.
std::vector<Box> UpdateBlocks(const ScatterProblem& p, std::int64_t row_bytes, std::int64_t budget) {
  const int cut = CutWindowDim(p);
  std::int64_t parts = 1;
  if (cut >= 0 && row_bytes > budget) {
    const std::int64_t length = p.updates[static_cast<std::size_t>(cut)];
    parts = std::clamp<std::int64_t>(CeilDivide(row_bytes, std::max<std::int64_t>(1, budget)), 1, length);
  }
  std::vector<Box> steps;
  for (const Box& batch : BatchBlocks(p, std::max<std::int64_t>(1, budget / row_bytes))) {
    Box step = Box::Whole(p.updates);
    for (int b = 0; b < p.window.batch_rank; ++b) {
      const std::size_t dim = static_cast<std::size_t>(p.window.batch_dim[b]),
                        i = static_cast<std::size_t>(b);
      step.begin[dim] = batch.begin[i];
      step.end[dim] = batch.end[i];
    }
    for (std::int64_t part = 0; part < parts; ++part) {
      if (parts > 1) {
        const std::size_t dim = static_cast<std::size_t>(cut);
        step.begin[dim] = p.updates[dim] * part / parts;
        step.end[dim] = p.updates[dim] * (part + 1) / parts;
      }
      steps.push_back(step);
    }
  }
  return steps;
}

// inputs: operands, indices, updates; outputs: results.
class ScatterOperation : public Operation, public LimitsBuffers, public Expandable {
 public:
  ScatterOperation(WindowDims dims, bool unique, Expression update, std::int64_t buffer_limit = 0)
      : dims_(std::move(dims)),
        unique_(unique),
        update_(std::move(update)),
        kernel_(std::make_shared<const ScatterKernel>(update_)) {
    limit_ = buffer_limit;
  }

  std::string_view kind() const override { return "popops::scatter"; }

  bool OperandsFit(unsigned /*num_tiles*/) const override {
    const std::size_t n = outputs.size();
    if (n == 0 || inputs.size() != 2 * n + 1 || update_.inputs.size() != 2 * n ||
        update_.outputs.size() != n || !IsInteger(inputs[n].type) || !SameShapes(inputs, 0, n) ||
        !SameShapes(inputs, n + 1, 2 * n + 1) || !IndexVectorsFit(dims_, inputs[n].shape))
      return false;
    for (std::size_t i = 0; i < n; ++i) {
      const DType type = inputs[i].type;
      if (outputs[i].shape != inputs[0].shape || outputs[i].type != type || inputs[n + 1 + i].type != type ||
          update_.inputs[i] != type || update_.inputs[n + i] != type ||
          update_.TypeOf(update_.outputs[i]) != type)
        return false;
    }
    const ScatterProblem p = MakeProblem();  // throws where the dimensions do not fit
    for (std::size_t d = 0; d < p.operand.size(); ++d) {
      if (p.slice_sizes[d] > p.operand[d]) return false;
      if (p.window.batching[d] >= 0 &&
          p.operand[d] != p.updates[static_cast<std::size_t>(p.window.batch_dim[p.window.batching[d]])])
        return false;
    }
    for (int b = 0; b < p.window.batch_rank; ++b) {
      if (p.updates[static_cast<std::size_t>(p.window.batch_dim[b])] !=
          p.indices[static_cast<std::size_t>(p.window.index_dim[b])])
        return false;
    }
    return true;
  }
  void Write(Writer& writer) const override {
    WriteWindowDims(writer, dims_);
    writer.Write(unique_);
    writer.Write(update_);
    writer.Write(limit_);
  }

  bool CanAlias(unsigned output, unsigned input) const override { return output == input; }
  double flops() const override {
    return static_cast<double>(inputs.back().num_elements()) * ArithmeticOf(update_);
  }

  void Prepare() override { problem_ = MakeProblem(); }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    const std::size_t n = out.size();
    kernel_->Run(context, problem_.window, WholePlacement(problem_.operand, problem_.slice_sizes), unique_,
                 in.data(), in[n], in.data() + n + 1, out.data());
  }

  std::unique_ptr<BoundKernel> Bind(const std::vector<HostTensor>& in,
                                    const std::vector<HostTensor>& out) const override {
    const std::size_t n = out.size();
    bool in_place = true;
    for (unsigned i = 0; i < n; ++i) in_place = in_place && IsInPlace(*this, i);
    return kernel_->Bind(problem_.window, WholePlacement(problem_.operand, problem_.slice_sizes), in.data(),
                         in[n], in.data() + n + 1, out.data(), in_place);
  }

  // Every tile updates the part of the result that it holds. Indices and updates are sent to all tiles, as
  // many at a time as their memory allows: one superstep per block, in order. Sums may be divided by updates,
  // too.
  TilePlan Plan(const DeviceContext& context) const override {
    const auto p = std::make_shared<const ScatterProblem>(MakeProblem());
    const std::size_t n = p->num_operands;
    const std::vector<Vertex> vertices =
        context.mapping(outputs[0].variable).VerticesOver(outputs[0], context.num_tiles());
    TilePlan plan;
    bool first = true;
    const std::int64_t row_bytes = BytesPerRow(*p, vertices, inputs[n].type, context.num_tiles());
    // Start with little memory, because a sync is short compared with the exchange of a block. Use more if
    // that gives many steps.
    const std::int64_t bytes_per_tile = context.target().bytes_per_tile;
    const std::int64_t most = limit_ > 0 ? limit_ : SliceBudget(bytes_per_tile);
    const std::size_t most_steps = limit_ > 0 ? kMostLimitedSteps : kMostIndexingSteps;
    std::vector<Box> steps;
    for (std::int64_t budget = std::min(StepBudget(bytes_per_tile), most);;
         budget = std::min(2 * budget, most)) {
      steps = UpdateBlocks(*p, row_bytes, budget);
      if (steps.size() < most_steps || budget >= most) break;
    }
    double cycles = 0;
    const bool partial =
        PlanScatterPartials(p, update_, context, outputs[0], vertices, steps, limit_, &cycles, &plan);
    if (cycles > 0) {
      const GatherProblem rows =
          RowsOf(*p, [&](VariableId variable) -> const Mapping& { return context.mapping(variable); });
      const auto rounds = ChooseScatterRounds(*p, update_, rows, context.target(), context.num_tiles());
      if (rounds && rounds->cycles < cycles)
        return PlanScatterRounds(p, update_, rows, *rounds, IsInPlace(*this, 0), context.target());
    }
    if (partial) return plan;
    for (const Box& step : steps) {
      plan.supersteps.push_back({{MakeGroup(p, vertices, step, first)}});
      first = false;
    }
    return plan;
  }

  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    const std::vector<poplar::Tensor> reads = InputsBesideOutputs(*this, graph, in, prog);
    const auto n = static_cast<std::ptrdiff_t>(outputs.size());
    hlo::ScatterPlan plan = {PlanOf(*this, graph), {}};
    if (!plan.plan.loops.empty()) {
      const ScatterProblem p = MakeProblem();
      const poplar::Target& target = graph.getTarget();
      const GatherProblem rows = RowsOf(
          p, [&](VariableId variable) -> const Mapping& { return graph.impl().variables[variable].mapping; });
      plan.rounds = DescribeScatterRounds(
          rows, *ChooseScatterRounds(p, update_, rows, target.model(), target.getNumTiles()));
    }
    library.scatter(graph, {reads.begin(), reads.begin() + n}, reads[outputs.size()],
                    {reads.begin() + n + 1, reads.end()}, dims_, update_, out, IsInPlace(*this, 0), plan,
                    prog, name);
  }

  // `mapping_of`: the mapping of a variable.
  template <typename MappingOf>
  GatherProblem RowsOf(const ScatterProblem& p, const MappingOf& mapping_of) const {
    const View& updates = inputs[p.num_operands + 1];
    return RowsOfScatter(p, outputs[0], &mapping_of(outputs[0].variable), updates,
                         &mapping_of(updates.variable), inputs[p.num_operands].type, limit_);
  }

  ScatterProblem MakeProblem() const {
    ScatterProblem p;
    p.num_operands = outputs.size();
    p.operand = outputs[0].shape;
    p.indices = inputs[p.num_operands].shape;
    p.updates = inputs[p.num_operands + 1].shape;
    p.type = inputs[0].type;
    p.unique = unique_;
    p.update = UpdateKindOf(update_);
    p.kernel = kernel_;
    p.window = IndexedWindow::Resolve(dims_, static_cast<int>(p.operand.size()),
                                      static_cast<int>(p.indices.size()), static_cast<int>(p.updates.size()));
    for (std::size_t d = 0; d < p.operand.size(); ++d) {
      p.slice_sizes.push_back(p.window.window_dim[d] < 0 ? 1 : p.updates[p.window.window_dim[d]]);
    }
    return p;
  }

 private:
  static VertexGroup MakeGroup(const std::shared_ptr<const ScatterProblem>& p,
                               const std::vector<Vertex>& vertices, const Box& step, bool first) {
    const auto identity = [](const Box& box) { return box; };
    const auto updates_region = [p, step](const Box& box) { return UpdatesRegion(*p, step, box); };
    const unsigned n = static_cast<unsigned>(p->num_operands);
    VertexGroup group;
    group.codelet = "popops::MultiUpdateOp";
    group.vertices = vertices;
    group.code_bytes = 500;
    group.vertex_bytes = 36;
    for (unsigned i = 0; i < n; ++i) {
      const auto kind = first ? OperandRef::Kind::kInput : OperandRef::Kind::kOutput;
      group.reads.push_back({{kind, i}, identity});
      group.writes.push_back({{OperandRef::Kind::kOutput, i}, identity});
    }
    group.reads.push_back({{OperandRef::Kind::kInput, n}, [p, updates_region](const Box& box) {
                             return IndicesRegion(*p, updates_region(box));
                           }});
    for (unsigned i = 0; i < n; ++i) {
      group.reads.push_back({{OperandRef::Kind::kInput, n + 1 + i}, updates_region});
    }
    group.compute = [p, updates_region](HostContext& context, const Box& box,
                                        const std::vector<HostTensor>& reads,
                                        const std::vector<HostTensor>& writes) {
      const std::size_t count = p->num_operands;
      p->kernel->Run(context, p->window, VertexPlacement(*p, updates_region(box), box), p->unique,
                     reads.data(), reads[count], reads.data() + count + 1, writes.data());
    };
    group.cycles = [p, updates_region](const TargetModel& target, const Box& box) {
      return VertexCycles(target, *p, updates_region(box), box);
    };
    return group;
  }

  WindowDims dims_;
  bool unique_;
  Expression update_;
  std::shared_ptr<const ScatterKernel> kernel_;
  ScatterProblem problem_;
};

void CheckScatter(const std::vector<poplar::Tensor>& operands, const std::vector<poplar::Tensor>& updates,
                  const Expression& update, const std::string& name) {
  const std::size_t n = operands.size();
  if (n == 0 || updates.size() != n || update.outputs.size() != n || update.inputs.size() != 2 * n) {
    throw poplar::poplar_error(name + ": scatter needs as many updates and results as operands");
  }
  for (std::size_t i = 0; i < n; ++i) {
    const DType type = operands[i].elementType().id();
    if (operands[i].shape() != operands[0].shape() || updates[i].shape() != updates[0].shape() ||
        updates[i].elementType().id() != type || update.inputs[i] != type || update.inputs[n + i] != type ||
        update.TypeOf(update.outputs[i]) != type) {
      throw poplar::poplar_error(name + ": scatter operand " + std::to_string(i) +
                                 " differs in shape or type from its updates or the update function");
    }
  }
}

// The view of a tensor that is read while `written`, of the views `changing`, changes: of a copy if they
// overlap.
View UnchangedView(poplar::Graph& graph, const poplar::Tensor& tensor,
                   const std::vector<poplar::Tensor>& written, const std::vector<View>& changing,
                   poplar::program::Sequence& prog, const poplar::DebugContext& debug_context) {
  const View view = StridedView(graph, tensor, prog, debug_context);
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (view.variable != changing[i].variable || !tensor.intersectsWith(written[i])) continue;
    const poplar::Tensor copy = graph.clone(tensor, {debug_context, "copy"});
    prog.add(poplar::program::Copy(tensor, copy, false, {debug_context, "copy"}));
    return StridedView(graph, copy, prog, debug_context);
  }
  return view;
}

}  // namespace

std::unique_ptr<Operation> ReadScatter(Reader& reader) {
  WindowDims dims = ReadWindowDims(reader);
  const bool unique = reader.Read<bool>();
  auto update = reader.Read<Expression>();
  return std::make_unique<ScatterOperation>(std::move(dims), unique, std::move(update),
                                            LimitsBuffers::ReadLimit(reader));
}

}  // namespace ipu_model

namespace hlo {

std::vector<poplar::Tensor> scatter(poplar::Graph& graph, const std::vector<poplar::Tensor>& operands,
                                    const poplar::Tensor& indices, const std::vector<poplar::Tensor>& updates,
                                    const ipu_model::WindowDims& dims, bool uniqueIndices,
                                    const ipu_model::Expression& update, poplar::program::Sequence& prog,
                                    bool inPlace, const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  const std::string& name = debugContext.getPathName();
  CheckScatter(operands, updates, update, name);
  auto operation = std::make_unique<ScatterOperation>(dims, uniqueIndices, update);
  operation->name = name;
  for (const poplar::Tensor& operand : operands) {
    operation->inputs.push_back(inPlace ? InPlaceView(operand, debugContext)
                                        : StridedView(graph, operand, prog, {debugContext, "operand"}));
  }
  const std::vector<poplar::Tensor> written = inPlace ? operands : std::vector<poplar::Tensor>{};
  const std::vector<View> changing = operation->inputs;
  operation->inputs.push_back(
      UnchangedView(graph, indices, written, changing, prog, {debugContext, "indices"}));
  for (const poplar::Tensor& u : updates) {
    operation->inputs.push_back(UnchangedView(graph, u, written, changing, prog, {debugContext, "updates"}));
  }
  operation->outputs.assign(operation->inputs.begin(),
                            operation->inputs.begin() + static_cast<std::ptrdiff_t>(operands.size()));
  std::vector<poplar::Tensor> results = operands;
  if (!inPlace) {
    const poplar::Target& target = graph.getTarget();
    const ipu_model::Grid grid = ScatterGrid(operation->MakeProblem(), target.getNumTiles(),
                                             static_cast<std::int64_t>(target.getBytesPerTile()));
    for (std::size_t i = 0; i < operands.size(); ++i) {
      results[i] = NewTensorLike(graph, operation->inputs[i], grid, name);
      results[i].asView(&operation->outputs[i]);
    }
  }
  AddOperation(prog, std::move(operation));
  return results;
}

}  // namespace hlo

namespace popops {

void scatter(poplar::Graph& graph, const poplar::Tensor& operand, const poplar::Tensor& indices,
             const poplar::Tensor& updates, std::size_t indexVectorDim,
             const std::vector<unsigned>& updateWindowDims, const std::vector<std::size_t>& insertWindowDims,
             const std::vector<unsigned>& scatterDimsToOperandDims, poplar::program::Sequence& prog,
             const poplar::DebugContext& debugContext) {
  ipu_model::WindowDims dims;
  dims.offset_dims.assign(updateWindowDims.begin(), updateWindowDims.end());
  dims.collapsed_dims.assign(insertWindowDims.begin(), insertWindowDims.end());
  dims.start_index_map.assign(scatterDimsToOperandDims.begin(), scatterDimsToOperandDims.end());
  dims.index_vector_dim = static_cast<std::int64_t>(indexVectorDim);
  ipu_model::Expression set;
  set.inputs = {operand.elementType().id(), operand.elementType().id()};
  set.outputs = {1};
  hlo::scatter(graph, {operand}, indices, {updates}, dims, false, set, prog, true, debugContext);
}

}  // namespace popops
