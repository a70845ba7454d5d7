#include "elementwise/map_codelet.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>

#include "codelets.h"
#include "hlo/ConstantDivision.hpp"
#include "hlo/ScalarOps.hpp"
#include "storage.h"

namespace hlo {
namespace {

constexpr char kFunction[] = "a scalar program";  // in messages

bool isNarrow(DType type) { return type == DType::kF16 || type == DType::kBF16; }
// The class in codelets/softSmall.hpp for a float of 8 or fewer bits; null for other types.
const char* smallFormat(DType type) {
  switch (type) {
    case DType::kF4E2M1FN:
      return "scalar::Small<2, 1, 1, scalar::Special::kFinite>";
    case DType::kF8E3M4:
      return "scalar::Small<3, 4, 3, scalar::Special::kIeee>";
    case DType::kF8E4M3:
      return "scalar::Small<4, 3, 7, scalar::Special::kIeee>";
    case DType::kF8E4M3FN:
      return "scalar::Small<4, 3, 7, scalar::Special::kNanOnly>";
    case DType::kF8E4M3FNUZ:
      return "scalar::Small<4, 3, 8, scalar::Special::kUnsignedZero>";
    case DType::kF8E4M3B11FNUZ:
      return "scalar::Small<4, 3, 11, scalar::Special::kUnsignedZero>";
    case DType::kF8E5M2:
      return "scalar::Small<5, 2, 15, scalar::Special::kIeee>";
    case DType::kF8E5M2FNUZ:
      return "scalar::Small<5, 2, 16, scalar::Special::kUnsignedZero>";
    case DType::kF8E8M0FNU:
      return "scalar::SmallScale";
    default:
      return nullptr;
  }
}
bool isSmall(DType type) { return smallFormat(type) != nullptr; }
bool isReal(DType type) { return type == DType::kF32 || isNarrow(type) || isSmall(type); }
unsigned widthOf(DType type) {
  if (type == DType::kS2 || type == DType::kU2) return 2;
  if (type == DType::kS4 || type == DType::kU4) return 4;
  return static_cast<unsigned>(ipu_model::SizeOf(type)) * 8;
}

// The C++ type of a register.
std::string registerType(DType type) {
  if (isReal(type)) return "float";
  if (type == DType::kPred) return "unsigned char";
  if (type == DType::kC64) return "Complex";
  if (type == DType::kF64) return "Double";
  if (!ipu_model::IsInteger(type)) refuse(kFunction, std::string("the type ") + ipu_model::NameOf(type));
  return cppName(storedAs(type, kFunction));
}

class Generator {
 public:
  Generator(const Expression& expression, const std::vector<unsigned>& outputs,
            const std::vector<bool>& scalar, const std::vector<int>& inPlace)
      : e_(expression), outputs_(outputs), scalar_(scalar), inPlace_(inPlace) {}

  MapCodelet run() {
    countUses();
    chooseProducts();
    std::string fields, loads, results;
    MapCodelet codelet;
    for (unsigned i = 0; i < e_.inputs.size(); ++i) {
      if (uses_[i] == 0) continue;
      codelet.inputs.push_back(i);
      const auto over = std::find_if(outputs_.begin(), outputs_.end(),
                                     [&](unsigned o) { return inPlace_[o] == static_cast<int>(i); });
      const std::string type = cppName(storedAs(e_.inputs[i], kFunction)), n = std::to_string(i);
      std::string from = "in" + n + "[i]";
      if (over != outputs_.end()) {
        from = "out" + std::to_string(*over) + "[i]";
      } else if (scalar_[i]) {
        fields += "  poplar::Input<" + type + "> in" + n + ";\n";
        from = "*in" + n;
      } else {
        fields += vectorField("Input", type, "in" + n);
      }
      loads += load(i, from);
    }
    loads += computed();
    for (const unsigned o : outputs_) {
      const DType type = e_.TypeOf(e_.outputs[o]);
      const std::string name = "out" + std::to_string(o);
      fields +=
          vectorField(inPlace_[o] >= 0 && uses_[static_cast<unsigned>(inPlace_[o])] > 0 ? "InOut" : "Output",
                      cppName(storedAs(type, kFunction)), name);
      results += "      " + name + "[i] = " + stored(e_.outputs[o], type) + ";\n";
    }
    const std::string size = "out" + std::to_string(outputs_.at(0)) + ".size()";
    const std::string body = " : public poplar::MultiVertex {\n public:\n" + fields +
                             "  bool compute(unsigned worker) {\n    const Share share = shareOf(worker, "
                             "numWorkers(), " +
                             size + ");\n    for (unsigned i = share.begin; i < share.end; ++i) {\n" + loads +
                             results + "    }\n    return true;\n  }\n};\n}\n";
    const std::string name = "Map_" + hashOf(body);
    codelet.vertexClass = "hlo::" + name;
    codelet.source = kScalarComplexCodelets + codeletsUsedBy(body) + "namespace hlo {\nclass " + name + body;
    return codelet;
  }

