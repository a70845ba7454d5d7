// Scatters: kernel and expansion have the same vertices and values.
#include "hlo/Index.hpp"
#include "testing/codelet_cache.h"
#include "testing/expansion_check.h"
#include "testing/numbers.h"
#include "testing/test_instructions.h"
#include "testing/window_dims.h"

namespace hlo::testing {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

const toy::SharedCodeletCache cache;

struct Row {
  std::vector<std::size_t> operand, indices, updates;
  WindowDims dims;
  std::size_t supersteps;  // of a sum of f32
};

const Row kRows[] = {
    {{40, 6}, {9}, {9, 6}, Dims({1}, {0}, {0}, 1), 1},                        // rows
    {{40, 6}, {9, 1}, {6, 9}, Dims({0}, {0}, {0}, 1), 1},                     // the window first
    {{40, 6}, {9}, {9, 6}, Dims({1}, {0}, {0}, 1, {}, {}, {40}), 1},          // negative indices
    {{6, 40}, {3, 4}, {6, 3, 4}, Dims({0}, {1}, {1}, 2), 1},                  // two batch dimensions
    {{20, 30}, {7, 2}, {7}, Dims({}, {0, 1}, {0, 1}, 1), 1},                  // elements
    {{20, 30}, {2, 17}, {17, 3, 5}, Dims({1, 2}, {}, {1, 0}, 0), 1},          // windows that overlap
    {{4, 20, 3}, {4, 5, 1}, {4, 5, 3}, Dims({2}, {1}, {1}, 2, {0}, {0}), 1},  // a paired batch dimension
    {{40}, {}, {3}, Dims({0}, {}, {0}, 0), 1},                                // one window
    {{8}, {9000}, {9000}, Dims({}, {0}, {0}, 1), 2},                          // partial sums
    {{8, 40}, {600}, {600, 40}, Dims({1}, {0}, {0}, 1), 2},
};

Bytes Places(const Tensor& indices) {
  std::mt19937 random(3);
  Bytes places;
  for (std::size_t i = 0; i < indices.numElements(); ++i) {
    const Bytes bytes = BytesOf(static_cast<std::int64_t>(random() % 50) - 10);
    places.insert(places.end(), bytes.begin(),
                  bytes.begin() + static_cast<std::ptrdiff_t>(SizeOf(indices.elementType().id())));
  }
  return places;
}

// Of f32: small whole numbers, whose sums are exact in any order.
Bytes Numbers(const Tensor& t, unsigned seed) {
  if (t.elementType() != poplar::FLOAT) return RandomBytes(t, seed);
  std::mt19937 random(seed);
  Bytes numbers;
  for (std::size_t i = 0; i < t.numElements(); ++i) {
    const Bytes bytes = BytesOf(static_cast<float>(random() % 200) - 100);
    numbers.insert(numbers.end(), bytes.begin(), bytes.end());
  }
  return numbers;
}

using NumbersOf = Bytes (*)(const Tensor&, unsigned seed);

void CheckScatter(const Row& row, const Expression& update, DType index, bool in_place,
                  std::size_t supersteps, NumbersOf numbers = Numbers) {
  Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
  std::vector<Tensor> operands, updates;
  for (std::size_t i = 0; i < update.outputs.size(); ++i) {
    operands.push_back(Linear(graph, update.inputs[i], row.operand));
    updates.push_back(Linear(graph, update.inputs[i], row.updates));
  }
  const Tensor indices = Linear(graph, index, row.indices);
  Sequence prog;
  const std::vector<Tensor> out =
      hlo::scatter(graph, operands, indices, updates, row.dims, false, update, prog, in_place, "scatter");
  std::vector<Tensor> inputs = operands;
  inputs.push_back(indices);
  inputs.insert(inputs.end(), updates.begin(), updates.end());
  std::vector<Bytes> values;
  for (unsigned i = 0; i < inputs.size(); ++i)
    values.push_back(i == operands.size() ? Places(indices) : numbers(inputs[i], i));
  ExpansionCheck check(graph, prog, inputs, out);
  if (supersteps > 0) CHECK_EQ(check.Supersteps(), supersteps);
  check.SameVertices();
  check.SameValues(values, SameBits);
}

Expression Set(DType type) {
  Expression e;
  e.inputs = {type, type};
  e.outputs = {1};
  return e;
}

TEST(EveryForm) {
  for (const Row& row : kRows) {
    for (const bool in_place : {false, true}) {
      CheckScatter(row, BinaryBody(ScalarOp::kAdd, DType::kF32), DType::kS32, in_place, row.supersteps);
      CheckScatter(row, Set(DType::kF32), DType::kS32, in_place, 0);
    }
  }
}

// The updates are rows of the operand: their values before the scatter count.
TEST(UpdatesThatTheScatterOverwrites) {
  Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
  const Tensor t = Linear(graph, DType::kF32, {6, 9}), indices = Linear(graph, DType::kS32, {5});
  Sequence prog;
  hlo::scatter(graph, {t}, indices, {t.slice(0, 5)}, Dims({1}, {0}, {0}, 1), false, Set(DType::kF32), prog,
               true, "shift");
  ExpansionCheck check(graph, prog, {t, indices}, {t});
  Bytes places;
  for (std::int32_t row = 1; row < 6; ++row) {
    const Bytes bytes = BytesOf(row);
    places.insert(places.end(), bytes.begin(), bytes.end());
  }
  check.SameValues({Numbers(t, 1), places}, SameBits);
}

TEST(UpdatesOfEveryType) {
  for (const DType type :
       {DType::kPred, DType::kS8, DType::kF16, DType::kBF16, DType::kS64, DType::kF64, DType::kC64})
    CheckScatter(kRows[0], Set(type), DType::kS32, true, 0);
  for (const DType type : {DType::kS8, DType::kU64, DType::kF16, DType::kBF16})
    CheckScatter(kRows[5], BinaryBody(ScalarOp::kAdd, type), DType::kS32, false, 0);
  for (const ScalarOp op : {ScalarOp::kMultiply, ScalarOp::kMaximum, ScalarOp::kMinimum})
    CheckScatter(kRows[5], BinaryBody(op, DType::kS32), DType::kS32, true, 0);
  CheckScatter(kRows[8], BinaryBody(ScalarOp::kAdd, DType::kS32), DType::kS32, true, 2);
  for (const DType index : {DType::kS8, DType::kU8, DType::kS64, DType::kU32})
    CheckScatter(kRows[4], Set(DType::kF32), index, true, 0);
}

// Sums of small numbers are exact in any order.
TEST(PartialResultsOfEveryType) {
  const NumbersOf small = [](const Tensor& t, unsigned seed) { return SmallNumbers(t, seed, 1); };
  const auto check = [small](ScalarOp op, DType type) {
    CheckScatter(kRows[8], BinaryBody(op, type), DType::kS32, true, 2, small);
  };
  for (const DType type : {DType::kPred, DType::kS8, DType::kS64, DType::kBF16}) check(ScalarOp::kAdd, type);
  for (const DType type : {DType::kU16, DType::kBF16}) check(ScalarOp::kMinimum, type);
  for (const DType type : {DType::kS8, DType::kF16}) check(ScalarOp::kMultiply, type);
}

// Two operands: the larger value and its place.
TEST(SeveralOperands) {
  constexpr DType f = DType::kF32, s = DType::kS32;
  Expression e;
  e.inputs = {f, s, f, s};
  e.code = {Op(ScalarOp::kGt, f, DType::kPred, 0, 2), Op(ScalarOp::kSelect, f, f, 4, 0, 2),
            Op(ScalarOp::kSelect, s, s, 4, 1, 3)};
  e.outputs = {5, 6};
  for (const Row& row : {kRows[0], kRows[5], kRows[6]})
    for (const bool in_place : {false, true}) CheckScatter(row, e, DType::kS32, in_place, 0);
}

// The updates are a part of the operand, which is copied before.
TEST(UpdatesFromTheSameTensor) {
  Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
  const Tensor t = Linear(graph, DType::kF32, {12, 6}), indices = Linear(graph, DType::kS32, {4});
  Sequence prog;
  hlo::scatter(graph, {t}, indices, {t.slice(0, 4)}, kRows[0].dims, false,
               BinaryBody(ScalarOp::kAdd, DType::kF32), prog, true, "scatter");
  ExpansionCheck check(graph, prog, {t, indices}, {t});
  Bytes places;
  for (const std::int32_t place : {5, 7, 5, 9}) {
    const Bytes bytes = BytesOf(place);
    places.insert(places.end(), bytes.begin(), bytes.end());
  }
  check.SameValues({Numbers(t, 1), places}, SameBits);
}

TEST(ComplexNumbers) {
  Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
  const Tensor t = Linear(graph, DType::kC64, {40, 6}), indices = Linear(graph, DType::kS32, {9}),
               updates = Linear(graph, DType::kC64, {9, 6});
  Sequence prog;
  hlo::scatter(graph, {t}, indices, {updates}, kRows[0].dims, false, BinaryBody(ScalarOp::kAdd, DType::kC64),
               prog, true, "scatter");
  ExpansionCheck check(graph, prog, {t, indices, updates}, {t});
  Bytes places;
  for (const std::int32_t place : {5, 7, 5, 9, 0, 39, 5, 11, 7}) {
    const Bytes bytes = BytesOf(place);
    places.insert(places.end(), bytes.begin(), bytes.end());
  }
  check.SameVertices();
  check.SameValues({Parts(t, 1), places, Parts(updates, 2)}, Close);
}

TEST(TypesThatPoplarLacksAreRefused) {
  Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
  const Tensor t = Linear(graph, DType::kC128, {40, 6}), indices = Linear(graph, DType::kS32, {9}),
               updates = Linear(graph, DType::kC128, {9, 6});
  Sequence prog;
  hlo::scatter(graph, {t}, indices, {updates}, kRows[0].dims, false, BinaryBody(ScalarOp::kAdd, DType::kC128),
               prog, true, "the scatter");
  CHECK(Refusal(graph, prog).find(NameOf(DType::kC128)) != std::string::npos);
}

}  // namespace
}  // namespace hlo::testing
