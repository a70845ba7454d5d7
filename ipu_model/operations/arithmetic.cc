#include "operations/arithmetic.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/host/integer_division.h"

namespace ipu_model {
namespace {

using hlo::ScalarOp;

bool IsCounted(ScalarOp op) {
  switch (op) {
    case ScalarOp::kBitcast:
    case ScalarOp::kCbrt:
    case ScalarOp::kCos:
    case ScalarOp::kSin:
    case ScalarOp::kTan:
    case ScalarOp::kTanh:
    case ScalarOp::kExp:
    case ScalarOp::kExpm1:
    case ScalarOp::kLog:
    case ScalarOp::kLog1p:
    case ScalarOp::kLogistic:
    case ScalarOp::kSqrt:
    case ScalarOp::kRsqrt:
    case ScalarOp::kErf:
    case ScalarOp::kPower:
    case ScalarOp::kAtan2:
      return false;
    default:
      return true;
  }
}

}  // namespace

double ArithmeticOf(const hlo::Expression& expression) {
  return static_cast<double>(std::count_if(expression.code.begin(), expression.code.end(),
                                           [](const hlo::Instruction& i) { return IsCounted(i.op); }));
}

double ComparisonsPerElement(std::int64_t length) {
  double levels = 0;
  for (std::int64_t sorted = 1; sorted < length; sorted *= 2) ++levels;
  return levels;
}

double PairsOnInput(const hlo::ConvolutionWindow& window, std::int64_t kernel, std::int64_t input,
                    std::int64_t output) {
  if (kernel <= 0 || input <= 0 || output <= 0) return 0;
  // The shorter of both is walked. Position i of it and j of the other meet at i * step + j * across -
  // padding.
  std::int64_t length = output, others = kernel, step = window.stride, across = window.rhs_dilation;
  if (others < length) {
    std::swap(length, others);
    std::swap(step, across);
  }
  const std::int64_t dilation = window.lhs_dilation, last = (input - 1) * dilation;
  const std::int64_t period = dilation / std::gcd(dilation, across);  // of the j that meet an element
  double pairs = 0;
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t shift = i * step - window.padding_low;
    std::int64_t first = shift < 0 ? CeilDivide(-shift, across) : 0;
    const std::int64_t end = shift > last ? 0 : std::min(others, (last - shift) / across + 1);
    const std::int64_t limit = std::min(end, first + period);
    while (first < limit && (shift + first * across) % dilation != 0) ++first;
    if (first < limit) pairs += static_cast<double>(CeilDivide(end - first, period));
  }
  return pairs;
}

}  // namespace ipu_model
