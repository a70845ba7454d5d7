// The convolution as an operation, created from a split.
#ifndef IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_OPERATION_H_
#define IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_OPERATION_H_

#include <cstdint>
#include <memory>

#include "core/operation/operation.h"
#include "core/operation/serialise.h"
#include "operations/convolution/convolution_plan.h"
#include "poplar/Target.hpp"

namespace ipu_model {

// The iteration space and the partial sums have 3 + 2 * spatial dimensions.
constexpr int kMaxPlannedSpatial = (kMaxRank - 3) / 2;

// inputs: lhs, rhs; outputs: the result. The caller must set them. planned_bytes: the temporary memory that
// the split was planned for. Where a program does not fit, the operation plans for `target` again.
std::unique_ptr<Operation> MakeConvolution(const ConvolutionProblem& problem, ConvolutionSplit split,
                                           std::int64_t planned_bytes, const poplar::Target& target);

// Throws poplar::type_error for types that a convolution does not have.
void CheckConvolutionTypes(DType lhs, DType rhs, DType out);
void WriteGeometry(Writer& writer, const ConvolutionGeometry& geometry);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_OPERATION_H_
