// Tests of the machine code of blocks: random programs give the same bits as the interpreter, for all forms
// of operands.
#include "kernels/elementwise/block_code.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <random>
#include <vector>

#include "check.h"
#include "hlo/ScalarOps.hpp"
#include "kernels/elementwise/elementwise.h"
#include "kernels/host/half_rounding.h"
#include "kernels/host/host_limits.h"
#include "kernels/vector/convert.h"
#include "testing/test_instructions.h"

namespace ipu_model {
namespace {

constexpr std::int64_t kRows = 41, kColumns = 1003;
// After as many runs, every program has done the work after which code is made.
constexpr int kRuns = 12;

HostTensor Matrix(void* data, DType type, std::int64_t row_stride, std::int64_t column_stride) {
  HostTensor t;
  t.data = data;
  t.type = type;
  t.rank = 2;
  t.shape[0] = kRows;
  t.shape[1] = kColumns;
  t.strides[0] = row_stride;
  t.strides[1] = column_stride;
  return t;
}

// The inputs of all programs: dense, one value for a row, one for all, one for a column, and not dense.
class Inputs {
 public:
  explicit Inputs(std::mt19937* random) : random_(*random) {
    const auto dense = static_cast<std::size_t>(kRows * kColumns);
    const float inf = std::numeric_limits<float>::infinity();
    const float special[] = {0.0f,        -0.0f, inf,   -inf,   std::nanf(""), 1e-30f,
                             0.49999997f, 3e9f,  -3e9f, 1e-40f, -2e-40f};
    std::normal_distribution<float> normal;
    floats_.resize(2 * dense);
    integers_.resize(dense);
    predicates_.resize(dense);
    halves_.resize(2 * dense);
    for (float& x : floats_)
      x = random_() % 8 == 0 ? special[random_() % std::size(special)] : 3 * normal(random_);
    for (std::int32_t& x : integers_)
      x = static_cast<std::int32_t>(random_() % 3 == 0 ? random_() : random_() % 40) - 5;
    for (std::uint8_t& x : predicates_) x = random_() % 2;
    // Most of the bits that there are, in no order.
    for (std::size_t i = 0; i < halves_.size(); ++i) halves_[i] = static_cast<std::uint16_t>(i * 40503);
  }
  static std::vector<DType> Types() {
    using T = DType;
    return {T::kF32, T::kF32,  T::kF32,  T::kF32, T::kF32, T::kS32,  T::kS32,
            T::kU32, T::kPred, T::kPred, T::kU8,  T::kU8,  T::kS8,   T::kU16,
            T::kS16, T::kS16,  T::kF16,  T::kF16, T::kF16, T::kBF16, T::kBF16};
  }
  std::vector<HostTensor> Tensors() {
    using T = DType;
    float* f = floats_.data();
    std::int32_t* i = integers_.data();
    std::uint8_t* p = predicates_.data();
    std::uint16_t* h = halves_.data();
    return {Matrix(f, T::kF32, kColumns, 1),     Matrix(f + 7, T::kF32, 1, 0),
            Matrix(f + 90, T::kF32, 0, 0),       Matrix(f + 99, T::kF32, 0, 1),
            Matrix(f, T::kF32, 2 * kColumns, 2), Matrix(i, T::kS32, kColumns, 1),
            Matrix(i + 3, T::kS32, 0, 0),        Matrix(i, T::kU32, kColumns, 1),
            Matrix(p, T::kPred, kColumns, 1),    Matrix(p + 5, T::kPred, 1, 0),
            Matrix(i, T::kU8, kColumns, 1),      Matrix(i + 5, T::kU8, 1, 0),
            Matrix(i, T::kS8, 2 * kColumns, 2),  Matrix(i, T::kU16, kColumns, 1),
            Matrix(i, T::kS16, kColumns, 1),     Matrix(i + 9, T::kS16, 0, 0),
            Matrix(h, T::kF16, kColumns, 1),     Matrix(h + 14, T::kF16, 0, 0),
            Matrix(h, T::kF16, 2 * kColumns, 2), Matrix(h, T::kBF16, kColumns, 1),
            Matrix(h + 99, T::kBF16, 1, 0)};
  }

