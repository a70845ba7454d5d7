// The names of hlo/Expression.hpp in the model's namespace.
#ifndef IPU_MODEL_KERNELS_ELEMENTWISE_PROGRAM_EXPRESSION_H_
#define IPU_MODEL_KERNELS_ELEMENTWISE_PROGRAM_EXPRESSION_H_

#include "hlo/Expression.hpp"

namespace ipu_model {

using hlo::Expression;
using hlo::Instruction;
using hlo::ScalarConstant;
using hlo::ScalarOp;

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_ELEMENTWISE_PROGRAM_EXPRESSION_H_
