// When each variable's contents are needed while a program runs.
#ifndef IPU_MODEL_ENGINE_PROGRAM_LIVENESS_H_
#define IPU_MODEL_ENGINE_PROGRAM_LIVENESS_H_

#include <cstdint>
#include <vector>

#include "engine/program/host_code.h"

namespace ipu_model {

// Positions inside a program, inclusive: instruction i reads at 2i and writes at 2i + 1.
struct LiveRange {
  std::uint32_t begin, end;
};

struct VariableAccess {
  VariableId variable;
  bool read = false, written = false;
  // Whether the earlier contents do not survive: the instruction writes the whole variable, or is the first
  // of several writes that together write all of it before it is read.
  bool defines = false;
};

struct ProgramLiveness {
  // By VariableId: sorted, disjoint, not adjacent. Empty for variables that the program does not use.
  std::vector<std::vector<LiveRange>> ranges;
  // Variables that are read before they are written: they need contents from an earlier run or another
  // program.
  std::vector<VariableId> live_at_entry;
};

// Returns the accesses of every instruction of code[begin, end).
std::vector<std::vector<VariableAccess>> Accesses(const CompiledProgram& program, const HostCode& code,
                                                  std::uint32_t begin, std::uint32_t end);

// `live_at_exit[v]`: whether v's contents are needed after the program.
ProgramLiveness AnalyseLiveness(const CompiledProgram& program, const HostCode& code, std::uint32_t begin,
                                std::uint32_t end, const std::vector<std::vector<VariableAccess>>& accesses,
                                const std::vector<bool>& live_at_exit);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_PROGRAM_LIVENESS_H_
