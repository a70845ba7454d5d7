// The loops of compiled functions, from the assembly that gcc and clang print for x86-64: an estimate of what
// a codelet executes where nobody gives one.
#ifndef IPU_MODEL_CODELETS_COMPILED_LOOPS_H_
#define IPU_MODEL_CODELETS_COMPILED_LOOPS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ipu_model {

// Instructions, as of a processor that computes with registers only: one that computes with an operand in
// memory is two, one that also stores its result there three. Constants and addresses of 64 bits cost
// nothing.
struct Work {
  std::uint64_t instructions = 0;
  // Of library functions, and what the IPU has no instruction for: division of integers, double precision.
  std::uint64_t calls = 0;
};

// One call of a function. A loop whose number of trips is a constant is part of what is around it; both sides
// of a branch count.
struct CompiledLoops {
  struct Innermost {
    Work work;                       // of one trip
    std::uint64_t stride_bytes = 0;  // between the accesses of two trips; 0: not known
  };
  Work once;         // outside of loops
  Work each_vector;  // of one trip of each loop that is around others
  std::vector<Innermost> innermost;
};

// The loops of the functions whose names begin with `prefix`, by name. A function is missing if its control
// flow is not understood: jumps to addresses in registers, calls through pointers, recursion.
std::map<std::string, CompiledLoops> LoopsIn(const std::string& assembly, const std::string& prefix);

// As text of one line, and back. Reading what WriteLoops has not written gives false.
std::string WriteLoops(const CompiledLoops& loops);
bool ReadLoops(const std::string& line, CompiledLoops* loops);

}  // namespace ipu_model

#endif  // IPU_MODEL_CODELETS_COMPILED_LOOPS_H_
