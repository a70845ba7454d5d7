// The functions of poplin/MatMul.hpp: options, checks, and planning with the operands' mappings.
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/graph/graph_impl.h"
#include "core/operation/serialise.h"
#include "ipu_model/Model.hpp"
#include "kernels/product/gemm.h"
#include "operations/data_views.h"
#include "operations/product/matmul.h"
#include "operations/product/matmul_plan.h"
#include "poplar/exceptions.hpp"
#include "poplin/MatMul.hpp"

namespace ipu_model {

poplar::Tensor NewTensorMappedLike(poplar::Graph& graph, const poplar::Type& type, const poplar::Tensor& like,
                                   const std::string& name) {
  View view;
  if (like.asView(&view) && view.offset == 0 && HasDistinctElements(view)) {
    const GraphImpl& impl = graph.impl();
    const Variable& variable = impl.variables[view.variable];
    bool forward = true;
    for (const std::int64_t stride : view.strides) forward = forward && stride >= 0;
    if (forward && variable.num_elements == view.num_elements()) {
      const Shape shape = variable.shape;
      Mapping mapping = variable.mapping;
      View result;
      NewTensor(graph, type.id(), shape, std::move(mapping), name).asView(&result);
      result.shape = view.shape;
      result.strides = view.strides;
      return poplar::Tensor::fromView(result, &impl);
    }
  }
  return CloneForOperation(graph, type, like, name);
}

}  // namespace ipu_model

