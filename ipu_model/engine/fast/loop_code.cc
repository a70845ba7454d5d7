#include "engine/fast/loop_code.h"

#include <algorithm>
#include <map>
#include <utility>

#include "kernels/elementwise/call_compiler.h"

namespace ipu_model {
namespace {

// Limits of the time and the memory that code takes.
constexpr std::uint32_t kMostInstructions = 2000;
constexpr std::size_t kMostCalls = 8000;
// Cancellation is looked for about every so many calls, and every so many trips at most.
constexpr std::size_t kCallsPerPoll = 4096, kTripsPerPoll = 64;
constexpr Gpr kCounters = Gpr::kR15, kTripsLeft = Gpr::kR14;

class LoopCompiler {
 public:
  LoopCompiler(const LoopEnvironment& environment, std::uint32_t begin, std::uint32_t end)
      : environment_(environment), calls_(&code_) {
    loop_.begin = begin;
    loop_.end = end;
  }

  std::optional<LoopCode> Run() {
    if (loop_.end - loop_.begin > kMostInstructions || !FindLabels()) return std::nullopt;
    std::size_t num_calls = 0;
    for (const std::uint32_t operation : loop_.operations) {
      const auto kernel = environment_.kernel(operation);
      const auto* list = dynamic_cast<const CallList*>(kernel.kernel);
      num_calls += list != nullptr ? list->size() : 1;
    }
    if (num_calls > kMostCalls) return std::nullopt;
    trips_per_poll_ = std::clamp<std::size_t>(kCallsPerPoll / (num_calls + 1), 1, kTripsPerPoll);
    exit_ = code_.NewLabel();
    stop_ = code_.NewLabel();
    calls_.Begin();
    code_.LoadImmediate(kCounters, reinterpret_cast<std::uint64_t>(environment_.counters));
    code_.LoadImmediate(kTripsLeft, trips_per_poll_);
    for (std::uint32_t i = loop_.begin; i < loop_.end; ++i) {
      if (const auto label = labels_.find(i); label != labels_.end()) {
        calls_.Forget();
        code_.Bind(label->second);
      }
      if (!Instruction(i)) return std::nullopt;
    }
    code_.Bind(exit_);
    code_.LoadImmediate(Gpr::kRax, 1);
    code_.Bind(stop_);
    calls_.End();
    if (calls_.num_compiled() == 0) return std::nullopt;
    loop_.code = MachineCode(code_.Finish());
    if (loop_.code.entry() == nullptr) return std::nullopt;
    return std::move(loop_);
  }

 private:
  const HostInstruction& At(std::uint32_t i) const { return environment_.host->code[i]; }

  // Finds what is jumped to, and the operations. Returns false if a jump leaves the loop other than to its
  // end.
  bool FindLabels() {
    for (std::uint32_t i = loop_.begin; i < loop_.end; ++i) {
      const HostInstruction& in = At(i);
      switch (in.code) {
        case OpCode::kJump:
        case OpCode::kJumpIfZero:
        case OpCode::kJumpIfNotZero:
        case OpCode::kLoop:
          if (!AddLabel(in.target)) return false;
          break;
        case OpCode::kRun:
          if (environment_.kernel(in.a).kernel != nullptr) loop_.operations.push_back(in.a);
          break;
        case OpCode::kSwitch:
          for (const std::uint32_t target : environment_.host->switches[in.a].targets)
            if (!AddLabel(target)) return false;
          break;
        case OpCode::kCall:
        case OpCode::kReturn:
        case OpCode::kEnd:
          return false;
        default:
          break;
      }
    }
    return true;
  }

  bool AddLabel(std::uint32_t target) {
    if (target < loop_.begin || target > loop_.end) return false;
    if (target < loop_.end && labels_.count(target) == 0) labels_[target] = code_.NewLabel();
    return true;
  }

  Assembler::Label Target(std::uint32_t instruction) const {
    return instruction == loop_.end ? exit_ : labels_.at(instruction);
  }

  // Calls a function of the engine, and ends the loop if it returns false.
  template <typename Function>
  void CallEngine(Function* function) {
    calls_.Forget();
    code_.ZeroUpper();
    code_.LoadImmediate(Gpr::kRdi, reinterpret_cast<std::uint64_t>(environment_.engine));
    code_.LoadImmediate(Gpr::kRax, reinterpret_cast<std::uint64_t>(function));
    code_.Call(Gpr::kRax);
    code_.AndByte(Gpr::kRax, 1);  // sets the zero flag; a bool is the low byte
    code_.JumpIfZero(stop_);
  }

  // A jump back: looks for cancellation from time to time.
  void CountTrip() {
    const Assembler::Label more = code_.NewLabel();
    code_.DecrementGpr(kTripsLeft);
    code_.JumpIfNotZero(more);
    code_.LoadImmediate(kTripsLeft, trips_per_poll_);
    CallEngine(environment_.poll);
    code_.Bind(more);
  }

  // Compares a predicate with zero.
  bool Test(std::uint32_t predicate) {
    const auto [type, address] = environment_.predicate(predicate);
    if (type == DType::kPred) {
      code_.CompareByteWithZero(calls_.At(address));
      return true;
    }
    if (type != DType::kS32 && type != DType::kU32) return false;
    code_.Load32(Gpr::kRcx, calls_.At(address));
    code_.CompareImmediate(Gpr::kRcx, 0);
    return true;
  }

