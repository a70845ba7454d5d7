// Applies a scalar expression to all elements of strided tensors.
#ifndef IPU_MODEL_KERNELS_ELEMENTWISE_ELEMENTWISE_H_
#define IPU_MODEL_KERNELS_ELEMENTWISE_ELEMENTWISE_H_

#include <memory>
#include <vector>

#include "kernels/elementwise/program/expression.h"
#include "kernels/host/bound_kernel.h"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

class BlockCodeCache;
struct MicroProgram;

class ElementwiseKernel {
 public:
  // Throws std::invalid_argument if an operation is not defined for its types.
  explicit ElementwiseKernel(const Expression& expression);

  // `in` and `out` are parallel to the expression's inputs and outputs. All have one shape and any strides;
  // stride 0 broadcasts. An output may be exactly an input; otherwise it shares no memory with any other
  // tensor.
  void Run(HostContext& context, const std::vector<HostTensor>& in, const std::vector<HostTensor>& out) const;
  // The same on arrays, for callers that must not allocate vectors.
  void Run(HostContext& context, const HostTensor* in, const HostTensor* out) const;
  // Binds the kernel to tensors of one block, or of few rows with a block each. Returns null for other
  // tensors.
  std::unique_ptr<BoundKernel> Bind(const HostTensor* in, const HostTensor* out) const;

 private:
  std::shared_ptr<const MicroProgram> program_;
  std::shared_ptr<BlockCodeCache> code_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_ELEMENTWISE_ELEMENTWISE_H_
