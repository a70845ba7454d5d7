// Machine code for sections of steps of a scalar program over a block: values between the steps stay in
// registers, where the interpreter would write and read each of them.
#ifndef IPU_MODEL_KERNELS_ELEMENTWISE_BLOCK_CODE_H_
#define IPU_MODEL_KERNELS_ELEMENTWISE_BLOCK_CODE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/elementwise/elementwise_arrangement.h"
#include "kernels/elementwise/program/micro_program.h"
#include "kernels/host/machine_code.h"

namespace ipu_model {

// Work of the interpreter that takes as long as making code.
constexpr double kNanosecondsForCode = 100'000;

// Steps [first, end) of a program as one function. They compute values of up to 32 bits and predicates.
struct CodeSection {
  static constexpr std::size_t kOwnPointers = 2;

  std::size_t first = 0, end = 0;
  // Of a lane of the vector registers: the size of the widest values, or more.
  int lane_bytes = 4;
  // Registers of the program: what the steps read from elsewhere, and what is read elsewhere.
  std::vector<std::uint16_t> operands, results;
  MachineCode code;

  // `pointers`: kOwnPointers entries that the call sets, then those of the operands and the results.
  void Call(const void** pointers, unsigned char* spilled, std::int64_t n) const;
};

struct BlockCode {
  // Code rounds to nearest even: it is not for the mode in which f16 rounds stochastically.
  bool IsAllowed() const;

  // What the code depends on: for each register of the program, whether it holds one value for a block or a
  // row.
  std::vector<unsigned char> key;
  std::vector<CodeSection> sections;           // in order
  std::vector<const CodeSection*> section_at;  // by step: the section that begins there, or null
  std::size_t spilled_bytes = 0;  // memory of the values that leave their registers, 32-byte aligned
  std::size_t most_pointers = 0;  // of a section, with the function's own
  bool rounds_half = false;       // whether a section rounds to f16
};

// The code of one program, for the first few arrangements that it runs with. Threads may share it.
class BlockCodeCache {
 public:
  // Return null where no steps have code. Find also does until the program has done enough work for its code
  // to pay.
  std::shared_ptr<const BlockCode> Make(const Arrangement& arrangement);
  std::shared_ptr<const BlockCode> Find(const Arrangement& arrangement, std::int64_t elements);

 private:
  std::shared_ptr<const BlockCode> MakeLocked(const Arrangement& arrangement);

  std::mutex mutex_;
  double nanoseconds_ = 0;  // of the work so far
  std::vector<std::shared_ptr<const BlockCode>> codes_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_ELEMENTWISE_BLOCK_CODE_H_
