// The operations of a program for the block interpreter before registers are allocated, and their fusion.
#ifndef IPU_MODEL_KERNELS_ELEMENTWISE_PROGRAM_MICRO_GRAPH_H_
#define IPU_MODEL_KERNELS_ELEMENTWISE_PROGRAM_MICRO_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/elementwise/program/micro_op.h"
#include "kernels/elementwise/program/micro_program.h"

namespace ipu_model {

// The block functions for the instructions of this host.
struct MicroFunctions {
  MicroFunction (*arithmetic)(ScalarOp, RegisterType);
  MicroFunction (*integer)(ScalarOp, RegisterType);
  MicroFunction (*math)(ScalarOp, RegisterType);
  MicroFunction (*complex)(ScalarOp, RegisterType);
  MicroFunction (*fused)(FusedOp, RegisterType);
  MicroFunction (*convert)(RegisterType, RegisterType);
  MicroFunction (*load)(DType);
};
const MicroFunctions& BestFunctions();

// Of an operation, per element on one core: a rough estimate.
double Nanoseconds(ScalarOp op, RegisterType type);

// An operation before register allocation. `code` is as in MicroKind.
constexpr int Code(ScalarOp op) { return static_cast<int>(op); }
constexpr int Code(FusedOp op) { return MicroKind::kFusedCode + static_cast<int>(op); }

struct MicroNode {
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

// Operations in the order of their results, and the program that they become.
struct MicroGraph {
  // The number of the first node's result. Constants are numbered below it, so that more may be added.
  static constexpr int kNodeBase = 1 << 20;

  MicroProgram program;  // inputs and constants; the rest is set when the graph is finished
  std::vector<RegisterType> constant_types;
  std::vector<int> outputs;
  std::vector<MicroNode> nodes;
  std::vector<int> uses;  // of each node, as RemoveDead counted them

  static std::size_t Index(int reg) { return static_cast<std::size_t>(reg - kNodeBase); }

  // Each returns the number of what it adds.
  int AddConstant(DType type, const unsigned char* bytes);
  int Add(MicroNode node);
  int AddFused(FusedOp op, RegisterType type, RegisterType result, int operand, std::uint32_t immediate);

  // Whether a register is a constant, whose bits are then in `value`.
  bool ConstantInteger(int reg, std::uint64_t* value) const;

  // Counts uses, and marks nodes without any.
  void RemoveDead();
};

// Replaces groups of operations by one that makes a single pass over the block.
void Fuse(MicroGraph& graph);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_ELEMENTWISE_PROGRAM_MICRO_GRAPH_H_
