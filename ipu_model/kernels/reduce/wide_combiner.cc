#include "kernels/reduce/wide_combiner.h"

#include <algorithm>
#include <cstring>

#include "kernels/vector/convert.h"

namespace ipu_model {
namespace {

DType Wide(DType type) { return IsHalf(type) ? DType::kF32 : type; }

ScalarConstant WideConstant(const ScalarConstant& constant) {
  if (!IsHalf(constant.type)) return constant;
  std::uint16_t code;
  std::memcpy(&code, constant.bytes, sizeof(code));
  const float value = constant.type == DType::kF16 ? F16ToF32(code) : BF16ToF32(code);
  ScalarConstant wide;
  wide.type = DType::kF32;
  std::memcpy(wide.bytes, &value, sizeof(value));
  return wide;
}

}  // namespace

std::optional<Expression> WideExpression(const Expression& expression) {
  const auto& inputs = expression.inputs;
  if (std::none_of(inputs.begin(), inputs.end(), IsHalf)) return std::nullopt;
  Expression wide;
  for (const DType type : inputs) wide.inputs.push_back(Wide(type));
  for (const ScalarConstant& constant : expression.constants)
    wide.constants.push_back(WideConstant(constant));
  for (Instruction instruction : expression.code) {
    const bool half = IsHalf(instruction.operand_type) || IsHalf(instruction.result_type);
    const ScalarOp op = instruction.op;
    if (half &&
        (op == ScalarOp::kBitcast || op == ScalarOp::kReducePrecision || op == ScalarOp::kNextAfter)) {
      return std::nullopt;
    }
    instruction.operand_type = Wide(instruction.operand_type);
    instruction.result_type = Wide(instruction.result_type);
    wide.code.push_back(instruction);
  }
  wide.outputs = expression.outputs;
  return wide;
}

Expression ConvertExpression(DType from, DType to) {
  Expression e;
  e.inputs = {from};
  e.code = {{ScalarOp::kConvert, from, to, {0, 0, 0}, 0}};
  e.outputs = {1};
  return e;
}

}  // namespace ipu_model