 private:
  std::mt19937& random_;
  std::vector<float> floats_;
  std::vector<std::int32_t> integers_;
  std::vector<std::uint8_t> predicates_;
  std::vector<std::uint16_t> halves_;
};

bool IsNan(DType type, std::uint32_t bits) {
  return std::isnan(type == DType::kF16    ? F16ToF32(static_cast<std::uint16_t>(bits))
                    : type == DType::kBF16 ? BF16ToF32(static_cast<std::uint16_t>(bits))
                                           : FloatOf(bits));
}
std::uint32_t BitsAt(DType type, const std::vector<std::uint32_t>& values, std::size_t i) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, reinterpret_cast<const char*>(values.data()) + i * SizeOf(type), SizeOf(type));
  return bits;
}
// Of floats, any NaN is the same as any other.
bool AreSame(DType type, const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b,
             std::size_t n) {
  if (a == b) return true;
  bool same = true;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t x = BitsAt(type, a, i), y = BitsAt(type, b, i);
    same = same && (x == y || (IsFloat(type) && IsNan(type, x) && IsNan(type, y)));
  }
  return same;
}

const std::vector<DType>& NarrowTypes() {
  static const std::vector<DType> types = {DType::kU8, DType::kS8, DType::kU16, DType::kS16};
  return types;
}

// A program of random operations; every value that nothing reads is an output, up to four. The integers are
// of a few types, so that some programs have narrow values only.
Expression RandomProgram(std::mt19937& random, int operations) {
  using O = ScalarOp;
  static const std::vector<O> kOfFloats = {O::kAbs,     O::kNegate,   O::kSign,     O::kCeil,     O::kFloor,
                                           O::kTrunc,   O::kSqrt,     O::kSquare,   O::kInverse,  O::kAdd,
                                           O::kAdd,     O::kSubtract, O::kMultiply, O::kMultiply, O::kDivide,
                                           O::kMaximum, O::kMinimum,  O::kClamp,    O::kSelect,   O::kExp};
  static const std::vector<O> kOfIntegers = {O::kAdd,       O::kSubtract,
                                             O::kMultiply,  O::kAnd,
                                             O::kOr,        O::kXor,
                                             O::kShiftLeft, O::kShiftRightLogical,
                                             O::kSign,      O::kNot,
                                             O::kMaximum,   O::kMinimum,
                                             O::kSelect,    O::kShiftRightArithmetic,
                                             O::kClamp};
  static const std::vector<O> kComparisons = {O::kEq, O::kNe, O::kLt, O::kLe, O::kGt, O::kGe};
  Expression e;
  e.inputs = Inputs::Types();
  for (const float x : {0.5f, -1.0f, 0.0f}) {
    ScalarConstant c;
    c.type = DType::kF32;
    std::memcpy(c.bytes, &x, sizeof(x));
    e.constants.push_back(c);
  }
  for (const DType type : NarrowTypes()) {
    for (const std::uint32_t x : {3u, 0xff80u + static_cast<std::uint32_t>(random() % 256)}) {
      ScalarConstant c;
      c.type = type;
      std::memcpy(c.bytes, &x, SizeOf(type));
      e.constants.push_back(c);
    }
  }
  std::vector<DType> types = e.inputs;
  for (const ScalarConstant& c : e.constants) types.push_back(c.type);
  std::vector<bool> read(types.size() + static_cast<std::size_t>(operations), false);
  const auto pick = [&](DType type) {
    std::vector<std::uint16_t> of_type;
    for (std::size_t r = 0; r < types.size(); ++r)
      if (types[r] == type) of_type.push_back(static_cast<std::uint16_t>(r));
    const std::size_t back = std::min<std::size_t>(random() % 2, of_type.size() - 1);
    const std::size_t late = random() % 2 == 0 ? of_type.size() - 1 - back : random() % of_type.size();
    read[of_type[late]] = true;
    return of_type[late];
  };
  std::vector<DType> operand_types = {DType::kF32, DType::kF32, DType::kF32,
                                      DType::kS32, DType::kU32, DType::kPred};
  const auto narrow = [&random] { return NarrowTypes()[random() % NarrowTypes().size()]; };
  if (random() % 3 == 0) operand_types = {narrow(), DType::kF32, DType::kS32, DType::kPred};
  if (random() % 3 == 0) operand_types = {narrow(), narrow(), DType::kPred};
  if (random() % 4 == 0) operand_types = {random() % 2 == 0 ? DType::kU8 : DType::kS8, DType::kPred};
  const DType half = random() % 3 == 0 ? DType::kBF16 : DType::kF16;
  if (random() % 3 == 0) operand_types = {half, half, half, DType::kF32, DType::kU16, DType::kPred};
  for (int i = 0; i < operations; ++i) {
    DType type = operand_types[random() % operand_types.size()], result = type;
    O op = O::kAnd;
    if (type == DType::kPred) {
      static const std::vector<O> kLogic = {O::kAnd, O::kOr, O::kXor, O::kNot, O::kSelect};
      op = kLogic[random() % kLogic.size()];
      if (random() % 8 == 0) {
        op = O::kConvert;
        result = DType::kU8;
      }
    } else if (random() % 4 == 0) {
      op = kComparisons[random() % kComparisons.size()];
      result = DType::kPred;
    } else if (SizeOf(type) == 1 && random() % 6 == 0) {
      op = O::kBitcast;
      result = type == DType::kU8 ? DType::kS8 : DType::kU8;
    } else if (type == DType::kU16 && random() % 3 == 0) {
      op = O::kBitcast;
      result = half;
    } else if (random() % 8 == 0) {
      op = O::kConvert;
      result = operand_types[random() % operand_types.size()];
      if (result == DType::kPred || result == type) result = type == DType::kF32 ? DType::kS32 : DType::kF32;
    } else {
      const std::vector<O>& ops = IsFloat(type) ? kOfFloats : kOfIntegers;
      op = ops[random() % ops.size()];
    }
    Instruction instruction = Op(op, type, result, 0, 0, 0, 0);
    for (std::size_t k = 0; k < static_cast<std::size_t>(OperandsOf(op)); ++k)
      instruction.operand[k] = pick(op == O::kSelect && k == 0 ? DType::kPred : type);
    e.code.push_back(instruction);
    types.push_back(result);
  }
  for (std::size_t r = types.size(); r-- > e.inputs.size() + e.constants.size() && e.outputs.size() < 4;)
    if (!read[r] || e.outputs.empty()) e.outputs.push_back(static_cast<std::uint16_t>(r));
  return e;
}

