// Chooses the path of a reduction. Results are accumulated densely in register types; init values and narrow
// types are applied at the end.
#include "kernels/reduce/reduce.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <stdexcept>

#include "kernels/copy/strided_copy.h"
#include "kernels/host/dense_tensor.h"
#include "kernels/host/isa.h"
#include "kernels/reduce/reduce_blocks.h"
#include "kernels/reduce/reduce_pack.h"
#include "kernels/reduce/reduce_plan.h"
#include "kernels/reduce/reduce_space.h"
#include "kernels/vector/convert.h"

namespace ipu_model {

DType ReduceKernel::PartialType(unsigned i) const {
  const DType type = types_[i];
  // Maxima and minima are exact in their own type.
  if (kind_ != Kind::kSingle || (op_ != ReduceOp::kAdd && op_ != ReduceOp::kMultiply)) return type;
  return IsFloat(type) && type != DType::kF64 ? DType::kF32 : type;
}

DType ReduceKernel::HeldType(std::size_t i) const {
  const bool as_f32 = kind_ != Kind::kGeneral && RegisterTypeOf(types_[i]) == RegisterType::kF32;
  return as_f32 ? DType::kF32 : types_[i];
}

ReduceKernel::ReduceKernel(const Expression& combiner) : combine_(combiner) {
  const std::size_t n = combiner.outputs.size();
  if (n == 0 || combiner.inputs.size() != 2 * n)
    throw std::invalid_argument("a reduction of n values needs a body with 2 n inputs and n outputs");
  for (std::size_t i = 0; i < n; ++i) {
    const DType type = combiner.TypeOf(combiner.outputs[i]);
    if (combiner.inputs[i] != type || combiner.inputs[n + i] != type)
      throw std::invalid_argument("a reduction body must take and return the same types");
    types_.push_back(type);
  }
  Recognise(combiner);
  bool partial_types = false;
  for (unsigned i = 0; i < n; ++i) {
    to_result_.emplace_back(Conversion(HeldType(i), types_[i]));
    copy_.emplace_back(Conversion(types_[i], types_[i]));
    partial_types = partial_types || PartialType(i) != types_[i];
  }
  if (partial_types) {
    Expression wide = combiner;
    wide.inputs = {DType::kF32, DType::kF32};
    wide.code[0].operand_type = wide.code[0].result_type = DType::kF32;
    on_partials_ = std::make_shared<const ReduceKernel>(wide);
  }
}

void ReduceKernel::Recognise(const Expression& combiner) {
  const bool avx512 = HasAvx512();
  if (types_.size() == 1 && combiner.code.size() == 1 &&
      combiner.outputs[0] == 2 + combiner.constants.size()) {
    const Instruction& body = combiner.code[0];
    const bool both =
        (body.operand[0] == 0 && body.operand[1] == 1) || (body.operand[0] == 1 && body.operand[1] == 0);
    struct Named {
      ScalarOp op;
      ReduceOp reduce, logical;
    };
    static constexpr Named kOps[] = {{ScalarOp::kAdd, ReduceOp::kAdd, ReduceOp::kOr},
                                     {ScalarOp::kMultiply, ReduceOp::kMultiply, ReduceOp::kAnd},
                                     {ScalarOp::kMaximum, ReduceOp::kMaximum, ReduceOp::kOr},
                                     {ScalarOp::kMinimum, ReduceOp::kMinimum, ReduceOp::kAnd},
                                     {ScalarOp::kAnd, ReduceOp::kAnd, ReduceOp::kAnd},
                                     {ScalarOp::kOr, ReduceOp::kOr, ReduceOp::kOr},
                                     {ScalarOp::kXor, ReduceOp::kXor, ReduceOp::kXor}};
    for (const Named& named : kOps) {
      if (!both || body.op != named.op) continue;
      op_ = types_[0] == DType::kPred ? named.logical : named.reduce;
      const RegisterType type = RegisterTypeOf(types_[0]);
      single_ = avx512 ? avx512::FindReduce(op_, type) : avx2::FindReduce(op_, type);
      if (single_.row != nullptr) kind_ = Kind::kSingle;
    }
  }
  for (const bool largest : {true, false}) {
    if (kind_ != Kind::kGeneral || !IsArgument(combiner, largest)) continue;
    const RegisterType value = RegisterTypeOf(types_[0]), index = RegisterTypeOf(types_[1]);
    argument_ =
        avx512 ? avx512::FindArgument(largest, value, index) : avx2::FindArgument(largest, value, index);
    if (argument_.row != nullptr) kind_ = Kind::kArgument;
  }
}

void ReduceKernel::RunOnPartials(HostContext& context, const HostTensor* partials, const HostTensor* inits,
                                 std::uint32_t dimensions, const HostTensor* out) const {
  if (on_partials_ == nullptr) return Run(context, partials, inits, dimensions, out);
  // The types differ only for single operations: combine in the partial type, then apply init and rounding as
  // usual.
  const std::int64_t results = out[0].num_elements();
  if (results == 0) return;
  void* total = context.scratch.Allocate(static_cast<std::size_t>(results) * SizeOf(PartialType(0)));
  on_partials_->RunBlocks(context, partials, dimensions, &total);
  Finish(context, &total, inits, out);
}

void ReduceKernel::Run(HostContext& context, const HostTensor* values, const HostTensor* inits,
                       std::uint32_t dimensions, const HostTensor* out) const {
  const std::int64_t results = out[0].num_elements();
  if (results == 0) return;
  if (values[0].num_elements() == 0) {
    assert(inits != nullptr);
    for (std::size_t i = 0; i < types_.size(); ++i) {
      const HostTensor init = BroadcastScalar(inits[i], out[i]);
      if (out[i].type == types_[i]) {
        copy_[i].Run(context, &init, &out[i]);
      } else {
        ElementwiseKernel(Conversion(types_[i], out[i].type)).Run(context, &init, &out[i]);
      }
    }
    return;
  }
  std::vector<HostTensor> single(types_.size());
  const std::uint32_t repeated =
      RepeatedResults(values, static_cast<int>(types_.size()), dimensions, single.data());
  if (repeated != 0) {
    std::vector<HostTensor> results_once(out, out + types_.size());
    for (HostTensor& result : results_once) {
      for (int d = 0; d < result.rank; ++d) {
        if ((repeated >> d & 1) != 0) result.shape[d] = 1;
      }
      const auto elements = static_cast<std::size_t>(SetDenseStrides(&result));
      result.data = context.scratch.Allocate(elements * SizeOf(result.type));
    }
    Run(context, single.data(), inits, dimensions, results_once.data());
    for (std::size_t i = 0; i < types_.size(); ++i) {
      HostTensor& result = results_once[i];
      for (int d = 0; d < result.rank; ++d) {
        if ((repeated >> d & 1) != 0) result.strides[d] = 0;
        result.shape[d] = out[i].shape[d];
      }
      CopyTensor(context, result, out[i]);
    }
    return;
  }
  if (kind_ == Kind::kGeneral) return RunGeneral(context, values, inits, dimensions, out);
  void* totals[2] = {};
  for (std::size_t i = 0; i < types_.size(); ++i)
    totals[i] = context.scratch.Allocate(static_cast<std::size_t>(results) * SizeOf(HeldType(i)));
  RunBlocks(context, values, dimensions, totals);
  Finish(context, totals, inits, out);
}

void ReduceKernel::Finish(HostContext& context, void* const* totals, const HostTensor* inits,
                          const HostTensor* out) const {
  const std::int64_t results = out[0].num_elements();
  const std::size_t n = types_.size();
  if (inits != nullptr) {
    alignas(16) unsigned char init[2][16];
    for (std::size_t i = 0; i < n; ++i) {
      if (const MicroFunction load = LoadFunction(types_[i])) {
        load({init[i], {inits[i].data}, 1, 0, 0});
      } else {
        std::memcpy(init[i], inits[i].data, SizeOf(types_[i]));
      }
    }
    if (kind_ == Kind::kSingle) {
      single_.lanes(totals[0], init[0], 0, results);
    } else {
      // The init value must be the first operand, so combine the results into copies of it.
      const std::size_t value_size = SizeOf(RegisterTypeOf(types_[0])), index_size = SizeOf(types_[1]);
      const std::int64_t most = std::min(results, ReducePlan::kLaneChunk);
      auto* value =
          static_cast<unsigned char*>(context.scratch.Allocate(static_cast<std::size_t>(most) * value_size));
      auto* index =
          static_cast<unsigned char*>(context.scratch.Allocate(static_cast<std::size_t>(most) * index_size));
      for (std::int64_t begin = 0; begin < results; begin += most) {
        const std::int64_t count = std::min(most, results - begin);
        auto* v = static_cast<unsigned char*>(totals[0]) + static_cast<std::size_t>(begin) * value_size;
        auto* x = static_cast<unsigned char*>(totals[1]) + static_cast<std::size_t>(begin) * index_size;
        Pack(value, init[0], 0, count, value_size);
        Pack(index, init[1], 0, count, index_size);
        argument_.lanes(value, index, v, 1, x, 1, count);
        std::memcpy(v, value, static_cast<std::size_t>(count) * value_size);
        std::memcpy(x, index, static_cast<std::size_t>(count) * index_size);
      }
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    HostTensor dense = DenseLike(out[i], totals[i]);
    dense.type = HeldType(i);
    // Sub-byte integers were added without wrapping; the conversion wraps them.
    if (out[i].type == dense.type && BitWidth(dense.type) >= 8) {
      CopyTensor(context, dense, out[i]);
    } else {
      to_result_[i].Run(context, &dense, &out[i]);
    }
  }
}

void ReduceKernel::RunBlocks(HostContext& context, const HostTensor* values, std::uint32_t dimensions,
                             void* const* totals) const {
  BlockReduction(context, {op_, &single_, kind_ == Kind::kArgument ? &argument_ : nullptr}, values,
                 dimensions)
      .Run(totals);
}

}  // namespace ipu_model