  std::string function(const std::string& name) {
    countUses();
    chooseProducts();
    std::string parameters, loads, results;
    for (unsigned i = 0; i < e_.inputs.size(); ++i) {
      const std::string from = "i" + std::to_string(i);
      parameters += (i > 0 ? ", " : "") + cppName(storedAs(e_.inputs[i], kFunction)) + " " + from;
      loads += uses_[i] == 0 ? "      (void)" + from + ";\n" : load(i, from);
    }
    loads += computed();
    for (const unsigned o : outputs_) {
      const DType type = e_.TypeOf(e_.outputs[o]);
      parameters += ", " + cppName(storedAs(type, kFunction)) + "& o" + std::to_string(o);
      results += "      o" + std::to_string(o) + " = " + stored(e_.outputs[o], type) + ";\n";
    }
    return "struct " + name + " {\n  static void apply(" + parameters + ") {\n" + loads + results +
           "  }\n};\n";
  }

 private:
  // The constants and instructions that the outputs depend on.
  std::string computed() {
    std::string text;
    for (std::size_t c = 0; c < e_.constants.size(); ++c) text += constant(c);
    for (std::size_t k = 0; k < e_.code.size(); ++k)
      if (uses_[firstResult() + k] > 0 && !fused_[k]) text += instruction(k);
    return text;
  }
  std::size_t firstResult() const { return e_.inputs.size() + e_.constants.size(); }
  static std::string vectorField(const char* direction, const std::string& type, const std::string& name) {
    return "  poplar::" + std::string(direction) + "<poplar::Vector<" + type +
           ", poplar::VectorLayout::SPAN, 8>> " + name + ";\n";
  }
  static std::string value(std::size_t reg) { return "v" + std::to_string(reg); }
  static std::string bits(std::size_t reg) { return "b" + std::to_string(reg); }

