#include "kernels/elementwise/program/micro_program.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "hlo/ScalarOps.hpp"
#include "kernels/elementwise/program/micro_division.h"
#include "kernels/elementwise/program/micro_graph.h"
#include "kernels/vector/convert.h"

namespace ipu_model {
namespace {

bool IsNarrowFloat(DType type) { return RegisterTypeOf(type) == RegisterType::kF32 && type != DType::kF32; }
bool IsSubByte(DType type) { return IsInteger(type) && BitWidth(type) < 8; }

// Whether the result needs no rounding.
bool IsExact(ScalarOp op, DType type) {
  if (type != DType::kF16 && type != DType::kBF16) return op == ScalarOp::kSelect;
  return HasTrait(op, hlo::kExact);
}

class Lowering {
 public:
  explicit Lowering(const Expression& expression) : expression_(expression) {}

  MicroProgram Run() {
    CheckNumber(expression_.inputs.size() + expression_.constants.size());
    // Narrow floats lie in the blocks as their bits: code and block functions convert them where they are
    // read and made.
    for (const DType type : expression_.inputs)
      graph_.program.inputs.push_back(IsNarrowFloat(type) ? BitsOf(type) : type);
    for (const ScalarConstant& constant : expression_.constants)
      graph_.AddConstant(constant.type, constant.bytes);
    // Results are numbered from MicroGraph::kNodeBase, because conversions may add constants after the
    // existing ones.
    value_.resize(expression_.inputs.size() + expression_.constants.size());
    for (std::size_t i = 0; i < value_.size(); ++i) value_[i] = static_cast<int>(i);
    for (std::size_t i = 0; i < expression_.inputs.size(); ++i) {
      const DType type = expression_.inputs[i];
      if (IsNarrowFloat(type)) value_[i] = FromBits(static_cast<int>(i), type);
    }
    for (const Instruction& instruction : expression_.code) value_.push_back(LowerInstruction(instruction));
    for (const std::uint16_t output : expression_.outputs) {
      graph_.outputs.push_back(value_.at(output));
      graph_.program.output_types.push_back(expression_.TypeOf(output));
    }
    graph_.RemoveDead();
    Fuse(graph_);
    graph_.RemoveDead();
    StoreBits();
    graph_.RemoveDead();
    Emit();
    return std::move(graph_.program);
  }

 private:
  // Steps have register numbers of 16 bits.
  static void CheckNumber(std::size_t registers) {
    if (registers > std::numeric_limits<std::uint16_t>::max())
      throw std::invalid_argument("an expression needs more than 65535 registers");
  }

  [[noreturn]] static void Fail(ScalarOp op, DType type) {
    throw std::invalid_argument("scalar operation " + std::to_string(static_cast<int>(op)) +
                                " is not defined for " + NameOf(type));
  }

  // Returns a register that holds `reg` as a valid value of `type`.
  int Normalise(int reg, DType type) {
    if (IsNarrowFloat(type))
      return graph_.AddFused(FusedOp::kRound, RegisterType::kF32, RegisterType::kF32, reg,
                             static_cast<std::uint32_t>(type));
    if (IsSubByte(type))
      return graph_.AddFused(FusedOp::kWrap, RegisterTypeOf(type), RegisterTypeOf(type), reg,
                             static_cast<std::uint32_t>(BitWidth(type)));
    return reg;
  }

  int LowerConvert(int reg, DType from, DType to) {
    if (from == to) return reg;
    const RegisterType source = RegisterTypeOf(from), target = RegisterTypeOf(to);
    if (to == DType::kPred) return graph_.AddFused(FusedOp::kToPred, source, RegisterType::kU8, reg, 0);
    if (source == RegisterType::kF64 && IsNarrowFloat(to))
      return Normalise(graph_.AddFused(FusedOp::kToOddF32, source, target, reg, 0), to);
    if (source != target) {
      MicroNode node;
      node.code = Code(ScalarOp::kConvert);
      node.type = source;
      node.result = target;
      node.operand[0] = reg;
      node.num_operands = 1;
      node.predicates = from == DType::kPred;
      node.function = BestFunctions().convert(source, target);
      reg = graph_.Add(node);
    }
    if (IsSubByte(to) && (IsFloat(from) || IsComplex(from)))
      return graph_.AddFused(FusedOp::kSaturate, target, target, reg,
                             static_cast<std::uint32_t>(BitWidth(to)));
    return Normalise(reg, to);
  }