// Runs a new kernel on each row, which is too little work for code.
void RunRows(HostContext& context, const Expression& e, std::vector<HostTensor> in,
             std::vector<HostTensor> out) {
  for (std::int64_t r = 0; r < kRows; ++r) {
    const auto row = [r](HostTensor t) {
      t.data =
          static_cast<unsigned char*>(t.data) + r * t.strides[0] * static_cast<std::int64_t>(SizeOf(t.type));
      t.shape[0] = 1;
      return t;
    };
    std::vector<HostTensor> row_in, row_out;
    for (const HostTensor& t : in) row_in.push_back(row(t));
    for (const HostTensor& t : out) row_out.push_back(row(t));
    ElementwiseKernel(e).Run(context, row_in, row_out);
  }
}

TEST(RandomProgramsGiveTheSameBits) {
  std::mt19937 random(1);
  Inputs inputs(&random);
  Scratch scratch;
  HostContext context{ThreadPool::Global(), scratch};
  const FlushDenormals flush;
  // Half of the programs for every change; every operation has a test of its own below.
  const int tests = jax_ipu::testing::Everything() ? 120 : 60;
  for (int test = 0; test < tests; ++test) {
    const Expression e = RandomProgram(random, 3 + static_cast<int>(random() % 40));
    std::vector<std::vector<std::uint32_t>> got, expected;
    std::vector<HostTensor> got_tensors, expected_tensors;
    for (const std::uint16_t output : e.outputs) {
      for (auto* values : {&got, &expected}) {
        values->emplace_back(static_cast<std::size_t>(kRows * kColumns));
        (values == &got ? got_tensors : expected_tensors)
            .push_back(Matrix(values->back().data(), e.TypeOf(output), kColumns, 1));
      }
    }
    RunRows(context, e, inputs.Tensors(), expected_tensors);
    const ElementwiseKernel kernel(e);
    for (int run = 0; run < kRuns; ++run) kernel.Run(context, inputs.Tensors(), got_tensors);
    for (std::size_t o = 0; o < got.size(); ++o) {
      CHECK(AreSame(e.TypeOf(e.outputs[o]), got[o], expected[o], got[o].size()));
    }
  }
}

