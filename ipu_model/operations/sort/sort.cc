// Sort. Rows that fit are sorted whole, on one tile each. Longer rows are cut into chunks.
#include "kernels/sort/sort.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/graph/expandable.h"
#include "core/graph/graph_impl.h"
#include "core/mapping/strides.h"
#include "core/operation/operand_check.h"
#include "core/operation/serialise.h"
#include "core/target/target_model.h"
#include "hlo/Sort.hpp"
#include "kernels/sort/sort_key.h"
#include "operations/arithmetic.h"
#include "operations/data_views.h"
#include "operations/readers.h"
#include "operations/sort/chunked_sort.h"
#include "operations/sort/sort_cost.h"
#include "operations/vertex_groups.h"
#include "poplar/exceptions.hpp"
#include "popops/Sort.hpp"

namespace ipu_model {
namespace {

// Whether elements that compare as equal have equal bits, so that their order is no matter.
bool EqualsAreAlike(const Expression& comparator) {
  const std::optional<std::vector<SortKey>> keys = RecogniseKeys(comparator);
  if (!keys) return false;
  std::vector<bool> compared(comparator.inputs.size() / 2, false);
  for (const SortKey& key : *keys) {
    if (!key.lossy() && key.part == SortKey::Part::kWhole)
      compared[static_cast<std::size_t>(key.operand)] = true;
  }
  return std::all_of(compared.begin(), compared.end(), [](bool all) { return all; });
}

// inputs: operands; outputs: the sorted operands, and possibly the positions of their elements before (s32).
class SortOperation : public Operation, public Expandable {
 public:
  SortOperation(std::size_t dim, Expression comparator)
      : dim_(dim),
        comparator_(std::move(comparator)),
        alike_(EqualsAreAlike(comparator_)),
        kernel_(std::make_shared<const SortKernel>(comparator_)) {}

  std::string_view kind() const override { return "popops::sort"; }
  bool OperandsFit(unsigned /*num_tiles*/) const override {
    const std::size_t n = inputs.size();
    if (n == 0 || outputs.size() < n || outputs.size() > n + 1 || dim_ >= inputs[0].shape.size() ||
        !SameShapes(inputs, 0, n) || comparator_.inputs.size() != 2 * n || comparator_.outputs.size() != 1 ||
        comparator_.TypeOf(comparator_.outputs[0]) != DType::kPred)
      return false;
    for (std::size_t i = 0; i < n; ++i) {
      if (outputs[i].shape != inputs[0].shape || outputs[i].type != inputs[i].type ||
          comparator_.inputs[2 * i] != inputs[i].type || comparator_.inputs[2 * i + 1] != inputs[i].type)
        return false;
    }
    return !positions() || (outputs[n].shape == inputs[0].shape && outputs[n].type == DType::kS32);
  }
  bool CanAlias(unsigned output, unsigned input) const override { return output == input; }
  double flops() const override {
    return static_cast<double>(inputs[0].num_elements()) * ComparisonsPerElement(inputs[0].shape[dim_]);
  }
  void Write(Writer& writer) const override {
    writer.Write(dim_);
    writer.Write(comparator_);
  }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    RunRows(context, *kernel_, dim_, in, out);
  }

  // The grid for operands of these types, and positions if there is one more result.
  Grid MakeGrid(const Shape& shape, const std::vector<DType>& results, unsigned num_tiles,
                const TargetModel& target) const {
    const std::size_t count = comparator_.inputs.size() / 2;
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) bytes += static_cast<std::int64_t>(SizeOf(results[i]));
    return SortGrid(shape, dim_, {count, bytes, results.size() > count || !alike_}, num_tiles, target);
  }

