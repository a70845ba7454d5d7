// The cost of a compiled program on the device: memory per tile by liveness, cycles by bulk-synchronous
// supersteps.
#ifndef IPU_MODEL_ENGINE_REPORT_DEVICE_REPORT_H_
#define IPU_MODEL_ENGINE_REPORT_DEVICE_REPORT_H_

#include <memory>
#include <vector>

#include "core/operation/serialise.h"
#include "engine/cost/tile_memory.h"
#include "ipu_model/Model.hpp"
#include "ipu_model/Profile.hpp"
#include "ipu_model/Timeline.hpp"

namespace ipu_model {

struct CompiledProgram;  // engine/program/compiled_program.h

// What a report is made from.
struct DeviceAnalysis {
  explicit DeviceAnalysis(const CompiledProgram& program) : memory(program) {}
  MemoryAnalysis memory;
  OperationUses uses;
  bool planned = false;  // whether the variables alone fit, so that operations were planned
};

// Plans every operation of every program. If the variables alone do not fit, plans nothing. Does not throw if
// memory does not suffice; see Report::out_of_memory. `analysis`, unless null, gets what the report was made
// from; it refers to the program.
Report Analyse(const CompiledProgram& program, TilePlanCache* cache = nullptr,
               std::shared_ptr<DeviceAnalysis>* analysis = nullptr);
// The report of another main program than program 0, from the analysis of the whole.
Report ReportOfMain(const CompiledProgram& program, unsigned main, DeviceAnalysis* analysis);

// By operation of the report of a main program: its supersteps if it has several, else none; up to the last
// that has. They are not stored with a program: it is analysed again unless it has its analysis.
std::vector<std::vector<SuperstepCost>> SuperstepsOf(const CompiledProgram& program, unsigned main = 0);

// The profile of program 0, from a detailed analysis of the program.
Profile ProfileOfAnalysis(const CompiledProgram& program, DeviceAnalysis* analysis);

void WriteReport(Writer& writer, const Report& report);
Report ReadReport(Reader& reader);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_REPORT_DEVICE_REPORT_H_
