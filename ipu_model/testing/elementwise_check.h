// What tests of the elementwise kernel share: expressions of one operation, and running them.
#ifndef IPU_MODEL_TESTING_ELEMENTWISE_CHECK_H_
#define IPU_MODEL_TESTING_ELEMENTWISE_CHECK_H_

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "check.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/host/dense_tensor.h"
#include "kernels/host/isa.h"
#include "kernels/vector/convert.h"
#include "testing/bound_kernel_check.h"
#include "testing/test_instructions.h"

namespace ipu_model {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
ScalarConstant Constant(DType type, T value) {
  ScalarConstant c;
  c.type = type;
  std::memcpy(c.bytes, &value, sizeof(value));
  return c;
}

// An expression of one operation on `operands` inputs of one type.
inline Expression Single(ScalarOp op, DType type, DType result, int operands, std::uint32_t immediate = 0) {
  Expression e;
  e.inputs.assign(static_cast<std::size_t>(operands), type);
  e.code = {Op(op, type, result, 0, 1, 2, immediate)};
  for (int k = operands; k < 3; ++k) e.code[0].operand[k] = 0;
  e.outputs = {static_cast<std::uint16_t>(operands)};
  return e;
}

template <typename T>
HostTensor VectorOf(std::vector<T>& values, DType type) {
  return DenseVector(type, static_cast<std::int64_t>(values.size()), values.data());
}

inline void Run(const Expression& e, const std::vector<HostTensor>& in, const std::vector<HostTensor>& out) {
  Scratch scratch;
  HostContext context{ThreadPool::Global(), scratch};
  const FlushDenormals flush;
  const ElementwiseKernel kernel(e);
  CheckBound(
      in, out, [&] { kernel.Run(context, in, out); },
      [&](const auto& bound_in, const auto& bound_out) {
        return kernel.Bind(bound_in.data(), bound_out.data());
      });
}

template <typename R, typename T>
std::vector<R> Apply(ScalarOp op, DType type, std::vector<T> a, DType result, std::uint32_t immediate = 0) {
  std::vector<R> out(a.size());
  Run(Single(op, type, result, 1, immediate), {VectorOf(a, type)}, {VectorOf(out, result)});
  return out;
}

template <typename R, typename T>
std::vector<R> Apply(ScalarOp op, DType type, std::vector<T> a, std::vector<T> b, DType result) {
  std::vector<R> out(a.size());
  Run(Single(op, type, result, 2), {VectorOf(a, type), VectorOf(b, type)}, {VectorOf(out, result)});
  return out;
}

inline bool SameBits(float a, float b) { return (std::isnan(a) && std::isnan(b)) || BitsOf(a) == BitsOf(b); }
inline void CheckSame(const std::vector<float>& got, const std::vector<float>& expected) {
  CHECK_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!SameBits(got[i], expected[i])) CHECK_EQ(got[i], expected[i]);
  }
}

}  // namespace ipu_model

#endif  // IPU_MODEL_TESTING_ELEMENTWISE_CHECK_H_