  TilePlan Plan(const DeviceContext& context) const override {
    std::vector<DType> types;
    for (const View& view : outputs) types.push_back(view.type);
    const Grid grid = MakeGrid(outputs[0].shape, types, context.num_tiles(), context.target());
    return grid.parts[dim_] == 1 ? PlanWhole(grid) : PlanChunks(grid, LieAs(outputs, grid, context));
  }

  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    library.sort(graph, InputsBesideOutputs(*this, graph, in, prog), dim_, comparator_, out,
                 PlanOf(*this, graph), prog, name);
  }

 private:
  bool positions() const { return outputs.size() > inputs.size(); }

  // Sorts whole rows.
  static void RunRows(HostContext& context, const SortKernel& kernel, std::size_t dim,
                      std::vector<HostTensor> in, const std::vector<HostTensor>& out) {
    if (out.size() > in.size()) AddPositions(context, dim, 0, &in);
    kernel.Run(context, static_cast<int>(dim), in, out);
  }

  TilePlan PlanWhole(const Grid& grid) const {
    VertexGroup group = MakeVertexGroup("popops::Sort", grid.Vertices(), 900, kSortVertexBytes);
    for (unsigned i = 0; i < inputs.size(); ++i) {
      group.reads.push_back({{OperandRef::Kind::kInput, i}, Same});
    }
    for (unsigned i = 0; i < outputs.size(); ++i)
      group.writes.push_back({{OperandRef::Kind::kOutput, i}, Same});
    group.compute = [dim = dim_, kernel = kernel_](HostContext& host, const Box&,
                                                   const std::vector<HostTensor>& reads,
                                                   const std::vector<HostTensor>& writes) {
      RunRows(host, *kernel, dim, reads, writes);
    };
    group.cycles = [dim = dim_, operands = outputs.size()](const TargetModel& target, const Box& box) {
      const std::int64_t n = box.end[dim] - box.begin[dim];
      const std::int64_t rows = n > 0 ? box.num_elements() / n : 0;
      return static_cast<std::uint64_t>(rows) * SortCycles(target, n, operands);
    };
    TilePlan plan;
    plan.supersteps.push_back({{std::move(group)}});
    return plan;
  }

  TilePlan PlanChunks(const Grid& grid, bool in_results) const {
    const unsigned n = static_cast<unsigned>(outputs.size());
    TilePlan plan;
    std::vector<OperandRef> sorted;
    const auto add_temporary = [&](DType type) {
      sorted.push_back({OperandRef::Kind::kTemporary, static_cast<unsigned>(plan.temporaries.size())});
      plan.temporaries.push_back({type, grid});
    };
    for (unsigned i = 0; i < n && in_results; ++i) sorted.push_back({OperandRef::Kind::kOutput, i});
    for (unsigned i = 0; i < n && !in_results; ++i)
      add_temporary(i < inputs.size() ? inputs[i].type : DType::kU32);
    if (!positions() && !alike_) add_temporary(DType::kU32);
    PlanChunkedSort(grid, dim_, comparator_, sorted, positions() || !alike_, &plan);
    if (!in_results) plan.supersteps.push_back({{StoreSorted(grid.Vertices(), n)}});
    return plan;
  }

  std::size_t dim_;
  Expression comparator_;
  bool alike_;
  std::shared_ptr<const SortKernel> kernel_;
};

void CheckSort(const std::vector<poplar::Tensor>& operands, std::size_t dimension,
               const Expression& comparator, const std::string& name) {
  if (operands.empty() || dimension >= operands[0].rank()) {
    throw poplar::poplar_error(name + ": sort needs operands with dimension " + std::to_string(dimension));
  }
  bool fits = comparator.inputs.size() == 2 * operands.size() && comparator.outputs.size() == 1 &&
              comparator.TypeOf(comparator.outputs[0]) == DType::kPred;
  for (std::size_t i = 0; fits && i < operands.size(); ++i) {
    const DType type = operands[i].elementType().id();
    fits = operands[i].shape() == operands[0].shape() && comparator.inputs[2 * i] == type &&
           comparator.inputs[2 * i + 1] == type;
  }
  if (!fits) throw poplar::poplar_error(name + ": the sort comparator does not fit the operands");
}

