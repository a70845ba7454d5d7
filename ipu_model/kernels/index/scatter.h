// Scatter: combines windows of updates into the windows of an operand that index vectors select.
#ifndef IPU_MODEL_KERNELS_INDEX_SCATTER_H_
#define IPU_MODEL_KERNELS_INDEX_SCATTER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/elementwise/program/expression.h"
#include "kernels/host/bound_kernel.h"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"
#include "kernels/index/combine_windows.h"
#include "kernels/index/indexed_window.h"

namespace ipu_model {

class ElementwiseKernel;

// StableHLO scatter with XLA's bounds rule: an update is skipped if its window is not completely inside the
// operand. Updates of the same element are applied in row-major order of the batch positions.
class ScatterKernel {
 public:
  // `update` has the inputs operand_0..operand_{n-1}, update_0..update_{n-1} and n outputs.
  explicit ScatterKernel(const Expression& update);
  ~ScatterKernel();
  ScatterKernel(const ScatterKernel&) = delete;
  ScatterKernel& operator=(const ScatterKernel&) = delete;

  // outs[i] may be exactly operands[i]. `unique` promises that no two updates write the same element.
  void Run(HostContext& context, const IndexedWindow& window, const WindowPlacement& placement, bool unique,
           const HostTensor* operands, const HostTensor& indices, const HostTensor* updates,
           const HostTensor* outs) const;
  // Binds a scatter of few windows, with the inputs operands, indices and updates; null for others.
  // `in_place`: the outputs are the operands.
  std::unique_ptr<BoundKernel> Bind(const IndexedWindow& window, const WindowPlacement& placement,
                                    const HostTensor* operands, const HostTensor& indices,
                                    const HostTensor* updates, const HostTensor* outs, bool in_place) const;

 private:
  // Returns the operation of an output that depends only on its own operand and update; kGeneral for all
  // other outputs.
  Combine Recognise(std::size_t output) const;
  struct Buffers;  // contiguous windows of every operand and update
  Buffers Allocate(HostContext& context, std::int64_t elements, const HostTensor* updates) const;
  void RunBlocks(HostContext& context, const IndexedWindow& window, const WindowPlacement& placement,
                 const HostTensor& indices, const HostTensor* updates, const HostTensor* outs) const;
  void RunClipped(HostContext& context, const IndexedWindow& window, const WindowPlacement& placement,
                  const HostTensor& indices, const HostTensor* updates, const HostTensor* outs) const;

  Expression update_;
  std::size_t num_operands_;
  std::vector<Combine> combine_;
  bool simple_ = true;
  std::unique_ptr<ElementwiseKernel> kernel_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_INDEX_SCATTER_H_
