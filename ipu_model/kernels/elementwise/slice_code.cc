// Code of dynamic slices: the clamped starts, and the moves from or to where they say.
#include <algorithm>
#include <limits>

#include "kernels/elementwise/call_compiler.h"
#include "kernels/host/bound_slice.h"

namespace ipu_model {
namespace {

constexpr std::int64_t kMostMovedBytes = 128, kPiece = 32;
// Registers that no value is in between operations.
constexpr Gpr kOffset = Gpr::kRcx, kOther = Gpr::kRdx;

}  // namespace

bool CallCompiler::CompileSliceStart(const CallList::Description& call) {
  const auto& start = *static_cast<const SliceStart*>(call.operand[1].fixed);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (start.type != DType::kS32 || start.bytes > kMost || start.bytes < -kMost) return false;
  const CodeAddress index = Address(call.operand[0]), result = Address(call.result);
  registers_.Store(index, 4);
  code_->LoadSigned32(kOffset, registers_.At(index));
  code_->LoadImmediate(kOther, 0);
  code_->CompareGpr(kOffset, kOther);
  code_->MoveIfLess(kOffset, kOther);
  code_->LoadImmediate(kOther, static_cast<std::uint64_t>(start.limit));
  code_->CompareGpr(kOffset, kOther);
  code_->MoveIfGreater(kOffset, kOther);
  code_->MultiplyImmediate(kOffset, static_cast<std::int32_t>(start.bytes));
  if (start.more) {
    code_->Load64(kOther, registers_.At(result));
    code_->AddGpr(kOffset, kOther);
  }
  registers_.Overwrite(result, sizeof(std::int64_t));
  code_->Store64(registers_.At(result), kOffset);
  return true;
}

bool CallCompiler::CompileSliceMove(const CallList::Description& call, std::int64_t bytes) {
  if (bytes > kMostMovedBytes || bytes <= 0 || (bytes != 1 && bytes % 4 != 0)) return false;
  const bool is_from = call.kind.code == MicroKind::kMoveFrom;
  const CallList::Place& whole = is_from ? call.operand[0] : call.result;
  if (whole.base == CallList::Place::Base::kFixed || call.operand[0].base == CallList::Place::Base::kFixed)
    return false;
  const CodeAddress from = Address(call.operand[0]), to = Address(call.result),
                    offset = Address(call.operand[1]);
  const auto& range = *static_cast<const SlicedBytes*>(call.operand[2].fixed);
  const CodeAddress first{(is_from ? from : to).base, (is_from ? from : to).offset + range.begin};
  // Registers are taken before the address is made: taking one may store its value, by way of the same
  // registers.
  Vector pieces[kMostMovedBytes / kPiece];
  int count = 0;
  const auto size = [&](int piece) { return static_cast<int>(std::min(bytes - piece * kPiece, kPiece)); };
  if (bytes > 1) {
    for (; count * kPiece < bytes; ++count) {
      const CodeValue value{{from.base, from.offset + count * kPiece}, size(count)};
      pieces[count] = is_from ? registers_.New() : registers_.Use(value);
    }
  }
  if (is_from) registers_.Store(first, range.bytes);
  if (bytes == 1 && !is_from) registers_.Store(from, 1);
  registers_.Store(offset, sizeof(std::int64_t));
  code_->Load64(kOffset, registers_.At(offset));
  // The address of the slice: its offset, and what At says of the whole.
  const Memory base = registers_.At(is_from ? from : to);
  code_->AddGpr(kOffset, base.base);
  const auto slice = [&](int piece) {
    return Memory{kOffset, base.offset + piece * static_cast<std::int32_t>(kPiece)};
  };
  if (bytes == 1) {
    code_->LoadByte(kOther, is_from ? slice(0) : registers_.At(from));
    if (is_from) registers_.Overwrite(to, 1);
    code_->StoreByte(is_from ? registers_.At(to) : slice(0), kOther);
  }
  for (int i = 0; i < count; ++i) {
    if (is_from) {
      registers_.LoadNumbers(pieces[i], slice(i), size(i));
    } else {
      registers_.WriteNumbers(pieces[i], slice(i), size(i));
    }
  }
  for (int i = 0; i < count && is_from; ++i) {
    registers_.Define(pieces[i], {{to.base, to.offset + i * kPiece}, size(i)});
  }
  if (!is_from) registers_.Overwrite(first, range.bytes);
  return true;
}

}  // namespace ipu_model
