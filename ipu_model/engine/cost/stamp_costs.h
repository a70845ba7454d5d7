// The cycles before each cycle stamp of a program.
#ifndef IPU_MODEL_ENGINE_COST_STAMP_COSTS_H_
#define IPU_MODEL_ENGINE_COST_STAMP_COSTS_H_

#include "engine/cost/tile_memory.h"

namespace ipu_model {

// Sets the costs of the stamps in the main programs (CycleStamp::set_cost). Throws
// poplar::control_program_error for a stamp whose cycles are not known: see hlo/CycleStamp.hpp.
void SetStampCosts(const CompiledProgram& program, const OperationUses& uses);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_COST_STAMP_COSTS_H_
