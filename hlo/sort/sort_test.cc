// Sort and top-k: kernel and expansion have the same vertices and values.
#include "hlo/Sort.hpp"

#include <algorithm>
#include <set>

#include "testing/codelet_cache.h"
#include "testing/expansion_check.h"
#include "testing/test_instructions.h"

namespace hlo::testing {
namespace {

using jax_ipu::testing::Everything;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

const toy::SharedCodeletCache cache;

struct Case {
  std::vector<std::size_t> shape;
  std::size_t dimension;
  unsigned tiles;
};
const Case kWhole[] = {{{5, 9}, 1, 7}, {{70, 9}, 0, 7}, {{3, 40, 8}, 1, 7}, {{3, 17, 5}, 1, 2},
                       {{3, 0}, 1, 7}, {{1, 6}, 0, 7},  {{1000}, 0, 1},     {{64, 4}, 1, 300}};
const Case kFewChunks[] = {{{1000}, 0, 2}, {{2, 400}, 1, 7}};
const Case kChunks[] = {{{1100}, 0, 4}, {{2, 1300}, 1, 64}, {{1500, 3}, 0, 64}, {{4099}, 0, 64}};

// a_0 < b_0; the other operands move along.
Expression Less(const std::vector<DType>& types) {
  Expression e;
  for (const DType type : types) e.inputs.insert(e.inputs.end(), 2, type);
  e.code = {Op(IsFloat(types[0]) ? ScalarOp::kTotalLt : ScalarOp::kLt, types[0], DType::kPred, 0, 1)};
  e.outputs = {static_cast<std::uint16_t>(e.inputs.size())};
  return e;
}

// (a & 3) < (b & 3): no order by keys; many elements are equal.
Expression LessByLowBits() {
  Expression e;
  e.inputs = {DType::kS32, DType::kS32};
  ScalarConstant three;
  three.type = DType::kS32;
  three.bytes[0] = 3;
  e.constants = {three};
  e.code = {Op(ScalarOp::kAnd, DType::kS32, DType::kS32, 0, 2),
            Op(ScalarOp::kAnd, DType::kS32, DType::kS32, 1, 2),
            Op(ScalarOp::kLt, DType::kS32, DType::kPred, 3, 4)};
  e.outputs = {5};
  return e;
}

// Elements of the first operand between -largest and largest, or any bits. Returns the number of supersteps.
std::size_t CheckSort(const Case& c, const std::vector<DType>& types, const Expression& comparator,
                      int largest, bool positions = false) {
  Graph graph(poplar::Target::createIPUTarget(1, c.tiles, "ipu2"));
  std::vector<Tensor> operands;
  std::vector<Bytes> bytes;
  for (const DType type : types) {
    const unsigned seed = static_cast<unsigned>(operands.size()) + 1;
    operands.push_back(Linear(graph, type, c.shape));
    bytes.push_back(seed == 1 && largest > 0 ? SmallNumbers(operands[0], seed, largest)
                                             : RandomBytes(operands.back(), seed));
    if (type != DType::kPred) continue;
    for (unsigned char& b : bytes.back()) b &= 1;
  }
  Sequence prog;
  const auto sort = positions ? hlo::sortWithPositions : hlo::sort;
  const std::vector<Tensor> out = sort(graph, operands, c.dimension, comparator, prog, "sort");
  ExpansionCheck check(graph, prog, operands, out);
  const std::size_t supersteps = check.Supersteps();
  check.SameVertices(supersteps > 1);
  check.SameValues(bytes, SameBits);
  return supersteps;
}

TEST(WholeRows) {
  for (const Case& c : kWhole) {
    const bool empty = std::count(c.shape.begin(), c.shape.end(), 0u) > 0;
    CHECK_EQ(CheckSort(c, {DType::kF32}, Less({DType::kF32}), 0), empty ? 0u : 1u);
    CheckSort(c, {DType::kU8, DType::kS32}, Less({DType::kU8, DType::kS32}), 4);
  }
}

// Chunks of rows, whose number need not be a power of two.
TEST(RowsInChunks) {
  std::set<std::size_t> supersteps;
  for (const Case& c : kChunks) {
    supersteps.insert(CheckSort(c, {DType::kF32}, Less({DType::kF32}), 0));
    // Other numbers that move along, for every change in the first cases.
    if (&c < &kChunks[2] || Everything())
      CheckSort(c, {DType::kS16, DType::kS32}, Less({DType::kS16, DType::kS32}), 9);
  }
  CHECK(supersteps.size() > 1 && *supersteps.begin() > 3);
}

// Two chunks take one stage, and three as many as four.
TEST(RowsInTwoOrThreeChunks) {
  for (const Case& c : kFewChunks) {
    const std::size_t expected = c.tiles == 2 ? 2 : 4;
    CHECK_EQ(CheckSort(c, {DType::kF32}, Less({DType::kF32}), 0), expected);
    CHECK_EQ(CheckSort(c, {DType::kS32}, LessByLowBits(), 1000), expected);
  }
}

// Each form costs classes to compile: of every second type both, of the others whole rows, or everything.
TEST(KeysOfEveryType) {
  int row = 0;
  for (const DType type : {DType::kF16, DType::kBF16, DType::kS8, DType::kU16, DType::kU32, DType::kS64,
                           DType::kU64, DType::kPred}) {
    CheckSort(kWhole[0], {type}, Less({type}), 0);
    if (row++ % 2 == 0 || Everything()) CheckSort(kChunks[0], {type}, Less({type}), 0);
  }
}

// Numbers that are not compared may have any type of up to 64 bits.
TEST(OperandsOfEveryTypeMoveAlong) {
  for (const DType type : {DType::kF64, DType::kC64, DType::kS4, DType::kF8E5M2}) {
    for (const Case& c : {kWhole[1], kChunks[0]}) {
      const std::vector<DType> types = {DType::kS32, type};
      CheckSort(c, types, Less(types), 20);
    }
  }
}

TEST(EqualElementsKeepTheirOrder) {
  for (const Case& c : {kWhole[3], kWhole[6], kChunks[1], kChunks[3]})
    CheckSort(c, {DType::kS32}, LessByLowBits(), 1000);
}

TEST(PositionsAreAResult) {
  for (const Case& c : {kWhole[1], kWhole[3], kChunks[0], kChunks[3]}) {
    CheckSort(c, {DType::kF32, DType::kS16}, Less({DType::kF32, DType::kS16}), 9, true);
    CheckSort(c, {DType::kS32}, LessByLowBits(), 1000, true);
  }
}

TEST(KeysWithoutArithmeticAreRefused) {
  for (const DType type : {DType::kF8E4M3FN, DType::kF8E5M2}) {
    Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
    Sequence prog;
    hlo::sort(graph, {Linear(graph, type, {9})}, 0, Less({type}), prog, "sort");
    CHECK(Refusal(graph, prog).find(NameOf(type)) != std::string::npos);
  }
}

// `largest`: of the elements, or any bits. `sorts`: chunks of the rows are sorted and merged.
std::size_t CheckTopK(const std::vector<std::size_t>& shape, std::size_t k, DType type, bool best,
                      unsigned tiles, int largest, bool sorts = false) {
  Graph graph(poplar::Target::createIPUTarget(1, tiles, "ipu2"));
  const Tensor t = Linear(graph, type, shape);
  Bytes bytes = largest > 0 ? SmallNumbers(t, 1, largest) : RandomBytes(t, 1);
  if (type == DType::kPred)
    for (unsigned char& b : bytes) b &= 1;
  Sequence prog;
  const auto [values, indices] = hlo::topK(graph, t, k, prog, best, "top_k");
  ExpansionCheck check(graph, prog, {t}, {values, indices});
  check.SameVertices(sorts);
  check.SameValues({bytes}, SameBits);
  return check.Supersteps();
}

TEST(TopKOfWholeRowsAndParts) {
  for (const bool best : {true, false}) {
    CHECK_EQ(CheckTopK({6, 20}, 5, DType::kF32, best, 7, 0), 1u);
    CHECK_EQ(CheckTopK({20}, 20, DType::kF32, best, 7, 4), 1u);
    CHECK_EQ(CheckTopK({3, 1}, 1, DType::kF32, best, 7, 0), 1u);
    CHECK_EQ(CheckTopK({2, 2000}, 7, DType::kF32, best, 64, 0), 2u);
    CHECK_EQ(CheckTopK({2, 2000}, 7, DType::kF32, best, 64, 4), 2u);
    CHECK_EQ(CheckTopK({20000}, 3, DType::kF32, best, 40, 4), 3u);
    // Sorted in 16 chunks, merged in ten stages; then the first elements are stored.
    CHECK_EQ(CheckTopK({2000}, 240, DType::kF16, best, 16, 40, true), 12u);
    CHECK_EQ(CheckTopK({2, 2000}, 1500, DType::kF32, best, 8, 4, true), 4u);
  }
}

TEST(TopKOfEveryType) {
  int row = 0;
  for (const DType type : {DType::kF16, DType::kBF16, DType::kF64, DType::kS8, DType::kU8, DType::kS16,
                           DType::kU16, DType::kS32, DType::kU32, DType::kS64, DType::kU64, DType::kPred,
                           DType::kS4, DType::kU4, DType::kS2, DType::kU2}) {
    // Half of the types, in pairs, have their largest, the others their smallest, or all have both.
    const bool first = row++ / 2 % 2 == 0;
    for (const bool best : {true, false}) {
      if (best != first && !Everything()) continue;
      CheckTopK({6, 20}, 5, type, best, 7, 0);
      CheckTopK({1200}, 3, type, best, 64, 0);
    }
  }
}

}  // namespace
}  // namespace hlo::testing
