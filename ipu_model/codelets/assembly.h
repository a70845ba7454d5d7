// The text that gcc and clang print as assembly for x86-64 (AT&T syntax), as instructions of functions.
#ifndef IPU_MODEL_CODELETS_ASSEMBLY_H_
#define IPU_MODEL_CODELETS_ASSEMBLY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ipu_model::assembly {

// One operand of an instruction: "%eax", "$4", "8(%rdi,%rax,4)", "name".
struct Operand {
  enum Kind { kRegister, kImmediate, kMemory, kLabel } kind = kLabel;
  std::string text;         // as it is written
  std::string name;         // of a register: that of all its 64 bits; of a place on the stack: its address
  std::int64_t number = 0;  // an immediate; the displacement of memory
  std::string base, index;  // of memory: registers, or ""
  std::int64_t scale = 1;
};

struct Instruction {
  std::string name;  // "addq"
  std::vector<Operand> operands;

  bool Is(const char* mnemonic) const { return name == mnemonic; }
  bool Begins(const char* text) const { return name.rfind(text, 0) == 0; }
  // Operands that are data in memory, other than constants and the stack.
  const Operand* Memory() const;
};

struct Function {
  std::vector<Instruction> instructions;
  std::map<std::string, std::size_t> labels;  // the instruction behind each
};

// By name. Aliases (".set a, b") are functions too.
std::map<std::string, Function> FunctionsIn(const std::string& text);

// A register that an instruction sets to a constant more than another: "addq $4, %rax", "movq %rcx, %rdx".
struct Step {
  std::string to, from;  // equal for an increment
  std::int64_t number = 0;
};
std::optional<Step> StepOf(const Instruction& instruction);
// Whether a name is that of a place on the stack, "-4(%rsp)", and not of a register.
bool IsOnStack(const std::string& name);
// StepOf where places on the stack count as registers: a volatile variable is there all the time.
std::optional<Step> StepOnStackOf(const Instruction& instruction);
// The register that an instruction changes, or "".
std::string Changes(const Instruction& instruction);
// The register or the place on the stack.
std::string ChangesOnStack(const Instruction& instruction);

}  // namespace ipu_model::assembly

#endif  // IPU_MODEL_CODELETS_ASSEMBLY_H_
