// The parameters of a convolution. Sizes are in elements. Source: PopLibs, include/poplin/ConvParams.hpp.
#ifndef POPLIN_CONVPARAMS_HPP
#define POPLIN_CONVPARAMS_HPP

#include <cstddef>
#include <vector>

#include "poplar/Type.hpp"

namespace poplin {

// The input and the kernel go through truncation, dilation (zeros between elements), padding (zeros) and
// flipping, in this order; then every position where the kernel lies inside the input gives one output; the
// output goes through truncation, striding and padding.
struct ConvParams {
  struct InputTransform {
    std::vector<unsigned> truncationLower, truncationUpper;
    std::vector<unsigned> dilation;
    std::vector<unsigned> paddingLower, paddingUpper;
    std::vector<bool> flip;

    InputTransform() = default;
    explicit InputTransform(std::size_t numFieldDims);
  };
  struct OutputTransform {
    std::vector<unsigned> truncationLower, truncationUpper;
    std::vector<unsigned> stride;
    std::vector<unsigned> paddingLower, paddingUpper;

    OutputTransform() = default;
    explicit OutputTransform(std::size_t numFieldDims);
  };

  poplar::Type inputType, outputType;
  std::size_t batchSize = 0;
  std::vector<std::size_t> inputFieldShape, kernelShape;
  std::size_t inputChannelsPerConvGroup = 0, outputChannelsPerConvGroup = 0, numConvGroups = 1;
  InputTransform inputTransform, kernelTransform;
  OutputTransform outputTransform;

  ConvParams() = default;
  ConvParams(poplar::Type dataType, std::size_t batchSize, std::vector<std::size_t> inputFieldShape,
             std::vector<std::size_t> kernelShape, std::size_t inputChannels, std::size_t outputChannels,
             std::size_t numConvGroups);

  std::size_t getNumFieldDims() const { return inputFieldShape.size(); }
  std::size_t getNumInputChans() const { return inputChannelsPerConvGroup * numConvGroups; }
  std::size_t getNumOutputChans() const { return outputChannelsPerConvGroup * numConvGroups; }
  // After truncation, dilation and padding.
  std::size_t getTransformedInputSize(unsigned dim) const;
  std::size_t getTransformedKernelSize(unsigned dim) const;
  std::size_t getOutputSize(unsigned dim) const;
  std::vector<std::size_t> getOutputFieldShape() const;
};

}  // namespace poplin

#endif  // POPLIN_CONVPARAMS_HPP
