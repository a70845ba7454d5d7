#include "kernels/elementwise/micro_program.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "hlo/ScalarOps.hpp"
#include "kernels/host/isa.h"
#include "kernels/vector/convert.h"

namespace ipu_model {
namespace {

struct Functions {
  MicroFunction (*arithmetic)(ScalarOp, RegisterType);
  MicroFunction (*integer)(ScalarOp, RegisterType);
  MicroFunction (*math)(ScalarOp, RegisterType);
  MicroFunction (*complex)(ScalarOp, RegisterType);
  MicroFunction (*fused)(FusedOp, RegisterType);
  MicroFunction (*convert)(RegisterType, RegisterType);
  MicroFunction (*load)(DType);
};
const Functions& BestFunctions() {
  static const Functions functions =
      HasAvx512()
          ? Functions{avx512::FindArithmetic, avx512::FindInteger,
                      avx512::FindMath,       avx512::FindComplexArithmetic,
                      avx512::FindFused,      avx512::FindConvert,
                      avx512::FindLoad}
          : Functions{avx2::FindArithmetic, avx2::FindInteger, avx2::FindMath, avx2::FindComplexArithmetic,
                      avx2::FindFused,      avx2::FindConvert, avx2::FindLoad};
  return functions;
}

bool IsNarrowFloat(DType type) { return RegisterTypeOf(type) == RegisterType::kF32 && type != DType::kF32; }
bool IsSubByte(DType type) { return IsInteger(type) && BitWidth(type) < 8; }

// Whether the result needs no rounding.
bool IsExact(ScalarOp op, DType type) {
  if (type != DType::kF16 && type != DType::kBF16) return op == ScalarOp::kSelect;
  return HasTrait(op, hlo::kExact);
}

double Nanoseconds(ScalarOp op, RegisterType type) {
  const double width = static_cast<double>(SizeOf(type)) / 4;
  if (type >= RegisterType::kC64) {
    if (op == ScalarOp::kAbs) return 0.2 * width;
    return HasTrait(op, hlo::kComplexVectors) ? 0.1 * width : 20;
  }
  const bool wide = type == RegisterType::kF64;
  switch (ScalarRow(op).host_time) {
    case hlo::HostTime::kSeries:
      return wide ? 8 : 0.15;
    case hlo::HostTime::kCubeRoot:
      return wide ? 8 : 0.4;
    case hlo::HostTime::kLong:
      return wide || type != RegisterType::kF32 ? 8 : 0.7;
    case hlo::HostTime::kDivision:
      return 0.1 * width;
    case hlo::HostTime::kArithmetic:
      break;
  }
  return 0.04 * width;
}

// An operation before register allocation. `code` is as in MicroKind.
constexpr int Code(ScalarOp op) { return static_cast<int>(op); }
constexpr int Code(FusedOp op) { return MicroKind::kFusedCode + static_cast<int>(op); }

struct Node {
  int code = 0;
  RegisterType type = RegisterType::kF32;  // of the value operands
  RegisterType result = RegisterType::kF32;
  bool plain = true;  // the type's own arithmetic, so that no rounding or wrapping follows
  bool predicates = false, predicate_result = false;  // as in MicroKind
  int operand[4] = {};
  int num_operands = 0;
  std::uint32_t immediate = 0;
  MicroFunction function = nullptr;
  double nanoseconds = 0.04;
  bool dead = false;
};

class Lowering {
 public:
  explicit Lowering(const Expression& expression) : expression_(expression) {}

