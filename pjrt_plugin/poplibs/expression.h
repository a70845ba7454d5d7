// Scalar programs of StableHLO as expressions of PopLibs' popops.
#ifndef JAX_IPU_POPLIBS_EXPRESSION_H_
#define JAX_IPU_POPLIBS_EXPRESSION_H_

#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "hlo/Expression.hpp"

namespace jax_ipu::poplibs {

// What PopLibs has not: the message says why.
struct Lacks : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Why PopLibs cannot compute the expression with StableHLO's values, or "".
std::string WhyNot(const hlo::Expression& expression);

// Adds calls of popops::map that compute each output of the expression; writes those that are given in
// `outs`, and makes the tensors that are not (of rank 0 and without elements). Throws Lacks.
std::vector<poplar::Tensor> Map(poplar::Graph& graph, const hlo::Expression& expression,
                                const std::vector<poplar::Tensor>& tensors,
                                const std::vector<const poplar::Tensor*>& outs,
                                poplar::program::Sequence& sequence, const std::string& name);

}  // namespace jax_ipu::poplibs

#endif  // JAX_IPU_POPLIBS_EXPRESSION_H_
