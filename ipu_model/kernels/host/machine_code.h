// Machine code that is generated at run time: executable memory, and an assembler for the few x86-64 and AVX2
// instructions that generated loops consist of.
#ifndef IPU_MODEL_KERNELS_HOST_MACHINE_CODE_H_
#define IPU_MODEL_KERNELS_HOST_MACHINE_CODE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ipu_model {

// Memory that holds code. It is written first and then made executable, and is never both.
class MachineCode {
 public:
  MachineCode() = default;
  // Without memory if the system refuses executable memory.
  explicit MachineCode(const std::vector<unsigned char>& bytes);
  MachineCode(MachineCode&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MachineCode& operator=(MachineCode&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~MachineCode();

  const void* entry() const { return memory_; }

 private:
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

// General registers, with the numbers of their encoding. rsp and r12 cannot be the base of a Memory operand.
enum class Gpr : std::uint8_t {
  kRax = 0,
  kRcx,
  kRdx,
  kRbx,
  kRsp,
  kRbp,
  kRsi,
  kRdi,
  kR12 = 12,
  kR13,
  kR14,
  kR15
};
// A vector register, 0 to 15.
using Vector = int;

// An address: base register + offset, or an entry of the constant pool behind the code. Vector instructions
// and moves of bytes can add the index register times `scale`.
struct Memory {
  static constexpr Gpr kIndex = Gpr::kR14;

  Gpr base = Gpr::kRax;
  std::int32_t offset = 0;
  bool pool = false;       // `offset` is the position in the pool
  std::uint8_t scale = 0;  // 1, 2 or 4; 0 without an index
};

// An AVX instruction: opcode map, mandatory prefix (0: none, 1: 66, 2: F3, 3: F2), W bit and opcode.
struct VexOp {
  std::uint8_t map, prefix, w, opcode;
};

class Assembler {
 public:
  using Label = std::size_t;

  Label NewLabel();
  void Bind(Label label);
  std::size_t size() const { return code_.size(); }

  // A three-operand AVX instruction. `wide`: on 256 instead of 128 bits.
  void Vex(VexOp op, bool wide, Vector result, Vector a, Vector b);
  void Vex(VexOp op, bool wide, Vector result, Vector a, const Memory& b);
  // The same, with an immediate byte.
  void VexImmediate(VexOp op, bool wide, Vector result, Vector a, Vector b, std::uint8_t immediate);
  void VexImmediate(VexOp op, bool wide, Vector result, Vector a, const Memory& b, std::uint8_t immediate);
  void ZeroUpper();  // vzeroupper

  void Push(Gpr reg);
  void Pop(Gpr reg);
  void Return();
  void LoadImmediate(Gpr reg, std::uint64_t value);
  void MoveGpr(Gpr to, Gpr from);
  void Load64(Gpr reg, const Memory& from);
  void Store64(const Memory& to, Gpr reg);
  void LoadByte(Gpr reg, const Memory& from);  // zero-extended
  void Load16(Gpr reg, const Memory& from);    // zero-extended
  void StoreByte(const Memory& to, Gpr reg);   // rax, rcx, rdx or rbx
  void Store16(const Memory& to, Gpr reg);
  void Negate(Gpr reg);
  void AndByte(Gpr reg, std::uint8_t mask);  // the low byte of rax, rcx, rdx or rbx; sets the zero flag
  void Decrement(const Memory& counter);     // 64 bits; sets the zero flag
  void Increment(const Memory& counter);
  void DecrementGpr(Gpr reg);                      // 32 bits; sets the zero flag
  void AddImmediate(Gpr reg, std::int32_t value);  // 64 bits
  void CompareByteWithZero(const Memory& byte);
  void Load32(Gpr reg, const Memory& from);            // zero-extended
  void CompareImmediate(Gpr reg, std::int32_t value);  // 32 bits
  void LoadSigned32(Gpr reg, const Memory& from);      // sign-extended to 64 bits
  void CompareGpr(Gpr a, Gpr b);                       // 64 bits
  void MoveIfLess(Gpr to, Gpr from);                   // 64 bits; after a signed comparison
  void MoveIfGreater(Gpr to, Gpr from);
  void MultiplyImmediate(Gpr reg, std::int32_t value);  // 64 bits
  void AddGpr(Gpr to, Gpr from);
  void Call(Gpr reg);
  void Call(Label function);
  void Jump(Label to);
  void JumpIfZero(Label to);
  void JumpIfNotZero(Label to);
  // After an unsigned comparison or one of floats; "not above" includes floats that are unordered.
  void JumpIfAbove(Label to);
  void JumpIfNotAbove(Label to);

  // Returns the position of 32 bytes in the constant pool; equal entries are shared.
  std::int32_t Constant(const std::array<unsigned char, 32>& bytes);

  // The code with its pool. All labels must be bound.
  std::vector<unsigned char> Finish();

 private:
  struct Fixup {
    std::size_t at;      // of the 32-bit displacement
    std::size_t end;     // of the instruction
    std::size_t target;  // label, or position in the pool
  };
  void Byte(unsigned value) { code_.push_back(static_cast<unsigned char>(value)); }
  void Bytes32(std::uint32_t value);
  void VexPrefix(VexOp op, bool wide, Vector reg, Vector second, bool base_high, bool index_high);
  void ModRm(unsigned reg, const Memory& memory, std::size_t bytes_after);
  void Rex(bool wide, unsigned reg, unsigned rm, bool index_high = false);
  void JumpCode(std::initializer_list<unsigned> opcode, Label to);

  std::vector<unsigned char> code_;
  std::vector<std::size_t> labels_;
  std::vector<Fixup> jumps_, pool_uses_;
  std::vector<std::array<unsigned char, 32>> pool_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_HOST_MACHINE_CODE_H_
