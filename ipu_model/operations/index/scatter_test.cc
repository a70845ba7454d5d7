// Compares scatter with its definition: general and recognised updates, whole and vertex by vertex.
#include "popops/Scatter.hpp"

#include <cmath>
#include <limits>

#include "hlo/Index.hpp"
#include "hlo/SingleOperation.hpp"
#include "kernels/elementwise/program/expression.h"
#include "popops/DynamicSlice.hpp"
#include "testing/plan_runner.h"
#include "testing/random_windows.h"
#include "testing/test_instructions.h"

namespace ipu_model {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

// One instruction on operand_0 and update_0; kConvert stands for "replace".
Expression Single(ScalarOp op, DType type) {
  Expression e;
  e.inputs = {type, type};
  if (op == ScalarOp::kConvert) {
    e.outputs = {1};
  } else {
    e.code.push_back(Op(op, type, type, 1, 0));
    e.outputs = {2};
  }
  return e;
}

float Apply(ScalarOp op, float a, float b) {
  switch (op) {
    case ScalarOp::kAdd:
      return a + b;
    case ScalarOp::kMultiply:
      return a * b;
    case ScalarOp::kMaximum:
      return std::max(a, b);
    case ScalarOp::kMinimum:
      return std::min(a, b);
    case ScalarOp::kSubtract:
      return b - a;  // not recognised, so it takes the general path; depends on the order
    default:
      return b;
  }
}

std::vector<float> Floats(const Bytes& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

TEST(ScatterEqualsDefinition) {
  std::mt19937 random(1);
  constexpr ScalarOp kOps[] = {ScalarOp::kAdd,     ScalarOp::kMultiply, ScalarOp::kMaximum,
                               ScalarOp::kMinimum, ScalarOp::kSubtract, ScalarOp::kConvert};
  for (int round = 0; round < 400; ++round) {
    const RandomWindows problem(random);
    const ScalarOp op = kOps[random() % 6];
    Graph graph(poplar::Target::createIPUTarget(1, 1 + random() % 9, "ipu2"));
    const Tensor operand = round % 2 == 0 ? MappedVariable(graph, DType::kF32, problem.operand)
                                          : RandomlyCut(graph, DType::kF32, problem.operand, random);
    const Tensor indices = MappedVariable(graph, DType::kS32, problem.indices);
    const Tensor updates = MappedVariable(graph, DType::kF32, problem.windows);
    Sequence prog, in_place;
    const Tensor out = hlo::scatter(graph, {operand}, indices, {updates}, problem.dims, false,
                                    Single(op, DType::kF32), prog, false, "s")[0];
    const Tensor same = hlo::scatter(graph, {operand}, indices, {updates}, problem.dims, false,
                                     Single(op, DType::kF32), in_place, true, "s")[0];
    std::vector<float> values(static_cast<std::size_t>(NumElements(problem.operand)) + 1);
    std::vector<float> update_values(static_cast<std::size_t>(NumElements(problem.windows)) + 1);
    for (float& v : values) v = static_cast<float>(static_cast<int>(random() % 9) - 4);
    for (float& v : update_values) v = static_cast<float>(static_cast<int>(random() % 5) - 2);
    std::vector<std::int32_t> index(static_cast<std::size_t>(NumElements(problem.indices)) + 1);
    for (std::int32_t& v : index) v = static_cast<std::int32_t>(random() % 9) - 2;
    std::vector<float> expected(values.begin(), values.end() - 1);
    problem.ForEach(std::vector<std::int64_t>(index.begin(), index.end()), false,
                    [&](std::int64_t from, std::int64_t to) {
                      if (to < 0) return;
                      float& v = expected[static_cast<std::size_t>(to)];
                      v = Apply(op, v, update_values[static_cast<std::size_t>(from)]);
                    });
    for (int mode = 0; mode < 3; ++mode) {
      PlanRunner runner(graph, mode == 2 ? 128 : 0);
      runner.Store(operand, values.data());
      runner.Store(indices, index.data());
      runner.Store(updates, update_values.data());
      mode == 0 ? runner.RunWhole(prog) : runner.RunVertices(prog);
      CHECK(Floats(runner.Load(out)) == expected);
      CHECK(Floats(runner.Load(operand)) == std::vector<float>(values.begin(), values.end() - 1));
      mode == 0 ? runner.RunWhole(in_place) : runner.RunVertices(in_place);
      CHECK(Floats(runner.Load(same)) == expected);
    }
  }
}

// The sizes reach every way of dividing the work among threads.
TEST(LargeScattersKeepTheOrder) {
  struct Form {
    std::int64_t rows, columns, updates;
    bool unique;
  };
  for (const Form form : {Form{500, 1, 60000, false}, Form{300, 64, 900, false}, Form{4000, 16, 3000, true},
                          Form{5, 8, 5000, false}, Form{700, 16, 40000, false}, Form{40, 5, 33000, false}}) {
    Graph graph(poplar::Target::createIPUTarget(1, 4, "ipu2"));
    const Tensor operand = MappedVariable(graph, DType::kF32, {form.rows, form.columns});
    const Tensor indices = MappedVariable(graph, DType::kS32, {form.updates});
    const Tensor updates = MappedVariable(graph, DType::kF32, {form.updates, form.columns});
    WindowDims dims;
    dims.offset_dims = {1};
    dims.collapsed_dims = {0};
    dims.start_index_map = {0};
    dims.index_vector_dim = 1;
    Sequence sum, set, general;
    const auto add = [&](ScalarOp op, Sequence& prog) {
      return hlo::scatter(graph, {operand}, indices, {updates}, dims, form.unique, Single(op, DType::kF32),
                          prog)[0];
    };
    const Tensor summed = add(ScalarOp::kAdd, sum), replaced = add(ScalarOp::kConvert, set),
                 subtracted = add(ScalarOp::kSubtract, general);
    std::mt19937 random(7);
    const std::size_t n = static_cast<std::size_t>(form.rows * form.columns);
    std::vector<float> values(n, 1.0f), update_values(static_cast<std::size_t>(form.updates * form.columns));
    for (float& v : update_values) v = static_cast<float>(random() % 1000) * 0.001f;
    std::vector<std::int32_t> index(static_cast<std::size_t>(form.updates));
    for (std::size_t i = 0; i < index.size(); ++i) {
      index[i] = form.unique ? static_cast<std::int32_t>((i * 7) % static_cast<std::size_t>(form.rows))
                             : static_cast<std::int32_t>(random() % (form.rows + 2)) - 1;
    }
    std::vector<float> expected_sum = values, expected_set = values, expected_general = values;
    for (std::size_t i = 0; i < index.size(); ++i) {
      if (index[i] < 0 || index[i] >= form.rows) continue;
      for (std::int64_t c = 0; c < form.columns; ++c) {
        const std::size_t to = static_cast<std::size_t>(index[i] * form.columns + c);
        const float u =
            update_values[i * static_cast<std::size_t>(form.columns) + static_cast<std::size_t>(c)];
        expected_sum[to] += u;
        expected_set[to] = u;
        expected_general[to] = u - expected_general[to];
      }
    }
    PlanRunner runner(graph, 0);
    runner.Store(operand, values.data());
    runner.Store(indices, index.data());
    runner.Store(updates, update_values.data());
    runner.RunWhole(sum);
    runner.RunWhole(set);
    runner.RunWhole(general);
    CHECK(Floats(runner.Load(summed)) == expected_sum);
    CHECK(Floats(runner.Load(replaced)) == expected_set);
    CHECK(Floats(runner.Load(subtracted)) == expected_general);
  }
}

TEST(LongSumsAndExtremaAreDividedByUpdates) {
  // 600 rows take fewer cycles in shares on many tiles; elements without updates keep even the sign of zero.
  constexpr std::int64_t kRows = 40, kColumns = 6, kUpdates = 600;
  Graph graph(poplar::Target::createIPUTarget(1, 64, "ipu2"));
  const Tensor operand = MappedVariable(graph, DType::kF32, {kRows, kColumns});
  const Tensor indices = MappedVariable(graph, DType::kS32, {kUpdates, 1});
  const Tensor updates = MappedVariable(graph, DType::kF32, {kUpdates, kColumns});
  WindowDims dims;
  dims.offset_dims = {1};
  dims.collapsed_dims = {0};
  dims.start_index_map = {0};
  dims.index_vector_dim = 1;
  std::vector<float> values(kRows * kColumns, -0.0f), update_values(kUpdates * kColumns, 1.0f);
  std::vector<std::int32_t> index(kUpdates);
  for (std::size_t i = 0; i < index.size(); ++i) index[i] = static_cast<std::int32_t>(i % 30);
  for (const ScalarOp op : {ScalarOp::kAdd, ScalarOp::kMaximum}) {
    Sequence prog;
    const Tensor out =
        hlo::scatter(graph, {operand}, indices, {updates}, dims, false, Single(op, DType::kF32), prog)[0];
    PlanRunner runner(graph, 0);
    runner.Store(operand, values.data());
    runner.Store(updates, update_values.data());
    runner.Store(indices, index.data());
    runner.RunVertices(prog);
    CHECK_EQ(runner.supersteps(), 2u);
    const std::vector<float> got = Floats(runner.Load(out));
    for (std::size_t i = 0; i < got.size(); ++i) {
      const bool updated = i / kColumns < 30;
      CHECK_EQ(got[i], !updated ? 0.0f : op == ScalarOp::kAdd ? 20.0f : 1.0f);
      CHECK_EQ(std::signbit(got[i]), !updated);
    }
  }
}

TEST(OfReplacementsThatAreDividedTheLastCounts) {
  constexpr std::int64_t kElements = 40, kUpdates = 3000;
  Graph graph(poplar::Target::createIPUTarget(1, 64, "ipu2"));
  const Tensor operand = MappedVariable(graph, DType::kF32, {kElements});
  const Tensor indices = MappedVariable(graph, DType::kS32, {kUpdates, 1});
  const Tensor updates = MappedVariable(graph, DType::kF32, {kUpdates});
  WindowDims dims;
  dims.collapsed_dims = {0};
  dims.start_index_map = {0};
  dims.index_vector_dim = 1;
  Sequence prog;
  const Tensor out = hlo::scatter(graph, {operand}, indices, {updates}, dims, false,
                                  Single(ScalarOp::kConvert, DType::kF32), prog)[0];
  std::vector<float> values(kElements, -1.0f), update_values(kUpdates);
  std::vector<std::int32_t> index(kUpdates);
  std::vector<float> expected = values;
  std::mt19937 random(5);
  for (std::size_t i = 0; i < kUpdates; ++i) {
    index[i] = static_cast<std::int32_t>(random() % (kElements + 9)) - 4;
    update_values[i] = static_cast<float>(i);
    // The last elements have no update.
    if (index[i] >= 35) index[i] = -1;
    if (index[i] >= 0) expected[static_cast<std::size_t>(index[i])] = update_values[i];
  }
  PlanRunner runner(graph, 0);
  runner.Store(operand, values.data());
  runner.Store(indices, index.data());
  runner.Store(updates, update_values.data());
  runner.RunVertices(prog);
  CHECK_EQ(runner.supersteps(), 2u);
  CHECK(Floats(runner.Load(out)) == expected);
}

TEST(OperandsMayDependOnEachOther) {
  // (a, b), (x, y) -> (a + y, b * 10 + x), which depends on the order.
  Graph graph(poplar::Target::createIPUTarget(1, 3, "ipu2"));
  Expression e;
  e.inputs = {DType::kS32, DType::kS64, DType::kS32, DType::kS64};
  ScalarConstant ten;
  ten.type = DType::kS64;
  ten.bytes[0] = 10;
  e.constants = {ten};
  Instruction narrow = Op(ScalarOp::kConvert, DType::kS64, DType::kS64, 3, 0),
              wide = Op(ScalarOp::kConvert, DType::kS32, DType::kS32, 2, 0);
  narrow.result_type = DType::kS32;
  wide.result_type = DType::kS64;
  e.code = {narrow, Op(ScalarOp::kAdd, DType::kS32, DType::kS32, 0, 5), wide,
            Op(ScalarOp::kMultiply, DType::kS64, DType::kS64, 1, 4),
            Op(ScalarOp::kAdd, DType::kS64, DType::kS64, 8, 7)};
  e.outputs = {6, 9};
  const Tensor a = MappedVariable(graph, DType::kS32, {4}), b = MappedVariable(graph, DType::kS64, {4});
  const Tensor x = MappedVariable(graph, DType::kS32, {6}), y = MappedVariable(graph, DType::kS64, {6});
  const Tensor indices = MappedVariable(graph, DType::kU8, {6, 1});
  WindowDims dims;
  dims.collapsed_dims = {0};
  dims.start_index_map = {0};
  dims.index_vector_dim = 1;
  Sequence prog;
  const auto out = hlo::scatter(graph, {a, b}, indices, {x, y}, dims, false, e, prog);
  for (const bool whole : {true, false}) {
    PlanRunner runner(graph, 0);
    const std::int32_t av[] = {1, 2, 3, 4}, xv[] = {1, 2, 3, 4, 5, 6};
    const std::int64_t bv[] = {0, 0, 7, 0}, yv[] = {10, 20, 30, 40, 50, 60};
    const std::uint8_t iv[] = {1, 1, 0, 200, 3, 1};
    runner.Store(a, av);
    runner.Store(b, bv);
    runner.Store(x, xv);
    runner.Store(y, yv);
    runner.Store(indices, iv);
    whole ? runner.RunWhole(prog) : runner.RunVertices(prog);
    std::int32_t ra[4];
    std::int64_t rb[4];
    std::memcpy(ra, runner.Load(out[0]).data(), sizeof(ra));
    std::memcpy(rb, runner.Load(out[1]).data(), sizeof(rb));
    const std::int32_t ea[] = {31, 92, 3, 54};
    const std::int64_t eb[] = {3, 126, 7, 5};
    for (int i = 0; i < 4; ++i) {
      CHECK_EQ(ra[i], ea[i]);
      CHECK_EQ(rb[i], eb[i]);
    }
  }
}

TEST(ExtremaKeepNanAndTheSignOfZero) {
  Graph graph(poplar::Target::createIPUTarget(1, 1, "ipu2"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor operand = MappedVariable(graph, DType::kF32, {4}),
               updates = MappedVariable(graph, DType::kF32, {4});
  const Tensor indices = MappedVariable(graph, DType::kS32, {4, 1});
  WindowDims dims;
  dims.collapsed_dims = {0};
  dims.start_index_map = {0};
  dims.index_vector_dim = 1;
  Sequence prog;
  const Tensor most = hlo::scatter(graph, {operand}, indices, {updates}, dims, false,
                                   Single(ScalarOp::kMaximum, DType::kF32), prog)[0];
  const Tensor least = hlo::scatter(graph, {operand}, indices, {updates}, dims, false,
                                    Single(ScalarOp::kMinimum, DType::kF32), prog)[0];
  PlanRunner runner(graph, 0);
  const float values[] = {nan, 1.0f, -0.0f, 0.0f}, update_values[] = {1.0f, nan, 0.0f, -0.0f};
  const std::int32_t index[] = {0, 1, 2, 3};
  runner.Store(operand, values);
  runner.Store(updates, update_values);
  runner.Store(indices, index);
  runner.RunWhole(prog);
  const std::vector<float> high = Floats(runner.Load(most)), low = Floats(runner.Load(least));
  CHECK(std::isnan(high[0]) && std::isnan(high[1]) && std::isnan(low[0]) && std::isnan(low[1]));
  CHECK(!std::signbit(high[2]) && !std::signbit(high[3]));
  CHECK(std::signbit(low[2]) && std::signbit(low[3]));
}

// Updates with the neutral element leave all elements as they are: every pattern of 8 bits, as the upper
// byte.
TEST(NeutralElementsChangeNothing) {
  Graph graph(poplar::Target::createIPUTarget(1, 1, "ipu2"));
  constexpr std::int64_t kElements = 256;
  int pairs = 0;
  for (int number = 0; number < static_cast<int>(DType::kCount); ++number) {
    const auto type = static_cast<DType>(number);
    for (const ScalarOp op : {ScalarOp::kAdd, ScalarOp::kMultiply, ScalarOp::kMaximum, ScalarOp::kMinimum,
                              ScalarOp::kAnd, ScalarOp::kOr, ScalarOp::kXor}) {
      const auto bits = hlo::NeutralBits(op, type);
      if (!bits) continue;
      ++pairs;
      const std::size_t size = SizeOf(type);
      const bool less_than_byte =
          type == DType::kS2 || type == DType::kS4 || type == DType::kU2 || type == DType::kU4;
      Bytes values(kElements * size), neutral(kElements * size);
      for (std::size_t i = 0; i < kElements; ++i) {
        const auto pattern = static_cast<int>(i);
        std::int64_t upper = type == DType::kPred ? pattern & 1 : pattern;
        if (less_than_byte) upper = IsSigned(type) ? pattern % 4 - 2 : pattern % 4;
        // No NaN, whose bits may change.
        if (IsFloat(type) || IsComplex(type)) upper = pattern & 0xbf;
        std::memcpy(values.data() + (i + 1) * size - 1, &upper, 1);
        std::memcpy(neutral.data() + i * size, &*bits, size);
      }
      const Tensor operand = MappedVariable(graph, type, {kElements}),
                   updates = MappedVariable(graph, type, {1, kElements}),
                   indices = MappedVariable(graph, DType::kS32, {1, 1});
      WindowDims dims;
      dims.offset_dims = {1};
      dims.start_index_map = {0};
      dims.index_vector_dim = 1;
      Sequence prog;
      const Tensor out =
          hlo::scatter(graph, {operand}, indices, {updates}, dims, false, Single(op, type), prog)[0];
      PlanRunner runner(graph, 0);
      const std::int32_t zero = 0;
      runner.Store(operand, values.data());
      runner.Store(updates, neutral.data());
      runner.Store(indices, &zero);
      runner.RunWhole(prog);
      const Bytes got = runner.Load(out);
      CHECK(std::memcmp(got.data(), values.data(), values.size()) == 0);
    }
  }
  CHECK_EQ(pairs, 13 * 7 + 4 * 4 + 1);  // of whole numbers and truth values, of floats, and complex sums
}

TEST(NarrowTypesRoundAfterEachUpdate) {
  // 256 + 1 is not a bf16, so adding 1 three times, one at a time, changes nothing.
  Graph graph(poplar::Target::createIPUTarget(1, 2, "ipu2"));
  const Tensor operand = MappedVariable(graph, DType::kBF16, {2}),
               updates = MappedVariable(graph, DType::kBF16, {3});
  const Tensor indices = MappedVariable(graph, DType::kS32, {3, 1});
  WindowDims dims;
  dims.collapsed_dims = {0};
  dims.start_index_map = {0};
  dims.index_vector_dim = 1;
  Sequence prog;
  const Tensor out = hlo::scatter(graph, {operand}, indices, {updates}, dims, false,
                                  Single(ScalarOp::kAdd, DType::kBF16), prog)[0];
  for (const bool whole : {true, false}) {
    PlanRunner runner(graph, 0);
    const std::uint16_t values[] = {0x4380, 0x3f80}, ones[] = {0x3f80, 0x3f80, 0x3f80};
    const std::int32_t index[] = {0, 0, 0};
    runner.Store(operand, values);
    runner.Store(updates, ones);
    runner.Store(indices, index);
    whole ? runner.RunWhole(prog) : runner.RunVertices(prog);
    std::uint16_t got[2];
    std::memcpy(got, runner.Load(out).data(), sizeof(got));
    CHECK_EQ(got[0], 0x4380);
    CHECK_EQ(got[1], 0x3f80);
  }
}

TEST(MismatchedUpdatesAreRefused) {
  Graph graph(poplar::Target::createIPUTarget(1, 1, "ipu2"));
  const Tensor operand = MappedVariable(graph, DType::kF32, {4}),
               updates = MappedVariable(graph, DType::kS32, {4});
  const Tensor indices = MappedVariable(graph, DType::kS32, {4, 1});
  WindowDims dims;
  dims.collapsed_dims = {0};
  dims.start_index_map = {0};
  dims.index_vector_dim = 1;
  Sequence prog;
  CHECK_THROWS(std::exception, hlo::scatter(graph, {operand}, indices, {updates}, dims, false,
                                            Single(ScalarOp::kAdd, DType::kF32), prog));
  CHECK_THROWS(std::exception, hlo::scatter(graph, {operand.broadcast(2, 0)}, indices, {operand}, dims, false,
                                            Single(ScalarOp::kAdd, DType::kF32), prog, true));
}

}  // namespace
}  // namespace ipu_model
