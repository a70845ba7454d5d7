// Cache blocking: operations in a row that work on the same rows run band by band, all of them on one band
// before the next, so that what one writes the next one reads from the cache, and threads meet once for all.
// What only they use is never in main memory: each worker has room for one band of it.
#ifndef IPU_MODEL_ENGINE_BANDS_H_
#define IPU_MODEL_ENGINE_BANDS_H_

#include <vector>

#include "engine/host_plan.h"

namespace ipu_model {

// Replaces runs of operations in the plan's code by OpCode::kRunBands and marks what they replace as
// undefined. Bands depend on shapes only, not on the number of threads. Variables with the same number in
// `memory_of` share their memory.
void FormBands(const CompiledProgram& program, const std::vector<VariableId>& memory_of, HostPlan* plan);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_BANDS_H_