  // A conversion to the same type and the real part of a real number are other names of a register.
  std::size_t aliasOf(std::size_t reg) const {
    while (reg >= firstResult()) {
      const Instruction& i = e_.code[reg - firstResult()];
      const bool same = i.op == ScalarOp::kConvert
                            ? i.operand_type == i.result_type
                            : i.op == ScalarOp::kReal && !ipu_model::IsComplex(i.operand_type);
      if (!same) break;
      reg = i.operand[0];
    }
    return reg;
  }
  void countUses() {
    uses_.assign(firstResult() + e_.code.size(), 0);
    for (const unsigned o : outputs_) ++uses_[aliasOf(e_.outputs[o])];
    for (std::size_t k = e_.code.size(); k-- > 0;) {
      const Instruction& i = e_.code[k];
      if (uses_[firstResult() + k] == 0) continue;
      if (i.op == ScalarOp::kImag && !ipu_model::IsComplex(i.operand_type)) continue;
      for (std::size_t n = 0; n < OperandsOf(i.op); ++n) ++uses_[aliasOf(i.operand[n])];
    }
    fused_.assign(e_.code.size(), false);
    product_.assign(e_.code.size(), -1);
  }
  // A division by a power of two is a product, which is exact.
  bool isProduct(const Instruction& i) const {
    return i.operand_type == DType::kF32 &&
           (i.op == ScalarOp::kMultiply || (i.op == ScalarOp::kDivide && !inverseOf(i).empty()));
  }
  std::string inverseOf(const Instruction& i) const {
    const std::size_t reg = aliasOf(i.operand[1]);
    if (reg < e_.inputs.size() || reg >= firstResult()) return "";
    std::uint32_t word = 0;
    std::memcpy(&word, e_.constants[reg - e_.inputs.size()].bytes, sizeof(word));
    const std::uint32_t exponent = word >> 23 & 0xff;
    if ((word & 0x7fffffu) != 0 || exponent < 2 || exponent > 252) return "";
    return "bitsAs<float>(" + std::to_string((word & 0x80000000u) | (254 - exponent) << 23) + "u)";
  }
  // An f32 product whose only use is a sum is rounded with it, once.
  void chooseProducts() {
    for (std::size_t k = 0; k < e_.code.size(); ++k) {
      const Instruction& sum = e_.code[k];
      if (uses_[firstResult() + k] == 0 || sum.operand_type != DType::kF32) continue;
      if (sum.op != ScalarOp::kAdd && sum.op != ScalarOp::kSubtract) continue;
      for (int n = 0; n < 2 && product_[k] < 0; ++n) {
        const std::size_t reg = aliasOf(sum.operand[n]);
        if (reg < firstResult() || uses_[reg] != 1 || fused_[reg - firstResult()]) continue;
        if (!isProduct(e_.code[reg - firstResult()])) continue;
        fused_[reg - firstResult()] = true;
        product_[k] = n;
      }
    }
  }

