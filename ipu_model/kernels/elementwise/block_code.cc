#include "kernels/elementwise/block_code.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/elementwise/vector_code/rare_calls.h"
#include "kernels/elementwise/vector_code/register_file.h"
#include "kernels/elementwise/vector_code/vector_code.h"
#include "kernels/host/half_rounding.h"
#include "kernels/host/host_limits.h"

namespace ipu_model {
namespace {

constexpr int kVectorBytes = 32;
constexpr std::size_t kMostSteps = 64, kMostPointers = 32, kOwnPointers = CodeSection::kOwnPointers;
// To round to f16 takes as long as three other steps, and a processor begins few vectors before one is done:
// longer chains take less time as two sections, by way of memory.
constexpr int kMostRounds = 2;
constexpr int kNeverRead = 1 << 10;
constexpr std::size_t kMostCodes = 4;

// With the return address an even number, as calls require.
constexpr Gpr kSaved[] = {Gpr::kRbx, Gpr::kRbp, Gpr::kR13, Gpr::kR14, Gpr::kR15};
constexpr Gpr kIndex = Memory::kIndex, kVectors = Gpr::kR15;

bool IsSelect(const MicroKind& kind) { return kind.code == static_cast<std::uint16_t>(ScalarOp::kSelect); }
// Whether a lane of 32 bits can hold values of a type.
bool FitsLane(RegisterType type) { return SizeOf(type) <= 4; }
bool IsSigned(RegisterType type) { return type == RegisterType::kS8 || type == RegisterType::kS16; }
bool ReadsPredicate(const MicroStep& step, int operand) {
  return step.kind.predicates || (operand == 0 && IsSelect(step.kind));
}

bool Is(const MicroKind& kind, FusedOp op) {
  return kind.code == MicroKind::kFusedCode + static_cast<int>(op);
}
bool IsOfHalf(const MicroStep& step) { return static_cast<DType>(step.immediate) == DType::kF16; }
// Whether a step converts between f16 and its bits, which are in memory only: a register has the f32.
bool ReadsHalf(const MicroStep& step) { return Is(step.kind, FusedOp::kFromBits) && IsOfHalf(step); }
bool WritesHalf(const MicroStep& step) { return Is(step.kind, FusedOp::kToBits) && IsOfHalf(step); }

bool RoundsToHalf(const MicroStep& step) { return Is(step.kind, FusedOp::kRound) && IsOfHalf(step); }

// Makes the code of one section.
class Generator {
 public:
  Generator(const MicroProgram& program, const std::vector<unsigned char>& single, CodeSection* section)
      : p_(program),
        single_(single),
        section_(*section),
        first_constant_(program.inputs.size()),
        first_result_(program.registers.size() - program.steps.size()),
        registers_(&code_, [this](const CodeValue& value) { return NextRead(value); }) {
    registers_.SetLaneBytes(section_.lane_bytes);
  }

  bool HasCode() { return Body(lanes()); }

  // Returns whether all steps have code.
  bool Run() {
    std::vector<std::uint8_t> scale;
    for (const std::uint16_t reg : section_.operands)
      scale.push_back(single_[reg] != 0 ? std::uint8_t{0} : ElementBytes(reg));
    for (const std::uint16_t reg : section_.results) scale.push_back(ElementBytes(reg));
    const std::size_t num_pointers = scale.size();
    registers_.IndexPointers(std::move(scale));

    for (const Gpr reg : kSaved) code_.Push(reg);
    code_.MoveGpr(RegisterFile::kTable, Gpr::kRdi);
    code_.MoveGpr(kVectors, Gpr::kRsi);
    code_.Load64(RegisterFile::kScratchBase, Entry(1));
    for (std::size_t i = 0; i < std::min(num_pointers, std::size(RegisterFile::kPointers)); ++i)
      code_.Load64(RegisterFile::kPointers[i], Entry(i + kOwnPointers));
    code_.LoadImmediate(kIndex, 0);
    const Assembler::Label vectors = code_.NewLabel(), rest = code_.NewLabel(), elements = code_.NewLabel(),
                           end = code_.NewLabel();
    code_.CompareImmediate(kVectors, 0);
    code_.JumpIfZero(rest);
    code_.Bind(vectors);
    if (!Body(lanes())) return false;
    code_.AddImmediate(kIndex, lanes());
    code_.DecrementGpr(kVectors);
    code_.JumpIfNotZero(vectors);
    code_.Bind(rest);
    code_.CompareByteWithZero(Entry(0));
    code_.JumpIfZero(end);
    code_.Bind(elements);
    if (!Body(1)) return false;
    code_.AddImmediate(kIndex, 1);
    code_.Decrement(Entry(0));
    code_.JumpIfNotZero(elements);
    code_.Bind(end);
    code_.ZeroUpper();
    for (std::size_t i = std::size(kSaved); i-- > 0;) code_.Pop(kSaved[i]);
    code_.Return();
    rare_calls_.Emit(&code_);
    section_.code = MachineCode(code_.Finish());
    return section_.code.entry() != nullptr;
  }