  MicroProgram Run() {
    CheckNumber(expression_.inputs.size() + expression_.constants.size());
    // Narrow floats lie in the blocks as their bits: code and block functions convert them where they are
    // read and made.
    for (const DType type : expression_.inputs)
      program_.inputs.push_back(IsNarrowFloat(type) ? BitsOf(type) : type);
    for (const ScalarConstant& constant : expression_.constants) AddConstant(constant.type, constant.bytes);
    // Results are numbered from kNodeBase, because conversions may add constants after the existing ones.
    value_.resize(expression_.inputs.size() + expression_.constants.size());
    for (std::size_t i = 0; i < value_.size(); ++i) value_[i] = static_cast<int>(i);
    for (std::size_t i = 0; i < expression_.inputs.size(); ++i) {
      const DType type = expression_.inputs[i];
      if (IsNarrowFloat(type)) value_[i] = FromBits(static_cast<int>(i), type);
    }
    for (const Instruction& instruction : expression_.code) value_.push_back(LowerInstruction(instruction));
    for (const std::uint16_t output : expression_.outputs) {
      outputs_.push_back(value_.at(output));
      program_.output_types.push_back(expression_.TypeOf(output));
    }
    RemoveDead();
    Fuse();
    RemoveDead();
    StoreBits();
    RemoveDead();
    Emit();
    return std::move(program_);
  }

 private:
  // The number of the first node's result, while nodes are added.
  static constexpr int kNodeBase = 1 << 20;

  // Steps have register numbers of 16 bits.
  static void CheckNumber(std::size_t registers) {
    if (registers > std::numeric_limits<std::uint16_t>::max())
      throw std::invalid_argument("an expression needs more than 65535 registers");
  }

  [[noreturn]] static void Fail(ScalarOp op, DType type) {
    throw std::invalid_argument("scalar operation " + std::to_string(static_cast<int>(op)) +
                                " is not defined for " + NameOf(type));
  }

  int AddConstant(DType type, const unsigned char* bytes) {
    std::array<unsigned char, 16> value{};
    if (const MicroFunction load = BestFunctions().load(type)) {
      MicroArguments m{value.data(), {bytes}, 1, 0, 0};
      load(m);
    } else {
      std::memcpy(value.data(), bytes, SizeOf(type));
    }
    program_.constants.push_back(value);
    constant_types_.push_back(RegisterTypeOf(type));
    return static_cast<int>(program_.inputs.size() + program_.constants.size()) - 1;
  }

  int Add(Node node) {
    nodes_.push_back(node);
    return kNodeBase + static_cast<int>(nodes_.size()) - 1;
  }
  int AddFused(FusedOp op, RegisterType type, RegisterType result, int operand, std::uint32_t immediate) {
    Node node;
    node.code = Code(op);
    node.type = type;
    node.result = result;
    node.operand[0] = operand;
    node.num_operands = 1;
    node.immediate = immediate;
    node.predicate_result = op == FusedOp::kToPred;
    node.function = BestFunctions().fused(op, type);
    return Add(node);
  }
  // Returns a register that holds `reg` as a valid value of `type`.
  int Normalise(int reg, DType type) {
    if (IsNarrowFloat(type))
      return AddFused(FusedOp::kRound, RegisterType::kF32, RegisterType::kF32, reg,
                      static_cast<std::uint32_t>(type));
    if (IsSubByte(type))
      return AddFused(FusedOp::kWrap, RegisterTypeOf(type), RegisterTypeOf(type), reg,
                      static_cast<std::uint32_t>(BitWidth(type)));
    return reg;
  }

  int LowerConvert(int reg, DType from, DType to) {
    if (from == to) return reg;
    const RegisterType source = RegisterTypeOf(from), target = RegisterTypeOf(to);
    if (to == DType::kPred) return AddFused(FusedOp::kToPred, source, RegisterType::kU8, reg, 0);
    if (source == RegisterType::kF64 && IsNarrowFloat(to))
      return Normalise(AddFused(FusedOp::kToOddF32, source, target, reg, 0), to);
    if (source != target) {
      Node node;
      node.code = Code(ScalarOp::kConvert);
      node.type = source;
      node.result = target;
      node.operand[0] = reg;
      node.num_operands = 1;
      node.predicates = from == DType::kPred;
      node.function = BestFunctions().convert(source, target);
      reg = Add(node);
    }
    if (IsSubByte(to) && (IsFloat(from) || IsComplex(from)))
      return AddFused(FusedOp::kSaturate, target, target, reg, static_cast<std::uint32_t>(BitWidth(to)));
    return Normalise(reg, to);
  }

