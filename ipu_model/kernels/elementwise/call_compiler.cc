#include "kernels/elementwise/call_compiler.h"

#include <algorithm>
#include <iterator>

#include "kernels/elementwise/vector_code/vector_code.h"
#include "kernels/elementwise/vector_code/vex_ops.h"

namespace ipu_model {
namespace {

constexpr int kLanes = 8;              // of 32 bits
constexpr int kCallsToLookAhead = 32;  // when a value has to leave its register
constexpr std::int64_t kMostMovedBytes = 128;

// With the return address an even number, as calls require.
constexpr Gpr kSaved[] = {Gpr::kRbx, Gpr::kRbp, Gpr::kR13, Gpr::kR14, Gpr::kR15};

bool IsNumber(RegisterType type) {
  return SizeOf(type) == 4 || (SizeOf(type) == 8 && type != RegisterType::kC64);
}

bool IsSelect(const MicroKind& kind) { return kind.code == static_cast<std::uint16_t>(ScalarOp::kSelect); }
bool HasPredicates(const MicroKind& kind) {
  return kind.predicates || kind.predicate_result || IsSelect(kind);
}
// The size of a lane; predicates take the lanes of the numbers that they belong to.
std::size_t ElementSize(const MicroKind& kind) {
  return std::max(kind.predicates ? std::size_t{4} : SizeOf(kind.type),
                  kind.predicate_result ? std::size_t{4} : SizeOf(kind.result));
}

// Lanes of the next piece of `rest` elements. Predicates are only read and written 8, 4 or 1 at a time.
int NextLanes(std::int64_t rest, std::size_t size, bool predicates) {
  if (size == 8) return 1;
  if (rest >= kLanes) return kLanes;
  if (!predicates) return static_cast<int>(rest);
  return rest >= 4 ? 4 : 1;
}

}  // namespace

CallCompiler::CallCompiler(Assembler* code)
    : code_(code), registers_(code, [this](const CodeValue& value) { return NextRead(value); }) {}

void CallCompiler::Begin() {
  for (const Gpr reg : kSaved) code_->Push(reg);
  code_->MoveGpr(RegisterFile::kTable, Gpr::kRdi);
  code_->Load64(RegisterFile::kArenaBase, {RegisterFile::kTable, 0});
  code_->Load64(RegisterFile::kScratchBase, {RegisterFile::kTable, sizeof(void*)});
}

void CallCompiler::End() {
  code_->ZeroUpper();
  for (std::size_t i = std::size(kSaved); i-- > 0;) code_->Pop(kSaved[i]);
  code_->Return();
  rare_calls_.Emit(code_);
}

CodeAddress CallCompiler::Address(const CallList::Place& place) const {
  CodeAddress address{CodeAddress::kScratch, place.offset};
  if (place.base == CallList::Place::Base::kFixed)
    return {CodeAddress::kAbsolute, reinterpret_cast<std::ptrdiff_t>(place.fixed)};
  if (place.base == CallList::Place::Base::kInput) address = (*in_)[place.tensor];
  if (place.base == CallList::Place::Base::kOutput) address = (*out_)[place.tensor];
  if (place.base != CallList::Place::Base::kScratch) address.offset += place.offset;
  return address;
}

int CallCompiler::NextRead(const CodeValue& value) const {
  if (list_ == nullptr) return kCallsToLookAhead;
  const auto& calls = list_->descriptions();
  const std::size_t end = std::min(calls.size(), position_ + kCallsToLookAhead);
  for (std::size_t c = position_ + 1; c < end; ++c) {
    for (int k = 0; k < calls[c].num_operands; ++k) {
      if (calls[c].operand[k].base == CallList::Place::Base::kFixed) continue;
      const CodeAddress read = Address(calls[c].operand[k]);
      const std::ptrdiff_t offset = value.address.offset - read.offset;
      // Not exact: where a piece of an operand is depends on the size of its elements.
      if (read.base == value.address.base && offset >= 0 && offset < kMostElements * 8)
        return static_cast<int>(c - position_);
    }
  }
  return kCallsToLookAhead;
}

void CallCompiler::Add(const CallList& list, const std::vector<CodeAddress>& in,
                       const std::vector<CodeAddress>& out) {
  list_ = &list;
  in_ = &in;
  out_ = &out;
  for (position_ = 0; position_ < list.calls().size();) {
    const bool compiled = Compile(position_);
    registers_.Release();
    if (compiled) {
      ++num_compiled_;
    } else {
      CompileCall(list.calls()[position_]);
    }
    ++position_;
  }
  // The next kernel uses the same scratch memory.
  registers_.ForgetScratch();
  list_ = nullptr;
}

void CallCompiler::CompileCall(const CallList::Call& call) {
  registers_.StoreAll();
  registers_.Forget();
  code_->ZeroUpper();
  code_->LoadImmediate(Gpr::kRdi, reinterpret_cast<std::uint64_t>(&call.arguments));
  code_->LoadImmediate(Gpr::kRax, reinterpret_cast<std::uint64_t>(call.function));
  code_->Call(Gpr::kRax);
}

bool CallCompiler::CompileMove(const CallList::Description& call, std::int64_t bytes) {
  const CodeAddress from = Address(call.operand[0]), to = Address(call.result);
  if (from.base == to.base && from.offset == to.offset) return true;
  if (bytes > kMostMovedBytes || (bytes != 1 && bytes % 4 != 0)) return false;
  if (from.base == CodeAddress::kAbsolute && call.operand[0].base == CallList::Place::Base::kFixed)
    return false;
  if (bytes == 1) {
    registers_.Store(from, 1);
    code_->LoadByte(Gpr::kRcx, registers_.At(from));
    registers_.Overwrite(to, 1);
    code_->StoreByte(registers_.At(to), Gpr::kRcx);
    return true;
  }
  for (std::int64_t done = 0; done < bytes;) {
    const std::int64_t piece = std::min<std::int64_t>(bytes - done, kLanes * 4);
    CodeValue value{{from.base, from.offset + done}, static_cast<int>(piece)};
    const Vector reg = registers_.Use(value);
    value.address = {to.base, to.offset + done};
    registers_.DefineCopy(reg, value);
    registers_.Release();
    done += piece;
  }
  return true;
}

bool CallCompiler::Compile(std::size_t call) {
  const MicroKind& kind = list_->descriptions()[call].kind;
  const std::int64_t n = list_->calls()[call].arguments.n;
  if (kind.code == MicroKind::kMove) return CompileMove(list_->descriptions()[call], n);
  if (kind.code == MicroKind::kSliceStart) return CompileSliceStart(list_->descriptions()[call]);
  if (kind.code == MicroKind::kMoveFrom || kind.code == MicroKind::kMoveTo) {
    return CompileSliceMove(list_->descriptions()[call], n);
  }
  for (std::int64_t first = 0; first < n;) {
    const int lanes = NextLanes(n - first, ElementSize(kind), HasPredicates(kind));
    if (!CompilePiece(call, first, lanes)) return false;  // which the first piece decides
    registers_.Release();
    first += lanes;
  }
  return n > 0;
}

bool CallCompiler::CompilePiece(std::size_t call, std::int64_t first, int lanes) {
  const CallList::Description& description = list_->descriptions()[call];
  const MicroArguments& arguments = list_->calls()[call].arguments;
  const MicroKind& kind = description.kind;
  const std::int64_t n = arguments.n;
  if (kind.code >= MicroKind::kSliceStart || n > kMostElements) return false;
  // How f16 rounds may change after the code is made.
  if (kind.code == MicroKind::kFusedCode + static_cast<int>(FusedOp::kRound) &&
      static_cast<DType>(arguments.immediate) == DType::kF16) {
    return false;
  }
  if (!kind.predicates && !IsNumber(kind.type)) return false;
  if (!kind.predicate_result && !IsNumber(kind.result)) return false;
  if (ElementSize(kind) == 8 && n > 4) return false;
  VectorCode vector(code_, &registers_, &rare_calls_, kind, lanes, arguments.immediate);
  for (int k = 0; k < description.num_operands; ++k) {
    const CallList::Place& place = description.operand[k];
    const bool predicate = kind.predicates || (k == 0 && IsSelect(kind));
    if (place.base == CallList::Place::Base::kFixed) {
      vector.AddConstant(place.fixed, predicate);
      continue;
    }
    const auto bytes = static_cast<std::int64_t>(predicate ? 1 : SizeOf(kind.type));
    const bool scalar = n == 1 || (arguments.scalar >> k & 1) != 0;
    CodeValue value{Address(place), static_cast<int>(bytes * (scalar ? 1 : lanes)),
                    predicate ? CodeValue::Form::kPredicates : CodeValue::Form::kNumbers,
                    scalar && lanes > 1};
    if (!scalar) value.address.offset += first * bytes;
    vector.AddOperand(value);
  }
  const Vector reg = vector.Emit();
  if (reg < 0) return false;
  const auto bytes = static_cast<std::int64_t>(kind.predicate_result ? 1 : SizeOf(kind.result));
  CodeValue result{Address(description.result), static_cast<int>(bytes * lanes),
                   kind.predicate_result ? CodeValue::Form::kPredicates : CodeValue::Form::kNumbers};
  result.address.offset += first * bytes;
  registers_.Define(reg, result);
  return true;
}

}  // namespace ipu_model
