// Copies of a variable to one that lies in the same way, which Poplar leaves out: PopLibs copies operands of
// products and convolutions into the order of their plan, and says that "these copies will be elided if the
// inputs already use the expected memory layout and tile mapping" (lib/poplin/Convolution.cpp).
#ifndef IPU_MODEL_ENGINE_PROGRAM_ELIDED_COPIES_H_
#define IPU_MODEL_ENGINE_PROGRAM_ELIDED_COPIES_H_

#include <unordered_set>

#include "core/operation/operation.h"
#include "engine/program/compiled_program.h"

namespace ipu_model {

// The copies whose destination can be their source: each tile has all elements of both in one order, nothing
// else writes the destination, and nothing writes the source between the copy and the last read of the
// destination.
std::unordered_set<const Operation*> ElidedCopies(const CompiledProgram& program);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_PROGRAM_ELIDED_COPIES_H_