// The same for kernels that are bound to one row; the addresses change once there is code.
TEST(BoundProgramsGiveTheSameBits) {
  std::mt19937 random(2);
  Inputs inputs(&random);
  const FlushDenormals flush;
  constexpr auto kColumnCount = static_cast<std::size_t>(kColumns);
  int bound_programs = 0;
  for (int test = 0; test < 30; ++test) {
    const Expression e = RandomProgram(random, 3 + static_cast<int>(random() % 12));
    std::vector<HostTensor> in = inputs.Tensors(), out, other;
    std::vector<std::vector<std::uint32_t>> values(2 * e.outputs.size(),
                                                   std::vector<std::uint32_t>(kColumnCount));
    for (std::size_t o = 0; o < e.outputs.size(); ++o) {
      const DType type = e.TypeOf(e.outputs[o]);
      out.push_back(Matrix(values[2 * o].data(), type, kColumns, 1));
      other.push_back(Matrix(values[2 * o + 1].data(), type, kColumns, 1));
    }
    for (auto* tensors : {&in, &out, &other})
      for (HostTensor& t : *tensors) t.shape[0] = 1;
    const ElementwiseKernel kernel(e);
    const auto bound = kernel.Bind(in.data(), out.data());
    if (bound == nullptr) continue;
    ++bound_programs;
    Scratch scratch;
    auto* memory = static_cast<unsigned char*>(scratch.Allocate(bound->scratch_bytes()));
    bound->Point(in.data(), out.data(), memory);
    bound->Run();
    for (int run = 0; run < 400; ++run) bound->Run();
    bound->Point(in.data(), other.data(), memory);
    bound->Run();
    Scratch more;
    HostContext context{ThreadPool::Global(), more};
    ElementwiseKernel(e).Run(context, in, out);
    for (std::size_t o = 0; o < e.outputs.size(); ++o) {
      CHECK(AreSame(e.TypeOf(e.outputs[o]), values[2 * o], values[2 * o + 1], kColumnCount));
    }
  }
  CHECK(bound_programs > 0);
}

// Every operation that has code, on every combination of special values.
struct Case {
  ScalarOp op;
  DType type, result;
  int predicates = 0;  // of the operands, the first
};
std::vector<Case> Cases() {
  using O = ScalarOp;
  std::vector<Case> cases;
  const auto add = [&cases](DType type, DType result, std::initializer_list<O> ops) {
    for (const O op : ops) cases.push_back({op, type, result, op == O::kSelect ? 1 : 0});
  };
  for (const DType type : {DType::kF32, DType::kF16, DType::kS32, DType::kU32, DType::kU8, DType::kS8,
                           DType::kU16, DType::kS16}) {
    add(type, type, {O::kAdd, O::kSubtract, O::kMaximum, O::kMinimum, O::kClamp, O::kSelect, O::kNegate});
    add(type, type, {O::kMultiply, O::kSquare});
    add(type, DType::kPred, {O::kEq, O::kNe, O::kLt, O::kLe, O::kGt, O::kGe, O::kConvert});
    if (IsFloat(type)) continue;
    add(type, type, {O::kAnd, O::kOr, O::kXor, O::kNot, O::kShiftLeft, O::kShiftRightLogical});
    add(type, type, {O::kShiftRightArithmetic});
  }
  for (const DType type : NarrowTypes()) {
    add(type, type, {O::kDivide, O::kRemainder});
    if (type == DType::kS8 || type == DType::kS16) add(type, type, {O::kAbs, O::kSign});
    for (const DType to : NarrowTypes())
      if (to != type) add(type, to, {O::kConvert});
    for (const DType other : {DType::kF32, DType::kS32, DType::kU32}) {
      add(type, other, {O::kConvert});
      add(other, type, {O::kConvert});
    }
    if (type != DType::kU8) add(DType::kPred, type, {O::kConvert});  // which has the same register
  }
  add(DType::kF16, DType::kF16, {O::kAbs, O::kSqrt, O::kDivide, O::kFloor, O::kFma});
  add(DType::kF16, DType::kF32, {O::kConvert});
  add(DType::kF32, DType::kF16, {O::kConvert});
  add(DType::kF32, DType::kF32, {O::kAbs, O::kSign, O::kSqrt, O::kRsqrt, O::kInverse, O::kDivide});
  add(DType::kF32, DType::kF32, {O::kFloor, O::kCeil, O::kTrunc, O::kRoundNearestEven, O::kFma});
  add(DType::kF32, DType::kPred, {O::kIsFinite});
  add(DType::kF32, DType::kS32, {O::kConvert});
  add(DType::kS32, DType::kF32, {O::kConvert});
  add(DType::kS32, DType::kS32, {O::kAbs, O::kSign});
  add(DType::kPred, DType::kPred, {O::kAnd, O::kOr, O::kXor, O::kNot, O::kSelect, O::kEq, O::kNe});
  add(DType::kPred, DType::kPred, {O::kLt, O::kLe, O::kGt, O::kGe});
  add(DType::kPred, DType::kF32, {O::kConvert});
  add(DType::kPred, DType::kS32, {O::kConvert});
  return cases;
}