  // The integer type whose registers hold the bits of a narrow float.
  static DType BitsOf(DType type) { return SizeOf(type) == 1 ? DType::kU8 : DType::kU16; }

  int FromBits(int reg, DType type) {
    return AddFused(FusedOp::kFromBits, RegisterTypeOf(BitsOf(type)), RegisterType::kF32, reg,
                    static_cast<std::uint32_t>(type));
  }

  // Changes the type and keeps the bits. Registers of equal width are only renamed.
  int LowerBitcast(int reg, DType from, DType to) {
    if (BitWidth(from) != BitWidth(to) || IsComplex(from) != IsComplex(to)) Fail(ScalarOp::kBitcast, from);
    if (IsNarrowFloat(from)) {
      // Undo an earlier bitcast instead of converting back: the conversion would lose the bits of a NaN.
      const Node* made = reg >= kNodeBase ? &nodes_[Index(reg)] : nullptr;
      reg = made != nullptr && made->code == Code(FusedOp::kFromBits)
                ? made->operand[0]
                : AddFused(FusedOp::kToBits, RegisterType::kF32, RegisterTypeOf(BitsOf(from)), reg,
                           static_cast<std::uint32_t>(from));
    }
    if (IsNarrowFloat(to)) return FromBits(reg, to);
    if (to == DType::kPred) return AddFused(FusedOp::kToPred, RegisterType::kU8, RegisterType::kU8, reg, 0);
    return Normalise(reg, to);
  }

  // The type of the result of `op` on operands of `type`; kCount if there is none.
  static DType ResultOf(ScalarOp op, DType type) {
    switch (ScalarRow(op).result) {
      case hlo::ScalarResult::kPredicate:
        return DType::kPred;
      case hlo::ScalarResult::kReal:
        return type == DType::kC64 ? DType::kF32 : type == DType::kC128 ? DType::kF64 : type;
      case hlo::ScalarResult::kComplex:
        return type == DType::kF32 ? DType::kC64 : type == DType::kF64 ? DType::kC128 : DType::kCount;
      case hlo::ScalarResult::kOperand:
      case hlo::ScalarResult::kGiven:
        break;
    }
    return type;
  }

  // A block function reads and writes elements of the instruction's types, so its registers must hold such
  // elements. Arithmetic may use f32 on narrow floats, whose registers are the same; what looks at the bits
  // may not.
  void CheckTypes(const Instruction& instruction) const {
    const ScalarOp op = instruction.op;
    const DType type = instruction.operand_type;
    const bool converts = ScalarRow(op).result == hlo::ScalarResult::kGiven;
    bool fits = converts || instruction.result_type == ResultOf(op, type);
    for (std::size_t k = 0; k < OperandsOf(op); ++k) {
      value_.at(instruction.operand[k]);  // throws if it is not set yet
      const DType given = expression_.TypeOf(instruction.operand[k]);
      const DType wanted = op == ScalarOp::kSelect && k == 0 ? DType::kPred : type;
      const bool exact = converts || op == ScalarOp::kReal || op == ScalarOp::kImag;
      fits = fits && (exact ? given == wanted : RegisterTypeOf(given) == RegisterTypeOf(wanted));
    }
    if (!fits) {
      throw std::invalid_argument("scalar operation " + std::to_string(static_cast<int>(op)) + " on " +
                                  NameOf(type) + " has operands or a result of another type");
    }
  }

  int AddInteger(ScalarOp op, RegisterType type, int a, int b) {
    Node node;
    node.code = Code(op);
    node.type = node.result = type;
    node.operand[0] = a;
    node.operand[1] = b;
    node.num_operands = 2;
    node.immediate = static_cast<std::uint32_t>(8 * SizeOf(type));
    const Functions& f = BestFunctions();
    node.function = f.arithmetic(op, type);
    if (node.function == nullptr) node.function = f.integer(op, type);
    return Add(node);
  }
  int AddWord(DType type, std::uint32_t value) {
    unsigned char bytes[16] = {};
    std::memcpy(bytes, &value, sizeof(value));
    return AddConstant(type, bytes);
  }

