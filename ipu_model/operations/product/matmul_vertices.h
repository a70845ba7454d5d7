// The supersteps of a grouped matrix product.
#ifndef IPU_MODEL_OPERATIONS_PRODUCT_MATMUL_VERTICES_H_
#define IPU_MODEL_OPERATIONS_PRODUCT_MATMUL_VERTICES_H_

#include <vector>

#include "core/operation/operation.h"
#include "operations/product/matmul_plan.h"

namespace ipu_model {

// inputs: A [g, m, k], B [g, k, n]; outputs: C [g, m, n]. `plan` may be that of an operation whose buffers
// are limited.
TilePlan TilePlanOfMatMul(const MatMulPlan& plan, const std::vector<View>& inputs,
                          const std::vector<View>& outputs, const DeviceContext& context);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_PRODUCT_MATMUL_VERTICES_H_
