// Compares sorts with std::stable_sort: JAX's comparators and general ones, whole and vertex by vertex;
// top-k.
#include "kernels/sort/sort.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "hlo/Sort.hpp"
#include "kernels/elementwise/program/expression.h"
#include "popops/Sort.hpp"
#include "popops/TopK.hpp"
#include "testing/plan_runner.h"

namespace ipu_model {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

// Builds comparators in the form that the compiler derives from JAX's output.
class Comparator {
 public:
  explicit Comparator(const std::vector<DType>& types) {
    for (const DType type : types) e_.inputs.insert(e_.inputs.end(), 2, type);
    for (const std::uint64_t bits :
         {0ull, 0x7fc00000ull, 0x7e00ull, 0x7fc0ull, 0x7ff8000000000000ull, 3ull}) {
      ScalarConstant c;
      c.type = bits > 0xffffffffu ? DType::kF64
               : bits == 0x7e00   ? DType::kF16
               : bits == 0x7fc0   ? DType::kBF16
                                  : DType::kF32;
      if (bits == 3) c.type = DType::kS32;
      std::memcpy(c.bytes, &bits, sizeof(bits));
      e_.constants.push_back(c);
    }
  }
  int Emit(ScalarOp op, DType operand, DType result, int a, int b = 0, int c = 0) {
    Instruction i;
    i.op = op;
    i.operand_type = operand;
    i.result_type = result;
    i.operand[0] = static_cast<std::uint16_t>(a);
    i.operand[1] = static_cast<std::uint16_t>(b);
    i.operand[2] = static_cast<std::uint16_t>(c);
    e_.code.push_back(i);
    return static_cast<int>(e_.inputs.size() + e_.constants.size() + e_.code.size()) - 1;
  }
  int Constant(int i) const { return static_cast<int>(e_.inputs.size()) + i; }
  // JAX's canonical form: select(x == 0, 0, x), then select(x != x, NaN, x).
  int Canonical(DType type, int x) {
    const int nan = type == DType::kF32 ? 1 : type == DType::kF16 ? 2 : type == DType::kBF16 ? 3 : 4;
    const int zero = Emit(ScalarOp::kEq, type, DType::kPred, x, Constant(0));
    const int without_zero = Emit(ScalarOp::kSelect, type, type, zero, Constant(0), x);
    const int is_nan = Emit(ScalarOp::kNe, type, DType::kPred, x, x);
    return Emit(ScalarOp::kSelect, type, type, is_nan, Constant(nan), without_zero);
  }
  int Less(DType type, int a, int b) {
    if (!IsFloat(type)) return Emit(ScalarOp::kLt, type, DType::kPred, a, b);
    return Emit(ScalarOp::kTotalLt, type, DType::kPred, a, b);
  }
  int Equal(DType type, int a, int b) {
    if (!IsFloat(type)) return Emit(ScalarOp::kEq, type, DType::kPred, a, b);
    const int less = Emit(ScalarOp::kTotalLt, type, DType::kPred, a, b);
    const int greater = Emit(ScalarOp::kTotalLt, type, DType::kPred, b, a);
    return Emit(ScalarOp::kNot, DType::kPred, DType::kPred,
                Emit(ScalarOp::kOr, DType::kPred, DType::kPred, less, greater));
  }
  // A lexicographic comparison over pairs of registers.
  int Lexicographic(const std::vector<std::pair<DType, std::pair<int, int>>>& keys) {
    int result = Less(keys.back().first, keys.back().second.first, keys.back().second.second);
    for (std::size_t k = keys.size() - 1; k-- > 0;) {
      const auto [a, b] = keys[k].second;
      const int less = Less(keys[k].first, a, b), equal = Equal(keys[k].first, a, b);
      result = Emit(ScalarOp::kOr, DType::kPred, DType::kPred, less,
                    Emit(ScalarOp::kAnd, DType::kPred, DType::kPred, equal, result));
    }
    return result;
  }
  Expression Finish(int output) {
    e_.outputs = {static_cast<std::uint16_t>(output)};
    return e_;
  }

