// Machine code for the calls of bound kernels on few elements, whose block functions take less time than
// their calls.
#ifndef IPU_MODEL_KERNELS_ELEMENTWISE_CALL_COMPILER_H_
#define IPU_MODEL_KERNELS_ELEMENTWISE_CALL_COMPILER_H_

#include <cstddef>
#include <vector>

#include "kernels/elementwise/vector_code/rare_calls.h"
#include "kernels/elementwise/vector_code/register_file.h"
#include "kernels/host/bound_kernel.h"
#include "kernels/host/machine_code.h"

namespace ipu_model {

// The code computes what the block functions compute, operation by operation: of each element, the same bits
// (except which NaN two NaNs give). It keeps values in registers between calls and between kernels. A call
// without code of its own stays a call of its function.
class CallCompiler {
 public:
  // Calls on more elements stay calls.
  static constexpr std::int64_t kMostElements = 40;

  explicit CallCompiler(Assembler* code);
  // The start of a function whose argument is the table of base pointers (see CodeAddress), and its end. In
  // between, r14 and r15 are the caller's.
  void Begin();
  void End();
  // Appends the calls of a list whose tensors are at these addresses. The list must outlive the code, and
  // must be pointed to its memory if it is more than the calls that have code.
  void Add(const CallList& list, const std::vector<CodeAddress>& in, const std::vector<CodeAddress>& out);
  // Other code runs here or jumps to here: no register holds a value.
  void Forget() { registers_.Forget(); }
  // The memory operand of an address; may use rax.
  Memory At(const CodeAddress& address) { return registers_.At(address); }
  // How many calls have code of their own.
  std::size_t num_compiled() const { return num_compiled_; }

 private:
  CodeAddress Address(const CallList::Place& place) const;
  // Compiles a call, or returns false without having appended more than loads.
  bool Compile(std::size_t call);
  // Compiles `lanes` elements of a call, from element `first` on.
  bool CompilePiece(std::size_t call, std::int64_t first, int lanes);
  bool CompileMove(const CallList::Description& call, std::int64_t bytes);
  bool CompileSliceStart(const CallList::Description& call);
  bool CompileSliceMove(const CallList::Description& call, std::int64_t bytes);
  void CompileCall(const CallList::Call& call);
  int NextRead(const CodeValue& value) const;

  Assembler* code_;
  RegisterFile registers_;
  RareCalls rare_calls_;
  std::size_t num_compiled_ = 0;
  // The list that is being added.
  const CallList* list_ = nullptr;
  const std::vector<CodeAddress>*in_ = nullptr, *out_ = nullptr;
  std::size_t position_ = 0;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_ELEMENTWISE_CALL_COMPILER_H_
