#include "kernels/elementwise/vector_code/rare_calls.h"

#include <cstdint>

#include "kernels/elementwise/vector_code/register_file.h"
#include "kernels/elementwise/vector_code/vex_ops.h"

namespace ipu_model {
namespace {

constexpr Vector kValue = RegisterFile::kTemporary;
constexpr std::int32_t kVectorBytes = 32;
// With the return address a multiple of 16, as calls require.
constexpr std::int32_t kFrame = RegisterFile::kRegisters * kVectorBytes + 8;

}  // namespace

void RareCalls::Emit(Assembler* code) const {
  if (calls_.empty()) return;
  // Calls rcx with kValue, and saves the registers, all of which the function may change.
  const Assembler::Label save = code->NewLabel();
  for (const Call& call : calls_) {
    code->Bind(call.start);
    code->LoadImmediate(Gpr::kRcx, reinterpret_cast<std::uint64_t>(call.function));
    code->Vex(vex::kMove, false, kValue, 0, call.argument);
    code->Call(save);
    code->Vex(vex::kMove, false, call.result, 0, kValue);
    code->Jump(call.end);
  }
  code->Bind(save);
  code->AddImmediate(Gpr::kRsp, -kFrame);
  code->MoveGpr(Gpr::kRdx, Gpr::kRsp);
  for (Vector reg = 0; reg < RegisterFile::kRegisters; ++reg)
    code->Vex(vex::kStore, true, reg, 0, {Gpr::kRdx, reg * kVectorBytes});
  code->Vex(vex::kMove, false, 0, 0, kValue);
  code->ZeroUpper();
  code->Call(Gpr::kRcx);
  code->Vex(vex::kMove, false, kValue, 0, 0);
  code->MoveGpr(Gpr::kRdx, Gpr::kRsp);
  for (Vector reg = 0; reg < RegisterFile::kRegisters; ++reg)
    code->Vex(vex::kLoad, true, reg, 0, {Gpr::kRdx, reg * kVectorBytes});
  code->AddImmediate(Gpr::kRsp, kFrame);
  code->Return();
}

}  // namespace ipu_model
