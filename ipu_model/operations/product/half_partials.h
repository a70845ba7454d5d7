// Products whose partial sums are f16 (option partialsType = half), rounded where the device rounds: after
// every input group in the AMP, and where partial sums are stored. Whole tensors and single vertices give the
// same bits.
#ifndef IPU_MODEL_OPERATIONS_PRODUCT_HALF_PARTIALS_H_
#define IPU_MODEL_OPERATIONS_PRODUCT_HALF_PARTIALS_H_

#include <cstdint>
#include <functional>

#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"
#include "operations/product/matmul_plan.h"

namespace ipu_model {

// The whole product [g, m, k] . [g, k, n] as `plan` cuts its depth.
void HalfProduct(HostContext& context, const MatMulPlan& plan, const HostTensor& a, const HostTensor& b,
                 const HostTensor& out);

// One vertex of it: adds to `previous` (dense f16, may be null) and writes the dense `out`.
void HalfProductVertex(HostContext& context, std::int64_t half_step, const HostTensor& a, const HostTensor& b,
                       const HostTensor* previous, const HostTensor& out);

// out[i] = sum of `count` f16 partial sums [count, elements], added in f32 in their order, all dense.
void SumHalfPartials(HostContext& context, const HostTensor& partials, std::int64_t count,
                     const HostTensor& out);

// total[i] = the same sums over `count` partial sums that compute(part, sums) adds to zeroed f32 `sums`.
// Above 1, `first_stage` consecutive ones are added and rounded to f16 first.
void AccumulateHalfPartials(HostContext& context, std::int64_t count, std::int64_t first_stage,
                            std::int64_t elements,
                            const std::function<void(std::int64_t part, float* sums)>& compute, float* total);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_PRODUCT_HALF_PARTIALS_H_
