// Where the fast engine keeps the variables of a program, and what it runs.
#ifndef IPU_MODEL_ENGINE_FAST_MAKE_HOST_PLAN_H_
#define IPU_MODEL_ENGINE_FAST_MAKE_HOST_PLAN_H_

#include "engine/fast/host_plan.h"
#include "engine/program/compiled_program.h"

namespace ipu_model {

// `stream_memory_stays`: the host memory of an input stream neither moves nor changes between the program
// that reads it and the last that uses what was read, so a variable that only this stream writes lives there.
// `streams_in_place`: variables may be in the memory of streams during a run. Otherwise every transfer
// copies, at its place in the program.
HostPlan MakeHostPlan(const CompiledProgram& program, bool stream_memory_stays = false,
                      bool streams_in_place = true);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_FAST_MAKE_HOST_PLAN_H_