// Operand `k` of element `i`: together the elements have all combinations of three values.
template <typename T>
T Combined(const std::vector<T>& values, std::size_t i, int k) {
  for (; k > 0; --k) i /= values.size();
  return values[i % values.size()];
}
std::uint32_t SpecialBits(DType type, std::size_t i, int k) {
  static const float inf = std::numeric_limits<float>::infinity();
  static const std::vector<float> floats = {0.0f,   -0.0f, inf,  -inf, std::nanf(""), 1e-40f, -1e-40f, 2e-40f,
                                            1e-38f, -0.5f, 1.5f, 3e9f, -3e38f,        255.5f, -128.5f, 70000};
  static const std::vector<std::uint32_t> integers = {0,  1,  2,          31,         32,
                                                      33, 40, 0x7fffffff, 0x80000000, 0xfffffffe};
  static const std::vector<std::uint32_t> narrow = {0,   1,   2,   7,   8,      9,      15,     16,
                                                    127, 128, 200, 255, 0x7fff, 0x8000, 0xff80, 0xffff};
  if (type == DType::kF32) return BitsOf(Combined(floats, i, k));
  return SizeOf(type) < 4 ? Combined(narrow, i, k) : Combined(integers, i, k);
}

TEST(EveryOperationGivesTheSameBitsForSpecialValues) {
  Scratch scratch;
  HostContext context{ThreadPool::Global(), scratch};
  const FlushDenormals flush;
  constexpr auto kElements = static_cast<std::size_t>(kRows * kColumns);
  for (const Case& c : Cases()) {
    const int operands = OperandsOf(c.op);
    Expression e;
    std::vector<std::vector<std::uint32_t>> values;
    std::vector<HostTensor> in;
    for (int k = 0; k < operands; ++k) {
      e.inputs.push_back(k < c.predicates ? DType::kPred : c.type);
      std::vector<std::uint32_t>& of = values.emplace_back(kElements);
      auto* bytes = reinterpret_cast<std::uint8_t*>(of.data());
      for (std::size_t i = 0; i < kElements; ++i) {
        if (e.inputs.back() == DType::kPred) {
          bytes[i] = (i >> k) & 1;
        } else {
          const std::uint32_t bits = SpecialBits(c.type, i, k);
          std::memcpy(bytes + i * SizeOf(c.type), &bits, SizeOf(c.type));
        }
      }
      in.push_back(Matrix(of.data(), e.inputs.back(), kColumns, 1));
    }
    const auto result = static_cast<std::uint16_t>(operands);
    e.code = {Op(c.op, c.type, c.result, 0, 1, 2),
              Op(IsFloat(c.result) ? ScalarOp::kNegate : ScalarOp::kNot, c.result, c.result, result)};
    e.outputs = {result, static_cast<std::uint16_t>(result + 1)};
    std::vector<std::vector<std::uint32_t>> got(2, std::vector<std::uint32_t>(kElements)), expected = got;
    std::vector<HostTensor> got_tensors, expected_tensors;
    for (std::size_t o = 0; o < 2; ++o) {
      got_tensors.push_back(Matrix(got[o].data(), c.result, kColumns, 1));
      expected_tensors.push_back(Matrix(expected[o].data(), c.result, kColumns, 1));
    }
    const MicroProgram program = Lower(e);
    const Arrangement arrangement = Arrange(program, in.data(), got_tensors.data(), kShortRows, scratch);
    const bool made = BlockCodeCache().Make(arrangement) != nullptr;
    if (!made)
      std::fprintf(stderr, "operation %d of type %d has no code\n", static_cast<int>(c.op),
                   static_cast<int>(c.type));
    CHECK(made || !FinalHostLimits().machine_code);

    RunRows(context, e, in, expected_tensors);
    const ElementwiseKernel kernel(e);
    for (int run = 0; run < kRuns; ++run) kernel.Run(context, in, got_tensors);
    for (std::size_t o = 0; o < 2; ++o) {
      if (got[o] == expected[o]) continue;
      std::size_t different = 0, at = 0;
      for (std::size_t i = 0; i < kElements; ++i) {
        // Of two NaN, either may be the result.
        int nans = 0;
        for (int k = c.predicates; IsFloat(c.type) && k < operands; ++k)
          nans += IsNan(c.type, BitsAt(c.type, values[static_cast<std::size_t>(k)], i)) ? 1 : 0;
        const std::uint32_t x = BitsAt(c.result, got[o], i), y = BitsAt(c.result, expected[o], i);
        // How f16 keeps the bits of a NaN depends on where it is in a block.
        const bool any_nan = nans > 1 || c.result == DType::kF16 || c.type == DType::kF16;
        if (x == y || (IsFloat(c.result) && any_nan && IsNan(c.result, x) && IsNan(c.result, y))) continue;
        ++different;
        at = i;
      }
      if (different > 0) std::fprintf(stderr, "operation %d at %zu\n", static_cast<int>(c.op), at);
      CHECK_EQ(different, 0u);
    }
  }
}

