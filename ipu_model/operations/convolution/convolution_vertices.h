// What the vertices of a convolution compute, on the host.
#ifndef IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_VERTICES_H_
#define IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_VERTICES_H_

#include <vector>

#include "core/mapping/box.h"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"
#include "operations/convolution/convolution_plan.h"

namespace ipu_model {

// Computes one vertex. The input and `out` may have leading dimensions of size one (the tile of a kept input,
// the part numbers of partial sums). reads: lhs, rhs. add: adds to what `out` holds; for half partials only.
void ComputeConvolution(const ConvolutionProblem& problem, HostContext& context, const Box& box,
                        const std::vector<HostTensor>& reads, HostTensor out, bool add);
// Computes one vertex of a later step. reads: lhs, rhs, the partial sums of the steps before.
void ComputeLaterConvolution(const ConvolutionProblem& problem, HostContext& context, const Box& box,
                             const std::vector<HostTensor>& reads, const HostTensor& out);
// Adds the partial sums of a vertex's region, which follow each other by part.
void AddConvolutionParts(HostContext& context, const HostTensor& partials, const HostTensor& out);

// Computes a convolution with half partials on whole tensors, with the same bits as PlanConvolution's
// vertices.
void ConvolveWhole(const ConvolutionProblem& problem, const ConvolutionSplit& split, HostContext& context,
                   const HostTensor& lhs, const HostTensor& rhs, const HostTensor& out);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_VERTICES_H_
