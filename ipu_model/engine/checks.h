// Checks of a program before it runs.
#ifndef IPU_MODEL_ENGINE_CHECKS_H_
#define IPU_MODEL_ENGINE_CHECKS_H_

namespace ipu_model {

struct CompiledProgram;  // engine/compiled_program.h

// Checks that every element of every variable that a program uses is on exactly one tile of the target, and
// that every view is inside its variable. Throws poplar::invalid_tile_mapping or poplar::poplar_error with
// the variable's name.
void CheckProgram(const CompiledProgram& program);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_CHECKS_H_
