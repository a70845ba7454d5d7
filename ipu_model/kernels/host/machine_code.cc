#include "kernels/host/machine_code.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <initializer_list>
#include <limits>

namespace ipu_model {
namespace {

constexpr std::size_t kUnbound = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kPoolEntry = 32;

unsigned Number(Gpr reg) { return static_cast<unsigned>(reg); }
bool IsIndexed(const Memory& memory) { return memory.scale != 0; }

}  // namespace

MachineCode::MachineCode(const std::vector<unsigned char>& bytes) : size_(bytes.size()) {
  void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  std::memcpy(memory, bytes.data(), size_);
  if (mprotect(memory, size_, PROT_READ | PROT_EXEC) != 0) {
    munmap(memory, size_);
    return;
  }
  memory_ = memory;
}

MachineCode::~MachineCode() {
  if (memory_ != nullptr) munmap(memory_, size_);
}

Assembler::Label Assembler::NewLabel() {
  labels_.push_back(kUnbound);
  return labels_.size() - 1;
}
void Assembler::Bind(Label label) { labels_[label] = code_.size(); }

void Assembler::Bytes32(std::uint32_t value) {
  for (int i = 0; i < 4; ++i) Byte(value >> (8 * i) & 0xff);
}

void Assembler::VexPrefix(VexOp op, bool wide, Vector reg, Vector second, bool base_high, bool index_high) {
  Byte(0xc4);
  Byte((reg < 8 ? 0x80u : 0u) | (index_high ? 0u : 0x40u) | (base_high ? 0u : 0x20u) | op.map);
  Byte(static_cast<unsigned>(op.w) << 7 | (~static_cast<unsigned>(second) & 15u) << 3 | (wide ? 4u : 0u) |
       op.prefix);
  Byte(op.opcode);
}

// `bytes_after`: the length of the immediate that follows.
void Assembler::ModRm(unsigned reg, const Memory& memory, std::size_t bytes_after) {
  if (memory.pool) {
    Byte((reg & 7) << 3 | 5);
    pool_uses_.push_back(
        {code_.size(), code_.size() + 4 + bytes_after, static_cast<std::size_t>(memory.offset)});
    Bytes32(0);
    return;
  }
  assert((Number(memory.base) & 7) != 4);
  if (memory.scale != 0) {
    const unsigned shift = memory.scale / 2;  // 1, 2, 4
    Byte(0x80 | (reg & 7) << 3 | 4);
    Byte(shift << 6 | (Number(Memory::kIndex) & 7) << 3 | (Number(memory.base) & 7));
  } else {
    Byte(0x80 | (reg & 7) << 3 | (Number(memory.base) & 7));
  }
  Bytes32(static_cast<std::uint32_t>(memory.offset));
}

void Assembler::Vex(VexOp op, bool wide, Vector result, Vector a, Vector b) {
  VexPrefix(op, wide, result, a, b >= 8, false);
  Byte(0xc0u | (static_cast<unsigned>(result) & 7) << 3 | (static_cast<unsigned>(b) & 7));
}
void Assembler::Vex(VexOp op, bool wide, Vector result, Vector a, const Memory& b) {
  VexPrefix(op, wide, result, a, !b.pool && Number(b.base) >= 8, IsIndexed(b));
  ModRm(static_cast<unsigned>(result), b, 0);
}
void Assembler::VexImmediate(VexOp op, bool wide, Vector result, Vector a, Vector b, std::uint8_t immediate) {
  Vex(op, wide, result, a, b);
  Byte(immediate);
}
void Assembler::VexImmediate(VexOp op, bool wide, Vector result, Vector a, const Memory& b,
                             std::uint8_t immediate) {
  VexPrefix(op, wide, result, a, !b.pool && Number(b.base) >= 8, IsIndexed(b));
  ModRm(static_cast<unsigned>(result), b, 1);
  Byte(immediate);
}
void Assembler::ZeroUpper() {
  for (const unsigned byte : {0xc5u, 0xf8u, 0x77u}) Byte(byte);
}

void Assembler::Rex(bool wide, unsigned reg, unsigned rm, bool index_high) {
  const unsigned rex =
      0x40u | (wide ? 8u : 0u) | (reg >= 8 ? 4u : 0u) | (index_high ? 2u : 0u) | (rm >= 8 ? 1u : 0u);
  if (rex != 0x40u) Byte(rex);
}
void Assembler::Push(Gpr reg) {
  Rex(false, 0, Number(reg));
  Byte(0x50 | (Number(reg) & 7));
}
void Assembler::Pop(Gpr reg) {
  Rex(false, 0, Number(reg));
  Byte(0x58 | (Number(reg) & 7));
}
void Assembler::Return() { Byte(0xc3); }
void Assembler::LoadImmediate(Gpr reg, std::uint64_t value) {
  Rex(true, 0, Number(reg));
  Byte(0xb8 | (Number(reg) & 7));
  Bytes32(static_cast<std::uint32_t>(value));
  Bytes32(static_cast<std::uint32_t>(value >> 32));
}
void Assembler::MoveGpr(Gpr to, Gpr from) {
  Rex(true, Number(from), Number(to));
  Byte(0x89);
  Byte(0xc0 | (Number(from) & 7) << 3 | (Number(to) & 7));
}
void Assembler::Load64(Gpr reg, const Memory& from) {
  Rex(true, Number(reg), Number(from.base));
  Byte(0x8b);
  ModRm(Number(reg), from, 0);
}
void Assembler::Store64(const Memory& to, Gpr reg) {
  Rex(true, Number(reg), Number(to.base));
  Byte(0x89);
  ModRm(Number(reg), to, 0);
}
void Assembler::LoadByte(Gpr reg, const Memory& from) {
  Rex(false, Number(reg), Number(from.base), IsIndexed(from));
  Byte(0x0f);
  Byte(0xb6);
  ModRm(Number(reg), from, 0);
}
void Assembler::StoreByte(const Memory& to, Gpr reg) {
  Rex(false, Number(reg), Number(to.base), IsIndexed(to));
  Byte(0x88);
  ModRm(Number(reg), to, 0);
}
void Assembler::Load16(Gpr reg, const Memory& from) {
  Rex(false, Number(reg), Number(from.base), IsIndexed(from));
  Byte(0x0f);
  Byte(0xb7);
  ModRm(Number(reg), from, 0);
}
void Assembler::Store16(const Memory& to, Gpr reg) {
  Byte(0x66);
  Rex(false, Number(reg), Number(to.base), IsIndexed(to));
  Byte(0x89);
  ModRm(Number(reg), to, 0);
}
void Assembler::Negate(Gpr reg) {
  Rex(true, 0, Number(reg));
  Byte(0xf7);
  Byte(0xd8 | (Number(reg) & 7));
}
void Assembler::AndByte(Gpr reg, std::uint8_t mask) {
  Byte(0x80);
  Byte(0xe0 | (Number(reg) & 7));
  Byte(mask);
}
void Assembler::Decrement(const Memory& counter) {
  Rex(true, 1, Number(counter.base));
  Byte(0xff);
  ModRm(1, counter, 0);
}
void Assembler::Increment(const Memory& counter) {
  Rex(true, 0, Number(counter.base));
  Byte(0xff);
  ModRm(0, counter, 0);
}
void Assembler::DecrementGpr(Gpr reg) {
  Rex(false, 1, Number(reg));
  Byte(0xff);
  Byte(0xc8 | (Number(reg) & 7));
}
void Assembler::AddImmediate(Gpr reg, std::int32_t value) {
  Rex(true, 0, Number(reg));
  Byte(0x81);
  Byte(0xc0 | (Number(reg) & 7));
  Bytes32(static_cast<std::uint32_t>(value));
}
void Assembler::CompareByteWithZero(const Memory& byte) {
  Rex(false, 7, Number(byte.base));
  Byte(0x80);
  ModRm(7, byte, 1);
  Byte(0);
}
void Assembler::Load32(Gpr reg, const Memory& from) {
  Rex(false, Number(reg), Number(from.base));
  Byte(0x8b);
  ModRm(Number(reg), from, 0);
}
void Assembler::CompareImmediate(Gpr reg, std::int32_t value) {
  Rex(false, 7, Number(reg));
  Byte(0x81);
  Byte(0xf8 | (Number(reg) & 7));
  Bytes32(static_cast<std::uint32_t>(value));
}
void Assembler::LoadSigned32(Gpr reg, const Memory& from) {
  Rex(true, Number(reg), Number(from.base));
  Byte(0x63);
  ModRm(Number(reg), from, 0);
}
void Assembler::CompareGpr(Gpr a, Gpr b) {
  Rex(true, Number(b), Number(a));
  Byte(0x39);
  Byte(0xc0 | (Number(b) & 7) << 3 | (Number(a) & 7));
}
void Assembler::MoveIfLess(Gpr to, Gpr from) {
  Rex(true, Number(to), Number(from));
  Byte(0x0f);
  Byte(0x4c);
  Byte(0xc0 | (Number(to) & 7) << 3 | (Number(from) & 7));
}
void Assembler::MoveIfGreater(Gpr to, Gpr from) {
  Rex(true, Number(to), Number(from));
  Byte(0x0f);
  Byte(0x4f);
  Byte(0xc0 | (Number(to) & 7) << 3 | (Number(from) & 7));
}
void Assembler::MultiplyImmediate(Gpr reg, std::int32_t value) {
  Rex(true, Number(reg), Number(reg));
  Byte(0x69);
  Byte(0xc0 | (Number(reg) & 7) << 3 | (Number(reg) & 7));
  Bytes32(static_cast<std::uint32_t>(value));
}
void Assembler::AddGpr(Gpr to, Gpr from) {
  Rex(true, Number(from), Number(to));
  Byte(0x01);
  Byte(0xc0 | (Number(from) & 7) << 3 | (Number(to) & 7));
}
void Assembler::Call(Gpr reg) {
  Rex(false, 2, Number(reg));
  Byte(0xff);
  Byte(0xd0 | (Number(reg) & 7));
}
void Assembler::JumpCode(std::initializer_list<unsigned> opcode, Label to) {
  for (const unsigned byte : opcode) Byte(byte);
  jumps_.push_back({code_.size(), code_.size() + 4, to});
  Bytes32(0);
}
void Assembler::Call(Label function) { JumpCode({0xe8}, function); }
void Assembler::Jump(Label to) { JumpCode({0xe9}, to); }
void Assembler::JumpIfZero(Label to) { JumpCode({0x0f, 0x84}, to); }
void Assembler::JumpIfNotZero(Label to) { JumpCode({0x0f, 0x85}, to); }
void Assembler::JumpIfAbove(Label to) { JumpCode({0x0f, 0x87}, to); }
void Assembler::JumpIfNotAbove(Label to) { JumpCode({0x0f, 0x86}, to); }

std::int32_t Assembler::Constant(const std::array<unsigned char, 32>& bytes) {
  auto found = std::find(pool_.begin(), pool_.end(), bytes);
  if (found == pool_.end()) found = pool_.insert(pool_.end(), bytes);
  return static_cast<std::int32_t>(static_cast<std::size_t>(found - pool_.begin()) * kPoolEntry);
}

std::vector<unsigned char> Assembler::Finish() {
  const std::size_t pool = (code_.size() + 63) / 64 * 64;
  const auto patch = [this](const Fixup& fixup, std::size_t target) {
    const auto distance = static_cast<std::uint32_t>(target - fixup.end);
    for (std::size_t i = 0; i < 4; ++i)
      code_[fixup.at + i] = static_cast<unsigned char>(distance >> (8 * i) & 0xff);
  };
  for (const Fixup& jump : jumps_) {
    assert(labels_[jump.target] != kUnbound);
    patch(jump, labels_[jump.target]);
  }
  for (const Fixup& use : pool_uses_) patch(use, pool + use.target);
  code_.resize(pool + pool_.size() * kPoolEntry);
  for (std::size_t i = 0; i < pool_.size(); ++i)
    std::memcpy(code_.data() + pool + i * kPoolEntry, pool_[i].data(), kPoolEntry);
  return std::move(code_);
}

}  // namespace ipu_model
