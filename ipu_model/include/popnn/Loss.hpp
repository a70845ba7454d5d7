// Losses with their gradients, and what a classifier decides. Source: PopLibs, include/popnn/Loss.hpp. All
// functions throw poplar::poplar_error when shapes or types do not fit.
#ifndef POPNN_LOSS_HPP
#define POPNN_LOSS_HPP

#include <utility>

#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"

namespace popnn {

enum LossType {
  SUM_SQUARED_LOSS,   // sum over the classes of (output - one_hot)^2 / 2
  CROSS_ENTROPY_LOSS  // -log(output of the expected class); outputs are probabilities
};

// A label that takes no part in losses and accuracies, where labels are UNSIGNED_INT.
inline constexpr unsigned MASKED_LABEL_CODE = ~0u;

// For modelOutputs [batch, classes] and labels `expected` [batch], of UNSIGNED_INT or INT: writes the loss of
// each row to `loss` [batch], and output - one_hot, which is the gradient of the loss (of CROSS_ENTROPY_LOSS:
// with respect to the input of the softmax that made the outputs), to `deltas`.
poplar::program::Program calcLoss(poplar::Graph& graph, const poplar::Tensor& modelOutputs,
                                  const poplar::Tensor& expected, const poplar::Tensor& loss,
                                  const poplar::Tensor& deltas, LossType lossType,
                                  const poplar::DebugContext& debugContext = {});
// The same, and calcAccuracy.
poplar::program::Program calcLoss(poplar::Graph& graph, const poplar::Tensor& modelOutputs,
                                  const poplar::Tensor& expected, const poplar::Tensor& loss,
                                  const poplar::Tensor& deltas, const poplar::Tensor& numCorrect,
                                  LossType lossType, const poplar::DebugContext& debugContext = {});
// Adds to `numCorrect`, of one UNSIGNED_INT, the number of rows whose largest output is that of the label.
poplar::program::Program calcAccuracy(poplar::Graph& graph, const poplar::Tensor& modelOutputs,
                                      const poplar::Tensor& expected, const poplar::Tensor& numCorrect,
                                      const poplar::DebugContext& debugContext = {});

// The index, UNSIGNED_INT, of the first largest or smallest element of each row of `input` [rows, columns].
poplar::Tensor argMax(poplar::Graph& graph, const poplar::Tensor& input, poplar::program::Sequence& prog,
                      const poplar::DebugContext& debugContext = {});
poplar::Tensor argMin(poplar::Graph& graph, const poplar::Tensor& input, poplar::program::Sequence& prog,
                      const poplar::DebugContext& debugContext = {});
// The element, and its index.
std::pair<poplar::Tensor, poplar::Tensor> maxAndArgMax(poplar::Graph& graph, const poplar::Tensor& input,
                                                       poplar::program::Sequence& prog,
                                                       const poplar::DebugContext& debugContext = {});
std::pair<poplar::Tensor, poplar::Tensor> minAndArgMin(poplar::Graph& graph, const poplar::Tensor& input,
                                                       poplar::program::Sequence& prog,
                                                       const poplar::DebugContext& debugContext = {});

}  // namespace popnn

#endif  // POPNN_LOSS_HPP
