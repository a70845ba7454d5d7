// Which values are in vector registers while code for a sequence of calls is generated.
#ifndef IPU_MODEL_KERNELS_ELEMENTWISE_VECTOR_CODE_REGISTER_FILE_H_
#define IPU_MODEL_KERNELS_ELEMENTWISE_VECTOR_CODE_REGISTER_FILE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "kernels/host/machine_code.h"

namespace ipu_model {

// Memory that generated code accesses. Bases are numbers of the table of base pointers that the code gets.
struct CodeAddress {
  static constexpr int kArena = 0, kScratch = 1, kFirstPointer = 2;
  // `offset` is an address, or a position in the constant pool.
  static constexpr int kAbsolute = -1, kPool = -2;

  int base = kArena;
  std::ptrdiff_t offset = 0;
};

// A value in memory and its form in a register.
struct CodeValue {
  enum class Form : std::uint8_t {
    kNumbers,     // as in memory: `bytes` is 4, 8, 12, ... 32, or that of one narrow lane
    kPredicates,  // one byte per lane in memory, zeros or ones in the whole lane of a register
    // Integers with `element` bytes in memory, extended to lanes of a register.
    kZeroExtended,
    kSignExtended,
    kHalf,  // f16 in memory, f32 in lanes of 4 bytes
  };

  CodeAddress address;
  int bytes = 4;
  Form form = Form::kNumbers;
  // One element, or one predicate, in all lanes.
  bool broadcast = false;
  std::uint8_t element = 4;
};

// Values stay in registers until they are evicted or their memory changes. Values in scratch memory are only
// stored when they have to leave their register; all others at once.
class RegisterFile {
 public:
  // Registers from kTemporary on are free for the code of one operation. Loading and storing use the last.
  static constexpr Vector kTemporary = 12, kRegisters = 12;
  // rbx holds the first two base pointers' addresses.
  static constexpr Gpr kArenaBase = Gpr::kRbx, kScratchBase = Gpr::kRbp, kTable = Gpr::kR13;

  // `next_read(value)`: after how many calls the memory of a value is read again; large if it is not.
  RegisterFile(Assembler* code, std::function<int(const CodeValue&)> next_read)
      : code_(code), next_read_(std::move(next_read)) {
    Forget();
  }

  // Returns a register that holds the value, and keeps it until Release.
  Vector Use(const CodeValue& value);
  // Returns a register for a new value, and keeps it until Release.
  Vector New();
  // The register now holds a value, which is what its memory contains from now on.
  void Define(Vector reg, const CodeValue& value);
  // The value in `reg` is also the new contents of other memory.
  void DefineCopy(Vector reg, const CodeValue& value);
  void Release() { kept_ = {}; }
  // Writes a register to memory that no value in a register comes from.
  void Write(Vector reg, const CodeValue& value);
  // A value in scratch memory is not read any more.
  void Drop(const CodeAddress& address);

  // Makes the code that of a loop over elements (block_code.h): the element at a pointer of the table is that
  // of the loop's index, or the same always. `scale[i]` is the size of an element of pointer i, or 0.
  void IndexPointers(std::vector<std::uint8_t> scale) { scale_ = std::move(scale); }
  // Lanes have 1, 2 or 4 bytes; 4 by default.
  void SetLaneBytes(int bytes) { lane_bytes_ = bytes; }
  // The first pointers that are indexed lie in these registers.
  static constexpr Gpr kPointers[] = {Gpr::kRsi, Gpr::kRdi, Gpr::kRdx, Gpr::kRbx};

  // Bytes of memory are written by other code: no register holds them any more.
  void Overwrite(const CodeAddress& address, std::int64_t bytes);
  // Bytes of memory are read by other code: they are stored first.
  void Store(const CodeAddress& address, std::int64_t bytes);
  void StoreAll();
  void ForgetScratch();
  void Forget();

  // Whether writing to memory may change a value.
  static bool Overlap(const CodeValue& value, const CodeAddress& address, std::int64_t bytes);
  // Returns an operand for an address; may use rax.
  Memory At(const CodeAddress& address);
  // Load and store `bytes` of numbers: 1, 2, 4, 8, 12, ... 32.
  void LoadNumbers(Vector reg, const Memory& from, int bytes);
  void WriteNumbers(Vector reg, const Memory& to, int bytes);

 private:
  struct Entry {
    CodeValue value;
    bool used = false, dirty = false;
    std::uint32_t age = 0;
  };
  // Whether a single element of the value was stored not long ago.
  bool IsStoredInParts(const CodeValue& value) const;
  // Return a register for a value that other registers hold in parts, or as a part; otherwise -1.
  Vector Assemble(const CodeValue& value);
  Vector Part(const CodeValue& value);
  // The register that holds exactly this value, or -1.
  Vector Find(const CodeValue& value) const;
  Vector Take();
  void Load(Vector reg, const CodeValue& value);
  void LoadPredicates(Vector reg, const CodeValue& value, const Memory& from);
  void WritePredicates(Vector reg, const CodeValue& value, const Memory& to);
  void WriteHalf(Vector reg, const CodeValue& value, const Memory& to);
  void WriteNarrow(Vector reg, const CodeValue& value, const Memory& to);
  void StoreEntry(std::size_t reg);

  Assembler* code_;
  std::function<int(const CodeValue&)> next_read_;
  std::array<Entry, kRegisters> entries_;
  std::array<bool, kRegisters> kept_{};
  std::uint32_t clock_ = 0;
  // Where the last single elements were stored.
  std::array<CodeAddress, 16> parts_;
  std::size_t next_part_ = 0;
  std::vector<std::uint8_t> scale_;
  int lane_bytes_ = 4;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_ELEMENTWISE_VECTOR_CODE_REGISTER_FILE_H_
