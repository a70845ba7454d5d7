// reduce_window: recognises pooling and cumulative operations. Everything else runs as elementwise passes,
// one per window position, or one per step of a scan over blocks of lines.
#include "kernels/window/window.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <utility>

#include "hlo/SingleOperation.hpp"
#include "kernels/copy/strided_copy.h"
#include "kernels/elementwise/fill.h"
#include "kernels/host/dense_tensor.h"
#include "kernels/reduce/wide_combiner.h"
#include "kernels/window/window_pool.h"
#include "kernels/window/window_walk.h"

namespace ipu_model {
namespace {

// The tensor with `dimension` reversed.
HostTensor Reversed(const HostTensor& tensor, int dimension) {
  return StridedPart(tensor, dimension, tensor.shape[dimension] - 1, -1, tensor.shape[dimension]);
}

// The first blocks * length elements of the dimension as two dimensions: the block, and, as the last
// dimension of the tensor, the position within the block.
HostTensor SplitLine(const HostTensor& tensor, int dimension, std::int64_t blocks, std::int64_t length) {
  HostTensor t = tensor;
  t.shape[t.rank] = length;
  t.strides[t.rank++] = tensor.strides[dimension];
  t.shape[dimension] = blocks;
  t.strides[dimension] *= length;
  return t;
}

// Scratch memory for a tensor of another type, with dimensions in the same order.
HostTensor DenseLike(Scratch& scratch, const HostTensor& tensor, DType type) {
  HostTensor t = tensor;
  t.type = type;
  t.data = scratch.Allocate(static_cast<std::size_t>(t.num_elements()) * SizeOf(type));
  int order[kMaxRank];
  std::iota(order, order + t.rank, 0);
  std::stable_sort(order, order + t.rank,
                   [&](int a, int b) { return std::abs(tensor.strides[a]) > std::abs(tensor.strides[b]); });
  SetDenseStrides(&t, order);
  return t;
}

}  // namespace

int FindScan(const WindowGeometry& g, const std::int64_t* operand, const std::int64_t* result,
             bool* backwards) {
  int dimension = -1;
  for (int d = 0; d < g.rank; ++d) {
    const WindowDimension& w = g.dim[d];
    if (w.stride != 1 || w.base_dilation != 1 || operand[d] != result[d]) return -1;
    if (w.size == 1 && w.padding_low == 0) continue;
    if (dimension >= 0 || w.window_dilation != 1 || !IsRunning(w, operand[d])) return -1;
    if (w.padding_low != 0 && w.padding_low != w.size - 1) return -1;
    dimension = d;
    *backwards = w.padding_low == 0;
  }
  return dimension;
}

WindowCombiner ClassifyCombiner(const Expression& e) {
  const Instruction* const only = hlo::SingleOperation(e);
  if (only == nullptr || e.inputs[0] != e.inputs[1] || only->result_type != e.inputs[0])
    return WindowCombiner::kOther;
  switch (only->op) {
    case ScalarOp::kAdd:
      return WindowCombiner::kAdd;
    case ScalarOp::kMultiply:
      return WindowCombiner::kMultiply;
    case ScalarOp::kMaximum:
      return WindowCombiner::kMaximum;
    case ScalarOp::kMinimum:
      return WindowCombiner::kMinimum;
    default:
      return WindowCombiner::kOther;
  }
}

struct ReduceWindowKernel::Wide {
  ReduceWindowKernel kernel;
  std::vector<DType> types;                    // of the operands
  std::vector<ElementwiseKernel> into, outof;  // conversions of each operand to f32 and back
};

ReduceWindowKernel::ReduceWindowKernel(const Expression& combiner)
    : operands_(static_cast<int>(combiner.outputs.size())),
      type_(combiner.inputs.at(0)),
      combiner_(ClassifyCombiner(combiner)),
      kernel_(combiner) {
  const std::optional<Expression> wide = WideExpression(combiner);
  if (!wide) return;
  Wide w{ReduceWindowKernel(*wide), {}, {}, {}};
  for (std::size_t i = 0; i < combiner.outputs.size(); ++i) {
    const DType type = combiner.inputs[i], wide_type = wide->inputs[i];
    w.types.push_back(wide_type);
    w.into.emplace_back(ConvertExpression(type, wide_type));
    w.outof.emplace_back(ConvertExpression(wide_type, type));
  }
  wide_ = std::make_shared<const Wide>(std::move(w));
}

void ReduceWindowKernel::Run(HostContext& context, const WindowGeometry& geometry, const HostTensor* in,
                             const HostTensor* out) const {
  if (out[0].num_elements() == 0) return;
  bool backwards = false;
  const int scan = FindScan(geometry, in[0].shape, out[0].shape, &backwards);
  const bool rounds = scan >= 0 && geometry.dim[scan].size <= kLongestRoundedScan;
  if (wide_ != nullptr && !rounds) return RunWide(context, geometry, in, out);
  if (combiner_ != WindowCombiner::kOther && PoolTakes(type_)) {
    if (scan >= 0) {
      ScanAlong(context, scan, backwards, combiner_, in[0], in[1].data, out[0]);
    } else {
      Pool(context, geometry, combiner_, in[0], in[1].data, out[0]);
    }
  } else if (scan >= 0) {
    ScanGeneral(context, scan, backwards, in, out);
  } else {
    RunGeneral(context, geometry, in, out);
  }
}

void ReduceWindowKernel::RunWide(HostContext& context, const WindowGeometry& geometry, const HostTensor* in,
                                 const HostTensor* out) const {
  const auto n = static_cast<std::size_t>(operands_);
  HostTensor* wide = context.scratch.Allocate<HostTensor>(3 * n);
  for (std::size_t i = 0; i < 3 * n; ++i) {
    const HostTensor& narrow = i < 2 * n ? in[i] : out[i - 2 * n];
    wide[i] =
        narrow.type == wide_->types[i % n] ? narrow : DenseLike(context.scratch, narrow, wide_->types[i % n]);
    if (i < 2 * n && wide[i].data != narrow.data) wide_->into[i % n].Run(context, &narrow, &wide[i]);
  }
  wide_->kernel.Run(context, geometry, wide, wide + 2 * n);
  for (std::size_t i = 0; i < n; ++i) {
    if (wide[2 * n + i].data != out[i].data) wide_->outof[i].Run(context, &wide[2 * n + i], &out[i]);
  }
}

void ReduceWindowKernel::RunGeneral(HostContext& context, const WindowGeometry& g, const HostTensor* in,
                                    const HostTensor* out) const {
  const auto n = static_cast<std::size_t>(operands_);
  for (std::size_t i = 0; i < n; ++i) Fill(context, in[n + i].data, out[i]);
  // For every operand the accumulator, then the value, then the result.
  HostTensor* parts = context.scratch.Allocate<HostTensor>(3 * n);
  const Scratch::Mark mark = context.scratch.Save();
  for (TapCounter tap(g, false); !tap.done(); tap.Next()) {
    bool any = true;
    for (std::size_t i = 0; i < n; ++i) {
      parts[i] = out[i];
      parts[n + i] = in[i];
    }
    for (int d = 0; d < g.rank && any; ++d) {
      const TapRange range = FindTap(g.dim[d], tap[d], in[0].shape[d], out[0].shape[d]);
      any = range.count > 0;
      for (std::size_t i = 0; i < n && any; ++i) {
        parts[i] = StridedPart(parts[i], d, range.first, range.step, range.count);
        parts[n + i] = StridedPart(parts[n + i], d, range.at, range.at_step, range.count);
      }
    }
    if (!any) continue;
    std::copy(parts, parts + n, parts + 2 * n);
    kernel_.Run(context, parts, parts + 2 * n);
    context.scratch.Rewind(mark);
  }
}

// parts: accumulators, values, results.
void ReduceWindowKernel::Combine(HostContext& context, const HostTensor* parts, bool swap) const {
  const auto n = static_cast<std::size_t>(operands_);
  const Scratch::Mark mark = context.scratch.Save();
  HostTensor* in = context.scratch.Allocate<HostTensor>(2 * n);
  for (std::size_t i = 0; i < n; ++i) {
    const bool swapped = swap && parts[i].type == parts[n + i].type;
    in[i] = parts[swapped ? n + i : i];
    in[n + i] = parts[swapped ? i : n + i];
  }
  kernel_.Run(context, in, parts + 2 * n);
  context.scratch.Rewind(mark);
}

// out[i] = out[i - 1] op in[i] along the dimension, with out[-1] = before. If `before` is null, the first
// position already holds its result.
void ReduceWindowKernel::ScanLines(HostContext& context, int dimension, bool backwards,
                                   const HostTensor* before, const HostTensor* in,
                                   const HostTensor* out) const {
  const auto n = static_cast<std::size_t>(operands_);
  const std::int64_t steps = out[0].shape[dimension];
  HostTensor* parts = context.scratch.Allocate<HostTensor>(3 * n);
  for (std::int64_t step = before == nullptr ? 1 : 0; step < steps; ++step) {
    for (std::size_t i = 0; i < n; ++i) {
      parts[i] = step == 0 ? before[i] : StridedPart(out[i], dimension, step - 1, 1, 1);
      parts[n + i] = StridedPart(in[i], dimension, step, 1, 1);
      parts[2 * n + i] = StridedPart(out[i], dimension, step, 1, 1);
    }
    // The window runs upwards, so in a scan from the end the new element is the first operand.
    Combine(context, parts, backwards && step > 0);
  }
}

void ReduceWindowKernel::ScanGeneral(HostContext& context, int dimension, bool backwards,
                                     const HostTensor* given_in, const HostTensor* given_out) const {
  const auto n = static_cast<std::size_t>(operands_);
  HostTensor* in = context.scratch.Allocate<HostTensor>(n);
  HostTensor* out = context.scratch.Allocate<HostTensor>(n);
  HostTensor* init = context.scratch.Allocate<HostTensor>(n);
  bool one_type = true;
  for (std::size_t i = 0; i < n; ++i) {
    in[i] = backwards ? Reversed(given_in[i], dimension) : given_in[i];
    out[i] = backwards ? Reversed(given_out[i], dimension) : given_out[i];
    init[i] =
        BroadcastLike(StridedPart(out[i], dimension, 0, 1, 1), given_in[n + i].data, given_in[n + i].type);
    one_type = one_type && in[i].type == out[i].type;
  }
  // The fixed cost of a step, in elements.
  constexpr std::int64_t kStep = 256;
  const std::int64_t steps = out[0].shape[dimension], lines = out[0].num_elements() / steps;
  const std::int64_t length = static_cast<std::int64_t>(std::sqrt(static_cast<double>(steps)));
  if (!one_type || steps <= kStep || lines >= kStep || out[0].rank == kMaxRank) {
    return ScanLines(context, dimension, backwards, init, in, out);
  }
  // Scan all blocks of the lines in parallel, then scan the blocks' totals, then add the preceding total to
  // each block.
  const std::int64_t blocks = steps / length, rest = steps - blocks * length;
  HostTensor* block_in = context.scratch.Allocate<HostTensor>(n);
  HostTensor* parts = context.scratch.Allocate<HostTensor>(3 * n);
  for (std::size_t i = 0; i < n; ++i) {
    parts[i] = init[i];
    parts[n + i] = StridedPart(in[i], dimension, 0, 1, 1);
    parts[2 * n + i] = StridedPart(out[i], dimension, 0, 1, 1);
  }
  const int within = out[0].rank;  // the dimension of positions within a block
  HostTensor* block_out = context.scratch.Allocate<HostTensor>(n);
  for (std::size_t i = 0; i < n; ++i) {
    block_in[i] = SplitLine(in[i], dimension, blocks, length);
    block_out[i] = SplitLine(out[i], dimension, blocks, length);
    CopyTensor(context, StridedPart(block_in[i], within, 0, 1, 1),
               StridedPart(block_out[i], within, 0, 1, 1));
  }
  Combine(context, parts, false);
  ScanLines(context, within, backwards, nullptr, block_in, block_out);
  // Scan the last elements of the blocks, which are their totals; then combine each block with the total
  // before it.
  for (std::size_t i = 0; i < n; ++i) parts[i] = StridedPart(block_out[i], within, length - 1, 1, 1);
  ScanLines(context, dimension, backwards, nullptr, parts, parts);
  for (std::size_t i = 0; i < n; ++i) {
    const HostTensor last = parts[i];
    parts[i] = StridedPart(last, dimension, 0, 1, blocks - 1);
    parts[i].shape[within] = length - 1;
    parts[i].strides[within] = 0;
    parts[n + i] = parts[2 * n + i] =
        StridedPart(StridedPart(block_out[i], dimension, 1, 1, blocks - 1), within, 0, 1, length - 1);
  }
  Combine(context, parts, backwards);
  if (rest == 0) return;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t begin = blocks * length;
    block_in[i] = StridedPart(in[i], dimension, begin, 1, rest);
    block_out[i] = StridedPart(out[i], dimension, begin, 1, rest);
    parts[i] = StridedPart(out[i], dimension, begin - 1, 1, 1);
    parts[n + i] = StridedPart(in[i], dimension, begin, 1, 1);
    parts[2 * n + i] = StridedPart(out[i], dimension, begin, 1, 1);
  }
  Combine(context, parts, backwards);
  ScanLines(context, dimension, backwards, nullptr, block_in, block_out);
}

}  // namespace ipu_model
