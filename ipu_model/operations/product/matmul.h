// The grouped matrix product as an operation, from a plan.
#ifndef IPU_MODEL_OPERATIONS_PRODUCT_MATMUL_H_
#define IPU_MODEL_OPERATIONS_PRODUCT_MATMUL_H_

#include <memory>
#include <string>

#include "core/operation.h"
#include "operations/product/matmul_plan.h"
#include "poplar/Graph.hpp"

namespace ipu_model {

// inputs: A [g, m, k], B [g, k, n]; outputs: C [g, m, n]. The caller sets them.
std::unique_ptr<Operation> MakeMatMul(MatMulPlan plan);

// A new variable with the tiles and the memory order of `like`, which may be a transposed view, and another
// type. Where `like` is no dense view of a whole variable, poplar::Graph::clone.
poplar::Tensor NewTensorMappedLike(poplar::Graph& graph, const poplar::Type& type, const poplar::Tensor& like,
                                   const std::string& name);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_PRODUCT_MATMUL_H_
