// Reduction of strided tensors over any dimensions, by any associative scalar program.
#ifndef IPU_MODEL_KERNELS_REDUCE_REDUCE_H_
#define IPU_MODEL_KERNELS_REDUCE_REDUCE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/program/expression.h"
#include "kernels/host/bound_kernel.h"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"
#include "kernels/reduce/reduce_functions.h"

namespace ipu_model {

class ReduceKernel {
 public:
  // `combiner` has the inputs accumulator_0.. accumulator_{n-1}, value_0.. value_{n-1} and n outputs, all of
  // the types of the values. Throws std::invalid_argument for any other signature.
  explicit ReduceKernel(const Expression& combiner);

  // Reduces `values` (n tensors of one shape) over the dimensions whose bit in `dimensions` is set, into
  // `out` (n tensors of the other dimensions). The result of a reduction of no elements is the init value.
  // `inits` (n scalars) is combined once. If it is null, there must be elements to reduce, and `out` has the
  // partial types, as it may have with `inits`. The order of combination depends only on shapes and strides,
  // not on the number of threads.
  void Run(HostContext& context, const HostTensor* values, const HostTensor* inits, std::uint32_t dimensions,
           const HostTensor* out) const;
  // Binds Run with inits, for few elements and operations with specialised inner loops; returns null
  // otherwise. `in` holds the values, then the inits.
  std::unique_ptr<BoundKernel> Bind(const HostTensor* in, std::uint32_t dimensions,
                                    const HostTensor* out) const;
  // Like Run, for `partials` that were computed by Run without inits.
  void RunOnPartials(HostContext& context, const HostTensor* partials, const HostTensor* inits,
                     std::uint32_t dimensions, const HostTensor* out) const;

  // Combines `partials` to fewer of them, of the same types.
  void CombinePartials(HostContext& context, const HostTensor* partials, std::uint32_t dimensions,
                       const HostTensor* out) const {
    (on_partials_ != nullptr ? *on_partials_ : *this).Run(context, partials, nullptr, dimensions, out);
  }

  // Returns the type of partial results: f32 for sums and products of narrow floats.
  DType PartialType(unsigned i) const;
  std::size_t size() const { return types_.size(); }
  // Whether the combiner is known to be commutative.
  bool any_order() const { return kind_ != Kind::kGeneral; }

 private:
  enum class Kind { kSingle, kArgument, kGeneral };
  void Recognise(const Expression& combiner);
  bool IsArgument(const Expression& combiner, bool largest) const;
  // Returns the type in which specialised loops accumulate: f32 for narrow floats.
  DType HeldType(std::size_t i) const;
  // Converts dense accumulators, one element per result, into the results.
  void Finish(HostContext& context, void* const* totals, const HostTensor* inits,
              const HostTensor* out) const;
  std::unique_ptr<BoundKernel> BindSingle(const HostTensor* in, std::uint32_t dimensions,
                                          const HostTensor& out) const;
  std::unique_ptr<BoundKernel> BindArgument(const HostTensor* in, std::uint32_t dimensions,
                                            const HostTensor* out) const;
  void RunBlocks(HostContext& context, const HostTensor* values, std::uint32_t dimensions,
                 void* const* totals) const;
  void RunGeneral(HostContext& context, const HostTensor* values, const HostTensor* inits,
                  std::uint32_t dimensions, const HostTensor* out) const;

  std::vector<DType> types_;
  Kind kind_ = Kind::kGeneral;
  ReduceOp op_ = ReduceOp::kAdd;
  ReduceFunctions single_;
  ArgumentFunctions argument_;
  ElementwiseKernel combine_;
  std::vector<ElementwiseKernel> to_result_;  // held type -> type
  std::vector<ElementwiseKernel> copy_;       // type -> type
  std::shared_ptr<const ReduceKernel> on_partials_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_REDUCE_REDUCE_H_