  // A quotient by 2^k or its remainder, of 32-bit integers, by shifts: rounded towards zero, which adds
  // 2^k - 1 to a negative number first. Returns -1 for other instructions.
  int DivideByPower(const Instruction& instruction) {
    const ScalarOp op = instruction.op;
    const DType type = instruction.operand_type;
    const bool is_signed = type == DType::kS32;
    if ((op != ScalarOp::kDivide && op != ScalarOp::kRemainder) || (!is_signed && type != DType::kU32))
      return -1;
    std::uint64_t raw = 0;
    if (!ConstantInteger(value_.at(instruction.operand[1]), &raw)) return -1;
    const auto divisor = static_cast<std::uint32_t>(raw);
    if (divisor < 2 || (divisor & (divisor - 1)) != 0 || (is_signed && divisor >> 31 != 0)) return -1;
    const int k = __builtin_ctz(divisor), x = value_.at(instruction.operand[0]);
    const RegisterType reg = RegisterTypeOf(type);
    const int mask = AddWord(type, divisor - 1), shift = AddWord(type, static_cast<std::uint32_t>(k));
    if (!is_signed) {
      return op == ScalarOp::kDivide ? AddInteger(ScalarOp::kShiftRightLogical, reg, x, shift)
                                     : AddInteger(ScalarOp::kAnd, reg, x, mask);
    }
    const int sign = AddInteger(ScalarOp::kShiftRightArithmetic, reg, x, AddWord(type, 31));
    const int bias = AddInteger(ScalarOp::kAnd, reg, sign, mask);
    const int biased = AddInteger(ScalarOp::kAdd, reg, x, bias);
    if (op == ScalarOp::kDivide) return AddInteger(ScalarOp::kShiftRightArithmetic, reg, biased, shift);
    const int low = AddInteger(ScalarOp::kAnd, reg, biased, mask);
    return AddInteger(ScalarOp::kSubtract, reg, low, bias);
  }

  int LowerInstruction(const Instruction& instruction) {
    CheckTypes(instruction);
    ScalarOp op = instruction.op;
    const DType type = instruction.operand_type;
    const int a = value_.at(instruction.operand[0]);
    if (op == ScalarOp::kConvert) return LowerConvert(a, type, instruction.result_type);
    if (op == ScalarOp::kBitcast) return LowerBitcast(a, type, instruction.result_type);
    if (op == ScalarOp::kReal && !IsComplex(type)) return a;
    if (op == ScalarOp::kImag && !IsComplex(type)) {
      const unsigned char zero[16] = {};
      return AddConstant(type, zero);
    }
    if (type == DType::kPred) op = ScalarRow(op).on_predicates;

    if (const int shifted = DivideByPower(instruction); shifted >= 0) return shifted;
    Node node;
    node.type = RegisterTypeOf(type);
    node.result = RegisterTypeOf(instruction.result_type);
    node.num_operands = static_cast<int>(OperandsOf(op));
    for (int i = 0; i < node.num_operands; ++i) node.operand[i] = value_.at(instruction.operand[i]);
    node.immediate =
        op == ScalarOp::kReducePrecision ? instruction.immediate : static_cast<std::uint32_t>(BitWidth(type));
    node.code = Code(op);
    const bool normalised = instruction.result_type == type && !IsExact(op, type);
    node.plain = !normalised || (!IsNarrowFloat(type) && !IsSubByte(type));
    node.predicates = type == DType::kPred;
    node.predicate_result = instruction.result_type == DType::kPred;
    node.nanoseconds = Nanoseconds(op, node.type);
    const Functions& f = BestFunctions();
    if (type == DType::kPred && op == ScalarOp::kNot) {
      node.code = Code(FusedOp::kLogicalNot);
      node.function = f.fused(FusedOp::kLogicalNot, node.type);
    } else if (op == ScalarOp::kNextAfter) {
      node.function = FindNextAfter(type);
    } else if (op == ScalarOp::kReducePrecision && type == DType::kF16) {
      node.function = FindReducePrecisionF16();
    } else {
      node.function = f.arithmetic(op, node.type);
      if (node.function == nullptr) node.function = f.integer(op, node.type);
      if (node.function == nullptr) node.function = f.math(op, node.type);
      if (node.function == nullptr) node.function = f.complex(op, node.type);
      if (node.function == nullptr) node.function = FindComplex(op, node.type);
    }
    if (node.function == nullptr) Fail(op, type);
    const int result = Add(node);
    return normalised ? Normalise(result, type) : result;
  }

