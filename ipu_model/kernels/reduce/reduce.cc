// Chooses the path of a reduction, and runs the paths with specialised inner loops. Results are accumulated
// densely in register types; init values and narrow types are applied at the end.
#include "kernels/reduce/reduce.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <stdexcept>

#include "kernels/copy/slice.h"
#include "kernels/host/isa.h"
#include "kernels/reduce/reduce_plan.h"
#include "kernels/reduce/reduce_space.h"
#include "kernels/vector/convert.h"

namespace ipu_model {
namespace {

// A reduction to few results uses several threads from this many elements on.
constexpr std::int64_t kElementsForThreads = 1 << 16;

MicroFunction LoadFunction(DType type) { return HasAvx512() ? avx512::FindLoad(type) : avx2::FindLoad(type); }

template <typename T>
void PackLoop(T* __restrict target, const T* __restrict source, std::int64_t stride, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) target[i] = source[i * stride];
}
template <typename T>
void PackAs(void* to, const unsigned char* from, std::int64_t stride, std::int64_t n) {
  const T* source = reinterpret_cast<const T*>(from);
  T* target = static_cast<T*>(to);
  // Constants, for which the compiler finds vectors.
  if (stride == 0) return PackLoop<T>(target, source, 0, n);
  if (stride == 2) return PackLoop<T>(target, source, 2, n);
  if (stride == 4) return PackLoop<T>(target, source, 4, n);
  PackLoop<T>(target, source, stride, n);
}
// Copies strided elements to consecutive ones.
void Pack(void* to, const unsigned char* from, std::int64_t stride, std::int64_t n, std::size_t size) {
  switch (size) {
    case 1:
      return PackAs<std::uint8_t>(to, from, stride, n);
    case 2:
      return PackAs<std::uint16_t>(to, from, stride, n);
    case 4:
      return PackAs<std::uint32_t>(to, from, stride, n);
    default:
      return PackAs<std::uint64_t>(to, from, stride, n);
  }
}

}  // namespace