// Extrema of which an operand is a constant have shorter code.
TEST(ConstantBoundsGiveTheSameBits) {
  Scratch scratch;
  HostContext context{ThreadPool::Global(), scratch};
  const FlushDenormals flush;
  constexpr auto kElements = static_cast<std::size_t>(kRows * kColumns);
  std::vector<std::uint32_t> x(kElements);
  for (std::size_t i = 0; i < kElements; ++i) x[i] = SpecialBits(DType::kF32, i, 0);
  const std::vector<HostTensor> in = {Matrix(x.data(), DType::kF32, kColumns, 1)};
  const float inf = std::numeric_limits<float>::infinity();
  const float bounds[] = {0.0f, -0.0f, 1.5f, -0.5f, 1e-40f, -1e-40f, inf, -inf, std::nanf("")};
  for (const float low : bounds) {
    for (const float high : bounds) {
      Expression e;
      e.inputs = {DType::kF32};
      for (const float bound : {low, high}) {
        ScalarConstant c;
        c.type = DType::kF32;
        std::memcpy(c.bytes, &bound, sizeof(bound));
        e.constants.push_back(c);
      }
      e.code = {Op(ScalarOp::kMaximum, DType::kF32, DType::kF32, 0, 1),
                Op(ScalarOp::kMinimum, DType::kF32, DType::kF32, 2, 0),
                Op(ScalarOp::kClamp, DType::kF32, DType::kF32, 1, 0, 2)};
      e.outputs = {3, 4, 5};
      std::vector<std::vector<std::uint32_t>> got(3, std::vector<std::uint32_t>(kElements)), expected = got;
      std::vector<HostTensor> got_tensors, expected_tensors;
      for (std::size_t o = 0; o < 3; ++o) {
        got_tensors.push_back(Matrix(got[o].data(), DType::kF32, kColumns, 1));
        expected_tensors.push_back(Matrix(expected[o].data(), DType::kF32, kColumns, 1));
      }
      RunRows(context, e, in, expected_tensors);
      const ElementwiseKernel kernel(e);
      for (int run = 0; run < kRuns; ++run) kernel.Run(context, in, got_tensors);
      for (std::size_t o = 0; o < 3; ++o) CHECK(AreSame(DType::kF32, got[o], expected[o], kElements));
    }
  }
}

