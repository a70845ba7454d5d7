// Copies that put a whole temporary into a part of another variable, as concatenations do. Such a copy goes
// away where the operation that makes the temporary can write the part itself.
#ifndef IPU_MODEL_ENGINE_FAST_PART_COPIES_H_
#define IPU_MODEL_ENGINE_FAST_PART_COPIES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/program/host_code.h"

namespace ipu_model {

// Returns for each instruction, and the end, whether a jump or the start of a program leads to it.
std::vector<bool> JumpTargets(const HostCode& code);

struct PartCopy {
  std::uint32_t copy = 0;  // the instruction
  // The instructions that access the memory of the temporary and of the other variable, in any order.
  const std::vector<std::uint32_t>* temporary_users = nullptr;
  const std::vector<std::uint32_t>* users = nullptr;
  std::function<bool(VariableId)> shares;   // whether a variable has the memory of the other one
  std::function<View(const View&)> placed;  // the part that a view is of a variable that has its place in one
};

// Returns the part, in the shape in which the temporary is written, if its elements can have their place in
// it from the start: one operation writes them, only the copy reads them, and between the two nothing
// accesses the part.
std::optional<View> FindPart(const HostCode& code, const std::vector<bool>& targets, const PartCopy& copy,
                             const std::vector<Variable>& variables);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_FAST_PART_COPIES_H_
