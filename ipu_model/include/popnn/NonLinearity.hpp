// Non-linearities, elementwise or over the innermost dimension. Source: PopLibs,
// include/popnn/NonLinearity.hpp. All functions throw poplar::poplar_error for types that are not floating
// point and for a softmax of a scalar.
#ifndef POPNN_NONLINEARITY_HPP
#define POPNN_NONLINEARITY_HPP

#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"
#include "popnn/NonLinearityDef.hpp"

namespace popnn {

poplar::Tensor nonLinearity(poplar::Graph& graph, NonLinearityType nonLinearityType, const poplar::Tensor& t,
                            poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});
void nonLinearityInPlace(poplar::Graph& graph, NonLinearityType nonLinearityType, const poplar::Tensor& t,
                         poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

#define POPNN_NONLINEARITY(NAME, TYPE)                                                                       \
  inline poplar::Tensor NAME(poplar::Graph& graph, const poplar::Tensor& t, poplar::program::Sequence& prog, \
                             const poplar::DebugContext& debugContext = {}) {                                \
    return nonLinearity(graph, NonLinearityType::TYPE, t, prog, debugContext);                               \
  }                                                                                                          \
  inline void NAME##InPlace(poplar::Graph& graph, const poplar::Tensor& t, poplar::program::Sequence& prog,  \
                            const poplar::DebugContext& debugContext = {}) {                                 \
    nonLinearityInPlace(graph, NonLinearityType::TYPE, t, prog, debugContext);                               \
  }
POPNN_NONLINEARITY(sigmoid, SIGMOID)
POPNN_NONLINEARITY(hardSigmoid, HARD_SIGMOID)
POPNN_NONLINEARITY(relu, RELU)
POPNN_NONLINEARITY(tanh, TANH)
POPNN_NONLINEARITY(gelu, GELU)
POPNN_NONLINEARITY(swish, SWISH)
POPNN_NONLINEARITY(softmax, SOFTMAX)
POPNN_NONLINEARITY(softmaxStable, SOFTMAX_STABLE)
POPNN_NONLINEARITY(scaledSoftmaxStable, SOFTMAX_SCALED)
#undef POPNN_NONLINEARITY

}  // namespace popnn

#endif  // POPNN_NONLINEARITY_HPP