  void RemoveDead() {
    uses_.assign(nodes_.size(), 0);
    for (const int output : outputs_)
      if (output >= kNodeBase) ++uses_[Index(output)];
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      Node& node = nodes_[i];
      node.dead = uses_[i] == 0;
      if (node.dead) continue;
      for (int k = 0; k < node.num_operands; ++k)
        if (node.operand[k] >= kNodeBase) ++uses_[Index(node.operand[k])];
    }
  }
  // Makes outputs of narrow floats their bits. Those of an input are its own, because an f32 register cannot
  // hold every bit of a NaN.
  void StoreBits() {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const DType type = program_.output_types[i];
      if (!IsNarrowFloat(type)) continue;
      program_.output_types[i] = BitsOf(type);
      int value = outputs_[i];
      const auto made_by = [&](FusedOp op) {
        if (value < kNodeBase) return false;
        const Node& node = nodes_[Index(value)];
        return node.code == Code(op) && node.immediate == static_cast<std::uint32_t>(type);
      };
      if (made_by(FusedOp::kFromBits)) {
        outputs_[i] = nodes_[Index(value)].operand[0];
        continue;
      }
      // What becomes bits is rounded there.
      if (made_by(FusedOp::kRound) && uses_[Index(value)] == 1) value = nodes_[Index(value)].operand[0];
      outputs_[i] = AddFused(FusedOp::kToBits, RegisterType::kF32, RegisterTypeOf(BitsOf(type)), value,
                             static_cast<std::uint32_t>(type));
    }
  }
  static std::size_t Index(int reg) { return static_cast<std::size_t>(reg - kNodeBase); }

  // Returns the node that computes `reg` if it has this code and type and no other user; otherwise null.
  Node* SingleUse(int reg, int code, RegisterType type) {
    if (reg < kNodeBase || uses_[Index(reg)] != 1) return nullptr;
    Node& node = nodes_[Index(reg)];
    return node.code == code && node.type == type && node.plain ? &node : nullptr;
  }
  bool ConstantInteger(int reg, std::uint64_t* value) const {
    const int first = static_cast<int>(program_.inputs.size());
    if (reg < first || reg >= first + static_cast<int>(program_.constants.size())) return false;
    std::memcpy(value, program_.constants[static_cast<std::size_t>(reg - first)].data(), sizeof(*value));
    return true;
  }

  // Replaces `node` by a fused operation, which takes over the operands of `part`.
  void Become(Node& node, FusedOp op, RegisterType type, std::initializer_list<int> operands, Node* part,
              std::uint32_t immediate = 0) {
    const MicroFunction function = BestFunctions().fused(op, type);
    if (function == nullptr) return;
    SetFused(node, Code(op), function, operands, part, immediate);
    node.type = type;
  }
  static void SetFused(Node& node, int code, MicroFunction function, std::initializer_list<int> operands,
                       Node* part, std::uint32_t immediate) {
    node.code = code;
    node.function = function;
    node.num_operands = static_cast<int>(operands.size());
    std::copy(operands.begin(), operands.end(), node.operand);
    node.immediate = immediate;
    node.nanoseconds = std::max(node.nanoseconds, part->nanoseconds);
    part->dead = true;
  }

