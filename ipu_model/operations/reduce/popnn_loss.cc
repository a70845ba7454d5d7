// popnn's losses, from elementwise operations and reductions.
#include <string>
#include <vector>

#include "poplar/exceptions.hpp"
#include "popnn/Loss.hpp"
#include "popops/Cast.hpp"
#include "popops/ElementWise.hpp"
#include "popops/Reduce.hpp"
#include "poputil/TileMapping.hpp"

namespace popnn {
namespace {

namespace pe = popops::expr;
using poplar::Tensor;
using poplar::program::Sequence;

[[noreturn]] void Fail(const poplar::DebugContext& debug, const std::string& reason) {
  throw poplar::poplar_error(debug.getPathName() + ": popnn: " + reason);
}

// [1, n], the numbers 0 to n - 1.
Tensor Numbers(poplar::Graph& graph, std::size_t n, const poplar::Type& type,
               const poplar::DebugContext& debug) {
  std::vector<unsigned> numbers(n);
  for (std::size_t i = 0; i < n; ++i) numbers[i] = static_cast<unsigned>(i);
  const Tensor constant = graph.addConstant(type, {1, n}, numbers, {debug, "classes"});
  poputil::mapTensorLinearly(graph, constant);
  return constant;
}

void CheckMatrix(const Tensor& input, const poplar::DebugContext& debug) {
  if (input.rank() != 2 || input.dim(1) == 0)
    Fail(debug, "a tensor of rows and columns is needed, not " + input.shapeToString());
}

// [batch, 1]
Tensor Labels(const Tensor& outputs, const Tensor& expected, const poplar::DebugContext& debug) {
  CheckMatrix(outputs, debug);
  if (expected.elementType() != poplar::UNSIGNED_INT && expected.elementType() != poplar::INT)
    Fail(debug, "labels are UNSIGNED_INT or INT, not " + expected.elementType().toString());
  if (expected.numElements() != outputs.dim(0))
    Fail(debug, "there are " + std::to_string(expected.numElements()) + " labels for " +
                    std::to_string(outputs.dim(0)) + " rows");
  return expected.reshape({outputs.dim(0), 1});
}

// Whether a label is not masked.
pe::Expr Counts(const pe::Expr& label, const Tensor& labels) {
  if (labels.elementType() == poplar::UNSIGNED_INT) return pe::NotEqual(label, pe::Const(MASKED_LABEL_CODE));
  return pe::NotEqual(label, pe::Const(-1));
}

// The extreme element of each row, and its index.
std::pair<Tensor, Tensor> Extreme(poplar::Graph& graph, const Tensor& input, popops::Operation operation,
                                  Sequence& prog, const poplar::DebugContext& debug) {
  CheckMatrix(input, debug);
  const Tensor value = popops::reduce(graph, input, {1}, operation, prog, debug);
  const Tensor numbers = Numbers(graph, input.dim(1), poplar::UNSIGNED_INT, debug);
  const Tensor found = popops::map(
      graph,
      pe::Select(pe::_3, pe::Const(static_cast<unsigned>(input.dim(1) - 1)), pe::Equal(pe::_1, pe::_2)),
      {input, value.expand({1}), numbers}, prog, debug);
  return {value, popops::reduce(graph, found, {1}, popops::Operation::MIN, prog, debug)};
}

void AddLoss(poplar::Graph& graph, const Tensor& outputs, const Tensor& expected, const Tensor& loss,
             const Tensor& deltas, LossType type, Sequence& prog, const poplar::DebugContext& debug) {
  const Tensor labels = Labels(outputs, expected, debug);
  const poplar::Type element = outputs.elementType();
  if (element != poplar::FLOAT && element != poplar::HALF) Fail(debug, "outputs are FLOAT or HALF");
  if (loss.numElements() != outputs.dim(0) || loss.elementType() != element)
    Fail(debug, "the loss is one element of the outputs' type for each row");
  if (deltas.shape() != outputs.shape() || deltas.elementType() != element)
    Fail(debug, "the deltas have shape and type of the outputs");
  const Tensor classes = Numbers(graph, outputs.dim(1), labels.elementType(), debug);
  const auto number = [&](double value) { return pe::Const(value, element); };
  const Tensor one_hot = popops::map(graph, pe::Select(number(1), number(0), pe::Equal(pe::_1, pe::_2)),
                                     {labels, classes}, prog, debug);
  const pe::Expr difference = pe::Sub(pe::_1, pe::_2);
  popops::mapWithOutput(graph, pe::Select(difference, number(0), Counts(pe::_3, labels)),
                        {outputs, one_hot, labels}, deltas, prog, debug);
  // PopLibs adds the same small number, so that the logarithm of 0 is finite.
  const double epsilon = element == poplar::FLOAT ? 1.17549435e-38 : 6.103515625e-05;
  const pe::Expr of_element =
      type == CROSS_ENTROPY_LOSS
          ? pe::Expr(pe::Mul(pe::Neg(pe::_2), pe::Log(pe::Add(pe::_1, number(epsilon)))))
          : pe::Expr(pe::Mul(number(0.5), pe::Mul(difference, difference)));
  const Tensor parts = popops::map(graph, pe::Select(of_element, number(0), Counts(pe::_3, labels)),
                                   {outputs, one_hot, labels}, prog, debug);
  popops::reduceWithOutput(graph, parts, loss.flatten(), {1}, popops::Operation::ADD, prog, debug);
}

void AddAccuracy(poplar::Graph& graph, const Tensor& outputs, const Tensor& expected, const Tensor& correct,
                 Sequence& prog, const poplar::DebugContext& debug) {
  const Tensor labels = Labels(outputs, expected, debug);
  if (correct.numElements() != 1 || correct.elementType() != poplar::UNSIGNED_INT)
    Fail(debug, "the number of correct classifications is one UNSIGNED_INT");
  const Tensor decided = Extreme(graph, outputs, popops::Operation::MAX, prog, debug).second;
  const Tensor right = popops::map(
      graph, pe::Cast(pe::Equal(pe::_1, pe::Cast(pe::_2, poplar::UNSIGNED_INT)), poplar::UNSIGNED_INT),
      {decided, labels.flatten()}, prog, debug);
  const Tensor sum = popops::reduce(graph, right, {0}, popops::Operation::ADD, prog, debug);
  popops::addInPlace(graph, correct.reshape({}), sum, prog, debug);
}

}  // namespace

poplar::program::Program calcLoss(poplar::Graph& graph, const Tensor& modelOutputs, const Tensor& expected,
                                  const Tensor& loss, const Tensor& deltas, LossType lossType,
                                  const poplar::DebugContext& debugContext) {
  Sequence prog;
  AddLoss(graph, modelOutputs, expected, loss, deltas, lossType, prog, debugContext);
  return prog;
}

poplar::program::Program calcLoss(poplar::Graph& graph, const Tensor& modelOutputs, const Tensor& expected,
                                  const Tensor& loss, const Tensor& deltas, const Tensor& numCorrect,
                                  LossType lossType, const poplar::DebugContext& debugContext) {
  Sequence prog;
  AddLoss(graph, modelOutputs, expected, loss, deltas, lossType, prog, debugContext);
  AddAccuracy(graph, modelOutputs, expected, numCorrect, prog, debugContext);
  return prog;
}

poplar::program::Program calcAccuracy(poplar::Graph& graph, const Tensor& modelOutputs,
                                      const Tensor& expected, const Tensor& numCorrect,
                                      const poplar::DebugContext& debugContext) {
  Sequence prog;
  AddAccuracy(graph, modelOutputs, expected, numCorrect, prog, debugContext);
  return prog;
}

std::pair<Tensor, Tensor> maxAndArgMax(poplar::Graph& graph, const Tensor& input, Sequence& prog,
                                       const poplar::DebugContext& debugContext) {
  return Extreme(graph, input, popops::Operation::MAX, prog, debugContext);
}

std::pair<Tensor, Tensor> minAndArgMin(poplar::Graph& graph, const Tensor& input, Sequence& prog,
                                       const poplar::DebugContext& debugContext) {
  return Extreme(graph, input, popops::Operation::MIN, prog, debugContext);
}

Tensor argMax(poplar::Graph& graph, const Tensor& input, Sequence& prog,
              const poplar::DebugContext& debugContext) {
  return maxAndArgMax(graph, input, prog, debugContext).second;
}

Tensor argMin(poplar::Graph& graph, const Tensor& input, Sequence& prog,
              const poplar::DebugContext& debugContext) {
  return minAndArgMin(graph, input, prog, debugContext).second;
}

}  // namespace popnn
