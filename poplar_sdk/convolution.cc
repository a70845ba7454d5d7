// hlo/Convolution.hpp over Graphcore's SDK: PopLibs' convolutions.
#include "hlo/Convolution.hpp"

#include <algorithm>
#include <string>

#include "ipu_model/Model.hpp"
#include "poplar/exceptions.hpp"
#include "poplin/Convolution.hpp"

namespace hlo {
namespace {

using poplar::DebugContext;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using Sizes = std::vector<std::size_t>;

// lhs [n, c, *spatial], rhs [o, i, *spatial]. Negative padding cuts the input, or the result.
poplin::ConvParams translate(const poplar::Type& type, const Sizes& lhs, const Sizes& rhs,
                             const ConvolutionParameters& params) {
  const ConvolutionGeometry& geometry = params.geometry;
  if (geometry.batch_groups != 1) {
    throw poplar::poplar_error(
        "a convolution with batch groups is not one of PopLibs: run the program on the IPU model");
  }
  const auto spatial = static_cast<std::size_t>(geometry.spatial);
  const auto groups = static_cast<std::size_t>(geometry.feature_groups);
  poplin::ConvParams result(type, lhs[0], Sizes(lhs.begin() + 2, lhs.end()),
                            Sizes(rhs.begin() + 2, rhs.end()), rhs[1], rhs[0] / groups, groups);
  result.outputType = params.outputType;
  for (std::size_t d = 0; d < spatial; ++d) {
    const ConvolutionWindow& w = geometry.window[d];
    result.outputTransform.stride[d] = static_cast<unsigned>(w.stride);
    result.inputTransform.dilation[d] = static_cast<unsigned>(w.lhs_dilation);
    result.kernelTransform.dilation[d] = static_cast<unsigned>(w.rhs_dilation);
    result.kernelTransform.flip[d] = w.reversed;
    const auto pad = [](std::int64_t amount) {
      return static_cast<unsigned>(std::max<std::int64_t>(0, amount));
    };
    result.inputTransform.paddingLower[d] = pad(w.padding_low);
    result.inputTransform.paddingUpper[d] = pad(params.paddingHigh[d]);
    // What is cut off the dilated input is never reached by the kernel.
    result.outputTransform.truncationLower[d] = pad(-w.padding_low);
    result.outputTransform.truncationUpper[d] = pad(-params.paddingHigh[d]);
  }
  return result;
}

}  // namespace

struct ConvolutionPlans::Splits {};
ConvolutionPlans::ConvolutionPlans() : splits_(std::make_shared<Splits>()) {}
std::size_t ConvolutionPlans::size() const { return 0; }

Tensor convolution(Graph& graph, const Tensor& lhs, const Tensor& rhs, const ConvolutionParameters& params,
                   const std::vector<std::int64_t>&, poplar::program::Sequence& prog,
                   const DebugContext& debugContext, const OptionFlags& options, const Tensor& like,
                   ConvolutionPlans*) {
  const poplin::ConvParams translated = translate(lhs.elementType(), lhs.shape(), rhs.shape(), params);
  const auto groups = static_cast<std::size_t>(params.geometry.feature_groups);
  const Tensor weights = rhs.reshapePartial(0, 1, {groups, rhs.dim(0) / groups});
  const Tensor result =
      poplin::convolution(graph, lhs, weights, translated, false, prog, debugContext, options);
  if (!like.valid()) return result;
  const Tensor out = ipu_model::NewTensorMappedLike(graph, params.outputType, like, "convolution");
  prog.add(poplar::program::Copy(result, out, false, debugContext));
  return out;
}

Tensor createConvolutionInput(Graph& graph, const poplar::Type& type, const Sizes& lhs, const Sizes& rhs,
                              const ConvolutionParameters& params, const std::vector<std::int64_t>&,
                              const DebugContext& debugContext, const OptionFlags& options,
                              ConvolutionPlans*) {
  return poplin::createInput(graph, translate(type, lhs, rhs, params), debugContext, options);
}
Tensor createConvolutionWeights(Graph& graph, const poplar::Type& type, const Sizes& lhs, const Sizes& rhs,
                                const ConvolutionParameters& params, const std::vector<std::int64_t>&,
                                const DebugContext& debugContext, const OptionFlags& options,
                                ConvolutionPlans*) {
  return poplin::createWeights(graph, translate(type, lhs, rhs, params), debugContext, options).flatten(0, 2);
}

}  // namespace hlo
