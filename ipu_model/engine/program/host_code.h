// The program tree as a flat list of instructions for the fast engine.
#ifndef IPU_MODEL_ENGINE_PROGRAM_HOST_CODE_H_
#define IPU_MODEL_ENGINE_PROGRAM_HOST_CODE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/program/compiled_program.h"

namespace ipu_model {

enum class OpCode : std::uint8_t {
  kRun,         // runs operations[a]
  kRunBands,    // runs the group bands[a] of the host plan
  kStreamIn,    // transfers[a]
  kStreamOut,   // transfers[a]
  kUndefined,   // the contents of transfers[a] are not needed; takes no time
  kJump,        // jumps to target
  kJumpIfZero,  // jumps to target if predicate a is 0
  kJumpIfNotZero,
  kSetCounter,      // counter a = counts[a]
  kLoop,            // if (--counter a > 0) jumps to target
  kEnterLoop,       // loops[a] starts
  kTrip,            // the body of loops[a] starts
  kSwitch,          // switches[a]
  kCall,            // return slot a = next instruction; jumps to target
  kReturn,          // jumps to return slot a
  kPrint,           // prints[a]
  kHostCall,        // calls host function a
  kSync,            // takes no time on the host
  kAbortIfNotZero,  // tests predicate a; the message is messages[target]
  kAbort,           // the message is messages[target]
  kRunLoop,         // runs the machine code of loop a, which replaces the instructions up to its end
  kEnd
};

struct HostInstruction {
  OpCode code;
  std::uint32_t a = 0, target = 0;
};

// A host transfer, or the extent of a write-undefined mark.
struct Transfer {
  std::uint32_t stream = 0;
  std::vector<View> tensor;
  // Whether it runs exactly once in every run of its program.
  bool once = false;
};

struct SwitchTable {
  std::uint32_t predicate = 0;
  std::vector<std::int32_t> cases;
  std::vector<std::uint32_t> targets;  // one more than cases; the last is the default
};

struct HostCode {
  std::vector<HostInstruction> code;
  std::vector<const Operation*> operations;
  std::vector<Transfer> transfers;
  std::vector<View> predicates;
  std::vector<std::uint64_t> counts;
  std::vector<const ProgramNode*> loops;  // with an unknown trip count
  std::vector<SwitchTable> switches;
  std::vector<const ProgramNode*> prints;
  std::vector<std::string> messages;
  std::uint32_t num_return_slots = 0;
  // Program p is code[begin[p], begin[p + 1]); the functions that it calls follow its kEnd.
  std::vector<std::uint32_t> begin;
};

// Throws control_program_error for recursive functions and for programs that are too long. `nodes`, unless
// null, gets the node of every instruction.
HostCode Flatten(const CompiledProgram& program, std::vector<const ProgramNode*>* nodes = nullptr);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_PROGRAM_HOST_CODE_H_
