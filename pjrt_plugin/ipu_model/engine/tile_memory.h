// Memory of every tile by liveness: what is there at once at the worst moment of any program.
#ifndef JAX_IPU_ENGINE_TILE_MEMORY_H_
#define JAX_IPU_ENGINE_TILE_MEMORY_H_

#include <memory>
#include <unordered_map>

#include "pjrt_plugin/ipu_model/engine/device_report.h"
#include "pjrt_plugin/ipu_model/engine/exchange.h"

namespace ipu_model {

// Operations that lie alike share one entry.
using OperationUses = std::unordered_map<const Operation*, std::shared_ptr<const OperationUse>>;

// Fills the memory part of the report. Variables that are never live at the same time share memory, without
// fragmentation; contents that a later run or another program needs stay.
void AnalyseMemory(const CompiledProgram& program, const OperationUses& uses, Report* report);

}  // namespace ipu_model

#endif  // JAX_IPU_ENGINE_TILE_MEMORY_H_
