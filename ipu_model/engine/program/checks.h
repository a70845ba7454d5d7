// Checks of a program before it runs.
#ifndef IPU_MODEL_ENGINE_PROGRAM_CHECKS_H_
#define IPU_MODEL_ENGINE_PROGRAM_CHECKS_H_

namespace ipu_model {

struct CompiledProgram;  // engine/program/compiled_program.h

// Every element of every variable that a program uses is on exactly one tile of the target, every view lies
// inside its variable, and no constant is written. Throws poplar::invalid_tile_mapping,
// poplar::control_program_error or poplar::poplar_error with the variable's name.
void CheckProgram(const CompiledProgram& program);

// Throws if a function calls itself, directly or not: a call has one return slot, and the tile engine would
// call itself without end. Part of CheckProgram.
void CheckNotRecursive(const CompiledProgram& program);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_PROGRAM_CHECKS_H_
