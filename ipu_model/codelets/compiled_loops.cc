#include "codelets/compiled_loops.h"

#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "codelets/assembly.h"
#include "codelets/control_flow.h"

namespace ipu_model {

using assembly::Function;
using assembly::Instruction;
using assembly::Operand;

namespace {

Work& operator+=(Work& sum, const Work& work) {
  sum.instructions += work.instructions;
  sum.calls += work.calls;
  return sum;
}

Work operator*(const Work& work, std::uint64_t n) { return {work.instructions * n, work.calls * n}; }

bool IsCall(const Instruction& i) { return i.Begins("call"); }

// Instructions that a function of the C library takes where the IPU has one for it, 0 where it has none: half
// of what popopsCycleEstimators.cpp takes for a vector of two.
std::uint64_t InstructionsOf(const std::string& name) {
  static const std::map<std::string, std::uint64_t> instructions = {
      {"expf", 3},  {"exp2f", 3}, {"logf", 6},   {"log2f", 6},  {"tanhf", 6}, {"sqrtf", 5}, {"fabsf", 1},
      {"fmaxf", 1}, {"fminf", 1}, {"floorf", 1}, {"truncf", 1}, {"ceilf", 1}, {"rintf", 1}, {"roundf", 1}};
  const auto found = instructions.find(name);
  return found == instructions.end() ? 0 : found->second;
}

// Copies of registers, zeros, and moves of 32-bit lanes, as a pair of floats is two registers.
bool IsNaming(const Instruction& i) {
  const std::vector<Operand>& o = i.operands;
  if (o.size() == 2 && o[0].kind == Operand::kRegister && o[1].kind == Operand::kRegister) {
    if (i.Is("movl") || i.Is("movq") || i.Is("movslq") || i.Begins("vmova")) return true;
    if (i.Begins("xor") && o[0].name == o[1].name) return true;
  }
  if ((i.Begins("vxor") || i.Begins("vpxor")) && o.size() == 3 && o[0].name == o[1].name) return true;
  for (const char* name : {"vmovshdup", "vmovsldup", "vunpcklps", "vunpckhps", "vinsertps", "vextractps",
                           "vpermilps", "vshufps", "vmovlhps", "vmovhlps", "vblendps", "vbroadcastss"}) {
    if (i.Begins(name)) return true;
  }
  return false;
}

// The work of an instruction other than a call.
Work WorkOf(const Instruction& i) {
  const std::vector<Operand>& o = i.operands;
  if (i.Begins("nop") || i.Is("endbr64") || i.Is("vzeroupper") || i.Is("cltq")) return {};
  const Operand* const memory = i.Memory();
  if (IsNaming(i)) return {memory != nullptr ? 1u : 0u, 0};
  // A branch on zero needs no comparison, and the result of a comparison is a number.
  if (i.Begins("test") && memory == nullptr) return {};
  if (i.Begins("set")) return {};
  const bool is_move = i.Begins("mov") || i.Begins("vmov") || i.Begins("push") || i.Begins("pop") ||
                       i.Begins("vpinsr") || i.Begins("vpextr");
  Work work = {1, 0};
  if (i.Begins("vsqrt")) work.instructions = InstructionsOf("sqrtf");
  if (i.Begins("vdiv")) work.instructions = 3;
  // A comparison of floats is a move more, to a register that a branch can read; so is a conversion from an
  // integer, and one to an integer also rounds.
  if (i.Begins("vucomi") || i.Begins("vcomi") || i.Begins("vcvtsi") || i.Begins("vcvtusi"))
    work.instructions = 2;
  if (i.Begins("vcvtt") && o.back().name.rfind("xmm", 0) != 0) work.instructions = 3;
  if (memory != nullptr && !is_move) {
    const bool writes =
        memory == &o.back() && !i.Begins("cmp") && !i.Begins("test") &&
        (o.size() > 1 || i.Begins("inc") || i.Begins("dec") || i.Begins("neg") || i.Begins("not"));
    // Instructions on vector registers store a result, the others change what is there.
    work.instructions += writes && i.name[0] != 'v' ? 2 : 1;
  }
  const bool divides_integers = i.Begins("div") || i.Begins("idiv");
  const bool is_double = !is_move && i.name[0] == 'v' && i.name[1] != 'p' && i.name.find("sd") != i.name.npos;
  if (divides_integers || is_double) return {memory != nullptr ? 1u : 0u, 1};
  return work;
}

// Finds the loops of functions and of those that they call.
class Finder {
 public:
  explicit Finder(const std::string& text) : functions_(assembly::FunctionsIn(text)) {}
  const std::map<std::string, Function>& functions() const { return functions_; }

  std::optional<CompiledLoops> Find(const std::string& name) {
    const auto [entry, is_new] = found_.try_emplace(name, std::nullopt);
    // Nothing is known yet of a function that calls itself.
    if (is_new) {
      std::optional<CompiledLoops> loops = Count(functions_.at(name));
      found_[name] = std::move(loops);
    }
    return found_[name];
  }

