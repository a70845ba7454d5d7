// Reductions over dimensions with one operation. Source: PopLibs, include/popops/Reduce.hpp.
// All functions throw poplar::poplar_error when shapes or types do not fit.
#ifndef POPOPS_REDUCE_HPP
#define POPOPS_REDUCE_HPP

#include <cstddef>
#include <vector>

#include "poplar/Graph.hpp"
#include "poplar/OptionFlags.hpp"
#include "poplar/Program.hpp"
#include "popops/Operation.hpp"

namespace popops {

struct ReduceParams {
  ReduceParams() = default;
  // With `update`, the result is added to what the output holds; only for ADD and SQUARE_ADD.
  ReduceParams(Operation op, bool update = false) : op(op), update(update) {}
  Operation op = Operation::ADD;
  bool update = false;
};

// Reduces `A` over the dimensions `dims`. A reduction of no elements gives the operation's identity. Half
// sums are kept in float.
poplar::Tensor reduce(poplar::Graph& graph, const poplar::Tensor& A, const std::vector<std::size_t>& dims,
                      ReduceParams params, poplar::program::Sequence& prog,
                      const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});
poplar::Tensor reduce(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Type& outType,
                      const std::vector<std::size_t>& dims, ReduceParams params,
                      poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                      const poplar::OptionFlags& options = {});
// Appends compute sets to `css`, instead of executing them: they are to be executed in this order.
void reduceWithOutput(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& out,
                      const std::vector<std::size_t>& dims, ReduceParams params,
                      std::vector<poplar::ComputeSet>& css, const poplar::DebugContext& debugContext = {},
                      const poplar::OptionFlags& options = {});
poplar::Tensor reduce(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Type& outType,
                      const std::vector<std::size_t>& dims, ReduceParams params,
                      std::vector<poplar::ComputeSet>& css, const poplar::DebugContext& debugContext = {},
                      const poplar::OptionFlags& options = {});
void reduceWithOutput(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& out,
                      const std::vector<std::size_t>& dims, ReduceParams params,
                      poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                      const poplar::OptionFlags& options = {});

}  // namespace popops

#endif  // POPOPS_REDUCE_HPP
