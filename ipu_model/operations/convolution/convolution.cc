// The public functions for convolutions: their options and checks.
#include "hlo/Convolution.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/graph/graph_impl.h"
#include "core/mapping/strides.h"
#include "core/operation/serialise.h"
#include "core/target/target_model.h"
#include "operations/convolution/convolution_operation.h"
#include "operations/convolution/convolution_plan.h"
#include "operations/convolution/pointwise.h"
#include "poplar/exceptions.hpp"

struct hlo::ConvolutionPlans::Splits {
  std::map<std::string, ipu_model::ConvolutionSplit> by_problem;
};

namespace ipu_model {
namespace {

std::string Text(const std::vector<std::size_t>& shape) {
  std::string text = "[";
  for (std::size_t d = 0; d < shape.size(); ++d) text += (d ? ", " : "") + std::to_string(shape[d]);
  return text + "]";
}

[[noreturn]] void Refuse(const std::vector<std::size_t>& lhs, const std::vector<std::size_t>& rhs,
                         const std::string& reason) {
  throw poplar::poplar_error("convolution of " + Text(lhs) + " with a kernel " + Text(rhs) + ": " + reason);
}

// Throws if the layout is not a permutation of the dimensions.
void CheckLayout(const Shape& layout, std::size_t rank) {
  Shape sorted = layout;
  std::sort(sorted.begin(), sorted.end());
  bool good = sorted.size() == rank;
  for (std::size_t d = 0; good && d < rank; ++d) good = sorted[d] == static_cast<std::int64_t>(d);
  if (!good) {
    throw poplar::poplar_error("convolution: a memory layout must list each of the " + std::to_string(rank) +
                               " dimensions once, from major to minor");
  }
}

struct Options {
  double memory_proportion = 0.6;  // PopLibs' default
  bool half_partials = false;
  bool weight_update = false;
};

double ParseProportion(const std::string& value) {
  std::size_t used = 0;
  double proportion = -1;
  try {
    proportion = std::stod(value, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != value.size() || !(proportion >= 0)) {
    throw poplar::invalid_option("convolution: availableMemoryProportion must be a number >= 0, not '" +
                                 value + "'");
  }
  return proportion;
}

Options ParseOptions(const poplar::OptionFlags& flags) {
  Options options;
  for (const auto& [name, value] : flags) {
    if (name == "availableMemoryProportion") {
      options.memory_proportion = ParseProportion(value);
    } else if (name == "partialsType") {
      if (value != "half" && value != "float")
        throw poplar::invalid_option("convolution: partialsType must be 'half' or 'float', not '" + value +
                                     "'");
      options.half_partials = value == "half";
    } else if (name == "pass") {
      const char* const known[] = {"NONE", "INFERENCE_FWD", "TRAINING_FWD", "TRAINING_BWD", "TRAINING_WU"};
      if (std::find(std::begin(known), std::end(known), value) == std::end(known))
        throw poplar::invalid_option(
            "convolution: pass must be NONE, INFERENCE_FWD, TRAINING_FWD, TRAINING_BWD or TRAINING_WU, not "
            "'" +
            value + "'");
      options.weight_update = value == "TRAINING_WU";
    } else {
      throw poplar::invalid_option("convolution: unknown option '" + name +
                                   "'; known are availableMemoryProportion, partialsType and pass");
    }
  }
  return options;
}

// Returns the half step, or 0: half partials need operands that the AMP takes in half or quarter precision.
std::int64_t HalfStep(const ConvolutionProblem& problem, const TargetModel& target) {
  for (const DType type : {problem.in_type, problem.rhs_type, problem.out_type}) {
    if (type != DType::kF16 && !(IsFloat(type) && SizeOf(type) == 1)) return 0;
  }
  return target.AmpMacsPerCycle(problem.in_type) > 0
             ? static_cast<std::int64_t>(target.AmpInputGroup(problem.in_type))
             : 0;
}

// Returns a variable with the memory order `layout`, viewed with its dimensions in their original order.
poplar::Tensor NewWithLayout(poplar::Graph& graph, DType type, const Shape& shape, const Shape& layout,
                             Mapping mapping, const std::string& name) {
  Shape memory;
  std::vector<unsigned> inverse(layout.size());
  for (std::size_t i = 0; i < layout.size(); ++i) {
    memory.push_back(shape[static_cast<std::size_t>(layout[i])]);
    inverse[static_cast<std::size_t>(layout[i])] = static_cast<unsigned>(i);
  }
  return NewTensor(graph, type, memory, std::move(mapping), name).dimShuffle(inverse);
}

ConvolutionProblem ProblemOf(const std::vector<std::size_t>& lhs, const std::vector<std::size_t>& rhs,
                             const hlo::ConvolutionParameters& params, DType lhs_type, DType rhs_type) {
  return {params.geometry,
          ToShape(lhs),
          ToShape(rhs),
          ToShape(hlo::convolutionOutputShape(lhs, rhs, params)),
          lhs_type,
          rhs_type,
          params.outputType.id(),
          /*half_step=*/0};
}

std::string KeyOf(const poplar::Target& target, const ConvolutionProblem& problem, const Options& options) {
  Writer writer;
  writer.Write(target.getTargetArchString());
  writer.Write(target.getNumTiles());
  WriteGeometry(writer, problem.geometry);
  for (const Shape* shape : {&problem.lhs, &problem.rhs, &problem.out}) writer.Write(*shape);
  for (const DType type : {problem.in_type, problem.rhs_type, problem.out_type}) writer.Write(type);
  writer.Write(options.memory_proportion);
  writer.Write(options.half_partials);
  writer.Write(options.weight_update);
  return writer.Take();
}

// Returns the memory of a tile that a convolution may take for what is temporary.
std::int64_t TemporaryBytesFor(const TargetModel& target, const Options& options) {
  return std::max<std::int64_t>(1,
                                static_cast<std::int64_t>(options.memory_proportion * target.bytes_per_tile));
}

// Chooses the split, and sets the problem's half step and temporary memory.
ConvolutionSplit SplitFor(const poplar::Graph& graph, ConvolutionProblem& problem,
                          const poplar::OptionFlags& flags, hlo::ConvolutionPlans* plans) {
  const Options options = ParseOptions(flags);
  const poplar::Target& device = graph.getTarget();
  const TargetModel& target = device.model();
  if (options.half_partials) problem.half_step = HalfStep(problem, target);
  problem.most_temporary_bytes = static_cast<double>(TemporaryBytesFor(target, options));
  problem.weight_update = options.weight_update;
  const auto choose = [&] { return ChooseConvolutionSplit(problem, target, device.getNumTiles()); };
  const auto find = [&] {
    auto& splits = plans->splits().by_problem;
    std::string key = KeyOf(device, problem, options);
    const auto known = splits.find(key);
    return known != splits.end() ? known->second : splits.emplace(std::move(key), choose()).first->second;
  };
  ConvolutionSplit split = plans == nullptr ? choose() : find();
  if (!UsesMatrixUnit(problem, split, target)) problem.half_step = 0;
  return split;
}

// Makes batch and field one dimension, if the kernel is one position and input and result lie so in memory.
bool Flatten(const poplar::Tensor& mapped_like, ConvolutionProblem* problem, std::vector<View>* inputs,
             Shape* layout) {
  if (!IsPointwise(*problem)) return false;
  View input = (*inputs)[0];
  Shape flat;
  if (mapped_like.valid()) {
    View like;
    if (!mapped_like.asView(&like) || !FlattenPositions(&like)) return false;
  } else {
    flat = FlattenedLayout(*layout);
    if (flat.empty()) return false;
  }
  if (!FlattenPositions(&input)) return false;
  *problem = Flattened(*problem);
  *layout = flat;
  (*inputs)[0] = input;
  FlattenWeights(&(*inputs)[1]);
  return true;
}

}  // namespace

}  // namespace ipu_model

namespace hlo {

using namespace ipu_model;

ConvolutionPlans::ConvolutionPlans() : splits_(std::make_shared<Splits>()) {}
std::size_t ConvolutionPlans::size() const { return splits_->by_problem.size(); }

std::vector<std::size_t> convolutionOutputShape(const std::vector<std::size_t>& lhs,
                                                const std::vector<std::size_t>& rhs,
                                                const ConvolutionParameters& params) {
  const ConvolutionGeometry& g = params.geometry;
  const auto spatial = static_cast<std::size_t>(g.spatial);
  if (g.spatial < 0 || g.spatial > kMaxPlannedSpatial) {
    Refuse(lhs, rhs, "at most " + std::to_string(kMaxPlannedSpatial) + " spatial dimensions are supported");
  }
  if (lhs.size() != spatial + 2 || rhs.size() != spatial + 2 || params.paddingHigh.size() != spatial) {
    Refuse(lhs, rhs, "the operands must have " + std::to_string(spatial) + " spatial dimensions");
  }
  if (g.feature_groups < 1 || g.batch_groups < 1 || (g.feature_groups > 1 && g.batch_groups > 1)) {
    Refuse(lhs, rhs, "group counts must be positive, and only one of them above 1");
  }
  const auto batch_groups = static_cast<std::size_t>(g.batch_groups);
  const auto feature_groups = static_cast<std::size_t>(g.feature_groups);
  if (lhs[1] != rhs[1] * feature_groups) {
    Refuse(lhs, rhs,
           "the input's channels must be the kernel's times the " + std::to_string(feature_groups) +
               " feature groups");
  }
  if (lhs[0] % batch_groups != 0 || rhs[0] % (batch_groups * feature_groups) != 0) {
    Refuse(lhs, rhs, "batch and output features must be divisible by the group count");
  }
  std::vector<std::size_t> out = {lhs[0] / batch_groups, rhs[0]};
  for (std::size_t d = 0; d < spatial; ++d) {
    const ConvolutionWindow& w = g.window[d];
    if (w.stride < 1 || w.lhs_dilation < 1 || w.rhs_dilation < 1) {
      Refuse(lhs, rhs, "strides and dilations must be positive");
    }
    const auto dilated = [](std::size_t size, std::int64_t dilation) {
      return size == 0 ? 0 : (static_cast<std::int64_t>(size) - 1) * dilation + 1;
    };
    const std::int64_t room = dilated(lhs[d + 2], w.lhs_dilation) + w.padding_low + params.paddingHigh[d];
    const std::int64_t reach = dilated(rhs[d + 2], w.rhs_dilation);
    out.push_back(room < reach || room <= 0 ? 0 : static_cast<std::size_t>((room - reach) / w.stride + 1));
  }
  return out;
}

poplar::Tensor convolution(poplar::Graph& graph, const poplar::Tensor& lhs, const poplar::Tensor& rhs,
                           const ConvolutionParameters& params, const std::vector<std::int64_t>& outputLayout,
                           poplar::program::Sequence& prog, const poplar::DebugContext& debugContext,
                           const poplar::OptionFlags& options, const poplar::Tensor& outputMappingLike,
                           ConvolutionPlans* plans) {
  const DType in_type = lhs.elementType().id(), rhs_type = rhs.elementType().id();
  CheckConvolutionTypes(in_type, rhs_type, params.outputType.id());
  ConvolutionProblem problem = ProblemOf(lhs.shape(), rhs.shape(), params, in_type, rhs_type);
  CheckLayout(outputLayout, problem.out.size());
  const std::string& name = debugContext.getPathName();
  const poplar::Target& target = graph.getTarget();
  const bool like = outputMappingLike.valid();
  if (like && ToShape(outputMappingLike.shape()) != problem.out) {
    Refuse(lhs.shape(), rhs.shape(),
           "the tensor that the result should be mapped like has shape " + Text(outputMappingLike.shape()));
  }
  const Shape shape = problem.out;
  std::vector<View> inputs = {StridedView(graph, lhs, prog, {debugContext, "lhs"}),
                              StridedView(graph, rhs, prog, {debugContext, "rhs"})};
  Shape layout = outputLayout;
  const bool flat = Flatten(outputMappingLike, &problem, &inputs, &layout);
  ConvolutionSplit split = SplitFor(graph, problem, options, plans);
  Mapping mapping;
  if (!like)
    mapping = ConvolutionOutputMapping(problem, split.grid, layout, target.model(), target.getNumTiles());
  const auto bytes = static_cast<std::int64_t>(problem.most_temporary_bytes);
  std::unique_ptr<Operation> operation = MakeConvolution(problem, std::move(split), bytes, target);
  operation->name = name;
  operation->inputs = std::move(inputs);
  const poplar::Tensor result =
      like ? CloneForOperation(graph, params.outputType, outputMappingLike, debugContext)
           : NewWithLayout(graph, problem.out_type, shape, outputLayout, std::move(mapping), name);
  View& out = operation->outputs.emplace_back();
  result.asView(&out);
  if (flat) FlattenPositions(&out);
  AddOperation(prog, std::move(operation));
  return result;
}

poplar::Tensor createConvolutionInput(poplar::Graph& graph, const poplar::Type& type,
                                      const std::vector<std::size_t>& lhs,
                                      const std::vector<std::size_t>& rhs,
                                      const ConvolutionParameters& params,
                                      const std::vector<std::int64_t>& layout,
                                      const poplar::DebugContext& debugContext,
                                      const poplar::OptionFlags& options, ConvolutionPlans* plans) {
  ConvolutionProblem problem = ProblemOf(lhs, rhs, params, type.id(), type.id());
  CheckLayout(layout, problem.lhs.size());
  const Shape shape = problem.lhs;
  Shape order = layout;
  if (const Shape flat = FlattenedLayout(layout); IsPointwise(problem) && !flat.empty()) {
    problem = Flattened(problem);
    order = flat;
  }
  const ConvolutionSplit split = SplitFor(graph, problem, options, plans);
  Mapping mapping = ConvolutionInputMapping(problem, split.grid, order, graph.getTarget().model());
  return NewWithLayout(graph, type.id(), shape, layout, std::move(mapping), debugContext.getPathName());
}

poplar::Tensor createConvolutionWeights(poplar::Graph& graph, const poplar::Type& type,
                                        const std::vector<std::size_t>& lhs,
                                        const std::vector<std::size_t>& rhs,
                                        const ConvolutionParameters& params,
                                        const std::vector<std::int64_t>& layout,
                                        const poplar::DebugContext& debugContext,
                                        const poplar::OptionFlags& options, ConvolutionPlans* plans) {
  ConvolutionProblem problem = ProblemOf(lhs, rhs, params, type.id(), type.id());
  CheckLayout(layout, problem.rhs.size());
  const Shape shape = problem.rhs;
  Shape order = layout;
  if (IsPointwise(problem)) {
    problem = Flattened(problem);
    order = FlattenedWeightsLayout(layout);
  }
  const ConvolutionSplit split = SplitFor(graph, problem, options, plans);
  Mapping mapping = ConvolutionWeightsMapping(problem, split.grid, order, graph.getTarget().model());
  return NewWithLayout(graph, type.id(), shape, layout, std::move(mapping), debugContext.getPathName());
}

}  // namespace hlo
