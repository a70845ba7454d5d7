// Operations that combine many elements of their inputs into each result, for example reductions.
#ifndef IPU_MODEL_CORE_OPERATION_COMBINING_OPERATION_H_
#define IPU_MODEL_CORE_OPERATION_COMBINING_OPERATION_H_

#include <vector>

#include "core/operation/operation.h"

namespace ipu_model {

// The host can compute partial results of parts of the inputs, in any order and at the same time, and combine
// them later.
class CombiningOperation : public Operation {
 public:
  // Whether the inputs can be cut into parts along dimension `d` of the first input. Returns, for all inputs,
  // the dimension that corresponds to it, or -1 for an input that only Combine reads. Empty if they cannot.
  virtual std::vector<int> PartDimensions(int d) const = 0;
  virtual DType PartialType(unsigned output) const = 0;
  // Computes the partial results of a part. They have the shapes of the outputs.
  virtual void RunPart(HostContext& context, const std::vector<HostTensor>& in,
                       const std::vector<HostTensor>& partials) const = 0;
  // Makes the outputs of all partial results: `partials` have a dimension more, the parts in their order,
  // before those of the outputs.
  virtual void Combine(HostContext& context, const std::vector<HostTensor>& partials,
                       const std::vector<HostTensor>& in, const std::vector<HostTensor>& out) const = 0;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_OPERATION_COMBINING_OPERATION_H_
