// Reductions over sliding windows, and their selecting inverse, on host memory.
#ifndef IPU_MODEL_KERNELS_WINDOW_WINDOW_H_
#define IPU_MODEL_KERNELS_WINDOW_WINDOW_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "hlo/WindowGeometry.hpp"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/expression.h"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

using hlo::WindowDimension;
using hlo::WindowGeometry;

// What a single-operation combiner does.
enum class WindowCombiner { kAdd, kMultiply, kMaximum, kMinimum, kOther };
WindowCombiner ClassifyCombiner(const Expression& combiner);

// Whether the windows along a dimension of `extent` elements are running results: each combines one element
// more than the window before it.
inline bool IsRunning(const WindowDimension& window, std::int64_t extent) {
  return window.stride == 1 && window.size > 1 && window.size >= extent;
}

// The dimension along which every result combines everything from one side (a cumulative operation), or -1.
// Shapes of operand and result; backwards: from the end.
int FindScan(const WindowGeometry& geometry, const std::int64_t* operand, const std::int64_t* result,
             bool* backwards);

// Scans of f16 and bf16 up to this window size round every operation of the combiner, as the program says.
// Over long lines those roundings would add up: XLA cuts them into blocks of this length (base_length of its
// ReduceWindowRewriter on CPU); here they are in f32, rounded once.
constexpr std::int64_t kLongestRoundedScan = 16;

// stablehlo.reduce_window of n operands of one shape. The combiner has inputs acc_0.., value_0.. and outputs
// acc_0... It starts from the init values and sees the window's elements in row-major order; elements in the
// padding do not take part, as in XLA. Single additions, multiplications, maxima and minima of 4- and 8-byte
// numbers run in vector loops, windows that run from one side over a whole dimension as scans, whose long
// lines are cut: combiners are associative. f16 and bf16 accumulate in f32, except in scans of windows of at
// most kLongestRoundedScan places.
class ReduceWindowKernel {
 public:
  explicit ReduceWindowKernel(const Expression& combiner);

  // in: n operands, then n scalars (rank 0); out: n results, which share no memory with the operands.
  void Run(HostContext& context, const WindowGeometry& geometry, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const {
    Run(context, geometry, in.data(), out.data());
  }
  // The same on arrays, for callers that must not build vectors.
  void Run(HostContext& context, const WindowGeometry& geometry, const HostTensor* in,
           const HostTensor* out) const;

 private:
  // With f32 copies of the f16 and bf16 tensors.
  struct Wide;

  void RunWide(HostContext& context, const WindowGeometry& geometry, const HostTensor* in,
               const HostTensor* out) const;
  void RunGeneral(HostContext& context, const WindowGeometry& geometry, const HostTensor* in,
                  const HostTensor* out) const;
  void ScanGeneral(HostContext& context, int dimension, bool reverse, const HostTensor* in,
                   const HostTensor* out) const;
  void Combine(HostContext& context, const HostTensor* parts, bool swap) const;
  void ScanLines(HostContext& context, int dimension, bool backwards, const HostTensor* before,
                 const HostTensor* in, const HostTensor* out) const;

  int operands_;
  DType type_;  // of the first operand
  WindowCombiner combiner_;
  ElementwiseKernel kernel_;
  std::shared_ptr<const Wide> wide_;
};

// stablehlo.select_and_scatter: see hlo::selectAndScatter. Windows have no dilation.
class SelectAndScatterKernel {
 public:
  // select: (selected, candidate) -> pred; scatter: (result, source) -> result.
  SelectAndScatterKernel(const Expression& select, const Expression& scatter);

  // in: operand, source, init (rank 0).
  void Run(HostContext& context, const WindowGeometry& geometry, const std::vector<HostTensor>& in,
           const HostTensor& out) const;

 private:
  void RunGeneral(HostContext& context, const WindowGeometry& geometry, const HostTensor& operand,
                  const HostTensor& source, const HostTensor& out) const;

  DType type_;
  ScalarOp comparison_ = ScalarOp::kCount;  // when select is one comparison
  bool adds_ = false;                       // when scatter is one addition
  ElementwiseKernel select_, scatter_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_WINDOW_WINDOW_H_
