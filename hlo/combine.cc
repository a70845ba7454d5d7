#include "combine.h"

#include "elementwise/map_codelet.h"
#include "hlo/SingleOperation.hpp"
#include "storage.h"

namespace hlo {

bool isSingle(const Expression& body) {
  const Instruction* const only = SingleOperation(body);
  if (only == nullptr) return false;
  switch (only->op) {
    case ScalarOp::kAdd:
    case ScalarOp::kMultiply:
    case ScalarOp::kMaximum:
    case ScalarOp::kMinimum:
      return true;
    default:
      return false;
  }
}

void refuseSmallFloats(const Expression& body, const std::string& function) {
  for (const Instruction& i : body.code) {
    if (ipu_model::IsFloat(i.operand_type) && ipu_model::SizeOf(i.operand_type) == 1)
      refuse(function, std::string("arithmetic of ") + ipu_model::NameOf(i.operand_type));
  }
}

Expression widened(const Expression& body) {
  const DType type = body.inputs.at(0);
  if (!isSingle(body) || (type != DType::kF16 && type != DType::kBF16)) return body;
  Expression wide = body;
  wide.inputs = {DType::kF32, DType::kF32};
  wide.code[0].operand_type = wide.code[0].result_type = DType::kF32;
  return wide;
}

Expression accumulated(const Expression& body) {
  const Instruction* const only = SingleOperation(body);
  const bool rounds = only != nullptr && (only->op == ScalarOp::kAdd || only->op == ScalarOp::kMultiply);
  return rounds ? widened(body) : body;
}

std::string converted(const std::string& text, DType from, DType to) {
  if (from == to) return text;
  if (from == DType::kF16) return "static_cast<float>(" + text + ")";
  if (from == DType::kBF16) return "fromBfloat16(" + text + ")";
  return to == DType::kF16 ? "static_cast<half>(" + text + ")" : "toBfloat16(" + text + ")";
}

std::string generateClass(const std::string& codelets, const std::string& prefix,
                          const std::string& functions, const std::string& members, std::string* source) {
  const std::string text = " : public poplar::MultiVertex {\n public:\n" + members + "};\n";
  const std::string name = prefix + "_" + hashOf(functions + text);
  *source = codelets + codeletsUsedBy(functions + text) + "namespace hlo {\nnamespace {\n" + functions +
            "}\nclass " + name + text + "}\n";
  return "hlo::" + name;
}

std::string listOf(const std::string& name, std::size_t n, const std::string& after) {
  std::string list;
  for (std::size_t i = 0; i < n; ++i) list += (i > 0 ? ", " : "") + name + std::to_string(i) + after;
  return list;
}

}  // namespace hlo
