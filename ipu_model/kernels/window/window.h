// Reductions over sliding windows and select-and-scatter, on host memory.
#ifndef IPU_MODEL_KERNELS_WINDOW_WINDOW_H_
#define IPU_MODEL_KERNELS_WINDOW_WINDOW_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "hlo/WindowGeometry.hpp"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/program/expression.h"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

using hlo::WindowDimension;
using hlo::WindowGeometry;

// The operation of a combiner that is one operation; kOther for all other combiners.
enum class WindowCombiner { kAdd, kMultiply, kMaximum, kMinimum, kOther };
WindowCombiner ClassifyCombiner(const Expression& combiner);

// Whether the windows along a dimension of `extent` elements are running results: each combines one element
// more than the window before it.
inline bool IsRunning(const WindowDimension& window, std::int64_t extent) {
  return window.stride == 1 && window.size > 1 && window.size >= extent;
}

// Returns the dimension of a cumulative operation, in which every result combines all elements from one end
// up to its own position, or -1. `operand` and `result` are the shapes; sets *backwards if the windows start
// at the end.
int FindScan(const WindowGeometry& geometry, const std::int64_t* operand, const std::int64_t* result,
             bool* backwards);

// Scans of f16 and bf16 round after every operation, as the program says, up to this window size. Over long
// lines the rounding errors would add up. XLA:CPU therefore splits them into blocks of this length
// (base_length of its ReduceWindowRewriter); the model computes them in f32 and rounds once.
constexpr std::int64_t kLongestRoundedScan = 16;

// stablehlo.reduce_window of n operands of one shape. The combiner has the inputs acc_0.., value_0.. and the
// outputs acc_0... It starts from the init values and visits the window's elements in row-major order.
// Padding elements are left out, as in XLA. A single add, multiply, maximum or minimum of 4- or 8-byte
// numbers runs in vector loops. Windows that reach from one end over a whole dimension run as scans; long
// lines are split into blocks, which is allowed because combiners are associative. f16 and bf16 accumulate in
// f32, except in scans whose windows have at most kLongestRoundedScan elements.
class ReduceWindowKernel {
 public:
  explicit ReduceWindowKernel(const Expression& combiner);

  // in: n operands, then n scalars (rank 0). out: n results, which share no memory with the operands.
  void Run(HostContext& context, const WindowGeometry& geometry, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const {
    Run(context, geometry, in.data(), out.data());
  }
  // The same on arrays, for callers that must not allocate vectors.
  void Run(HostContext& context, const WindowGeometry& geometry, const HostTensor* in,
           const HostTensor* out) const;

 private:
  // The same kernel on f32 copies of the f16 and bf16 tensors.
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

// stablehlo.select_and_scatter; see hlo::selectAndScatter. Windows have no dilation.
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
  ScalarOp comparison_ = ScalarOp::kCount;  // if select is one comparison
  bool adds_ = false;                       // if scatter is one addition
  ElementwiseKernel select_, scatter_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_WINDOW_WINDOW_H_
