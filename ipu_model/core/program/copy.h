// The operation behind program::Copy between tensors.
#ifndef IPU_MODEL_CORE_PROGRAM_COPY_H_
#define IPU_MODEL_CORE_PROGRAM_COPY_H_

#include <memory>
#include <string_view>
#include <vector>

#include "core/operation/operation.h"
#include "poplar/Tensor.hpp"

namespace ipu_model {

// Copies inputs[i] to outputs[i], which has the same shape, for every i. Reads all elements before it writes
// any.
class Copy : public Operation {
 public:
  std::string_view kind() const override { return "poplar::copy"; }
  void Write(Writer&) const override {}
  bool OperandsFit(unsigned num_tiles) const override;
  void Prepare() override;
  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override;
  std::unique_ptr<BoundKernel> Bind(const std::vector<HostTensor>& in,
                                    const std::vector<HostTensor>& out) const override;
  TilePlan Plan(const DeviceContext& context) const override;

 private:
  // Whether an output shares elements with an input in a way that needs a buffer: an input of another pair,
  // or its own input at an offset.
  bool overlapping_ = true;
};

// Returns the operation that copies `src` to `dst`: the same number of elements and the same type; `dst` has
// no aliases.
std::unique_ptr<Operation> MakeCopy(const poplar::Tensor& src, const poplar::Tensor& dst);
std::unique_ptr<Operation> ReadCopy(Reader& reader);

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_PROGRAM_COPY_H_
