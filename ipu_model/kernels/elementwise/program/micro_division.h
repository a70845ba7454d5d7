// Quotients and remainders of integers by constants, as products and shifts of the block interpreter.
#ifndef IPU_MODEL_KERNELS_ELEMENTWISE_PROGRAM_MICRO_DIVISION_H_
#define IPU_MODEL_KERNELS_ELEMENTWISE_PROGRAM_MICRO_DIVISION_H_

#include "kernels/elementwise/program/expression.h"
#include "kernels/elementwise/program/micro_graph.h"

namespace ipu_model {

// Returns the number of the result of a quotient or remainder by a constant, or -1 for other divisors.
int LowerDivision(MicroGraph& graph, const Instruction& instruction, int dividend, int divisor);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_ELEMENTWISE_PROGRAM_MICRO_DIVISION_H_