// Whether the operands are copied to where they are sorted, so that their memory is free before the sort: a
// superstep more, which pays for itself where they take much of the memory.
bool CopiedFirst(const std::vector<poplar::Tensor>& operands, const Grid& grid, std::size_t dimension,
                 const TargetModel& target) {
  if (grid.parts[dimension] == 1) return false;
  std::int64_t bytes = 0;
  for (const poplar::Tensor& t : operands)
    bytes += static_cast<std::int64_t>(t.numElements() * SizeOf(t.elementType().id()));
  return bytes / grid.num_tiles > target.bytes_per_tile / 8;
}

// Whether a tensor is a variable, whole, that lies on the grid.
bool LiesAs(const poplar::Graph& graph, const poplar::Tensor& tensor, const Grid& grid) {
  View view;
  if (!tensor.asView(&view)) return false;
  const Grid* const held = graph.impl().variables[view.variable].mapping.grid();
  return held != nullptr && *held == grid && view.offset == 0 && view.shape == grid.shape &&
         IsRowMajorContiguous(view);
}

// a_0 < b_0; the other operands only move along.
Expression Less(const std::vector<poplar::Tensor>& operands) {
  Expression less;
  for (const poplar::Tensor& t : operands) less.inputs.insert(less.inputs.end(), 2, t.elementType().id());
  Instruction code;
  code.op = ScalarOp::kLt;
  code.operand_type = less.inputs[0];
  code.result_type = DType::kPred;
  code.operand[1] = 1;
  less.code = {code};
  less.outputs = {static_cast<std::uint16_t>(less.inputs.size())};
  return less;
}

}  // namespace

std::unique_ptr<Operation> ReadSort(Reader& reader) {
  const std::size_t dim = reader.Read<std::size_t>();
  return std::make_unique<SortOperation>(dim, reader.Read<Expression>());
}

}  // namespace ipu_model

namespace hlo {
namespace {

// `inPlace`: operands that lie as they are sorted become the results.
std::vector<poplar::Tensor> addSort(poplar::Graph& graph, const std::vector<poplar::Tensor>& operands,
                                    std::size_t dimension, const ipu_model::Expression& comparator,
                                    bool positions, bool inPlace, poplar::program::Sequence& prog,
                                    const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  const std::string& name = debugContext.getPathName();
  CheckSort(operands, dimension, comparator, name);
  auto operation = std::make_unique<SortOperation>(dimension, comparator);
  operation->name = name;
  std::vector<DType> types;
  for (const poplar::Tensor& operand : operands) types.push_back(operand.elementType().id());
  if (positions) types.push_back(DType::kS32);
  operation->outputs.resize(types.size());
  const poplar::Target& target = graph.getTarget();
  const Shape shape = ShapeOf(operands[0]);
  const ipu_model::Grid grid = operation->MakeGrid(shape, types, target.getNumTiles(), ModelOf(target));
  const bool copied = CopiedFirst(operands, grid, dimension, ModelOf(target));
  std::vector<poplar::Tensor> results;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (inPlace && i < operands.size() && LiesAs(graph, operands[i], grid)) {
      results.push_back(operands[i]);
      operands[i].asView(&operation->outputs[i]);
      operation->inputs.push_back(operation->outputs[i]);
      continue;
    }
    results.push_back(NewTensor(graph, types[i], shape, Mapping(grid), name));
    results.back().asView(&operation->outputs[i]);
    if (i >= operands.size()) break;
    if (copied || inPlace) {
      prog.add(poplar::program::Copy(operands[i], results.back(), false, {debugContext, "operand"}));
      operation->inputs.push_back(operation->outputs[i]);
    } else {
      operation->inputs.push_back(StridedView(graph, operands[i], prog, {debugContext, "operand"}));
    }
  }
  AddOperation(prog, std::move(operation));
  return results;
}

}  // namespace