DType ReduceKernel::PartialType(unsigned i) const {
  const DType type = types_[i];
  if (kind_ != Kind::kSingle) return type;
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
      copy_[i].Run(context, &init, &out[i]);
    }
    return;
  }
  std::vector<HostTensor> single(types_.size());
  const std::uint32_t repeated =
      RepeatedResults(values, static_cast<int>(types_.size()), dimensions, single.data());
  if (repeated != 0) {
    std::vector<HostTensor> results_once(out, out + types_.size());
    for (HostTensor& result : results_once) {
      std::int64_t stride = 1;
      for (int d = result.rank - 1; d >= 0; --d) {
        if ((repeated >> d & 1) != 0) result.shape[d] = 1;
        result.strides[d] = stride;
        stride *= result.shape[d];
      }
      result.data = context.scratch.Allocate(static_cast<std::size_t>(stride) * SizeOf(result.type));
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
    HostTensor dense = out[i];
    dense.data = totals[i];
    std::int64_t stride = 1;
    for (int d = dense.rank - 1; d >= 0; --d) {
      dense.strides[d] = stride;
      stride *= dense.shape[d];
    }
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
  const bool argument = kind_ == Kind::kArgument;
  const int count = argument ? 2 : 1;
  const ReducePlan plan = MakeReducePlan(values, count, dimensions, !argument);
  const ReduceSpace &kept = plan.kept, &reduced = plan.reduced;
  const std::size_t element = SizeOf(values[0].type);
  const MicroFunction load = LoadFunction(values[0].type);
  const std::size_t size = SizeOf(RegisterTypeOf(values[0].type));
  const std::size_t index_size = argument ? SizeOf(values[1].type) : 0;
  const bool float_sum =
      !argument && op_ == ReduceOp::kAdd && RegisterTypeOf(values[0].type) == RegisterType::kF32;
  const int inner = reduced.rank - 1;
  const std::int64_t results = kept.count;

  // The totals of all segments after the first.
  unsigned char* more[2] = {};
  for (int i = 0; i < count; ++i)
    more[i] = static_cast<unsigned char*>(context.scratch.Allocate(
        static_cast<std::size_t>((plan.segments - 1) * results) * (i == 0 ? size : index_size)));
  const auto total = [&](int i, std::int64_t segment, std::int64_t result) {
    const std::size_t bytes = i == 0 ? size : index_size;
    unsigned char* base = segment == 0 ? static_cast<unsigned char*>(totals[i])
                                       : more[i] + static_cast<std::size_t>((segment - 1) * results) * bytes;
    return base + static_cast<std::size_t>(result) * bytes;
  };

  const std::int64_t work = plan.items * plan.segments;
  const std::int64_t elements = kept.count * reduced.count;
  ThreadPool& pool = context.pool;
  const int workers =
      elements < kElementsForThreads ? 1 : static_cast<int>(std::min<std::int64_t>(work, pool.size()));
  constexpr std::size_t kBuffer = ReducePlan::kRowPiece * 8;
  auto* memory =
      static_cast<unsigned char*>(context.scratch.Allocate(4 * kBuffer * static_cast<std::size_t>(workers)));

  const auto base = [&](int i, std::int64_t offset) {
    return static_cast<const unsigned char*>(values[i].data) +
           offset * static_cast<std::int64_t>(i == 0 ? element : index_size);
  };
  // Returns n values from `offset` on as consecutive registers: in place, or copied to the buffer.
  const auto consecutive = [&](std::int64_t offset, std::int64_t stride, std::int64_t n,
                               unsigned char* buffer) {
    const unsigned char* p = base(0, offset);
    if (stride != 1) {
      Pack(buffer, p, stride, n, element);
      p = buffer;
      buffer += kBuffer;
    }
    if (load == nullptr) return p;
    load({buffer, {p}, n, 0, 0});
    return static_cast<const unsigned char*>(buffer);
  };

  // The same for rows of n values, one after the other.
  const auto consecutive_rows = [&](std::int64_t offset, std::int64_t row_stride, std::int64_t rows,
                                    std::int64_t stride, std::int64_t n, unsigned char* buffer) {
    unsigned char* to = buffer + kBuffer;
    for (std::int64_t r = 0; r < rows; ++r, to += static_cast<std::size_t>(n) * size) {
      const unsigned char* p = base(0, offset + r * row_stride);
      if (load == nullptr) {
        Pack(to, p, stride, n, element);
        continue;
      }
      if (stride != 1) {
        Pack(buffer, p, stride, n, element);
        p = buffer;
      }
      load({to, {p}, n, 0, 0});
    }
    return static_cast<const unsigned char*>(buffer + kBuffer);
  };

  const auto row_item = [&](std::int64_t item, std::int64_t segment, std::int64_t first, std::int64_t last,
                            unsigned char* buffer) {
    unsigned char* result = total(0, segment, item);
    if (plan.units == 1 && !argument) {
      const std::int64_t stride = inner >= 0 ? reduced.stride[0][inner] : 1;
      single_.row(consecutive(kept.Offset(0, item), stride, plan.length, buffer), plan.length, result);
      return;
    }
    double sum = 0;
    for (std::int64_t unit = first; unit < last; ++unit) {
      const std::int64_t row = unit / plan.pieces, begin = unit % plan.pieces * ReducePlan::kRowPiece;
      const std::int64_t n = std::min(ReducePlan::kRowPiece, plan.length - begin);
      const std::int64_t stride = inner >= 0 ? reduced.stride[0][inner] : 1;
      const std::int64_t offset =
          kept.Offset(0, item) + reduced.Offset(0, row * plan.length) + begin * stride;
      const unsigned char* p = consecutive(offset, stride, n, buffer);
      alignas(16) unsigned char piece[16], index[16];
      if (argument) {
        const std::int64_t index_stride = inner >= 0 ? reduced.stride[1][inner] : 1;
        const std::int64_t at =
            kept.Offset(1, item) + reduced.Offset(1, row * plan.length) + begin * index_stride;
        unsigned char* best = total(1, segment, item);
        if (unit == first) {
          argument_.row(p, base(1, at), index_stride, n, result, best);
        } else {
          argument_.row(p, base(1, at), index_stride, n, piece, index);
          argument_.lanes(result, best, piece, 1, index, 1, 1);
        }
      } else {
        single_.row(p, n, unit == first ? result : piece);
        if (float_sum) {
          float value;
          std::memcpy(&value, unit == first ? result : piece, sizeof(value));
          sum += static_cast<double>(value);
        } else if (unit != first) {
          single_.lanes(result, piece, 1, 1);
        }
      }
    }
    if (float_sum && last - first > 1) {
      const auto value = static_cast<float>(sum);
      std::memcpy(result, &value, sizeof(value));
    }
  };

  const auto folded_item = [&](std::int64_t, std::int64_t segment, std::int64_t first, std::int64_t last,
                               unsigned char* buffer) {
    const std::int64_t run = plan.length * plan.lanes,
                       piece = ReducePlan::kRowPiece / plan.lanes * plan.lanes;
    const std::int64_t pieces = plan.pieces;
    unsigned char* sum = buffer + 2 * kBuffer;
    std::int64_t width = 0;
    for (std::int64_t unit = first; unit < last; ++unit) {
      const std::int64_t begin = unit % pieces * piece,
                         end = unit % pieces == pieces - 1 ? run : begin + piece;
      const std::int64_t offset = reduced.Offset(0, unit / pieces * plan.length);
      std::int64_t at = begin;
      if (unit == first) {
        width = std::min(end - begin, ReducePlan::kLaneChunk / plan.lanes * plan.lanes);
        std::memcpy(sum, consecutive(offset + at, 1, width, buffer), static_cast<std::size_t>(width) * size);
        at += width;
      }
      while (at < end) {
        // As many rows of the accumulators at once as fit into the buffer, and then the rest.
        const std::int64_t fit = load == nullptr ? (end - at) / width : ReducePlan::kRowPiece / width;
        const std::int64_t rows = std::min((end - at) / width, fit);
        const std::int64_t n = rows > 0 ? rows * width : end - at;
        single_.columns(sum, consecutive(offset + at, 1, n, buffer), width, std::max<std::int64_t>(rows, 1),
                        std::min(n, width));
        at += n;
      }
    }
    for (std::int64_t at = plan.lanes; at < width; at += plan.lanes)
      single_.lanes(sum, sum + static_cast<std::size_t>(at) * size, 1, plan.lanes);
    std::memcpy(total(0, segment, 0), sum, static_cast<std::size_t>(plan.lanes) * size);
  };

  const std::int64_t lane_stride = kept.rank > 0 ? kept.stride[0][plan.lane] : 0;
  std::int64_t result_stride = 1;  // stride between lanes in the dense results
  for (int d = plan.lane + 1; d < kept.rank; ++d) result_stride *= kept.extent[d];
  const auto lane_item = [&](std::int64_t item, std::int64_t segment, std::int64_t first, std::int64_t last,
                             unsigned char* buffer) {
    const std::int64_t chunk = item % plan.chunks, line = item / plan.chunks;
    const std::int64_t begin = chunk * ReducePlan::kLaneChunk,
                       n = std::min(ReducePlan::kLaneChunk, plan.lanes - begin);
    // The line's first result, plus the chunk's offset.
    const std::int64_t result =
        line / result_stride * result_stride * plan.lanes + line % result_stride + begin * result_stride;
    unsigned char *best = buffer + 2 * kBuffer, *index = best + kBuffer;
    unsigned char* sum = index;  // holds the float sums that are put aside
    bool have_best = false, have_sum = false;
    std::int64_t rows = 1;
    for (std::int64_t unit = first; unit < last; unit += rows) {
      const std::int64_t offset = kept.Offset(0, result) + reduced.Offset(0, unit);
      if (argument) {
        // The loop over values with indices vectorises only on consecutive values.
        const bool direct = load == nullptr && lane_stride == 1;
        const unsigned char* p = direct ? base(0, offset) : consecutive(offset, lane_stride, n, buffer);
        const std::int64_t index_stride = kept.stride[1][plan.lane];
        const unsigned char* x = base(1, kept.Offset(1, result) + reduced.Offset(1, unit));
        if (have_best) {
          argument_.lanes(best, index, p, 1, x, index_stride, n);
        } else {
          Pack(best, p, 1, n, size);
          Pack(index, x, index_stride, n, index_size);
        }
        have_best = true;
        continue;
      }
      // As many rows at once as have one stride and fit into the buffer.
      const std::int64_t until_flush =
          ReducePlan::kRowsBeforeFlush - (unit - first) % ReducePlan::kRowsBeforeFlush;
      rows = std::min({last - unit, plan.length - unit % plan.length, until_flush});
      std::int64_t row_stride = inner >= 0 ? reduced.stride[0][inner] : 0;
      const unsigned char* p = base(0, offset);
      if (load != nullptr || lane_stride != 1) {
        rows = std::min(rows, static_cast<std::int64_t>(kBuffer / size) / n);
        p = consecutive_rows(offset, row_stride, rows, lane_stride, n, buffer);
        row_stride = n;
      }
      if (!have_best) std::memcpy(best, p, static_cast<std::size_t>(n) * size);
      const std::int64_t done = have_best ? 0 : 1;
      single_.columns(best, p + done * row_stride * static_cast<std::int64_t>(size), row_stride, rows - done,
                      n);
      have_best = true;
      if (float_sum && rows == until_flush) {
        if (have_sum) {
          single_.lanes(sum, best, 1, n);
        } else {
          std::memcpy(sum, best, static_cast<std::size_t>(n) * size);
        }
        have_sum = true;
        have_best = false;
      }
    }
    if (have_sum && have_best) single_.lanes(sum, best, 1, n);
    const unsigned char* values_done = have_sum ? sum : best;
    if (result_stride == 1) {
      std::memcpy(total(0, segment, result), values_done, static_cast<std::size_t>(n) * size);
      if (argument) std::memcpy(total(1, segment, result), index, static_cast<std::size_t>(n) * index_size);
      return;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      std::memcpy(total(0, segment, result + i * result_stride),
                  values_done + static_cast<std::size_t>(i) * size, size);
      if (argument)
        std::memcpy(total(1, segment, result + i * result_stride),
                    index + static_cast<std::size_t>(i) * index_size, index_size);
    }
  };

  const auto run = [&](unsigned char* buffer, std::int64_t begin, std::int64_t end) {
    for (std::int64_t w = begin; w < end; ++w) {
      const bool whole = plan.segments == 1;
      const std::int64_t item = whole ? w : w / plan.segments, segment = whole ? 0 : w % plan.segments;
      const std::int64_t first = whole ? 0 : plan.units * segment / plan.segments;
      const std::int64_t last = whole ? plan.units : plan.units * (segment + 1) / plan.segments;
      if (plan.rows) {
        row_item(item, segment, first, last, buffer);
      } else if (plan.folded) {
        folded_item(item, segment, first, last, buffer);
      } else {
        lane_item(item, segment, first, last, buffer);
      }
    }
  };
  if (workers == 1) {
    run(memory, 0, work);
  } else {
    const std::int64_t parts = std::min(work, workers * kPiecesPerWorker);
    WorkShares shares(parts, workers);
    auto task = [&](int worker) {
      unsigned char* buffer = memory + 4 * kBuffer * static_cast<std::size_t>(worker);
      for (std::int64_t p = shares.Next(worker); p != WorkShares::kNone; p = shares.Next(worker))
        run(buffer, work * p / parts, work * (p + 1) / parts);
    };
    pool.Run(workers, TaskRef(task));
  }
  for (std::int64_t s = 1; s < plan.segments; ++s) {
    if (argument) {
      argument_.lanes(totals[0], totals[1], total(0, s, 0), 1, total(1, s, 0), 1, results);
    } else {
      single_.lanes(totals[0], total(0, s, 0), 1, results);
    }
  }
}

}  // namespace ipu_model