  static std::string declare(DType type, std::size_t reg, const std::string& text) {
    return "      const " + registerType(type) + " " + value(reg) + " = " + text + ";\n";
  }
  // A register of a narrow float whose bits are known.
  static std::string declareBits(DType type, std::size_t reg, const std::string& text) {
    if (isSmall(type))
      return "      const unsigned char " + bits(reg) + " = " + text + ";\n" +
             declare(type, reg, std::string(smallFormat(type)) + "::decode(" + bits(reg) + ")");
    return "      const unsigned short " + bits(reg) + " = " + text + ";\n" +
           declare(type, reg,
                   type == DType::kBF16 ? "fromBfloat16(" + bits(reg) + ")"
                                        : "static_cast<float>(bitsAs<half>(" + bits(reg) + "))");
  }
  std::string load(std::size_t reg, const std::string& from) {
    const DType type = e_.inputs[reg];
    if (type == DType::kBF16 || isSmall(type)) {
      hasBits_.push_back(reg);
      return declareBits(type, reg, from);
    }
    if (type == DType::kF64) return declare(type, reg, "{" + from + "}");
    if (type == DType::kF16) {
      hasBits_.push_back(reg);
      return declareBits(type, reg, "bitsAs<unsigned short>(static_cast<half>(" + from + "))");
    }
    if (type == DType::kC64) return declare(type, reg, "bitsAs<Complex>(" + from + ")");
    if (widthOf(type) < 8) return declare(type, reg, wrapped(type, from));
    return declare(type, reg, from);
  }
  static std::string wrapped(DType type, const std::string& text) {
    return "scalar::wrap<" + std::to_string(widthOf(type)) + ">(static_cast<" + registerType(type) + ">(" +
           text + "))";
  }
  std::string constant(std::size_t c) {
    const std::size_t reg = e_.inputs.size() + c;
    if (uses_[reg] == 0) return "";
    const ScalarConstant& constant = e_.constants[c];
    std::uint64_t word = 0;
    std::memcpy(&word, constant.bytes, sizeof(word));
    const std::string text = std::to_string(word) + "ull";
    if (constant.type == DType::kF32)
      return declare(constant.type, reg, "bitsAs<float>(static_cast<unsigned>(" + text + "))");
    if (constant.type == DType::kC64) return declare(constant.type, reg, "bitsAs<Complex>(" + text + ")");
    if (constant.type == DType::kF64) return declare(constant.type, reg, "{" + text + "}");
    if (isNarrow(constant.type) || isSmall(constant.type)) {
      hasBits_.push_back(reg);
      return declareBits(constant.type, reg,
                         std::string("static_cast<unsigned ") + (isSmall(constant.type) ? "char" : "short") +
                             ">(" + text + ")");
    }
    const std::string plain = "static_cast<" + registerType(constant.type) + ">(" + text + ")";
    return declare(constant.type, reg, widthOf(constant.type) < 8 ? wrapped(constant.type, plain) : plain);
  }
  bool knowsBits(std::size_t reg) const {
    return std::find(hasBits_.begin(), hasBits_.end(), reg) != hasBits_.end();
  }
  // The value of a register as bits of a narrow float.
  std::string bitsOfNarrow(std::size_t reg, DType type) const {
    if (knowsBits(reg)) return bits(reg);
    if (isSmall(type)) return std::string(smallFormat(type)) + "::encode(" + value(reg) + ")";
    return type == DType::kBF16 ? "toBfloat16(" + value(reg) + ")"
                                : "bitsAs<unsigned short>(static_cast<half>(" + value(reg) + "))";
  }
  std::string stored(std::size_t reg, DType type) const {
    reg = aliasOf(reg);
    if (type == DType::kBF16 || isSmall(type)) return bitsOfNarrow(reg, type);
    if (type == DType::kF64) return value(reg) + ".bits";
    if (type == DType::kF16) return "bitsAs<half>(" + bitsOfNarrow(reg, type) + ")";
    if (type == DType::kPred) return value(reg) + " != 0";
    if (type == DType::kC64) return "bitsAs<unsigned long long>(" + value(reg) + ")";
    return value(reg);
  }
  // Rounds or wraps the result of an operation on a narrow type.
  static std::string rounded(DType type, const std::string& text) {
    if (type == DType::kF16) return "scalar::roundHalf(" + text + ")";
    if (type == DType::kBF16) return "scalar::roundBfloat16(" + text + ")";
    if (isSmall(type)) return std::string("scalar::roundSmall<") + smallFormat(type) + ">(" + text + ")";
    if (type == DType::kF64) return text;
    return widthOf(type) < 8 ? wrapped(type, text) : text;
  }

