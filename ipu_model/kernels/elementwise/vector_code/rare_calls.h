// Calls that generated code makes for rare arguments only, behind the code that is on the way for all others.
#ifndef IPU_MODEL_KERNELS_ELEMENTWISE_VECTOR_CODE_RARE_CALLS_H_
#define IPU_MODEL_KERNELS_ELEMENTWISE_VECTOR_CODE_RARE_CALLS_H_

#include <vector>

#include "kernels/host/machine_code.h"

namespace ipu_model {

// The calls leave all registers as they are but the temporaries (RegisterFile::kTemporary) and those that any
// call changes and no generated code holds values in.
class RareCalls {
 public:
  using Function = float (*)(float);

  // result = function(argument), from `start` to `end`. `start` is bound by Emit.
  struct Call {
    Assembler::Label start, end;
    Vector result, argument;
    Function function;
  };
  void Add(const Call& call) { calls_.push_back(call); }
  // Appends all calls; not reached from the code before.
  void Emit(Assembler* code) const;

 private:
  std::vector<Call> calls_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_ELEMENTWISE_VECTOR_CODE_RARE_CALLS_H_