 private:
  Expression e_;
};

// The comparator that `lax.sort` emits for operands of these types, the first `keys` of which are keys.
Expression JaxComparator(const std::vector<DType>& types, int keys) {
  Comparator c(types);
  std::vector<std::pair<DType, std::pair<int, int>>> terms;
  for (int k = 0; k < keys; ++k) {
    const DType type = types[static_cast<std::size_t>(k)];
    int a = 2 * k, b = 2 * k + 1;
    if (IsComplex(type)) {
      const DType part = type == DType::kC64 ? DType::kF32 : DType::kF64;
      for (const ScalarOp op : {ScalarOp::kReal, ScalarOp::kImag}) {
        terms.push_back(
            {part,
             {c.Canonical(part, c.Emit(op, type, part, a)), c.Canonical(part, c.Emit(op, type, part, b))}});
      }
      continue;
    }
    if (IsFloat(type)) {
      a = c.Canonical(type, a);
      b = c.Canonical(type, b);
    }
    terms.push_back({type, {a, b}});
  }
  return c.Finish(c.Lexicographic(terms));
}

// (a & 3) < (b & 3) on the first operand, s32: not an order by keys.
Expression ModuloComparator(const std::vector<DType>& types) {
  Comparator c(types);
  const int a = c.Emit(ScalarOp::kAnd, DType::kS32, DType::kS32, 0, c.Constant(5));
  const int b = c.Emit(ScalarOp::kAnd, DType::kS32, DType::kS32, 1, c.Constant(5));
  return c.Finish(c.Emit(ScalarOp::kLt, DType::kS32, DType::kPred, a, b));
}

// The same comparison of x + 2 x + ... + 14 x = 105 x. All terms are computed before they are added, so that
// a full round of comparisons needs more temporaries than the first-level cache holds.
Expression LongComparator(const std::vector<DType>& types) {
  Comparator c(types);
  int low_bits[2];
  for (int side = 0; side < 2; ++side) {
    std::vector<int> terms = {side};
    while (terms.size() < 14)
      terms.push_back(c.Emit(ScalarOp::kAdd, DType::kS32, DType::kS32, terms.back(), side));
    int sum = terms.back();
    for (std::size_t i = terms.size() - 1; i-- > 0;)
      sum = c.Emit(ScalarOp::kAdd, DType::kS32, DType::kS32, sum, terms[i]);
    low_bits[side] = c.Emit(ScalarOp::kAnd, DType::kS32, DType::kS32, sum, c.Constant(5));
  }
  return c.Finish(c.Emit(ScalarOp::kLt, DType::kS32, DType::kPred, low_bits[0], low_bits[1]));
}

// Returns the value of a key element as a long double, with NaN above all other values; sufficient to order
// all types here.
long double KeyValue(DType type, const unsigned char* p, int part) {
  const auto order = [](long double v) {
    return std::isnan(v) ? std::numeric_limits<long double>::infinity() : v;
  };
  const auto load = [p](auto zero) {
    std::memcpy(&zero, p, sizeof(zero));
    return zero;
  };
  switch (type) {
    case DType::kPred:
    case DType::kU8:
      return load(std::uint8_t{});
    case DType::kS8:
      return load(std::int8_t{});
    case DType::kS16:
      return load(std::int16_t{});
    case DType::kS32:
      return load(std::int32_t{});
    case DType::kU32:
      return load(std::uint32_t{});
    case DType::kS64:
      return load(std::int64_t{});
    case DType::kU64:
      return load(std::uint64_t{});
    case DType::kF64:
      return order(load(double{}));
    case DType::kF32:
      return order(load(float{}));
    case DType::kBF16: {
      const std::uint32_t bits = static_cast<std::uint32_t>(load(std::uint16_t{})) << 16;
      float f;
      std::memcpy(&f, &bits, sizeof(f));
      return order(f);
    }
    case DType::kC64: {
      float f[2];
      std::memcpy(f, p, sizeof(f));
      return order(f[part]);
    }
    default:
      return 0;
  }
}

// Random elements with many equal ones, zeros of both signs and NaNs of several patterns. There are no
// infinities (KeyValue puts NaN there) and no subnormals.
Bytes RandomElements(DType type, std::int64_t n, std::mt19937& random) {
  Bytes bytes(static_cast<std::size_t>(n) * SizeOf(type) + 1);
  for (std::int64_t i = 0; i < n; ++i) {
    unsigned char* p = bytes.data() + static_cast<std::size_t>(i) * SizeOf(type);
    const int v = static_cast<int>(random() % 13) - 6;
    const auto real = [&]() -> float {
      switch (random() % 10) {
        case 0:
          return -0.0f;
        case 1:
          return std::numeric_limits<float>::quiet_NaN();
        case 2:
          return -std::numeric_limits<float>::quiet_NaN();
        default:
          return random() % 2 ? static_cast<float>(v) : static_cast<float>(random() % 1000) * 0.37f - 200.0f;
      }
    };
    switch (type) {
      case DType::kPred:
        *p = static_cast<unsigned char>(v > 0);
        break;
      case DType::kF64: {
        const double f = real();
        std::memcpy(p, &f, sizeof(f));
        break;
      }
      case DType::kF32: {
        const float f = real();
        std::memcpy(p, &f, sizeof(f));
        break;
      }
      case DType::kBF16: {
        const float f = real();
        std::memcpy(p, reinterpret_cast<const unsigned char*>(&f) + 2, 2);
        break;
      }
      case DType::kC64: {
        const float f[2] = {random() % 2 ? 1.0f : real(), real()};
        std::memcpy(p, f, sizeof(f));
        break;
      }
      default: {
        const std::int64_t wide =
            random() % 2 ? v
                         : static_cast<std::int64_t>(random()) << 20 ^ static_cast<std::int64_t>(random());
        std::memcpy(p, &wide, SizeOf(type));
        break;
      }
    }
  }
  return bytes;
}

// Stable sort of dense operands along `dim`, by the first `keys` operands or, if keys <= 0, by the low 2
// bits.
std::vector<Bytes> Reference(const std::vector<DType>& types, const std::vector<Bytes>& in,
                             const Shape& shape, std::size_t dim, int keys) {
  std::vector<Bytes> out = in;
  std::int64_t inner = 1;
  for (std::size_t d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  const std::int64_t n = shape[dim],
                     outer = n == 0 ? 0 : NumElements(shape) / (n * std::max<std::int64_t>(1, inner));
  for (std::int64_t row = 0; row < outer * inner; ++row) {
    const std::int64_t base = row / inner * n * inner + row % inner;
    std::vector<std::int64_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    const auto at = [&](std::size_t k, std::int64_t i) {
      return in[k].data() + static_cast<std::size_t>(base + i * inner) * SizeOf(types[k]);
    };
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      if (keys <= 0) return (*at(0, a) & 3) < (*at(0, b) & 3);
      for (std::size_t k = 0; k < static_cast<std::size_t>(keys); ++k) {
        for (int part = 0; part < (IsComplex(types[k]) ? 2 : 1); ++part) {
          const long double x = KeyValue(types[k], at(k, a), part), y = KeyValue(types[k], at(k, b), part);
          if (x != y) return x < y;
        }
      }
      return false;
    });
    for (std::size_t k = 0; k < types.size(); ++k) {
      for (std::int64_t i = 0; i < n; ++i) {
        std::memcpy(out[k].data() + static_cast<std::size_t>(base + i * inner) * SizeOf(types[k]),
                    at(k, order[static_cast<std::size_t>(i)]), SizeOf(types[k]));
      }
    }
  }
  for (Bytes& b : out) b.pop_back();
  return out;
}