  // x / 2^k becomes x * 2^-k, which is exact. LLVM, and therefore XLA:CPU, does the same.
  void MultiplyByInverse(Node& node) {
    if (node.code != Code(ScalarOp::kDivide) || node.type != RegisterType::kF32) return;
    std::uint64_t raw = 0;
    if (!ConstantInteger(node.operand[1], &raw)) return;
    const auto bits = static_cast<std::uint32_t>(raw);
    const std::uint32_t exponent = bits >> 23 & 0xff;
    if ((bits & 0x7fffffu) != 0 || exponent < 2 || exponent > 252) return;
    const float inverse = 1.0f / FloatOf(bits);
    unsigned char bytes[16] = {};
    std::memcpy(bytes, &inverse, sizeof(inverse));
    node.operand[1] = AddConstant(DType::kF32, bytes);
    node.code = Code(ScalarOp::kMultiply);
    node.function = BestFunctions().arithmetic(ScalarOp::kMultiply, RegisterType::kF32);
    node.nanoseconds = Nanoseconds(ScalarOp::kMultiply, RegisterType::kF32);
  }

  void Fuse() {
    for (Node& node : nodes_)
      if (!node.dead) MultiplyByInverse(node);
    for (Node& node : nodes_)
      if (!node.dead && node.plain) Contract(node);
    RemoveDead();
    for (Node& node : nodes_)
      if (!node.dead && node.plain) FuseRotate(node);
    RemoveDead();
    for (Node& node : nodes_)
      if (!node.dead && node.plain) FusePair(node);
  }

  // Contracts the first operand that is a multiplication without other users, as LLVM, and therefore XLA:CPU,
  // does. Not f64: IPUs compute it in software without a multiply-add, so each operation rounds.
  void Contract(Node& node) {
    const RegisterType type = node.type;
    if (type != RegisterType::kF32) return;
    const int a = node.operand[0], b = node.operand[1], multiply = Code(ScalarOp::kMultiply);
    if (node.code == Code(ScalarOp::kAdd)) {
      const MicroFunction fma = BestFunctions().arithmetic(ScalarOp::kFma, type);
      if (Node* m = SingleUse(a, multiply, type)) {
        SetFused(node, Code(ScalarOp::kFma), fma, {m->operand[0], m->operand[1], b}, m, 0);
      } else if (Node* n = SingleUse(b, multiply, type)) {
        SetFused(node, Code(ScalarOp::kFma), fma, {n->operand[0], n->operand[1], a}, n, 0);
      }
    } else if (node.code == Code(ScalarOp::kSubtract)) {
      if (Node* m = SingleUse(a, multiply, type)) {
        Become(node, FusedOp::kMultiplySubtract, type, {m->operand[0], m->operand[1], b}, m);
      } else if (Node* n = SingleUse(b, multiply, type)) {
        Become(node, FusedOp::kSubtractMultiply, type, {n->operand[0], n->operand[1], a}, n);
      }
    }
  }

  // x << c | x >> (width - c)
  void FuseRotate(Node& node) {
    if (node.code != Code(ScalarOp::kOr) && node.code != Code(ScalarOp::kXor) &&
        node.code != Code(ScalarOp::kAdd))
      return;
    const std::uint64_t width = SizeOf(node.type) * 8;
    if (width < 32 || node.type >= RegisterType::kF32) return;
    for (int first = 0; first < 2; ++first) {
      Node* left = SingleUse(node.operand[first], Code(ScalarOp::kShiftLeft), node.type);
      Node* right = SingleUse(node.operand[1 - first], Code(ScalarOp::kShiftRightLogical), node.type);
      std::uint64_t l = 0, r = 0;
      if (left == nullptr || right == nullptr || left->operand[0] != right->operand[0] ||
          !ConstantInteger(left->operand[1], &l) || !ConstantInteger(right->operand[1], &r)) {
        continue;
      }
      const std::uint64_t mask = width == 32 ? 0xffffffffu : ~std::uint64_t{0};
      if ((l & mask) == 0 || (l & mask) >= width || (l & mask) + (r & mask) != width) continue;
      right->dead = true;
      Become(node, FusedOp::kRotateLeft, node.type, {left->operand[0]}, left, static_cast<std::uint32_t>(l));
      return;
    }
  }

