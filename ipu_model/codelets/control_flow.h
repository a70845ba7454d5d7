// The control flow of one compiled function: its blocks, its loops, and what the loops step.
#ifndef IPU_MODEL_CODELETS_CONTROL_FLOW_H_
#define IPU_MODEL_CODELETS_CONTROL_FLOW_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codelets/assembly.h"

namespace ipu_model {

struct CodeBlock {
  std::size_t begin = 0, end = 0;  // of its instructions
  std::vector<std::size_t> next, before;
};

struct CodeLoop {
  std::size_t header = 0;
  std::set<std::size_t> blocks, latches;
  std::uint64_t trips = 0;  // 0: depends on the data
  bool holds_loop = false;  // another whose trips depend on the data
};

// The function stays where it is.
class ControlFlow {
 public:
  explicit ControlFlow(const assembly::Function& function);

  // Whether every jump goes to a label of the function.
  bool understood() const { return understood_; }
  const std::vector<CodeBlock>& blocks() const { return blocks_; }
  bool IsReached(std::size_t block) const { return position_[block] != kNone; }
  // Smaller ones first.
  std::vector<CodeLoop>& loops() { return loops_; }

  // Registers that a loop steps, and otherwise only uses as addresses or compares.
  std::set<std::string> PointersOf(const CodeLoop& loop) const;

  // Whether a block ends a trip of a loop by comparing what each trip steps.
  bool CountsTrips(const CodeLoop& loop, std::size_t block) const;

  // Bytes between the accesses of two trips: the most of all accesses.
  std::uint64_t StrideOf(const CodeLoop& loop) const;

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  void Split(const assembly::Function& function);

  // Blocks in reverse postorder, and the immediate dominator of each (Cooper, Harvey and Kennedy, "A Simple,
  // Fast Dominance Algorithm").
  void Order();
  std::size_t CommonDominator(std::size_t a, std::size_t b) const;
  bool Dominates(std::size_t a, std::size_t b) const;

  // Natural loops; those of one header are one.
  void FindLoops();

  // Calls visit(instruction, trips) for the instructions of one trip of the loop.
  template <typename Visit>
  void ForEachIn(const CodeLoop& loop, const Visit& visit) const;

  // What one trip adds to a register or a place on the stack itself, and what that becomes a copy of.
  struct Changed {
    std::int64_t sum = 0;
    bool is_stepped = false, is_other = false;
    std::optional<assembly::Step> copy;
  };
  Changed ChangedIn(const std::string& place, const CodeLoop& loop) const;

  // What one trip adds to a register or a place on the stack; 0 if it is not a constant.
  std::int64_t RegisterStep(const std::string& name, const CodeLoop& loop, int depth) const;

  // What one trip adds to an address that an instruction of a block uses.
  std::int64_t AddressStep(const assembly::Operand& memory, const CodeLoop& loop, std::size_t block,
                           std::size_t at, int depth) const;

  // What one trip adds to a register, which may get its value right before.
  std::int64_t StepAt(const std::string& name, const CodeLoop& loop, std::size_t block, std::size_t at,
                      int depth) const;

  // The trips of a loop that counts from a constant to a constant, else 0.
  std::uint64_t ConstantTrips(const CodeLoop& loop) const;

  // The constant that a register or a place on the stack has when a loop begins.
  std::optional<std::int64_t> ConstantBefore(const std::string& name, const CodeLoop& loop) const;

  const std::vector<assembly::Instruction>& code_;
  bool understood_ = true;
  std::vector<CodeBlock> blocks_;
  std::vector<std::size_t> order_, position_, dominator_;
  std::vector<CodeLoop> loops_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_CODELETS_CONTROL_FLOW_H_
