// Elementwise expressions: kernel and expansion have the same vertices; every scalar operation of every type
// has the same values, exactly where IEEE 754 or the integers define them.
#include "hlo/Elementwise.hpp"
#include "testing/codelet_cache.h"
#include "testing/expansion_check.h"
#include "testing/scalar_operations.h"
#include "testing/test_instructions.h"

namespace hlo::testing {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

const toy::SharedCodeletCache cache;

constexpr DType kReal[] = {DType::kF32, DType::kF16, DType::kBF16};
constexpr DType kSmall[] = {DType::kF8E4M3FN, DType::kF8E5M2,        DType::kF8E4M3FNUZ, DType::kF8E5M2FNUZ,
                            DType::kF8E3M4,   DType::kF8E4M3B11FNUZ, DType::kF8E4M3};
constexpr DType kIntegers[] = {DType::kS2, DType::kS4, DType::kS8, DType::kS16, DType::kS32, DType::kS64,
                               DType::kU2, DType::kU4, DType::kU8, DType::kU16, DType::kU32, DType::kU64};

// One instruction for each row, on the inputs 0, 1 and 2 of `type`, and 3, a predicate.
void CheckOperations(DType type, const std::vector<OperationRow>& rows, bool moderate, std::uint32_t ulps) {
  Expression e;
  e.inputs = {type, type, type, DType::kPred};
  for (const OperationRow& row : rows) {
    const DType result = row.result == DType::kCount ? type : row.result;
    e.outputs.push_back(static_cast<std::uint16_t>(4 + e.code.size()));
    e.code.push_back(row.op == ScalarOp::kSelect ? Op(row.op, type, result, 3, 0, 1)
                                                 : Op(row.op, type, result, 0, 1, 2, row.immediate));
  }
  Graph graph = SmallGraph();
  constexpr std::size_t kElements = 999;
  std::vector<Tensor> inputs;
  std::vector<Bytes> values;
  for (unsigned i = 0; i < 4; ++i) {
    inputs.push_back(Linear(graph, e.inputs[i], {kElements}));
    values.push_back(RandomElements(e.inputs[i], kElements, i + 1, moderate));
  }
  Sequence prog;
  const std::vector<Tensor> outputs =
      hlo::map(graph, e, inputs, std::vector<Tensor>(e.outputs.size()), prog, "map");
  ExpansionCheck check(graph, prog, inputs, outputs);
  check.SameVertices();
  check.SameValues(values, Within(ulps));
}

// Operations of all reals whose results the kernels and the codelets round equally.
std::vector<OperationRow> ExactOperations() {
  std::vector<OperationRow> rows;
  for (const ScalarOp op :
       {ScalarOp::kAbs,       ScalarOp::kNegate,          ScalarOp::kSign,     ScalarOp::kCeil,
        ScalarOp::kFloor,     ScalarOp::kRoundNearestAfz, ScalarOp::kTrunc,    ScalarOp::kRoundNearestEven,
        ScalarOp::kSqrt,      ScalarOp::kRsqrt,           ScalarOp::kSquare,   ScalarOp::kInverse,
        ScalarOp::kAdd,       ScalarOp::kSubtract,        ScalarOp::kMultiply, ScalarOp::kDivide,
        ScalarOp::kRemainder, ScalarOp::kMaximum,         ScalarOp::kMinimum,  ScalarOp::kSelect,
        ScalarOp::kClamp})
    rows.push_back({op, kSame});
  for (const ScalarOp op : {ScalarOp::kIsFinite, ScalarOp::kEq, ScalarOp::kNe, ScalarOp::kLt, ScalarOp::kLe,
                            ScalarOp::kGt, ScalarOp::kGe, ScalarOp::kTotalLt})
    rows.push_back({op, kP});
  return rows;
}

TEST(ExactOperationsOfReals) {
  for (const DType type : kReal) {
    std::vector<OperationRow> rows = ExactOperations();
    rows.push_back({ScalarOp::kReal, kSame});
    rows.push_back({ScalarOp::kImag, kSame});
    if (type != DType::kF16) {
      for (const std::uint32_t bits : {5u << 8 | 10, 8u << 8 | 7, 4u << 8 | 3, 11u << 8 | 52, 5u << 8 | 0})
        rows.push_back({ScalarOp::kReducePrecision, kSame, bits});
    }
    CheckOperations(type, rows, false, 0);
  }
}

// Numbers of 8 bits are computed in f32, f64 by integers.
TEST(ExactOperationsOfEmulatedReals) {
  std::vector<DType> types(std::begin(kSmall), std::end(kSmall));
  types.push_back(DType::kF64);
  for (const DType type : types) {
    std::vector<OperationRow> rows = ExactOperations();
    if (type == DType::kF64)
      for (const std::uint32_t bits : {5u << 8 | 10, 8u << 8 | 23, 11u << 8 | 52, 4u << 8 | 3})
        rows.push_back({ScalarOp::kReducePrecision, kSame, bits});
    CheckOperations(type, rows, false, 0);
  }
}

// Their last bits are the library's; the device has instructions of its own for them.
TEST(ElementaryFunctions) {
  for (const DType type : kReal) {
    std::vector<OperationRow> rows;
    for (const ScalarOp op :
         {ScalarOp::kCbrt, ScalarOp::kCos, ScalarOp::kSin, ScalarOp::kTan, ScalarOp::kTanh, ScalarOp::kExp,
          ScalarOp::kExpm1, ScalarOp::kLog, ScalarOp::kLog1p, ScalarOp::kLogistic, ScalarOp::kErf,
          ScalarOp::kPower, ScalarOp::kAtan2})
      rows.push_back({op, kSame});
    CheckOperations(type, rows, true, 4);
  }
}

// Close to the multiples of pi / 2, where little is left of an angle, and where the library takes over.
TEST(SinesAndCosinesOfLargeAngles) {
  std::vector<float> angles = {0.0f, -0.0f, 1e-40f, 99999.0f,
                               1e5f, -1e5f, 3e7f,   std::numeric_limits<float>::infinity()};
  for (int n = -300; n <= 300; ++n) {
    const double angle = n * 212.0 * 1.5707963267948966;
    for (const double less : {0.0, 1.5707963267948966, 3.14159265358979312})
      angles.push_back(static_cast<float>(angle - less));
    angles.push_back(std::nextafter(static_cast<float>(angle), 0.0f));
  }
  Bytes bytes(angles.size() * sizeof(float));
  std::memcpy(bytes.data(), angles.data(), bytes.size());
  Expression e;
  e.inputs = {DType::kF32};
  for (const ScalarOp op : {ScalarOp::kSin, ScalarOp::kCos, ScalarOp::kTan}) {
    e.outputs.push_back(static_cast<std::uint16_t>(1 + e.code.size()));
    e.code.push_back(Op(op, DType::kF32, DType::kF32, 0));
  }
  Graph graph = SmallGraph();
  const std::vector<Tensor> inputs = {Linear(graph, DType::kF32, {angles.size()})};
  Sequence prog;
  const std::vector<Tensor> outputs = hlo::map(graph, e, inputs, std::vector<Tensor>(3), prog, "map");
  ExpansionCheck check(graph, prog, inputs, outputs);
  check.SameVertices();
  check.SameValues({bytes}, Within(4));
}

TEST(OperationsOfIntegers) {
  for (const DType type : kIntegers) {
    std::vector<OperationRow> rows;
    for (const ScalarOp op : {ScalarOp::kAbs,
                              ScalarOp::kNegate,
                              ScalarOp::kSign,
                              ScalarOp::kNot,
                              ScalarOp::kPopcnt,
                              ScalarOp::kClz,
                              ScalarOp::kAdd,
                              ScalarOp::kSubtract,
                              ScalarOp::kMultiply,
                              ScalarOp::kDivide,
                              ScalarOp::kRemainder,
                              ScalarOp::kPower,
                              ScalarOp::kMaximum,
                              ScalarOp::kMinimum,
                              ScalarOp::kAnd,
                              ScalarOp::kOr,
                              ScalarOp::kXor,
                              ScalarOp::kShiftLeft,
                              ScalarOp::kShiftRightLogical,
                              ScalarOp::kShiftRightArithmetic,
                              ScalarOp::kSelect,
                              ScalarOp::kClamp,
                              ScalarOp::kSquare})
      rows.push_back({op, kSame});
    for (const ScalarOp op :
         {ScalarOp::kEq, ScalarOp::kNe, ScalarOp::kLt, ScalarOp::kLe, ScalarOp::kGt, ScalarOp::kGe})
      rows.push_back({op, kP});
    CheckOperations(type, rows, false, 0);
  }
}

// Each of these divisors has another form: powers, multipliers that fit, and those that need an increment.
TEST(DivisionsOfIntegersByConstants) {
  for (const DType type : kIntegers) {
    Expression e;
    e.inputs = {type};
    for (const std::int64_t divisor : {3, 7, 8, 10, 100, 0, 1, -1, -2, -7, -100}) {
      ScalarConstant constant;
      constant.type = type;
      const std::int64_t bits =
          SizeOf(type) == 8 ? divisor : divisor & ((std::int64_t{1} << SizeOf(type) * 8) - 1);
      std::memcpy(constant.bytes, &bits, sizeof(bits));
      e.constants.push_back(constant);
    }
    const auto last = static_cast<std::uint16_t>(e.constants.size());
    for (std::uint16_t c = 1; c <= last; ++c)
      for (const ScalarOp op : {ScalarOp::kDivide, ScalarOp::kRemainder}) {
        e.outputs.push_back(static_cast<std::uint16_t>(1 + last + e.code.size()));
        e.code.push_back(Op(op, type, type, 0, c));
      }
    Graph graph = SmallGraph();
    constexpr std::size_t kElements = 999;
    const std::vector<Tensor> inputs = {Linear(graph, type, {kElements})};
    Sequence prog;
    const std::vector<Tensor> outputs =
        hlo::map(graph, e, inputs, std::vector<Tensor>(e.outputs.size()), prog, "map");
    ExpansionCheck check(graph, prog, inputs, outputs);
    check.SameVertices();
    check.SameValues({RandomElements(type, kElements, 1, false)}, Within(0));
  }
}

TEST(OperationsOfPredicates) {
  std::vector<OperationRow> rows;
  for (const ScalarOp op : {ScalarOp::kNot, ScalarOp::kAnd, ScalarOp::kOr, ScalarOp::kXor, ScalarOp::kSelect,
                            ScalarOp::kAdd, ScalarOp::kMultiply, ScalarOp::kMaximum, ScalarOp::kMinimum,
                            ScalarOp::kEq, ScalarOp::kNe, ScalarOp::kLt, ScalarOp::kLe})
    rows.push_back({op, kP});
  CheckOperations(kP, rows, false, 0);
}

TEST(ConversionsBetweenAllTypes) {
  std::vector<DType> types(std::begin(kReal), std::end(kReal));
  types.insert(types.end(), std::begin(kIntegers), std::end(kIntegers));
  types.insert(types.end(), std::begin(kSmall), std::end(kSmall));
  types.insert(types.end(), {DType::kF64, DType::kF8E8M0FNU, DType::kF4E2M1FN});
  types.push_back(kP);
  Graph graph = SmallGraph();
  Expression e;
  e.inputs = types;
  for (std::uint16_t i = 0; i < types.size(); ++i) {
    for (const DType to : types) {
      e.outputs.push_back(static_cast<std::uint16_t>(types.size() + e.code.size()));
      e.code.push_back(Op(ScalarOp::kConvert, types[i], to, i));
    }
  }
  std::vector<Tensor> inputs;
  std::vector<Bytes> values;
  for (unsigned i = 0; i < types.size(); ++i) {
    inputs.push_back(Linear(graph, types[i], {301}));
    values.push_back(RandomElements(types[i], 301, i + 1, false));
  }
  Sequence prog;
  const std::vector<Tensor> outputs =
      hlo::map(graph, e, inputs, std::vector<Tensor>(e.outputs.size()), prog, "convert");
  ExpansionCheck check(graph, prog, inputs, outputs);
  check.SameVertices();
  check.SameValues(values, SameBits);
}

TEST(Bitcasts) {
  Expression e;
  e.inputs = {DType::kF32, DType::kS32, DType::kF16, DType::kU16, DType::kBF16, DType::kS8};
  const auto cast = [&e](DType from, DType to, std::uint16_t reg) {
    e.outputs.push_back(static_cast<std::uint16_t>(6 + e.code.size()));
    e.code.push_back(Op(ScalarOp::kBitcast, from, to, reg));
  };
  cast(DType::kF32, DType::kU32, 0);
  cast(DType::kS32, DType::kF32, 1);
  cast(DType::kF16, DType::kU16, 2);
  cast(DType::kU16, DType::kF16, 3);
  cast(DType::kU16, DType::kBF16, 3);
  cast(DType::kBF16, DType::kS16, 4);
  cast(DType::kF16, DType::kBF16, 2);
  cast(DType::kS8, DType::kU8, 5);
  Graph graph = SmallGraph();
  std::vector<Tensor> inputs;
  std::vector<Bytes> values;
  for (unsigned i = 0; i < e.inputs.size(); ++i) {
    inputs.push_back(Linear(graph, e.inputs[i], {500}));
    values.push_back(RandomElements(e.inputs[i], 500, i + 1, false));
  }
  Sequence prog;
  const std::vector<Tensor> outputs = hlo::map(graph, e, inputs, std::vector<Tensor>(8), prog, "bitcast");
  ExpansionCheck check(graph, prog, inputs, outputs);
  check.SameVertices();
  check.SameValues(values, SameBits);
}

ScalarConstant Constant(float value) {
  ScalarConstant c;
  c.type = DType::kF32;
  std::memcpy(c.bytes, &value, sizeof(value));
  return c;
}

// a * b + c, a * b - c, c - a * b, a / 4 + c, products with two uses, and chains.
TEST(ProductsInSumsAreRoundedOnce) {
  const DType f = DType::kF32;
  Expression e;
  e.inputs = {f, f, f};
  e.constants = {Constant(4.0f), Constant(3.0f)};
  const auto op = [&](ScalarOp o, int a, int b) {
    e.code.push_back(Op(o, f, f, static_cast<std::uint16_t>(a), static_cast<std::uint16_t>(b)));
    return static_cast<int>(4 + e.code.size());
  };
  std::vector<int> results;
  results.push_back(op(ScalarOp::kAdd, op(ScalarOp::kMultiply, 0, 1), 2));
  results.push_back(op(ScalarOp::kSubtract, op(ScalarOp::kMultiply, 0, 1), 2));
  results.push_back(op(ScalarOp::kSubtract, 2, op(ScalarOp::kMultiply, 0, 1)));
  results.push_back(op(ScalarOp::kAdd, op(ScalarOp::kDivide, 0, 3), 2));
  results.push_back(op(ScalarOp::kAdd, op(ScalarOp::kDivide, 0, 4), 2));
  results.push_back(op(ScalarOp::kDivide, 0, 3));
  const int twice = op(ScalarOp::kMultiply, 1, 2);
  results.push_back(op(ScalarOp::kAdd, twice, 0));
  results.push_back(op(ScalarOp::kAdd, twice, 1));
  const int left = op(ScalarOp::kMultiply, 0, 1), right = op(ScalarOp::kMultiply, 1, 2);
  results.push_back(op(ScalarOp::kAdd, left, right));
  results.push_back(op(ScalarOp::kMultiply, op(ScalarOp::kAdd, op(ScalarOp::kMultiply, 0, 2), 1), 2));
  for (const int r : results) e.outputs.push_back(static_cast<std::uint16_t>(r));
  Graph graph = SmallGraph();
  std::vector<Tensor> inputs;
  std::vector<Bytes> values;
  for (unsigned i = 0; i < 3; ++i) {
    inputs.push_back(Linear(graph, f, {2000}));
    values.push_back(RandomElements(f, 2000, i + 1, true));
  }
  Sequence prog;
  const std::vector<Tensor> outputs =
      hlo::map(graph, e, inputs, std::vector<Tensor>(e.outputs.size()), prog, "products");
  ExpansionCheck check(graph, prog, inputs, outputs);
  check.SameVertices();
  check.SameValues(values, SameBits);
}

// (a - b) * c and max(a, c).
Expression TwoResults() {
  const DType f = DType::kF32;
  Expression e;
  e.inputs = {f, f, f};
  e.code = {Op(ScalarOp::kSubtract, f, f, 0, 1), Op(ScalarOp::kMultiply, f, f, 3, 2),
            Op(ScalarOp::kMaximum, f, f, 0, 2)};
  e.outputs = {4, 5};
  return e;
}

void CheckTwoResults(const std::function<void(Graph&, std::vector<Tensor>*, std::vector<Tensor>*)>& make,
                     bool same_vertices = true) {
  Graph graph = SmallGraph();
  std::vector<Tensor> operands, results(2);
  make(graph, &operands, &results);
  std::vector<Tensor> variables = operands;
  Sequence prog;
  const std::vector<Tensor> outputs = hlo::map(graph, TwoResults(), operands, results, prog, "map");
  std::vector<Bytes> values;
  std::vector<Tensor> written;
  for (const Tensor& t : operands) {
    // Broadcasts are written once, by their first element along the broadcast dimension.
    const Tensor own = t.containsAliases() ? (t.dim(0) > 1 && t.slice(0, 1).containsAliases()
                                                  ? t.slice(0, 1, 0).slice(0, 1, 1)
                                                  : t.slice(0, 1, 0))
                                           : t;
    written.push_back(own);
    values.push_back(
        RandomElements(DType::kF32, own.numElements(), static_cast<unsigned>(values.size()) + 1, true));
  }
  ExpansionCheck check(graph, prog, written, outputs);
  if (same_vertices) check.SameVertices();
  check.SameValues(values, SameBits);
}

TEST(BroadcastsAndScalars) {
  CheckTwoResults([](Graph& g, std::vector<Tensor>* in, std::vector<Tensor>*) {
    const DType f = DType::kF32;
    *in = {Linear(g, f, {5, 13}), Linear(g, f, {1, 13}).broadcast(5, 0),
           Linear(g, f, {1, 1}).broadcast(5, 0).broadcast(13, 1)};
  });
}
// Operands that repeat along rows or columns have vertices of their own cost; the results are in any order.
TEST(RepeatedOperands) {
  struct Case {
    ScalarOp op;
    DType type;
    bool in_place;
  };
  for (const Case& c : {Case{ScalarOp::kAdd, DType::kF32, false}, Case{ScalarOp::kAdd, DType::kF16, false},
                        Case{ScalarOp::kMultiply, DType::kF16, true}}) {
    for (const bool transposed : {false, true}) {
      for (unsigned dimension = 0; dimension < 3; ++dimension) {
        Graph graph = SmallGraph();
        Tensor a = Linear(graph, c.type, {12, 8, 16});
        if (transposed) a = a.dimShuffle({2, 1, 0});
        std::vector<std::size_t> shape = a.shape();
        const auto times = static_cast<unsigned>(shape[dimension]);
        shape[dimension] = 1;
        const Tensor b = Linear(graph, c.type, shape);
        Expression e;
        e.inputs = {c.type, c.type};
        e.code = {Op(c.op, c.type, c.type, 0, 1)};
        e.outputs = {2};
        Sequence prog;
        const std::vector<Tensor> outputs =
            hlo::map(graph, e, {a, b.broadcast(times, dimension)}, {c.in_place ? a : Tensor()}, prog, "map");
        ExpansionCheck(graph, prog, {a, b}, outputs).SameVertices();
      }
    }
  }
}
// Shares that begin and end within rows are one vertex on each tile, as in PopLibs, where all regions of a
// tile are one BinaryOp1D (lib/popops/ElementWise.cpp, binaryOpGeneral).
TEST(BoxesOfATileAreOneVertex) {
  Graph graph = SmallGraph();
  const Tensor a = Linear(graph, DType::kF32, {50, 13}), b = Linear(graph, DType::kF32, {1, 13});
  Expression e;
  e.inputs = {DType::kF32, DType::kF32};
  e.code = {Op(ScalarOp::kAdd, DType::kF32, DType::kF32, 0, 1)};
  e.outputs = {2};
  Sequence prog;
  const std::vector<Tensor> outputs = hlo::map(graph, e, {a, b.broadcast(50, 0)}, {Tensor()}, prog, "map");
  const poplar::Executable executable = poplar::compileGraph(graph, {prog});
  const ipu_model::Report& report = ipu_model::ReportOf(executable);
  std::uint64_t most = 0;
  for (const std::vector<poplar::Interval>& tile : graph.getTileMapping(outputs[0])) {
    std::size_t elements = 0;
    for (const poplar::Interval& interval : tile) elements += interval.size();
    const std::size_t vectors = ((elements + 5) / 6 + 1) / 2;
    most = std::max<std::uint64_t>(most, 6 * (29 + 3 * vectors) + 11);
  }
  CHECK_EQ(report.operations.at(0).cycles.compute, most);
  CHECK_EQ(report.vertex_bytes, 7u * 16);
  ExpansionCheck(graph, prog, {a, b}, outputs).SameVertices();
}
TEST(TransposedOperands) {
  CheckTwoResults([](Graph& g, std::vector<Tensor>* in, std::vector<Tensor>* out) {
    const DType f = DType::kF32;
    *in = {Linear(g, f, {5, 13}), Linear(g, f, {13, 5}).transpose(),
           Linear(g, f, {13, 5}).transpose().reverse(0)};
    *out = {Tensor(), Linear(g, f, {13, 5}).transpose()};
  });
}
TEST(InPlace) {
  CheckTwoResults([](Graph& g, std::vector<Tensor>* in, std::vector<Tensor>* out) {
    const DType f = DType::kF32;
    *in = {Linear(g, f, {6, 9}), Linear(g, f, {6, 9}), Linear(g, f, {6, 9})};
    *out = {(*in)[0], (*in)[2]};
  });
}
TEST(InPlaceWithOneTensorTwice) {
  CheckTwoResults([](Graph& g, std::vector<Tensor>* in, std::vector<Tensor>* out) {
    const DType f = DType::kF32;
    const Tensor a = Linear(g, f, {6, 9});
    *in = {a, Linear(g, f, {6, 9}), a};
    *out = {a, Tensor()};
  });
}
// The result elsewhere needs the old value, which is copied.
TEST(InPlaceAndElsewhere) {
  CheckTwoResults(
      [](Graph& g, std::vector<Tensor>* in, std::vector<Tensor>* out) {
        const DType f = DType::kF32;
        *in = {Linear(g, f, {24}), Linear(g, f, {24}), Linear(g, f, {24})};
        const Tensor elsewhere = g.addVariable(poplar::FLOAT, {24}, "elsewhere");
        g.setTileMapping(elsewhere, 4);
        *out = {(*in)[0], elsewhere};
      },
      false);
}
TEST(OneElement) {
  CheckTwoResults([](Graph& g, std::vector<Tensor>* in, std::vector<Tensor>*) {
    const DType f = DType::kF32;
    *in = {Linear(g, f, {1, 1}), Linear(g, f, {1, 1}), Linear(g, f, {1, 1})};
  });
}

TEST(RefusedTypesAreNamed) {
  for (const DType type : {DType::kF64, DType::kC128}) {  // of f64: a function
    Expression e;
    e.inputs = {type};
    e.code = {Op(type == DType::kF64 ? ScalarOp::kExp : ScalarOp::kNegate, type, type, 0)};
    e.outputs = {1};
    Graph graph = SmallGraph();
    Sequence prog;
    hlo::map(graph, e, {Linear(graph, type, {9})}, {Tensor()}, prog, "the map");
    const std::string message = Refusal(graph, prog);
    CHECK(message.find("the map") != std::string::npos && message.find(NameOf(type)) != std::string::npos);
  }
}

}  // namespace
}  // namespace hlo::testing
