// poplin's convolution functions, in terms of hlo::convolution.
#include <string>
#include <utility>

#include "core/graph/graph_impl.h"
#include "hlo/Convolution.hpp"
#include "poplar/exceptions.hpp"
#include "poplin/Convolution.hpp"

namespace poplin {
namespace {

using poplar::Tensor;

std::size_t TransformedSize(std::size_t size, const ConvParams::InputTransform& t, unsigned dim) {
  const std::size_t truncated = t.truncationLower.at(dim) + t.truncationUpper.at(dim);
  if (truncated > size) {
    throw poplar::poplar_error("ConvParams: dimension " + std::to_string(dim) + " of size " +
                               std::to_string(size) + " cannot be truncated by " + std::to_string(truncated));
  }
  const std::size_t rest = size - truncated;
  return (rest == 0 ? 0 : (rest - 1) * t.dilation.at(dim) + 1) + t.paddingLower.at(dim) +
         t.paddingUpper.at(dim);
}

std::size_t UnpaddedOutputSize(const ConvParams& params, unsigned dim) {
  const std::size_t in = params.getTransformedInputSize(dim), kernel = params.getTransformedKernelSize(dim);
  const auto& t = params.outputTransform;
  const std::size_t truncated = t.truncationLower.at(dim) + t.truncationUpper.at(dim);
  if (in < kernel || in - kernel + 1 < truncated) return 0;
  return (in - kernel + 1 - truncated + t.stride.at(dim) - 1) / t.stride.at(dim);
}

hlo::ConvolutionParameters Translate(const ConvParams& params) {
  hlo::ConvolutionParameters result;
  result.geometry.spatial = static_cast<int>(params.getNumFieldDims());
  result.geometry.feature_groups = static_cast<std::int64_t>(params.numConvGroups);
  result.outputType = params.outputType;
  for (unsigned d = 0; d < params.getNumFieldDims(); ++d) {
    const auto& in = params.inputTransform;
    const auto& kernel = params.kernelTransform;
    const auto& out = params.outputTransform;
    hlo::ConvolutionWindow& w = result.geometry.window[d];
    w.stride = out.stride.at(d);
    w.lhs_dilation = in.dilation.at(d);
    w.rhs_dilation = kernel.dilation.at(d);
    w.reversed = kernel.flip.at(d);
    // Zeros around the kernel shift it; truncated outputs are input that is never reached. Flips come after
    // the padding, so they swap its sides.
    std::int64_t low = in.flip.at(d) ? in.paddingUpper.at(d) : in.paddingLower.at(d);
    std::int64_t high = in.flip.at(d) ? in.paddingLower.at(d) : in.paddingUpper.at(d);
    low -= kernel.flip.at(d) ? kernel.paddingUpper.at(d) : kernel.paddingLower.at(d);
    high -= kernel.flip.at(d) ? kernel.paddingLower.at(d) : kernel.paddingUpper.at(d);
    w.padding_low = low - static_cast<std::int64_t>(out.truncationLower.at(d));
    result.paddingHigh.push_back(high - static_cast<std::int64_t>(out.truncationUpper.at(d)));
  }
  return result;
}

// [groups, outputs, inputs, *kernel] -> [groups * outputs, inputs, *kernel].
Tensor MergeGroups(const Tensor& weights) { return weights.flatten(0, 2); }

Tensor Truncate(Tensor t, const ConvParams::InputTransform& transform, unsigned first_dim) {
  for (unsigned d = 0; d < transform.truncationLower.size(); ++d) {
    t = t.slice(transform.truncationLower[d], t.dim(d + first_dim) - transform.truncationUpper[d],
                d + first_dim);
  }
  return t;
}

std::vector<std::int64_t> ChannelsLast(std::size_t spatial) {
  std::vector<std::int64_t> layout = {0};
  for (std::size_t d = 0; d < spatial; ++d) layout.push_back(static_cast<std::int64_t>(d) + 2);
  layout.push_back(1);
  return layout;
}

void CheckShape(const Tensor& t, const std::vector<std::size_t>& expected, const char* what) {
  if (t.shape() == expected) return;
  std::string text;
  for (std::size_t d : expected) text += (text.empty() ? "" : ", ") + std::to_string(d);
  throw poplar::poplar_error(std::string("poplin::convolution: the ") + what + " of shape " +
                             t.shapeToString() + " should have shape {" + text + "} by its ConvParams");
}

std::vector<std::size_t> WithField(std::vector<std::size_t> shape, const std::vector<std::size_t>& field) {
  shape.insert(shape.end(), field.begin(), field.end());
  return shape;
}

std::vector<std::size_t> InputShape(const ConvParams& params) {
  return WithField({params.batchSize, params.getNumInputChans()}, params.inputFieldShape);
}
std::vector<std::size_t> WeightsShape(const ConvParams& params) {
  return WithField({params.getNumOutputChans(), params.inputChannelsPerConvGroup}, params.kernelShape);
}

// Zeros for the padding of an output.
Tensor Zeros(poplar::Graph& graph, const poplar::Type& type, const std::vector<std::size_t>& shape,
             const poplar::DebugContext& debugContext) {
  std::size_t bytes = ipu_model::SizeOf(type.id());
  for (std::size_t d : shape) bytes *= d;
  const std::vector<unsigned char> values(bytes);
  const Tensor zeros =
      graph.addConstant(type, shape, static_cast<const void*>(values.data()), {debugContext, "padding"});
  if (zeros.numElements() > 0) graph.setTileMapping(zeros, 0);
  return zeros;
}

}  // namespace

ConvParams::InputTransform::InputTransform(std::size_t n)
    : truncationLower(n), truncationUpper(n), dilation(n, 1), paddingLower(n), paddingUpper(n), flip(n) {}
ConvParams::OutputTransform::OutputTransform(std::size_t n)
    : truncationLower(n), truncationUpper(n), stride(n, 1), paddingLower(n), paddingUpper(n) {}

ConvParams::ConvParams(poplar::Type dataType, std::size_t batch, std::vector<std::size_t> inputField,
                       std::vector<std::size_t> kernel, std::size_t inputChannels, std::size_t outputChannels,
                       std::size_t groups)
    : inputType(dataType),
      outputType(dataType),
      batchSize(batch),
      inputFieldShape(std::move(inputField)),
      kernelShape(std::move(kernel)),
      inputChannelsPerConvGroup(inputChannels),
      outputChannelsPerConvGroup(outputChannels),
      numConvGroups(groups),
      inputTransform(inputFieldShape.size()),
      kernelTransform(inputFieldShape.size()),
      outputTransform(inputFieldShape.size()) {}

std::size_t ConvParams::getTransformedInputSize(unsigned dim) const {
  return TransformedSize(inputFieldShape.at(dim), inputTransform, dim);
}
std::size_t ConvParams::getTransformedKernelSize(unsigned dim) const {
  return TransformedSize(kernelShape.at(dim), kernelTransform, dim);
}
std::size_t ConvParams::getOutputSize(unsigned dim) const {
  return UnpaddedOutputSize(*this, dim) + outputTransform.paddingLower.at(dim) +
         outputTransform.paddingUpper.at(dim);
}
std::vector<std::size_t> ConvParams::getOutputFieldShape() const {
  std::vector<std::size_t> shape;
  for (unsigned d = 0; d < getNumFieldDims(); ++d) shape.push_back(getOutputSize(d));
  return shape;
}

Tensor createInput(poplar::Graph& graph, const ConvParams& params, const poplar::DebugContext& debugContext,
                   const poplar::OptionFlags& options) {
  return hlo::createConvolutionInput(graph, params.inputType, InputShape(params), WeightsShape(params),
                                     Translate(params), ChannelsLast(params.getNumFieldDims()), debugContext,
                                     options);
}

Tensor createWeights(poplar::Graph& graph, const ConvParams& params, const poplar::DebugContext& debugContext,
                     const poplar::OptionFlags& options) {
  const std::size_t spatial = params.getNumFieldDims();
  std::vector<std::int64_t> layout;  // kernel positions, input channels, output channels
  for (std::size_t d = 0; d < spatial; ++d) layout.push_back(static_cast<std::int64_t>(d) + 2);
  layout.push_back(1);
  layout.push_back(0);
  const Tensor weights =
      hlo::createConvolutionWeights(graph, params.inputType, InputShape(params), WeightsShape(params),
                                    Translate(params), layout, debugContext, options);
  return weights.reshapePartial(0, 1, {params.numConvGroups, params.outputChannelsPerConvGroup});
}

Tensor convolution(poplar::Graph& graph, const Tensor& in, const Tensor& weights, const ConvParams& params,
                   bool transposeAndFlipWeights, poplar::program::Sequence& prog,
                   const poplar::DebugContext& debugContext, const poplar::OptionFlags& options) {
  const auto spatial = static_cast<unsigned>(params.getNumFieldDims());
  Tensor kernel = weights;
  if (transposeAndFlipWeights) {
    std::vector<unsigned> order = {0, 2, 1};
    for (unsigned d = 0; d < spatial; ++d) order.push_back(d + 3);
    kernel = kernel.dimShuffle(order);
    for (unsigned d = 0; d < spatial; ++d) kernel = kernel.reverse(d + 3);
  }
  CheckShape(in, InputShape(params), "input");
  CheckShape(
      kernel,
      WithField({params.numConvGroups, params.outputChannelsPerConvGroup, params.inputChannelsPerConvGroup},
                params.kernelShape),
      "kernel");
  Tensor input = Truncate(in, params.inputTransform, 2);
  for (unsigned d = 0; d < spatial; ++d) {
    if (params.inputTransform.flip.at(d)) input = input.reverse(d + 2);
  }
  Tensor result = hlo::convolution(graph, input, MergeGroups(Truncate(kernel, params.kernelTransform, 3)),
                                   Translate(params), ChannelsLast(spatial), prog, debugContext, options);
  for (unsigned d = 0; d < spatial; ++d) {
    const auto pad = [&](unsigned elements) {
      std::vector<std::size_t> shape = result.shape();
      shape[d + 2] = elements;
      return Zeros(graph, params.outputType, shape, debugContext);
    };
    if (const unsigned low = params.outputTransform.paddingLower.at(d)) {
      result = concat(pad(low), result, d + 2);
    }
    if (const unsigned high = params.outputTransform.paddingUpper.at(d)) {
      result = concat(result, pad(high), d + 2);
    }
  }
  return result;
}

void weightsTransposeChansFlipXY(poplar::Graph&, const Tensor& weightsIn, const Tensor& weightsOut,
                                 poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  std::vector<unsigned> order = {0, 2, 1};
  for (unsigned d = 3; d < weightsIn.rank(); ++d) order.push_back(d);
  Tensor flipped = weightsIn.dimShuffle(order);
  for (unsigned d = 3; d < weightsIn.rank(); ++d) flipped = flipped.reverse(d);
  prog.add(poplar::program::Copy(flipped, weightsOut, false, debugContext));
}

}  // namespace poplin
