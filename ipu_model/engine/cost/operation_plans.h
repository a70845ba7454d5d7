// Plans the operations of a program.
#ifndef IPU_MODEL_ENGINE_COST_OPERATION_PLANS_H_
#define IPU_MODEL_ENGINE_COST_OPERATION_PLANS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>

#include "engine/cost/tile_memory.h"
#include "ipu_model/Model.hpp"

namespace ipu_model {

// An operation is planned once as long as its operands lie alike.
struct TilePlanCache::Plans {
  // Serialised mapping -> its number; kind, attributes and mappings of operands -> the plan.
  std::unordered_map<std::string, std::size_t> mappings;
  std::unordered_map<std::string, std::shared_ptr<const OperationUse>> plans;
};

// Plans every distinct operation once, on all workers.
OperationUses PlanOperations(const CompiledProgram& program, TilePlanCache* cache);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_COST_OPERATION_PLANS_H_