// The index along `dim` of each element, and a byte more, as RandomElements has.
Bytes Positions(const Shape& shape, std::size_t dim) {
  std::int64_t inner = 1;
  for (std::size_t d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  const auto n = static_cast<std::size_t>(NumElements(shape));
  Bytes bytes(n * sizeof(std::int32_t) + 1);
  for (std::size_t i = 0; i < n; ++i) {
    const auto position = static_cast<std::int32_t>(static_cast<std::int64_t>(i) / inner % shape[dim]);
    std::memcpy(&bytes[i * sizeof(position)], &position, sizeof(position));
  }
  return bytes;
}

// Returns the largest number of supersteps.
std::size_t CheckSorts(const std::vector<DType>& types, int keys, const Shape& shape, std::size_t dim,
                       unsigned tiles, unsigned bytes_per_tile, std::mt19937& random, bool vertices = true,
                       bool positions = false) {
  Graph graph(poplar::Target::createIPUTarget(1, tiles, "ipu2"));
  const Expression comparator = keys > 0    ? JaxComparator(types, keys)
                                : keys == 0 ? ModuloComparator(types)
                                            : LongComparator(types);
  std::vector<Tensor> operands;
  std::vector<Bytes> values;
  for (const DType type : types) {
    operands.push_back(MappedVariable(graph, type, shape));
    values.push_back(RandomElements(type, NumElements(shape), random));
  }
  Sequence prog;
  const std::vector<Tensor> out = positions
                                      ? hlo::sortWithPositions(graph, operands, dim, comparator, prog, "sort")
                                      : hlo::sort(graph, operands, dim, comparator, prog, "sort");
  std::vector<DType> moved = types;
  if (positions) {
    moved.push_back(DType::kS32);
    values.push_back(Positions(shape, dim));
  }
  const std::vector<Bytes> expected = Reference(moved, values, shape, dim, keys);
  std::size_t supersteps = 0;
  for (int mode = 0; mode < (vertices ? 3 : 1); ++mode) {
    PlanRunner runner(graph, mode == 2 ? bytes_per_tile : 0);
    for (std::size_t i = 0; i < operands.size(); ++i) runner.Store(operands[i], values[i].data());
    mode == 0 ? runner.RunWhole(prog) : runner.RunVertices(prog);
    for (std::size_t i = 0; i < out.size(); ++i) CHECK(runner.Load(out[i]) == expected[i]);
    supersteps = std::max(supersteps, runner.supersteps());
  }
  // In place, where the first operand need not be copied.
  std::vector<poplar::Type> named(types.begin(), types.end());
  const std::vector<std::size_t> extents(shape.begin(), shape.end());
  operands[0] = hlo::createSortOperand(graph, named, 0, extents, dim, comparator, positions, "operand");
  Sequence other;
  std::vector<Tensor> results = operands;
  for (const Tensor& made : hlo::sortInPlace(graph, operands, dim, comparator, positions, other, "sort"))
    results.push_back(made);
  for (const bool whole : {true, false}) {
    if (!whole && !vertices) break;
    PlanRunner runner(graph, 0);
    for (std::size_t i = 0; i < operands.size(); ++i) runner.Store(operands[i], values[i].data());
    whole ? runner.RunWhole(other) : runner.RunVertices(other);
    for (std::size_t i = 0; i < results.size(); ++i) CHECK(runner.Load(results[i]) == expected[i]);
  }
  return supersteps;
}

TEST(ComparatorsAreRecognised) {
  const auto keys = [](const Expression& e) { return RecogniseKeys(e).value_or(std::vector<SortKey>()); };
  CHECK_EQ(keys(JaxComparator({DType::kF32}, 1)).size(), std::size_t{1});
  CHECK(keys(JaxComparator({DType::kBF16}, 1)).at(0).lossy());
  CHECK_EQ(keys(JaxComparator({DType::kS32, DType::kF32}, 1)).size(), std::size_t{1});
  CHECK_EQ(keys(JaxComparator({DType::kC64}, 1)).size(), std::size_t{2});
  CHECK_EQ(keys(JaxComparator({DType::kF32, DType::kS32, DType::kU8}, 3)).size(), std::size_t{3});
  CHECK(keys(ModuloComparator({DType::kS32})).empty());
  const auto compare = [](ScalarOp op, int a, int b) {
    Comparator c({DType::kF32, DType::kF32});
    return c.Finish(c.Emit(op, DType::kF32, DType::kPred, a, b));
  };
  CHECK(!keys(compare(ScalarOp::kLt, 0, 1)).at(0).descending);
  CHECK(keys(compare(ScalarOp::kLt, 1, 0)).at(0).descending);
  CHECK(keys(compare(ScalarOp::kGt, 0, 1)).at(0).descending);
  CHECK(!keys(compare(ScalarOp::kGt, 1, 0)).at(0).descending);
  CHECK(keys(compare(ScalarOp::kLt, 2, 3)).at(0).operand == 1);
  CHECK(keys(compare(ScalarOp::kLt, 0, 2)).empty());  // elements of two different operands
  CHECK(keys(compare(ScalarOp::kLe, 0, 1)).empty());  // not strict
  CHECK(keys(compare(ScalarOp::kTotalLt, 0, 1)).at(0).lossy() == false);
  // Only one side is canonical.
  Comparator c({DType::kF32});
  CHECK(keys(c.Finish(c.Less(DType::kF32, c.Canonical(DType::kF32, 0), 1))).empty());
  // The equality compares another key.
  Comparator d({DType::kS32, DType::kS32});
  const int both = d.Emit(ScalarOp::kAnd, DType::kPred, DType::kPred, d.Equal(DType::kS32, 2, 3),
                          d.Less(DType::kS32, 2, 3));
  CHECK(keys(d.Finish(d.Emit(ScalarOp::kOr, DType::kPred, DType::kPred, d.Less(DType::kS32, 0, 1), both)))
            .empty());
}

TEST(SortsEqualStableSort) {
  std::mt19937 random(1);
  const std::vector<std::pair<std::vector<DType>, int>> forms = {{{DType::kF32}, 1},
                                                                 {{DType::kBF16}, 1},
                                                                 {{DType::kF64}, 1},
                                                                 {{DType::kS32}, 1},
                                                                 {{DType::kU8}, 1},
                                                                 {{DType::kS64}, 1},
                                                                 {{DType::kPred}, 1},
                                                                 {{DType::kC64}, 1},
                                                                 {{DType::kU64}, 1},
                                                                 {{DType::kS8}, 1},
                                                                 {{DType::kF32, DType::kS32}, 1},
                                                                 {{DType::kF32, DType::kS32}, 2},
                                                                 {{DType::kS32, DType::kU8}, 1},
                                                                 {{DType::kU32, DType::kS16}, 1},
                                                                 {{DType::kS16, DType::kF64}, 1},
                                                                 {{DType::kF64, DType::kS32}, 1},
                                                                 {{DType::kS64, DType::kC64}, 2},
                                                                 {{DType::kU8, DType::kF32, DType::kS64}, 2},
                                                                 {{DType::kF32, DType::kF32, DType::kF32}, 3},
                                                                 {{DType::kS32}, 0},
                                                                 {{DType::kS32, DType::kC64}, 0}};
  for (int round = 0; round < 6; ++round) {
    for (const auto& [types, keys] : forms) {
      Shape shape;
      for (std::size_t d = 1 + random() % 3; d > 0; --d)
        shape.push_back(1 + static_cast<std::int64_t>(random() % 6));
      const std::size_t dim = random() % shape.size();
      shape[dim] = static_cast<std::int64_t>(random() % 90);
      CheckSorts(types, keys, shape, dim, 1 + random() % 20, 800, random);
    }
  }
}

TEST(LongRowsOverManyTiles) {
  std::mt19937 random(2);
  for (const std::int64_t n : {1024, 1025, 2047, 5000}) {
    // For every change, all forms have one length.
    const bool all = n == 1025 || jax_ipu::testing::Everything();
    CHECK(CheckSorts({DType::kF32, DType::kS32}, 1, {n}, 0, 40, 4000, random) > 5);
    if (all) CHECK(CheckSorts({DType::kS32}, 0, {n, 2}, 0, 64, 4000, random) > 5);
    // Without positions, as equal elements are alike, and with them as a result.
    if (all) CHECK(CheckSorts({DType::kS32}, 1, {n}, 0, 40, 4000, random) > 5);
    if (all) CHECK(CheckSorts({DType::kF32}, 1, {n}, 0, 40, 4000, random, true, true) > 5);
    if (all || n == 2047)
      CHECK(CheckSorts({DType::kS32, DType::kU8}, 0, {n, 2}, 0, 64, 4000, random, true, true) > 5);
  }
}

TEST(LongRowsUseAllThreads) {
  std::mt19937 random(3);
  CheckSorts({DType::kS32}, 1, {150001}, 0, 4, 0, random, false);
  CheckSorts({DType::kF32}, 1, {150001}, 0, 4, 0, random, false);
  CheckSorts({DType::kF32, DType::kS32}, 1, {150001}, 0, 4, 0, random, false);
  CheckSorts({DType::kS64, DType::kC64}, 2, {70001}, 0, 4, 0, random, false);
  CheckSorts({DType::kU32, DType::kU8}, 1, {300, 501}, 0, 4, 0, random, false);
  CheckSorts({DType::kS32, DType::kU8}, 0, {3, 20011}, 1, 4, 0, random, false);
  CheckSorts({DType::kS32, DType::kU8}, -1, {3, 20011}, 1, 4, 0, random, false);
}

TEST(PopLibsSorts) {
  Graph graph(poplar::Target::createIPUTarget(1, 4, "ipu2"));
  const Tensor k = MappedVariable(graph, DType::kS32, {2, 3}), v = MappedVariable(graph, DType::kF32, {2, 3});
  Sequence prog;
  const Tensor sorted = popops::sort(graph, k, 1, prog), moved = popops::sortKeyValue(graph, k, v, 0, prog);
  PlanRunner runner(graph, 0);
  const std::int32_t keys[] = {3, -1, 2, 0, 5, 2};
  const float values[] = {0, 1, 2, 3, 4, 5};
  runner.Store(k, keys);
  runner.Store(v, values);
  runner.RunWhole(prog);
  const std::int32_t expected[] = {-1, 2, 3, 0, 2, 5};
  const float expected_values[] = {3, 1, 2, 0, 4, 5};
  CHECK(std::memcmp(runner.Load(sorted).data(), expected, sizeof(expected)) == 0);
  CHECK(std::memcmp(runner.Load(moved).data(), expected_values, sizeof(expected_values)) == 0);
}

// Descending in the total order, lower position first.
void CheckTopK(DType type, const Shape& shape, std::int64_t k, bool largest, unsigned tiles,
               unsigned bytes_per_tile, std::mt19937& random, bool vertices) {
  Graph graph(poplar::Target::createIPUTarget(1, tiles, "ipu2"));
  const Tensor operand = MappedVariable(graph, type, shape);
  Sequence prog;
  const auto [values, indices] =
      hlo::topK(graph, operand, static_cast<std::size_t>(k), prog, largest, "top_k");
  const Bytes in = RandomElements(type, NumElements(shape), random);
  const std::int64_t n = shape.back(), rows = n == 0 ? 0 : NumElements(shape) / n;
  // The key: signed integers in the total order of f32 and s32.
  const auto key = [&](std::int64_t i) {
    std::int32_t bits;
    std::memcpy(&bits, in.data() + i * 4, 4);
    return type == DType::kF32 && bits < 0 ? bits ^ 0x7fffffff : bits;
  };
  std::vector<std::int32_t> expected;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return largest ? key(row * n + a) > key(row * n + b) : key(row * n + a) < key(row * n + b);
    });
    expected.insert(expected.end(), order.begin(), order.begin() + k);
  }
  for (int mode = 0; mode < (vertices ? 3 : 1); ++mode) {
    PlanRunner runner(graph, mode == 2 ? bytes_per_tile : 0);
    runner.Store(operand, in.data());
    mode == 0 ? runner.RunWhole(prog) : runner.RunVertices(prog);
    const Bytes got_values = runner.Load(values), got_indices = runner.Load(indices);
    int wrong = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      std::int32_t index;
      std::memcpy(&index, got_indices.data() + i * 4, 4);
      const std::size_t row = i / static_cast<std::size_t>(k);
      const std::size_t from = row * static_cast<std::size_t>(n) + static_cast<std::size_t>(expected[i]);
      wrong += index == expected[i] && std::memcmp(got_values.data() + i * 4, in.data() + from * 4, 4) == 0
                   ? 0
                   : 1;
    }
    CHECK_EQ(wrong, 0);
  }
}