 private:
  int lanes() const { return kVectorBytes / section_.lane_bytes; }
  static Memory Entry(std::size_t i) {
    return {RegisterFile::kTable, static_cast<std::int32_t>(i * sizeof(void*))};
  }
  std::uint8_t ElementBytes(std::uint16_t reg) const {
    return static_cast<std::uint8_t>(SizeOf(p_.registers[reg]));
  }
  bool IsOfSection(std::uint16_t reg) const {
    return reg >= first_result_ + section_.first && reg < first_result_ + section_.end;
  }
  CodeAddress Spilled(std::uint16_t reg) const {
    const auto step = static_cast<std::ptrdiff_t>(reg - first_result_ - section_.first);
    return {CodeAddress::kScratch, step * kVectorBytes};
  }
  static CodeAddress Pointer(std::size_t i) { return {CodeAddress::kFirstPointer + static_cast<int>(i), 0}; }

  // After how many steps the value at an address is read again.
  int NextRead(const CodeValue& value) const {
    std::uint16_t reg = 0;
    if (value.address.base == CodeAddress::kScratch) {
      reg = static_cast<std::uint16_t>(value.address.offset / kVectorBytes +
                                       static_cast<std::ptrdiff_t>(first_result_ + section_.first));
    } else if (value.address.base >= CodeAddress::kFirstPointer) {
      reg = section_.operands[static_cast<std::size_t>(value.address.base - CodeAddress::kFirstPointer)];
    } else {
      return kNeverRead - 1;  // a constant, which is loaded again
    }
    for (std::size_t s = step_ + 1; s < section_.end; ++s) {
      const MicroStep& step = p_.steps[s];
      if (std::find(step.operand, step.operand + step.num_operands, reg) != step.operand + step.num_operands)
        return static_cast<int>(s - step_);
    }
    return kNeverRead;
  }

  // A value in the program's memory, of a type that the step may see in it.
  CodeValue Outside(std::size_t pointer, RegisterType type, bool predicate, int lanes) const {
    using Form = CodeValue::Form;
    CodeValue value;
    value.element = static_cast<std::uint8_t>(SizeOf(type));
    const bool extended = value.element < section_.lane_bytes;
    value.form = predicate        ? Form::kPredicates
                 : !extended      ? Form::kNumbers
                 : IsSigned(type) ? Form::kSignExtended
                                  : Form::kZeroExtended;
    value.bytes = value.element * lanes;
    value.address = Pointer(pointer);
    return value;
  }
  CodeValue Operand(std::uint16_t reg, RegisterType type, bool predicate, int lanes) const {
    if (IsOfSection(reg)) return OfSection(reg);
    const auto found = std::find(section_.operands.begin(), section_.operands.end(), reg);
    const auto pointer = static_cast<std::size_t>(found - section_.operands.begin());
    if (predicate) type = RegisterType::kU8;
    CodeValue value = Outside(pointer, type, predicate, single_[reg] != 0 ? 1 : lanes);
    value.broadcast = single_[reg] != 0 && lanes > 1;
    return value;
  }
  // A value between the steps leaves its register as it is.
  CodeValue OfSection(std::uint16_t reg) const { return {Spilled(reg), kVectorBytes}; }

  bool Body(int lanes) {
    registers_.Forget();
    for (step_ = section_.first; step_ < section_.end; ++step_) {
      const MicroStep& step = p_.steps[step_];
      VectorCode vector(&code_, &registers_, &rare_calls_, step.kind, lanes, step.immediate,
                        section_.lane_bytes);
      for (int k = 0; k < step.num_operands; ++k) {
        const std::uint16_t reg = step.operand[k];
        const bool predicate = ReadsPredicate(step, k);
        if (reg >= first_constant_ && reg < first_result_) {
          vector.AddConstant(p_.constants[reg - first_constant_].data(), predicate);
        } else {
          CodeValue value = Operand(reg, step.kind.type, predicate, lanes);
          if (ReadsHalf(step)) value.form = CodeValue::Form::kHalf;
          vector.AddOperand(value);
        }
      }
      const Vector made = vector.Emit();
      if (made < 0) return false;
      if (!WritesHalf(step)) registers_.Define(made, OfSection(step.result));
      const auto result = std::find(section_.results.begin(), section_.results.end(), step.result);
      if (result != section_.results.end()) {
        const std::size_t pointer =
            section_.operands.size() + static_cast<std::size_t>(result - section_.results.begin());
        CodeValue value = Outside(pointer, step.kind.result, step.kind.predicate_result, lanes);
        if (WritesHalf(step)) value.form = CodeValue::Form::kHalf;
        registers_.Write(made, value);
      }
      registers_.Release();
      for (int k = 0; k < step.num_operands; ++k) DropIfRead(step.operand[k]);
      DropIfRead(step.result);
    }
    registers_.Forget();
    return true;
  }
  void DropIfRead(std::uint16_t reg) {
    if (IsOfSection(reg) && NextRead({Spilled(reg)}) == kNeverRead) registers_.Drop(Spilled(reg));
  }