namespace poplin {

struct matmul::PlanningCache::Plans {
  std::map<std::string, ipu_model::MatMulPlan> by_problem;
};

matmul::PlanningCache::PlanningCache() : plans_(std::make_shared<Plans>()) {}
std::size_t matmul::PlanningCache::size() const { return plans_->by_problem.size(); }

namespace {

using ipu_model::DType;
using ipu_model::Grid;
using ipu_model::MatMulOptions;
using ipu_model::MatMulPlan;
using ipu_model::MatMulProblem;
using ipu_model::OperandMapping;
using ipu_model::Shape;
using ipu_model::View;

[[noreturn]] void RefuseOption(const std::string& name, const std::string& value,
                               const std::string& allowed) {
  throw poplar::invalid_option("matrix product option " + name + " = '" + value + "': " + allowed);
}

bool ParseFlag(const std::string& name, const std::string& value) {
  if (value != "true" && value != "false") RefuseOption(name, value, "must be 'true' or 'false'");
  return value == "true";
}

MatMulOptions::Pass ParsePass(const std::string& name, const std::string& value) {
  using Pass = MatMulOptions::Pass;
  if (value == "NONE") return Pass::kNone;
  if (value == "INFERENCE_FWD") return Pass::kInferenceForward;
  if (value == "TRAINING_FWD") return Pass::kTrainingForward;
  if (value == "TRAINING_BWD") return Pass::kTrainingBackward;
  if (value == "TRAINING_WU") return Pass::kTrainingWeightUpdate;
  RefuseOption(name, value, "must be NONE, INFERENCE_FWD, TRAINING_FWD, TRAINING_BWD or TRAINING_WU");
}

MatMulOptions ParseOptions(const poplar::OptionFlags& flags) {
  MatMulOptions options;
  for (const auto& [name, value] : flags) {
    if (name == "availableMemoryProportion") {
      char* end = nullptr;
      options.available_memory_proportion = std::strtod(value.c_str(), &end);
      const bool number = end != value.c_str() && *end == '\0';
      if (!number || !(options.available_memory_proportion > 0) || options.available_memory_proportion > 1)
        RefuseOption(name, value, "must be a number above 0 and at most 1");
    } else if (name == "partialsType") {
      if (value != "half" && value != "float") RefuseOption(name, value, "must be 'half' or 'float'");
      options.half_partials = value == "half";
    } else if (name == "use128BitConvUnitLoad") {
      options.wide_weight_loads = ParseFlag(name, value);
    } else if (name == "enableMultiStageReduce") {
      options.multi_stage_reduce = ParseFlag(name, value);
    } else if (name == "fullyConnectedPass") {
      options.pass = ParsePass(name, value);
    } else if (name == "enableFastReduce" || name == "remapOutputTensor" || name == "inputRHSIsPreArranged") {
      ParseFlag(name, value);
    } else {
      RefuseOption(name, value, "there is no such option; see poplin/MatMul.hpp");
    }
  }
  return options;
}

std::string ShapeText(const std::vector<std::size_t>& shape) {
  std::string text = "[";
  for (std::size_t d = 0; d < shape.size(); ++d) text += (d == 0 ? "" : ",") + std::to_string(shape[d]);
  return text + "]";
}

MatMulProblem ProblemOf(const std::vector<std::size_t>& a, const std::vector<std::size_t>& b,
                        poplar::Type a_type, poplar::Type b_type, poplar::Type out_type,
                        const poplar::OptionFlags& options, const poplar::DebugContext& debugContext) {
  const std::string where = debugContext.getPathName().empty() ? "" : debugContext.getPathName() + ": ";
  if (a.size() != 3 || b.size() != 3 || a[0] != b[0] || a[2] != b[1]) {
    throw poplar::poplar_error(where + "a grouped matrix product needs shapes [g,m,k] and [g,k,n], not " +
                               ShapeText(a) + " and " + ShapeText(b));
  }
  if (ipu_model::GemmAccumulator(a_type.id(), b_type.id(), out_type.id()) == DType::kCount) {
    throw poplar::type_error(where + "a matrix product of " + a_type.toString() + " and " +
                             b_type.toString() + " cannot have elements of type " + out_type.toString() +
                             "; choose a result type of the same kind (float, integer, complex)");
  }
  MatMulProblem problem;
  problem.groups = static_cast<std::int64_t>(a[0]);
  problem.rows = static_cast<std::int64_t>(a[1]);
  problem.depth = static_cast<std::int64_t>(a[2]);
  problem.columns = static_cast<std::int64_t>(b[2]);
  problem.a_type = a_type.id();
  problem.b_type = b_type.id();
  problem.out_type = out_type.id();
  problem.options = ParseOptions(options);
  return problem;
}

void WriteMapping(ipu_model::Writer& writer, const OperandMapping& mapping) {
  writer.Write(mapping.known);
  if (!mapping.known) return;
  writer.Write(mapping.first_tile);
  for (const ipu_model::DimSplit& split : mapping.dims)
    writer.Write(Shape{split.parts, split.stride, split.inner_parts, split.inner_stride});
}

std::string KeyOf(const poplar::Target& target, const MatMulProblem& problem) {
  ipu_model::Writer writer;
  writer.Write(target.getTargetArchString());
  writer.Write(target.getNumTiles());
  writer.Write(Shape{problem.groups, problem.rows, problem.columns, problem.depth});
  for (const DType type : {problem.a_type, problem.b_type, problem.out_type}) writer.Write(type);
  for (const OperandMapping* mapping : {&problem.a, &problem.b, &problem.out}) WriteMapping(writer, *mapping);
  const MatMulOptions& options = problem.options;
  writer.Write(options.available_memory_proportion);
  for (const bool flag : {problem.a_follows_plan, problem.b_follows_plan, options.half_partials,
                          options.wide_weight_loads, options.multi_stage_reduce})
    writer.Write(flag);
  writer.Write(problem.first_tile);
  writer.Write(static_cast<int>(options.pass));
  return writer.Take();
}

MatMulPlan PlanFor(const poplar::Graph& graph, const MatMulProblem& problem, matmul::PlanningCache* cache) {
  const poplar::Target& target = graph.getTarget();
  const auto plan = [&] { return ipu_model::PlanMatMul(target.model(), target.getNumTiles(), problem); };
  if (cache == nullptr) return plan();
  auto& plans = cache->plans().by_problem;
  std::string key = KeyOf(target, problem);
  const auto known = plans.find(key);
  if (known != plans.end()) return known->second;
  return plans.emplace(std::move(key), plan()).first->second;
}

OperandMapping OperandMappingIn(const poplar::Graph& graph, const View& view) {
  return ipu_model::OperandMappingOf(view, graph.impl().variables[view.variable].mapping,
                                     graph.getTarget().getNumTiles());
}

// PopLibs has one plan for both operands, whichever is created. In training, only the weights are created.
void AssumePlanned(MatMulProblem* problem) {
  const MatMulOptions::Pass pass = problem->options.pass;
  const bool alone = pass == MatMulOptions::Pass::kNone || pass == MatMulOptions::Pass::kInferenceForward;
  problem->a_follows_plan = problem->b_follows_plan = alone;
}

// An operation without its output.
struct Planned {
  std::unique_ptr<ipu_model::Operation> operation;
  Grid output;
};
// Returns an empty mapping for an empty tensor.
ipu_model::Mapping MappingOf(Grid grid) {
  return ipu_model::NumElements(grid.shape) == 0 ? ipu_model::Mapping() : ipu_model::Mapping(std::move(grid));
}

Planned PlanProduct(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B, poplar::Type type,
                    const View* out, poplar::program::Sequence& prog,
                    const poplar::DebugContext& debugContext, const poplar::OptionFlags& options,
                    matmul::PlanningCache* cache) {
  MatMulProblem problem =
      ProblemOf(A.shape(), B.shape(), A.elementType(), B.elementType(), type, options, debugContext);
  const View a = ipu_model::StridedView(graph, A, prog, {debugContext, "lhs"});
  const View b = ipu_model::StridedView(graph, B, prog, {debugContext, "rhs"});
  problem.a = OperandMappingIn(graph, a);
  problem.b = OperandMappingIn(graph, b);
  if (out != nullptr) problem.out = OperandMappingIn(graph, *out);
  problem.first_tile = ipu_model::FirstTile(graph);
  MatMulPlan plan = PlanFor(graph, problem, cache);
  Planned planned;
  planned.output = ipu_model::OutputGrid(plan);
  planned.operation = ipu_model::MakeMatMul(std::move(plan));
  planned.operation->name = debugContext.getPathName();
  planned.operation->inputs = {a, b};
  return planned;
}

poplar::Tensor AsGroup(const poplar::Tensor& tensor, const char* name) {
  if (tensor.rank() != 2) {
    throw poplar::poplar_error(std::string("matMul: ") + name + " has shape " + ShapeText(tensor.shape()) +
                               "; it must be a matrix");
  }
  return tensor.expand({0});
}

std::vector<std::size_t> AsGroup(const std::vector<std::size_t>& shape) {
  std::vector<std::size_t> grouped = {1};
  grouped.insert(grouped.end(), shape.begin(), shape.end());
  return grouped;
}

}  // namespace

poplar::Tensor matMulGrouped(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B,
                             poplar::program::Sequence& prog, const poplar::Type& outputType,
                             const poplar::DebugContext& debugContext, const poplar::OptionFlags& options,
                             matmul::PlanningCache* cache) {
  Planned planned = PlanProduct(graph, A, B, outputType, nullptr, prog, debugContext, options, cache);
  const Shape shape = {static_cast<std::int64_t>(A.dim(0)), static_cast<std::int64_t>(A.dim(1)),
                       static_cast<std::int64_t>(B.dim(2))};
  const poplar::Tensor result = ipu_model::NewTensor(
      graph, outputType.id(), shape, MappingOf(std::move(planned.output)), debugContext.getPathName());
  View view;
  result.asView(&view);
  planned.operation->outputs = {view};
  ipu_model::AddOperation(prog, std::move(planned.operation));
  return result;
}

void matMulGroupedWithOutput(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B,
                             poplar::Tensor& C, poplar::program::Sequence& prog,
                             const poplar::DebugContext& debugContext, const poplar::OptionFlags& options,
                             matmul::PlanningCache* cache) {
  const View view = ipu_model::InPlaceView(C, {debugContext, "output"});
  Planned planned = PlanProduct(graph, A, B, C.elementType(), &view, prog, debugContext, options, cache);
  if (C.rank() != 3 || C.dim(0) != A.dim(0) || C.dim(1) != A.dim(1) || C.dim(2) != B.dim(2)) {
    throw poplar::poplar_error(debugContext.getPathName() + ": a matrix product of " + ShapeText(A.shape()) +
                               " and " + ShapeText(B.shape()) + " does not have the shape " +
                               ShapeText(C.shape()) + " of the given output");
  }
  planned.operation->outputs = {view};
  ipu_model::AddOperation(prog, std::move(planned.operation));
}

poplar::Tensor createMatMulGroupedInputLHS(poplar::Graph& graph, const poplar::Type& inputType,
                                           const poplar::Type& outputType,
                                           const std::vector<std::size_t>& aShape,
                                           const std::vector<std::size_t>& bShape,
                                           const poplar::DebugContext& debugContext,
                                           const poplar::OptionFlags& options, matmul::PlanningCache* cache) {
  MatMulProblem problem = ProblemOf(aShape, bShape, inputType, inputType, outputType, options, debugContext);
  AssumePlanned(&problem);
  problem.a_follows_plan = true;
  problem.first_tile = ipu_model::FirstTile(graph);
  return ipu_model::NewTensor(graph, inputType.id(), Shape(aShape.begin(), aShape.end()),
                              MappingOf(ipu_model::LhsGrid(PlanFor(graph, problem, cache))),
                              debugContext.getPathName());
}

poplar::Tensor createMatMulGroupedInputRHS(poplar::Graph& graph, const poplar::Type& inputType,
                                           const poplar::Type& outputType,
                                           const std::vector<std::size_t>& aShape,
                                           const std::vector<std::size_t>& bShape,
                                           const poplar::DebugContext& debugContext,
                                           const poplar::OptionFlags& options, matmul::PlanningCache* cache) {
  MatMulProblem problem = ProblemOf(aShape, bShape, inputType, inputType, outputType, options, debugContext);
  AssumePlanned(&problem);
  problem.b_follows_plan = true;
  problem.first_tile = ipu_model::FirstTile(graph);
  return ipu_model::NewTensor(graph, inputType.id(), Shape(bShape.begin(), bShape.end()),
                              MappingOf(ipu_model::RhsGrid(PlanFor(graph, problem, cache))),
                              debugContext.getPathName());
}

poplar::Tensor matMul(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B,
                      poplar::program::Sequence& prog, const poplar::Type& outputType,
                      const poplar::DebugContext& debugContext, const poplar::OptionFlags& options,
                      matmul::PlanningCache* cache) {
  return matMulGrouped(graph, AsGroup(A, "A"), AsGroup(B, "B"), prog, outputType, debugContext, options,
                       cache)
      .squeeze({0});
}

poplar::Tensor matMul(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B,
                      poplar::program::Sequence& prog, const poplar::DebugContext& debugContext,
                      const poplar::OptionFlags& options, matmul::PlanningCache* cache) {
  return matMul(graph, A, B, prog, A.elementType(), debugContext, options, cache);
}

void matMulWithOutput(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B,
                      poplar::Tensor& C, poplar::program::Sequence& prog,
                      const poplar::DebugContext& debugContext, const poplar::OptionFlags& options,
                      matmul::PlanningCache* cache) {
  poplar::Tensor grouped = AsGroup(C, "C");
  matMulGroupedWithOutput(graph, AsGroup(A, "A"), AsGroup(B, "B"), grouped, prog, debugContext, options,
                          cache);
}

poplar::Tensor createMatMulInputLHS(poplar::Graph& graph, const poplar::Type& inputType,
                                    const poplar::Type& outputType, const std::vector<std::size_t>& aShape,
                                    const std::vector<std::size_t>& bShape,
                                    const poplar::DebugContext& debugContext,
                                    const poplar::OptionFlags& options, matmul::PlanningCache* cache) {
  return createMatMulGroupedInputLHS(graph, inputType, outputType, AsGroup(aShape), AsGroup(bShape),
                                     debugContext, options, cache)
      .squeeze({0});
}

poplar::Tensor createMatMulInputRHS(poplar::Graph& graph, const poplar::Type& inputType,
                                    const poplar::Type& outputType, const std::vector<std::size_t>& aShape,
                                    const std::vector<std::size_t>& bShape,
                                    const poplar::DebugContext& debugContext,
                                    const poplar::OptionFlags& options, matmul::PlanningCache* cache) {
  return createMatMulGroupedInputRHS(graph, inputType, outputType, AsGroup(aShape), AsGroup(bShape),
                                     debugContext, options, cache)
      .squeeze({0});
}

poplar::Tensor transposeGroupedMatrix(const poplar::Tensor& A) { return A.dimShuffle({0, 2, 1}); }

}  // namespace poplin
