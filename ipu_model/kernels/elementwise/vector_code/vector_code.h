// The machine code of one operation of the block interpreter on the lanes of one vector register.
#ifndef IPU_MODEL_KERNELS_ELEMENTWISE_VECTOR_CODE_VECTOR_CODE_H_
#define IPU_MODEL_KERNELS_ELEMENTWISE_VECTOR_CODE_VECTOR_CODE_H_

#include <cstdint>

#include "kernels/elementwise/program/micro_op.h"
#include "kernels/elementwise/vector_code/rare_calls.h"
#include "kernels/elementwise/vector_code/register_file.h"
#include "kernels/elementwise/vector_code/vex_ops.h"
#include "kernels/host/machine_code.h"

namespace ipu_model {

// Operands are added in order; Emit appends the code.
class VectorCode {
 public:
  static constexpr Vector kNone = -1;

  // One lane, or up to 8 lanes of 32 bits. With narrow lanes: one, or 32 bytes of them. Integers that are
  // narrower than a lane are extended to it.
  VectorCode(Assembler* code, RegisterFile* registers, RareCalls* rare_calls, const MicroKind& kind,
             int lanes, std::uint32_t immediate, int lane_bytes = 4)
      : code_(code),
        registers_(registers),
        rare_calls_(rare_calls),
        kind_(kind),
        lanes_(lanes),
        immediate_(immediate),
        lane_bytes_(lane_bytes) {}

  void AddOperand(const CodeValue& value) { operands_[num_operands_++] = {false, value}; }
  // `element`: of the operation's type, or one byte for a predicate.
  void AddConstant(const void* element, bool predicate);
  // Returns the register of the result, or -1 without appending an operation if it has no code.
  Vector Emit();

 private:
  struct Operand {
    bool constant = false;
    CodeValue value;
    std::uint64_t bits = 0;  // of a constant
  };
  bool wide() const { return lanes_ * lane_bytes_ > 16; }
  // Whether integers of a type fill only a part of their lanes.
  bool IsExtended(RegisterType type) const { return static_cast<int>(SizeOf(type)) < lane_bytes_; }
  static bool IsSigned(RegisterType type) { return type <= RegisterType::kS64; }
  // Integers that fit into a lane of 32 bits.
  static bool IsLaneInteger(RegisterType type) {
    return type != RegisterType::kF32 && SizeOf(type) <= sizeof(std::uint32_t);
  }
  // Whether a conversion or rounding of narrow floats is of f16.
  bool IsHalf() const { return static_cast<DType>(immediate_) == DType::kF16; }
  bool Is(ScalarOp op) const { return kind_.code == static_cast<std::uint16_t>(op); }
  Vector Use(int k) { return registers_->Use(operands_[k].value); }
  CodeValue Pool(std::uint64_t bits, bool wide_element = false);
  Memory Pool32(std::uint32_t bits) { return registers_->At(Pool(bits).address); }
  Vector Ones() { return registers_->Use(Pool(~std::uint64_t{0})); }

  void Op(VexOp op, Vector result, Vector a, Vector b) { code_->Vex(op, wide(), result, a, b); }
  // The second operand may stay in the constant pool.
  void OpWith(VexOp op, Vector result, Vector a, int k);
  VexOp Float(std::uint8_t opcode) const;
  void Blend(Vector result, Vector if_false, Vector if_true, Vector mask);
  Vector Select(Vector mask, int if_true, int if_false);

  Vector EmitFloat();
  Vector EmitFloatChain();
  Vector EmitTrigonometric();
  Vector EmitHalfBits();
  Vector EmitRound();
  Vector EmitInteger();
  Vector EmitShift();
  Vector EmitMultiplyUpper();
  Vector EmitDivision();
  Vector EmitIntegerConvert();
  Vector EmitFloatToInteger();
  Vector Product(Vector a, Vector b);
  // Makes each lane, of which only the low bits are right, a value of the type.
  Vector Extend(Vector reg, RegisterType type);
  void ShiftByImmediate(int digit, Vector result, Vector a, int bits);
  void AndLowBits(Vector result, Vector a, RegisterType type);
  Vector EmitInteger64();
  Vector EmitPredicates();
  Vector EmitConvert();
  // -1 for other operations.
  Vector EmitCompare(int op, RegisterType type, Vector result);
  Vector FloatUnary();
  Vector FusedMultiply(std::uint8_t opcode, Vector a, Vector b, int c);
  void FlushTemporary();
  void Extremum(bool maximum, Vector result, Vector a, Vector b);
  bool IsBound(bool maximum, int k) const;
  bool LeavesDenormals(bool maximum, int k) const;
  Vector Bounded(int x, int low, int high);

  Assembler* code_;
  RegisterFile* registers_;
  RareCalls* rare_calls_;
  MicroKind kind_;
  int lanes_;
  std::uint32_t immediate_;
  int lane_bytes_;
  Operand operands_[4];
  int num_operands_ = 0;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_ELEMENTWISE_VECTOR_CODE_VECTOR_CODE_H_
