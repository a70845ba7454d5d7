#include "kernels/elementwise/vector_code/register_file.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "kernels/elementwise/vector_code/vex_ops.h"

namespace ipu_model {
namespace {

constexpr Vector kNone = -1;
constexpr Vector kLast = 15;  // for loading and storing
constexpr int kNumberBytes = 4;

// Ones in the first `lanes` lanes.
std::array<unsigned char, 32> LaneMask(int lanes) {
  std::array<unsigned char, 32> mask{};
  std::memset(mask.data(), 0xff, static_cast<std::size_t>(lanes * kNumberBytes));
  return mask;
}
std::array<unsigned char, 32> Filled(unsigned char byte) {
  std::array<unsigned char, 32> bytes;
  bytes.fill(byte);
  return bytes;
}

// vpxor of a register with itself.
void SetZero(Assembler* code, Vector reg) { code->Vex(vex::kXor, false, reg, reg, reg); }

}  // namespace

Memory RegisterFile::At(const CodeAddress& address) {
  const auto offset = static_cast<std::int32_t>(address.offset);
  switch (address.base) {
    case CodeAddress::kPool:
      return {Gpr::kRax, offset, true};
    case CodeAddress::kAbsolute:
      code_->LoadImmediate(Gpr::kRax, static_cast<std::uint64_t>(address.offset));
      return {Gpr::kRax, 0};
    case CodeAddress::kArena:
      return {kArenaBase, offset};
    case CodeAddress::kScratch:
      return {kScratchBase, offset};
    default:
      break;
  }
  const auto pointer = static_cast<std::size_t>(address.base - CodeAddress::kFirstPointer);
  const std::uint8_t scale = pointer < scale_.size() ? scale_[pointer] : std::uint8_t{0};
  if (pointer < scale_.size() && pointer < std::size(kPointers))
    return {kPointers[pointer], offset, false, scale};
  code_->Load64(Gpr::kRax, {kTable, address.base * static_cast<std::int32_t>(sizeof(void*))});
  return {Gpr::kRax, offset, false, scale};
}

void RegisterFile::Drop(const CodeAddress& address) {
  for (Entry& entry : entries_) {
    const CodeAddress& held = entry.value.address;
    if (held.base == address.base && held.offset == address.offset) entry.used = false;
  }
}

// Two pointers of the table, or one and an absolute address, may point to the same memory.
bool RegisterFile::Overlap(const CodeValue& value, const CodeAddress& address, std::int64_t bytes) {
  const CodeAddress& held = value.address;
  if (held.base != address.base) {
    const auto apart = [](int base) {
      return base == CodeAddress::kArena || base == CodeAddress::kScratch || base == CodeAddress::kPool;
    };
    return !apart(held.base) && !apart(address.base);
  }
  return held.offset < address.offset + bytes && address.offset < held.offset + value.bytes;
}

Vector RegisterFile::Find(const CodeValue& value) const {
  for (std::size_t r = 0; r < entries_.size(); ++r) {
    const CodeValue& held = entries_[r].value;
    if (entries_[r].used && held.address.base == value.address.base &&
        held.address.offset == value.address.offset && held.bytes == value.bytes && held.form == value.form &&
        (held.broadcast || !value.broadcast)) {
      return static_cast<Vector>(r);
    }
  }
  return kNone;
}

bool RegisterFile::IsStoredInParts(const CodeValue& value) const {
  return std::any_of(parts_.begin(), parts_.end(), [&value](const CodeAddress& part) {
    const std::ptrdiff_t offset = part.offset - value.address.offset;
    return part.base == value.address.base && offset >= 0 && offset < value.bytes;
  });
}

// Loading a value from memory right after its parts were stored one by one would wait for all the stores.
Vector RegisterFile::Assemble(const CodeValue& value) {
  const int lanes = value.bytes / kNumberBytes;
  if (value.form != CodeValue::Form::kNumbers || value.broadcast || lanes < 2 || lanes > 4) return kNone;
  Vector parts[4] = {};
  bool all = true;
  const auto part = [&value](int k) {
    CodeValue found = value;
    found.address.offset += k * kNumberBytes;
    found.bytes = kNumberBytes;
    return found;
  };
  for (int k = 0; k < lanes; ++k) {
    parts[k] = Find(part(k));
    all = all && parts[k] >= 0;
  }
  if (!all && !IsStoredInParts(value)) return kNone;
  const auto kept = kept_;
  for (int k = 0; k < lanes; ++k)
    if (parts[k] >= 0) kept_[static_cast<std::size_t>(parts[k])] = true;
  for (int k = 0; k < lanes; ++k)
    if (parts[k] < 0) parts[k] = Use(part(k));
  const Vector reg = Take();
  code_->Vex(vex::kInterleave, false, reg, parts[0], parts[1]);
  for (int k = 2; k < lanes; ++k)
    code_->VexImmediate(vex::kInsert, false, reg, reg, parts[k], static_cast<std::uint8_t>(k << 4));
  kept_ = kept;
  kept_[static_cast<std::size_t>(reg)] = true;
  return reg;
}

Vector RegisterFile::Part(const CodeValue& value) {
  if (value.form != CodeValue::Form::kNumbers || value.broadcast || value.bytes != kNumberBytes) return kNone;
  for (std::size_t r = 0; r < entries_.size(); ++r) {
    const CodeValue& held = entries_[r].value;
    const std::ptrdiff_t offset = value.address.offset - held.address.offset;
    if (!entries_[r].used || held.broadcast || held.form != value.form ||
        held.address.base != value.address.base || offset < 0 || offset + kNumberBytes > held.bytes ||
        offset % kNumberBytes != 0) {
      continue;
    }
    const auto kept = kept_;
    kept_[r] = true;
    const Vector reg = Take();
    auto from = static_cast<Vector>(r);
    auto lane = static_cast<int>(offset) / kNumberBytes;
    if (lane >= 4) {
      code_->VexImmediate(vex::kUpperHalf, true, from, 0, kLast, 1);
      from = kLast;
      lane -= 4;
    }
    code_->VexImmediate(vex::kShuffle, false, reg, 0, from, static_cast<std::uint8_t>(lane * 0x55));
    kept_ = kept;
    kept_[static_cast<std::size_t>(reg)] = true;
    return reg;
  }
  return kNone;
}

Vector RegisterFile::Use(const CodeValue& value) {
  if (const Vector held = Find(value); held >= 0) {
    entries_[static_cast<std::size_t>(held)].age = ++clock_;
    kept_[static_cast<std::size_t>(held)] = true;
    return held;
  }
  Vector made = Assemble(value);
  if (made < 0) made = Part(value);
  if (made >= 0) {
    entries_[static_cast<std::size_t>(made)] = {value, true, false, ++clock_};
    return made;
  }
  if (value.broadcast && value.address.base != CodeAddress::kPool) {
    CodeValue single = value;
    single.broadcast = false;
    const Vector from = Use(single), reg = Take();
    code_->Vex(vex::kBroadcastLane(lane_bytes_), true, reg, 0, from);
    entries_[static_cast<std::size_t>(reg)] = {value, true, false, ++clock_};
    return reg;
  }
  Store(value.address, value.bytes);
  const Vector reg = Take();
  Load(reg, value);
  entries_[static_cast<std::size_t>(reg)] = {value, true, false, ++clock_};
  return reg;
}

Vector RegisterFile::New() { return Take(); }

// Evicts the value that is read last, or that was used first.
Vector RegisterFile::Take() {
  std::size_t best = entries_.size();
  std::int64_t most = -1;
  for (std::size_t r = 0; r < entries_.size(); ++r) {
    if (kept_[r]) continue;
    const Entry& entry = entries_[r];
    constexpr std::int64_t kFree = std::int64_t{1} << 60, kPerCall = std::int64_t{1} << 32;
    const std::int64_t score =
        !entry.used ? kFree : next_read_(entry.value) * kPerCall + (kPerCall - 1 - entry.age);
    if (score <= most) continue;
    most = score;
    best = r;
  }
  StoreEntry(best);
  entries_[best].used = false;
  kept_[best] = true;
  return static_cast<Vector>(best);
}

void RegisterFile::Load(Vector reg, const CodeValue& value) {
  const Memory from = At(value.address);
  if (value.address.base == CodeAddress::kPool) {
    code_->Vex(vex::kLoad, true, reg, 0, from);
    return;
  }
  if (value.form == CodeValue::Form::kPredicates) return LoadPredicates(reg, value, from);
  if (value.form == CodeValue::Form::kNumbers) return LoadNumbers(reg, from, value.bytes);
  if (value.form == CodeValue::Form::kHalf) {
    if (value.bytes > value.element) return code_->Vex(vex::kFromHalf, true, reg, 0, from);
    LoadNumbers(reg, from, value.element);
    return code_->Vex(vex::kFromHalf, false, reg, 0, reg);
  }
  const VexOp extend = vex::Extend(value.element, lane_bytes_, value.form == CodeValue::Form::kSignExtended);
  if (value.bytes > value.element) return code_->Vex(extend, true, reg, 0, from);
  LoadNumbers(reg, from, value.element);
  code_->Vex(extend, false, reg, 0, reg);
}

void RegisterFile::LoadPredicates(Vector reg, const CodeValue& value, const Memory& from) {
  if (value.bytes == 1) {
    code_->LoadByte(Gpr::kRax, from);
    code_->Negate(Gpr::kRax);
    return code_->Vex(vex::kFromGpr, false, reg, 0, static_cast<Vector>(Gpr::kRax));
  }
  const bool wide = value.bytes * lane_bytes_ > 16;
  code_->Vex(lane_bytes_ == 1 ? vex::kLoad : vex::Extend(1, lane_bytes_, false), wide, reg, 0, from);
  SetZero(code_, kLast);
  code_->Vex(vex::kSubtract(lane_bytes_), wide, reg, kLast, reg);
}

void RegisterFile::LoadNumbers(Vector reg, const Memory& from, int bytes) {
  switch (bytes) {
    case 1:
    case 2:
      bytes == 1 ? code_->LoadByte(Gpr::kRax, from) : code_->Load16(Gpr::kRax, from);
      return code_->Vex(vex::kFromGpr, false, reg, 0, static_cast<Vector>(Gpr::kRax));
    case 4:
      return code_->Vex(vex::kLoad32, false, reg, 0, from);
    case 8:
      return code_->Vex(vex::kLoad64, false, reg, 0, from);
    case 12:  // without a mask, because masked accesses take longer
      code_->Vex(vex::kLoad64, false, reg, 0, from);
      return code_->VexImmediate(vex::kInsert, false, reg, reg, {from.base, from.offset + 8}, 2 << 4);
    case 16:
      return code_->Vex(vex::kLoad, false, reg, 0, from);
    case 32:
      return code_->Vex(vex::kLoad, true, reg, 0, from);
    default: {
      const bool wide = bytes > 16;
      const Memory mask{Gpr::kRax, code_->Constant(LaneMask(bytes / kNumberBytes)), true};
      code_->Vex(vex::kLoad, wide, kLast, 0, mask);
      code_->Vex(vex::kMaskLoad, wide, reg, kLast, from);
    }
  }
}

void RegisterFile::Write(Vector reg, const CodeValue& value) {
  if (value.form == CodeValue::Form::kNumbers && value.bytes == kNumberBytes)
    parts_[next_part_++ % parts_.size()] = value.address;
  const Memory to = At(value.address);
  if (value.form == CodeValue::Form::kPredicates) return WritePredicates(reg, value, to);
  if (value.form == CodeValue::Form::kNumbers) return WriteNumbers(reg, to, value.bytes);
  if (value.form == CodeValue::Form::kHalf) return WriteHalf(reg, value, to);
  WriteNarrow(reg, value, to);
}

// Rounds to nearest even.
void RegisterFile::WriteHalf(Vector reg, const CodeValue& value, const Memory& to) {
  if (value.bytes > value.element) return code_->VexImmediate(vex::kToHalf, true, reg, 0, to, 0);
  code_->VexImmediate(vex::kToHalf, false, reg, 0, kLast, 0);
  WriteNumbers(kLast, to, value.element);
}

void RegisterFile::WritePredicates(Vector reg, const CodeValue& value, const Memory& to) {
  if (value.bytes == 1) {
    code_->Vex(vex::kToGpr, false, reg, 0, static_cast<Vector>(Gpr::kRcx));
    code_->AndByte(Gpr::kRcx, 1);
    code_->StoreByte(to, Gpr::kRcx);
    return;
  }
  const Memory ones{Gpr::kRax, code_->Constant(Filled(1)), true};
  const bool wide = value.bytes * lane_bytes_ > 16;
  if (lane_bytes_ == 1) {
    code_->Vex(vex::kAnd, wide, kLast, reg, ones);
    return code_->Vex(vex::kStore, wide, kLast, 0, to);
  }
  const VexOp pack = lane_bytes_ == 4 ? vex::kPackWords : vex::kPackShorts;
  if (wide) {
    code_->VexImmediate(vex::kUpperHalf, true, reg, 0, kLast, 1);
    code_->Vex(pack, false, kLast, reg, kLast);
  } else {
    code_->Vex(pack, false, kLast, reg, reg);
  }
  if (lane_bytes_ == 4) code_->Vex(vex::kPackShorts, false, kLast, kLast, kLast);
  code_->Vex(vex::kAnd, false, kLast, kLast, ones);
  const VexOp store = value.bytes == 16  ? vex::kStore
                      : value.bytes == 8 ? vex::kStoreLow64
                                         : vex::kStoreLow32;
  code_->Vex(store, false, kLast, 0, to);
}

// The values fit their type, so saturating them to it changes nothing.
void RegisterFile::WriteNarrow(Vector reg, const CodeValue& value, const Memory& to) {
  if (value.bytes == value.element) return WriteNumbers(reg, to, value.element);
  const bool is_signed = value.form == CodeValue::Form::kSignExtended;
  const VexOp words = is_signed ? vex::kPackWords : vex::kPackWordsU;
  const VexOp shorts = is_signed ? vex::kPackShorts : vex::kPackShortsU;
  code_->VexImmediate(vex::kUpperHalf, true, reg, 0, kLast, 1);
  code_->Vex(lane_bytes_ == 4 ? words : shorts, false, kLast, reg, kLast);
  if (lane_bytes_ / value.element == 4) code_->Vex(shorts, false, kLast, kLast, kLast);
  code_->Vex(value.bytes == 8 ? vex::kStoreLow64 : vex::kStore, false, kLast, 0, to);
}

void RegisterFile::WriteNumbers(Vector reg, const Memory& to, int bytes) {
  switch (bytes) {
    case 1:
    case 2:
      code_->Vex(vex::kToGpr, false, reg, 0, static_cast<Vector>(Gpr::kRcx));
      return bytes == 1 ? code_->StoreByte(to, Gpr::kRcx) : code_->Store16(to, Gpr::kRcx);
    case 4:
      return code_->Vex(vex::kStore32, false, reg, 0, to);
    case 8:
      return code_->Vex(vex::kStore64, false, reg, 0, to);
    case 12:
      code_->Vex(vex::kStore64, false, reg, 0, to);
      return code_->VexImmediate(vex::kExtract, false, reg, 0, {to.base, to.offset + 8}, 2);
    case 16:
      return code_->Vex(vex::kStore, false, reg, 0, to);
    case 32:
      return code_->Vex(vex::kStore, true, reg, 0, to);
    default: {
      const bool wide = bytes > 16;
      const Memory mask{Gpr::kRax, code_->Constant(LaneMask(bytes / kNumberBytes)), true};
      code_->Vex(vex::kLoad, wide, kLast, 0, mask);
      code_->Vex(vex::kMaskStore, wide, reg, kLast, to);
    }
  }
}

void RegisterFile::StoreEntry(std::size_t reg) {
  Entry& entry = entries_[reg];
  if (!entry.used || !entry.dirty) return;
  Write(static_cast<Vector>(reg), entry.value);
  entry.dirty = false;
}

void RegisterFile::Define(Vector reg, const CodeValue& value) {
  Overwrite(value.address, value.bytes);
  const bool lazy = value.address.base == CodeAddress::kScratch;
  if (!lazy) Write(reg, value);
  entries_[static_cast<std::size_t>(reg)] = {value, true, lazy, ++clock_};
}

void RegisterFile::DefineCopy(Vector from, const CodeValue& value) {
  const Vector reg = New();
  code_->Vex(vex::kMove, value.bytes > 16 || value.broadcast, reg, 0, from);
  Define(reg, value);
}

void RegisterFile::Overwrite(const CodeAddress& address, std::int64_t bytes) {
  for (std::size_t r = 0; r < entries_.size(); ++r) {
    Entry& entry = entries_[r];
    if (!entry.used || !Overlap(entry.value, address, bytes)) continue;
    // What the write leaves of a value that is only in a register.
    const CodeValue& held = entry.value;
    const bool whole = held.address.base == address.base && address.offset <= held.address.offset &&
                       held.address.offset + held.bytes <= address.offset + bytes;
    if (!whole) StoreEntry(r);
    entry.used = false;
  }
}

void RegisterFile::Store(const CodeAddress& address, std::int64_t bytes) {
  for (std::size_t r = 0; r < entries_.size(); ++r)
    if (entries_[r].used && Overlap(entries_[r].value, address, bytes)) StoreEntry(r);
}

void RegisterFile::StoreAll() {
  for (std::size_t r = 0; r < entries_.size(); ++r) StoreEntry(r);
}

void RegisterFile::ForgetScratch() {
  for (Entry& entry : entries_)
    if (entry.value.address.base == CodeAddress::kScratch) entry.used = false;
}

void RegisterFile::Forget() {
  for (Entry& entry : entries_) entry.used = false;
  parts_.fill({CodeAddress::kPool, 0});
}

}  // namespace ipu_model