  // The integer type whose registers hold the bits of a narrow float.
  static DType BitsOf(DType type) { return SizeOf(type) == 1 ? DType::kU8 : DType::kU16; }

  int FromBits(int reg, DType type) {
    return graph_.AddFused(FusedOp::kFromBits, RegisterTypeOf(BitsOf(type)), RegisterType::kF32, reg,
                           static_cast<std::uint32_t>(type));
  }

  // Changes the type and keeps the bits. Registers of equal width are only renamed.
  int LowerBitcast(int reg, DType from, DType to) {
    if (BitWidth(from) != BitWidth(to) || IsComplex(from) != IsComplex(to)) Fail(ScalarOp::kBitcast, from);
    if (IsNarrowFloat(from)) {
      // Undo an earlier bitcast instead of converting back: the conversion would lose the bits of a NaN.
      const MicroNode* made = reg >= MicroGraph::kNodeBase ? &graph_.nodes[MicroGraph::Index(reg)] : nullptr;
      reg = made != nullptr && made->code == Code(FusedOp::kFromBits)
                ? made->operand[0]
                : graph_.AddFused(FusedOp::kToBits, RegisterType::kF32, RegisterTypeOf(BitsOf(from)), reg,
                                  static_cast<std::uint32_t>(from));
    }
    if (IsNarrowFloat(to)) return FromBits(reg, to);
    if (to == DType::kPred)
      return graph_.AddFused(FusedOp::kToPred, RegisterType::kU8, RegisterType::kU8, reg, 0);
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
      return graph_.AddConstant(type, zero);
    }
    if (type == DType::kPred) op = ScalarRow(op).on_predicates;

    if (op == ScalarOp::kDivide || op == ScalarOp::kRemainder) {
      const int divided = LowerDivision(graph_, instruction, a, value_.at(instruction.operand[1]));
      if (divided >= 0) return divided;
    }
    MicroNode node;
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
    const MicroFunctions& f = BestFunctions();
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
    const int result = graph_.Add(node);
    return normalised ? Normalise(result, type) : result;
  }

  // Makes outputs of narrow floats their bits. Those of an input are its own, because an f32 register cannot
  // hold every bit of a NaN.
  void StoreBits() {
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      const DType type = graph_.program.output_types[i];
      if (!IsNarrowFloat(type)) continue;
      graph_.program.output_types[i] = BitsOf(type);
      int value = graph_.outputs[i];
      const auto made_by = [&](FusedOp op) {
        if (value < MicroGraph::kNodeBase) return false;
        const MicroNode& node = graph_.nodes[MicroGraph::Index(value)];
        return node.code == Code(op) && node.immediate == static_cast<std::uint32_t>(type);
      };
      if (made_by(FusedOp::kFromBits)) {
        graph_.outputs[i] = graph_.nodes[MicroGraph::Index(value)].operand[0];
        continue;
      }
      // What becomes bits is rounded there.
      if (made_by(FusedOp::kRound) && graph_.uses[MicroGraph::Index(value)] == 1)
        value = graph_.nodes[MicroGraph::Index(value)].operand[0];
      graph_.outputs[i] = graph_.AddFused(FusedOp::kToBits, RegisterType::kF32, RegisterTypeOf(BitsOf(type)),
                                          value, static_cast<std::uint32_t>(type));
    }
  }

