// Cache blocking: successive operations on the same rows run band by band, all of them on one band before the
// next band. Each operation then reads from the cache what the previous one wrote, and the threads
// synchronise once per group. Variables that only the group uses are never in main memory: each worker has
// memory for one band of them. A reduction of the rows themselves ends such a chain: every band makes partial
// results, which are combined after the last one.
#ifndef IPU_MODEL_ENGINE_FAST_BANDS_H_
#define IPU_MODEL_ENGINE_FAST_BANDS_H_

#include <vector>

#include "engine/fast/host_plan.h"

namespace ipu_model {

// Replaces consecutive operations in the plan's code by OpCode::kRunBands, and marks the replaced
// instructions as undefined. Bands depend only on shapes, not on the number of threads. Variables with the
// same number in `memory_of` share their memory.
void FormBands(const CompiledProgram& program, const std::vector<VariableId>& memory_of, HostPlan* plan);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_FAST_BANDS_H_
