// The cost of a compiled program on the device: memory per tile by liveness, cycles by bulk-synchronous
// supersteps.
#ifndef IPU_MODEL_ENGINE_DEVICE_REPORT_H_
#define IPU_MODEL_ENGINE_DEVICE_REPORT_H_

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>

#include "core/serialise.h"
#include "ipu_model/Model.hpp"

namespace ipu_model {

struct CompiledProgram;  // engine/compiled_program.h
struct OperationUse;     // engine/exchange.h

// An operation is planned once as long as its operands lie alike.
struct TilePlanCache::Plans {
  // Serialised mapping -> its number; kind, attributes and mappings of operands -> the plan.
  std::unordered_map<std::string, std::size_t> mappings;
  std::unordered_map<std::string, std::shared_ptr<const OperationUse>> plans;
};

// Plans every operation of every program. If the variables alone do not fit, plans nothing. Does not throw if
// memory does not suffice; see Report::out_of_memory.
Report Analyse(const CompiledProgram& program, TilePlanCache* cache = nullptr);

void WriteReport(Writer& writer, const Report& report);
Report ReadReport(Reader& reader);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_DEVICE_REPORT_H_
