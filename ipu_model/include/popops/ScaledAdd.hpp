// Sums of scaled tensors, in place. Source: PopLibs, include/popops/ScaledAdd.hpp. The scale is a number or a
// scalar tensor; B and the scale may have other types than A. All functions throw poplar::poplar_error when
// shapes do not fit.
#ifndef POPOPS_SCALEDADD_HPP
#define POPOPS_SCALEDADD_HPP

#include "poplar/Graph.hpp"
#include "poplar/OptionFlags.hpp"
#include "poplar/Program.hpp"

namespace popops {

// A += scaleB * B
void scaledAddTo(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B, float scaleB,
                 poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                 const poplar::OptionFlags& options = {});
void scaledAddTo(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B,
                 const poplar::Tensor& scaleB, poplar::program::Sequence& prog,
                 const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});
// A -= scaleB * B
void scaledSubtractFrom(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B, float scaleB,
                        poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                        const poplar::OptionFlags& options = {});
void scaledSubtractFrom(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B,
                        const poplar::Tensor& scaleB, poplar::program::Sequence& prog,
                        const poplar::DebugContext& debugContext = {},
                        const poplar::OptionFlags& options = {});
// A = scaleA * A + scaleB * B
void scaledAddTo(poplar::Graph& graph, const poplar::Tensor& A, float scaleA, const poplar::Tensor& B,
                 float scaleB, poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                 const poplar::OptionFlags& options = {});
void scaledAddTo(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& scaleA,
                 const poplar::Tensor& B, const poplar::Tensor& scaleB, poplar::program::Sequence& prog,
                 const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});

}  // namespace popops

#endif  // POPOPS_SCALEDADD_HPP