  std::string instruction(std::size_t k) {
    const Instruction& i = e_.code[k];
    const std::size_t reg = firstResult() + k;
    registerType(i.operand_type);  // refuses types
    registerType(i.result_type);
    const std::size_t a = aliasOf(i.operand[0]);
    switch (i.op) {
      case ScalarOp::kConvert:
        if (i.operand_type == DType::kC64) refuse(kFunction, "a conversion from c64");
        if (i.result_type == DType::kC64)
          return declare(i.result_type, reg, "{" + converted(value(a), i.operand_type, DType::kF32) + ", 0}");
        return declare(i.result_type, reg, converted(value(a), i.operand_type, i.result_type));
      case ScalarOp::kBitcast:
        return bitcast(reg, a, i.operand_type, i.result_type);
      case ScalarOp::kReal:  // of a complex number
        return declare(i.result_type, reg, value(a) + ".re");
      case ScalarOp::kImag:
        return declare(i.result_type, reg,
                       i.operand_type == DType::kC64   ? value(a) + ".im"
                       : i.operand_type == DType::kF64 ? "{0}"
                                                       : "0");
      case ScalarOp::kComplex:
        return declare(i.result_type, reg, "{" + value(a) + ", " + value(aliasOf(i.operand[1])) + "}");
      case ScalarOp::kReducePrecision:
        if (i.operand_type == DType::kF16) refuse(kFunction, "reduce_precision of f16");
        if (i.operand_type == DType::kF64)
          return declare(i.result_type, reg,
                         "scalar::reducePrecision<" + std::to_string(std::min(i.immediate >> 8, 11u)) + ", " +
                             std::to_string(std::min(i.immediate & 0xff, 52u)) + ">(" + value(a) + ")");
        return declare(
            i.result_type, reg,
            rounded(i.result_type,
                    "scalar::reducePrecision<" + std::to_string(std::min(i.immediate >> 8, 8u)) + ", " +
                        std::to_string(std::min(i.immediate & 0xff, 23u)) + ">(" + value(a) + ")"));
      default:
        break;
    }
    if (product_[k] >= 0) return declare(i.result_type, reg, contracted(i, product_[k]));
    if (i.op == ScalarOp::kDivide && i.operand_type == DType::kF32 && isProduct(i))
      return declare(i.result_type, reg, value(a) + " * " + inverseOf(i));
    if (const auto d = constantDivisionOf(e_, i)) return declare(i.result_type, reg, dividedBy(*d, i));
    std::string call = "scalar::" + functionOf(i) + "(";
    for (std::size_t n = 0; n < OperandsOf(i.op); ++n)
      call += (n > 0 ? ", " : "") + value(aliasOf(i.operand[n]));
    call += ")";
    const bool predicate = i.result_type == DType::kPred;
    if (i.op == ScalarOp::kNot && i.operand_type == DType::kPred) call = value(a) + " ^ 1";
    return declare(i.result_type, reg,
                   i.result_type == i.operand_type && !predicate ? rounded(i.result_type, call) : call);
  }
  std::string functionOf(const Instruction& i) const {
    const ScalarOp op = i.operand_type == DType::kPred ? ScalarRow(i.op).on_predicates : i.op;
    const unsigned kind = i.operand_type == DType::kC64   ? kComplexes
                          : i.operand_type == DType::kF64 ? kDoubles
                          : isReal(i.operand_type)        ? kReals
                                                          : kIntegers;
    const ScalarOpRow row = ScalarRow(op);
    if ((row.kinds & kind) != 0) {
      const std::string width = std::to_string(widthOf(i.operand_type));
      return (row.kinds & kTakesWidth) != 0 ? row.function + ("<" + width + ">") : row.function;
    }
    refuseOperation(i);
  }
  std::string dividedBy(const ConstantDivision& d, const Instruction& i) const {
    const auto truth = [](bool b) { return std::string(b ? "true" : "false"); };
    const std::string a = value(aliasOf(i.operand[0])),
                      quotient = "scalar::divideBy<" + std::to_string(d.multiplier) + "ull, " +
                                 std::to_string(d.shift) + ", " + truth(d.increments) + ", " +
                                 truth(d.negative) + ">(" + a + ")";
    if (i.op == ScalarOp::kDivide) return quotient;
    return "scalar::subtract(" + a + ", scalar::multiply(" + quotient + ", " + value(aliasOf(i.operand[1])) +
           "))";
  }
  [[noreturn]] static void refuseOperation(const Instruction& i) {
    refuse(kFunction, "the scalar operation " + std::to_string(static_cast<int>(i.op)) + " of " +
                          ipu_model::NameOf(i.operand_type));
  }
  // a * b + c, a * b - c or c - a * b with one rounding.
  std::string contracted(const Instruction& sum, int side) const {
    const Instruction& product = e_.code[aliasOf(sum.operand[side]) - firstResult()];
    const std::string x = value(aliasOf(product.operand[0])),
                      y = product.op == ScalarOp::kDivide ? inverseOf(product)
                                                          : value(aliasOf(product.operand[1])),
                      other = value(aliasOf(sum.operand[1 - side]));
    if (sum.op == ScalarOp::kAdd) return "scalar::fma(" + x + ", " + y + ", " + other + ")";
    return side == 0 ? "scalar::fma(" + x + ", " + y + ", -" + other + ")"
                     : "scalar::fma(-" + x + ", " + y + ", " + other + ")";
  }
  static std::string converted(const std::string& from, DType source, DType target) {
    if (target == DType::kPred) return "scalar::toPredicate(" + from + ")";
    if (target == DType::kF64) return source == DType::kF64 ? from : "scalar::toDouble(" + from + ")";
    if (source == DType::kF64 && target == DType::kF32) return "scalar::toFloat(" + from + ")";
    if (source == DType::kF64 && isReal(target))
      return rounded(target, "scalar::toFloat(" + from + ", true)");
    if (source == DType::kF64) {
      const bool small = widthOf(target) < 8;
      const std::string integer = "scalar::toInteger<" + registerType(target) + ">(" + from + ")";
      return small ? "scalar::saturate<" + std::to_string(widthOf(target)) + ">(" + integer + ")" : integer;
    }
    const std::string plain = "scalar::convert<" + registerType(target) + ">(" + from + ")";
    if (widthOf(target) < 8 && isReal(source))
      return "scalar::saturate<" + std::to_string(widthOf(target)) + ">(" + plain + ")";
    return rounded(target, plain);
  }
  std::string bitcast(std::size_t reg, std::size_t from, DType source, DType target) {
    if (widthOf(source) != widthOf(target)) refuse(kFunction, "a bitcast between types of different width");
    if (source == DType::kC64 || target == DType::kC64) refuse(kFunction, "a bitcast of c64");
    std::string text = value(from);
    if (source == target) text = value(from);
    if (isNarrow(source) || isSmall(source)) text = bitsOfNarrow(from, source);
    if (source == DType::kF64) text += ".bits";
    if (target == DType::kF64) return declare(target, reg, "{static_cast<unsigned long long>(" + text + ")}");
    if (isSmall(target)) {
      hasBits_.push_back(reg);
      return declareBits(target, reg, "static_cast<unsigned char>(" + text + ")");
    }
    if (source == DType::kF32) text = "bitsAs<unsigned>(" + text + ")";
    if (isNarrow(target)) {
      hasBits_.push_back(reg);
      return declareBits(target, reg, "static_cast<unsigned short>(" + text + ")");
    }
    if (target == DType::kF32)
      return declare(target, reg, "bitsAs<float>(static_cast<unsigned>(" + text + "))");
    if (target == DType::kPred) return declare(target, reg, "scalar::toPredicate(" + text + ")");
    text = "static_cast<" + registerType(target) + ">(" + text + ")";
    return declare(target, reg, widthOf(target) < 8 ? wrapped(target, text) : text);
  }