  // Fuses two operations into one pass over the block.
  void FusePair(Node& node) {
    const RegisterType type = node.type;
    const int a = node.operand[0], b = node.operand[1];
    if (node.code == Code(ScalarOp::kSelect) && SizeOf(type) == 4) return FuseSelect(node);
    if (node.code == Code(ScalarOp::kXor)) {
      for (int k = 0; k < 2; ++k) {
        if (Node* r = SingleUse(node.operand[k], Code(FusedOp::kRotateLeft), type))
          return Become(node, FusedOp::kRotateXor, type, {r->operand[0], node.operand[1 - k]}, r,
                        r->immediate);
      }
    }
    if (type == RegisterType::kF64) return FuseProduct(node);
    if (type != RegisterType::kF32) return;
    if (FuseThird(node)) return;
    struct Pair {
      ScalarOp outer, inner;
      bool commutes;
      FusedOp fused;
    };
    static constexpr Pair kPairs[] = {
        {ScalarOp::kMultiply, ScalarOp::kAdd, true, FusedOp::kAddMultiply},
        {ScalarOp::kMultiply, ScalarOp::kSubtract, true, FusedOp::kSubtractTimes},
        {ScalarOp::kMultiply, ScalarOp::kMultiply, true, FusedOp::kMultiplyMultiply},
        {ScalarOp::kAdd, ScalarOp::kAdd, true, FusedOp::kAddAdd},
        {ScalarOp::kAdd, ScalarOp::kDivide, true, FusedOp::kDivideAdd},
        {ScalarOp::kDivide, ScalarOp::kMultiply, false, FusedOp::kMultiplyDivide},
    };
    for (const Pair& pair : kPairs) {
      if (node.code != Code(pair.outer)) continue;
      if (Node* p = SingleUse(a, Code(pair.inner), type))
        return Become(node, pair.fused, type, {p->operand[0], p->operand[1], b}, p);
      if (!pair.commutes) continue;
      if (Node* p = SingleUse(b, Code(pair.inner), type))
        return Become(node, pair.fused, type, {p->operand[0], p->operand[1], a}, p);
    }
  }
  // Fuses an f64 sum with a product.
  void FuseProduct(Node& node) {
    const bool add = node.code == Code(ScalarOp::kAdd);
    if (!add && node.code != Code(ScalarOp::kSubtract)) return;
    for (int k = 0; k < 2; ++k) {
      Node* p = SingleUse(node.operand[k], Code(ScalarOp::kMultiply), RegisterType::kF64);
      if (p == nullptr) continue;
      const FusedOp op = add      ? FusedOp::kProductPlus
                         : k == 0 ? FusedOp::kProductMinus
                                  : FusedOp::kMinusProduct;
      return Become(node, op, RegisterType::kF64, {p->operand[0], p->operand[1], node.operand[1 - k]}, p);
    }
  }
  // Fuses an operation with the fused pair that computes its operand.
  bool FuseThird(Node& node) {
    for (int k = 0; k < 2; ++k) {
      const int x = node.operand[k], other = node.operand[1 - k];
      if (node.code == Code(ScalarOp::kMultiply)) {
        for (const auto& [inner, fused] :
             {std::pair(Code(FusedOp::kAddMultiply), FusedOp::kAddMultiplyMultiply),
              std::pair(Code(ScalarOp::kFma), FusedOp::kFmaMultiply)}) {
          Node* p = SingleUse(x, inner, RegisterType::kF32);
          if (p == nullptr) continue;
          Become(node, fused, RegisterType::kF32, {p->operand[0], p->operand[1], p->operand[2], other}, p);
          return true;
        }
      } else if (node.code == Code(ScalarOp::kFma)) {
        Node* p = SingleUse(x, Code(ScalarOp::kMultiply), RegisterType::kF32);
        if (p == nullptr) continue;
        Become(node, FusedOp::kMultiplyFma, RegisterType::kF32,
               {p->operand[0], p->operand[1], other, node.operand[2]}, p);
        return true;
      }
    }
    return false;
  }
  void FuseSelect(Node& node) {
    for (const RegisterType type : {RegisterType::kF32, RegisterType::kS32, RegisterType::kU32}) {
      for (int op = Code(ScalarOp::kEq); op <= Code(ScalarOp::kGe); ++op) {
        if (Node* c = SingleUse(node.operand[0], op, type))
          return Become(node, FusedOp::kSelectCompare, type,
                        {c->operand[0], c->operand[1], node.operand[1], node.operand[2]}, c,
                        static_cast<std::uint32_t>(op));
      }
    }
  }