  bool Switch(const SwitchTable& table) {
    const auto [type, address] = environment_.predicate(table.predicate);
    if (type == DType::kPred) {
      code_.LoadByte(Gpr::kRcx, calls_.At(address));
    } else if (type == DType::kS32) {
      code_.Load32(Gpr::kRcx, calls_.At(address));
    } else {
      return false;
    }
    for (std::size_t i = 0; i < table.cases.size(); ++i) {
      code_.CompareImmediate(Gpr::kRcx, table.cases[i]);
      code_.JumpIfZero(Target(table.targets[i]));
    }
    code_.Jump(Target(table.targets.back()));
    return true;
  }

  Memory Counter(std::uint32_t counter) const {
    return {kCounters, static_cast<std::int32_t>(counter * sizeof(std::uint64_t))};
  }

  void Count(std::uint64_t* counter) {
    code_.LoadImmediate(Gpr::kRax, reinterpret_cast<std::uint64_t>(counter));
    code_.Increment({Gpr::kRax, 0});
  }

  bool Instruction(std::uint32_t i) {
    const HostInstruction& in = At(i);
    switch (in.code) {
      case OpCode::kRun: {
        const LoopEnvironment::Kernel kernel = environment_.kernel(in.a);
        const auto* list = dynamic_cast<const CallList*>(kernel.kernel);
        if (kernel.kernel == nullptr) {
          Step(i);
        } else if (list != nullptr && !list->repeated()) {
          calls_.Add(*list, kernel.in, kernel.out);
        } else {
          RunKernel(*kernel.kernel);
        }
        return true;
      }
      case OpCode::kUndefined:
        return true;
      case OpCode::kJump:
        if (in.target <= i) CountTrip();
        code_.Jump(Target(in.target));
        return true;
      case OpCode::kJumpIfZero:
      case OpCode::kJumpIfNotZero:
        if (in.target <= i || !Test(in.a)) return false;
        if (in.code == OpCode::kJumpIfZero) {
          code_.JumpIfZero(Target(in.target));
        } else {
          code_.JumpIfNotZero(Target(in.target));
        }
        return true;
      case OpCode::kSwitch:
        return Switch(environment_.host->switches[in.a]);
      case OpCode::kSetCounter:
        code_.LoadImmediate(Gpr::kRax, environment_.host->counts[in.a]);
        code_.Store64(Counter(in.a), Gpr::kRax);
        return true;
      case OpCode::kLoop:
        CountTrip();
        code_.Decrement(Counter(in.a));
        code_.JumpIfNotZero(Target(in.target));
        return true;
      case OpCode::kEnterLoop:
        Count(environment_.entries(in.a));
        return true;
      case OpCode::kTrip:
        Count(environment_.trips(in.a));
        return true;
      case OpCode::kRunBands:
      case OpCode::kStreamIn:
      case OpCode::kStreamOut:
      case OpCode::kPrint:
      case OpCode::kHostCall:
      case OpCode::kAbortIfNotZero:
      case OpCode::kAbort:
      case OpCode::kSync:
        Step(i);
        return true;
      default:
        return false;
    }
  }

  void Step(std::uint32_t i) {
    code_.LoadImmediate(Gpr::kRsi, i);
    CallEngine(environment_.step);
  }

  void RunKernel(const BoundKernel& kernel) {
    calls_.Forget();
    code_.ZeroUpper();
    code_.LoadImmediate(Gpr::kRdi, reinterpret_cast<std::uint64_t>(&kernel));
    void (*const run)(const BoundKernel&) = [](const BoundKernel& k) { k.Run(); };
    code_.LoadImmediate(Gpr::kRax, reinterpret_cast<std::uint64_t>(run));
    code_.Call(Gpr::kRax);
  }

  const LoopEnvironment& environment_;
  Assembler code_;
  CallCompiler calls_;
  LoopCode loop_;
  std::map<std::uint32_t, Assembler::Label> labels_;
  Assembler::Label exit_ = 0, stop_ = 0;
  std::size_t trips_per_poll_ = 1;
};

// Returns the instruction after the loop that starts at `begin`, or `begin` if none starts there.
std::uint32_t EndOfLoop(const HostCode& host, std::uint32_t begin) {
  const HostInstruction& first = host.code[begin];
  if (first.code != OpCode::kSetCounter && first.code != OpCode::kEnterLoop) return begin;
  const OpCode last = first.code == OpCode::kSetCounter ? OpCode::kLoop : OpCode::kJump;
  const auto size = static_cast<std::uint32_t>(host.code.size());
  for (std::uint32_t i = begin + 1; i < size && i - begin <= kMostInstructions; ++i) {
    const HostInstruction& in = host.code[i];
    if (in.code == OpCode::kEnd) break;
    if (in.code == last && in.target == begin + 1 && (last == OpCode::kJump || in.a == first.a)) return i + 1;
  }
  return begin;
}

}  // namespace

std::vector<LoopCode> CompileLoops(const LoopEnvironment& environment) {
  std::vector<LoopCode> loops;
  const auto size = static_cast<std::uint32_t>(environment.host->code.size());
  for (std::uint32_t i = 0; i < size;) {
    const std::uint32_t end = EndOfLoop(*environment.host, i);
    std::optional<LoopCode> loop;
    if (end > i) loop = LoopCompiler(environment, i, end).Run();
    i = loop ? end : i + 1;
    if (loop) loops.push_back(std::move(*loop));
  }
  return loops;
}

}  // namespace ipu_model
