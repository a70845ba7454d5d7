#include "kernels/elementwise/program/micro_graph.h"

#include <array>
#include <cstring>

#include "hlo/ScalarOps.hpp"
#include "kernels/host/isa.h"

namespace ipu_model {

const MicroFunctions& BestFunctions() {
  static const MicroFunctions functions =
      HasAvx512() ? MicroFunctions{avx512::FindArithmetic, avx512::FindInteger,
                                   avx512::FindMath,       avx512::FindComplexArithmetic,
                                   avx512::FindFused,      avx512::FindConvert,
                                   avx512::FindLoad}
                  : MicroFunctions{
                        avx2::FindArithmetic, avx2::FindInteger, avx2::FindMath, avx2::FindComplexArithmetic,
                        avx2::FindFused,      avx2::FindConvert, avx2::FindLoad};
  return functions;
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

int MicroGraph::AddConstant(DType type, const unsigned char* bytes) {
  std::array<unsigned char, 16> value{};
  if (const MicroFunction load = BestFunctions().load(type)) {
    MicroArguments m{value.data(), {bytes}, 1, 0, 0};
    load(m);
  } else {
    std::memcpy(value.data(), bytes, SizeOf(type));
  }
  program.constants.push_back(value);
  constant_types.push_back(RegisterTypeOf(type));
  return static_cast<int>(program.inputs.size() + program.constants.size()) - 1;
}

int MicroGraph::Add(MicroNode node) {
  nodes.push_back(node);
  return kNodeBase + static_cast<int>(nodes.size()) - 1;
}

int MicroGraph::AddFused(FusedOp op, RegisterType type, RegisterType result, int operand,
                         std::uint32_t immediate) {
  MicroNode node;
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

void MicroGraph::RemoveDead() {
  uses.assign(nodes.size(), 0);
  for (const int output : outputs)
    if (output >= kNodeBase) ++uses[Index(output)];
  for (std::size_t i = nodes.size(); i-- > 0;) {
    MicroNode& node = nodes[i];
    node.dead = uses[i] == 0;
    if (node.dead) continue;
    for (int k = 0; k < node.num_operands; ++k)
      if (node.operand[k] >= kNodeBase) ++uses[Index(node.operand[k])];
  }
}

bool MicroGraph::ConstantInteger(int reg, std::uint64_t* value) const {
  const int first = static_cast<int>(program.inputs.size());
  if (reg < first || reg >= first + static_cast<int>(program.constants.size())) return false;
  std::memcpy(value, program.constants[static_cast<std::size_t>(reg - first)].data(), sizeof(*value));
  return true;
}

}  // namespace ipu_model
