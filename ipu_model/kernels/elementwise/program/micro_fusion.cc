#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "kernels/elementwise/program/micro_graph.h"
#include "kernels/vector/convert.h"

namespace ipu_model {
namespace {

class Fusion {
 public:
  explicit Fusion(MicroGraph& graph) : graph_(graph) {}

  void Run() {
    for (MicroNode& node : graph_.nodes)
      if (!node.dead) MultiplyByInverse(node);
    for (MicroNode& node : graph_.nodes)
      if (!node.dead && node.plain) Contract(node);
    graph_.RemoveDead();
    for (MicroNode& node : graph_.nodes)
      if (!node.dead && node.plain) FuseRotate(node);
    graph_.RemoveDead();
    for (MicroNode& node : graph_.nodes)
      if (!node.dead && node.plain) FusePair(node);
  }

 private:
  // Returns the node that computes `reg` if it has this code and type and no other user; otherwise null.
  MicroNode* SingleUse(int reg, int code, RegisterType type) {
    if (reg < MicroGraph::kNodeBase || graph_.uses[MicroGraph::Index(reg)] != 1) return nullptr;
    MicroNode& node = graph_.nodes[MicroGraph::Index(reg)];
    return node.code == code && node.type == type && node.plain ? &node : nullptr;
  }

  // Replaces `node` by a fused operation, which takes over the operands of `part`.
  void Become(MicroNode& node, FusedOp op, RegisterType type, std::initializer_list<int> operands,
              MicroNode* part, std::uint32_t immediate = 0) {
    const MicroFunction function = BestFunctions().fused(op, type);
    if (function == nullptr) return;
    SetFused(node, Code(op), function, operands, part, immediate);
    node.type = type;
  }
  static void SetFused(MicroNode& node, int code, MicroFunction function, std::initializer_list<int> operands,
                       MicroNode* part, std::uint32_t immediate) {
    node.code = code;
    node.function = function;
    node.num_operands = static_cast<int>(operands.size());
    std::copy(operands.begin(), operands.end(), node.operand);
    node.immediate = immediate;
    node.nanoseconds = std::max(node.nanoseconds, part->nanoseconds);
    part->dead = true;
  }

  // x / 2^k becomes x * 2^-k, which is exact. LLVM, and therefore XLA:CPU, does the same.
  void MultiplyByInverse(MicroNode& node) {
    if (node.code != Code(ScalarOp::kDivide) || node.type != RegisterType::kF32) return;
    std::uint64_t raw = 0;
    if (!graph_.ConstantInteger(node.operand[1], &raw)) return;
    const auto bits = static_cast<std::uint32_t>(raw);
    const std::uint32_t exponent = bits >> 23 & 0xff;
    if ((bits & 0x7fffffu) != 0 || exponent < 2 || exponent > 252) return;
    const float inverse = 1.0f / FloatOf(bits);
    unsigned char bytes[16] = {};
    std::memcpy(bytes, &inverse, sizeof(inverse));
    node.operand[1] = graph_.AddConstant(DType::kF32, bytes);
    node.code = Code(ScalarOp::kMultiply);
    node.function = BestFunctions().arithmetic(ScalarOp::kMultiply, RegisterType::kF32);
    node.nanoseconds = Nanoseconds(ScalarOp::kMultiply, RegisterType::kF32);
  }

  // Contracts the first operand that is a multiplication without other users, as LLVM, and therefore XLA:CPU,
  // does. Not f64: IPUs compute it in software without a multiply-add, so each operation rounds.
  void Contract(MicroNode& node) {
    const RegisterType type = node.type;
    if (type != RegisterType::kF32) return;
    const int a = node.operand[0], b = node.operand[1], multiply = Code(ScalarOp::kMultiply);
    if (node.code == Code(ScalarOp::kAdd)) {
      const MicroFunction fma = BestFunctions().arithmetic(ScalarOp::kFma, type);
      if (MicroNode* m = SingleUse(a, multiply, type)) {
        SetFused(node, Code(ScalarOp::kFma), fma, {m->operand[0], m->operand[1], b}, m, 0);
      } else if (MicroNode* n = SingleUse(b, multiply, type)) {
        SetFused(node, Code(ScalarOp::kFma), fma, {n->operand[0], n->operand[1], a}, n, 0);
      }
    } else if (node.code == Code(ScalarOp::kSubtract)) {
      if (MicroNode* m = SingleUse(a, multiply, type)) {
        Become(node, FusedOp::kMultiplySubtract, type, {m->operand[0], m->operand[1], b}, m);
      } else if (MicroNode* n = SingleUse(b, multiply, type)) {
        Become(node, FusedOp::kSubtractMultiply, type, {n->operand[0], n->operand[1], a}, n);
      }
    }
  }

