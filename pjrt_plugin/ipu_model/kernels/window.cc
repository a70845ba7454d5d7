// reduce_window: recognises pooling and cumulative operations; anything else runs as elementwise passes, one
// for each window position (or one for each step of a scan).
#include "pjrt_plugin/ipu_model/kernels/window.h"

#include <algorithm>

#include "pjrt_plugin/ipu_model/kernels/fill.h"
#include "pjrt_plugin/ipu_model/kernels/window_pool.h"
#include "pjrt_plugin/ipu_model/kernels/window_walk.h"

namespace ipu_model {

int FindScan(const WindowGeometry& g, const std::int64_t* operand, const std::int64_t* result,
             bool* backwards) {
  int dimension = -1;
  for (int d = 0; d < g.rank; ++d) {
    const WindowDimension& w = g.dim[d];
    if (w.stride != 1 || w.base_dilation != 1 || operand[d] != result[d]) return -1;
    if (w.size == 1 && w.padding_low == 0) continue;
    if (dimension >= 0 || w.window_dilation != 1 || w.size < operand[d]) return -1;
    if (w.padding_low != 0 && w.padding_low != w.size - 1) return -1;
    dimension = d;
    *backwards = w.padding_low == 0;
  }
  return dimension;
}

WindowCombiner ClassifyCombiner(const Expression& e) {
  if (e.inputs.size() != 2 || e.outputs.size() != 1 || e.code.size() != 1 || e.inputs[0] != e.inputs[1]) {
    return WindowCombiner::kOther;
  }
  const Instruction& i = e.code[0];
  const bool both = (i.operand[0] == 0 && i.operand[1] == 1) || (i.operand[0] == 1 && i.operand[1] == 0);
  if (!both || i.result_type != e.inputs[0] || e.outputs[0] != 2 + e.constants.size()) {
    return WindowCombiner::kOther;
  }
  switch (i.op) {
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

ReduceWindowKernel::ReduceWindowKernel(const Expression& combiner)
    : operands_(static_cast<int>(combiner.outputs.size())),
      type_(combiner.inputs.at(0)),
      combiner_(ClassifyCombiner(combiner)),
      kernel_(combiner) {}

void ReduceWindowKernel::Run(HostContext& context, const WindowGeometry& geometry,
                             const std::vector<HostTensor>& in, const std::vector<HostTensor>& out) const {
  if (out[0].num_elements() == 0) return;
  bool backwards = false;
  const int scan = FindScan(geometry, in[0].shape, out[0].shape, &backwards);
  if (combiner_ != WindowCombiner::kOther && PoolTakes(type_)) {
    if (scan >= 0) {
      ScanAlong(context, scan, backwards, combiner_, in[0], in[1].data, out[0]);
    } else {
      Pool(context, geometry, combiner_, in[0], in[1].data, out[0]);
    }
  } else if (scan >= 0) {
    ScanGeneral(context, scan, backwards, in.data(), out.data());
  } else {
    RunGeneral(context, geometry, in.data(), out.data());
  }
}

void ReduceWindowKernel::RunGeneral(HostContext& context, const WindowGeometry& g, const HostTensor* in,
                                    const HostTensor* out) const {
  const auto n = static_cast<std::size_t>(operands_);
  for (std::size_t i = 0; i < n; ++i) Fill(context, in[n + i].data, out[i]);
  // acc and value of every operand, then the results.
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

void ReduceWindowKernel::ScanGeneral(HostContext& context, int dimension, bool backwards,
                                     const HostTensor* in, const HostTensor* out) const {
  const auto n = static_cast<std::size_t>(operands_);
  const std::int64_t steps = out[0].shape[dimension];
  HostTensor* parts = context.scratch.Allocate<HostTensor>(3 * n);
  const Scratch::Mark mark = context.scratch.Save();
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t at = backwards ? steps - 1 - step : step;
    const std::int64_t last = backwards ? at + 1 : at - 1;
    for (std::size_t i = 0; i < n; ++i) {
      HostTensor* acc = &parts[i];
      HostTensor* value = &parts[n + i];
      parts[2 * n + i] = StridedPart(out[i], dimension, at, 1, 1);
      *acc = step == 0 ? BroadcastLike(parts[2 * n + i], in[n + i].data, in[n + i].type)
                       : StridedPart(out[i], dimension, last, 1, 1);
      *value = StridedPart(in[i], dimension, at, 1, 1);
      // The window runs upwards, so from the end the new element comes first.
      if (backwards && step > 0 && in[i].type == out[i].type) std::swap(*acc, *value);
    }
    kernel_.Run(context, parts, parts + 2 * n);
    context.scratch.Rewind(mark);
  }
}

}  // namespace ipu_model
