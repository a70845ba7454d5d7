// Products in less memory: steps that process a part of every tile's block.
#ifndef IPU_MODEL_OPERATIONS_PRODUCT_MATMUL_STEPS_H_
#define IPU_MODEL_OPERATIONS_PRODUCT_MATMUL_STEPS_H_

#include "ipu_model/Types.hpp"
#include "operations/product/matmul_plan.h"

namespace ipu_model {

// Returns the plan with the steps that need at most `bytes` of a tile's memory for buffers and partial sums
// and move the least data; with those of the plan if they do, and with those that need the least if none do.
MatMulPlan StepsWithin(const MatMulPlan& plan, DType a, DType b, double bytes);
// Whether these need no more than `bytes`.
bool HasStepsWithin(const MatMulPlan& plan, DType a, DType b, double bytes);

// Returns the boxes of all vertices in step `step` of `steps`, which cut dimension `dim` of every part. A
// part with fewer elements than steps is idle in some.
std::vector<Vertex> VerticesOfStep(std::vector<Vertex> vertices, MatMulDim dim, std::int64_t step,
                                   std::int64_t steps);

// Steps over a dimension of the result, output_dim: the place of a step's partial sums, [parts of depth,
// parts of output_dim, groups, rows, columns], of which output_dim counts from the step's first element.
Grid StepPartialsGrid(const MatMulPlan& plan);
// Returns the region of these that belongs to the outputs `box` [group, row, column], which are of one part.
Box StepPartialsRegion(const MatMulPlan& plan, std::int64_t step, Box box);
// Returns the outputs of a step as boxes over [groups, rows, columns]: the tiles that have partial sums of a
// block have equal shares of it.
std::vector<Vertex> OutputsOfStep(const MatMulPlan& plan, std::int64_t step);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_PRODUCT_MATMUL_STEPS_H_