  // x << c | x >> (width - c)
  void FuseRotate(MicroNode& node) {
    if (node.code != Code(ScalarOp::kOr) && node.code != Code(ScalarOp::kXor) &&
        node.code != Code(ScalarOp::kAdd))
      return;
    const std::uint64_t width = SizeOf(node.type) * 8;
    if (width < 32 || node.type >= RegisterType::kF32) return;
    for (int first = 0; first < 2; ++first) {
      MicroNode* left = SingleUse(node.operand[first], Code(ScalarOp::kShiftLeft), node.type);
      MicroNode* right = SingleUse(node.operand[1 - first], Code(ScalarOp::kShiftRightLogical), node.type);
      std::uint64_t l = 0, r = 0;
      if (left == nullptr || right == nullptr || left->operand[0] != right->operand[0] ||
          !graph_.ConstantInteger(left->operand[1], &l) || !graph_.ConstantInteger(right->operand[1], &r)) {
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
  void FusePair(MicroNode& node) {
    const RegisterType type = node.type;
    const int a = node.operand[0], b = node.operand[1];
    if (node.code == Code(ScalarOp::kSelect) && SizeOf(type) == 4) return FuseSelect(node);
    if (node.code == Code(ScalarOp::kXor)) {
      for (int k = 0; k < 2; ++k) {
        if (MicroNode* r = SingleUse(node.operand[k], Code(FusedOp::kRotateLeft), type))
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
      if (MicroNode* p = SingleUse(a, Code(pair.inner), type))
        return Become(node, pair.fused, type, {p->operand[0], p->operand[1], b}, p);
      if (!pair.commutes) continue;
      if (MicroNode* p = SingleUse(b, Code(pair.inner), type))
        return Become(node, pair.fused, type, {p->operand[0], p->operand[1], a}, p);
    }
  }
  // Fuses an f64 sum with a product.
  void FuseProduct(MicroNode& node) {
    const bool add = node.code == Code(ScalarOp::kAdd);
    if (!add && node.code != Code(ScalarOp::kSubtract)) return;
    for (int k = 0; k < 2; ++k) {
      MicroNode* p = SingleUse(node.operand[k], Code(ScalarOp::kMultiply), RegisterType::kF64);
      if (p == nullptr) continue;
      const FusedOp op = add      ? FusedOp::kProductPlus
                         : k == 0 ? FusedOp::kProductMinus
                                  : FusedOp::kMinusProduct;
      return Become(node, op, RegisterType::kF64, {p->operand[0], p->operand[1], node.operand[1 - k]}, p);
    }
  }
  // Fuses an operation with the fused pair that computes its operand.
  bool FuseThird(MicroNode& node) {
    for (int k = 0; k < 2; ++k) {
      const int x = node.operand[k], other = node.operand[1 - k];
      if (node.code == Code(ScalarOp::kMultiply)) {
        for (const auto& [inner, fused] :
             {std::pair(Code(FusedOp::kAddMultiply), FusedOp::kAddMultiplyMultiply),
              std::pair(Code(ScalarOp::kFma), FusedOp::kFmaMultiply)}) {
          MicroNode* p = SingleUse(x, inner, RegisterType::kF32);
          if (p == nullptr) continue;
          Become(node, fused, RegisterType::kF32, {p->operand[0], p->operand[1], p->operand[2], other}, p);
          return true;
        }
      } else if (node.code == Code(ScalarOp::kFma)) {
        MicroNode* p = SingleUse(x, Code(ScalarOp::kMultiply), RegisterType::kF32);
        if (p == nullptr) continue;
        Become(node, FusedOp::kMultiplyFma, RegisterType::kF32,
               {p->operand[0], p->operand[1], other, node.operand[2]}, p);
        return true;
      }
    }
    return false;
  }
  void FuseSelect(MicroNode& node) {
    for (const RegisterType type : {RegisterType::kF32, RegisterType::kS32, RegisterType::kU32}) {
      for (int op = Code(ScalarOp::kEq); op <= Code(ScalarOp::kGe); ++op) {
        if (MicroNode* c = SingleUse(node.operand[0], op, type))
          return Become(node, FusedOp::kSelectCompare, type,
                        {c->operand[0], c->operand[1], node.operand[1], node.operand[2]}, c,
                        static_cast<std::uint32_t>(op));
      }
    }
  }

  MicroGraph& graph_;
};

}  // namespace

void Fuse(MicroGraph& graph) { Fusion(graph).Run(); }

}  // namespace ipu_model
