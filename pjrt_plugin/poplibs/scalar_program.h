// Scalar programs of StableHLO with the operations of PopLibs' popops: which it has, and what it lacks.
#ifndef JAX_IPU_POPLIBS_SCALAR_PROGRAM_H_
#define JAX_IPU_POPLIBS_SCALAR_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <popops/Expr.hpp>
#include <string>

#include "hlo/ScalarOps.hpp"
#include "ipu_model/Model.hpp"

namespace jax_ipu::poplibs {

using hlo::Instruction;
using hlo::ScalarOp;
using ipu_model::DType;
using popops::expr::BinaryOpType;
using popops::expr::UnaryOpType;

// f32 and f16; 32-bit integers.
bool IsReal(DType type);
bool IsWhole(DType type);

// PopLibs' operations, if it has them.
std::optional<UnaryOpType> Unary(ScalarOp op);
std::optional<BinaryOpType> Binary(ScalarOp op);
// Logical operations on predicates; PopLibs has no bitwise ones for them.
std::optional<BinaryOpType> BinaryOfPredicates(ScalarOp op);

// false is less than true: one of both is turned, and then a logical operation is the order.
struct OrderOfPredicates {
  BinaryOpType operation;
  std::size_t turned;
};
std::optional<OrderOfPredicates> OrderOf(ScalarOp op);

// Instructions that take several of PopLibs' operations.
bool IsFloatOrder(const Instruction& i);
bool ConvertsToInteger(const Instruction& i);
bool IsShift(ScalarOp op);
bool DividesIntegers(const Instruction& i);

class ScalarProgram {
 public:
  explicit ScalarProgram(const hlo::Expression& e) : e_(e) {}

  const hlo::ScalarConstant* ConstantOf(unsigned reg) const {
    const std::size_t first = e_.inputs.size();
    return reg >= first && reg < first + e_.constants.size() ? &e_.constants[reg - first] : nullptr;
  }
  const Instruction* InstructionOf(unsigned reg) const {
    const std::size_t first = e_.inputs.size() + e_.constants.size();
    return reg >= first ? &e_.code[reg - first] : nullptr;
  }

  // Why PopLibs cannot compute an instruction, or the program, with StableHLO's values, or "".
  std::string WhyNot(const Instruction& i) const;
  std::string WhyNot() const;

  // Whether a condition holds for all operands.
  template <typename Condition>
  static bool Operands(const Instruction& i, Condition condition) {
    for (std::size_t n = 0; n < hlo::OperandsOf(i.op); ++n)
      if (!condition(i.operand[n])) return false;
    return true;
  }

  // How often the expression of an instruction has each of its operands.
  static std::size_t TimesRead(const Instruction& i);

  // The bits of a 32-bit constant; nothing if the register is no constant.
  std::optional<std::uint32_t> BitsOf(unsigned reg) const;

 private:
  const hlo::Expression& e_;
};

}  // namespace jax_ipu::poplibs

#endif  // JAX_IPU_POPLIBS_SCALAR_PROGRAM_H_