// A chain of f16 operations from and to memory is one section of code, until f16 rounds stochastically.
TEST(ChainsOfHalfAreOneSection) {
  Expression e;
  e.inputs = {DType::kF16, DType::kF16};
  e.code = {Op(ScalarOp::kMultiply, DType::kF16, DType::kF16, 0, 1),
            Op(ScalarOp::kAdd, DType::kF16, DType::kF16, 2, 0),
            Op(ScalarOp::kMaximum, DType::kF16, DType::kF16, 3, 0)};
  e.outputs = {4};
  // 1 * 2^-12 + 1 is a quarter of the way from one f16 to the next.
  const auto elements = static_cast<std::size_t>(kRows * kColumns);
  std::vector<std::uint16_t> ones(elements, 0x3c00), small(elements, 0x0c00), got(elements);
  const HostTensor in[] = {Matrix(ones.data(), DType::kF16, kColumns, 1),
                           Matrix(small.data(), DType::kF16, kColumns, 1)};
  const HostTensor out = Matrix(got.data(), DType::kF16, kColumns, 1);
  Scratch scratch;
  const MicroProgram program = Lower(e);
  const Arrangement arrangement = Arrange(program, in, &out, kShortRows, scratch);
  BlockCodeCache cache;
  const auto code = cache.Make(arrangement);
  if (FinalHostLimits().machine_code) {
    CHECK(code != nullptr);
    CHECK_EQ(code->sections.size(), 1u);
    CHECK_EQ(code->sections[0].end, program.steps.size());
  }
  HostContext context{ThreadPool::Global(), scratch};
  const ElementwiseKernel kernel(e);
  for (int run = 0; run < kRuns; ++run) kernel.Run(context, in, &out);
  CHECK(std::all_of(got.begin(), got.end(), [](std::uint16_t x) { return x == 0x3c00; }));
  SetStochasticRounding(true, 1);
  kernel.Run(context, in, &out);
  SetStochasticRounding(false, 0);
  const auto up = static_cast<double>(std::count(got.begin(), got.end(), 0x3c01));
  CHECK_NEAR(up / static_cast<double>(elements), 0.25, 0.02);
  kernel.Run(context, in, &out);
  CHECK(std::all_of(got.begin(), got.end(), [](std::uint16_t x) { return x == 0x3c00; }));
}

// A chain of choices, as JAX spells hypot, is one section of code.
TEST(ChoicesAndTheirComparisonsAreOneSection) {
  using O = ScalarOp;
  Expression e;
  e.inputs = {DType::kF32, DType::kF32};
  e.code = {Op(O::kAbs, DType::kF32, DType::kF32, 0),     Op(O::kMaximum, DType::kF32, DType::kF32, 2, 1),
            Op(O::kEq, DType::kF32, DType::kPred, 2, 1),  Op(O::kLt, DType::kF32, DType::kPred, 3, 1),
            Op(O::kOr, DType::kPred, DType::kPred, 4, 5), Op(O::kSelect, DType::kF32, DType::kF32, 6, 2, 3),
            Op(O::kSqrt, DType::kF32, DType::kF32, 7)};
  e.outputs = {8};
  const MicroProgram program = Lower(e);
  std::vector<float> values(static_cast<std::size_t>(kRows * kColumns));
  const HostTensor in[] = {Matrix(values.data(), DType::kF32, kColumns, 1),
                           Matrix(values.data(), DType::kF32, kColumns, 1)};
  const HostTensor out = Matrix(values.data(), DType::kF32, kColumns, 1);
  Scratch scratch;
  const Arrangement arrangement = Arrange(program, in, &out, kShortRows, scratch);
  BlockCodeCache cache;
  CHECK(cache.Find(arrangement, 1) == nullptr);
  const auto code = cache.Find(arrangement, std::int64_t{1} << 40);
  CHECK(code != nullptr);
  CHECK_EQ(code->sections.size(), 1u);
  CHECK_EQ(code->sections[0].end, program.steps.size());
  CHECK_EQ(code->sections[0].operands.size(), 2u);
  CHECK_EQ(code->sections[0].results.size(), 1u);
}

}  // namespace
}  // namespace ipu_model
