// Gathers and scatters of few windows, bound to their tensors: what depends on shapes is found once.
#ifndef IPU_MODEL_KERNELS_INDEX_BOUND_WINDOWS_H_
#define IPU_MODEL_KERNELS_INDEX_BOUND_WINDOWS_H_

#include <cstddef>
#include <memory>

#include "kernels/host/bound_kernel.h"
#include "kernels/host/host_tensor.h"
#include "kernels/index/combine_windows.h"
#include "kernels/index/indexed_window.h"

namespace ipu_model {

// Adds the updates of one operand of a scatter, which is in `out` already, to a list. The tensors are inputs
// and an output of the list, by number. Returns false, and adds nothing, where the choices cost little beside
// the work, or if the rows have another form.
struct ScatterTensors {
  const HostTensor &indices, &updates, &out;
  std::size_t indices_input, updates_input, output;
};
bool AddScatter(CallList* list, Combine combine, const IndexedWindow& window,
                const WindowPlacement& placement, const ScatterTensors& tensors);

// Binds a gather with the inputs operand and indices; null as above.
std::unique_ptr<BoundKernel> BindGather(const IndexedWindow& window, const WindowPlacement& placement,
                                        const HostTensor& operand, const HostTensor& indices,
                                        const HostTensor& out);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_INDEX_BOUND_WINDOWS_H_