  void Emit() {
    const int num_inputs = static_cast<int>(program_.inputs.size());
    const int first_result = num_inputs + static_cast<int>(program_.constants.size());
    const auto live =
        std::count_if(nodes_.begin(), nodes_.end(), [](const Node& node) { return !node.dead; });
    CheckNumber(static_cast<std::size_t>(first_result) + static_cast<std::size_t>(live));
    std::vector<int> number(nodes_.size(), -1);
    const auto renumber = [&](int reg) {
      return static_cast<std::uint16_t>(reg < kNodeBase ? reg : number[Index(reg)]);
    };
    for (const DType type : program_.inputs) program_.registers.push_back(RegisterTypeOf(type));
    for (const RegisterType type : constant_types_) program_.registers.push_back(type);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      if (node.dead) continue;
      number[i] = first_result + static_cast<int>(program_.steps.size());
      MicroStep step;
      step.function = node.function;
      step.result = static_cast<std::uint16_t>(number[i]);
      step.num_operands = static_cast<std::uint8_t>(node.num_operands);
      for (int k = 0; k < node.num_operands; ++k) step.operand[k] = renumber(node.operand[k]);
      step.immediate = node.immediate;
      step.kind = {static_cast<std::uint16_t>(node.code), node.type, node.result, node.predicates,
                   node.predicate_result};
      program_.steps.push_back(step);
      program_.registers.push_back(node.result);
      program_.nanoseconds += node.nanoseconds;
    }
    for (const int output : outputs_) program_.outputs.push_back(renumber(output));
    AllocateSlots();
  }

  // Linear-scan slot allocation. A result may reuse the slot of an operand whose last use is in the same step
  // only if their elements have the same size. Otherwise, the loop would overwrite elements before it reads
  // them.
  void AllocateSlots() {
    const std::size_t count = program_.registers.size();
    const int num_steps = static_cast<int>(program_.steps.size());
    const std::size_t first_result = count - program_.steps.size();
    program_.slot.assign(count, 0);
    program_.last_use.assign(count, -1);
    for (int s = 0; s < num_steps; ++s) {
      const MicroStep& step = program_.steps[static_cast<std::size_t>(s)];
      for (int k = 0; k < step.num_operands; ++k) program_.last_use[step.operand[k]] = s;
    }
    for (const std::uint16_t output : program_.outputs) program_.last_use[output] = num_steps;
    std::vector<std::uint16_t> free_slots;
    const auto release = [&](const MicroStep& step, int s, bool same_size) {
      for (int k = 0; k < step.num_operands; ++k) {
        const std::uint16_t reg = step.operand[k];
        bool repeated = false;
        for (int j = 0; j < k; ++j) repeated = repeated || step.operand[j] == reg;
        if (reg < first_result || program_.last_use[reg] != s || repeated) continue;
        if ((SizeOf(program_.registers[reg]) == SizeOf(program_.registers[step.result])) == same_size)
          free_slots.push_back(program_.slot[reg]);
      }
    };
    for (int s = 0; s < num_steps; ++s) {
      const MicroStep& step = program_.steps[static_cast<std::size_t>(s)];
      release(step, s, true);
      if (free_slots.empty()) {
        program_.slot[step.result] = static_cast<std::uint16_t>(program_.num_slots++);
      } else {
        program_.slot[step.result] = free_slots.back();
        free_slots.pop_back();
      }
      release(step, s, false);
    }
  }

  const Expression& expression_;
  MicroProgram program_;
  std::vector<RegisterType> constant_types_;
  std::vector<int> value_;  // register of the expression -> register or node of the lowering
  std::vector<int> outputs_;
  std::vector<Node> nodes_;
  std::vector<int> uses_;
};

}  // namespace

MicroProgram Lower(const Expression& expression) { return Lowering(expression).Run(); }

}  // namespace ipu_model