  const MicroProgram& p_;
  const std::vector<unsigned char>& single_;
  CodeSection& section_;
  std::size_t first_constant_, first_result_, step_ = 0;
  Assembler code_;
  RareCalls rare_calls_;
  RegisterFile registers_;
};

// Finds the sections of a program.
class Sections {
 public:
  Sections(const Arrangement& arrangement, BlockCode* code)
      : a_(arrangement),
        p_(*arrangement.program),
        out_(*code),
        first_constant_(p_.inputs.size()),
        first_result_(p_.registers.size() - p_.steps.size()) {}

  void Find() {
    for (std::size_t s = 0; s < p_.steps.size();) {
      CodeSection section;
      section.first = s;
      section.end = s;
      int rounds = 0;
      while (section.end < p_.steps.size() && section.end - s < kMostSteps && HasCode(section.end) &&
             ReadsAsMade(s, section.end)) {
        if (RoundsToHalf(p_.steps[section.end]) && ++rounds > kMostRounds) break;
        ++section.end;
      }
      const std::size_t next = std::max(section.end, s + 1);
      for (Connect(&section); section.end - section.first > 1 && !Fits(section);) {
        --section.end;
        Connect(&section);
      }
      section.lane_bytes = LaneBytes(section);
      if (section.end - section.first > 1 && Generator(p_, out_.key, &section).Run()) {
        s = section.end;
        out_.sections.push_back(std::move(section));
      } else {
        s = section.end - section.first > 1 ? next : s + 1;
      }
    }
    out_.section_at.resize(p_.steps.size());
    for (const CodeSection& section : out_.sections) {
      out_.section_at[section.first] = &section;
      out_.spilled_bytes = std::max(out_.spilled_bytes, (section.end - section.first) * kVectorBytes);
      out_.most_pointers =
          std::max(out_.most_pointers, kOwnPointers + section.operands.size() + section.results.size());
      for (std::size_t s = section.first; s < section.end; ++s) {
        const MicroStep& step = p_.steps[s];
        out_.rounds_half = out_.rounds_half || WritesHalf(step) || RoundsToHalf(step);
      }
    }
  }

 private:
  // Whether a step works on a whole block and has code.
  bool HasCode(std::size_t s) const {
    const MicroStep& step = p_.steps[s];
    const MicroKind& kind = step.kind;
    if (out_.key[step.result] != 0 || kind.code >= MicroKind::kSliceStart) return false;
    if (!FitsLane(kind.type) || !FitsLane(kind.result)) return false;
    CodeSection alone;
    alone.first = s;
    alone.end = s + 1;
    Connect(&alone);
    return Generator(p_, out_.key, &alone).HasCode();
  }

  // Whether a step reads the results of the steps from `first` on as what they were made: in a lane,
  // predicates are no numbers, narrow integers are extended as their type says, and bits of f16 are in
  // memory.
  bool ReadsAsMade(std::size_t first, std::size_t s) const {
    const MicroStep& step = p_.steps[s];
    for (int k = 0; k < step.num_operands; ++k) {
      if (step.operand[k] < first_result_ + first) continue;
      const MicroStep& maker = p_.steps[step.operand[k] - first_result_];
      const MicroKind& made = maker.kind;
      if (ReadsHalf(step) || WritesHalf(maker)) return false;
      const bool predicate = ReadsPredicate(step, k);
      if (predicate != made.predicate_result) return false;
      if (!predicate && SizeOf(made.result) < 4 && made.result != step.kind.type) return false;
    }
    return true;
  }

