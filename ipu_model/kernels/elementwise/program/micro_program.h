// An Expression lowered for the block interpreter: block functions, fused operations, register slots.
#ifndef IPU_MODEL_KERNELS_ELEMENTWISE_PROGRAM_MICRO_PROGRAM_H_
#define IPU_MODEL_KERNELS_ELEMENTWISE_PROGRAM_MICRO_PROGRAM_H_

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/elementwise/program/expression.h"
#include "kernels/elementwise/program/micro_op.h"

namespace ipu_model {

struct MicroStep {
  MicroFunction function = nullptr;
  std::uint16_t result = 0;
  std::uint16_t operand[4] = {};
  std::uint8_t num_operands = 0;
  std::uint32_t immediate = 0;
  MicroKind kind;
};

// Register numbers: first the inputs, then the constants, then the results of the steps in order.
struct MicroProgram {
  std::vector<DType> inputs;
  std::vector<std::array<unsigned char, 16>> constants;  // in register representation
  std::vector<MicroStep> steps;
  std::vector<std::uint16_t> outputs;
  std::vector<DType> output_types;
  std::vector<RegisterType> registers;
  std::vector<std::uint16_t>
      slot;                   // per register; results share slots by liveness; inputs and constants have none
  std::vector<int> last_use;  // per register: last step that reads it, -1 if none, steps.size() for outputs
  int num_slots = 0;
  double nanoseconds = 0;  // per element on one core; a rough estimate that decides on the number of threads
};

// Throws std::invalid_argument if an operation does not exist for its types or has operands of others, and
// std::out_of_range if one uses a register before it is set.
MicroProgram Lower(const Expression& expression);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_ELEMENTWISE_PROGRAM_MICRO_PROGRAM_H_
