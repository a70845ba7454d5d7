// The grouped matrix product as an operation, created from a plan.
#ifndef IPU_MODEL_OPERATIONS_PRODUCT_MATMUL_H_
#define IPU_MODEL_OPERATIONS_PRODUCT_MATMUL_H_

#include <memory>

#include "core/operation/operation.h"
#include "operations/product/matmul_plan.h"

namespace ipu_model {

// inputs: A [g, m, k], B [g, k, n]; outputs: C [g, m, n]. The caller must set them.
std::unique_ptr<Operation> MakeMatMul(MatMulPlan plan);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_PRODUCT_MATMUL_H_
