// How many arithmetic operations an operation counts for: as XLA's cost analysis counts them, so that
// `cost_analysis()` of JAX says what a script that runs on other devices expects.
#ifndef IPU_MODEL_OPERATIONS_ARITHMETIC_H_
#define IPU_MODEL_OPERATIONS_ARITHMETIC_H_

#include <cstdint>

#include "hlo/ConvolutionGeometry.hpp"
#include "hlo/Expression.hpp"

namespace ipu_model {

// Operations for one element: every instruction of any type but transcendental functions, which are counted
// apart, and changes of the type that compute nothing.
double ArithmeticOf(const hlo::Expression& expression);

// Comparisons of a sort of rows of `length` elements, for each element: the logarithm, rounded up.
double ComparisonsPerElement(std::int64_t length);

// The pairs of a position of the result and one of the kernel that meet on an element of the input, along one
// dimension: padding and the gaps of a dilated input are not computed with.
double PairsOnInput(const hlo::ConvolutionWindow& window, std::int64_t kernel, std::int64_t input,
                    std::int64_t output);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_ARITHMETIC_H_
