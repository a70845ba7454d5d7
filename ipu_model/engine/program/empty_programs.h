// Programs that do nothing: copies of nothing, compute sets without vertices, operations without results.
// They are no supersteps, so a compiled program has none of them.
#ifndef IPU_MODEL_ENGINE_PROGRAM_EMPTY_PROGRAMS_H_
#define IPU_MODEL_ENGINE_PROGRAM_EMPTY_PROGRAMS_H_

#include <memory>
#include <vector>

#include "core/program/program_node.h"

namespace ipu_model {

// Replaces the roots above empty operations. Nodes that others may share stay as they are.
void DropEmptyPrograms(const std::vector<std::vector<std::shared_ptr<const ProgramNode>>*>& roots);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_PROGRAM_EMPTY_PROGRAMS_H_
