// Stable sort of several tensors by a comparator.
#ifndef IPU_MODEL_KERNELS_SORT_SORT_H_
#define IPU_MODEL_KERNELS_SORT_SORT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/program/expression.h"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"
#include "kernels/sort/sort_key.h"

namespace ipu_model {

class SortKernel {
 public:
  // `comparator` has the inputs a_0, b_0, a_1, b_1, ... With `tie_break`, there is another operand at the
  // end, of type u32, which orders elements that the comparator treats as equal. The result then does not
  // depend on the order of the input.
  explicit SortKernel(const Expression& comparator, bool tie_break = false);

  // Sorts along dimension `dim`. out[i] shares no memory with any in[j]. A row has at most 2^32 - 1 elements.
  void Run(HostContext& context, int dim, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const;

  // Whether the comparator was recognised as an order by keys, which runs as a radix sort.
  bool by_keys() const { return !parts_.empty(); }

 private:
  struct Rows;
  struct Workspace;
  // A part of at most 32 bits of a key.
  struct KeyPart {
    SortKey key;
    int shift;  // position in the encoded key
    int bits;
  };

  void SortRow(ThreadPool* pool, const Rows& rows, std::int64_t row, const Workspace& work) const;
  bool SortPlainKeys(ThreadPool* pool, const Rows& rows, std::int64_t row, const Workspace& work) const;
  void MergeSort(HostContext& context, const Rows& rows, std::uint32_t* order, std::uint32_t* other) const;

  std::size_t num_operands_;
  std::vector<KeyPart> parts_;  // most significant first
  bool single_key_ = false;
  std::vector<DType> inputs_;                // of the comparator
  std::vector<bool> used_;                   // inputs that the comparator reads
  std::unique_ptr<ElementwiseKernel> less_;  // null if the sort is by keys
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_SORT_SORT_H_