  void Emit() {
    const int num_inputs = static_cast<int>(graph_.program.inputs.size());
    const int first_result = num_inputs + static_cast<int>(graph_.program.constants.size());
    const auto live = std::count_if(graph_.nodes.begin(), graph_.nodes.end(),
                                    [](const MicroNode& node) { return !node.dead; });
    CheckNumber(static_cast<std::size_t>(first_result) + static_cast<std::size_t>(live));
    std::vector<int> number(graph_.nodes.size(), -1);
    const auto renumber = [&](int reg) {
      return static_cast<std::uint16_t>(reg < MicroGraph::kNodeBase ? reg : number[MicroGraph::Index(reg)]);
    };
    for (const DType type : graph_.program.inputs) graph_.program.registers.push_back(RegisterTypeOf(type));
    for (const RegisterType type : graph_.constant_types) graph_.program.registers.push_back(type);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const MicroNode& node = graph_.nodes[i];
      if (node.dead) continue;
      number[i] = first_result + static_cast<int>(graph_.program.steps.size());
      MicroStep step;
      step.function = node.function;
      step.result = static_cast<std::uint16_t>(number[i]);
      step.num_operands = static_cast<std::uint8_t>(node.num_operands);
      for (int k = 0; k < node.num_operands; ++k) step.operand[k] = renumber(node.operand[k]);
      step.immediate = node.immediate;
      step.kind = {static_cast<std::uint16_t>(node.code), node.type, node.result, node.predicates,
                   node.predicate_result};
      graph_.program.steps.push_back(step);
      graph_.program.registers.push_back(node.result);
      graph_.program.nanoseconds += node.nanoseconds;
    }
    for (const int output : graph_.outputs) graph_.program.outputs.push_back(renumber(output));
    AllocateSlots();
  }

  // Linear-scan slot allocation. A result may reuse the slot of an operand whose last use is in the same step
  // only if their elements have the same size. Otherwise, the loop would overwrite elements before it reads
  // them.
  void AllocateSlots() {
    const std::size_t count = graph_.program.registers.size();
    const int num_steps = static_cast<int>(graph_.program.steps.size());
    const std::size_t first_result = count - graph_.program.steps.size();
    graph_.program.slot.assign(count, 0);
    graph_.program.last_use.assign(count, -1);
    for (int s = 0; s < num_steps; ++s) {
      const MicroStep& step = graph_.program.steps[static_cast<std::size_t>(s)];
      for (int k = 0; k < step.num_operands; ++k) graph_.program.last_use[step.operand[k]] = s;
    }
    for (const std::uint16_t output : graph_.program.outputs) graph_.program.last_use[output] = num_steps;
    std::vector<std::uint16_t> free_slots;
    const auto release = [&](const MicroStep& step, int s, bool same_size) {
      for (int k = 0; k < step.num_operands; ++k) {
        const std::uint16_t reg = step.operand[k];
        bool repeated = false;
        for (int j = 0; j < k; ++j) repeated = repeated || step.operand[j] == reg;
        if (reg < first_result || graph_.program.last_use[reg] != s || repeated) continue;
        if ((SizeOf(graph_.program.registers[reg]) == SizeOf(graph_.program.registers[step.result])) ==
            same_size)
          free_slots.push_back(graph_.program.slot[reg]);
      }
    };
    for (int s = 0; s < num_steps; ++s) {
      const MicroStep& step = graph_.program.steps[static_cast<std::size_t>(s)];
      release(step, s, true);
      if (free_slots.empty()) {
        graph_.program.slot[step.result] = static_cast<std::uint16_t>(graph_.program.num_slots++);
      } else {
        graph_.program.slot[step.result] = free_slots.back();
        free_slots.pop_back();
      }
      release(step, s, false);
    }
  }

  const Expression& expression_;
  MicroGraph graph_;
  std::vector<int> value_;  // register of the expression -> register or node of the lowering
};

}  // namespace

MicroProgram Lower(const Expression& expression) { return Lowering(expression).Run(); }

}  // namespace ipu_model
