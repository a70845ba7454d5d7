// Reductions: kernel and expansion have the same vertices and values.
#include "hlo/Reduce.hpp"

#include <set>

#include "testing/codelet_cache.h"
#include "testing/expansion_check.h"
#include "testing/numbers.h"
#include "testing/test_instructions.h"

namespace hlo::testing {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

const toy::SharedCodeletCache cache;

constexpr DType kFloats[] = {DType::kF32, DType::kF16, DType::kBF16};

struct Case {
  std::vector<std::size_t> shape, dims;
  unsigned tiles;
};
const Case kCases[] = {
    {{5, 9, 8}, {1}, 7},  {{5, 9, 8}, {0, 2}, 7},     {{70, 9}, {0, 1}, 7}, {{3, 0}, {1}, 7},
    {{4000, 2}, {0}, 64}, {{64, 64, 4}, {0, 1}, 300}, {{6, 5}, {}, 7},
};
const Case& kOfPartials = kCases[4];

// Returns the number of supersteps.
std::size_t CheckReduce(const Case& c, const Expression& body, int largest, bool unrounded = false) {
  Graph graph(poplar::Target::createIPUTarget(1, c.tiles, "ipu2"));
  std::vector<Tensor> values, inits;
  std::vector<Bytes> bytes, starts;
  const std::size_t n = body.outputs.size();
  for (unsigned i = 0; i < n; ++i) {
    values.push_back(Linear(graph, body.inputs[i], c.shape));
    inits.push_back(graph.addVariable(poplar::Type(body.inputs[i]), {}, "init"));
    graph.setTileMapping(inits.back(), 0);
    bytes.push_back(SmallNumbers(values[i], i + 1, largest));
    starts.push_back(SmallNumbers(inits[i], i + 7, largest));
  }
  Sequence prog;
  const std::vector<Tensor> out = hlo::reduce(graph, values, inits, c.dims, body, prog, "reduce", unrounded);
  if (unrounded) CHECK(out[0].elementType() == poplar::FLOAT);
  std::vector<Tensor> inputs = values;
  inputs.insert(inputs.end(), inits.begin(), inits.end());
  bytes.insert(bytes.end(), starts.begin(), starts.end());
  ExpansionCheck check(graph, prog, inputs, out);
  check.SameVertices();
  check.SameValues(bytes, SameBits);
  return check.Supersteps();
}

// Results where the values are, partial results, and partial results of those.
TEST(EveryShapeAndDimensions) {
  std::set<std::size_t> supersteps;
  for (const Case& c : kCases) {
    supersteps.insert(CheckReduce(c, BinaryBody(ScalarOp::kAdd, DType::kF32), 8));
    supersteps.insert(CheckReduce(c, BinaryBody(ScalarOp::kAdd, DType::kF16), 1));
    // The sums of some have more bits than an f16.
    supersteps.insert(CheckReduce(c, BinaryBody(ScalarOp::kAdd, DType::kF16), 500, true));
    supersteps.insert(CheckReduce(c, BestAndPlace(true, DType::kF32), 1000));
  }
  for (const std::size_t count : {1, 2, 3}) CHECK_EQ(supersteps.count(count), 1u);
}

TEST(OperationsOfFloats) {
  for (const DType type : kFloats) {
    CheckReduce(kOfPartials, BinaryBody(ScalarOp::kAdd, type), 1);
    CheckReduce(kOfPartials, BestAndPlace(true, type), 60);
    CheckReduce(kOfPartials, BinaryBody(ScalarOp::kMultiply, type), 1, true);
  }
  CheckReduce(kOfPartials, BinaryBody(ScalarOp::kMultiply, DType::kF32), 1);
  CheckReduce(kOfPartials, BinaryBody(ScalarOp::kMaximum, DType::kF16), 60);
  CheckReduce(kOfPartials, BinaryBody(ScalarOp::kMinimum, DType::kBF16), 60);
}

// Each operation of one type, and each type with one operation.
TEST(OperationsOfIntegers) {
  for (const ScalarOp op : {ScalarOp::kMultiply, ScalarOp::kMaximum, ScalarOp::kMinimum, ScalarOp::kAnd,
                            ScalarOp::kOr, ScalarOp::kXor})
    CheckReduce(kCases[0], BinaryBody(op, DType::kS32), 100);
  for (const DType type : {DType::kS8, DType::kU16, DType::kS32, DType::kU64})
    CheckReduce(kOfPartials, BinaryBody(ScalarOp::kAdd, type), 100);
  for (const ScalarOp op : {ScalarOp::kAdd, ScalarOp::kMultiply})
    CheckReduce(kCases[0], BinaryBody(op, DType::kPred), 100);
}

// A body of several operations, each of which rounds narrow floats: the values are exact, so any order will
// do.
TEST(GeneralBody) {
  for (const DType type : {DType::kF32, DType::kF16}) {
    Expression e;
    e.inputs = {type, type};
    e.code = {Op(ScalarOp::kGe, type, DType::kPred, 0, 1), Op(ScalarOp::kSelect, type, type, 2, 0, 1)};
    e.outputs = {3};
    for (const Case& c : {kCases[0], kOfPartials}) CheckReduce(c, e, 100);
  }
}

// Kernel and codelet add in different orders: sums of inexact numbers differ in the last places.
TEST(SumsOfInexactNumbers) {
  Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
  const Tensor t = Linear(graph, DType::kF32, {70, 9}), init = Linear(graph, DType::kF32, {});
  Sequence prog;
  const std::vector<Tensor> out =
      hlo::reduce(graph, {t}, {init}, {0}, BinaryBody(ScalarOp::kAdd, DType::kF32), prog, "reduce");
  ExpansionCheck check(graph, prog, {t, init}, out);
  Bytes bytes = RandomBytes(t, 1);
  for (std::size_t i = 3; i < bytes.size(); i += 4) {  // numbers between 1 and 2
    bytes[i] = 0x3f;
    bytes[i - 1] |= 0x80;
  }
  check.SameValues({bytes, BytesOf(0.0f)}, Within(70));
}

TEST(ComplexNumbers) {
  for (const ScalarOp op : {ScalarOp::kAdd, ScalarOp::kMultiply}) {
    Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
    const Tensor t = Linear(graph, DType::kC64, {70, 9}), init = Linear(graph, DType::kC64, {});
    Sequence prog;
    const std::vector<Tensor> out =
        hlo::reduce(graph, {t}, {init}, {1}, BinaryBody(op, DType::kC64), prog, "reduce");
    ExpansionCheck check(graph, prog, {t, init}, out);
    check.SameVertices();
    check.SameValues({Parts(t, 1), Parts(init, 2)}, Close);
  }
}

TEST(TypesThatPoplarLacksAreRefused) {
  for (const DType type : {DType::kC128, DType::kF8E5M2}) {
    Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
    const Tensor t = Linear(graph, type, {9}), init = Linear(graph, type, {});
    Sequence prog;
    hlo::reduce(graph, {t}, {init}, {0}, BinaryBody(ScalarOp::kAdd, type), prog, "the sum");
    CHECK(Refusal(graph, prog).find(NameOf(type)) != std::string::npos);
  }
}

}  // namespace
}  // namespace hlo::testing