std::vector<poplar::Tensor> sort(poplar::Graph& graph, const std::vector<poplar::Tensor>& operands,
                                 std::size_t dimension, const ipu_model::Expression& comparator,
                                 poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  return addSort(graph, operands, dimension, comparator, false, false, prog, debugContext);
}

std::vector<poplar::Tensor> sortWithPositions(poplar::Graph& graph,
                                              const std::vector<poplar::Tensor>& operands,
                                              std::size_t dimension, const ipu_model::Expression& comparator,
                                              poplar::program::Sequence& prog,
                                              const poplar::DebugContext& debugContext) {
  return addSort(graph, operands, dimension, comparator, true, false, prog, debugContext);
}

poplar::Tensor createSortOperand(poplar::Graph& graph, const std::vector<poplar::Type>& types,
                                 std::size_t number, const std::vector<std::size_t>& shape,
                                 std::size_t dimension, const ipu_model::Expression& comparator,
                                 bool positions, const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  const std::string& name = debugContext.getPathName();
  if (number >= types.size() || dimension >= shape.size() || comparator.inputs.size() != 2 * types.size())
    throw poplar::poplar_error(name + ": the operands of a sort do not fit its comparator or dimension");
  std::vector<DType> sorted;
  for (const poplar::Type& type : types) sorted.push_back(type.id());
  if (positions) sorted.push_back(DType::kS32);
  const poplar::Target& target = graph.getTarget();
  const Shape extents(shape.begin(), shape.end());
  const ipu_model::Grid grid =
      SortOperation(dimension, comparator).MakeGrid(extents, sorted, target.getNumTiles(), ModelOf(target));
  return NewTensor(graph, sorted[number], extents, Mapping(grid), name);
}

std::vector<poplar::Tensor> sortInPlace(poplar::Graph& graph, const std::vector<poplar::Tensor>& operands,
                                        std::size_t dimension, const ipu_model::Expression& comparator,
                                        bool positions, poplar::program::Sequence& prog,
                                        const poplar::DebugContext& debugContext) {
  const std::vector<poplar::Tensor> results =
      addSort(graph, operands, dimension, comparator, positions, true, prog, debugContext);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (results[i] == operands[i]) continue;
    prog.add(poplar::program::Copy(results[i], operands[i], false, {debugContext, "back"}));
  }
  return {results.begin() + static_cast<std::ptrdiff_t>(operands.size()), results.end()};
}

}  // namespace hlo

namespace popops {

poplar::Tensor sort(poplar::Graph& graph, const poplar::Tensor& t, unsigned dim,
                    poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  return hlo::sort(graph, {t}, dim, ipu_model::Less({t}), prog, debugContext)[0];
}

void sortInPlace(poplar::Graph& graph, const poplar::Tensor& t, unsigned dim, poplar::program::Sequence& prog,
                 const poplar::DebugContext& debugContext) {
  prog.add(poplar::program::Copy(sort(graph, t, dim, prog, debugContext), t, false, debugContext));
}

poplar::Tensor sortKeyValue(poplar::Graph& graph, const poplar::Tensor& k, const poplar::Tensor& v,
                            unsigned dim, poplar::program::Sequence& prog,
                            const poplar::DebugContext& debugContext) {
  return hlo::sort(graph, {k, v}, dim, ipu_model::Less({k, v}), prog, debugContext)[1];
}

void sortKeyValueInPlace(poplar::Graph& graph, const poplar::Tensor& k, const poplar::Tensor& v, unsigned dim,
                         poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  const auto sorted = hlo::sort(graph, {k, v}, dim, ipu_model::Less({k, v}), prog, debugContext);
  prog.add(poplar::program::Copy(sorted[0], k, false, debugContext));
  prog.add(poplar::program::Copy(sorted[1], v, false, debugContext));
}

}  // namespace popops