  // The narrowest lanes in which all steps of a section have code. Blocks of rows have many ends, whose
  // elements are computed one by one, so their vectors are short.
  int LaneBytes(const CodeSection& steps) const {
    CodeSection section;
    section.first = steps.first;
    section.end = steps.end;
    section.operands = steps.operands;
    section.results = steps.results;
    std::size_t widest = a_.per_row != nullptr ? 4 : 1;
    for (std::size_t s = section.first; s < section.end; ++s) {
      const MicroKind& kind = p_.steps[s].kind;
      widest = std::max({widest, SizeOf(kind.type), SizeOf(kind.result)});
    }
    section.lane_bytes = static_cast<int>(widest);
    while (section.lane_bytes < 4 && !Generator(p_, out_.key, &section).HasCode()) section.lane_bytes *= 2;
    return section.lane_bytes;
  }

  void Connect(CodeSection* section) const {
    section->operands.clear();
    section->results.clear();
    for (std::size_t s = section->first; s < section->end; ++s) {
      const MicroStep& step = p_.steps[s];
      for (int k = 0; k < step.num_operands; ++k) {
        const std::uint16_t reg = step.operand[k];
        if (reg >= first_constant_ && reg < first_result_) continue;
        if (reg >= first_result_ + section->first) continue;
        if (std::find(section->operands.begin(), section->operands.end(), reg) == section->operands.end())
          section->operands.push_back(reg);
      }
      if (p_.last_use[step.result] >= static_cast<int>(section->end)) section->results.push_back(step.result);
    }
  }

  // A result may have the slot of an operand only if both are read and written at the same places.
  bool Fits(const CodeSection& section) const {
    if (section.operands.size() + section.results.size() > kMostPointers) return false;
    for (const std::uint16_t result : section.results) {
      if (a_.direct_output[result] >= 0) continue;
      for (const std::uint16_t operand : section.operands) {
        if (operand < first_result_ || p_.slot[operand] != p_.slot[result]) continue;
        if (out_.key[operand] != 0 || SizeOf(p_.registers[operand]) < SizeOf(p_.registers[result]))
          return false;
      }
    }
    return true;
  }

  const Arrangement& a_;
  const MicroProgram& p_;
  BlockCode& out_;
  std::size_t first_constant_, first_result_;
};

// Whether a register holds one value for a block or a row.
bool IsSingle(const Arrangement& a, std::size_t reg) {
  return a.scalar[reg] || (a.per_row != nullptr && a.per_row[reg]);
}
bool IsFor(const BlockCode& code, const Arrangement& a) {
  bool same = true;
  for (std::size_t r = 0; r < code.key.size(); ++r) same = same && (code.key[r] != 0) == IsSingle(a, r);
  return same;
}

}  // namespace

void CodeSection::Call(const void** pointers, unsigned char* spilled, std::int64_t n) const {
  using Function = void(const void**, std::int64_t);
  // The first entry is the number of elements that fill no vector.
  const std::int64_t lanes = kVectorBytes / lane_bytes;
  pointers[0] = reinterpret_cast<const void*>(static_cast<std::uintptr_t>(n % lanes));
  pointers[1] = spilled;
  reinterpret_cast<Function*>(const_cast<void*>(code.entry()))(pointers, n / lanes);
}

std::shared_ptr<const BlockCode> BlockCodeCache::Make(const Arrangement& arrangement) {
  const std::lock_guard lock(mutex_);
  return MakeLocked(arrangement);
}

bool BlockCode::IsAllowed() const { return !rounds_half || !RoundsStochastically(); }

std::shared_ptr<const BlockCode> BlockCodeCache::Find(const Arrangement& arrangement, std::int64_t elements) {
  const std::lock_guard lock(mutex_);
  if (nanoseconds_ < kNanosecondsForCode) {
    nanoseconds_ += static_cast<double>(elements) * arrangement.nanoseconds;
    if (nanoseconds_ < kNanosecondsForCode) return nullptr;
  }
  auto code = MakeLocked(arrangement);
  return code != nullptr && code->IsAllowed() ? code : nullptr;
}

std::shared_ptr<const BlockCode> BlockCodeCache::MakeLocked(const Arrangement& arrangement) {
  if (!FinalHostLimits().machine_code) return nullptr;
  for (const auto& code : codes_)
    if (IsFor(*code, arrangement)) return code->sections.empty() ? nullptr : code;
  if (codes_.size() == kMostCodes) return nullptr;
  auto made = std::make_shared<BlockCode>();
  for (std::size_t r = 0; r < arrangement.program->registers.size(); ++r)
    made->key.push_back(IsSingle(arrangement, r) ? 1 : 0);
  Sections(arrangement, made.get()).Find();
  codes_.push_back(std::move(made));
  return codes_.back()->sections.empty() ? nullptr : codes_.back();
}

}  // namespace ipu_model