TEST(TopKEqualsStableSort) {
  std::mt19937 random(4);
  for (int round = 0; round < (jax_ipu::testing::Everything() ? 40 : 20); ++round) {
    const std::int64_t n = 1 + static_cast<std::int64_t>(random() % 700);
    const std::int64_t k =
        static_cast<std::int64_t>(random() % static_cast<unsigned>(std::min<std::int64_t>(n, 40) + 1));
    CheckTopK(random() % 2 ? DType::kF32 : DType::kS32, {1 + static_cast<std::int64_t>(random() % 5), n}, k,
              random() % 2 != 0, 1 + random() % 12, 600, random, true);
  }
  CheckTopK(DType::kF32, {20000}, 5, true, 30, 8000, random, true);
  // Merged in stages, of which the last group is smaller; ties in all of them.
  CheckTopK(DType::kF32, {20000}, 3, false, 38, 8000, random, true);
  CheckTopK(DType::kS32, {2, 30000}, 8, true, 90, 8000, random, true);
  CheckTopK(DType::kF32, {40000}, 60, true, 71, 3000, random, true);
  CheckTopK(DType::kF32, {300000}, 100, true, 4, 0, random, false);
  CheckTopK(DType::kF32, {300, 301}, 300, true, 4, 0, random, false);
}

TEST(TopKOfLargeSharesSorts) {
  std::mt19937 random(5);
  for (const bool largest : {true, false}) {
    for (const DType type : {DType::kF32, DType::kS32}) {
      CheckTopK(type, {20000}, 2400, largest, 64, 40000, random, true);  // the first of sorted chunks
      CheckTopK(type, {3, 3001}, 3000, largest, 30, 8000, random, true);
      CheckTopK(type, {3, 3001}, 3001, largest, 30, 8000, random, true);
    }
  }
}

}  // namespace
}  // namespace ipu_model