  const Expression& e_;
  const std::vector<unsigned>& outputs_;
  const std::vector<bool>& scalar_;
  const std::vector<int>& inPlace_;
  std::vector<int> uses_, product_;  // product_: by instruction, which operand is a fused product, or -1
  std::vector<bool> fused_;
  std::vector<std::size_t> hasBits_;
};

}  // namespace

std::string hashOf(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  std::string digits;
  for (int i = 60; i >= 0; i -= 4) digits += "0123456789abcdef"[hash >> i & 15];
  return digits;
}

std::string codeletsUsedBy(const std::string& functions) {
  const auto uses = [&functions](const char* name) { return functions.find(name) != std::string::npos; };
  std::string text = uses("Double") || uses("scalar::Small") ? kSoftDoubleCodelets : "";
  if (uses("scalar::divideBy")) text += kScalarDivisionCodelets;
  return text;
}

MapCodelet generateMap(const Expression& expression, const std::vector<unsigned>& outputs,
                       const std::vector<bool>& scalar, const std::vector<int>& inPlace) {
  return Generator(expression, outputs, scalar, inPlace).run();
}

std::string generateFunction(const Expression& expression, const std::string& name) {
  std::vector<unsigned> outputs;
  for (unsigned o = 0; o < expression.outputs.size(); ++o) outputs.push_back(o);
  const std::vector<bool> scalar(expression.inputs.size(), false);
  const std::vector<int> inPlace(outputs.size(), -1);
  return Generator(expression, outputs, scalar, inPlace).function(name);
}

}  // namespace hlo
