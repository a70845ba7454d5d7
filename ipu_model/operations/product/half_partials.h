// Products with f16 partial sums (option partialsType = half), rounded where the device rounds: after every
// input group in the AMP, and where partial sums are stored. Whole tensors and single vertices give the same
// bits.
#ifndef IPU_MODEL_OPERATIONS_PRODUCT_HALF_PARTIALS_H_
#define IPU_MODEL_OPERATIONS_PRODUCT_HALF_PARTIALS_H_

#include <cstdint>
#include <functional>

#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"
#include "operations/product/matmul_plan.h"

namespace ipu_model {

// Computes the whole product [g, m, k] . [g, k, n], with its depth cut as in `plan`.
void HalfProduct(HostContext& context, const MatMulPlan& plan, const HostTensor& a, const HostTensor& b,
                 const HostTensor& out);

// Computes one vertex of the product: adds to `previous` (dense f16, may be null) and writes the dense `out`.
void HalfProductVertex(HostContext& context, std::int64_t half_step, const HostTensor& a, const HostTensor& b,
                       const HostTensor* previous, const HostTensor& out);

// out[i] = sum of `count` f16 partial sums [count, elements], added in f32 in their order. All are dense.
void SumHalfPartials(HostContext& context, const HostTensor& partials, std::int64_t count,
                     const HostTensor& out);

// total[i] = the sum of `count` partial sums, where compute(part, sums) adds a partial sum to the zeroed f32
// `sums`. If `stage_sums` is above 1, consecutive partial sums are first added to so many, and rounded to
// f16 first.
void AccumulateHalfPartials(HostContext& context, std::int64_t count, std::int64_t stage_sums,
                            std::int64_t elements,
                            const std::function<void(std::int64_t part, float* sums)>& compute, float* total);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_PRODUCT_HALF_PARTIALS_H_
