// Convolutions. Source: PopLibs, include/poplin/Convolution.hpp.
#ifndef POPLIN_CONVOLUTION_HPP
#define POPLIN_CONVOLUTION_HPP

#include "poplar/Graph.hpp"
#include "poplar/OptionFlags.hpp"
#include "poplin/ConvParams.hpp"

namespace poplin {

// A variable [batch, input channels, *field] mapped as the convolution reads it (channels last in memory).
poplar::Tensor createInput(poplar::Graph& graph, const ConvParams& params,
                           const poplar::DebugContext& debugContext = {},
                           const poplar::OptionFlags& options = {});

// A variable [groups, output channels per group, input channels per group, *kernel].
poplar::Tensor createWeights(poplar::Graph& graph, const ConvParams& params,
                             const poplar::DebugContext& debugContext = {},
                             const poplar::OptionFlags& options = {});

// in [batch, input channels, *field], weights [groups, output channels per group, input channels per group,
// *kernel]; result [batch, output channels, *output field], channels last in memory. With
// transposeAndFlipWeights computes the input gradient of the forward pass whose weights are given.
// Throws poplar_error when shapes and parameters do not fit.
poplar::Tensor convolution(poplar::Graph& graph, const poplar::Tensor& in, const poplar::Tensor& weights,
                           const ConvParams& params, bool transposeAndFlipWeights,
                           poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                           const poplar::OptionFlags& options = {});

// Writes weightsIn, with its channel dimensions swapped and its kernel flipped, to weightsOut.
void weightsTransposeChansFlipXY(poplar::Graph& graph, const poplar::Tensor& weightsIn,
                                 const poplar::Tensor& weightsOut, poplar::program::Sequence& prog,
                                 const poplar::DebugContext& debugContext = {});

}  // namespace poplin

#endif  // POPLIN_CONVOLUTION_HPP