 private:
  // A loop of the function, or null for what is outside of them.
  using PerLoop = std::map<const CodeLoop*, Work>;

  std::optional<CompiledLoops> Count(const Function& function) {
    ControlFlow flow(function);
    if (!flow.understood()) return std::nullopt;
    CompiledLoops result;
    PerLoop work;
    for (std::size_t b = 0; b < flow.blocks().size(); ++b) {
      if (!flow.IsReached(b)) continue;
      CodeLoop *around = nullptr, *inner = nullptr;
      std::uint64_t times = 1;
      for (CodeLoop& loop : flow.loops()) {
        if (loop.blocks.count(b) == 0) continue;
        if (inner == nullptr) inner = &loop;
        if (loop.trips > 0) {
          times *= loop.trips;
        } else if (around == nullptr) {
          around = &loop;
        } else {
          loop.holds_loop = true;
        }
      }
      Work& sum = work[around];
      // A load or a store steps its pointer (ld32step), and the end of a counted loop is one instruction
      // (brnzdec).
      const std::set<std::string> pointers =
          inner != nullptr ? flow.PointersOf(*inner) : std::set<std::string>();
      const bool counts = inner != nullptr && flow.CountsTrips(*inner, b);
      for (std::size_t i = flow.blocks()[b].begin; i < flow.blocks()[b].end; ++i) {
        const Instruction& at = function.instructions[i];
        if (!IsCall(at)) {
          const auto step = assembly::StepOf(at);
          const bool is_step = step.has_value() && pointers.count(step->to) != 0;
          const bool is_end = counts && i + 2 == flow.blocks()[b].end && at.Memory() == nullptr;
          if (!is_step && !is_end) sum += WorkOf(at) * times;
          continue;
        }
        const auto callee = LoopsOfCall(at);
        if (!callee.has_value()) return std::nullopt;
        sum += callee->once * times;
        result.each_vector += callee->each_vector * times;
        for (const CompiledLoops::Innermost& loop : callee->innermost)
          result.innermost.push_back({loop.work * times, loop.stride_bytes});
        if (around != nullptr && !callee->innermost.empty()) around->holds_loop = true;
      }
    }
    for (const auto& [loop, sum] : work) {
      if (loop == nullptr) {
        result.once += sum;
      } else if (loop->holds_loop) {
        result.each_vector += sum;
      } else {
        result.innermost.push_back({sum, flow.StrideOf(*loop)});
      }
    }
    return result;
  }

  std::optional<CompiledLoops> LoopsOfCall(const Instruction& call) {
    std::string name = call.operands.size() == 1 ? call.operands[0].text : "*";
    name = name.substr(0, name.find('@'));
    if (name[0] == '*') return std::nullopt;
    CompiledLoops loops;
    loops.once.instructions = 1;
    if (functions_.count(name) != 0) {
      const auto callee = Find(name);
      if (!callee.has_value()) return std::nullopt;
      loops = *callee;
      ++loops.once.instructions;
    } else if (name == "memcpy" || name == "memmove" || name == "memset") {
      // A load and a store of 64 bits in each trip.
      loops.once.calls = 1;
      loops.innermost.push_back({{2, 0}, 8});
    } else if (const std::uint64_t instructions = InstructionsOf(name); instructions > 0) {
      loops.once.instructions = instructions;
    } else {
      loops.once.calls = 1;
    }
    return loops;
  }

  std::map<std::string, Function> functions_;
  std::map<std::string, std::optional<CompiledLoops>> found_;
};

}  // namespace

std::map<std::string, CompiledLoops> LoopsIn(const std::string& assembly, const std::string& prefix) {
  std::map<std::string, CompiledLoops> result;
  Finder finder(assembly);
  for (const auto& [name, function] : finder.functions()) {
    if (name.rfind(prefix, 0) != 0) continue;
    if (auto loops = finder.Find(name); loops.has_value()) result.emplace(name, std::move(*loops));
  }
  return result;
}

std::string WriteLoops(const CompiledLoops& loops) {
  std::ostringstream text;
  const auto write = [&text](const Work& work) { text << work.instructions << ' ' << work.calls << ' '; };
  write(loops.once);
  write(loops.each_vector);
  for (const CompiledLoops::Innermost& loop : loops.innermost) {
    write(loop.work);
    text << loop.stride_bytes << ' ';
  }
  return text.str();
}

bool ReadLoops(const std::string& line, CompiledLoops* loops) {
  std::istringstream text(line);
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t number; text >> number;) numbers.push_back(number);
  if (!text.eof() || numbers.size() < 4 || (numbers.size() - 4) % 3 != 0) return false;
  loops->once = {numbers[0], numbers[1]};
  loops->each_vector = {numbers[2], numbers[3]};
  loops->innermost.clear();
  for (std::size_t i = 4; i < numbers.size(); i += 3)
    loops->innermost.push_back({{numbers[i], numbers[i + 1]}, numbers[i + 2]});
  return true;
}

}  // namespace ipu_model
