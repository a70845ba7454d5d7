// Compares Gemm with the sum written out, over shapes that reach every path, strides, and all type
// combinations.
#include "kernels/product/gemm.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "kernels/host/isa.h"
#include "kernels/product/gemm_problem.h"
#include "testing/stacks.h"

namespace ipu_model {
namespace {

using jax_ipu::testing::Everything;
using toy::At;
using toy::Context;
using toy::FillWhole;
using toy::ForEach;
using toy::Get;
using toy::kLayouts;
using toy::Layout;
using toy::MakeStack;
using toy::Random;
using toy::RunGemm;
using toy::Set;
using toy::Stack;

// Returns all elements in row-major order.
std::vector<double> Values(const HostTensor& t) {
  std::vector<double> values(static_cast<std::size_t>(t.num_elements()));
  double* next = values.data();
  const auto convert = [&next](auto element) { *next++ = static_cast<double>(element); };
  // The types that most elements have.
  switch (t.type) {
    case DType::kF32:
      ForEach<float>(t, convert);
      return values;
    case DType::kF64:
      ForEach<double>(t, convert);
      return values;
    case DType::kF16:
      ForEach<std::uint16_t>(t, [&](std::uint16_t bits) { convert(F16ToF32(bits)); });
      return values;
    case DType::kBF16:
      ForEach<std::uint16_t>(t, [&](std::uint16_t bits) { convert(BF16ToF32(bits)); });
      return values;
    case DType::kS8:
      ForEach<std::int8_t>(t, convert);
      return values;
    case DType::kS32:
      ForEach<std::int32_t>(t, convert);
      return values;
    case DType::kS64:
      ForEach<std::int64_t>(t, convert);
      return values;
    default:
      break;
  }
  for (std::int64_t g = 0; g < t.shape[0]; ++g) {
    for (std::int64_t r = 0; r < t.shape[1]; ++r) {
      for (std::int64_t c = 0; c < t.shape[2]; ++c) *next++ = Get(t, g, r, c);
    }
  }
  return values;
}

std::vector<double> Product(const HostTensor& a, const HostTensor& b) {
  const std::int64_t m = a.shape[1], k = a.shape[2], n = b.shape[2];
  std::vector<double> x = Values(a), y = Values(b);
  // Types follow each other with the same numbers.
  struct Known {
    std::int64_t m, k, n;
    std::vector<double> x, y, sums;
  };
  static Known known = {};
  if (known.m == m && known.k == k && known.n == n && known.x == x && known.y == y) return known.sums;
  std::vector<double> sums(static_cast<std::size_t>(a.shape[0] * m * n), 0);
  for (std::int64_t row = 0; row < a.shape[0] * m; ++row) {
    double* out = sums.data() + row * n;
    for (std::int64_t i = 0; i < k; ++i) {
      const double factor = x[static_cast<std::size_t>(row * k + i)];
      const double* in = y.data() + (row / m * k + i) * n;
      for (std::int64_t j = 0; j < n; ++j) out[j] += factor * in[j];
    }
  }
  known = {m, k, n, std::move(x), std::move(y), sums};
  return sums;
}

// Of products with more terms only the weighted sum of each row is compared, or, in the whole test, each
// element.
constexpr std::int64_t kLongProduct = 1 << 20;

// Whole numbers from 1 to 256: a single element that differs changes the sum, and the sums are exact.
double WeightedSum(const double* row, std::int64_t n) {
  double sum = 0;
  std::uint32_t state = 1;
  for (std::int64_t j = 0; j < n; ++j) {
    state = state * 1664525u + 1013904223u;
    sum += row[j] * static_cast<double>(1 + (state >> 24));
  }
  return sum;
}

// WeightedSum of the rows of the product.
std::vector<double> WeightedRows(const HostTensor& a, const HostTensor& b) {
  const std::int64_t groups = a.shape[0], m = a.shape[1], k = a.shape[2], n = b.shape[2];
  const std::vector<double> x = Values(a), y = Values(b);
  std::vector<double> of_b, rows;
  for (std::int64_t i = 0; i < groups * k; ++i) of_b.push_back(WeightedSum(y.data() + i * n, n));
  for (std::int64_t row = 0; row < groups * m; ++row) {
    const double* const left = x.data() + row * k;
    const double* const right = of_b.data() + row / m * k;
    double sum = 0;
    for (std::int64_t i = 0; i < k; ++i) sum += left[i] * right[i];
    rows.push_back(sum);
  }
  return rows;
}

struct Case {
  std::int64_t g, m, k, n;
  Layout a, b, c;
};

std::string Describe(const Case& x) {
  return std::to_string(x.g) + "x" + std::to_string(x.m) + "x" + std::to_string(x.k) + "x" +
         std::to_string(x.n) + " layouts " + std::to_string(static_cast<int>(x.a)) +
         std::to_string(static_cast<int>(x.b)) + std::to_string(static_cast<int>(x.c));
}

// Checks a product of whole numbers: the result must be exact, and no byte outside it may change.
void CheckExact(const Case& x, DType a_type, DType b_type, DType c_type, int low, int high) {
  Stack a = MakeStack(a_type, x.g, x.m, x.k, x.a), b = MakeStack(b_type, x.g, x.k, x.n, x.b);
  Stack c = MakeStack(c_type, x.g, x.m, x.n, x.c);
  FillWhole(a.tensor, low, high);
  FillWhole(b.tensor, low, high);
  std::memset(c.bytes.data(), 0x5a, c.bytes.size());
  RunGemm(a.tensor, b.tensor, c.tensor);
  const std::vector<double> got = Values(c.tensor);
  std::int64_t wrong = 0;
  if (x.g * x.m * x.k * x.n > kLongProduct && !Everything()) {
    const std::vector<double> expected = WeightedRows(a.tensor, b.tensor);
    for (std::size_t row = 0; row < expected.size(); ++row)
      wrong += WeightedSum(got.data() + static_cast<std::int64_t>(row) * x.n, x.n) == expected[row] ? 0 : 1;
  } else {
    const std::vector<double> expected = Product(a.tensor, b.tensor);
    for (std::size_t i = 0; i < got.size(); ++i) wrong += got[i] == expected[i] ? 0 : 1;
  }
  FillWhole(c.tensor, 0, 0);
  // After the result is set to zero, only the fill bytes between its elements are left to compare.
  const Stack untouched = [&] {
    Stack clean = MakeStack(c_type, x.g, x.m, x.n, x.c);
    std::memset(clean.bytes.data(), 0x5a, clean.bytes.size());
    FillWhole(clean.tensor, 0, 0);
    return clean;
  }();
  if (wrong != 0 || c.bytes != untouched.bytes)
    std::printf("  %s %s x %s -> %s: %lld wrong\n", Describe(x).c_str(), NameOf(a_type), NameOf(b_type),
                NameOf(c_type), static_cast<long long>(wrong));
  CHECK_EQ(wrong, 0);
  CHECK(c.bytes == untouched.bytes);
}

TEST(ShapesAndStridesF32) {
  const std::int64_t sizes[] = {1, 2, 7, 14, 15, 17, 33, 50, 97};
  std::uniform_int_distribution<std::size_t> size(0, 8), layout(0, kLayouts.size() - 1);
  std::uniform_int_distribution<std::int64_t> groups(1, 3);
  for (int i = 0; i < 400; ++i) {
    const Case x{groups(Random()),          sizes[size(Random())],      sizes[size(Random())],
                 sizes[size(Random())],     kLayouts[layout(Random())], kLayouts[layout(Random())],
                 kLayouts[layout(Random())]};
    CheckExact(x, DType::kF32, DType::kF32, DType::kF32, -4, 4);
  }
}

TEST(EveryPathF32) {
  const auto R = Layout::kRowMajor, T = Layout::kTransposed, G = Layout::kGeneral;
  for (const Case& x : std::vector<Case>{
           {1, 128, 600, 130, R, R, R}, {1, 400, 1100, 70, R, T, R},  {1, 200, 90, 2100, T, R, R},
           {1, 16, 520, 1000, R, T, R}, {1, 30, 520, 200, R, R, R},   {1, 300, 64, 10, T, R, R},
           {1, 128, 1024, 10, R, R, R}, {1, 1, 3000, 500, R, R, R},   {1, 1, 3000, 500, R, T, R},
           {1, 1, 100000, 3, R, T, R},  {1, 700, 300, 1, R, R, R},    {1, 700, 300, 1, T, R, R},
           {1, 1, 70, 60, G, G, G},     {5, 1, 70, 60, R, R, R},      {9, 40, 40, 40, R, R, R},
           {2, 200, 200, 200, R, T, R}, {300, 4, 4, 4, R, R, R},      {64, 64, 32, 64, R, T, R},
           {1, 520, 520, 520, R, R, T}, {1, 520, 520, 520, T, T, G},  {1, 1, 1, 1, R, R, R},
           {3, 1, 1, 40, R, R, R},      {1, 40, 1, 40, T, T, R},      {1, 2, 2000, 2, R, T, R},
           {1, 5, 600, 333, R, R, R},   {1, 8, 2000, 90, R, T, T},    {2, 3, 9000, 21, R, T, R},
           {1, 1, 100000, 1, R, R, R},  {2, 1, 3000, 1, R, T, R},     {1, 3, 9000, 1, R, R, R},
           {1, 500, 400, 6, R, R, R},   {1, 128, 1030, 301, R, R, R}, {1, 128, 1030, 301, R, T, R},
           {1, 60, 1030, 301, T, G, R}, {1, 8, 1030, 301, R, R, R},   {1, 2100, 530, 40, T, R, R}}) {
    // For every change, the longest products only in f32: all types have shorter ones on the same paths.
    const bool few_types = x.g * x.m * x.k * x.n > 20 * kLongProduct && !Everything();
    // Types whose sums are exact have the same numbers, so that the expected product is computed once.
    const std::mt19937 random = Random();
    for (const auto& [type, result] : {std::pair{DType::kF32, DType::kF32},
                                       {DType::kF64, DType::kF64},
                                       {DType::kBF16, DType::kF32},
                                       {DType::kS64, DType::kS64}}) {
      if (type != DType::kF32 && few_types) continue;
      Random() = random;
      CheckExact(x, type, type, result, -4, 4);
    }
    if (few_types) continue;
    CheckExact(x, DType::kF16, DType::kF16, DType::kF16, -1, 1);
    CheckExact(x, DType::kS8, DType::kS8, DType::kS32, -128, 127);
  }
}

// Products that are thin along all but one dimension, and many tiny ones.
TEST(ThinAndTiny) {
  std::uniform_int_distribution<std::int64_t> size(1, 5);
  std::uniform_int_distribution<std::size_t> layout(0, kLayouts.size() - 1);
  const auto any = [&] { return kLayouts[layout(Random())]; };
  for (const std::int64_t length : {63, 64, 79, 500, 9000}) {
    // A few of the longest for every change.
    for (int i = 0; i < (length < 9000 || Everything() ? 60 : 15); ++i) {
      const std::int64_t m = size(Random()), k = size(Random()), n = size(Random());
      for (const Case& x :
           {Case{2, m, k, length, any(), any(), any()}, Case{1, length, k, n, any(), any(), any()},
            Case{length, m, k, n, any(), any(), any()},
            Case{1, length, k, n, Layout::kRowMajor, any(), Layout::kRowMajor},
            Case{1, m, k, length, any(), Layout::kTransposed, Layout::kTransposed}}) {
        CheckExact(x, DType::kF32, DType::kF32, DType::kF32, -4, 4);
        CheckExact(x, DType::kF64, DType::kF64, DType::kF64, -4, 4);
      }
    }
  }
}

TEST(BroadcastGroups) {
  // All groups share B (folded into one product) or share A (which cannot be folded).
  for (const bool share_b : {true, false}) {
    Stack a = MakeStack(DType::kF32, share_b ? 6 : 1, 30, 20, Layout::kRowMajor);
    Stack b = MakeStack(DType::kF32, share_b ? 1 : 6, 20, 40, Layout::kRowMajor);
    Stack c = MakeStack(DType::kF32, 6, 30, 40, Layout::kRowMajor);
    FillWhole(a.tensor, -4, 4);
    FillWhole(b.tensor, -4, 4);
    HostTensor& shared = share_b ? b.tensor : a.tensor;
    shared.shape[0] = 6;
    shared.strides[0] = 0;
    RunGemm(a.tensor, b.tensor, c.tensor);
    CHECK(Values(c.tensor) == Product(a.tensor, b.tensor));
  }
}

TEST(TypeCombinations) {
  struct Types {
    DType a, b, c;
    int low, high;
  };
  using D = DType;
  for (const Types& t : std::vector<Types>{{D::kF32, D::kBF16, D::kF32, -4, 4},
                                           {D::kF16, D::kF32, D::kF32, -4, 4},
                                           {D::kF16, D::kF16, D::kF32, -4, 4},
                                           {D::kBF16, D::kBF16, D::kBF16, -1, 1},
                                           {D::kBF16, D::kF16, D::kF64, -4, 4},
                                           {D::kF64, D::kF32, D::kF64, -4, 4},
                                           {D::kF64, D::kF64, D::kF16, -1, 1},
                                           {D::kF8E4M3FN, D::kF8E5M2, D::kF32, -4, 4},
                                           {D::kF8E4M3FNUZ, D::kF8E5M2FNUZ, D::kF16, -1, 1},
                                           {D::kF8E4M3B11FNUZ, D::kF8E3M4, D::kBF16, -1, 1},
                                           {D::kF8E4M3, D::kF4E2M1FN, D::kF32, -2, 2},
                                           {D::kF8E8M0FNU, D::kF32, D::kF32, 1, 2},
                                           {D::kF32, D::kF32, D::kF8E5M2, 0, 0},
                                           {D::kS8, D::kBF16, D::kF32, -4, 4},
                                           {D::kPred, D::kPred, D::kS32, 0, 1},
                                           {D::kU8, D::kS8, D::kS32, 0, 127},
                                           {D::kS16, D::kS16, D::kS64, -30000, 30000},
                                           {D::kU16, D::kU32, D::kU64, 0, 60000},
                                           {D::kS32, D::kS32, D::kS32, -1000, 1000},
                                           {D::kU32, D::kU32, D::kU32, 0, 1000},
                                           {D::kS64, D::kS32, D::kS32, -1000, 1000},
                                           {D::kU64, D::kU64, D::kU64, 0, 1000},
                                           {D::kS4, D::kS4, D::kS32, -8, 7},
                                           {D::kU4, D::kU2, D::kU32, 0, 3},
                                           {D::kS2, D::kS8, D::kS16, -2, 1}}) {
    for (const Layout layout : {Layout::kRowMajor, Layout::kTransposed, Layout::kGeneral}) {
      CheckExact({2, 19, 37, 35, layout, layout, layout}, t.a, t.b, t.c, t.low, t.high);
      CheckExact({1, 1, 37, 35, layout, layout, layout}, t.a, t.b, t.c, t.low, t.high);
    }
  }
}

TEST(IntegersWrap) {
  // u8: 100 * 100 * 3 = 30000 is 48 modulo 256; s4: 7 * 7 * 3 = 147 is 3 modulo 16; u2: 3 * 3 * 3 = 27 is 3
  // modulo 4.
  const auto constant = [](DType type, int value, int expected) {
    Stack a = MakeStack(type, 1, 5, 3, Layout::kRowMajor), b = MakeStack(type, 1, 3, 4, Layout::kRowMajor);
    Stack c = MakeStack(type, 1, 5, 4, Layout::kRowMajor);
    FillWhole(a.tensor, value, value);
    FillWhole(b.tensor, value, value);
    RunGemm(a.tensor, b.tensor, c.tensor);
    CHECK_EQ(Get(c.tensor, 0, 4, 3), expected);
    CHECK_EQ(Get(c.tensor, 0, 0, 0), expected);
  };
  constant(DType::kS8, 100, 48);
  constant(DType::kU8, 100, 48);
  constant(DType::kS4, 7, 3);
  constant(DType::kU2, 3, 3);
  constant(DType::kS16, 200, 3 * 40000 - 65536 * 2);
  constant(DType::kS32, 1 << 20, 0);
}

TEST(PredIsOrOfAnds) {
  Stack a = MakeStack(DType::kPred, 1, 9, 300, Layout::kRowMajor);
  Stack b = MakeStack(DType::kPred, 1, 300, 11, Layout::kTransposed);
  Stack c = MakeStack(DType::kPred, 1, 9, 11, Layout::kRowMajor);
  FillWhole(b.tensor, 1, 1);
  // A sum of 300 true terms is true, not 300.
  for (std::int64_t k = 0; k < 300; ++k) Set(a.tensor, 0, 3, k, 1);
  Set(a.tensor, 0, 5, 299, 1);
  RunGemm(a.tensor, b.tensor, c.tensor);
  for (std::int64_t m = 0; m < 9; ++m) CHECK_EQ(Get(c.tensor, 0, m, 10), m == 3 || m == 5 ? 1 : 0);
}

TEST(EmptySumIsZeroAndEmptyResultIsNothing) {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kS8, DType::kPred, DType::kC64}) {
    Stack a = MakeStack(type, 2, 3, 0, Layout::kRowMajor), b = MakeStack(type, 2, 0, 4, Layout::kRowMajor);
    Stack c = MakeStack(type, 2, 3, 4, Layout::kTransposed);
    std::memset(c.bytes.data(), 1, c.bytes.size());
    RunGemm(a.tensor, b.tensor, c.tensor);
    for (std::size_t i = 0; i < 24 * SizeOf(type); ++i) CHECK_EQ(static_cast<int>(c.bytes[i]), 0);
  }
  for (const Case& x :
       std::vector<Case>{{0, 3, 4, 5, Layout::kRowMajor, Layout::kRowMajor, Layout::kRowMajor},
                         {2, 0, 4, 5, Layout::kRowMajor, Layout::kRowMajor, Layout::kRowMajor},
                         {2, 3, 4, 0, Layout::kRowMajor, Layout::kRowMajor, Layout::kRowMajor}})
    CheckExact(x, DType::kF32, DType::kF32, DType::kF32, -4, 4);
}

TEST(NanAndInfinityStayInTheirRowsAndColumns) {
  Stack a = MakeStack(DType::kF32, 1, 20, 40, Layout::kRowMajor),
        b = MakeStack(DType::kF32, 1, 40, 37, Layout::kTransposed);
  Stack c = MakeStack(DType::kF32, 1, 20, 37, Layout::kRowMajor);
  FillWhole(a.tensor, 1, 2);
  FillWhole(b.tensor, 1, 2);
  Set(a.tensor, 0, 3, 17, std::numeric_limits<double>::quiet_NaN());
  Set(b.tensor, 0, 5, 36, std::numeric_limits<double>::infinity());
  RunGemm(a.tensor, b.tensor, c.tensor);
  for (std::int64_t m = 0; m < 20; ++m) {
    for (std::int64_t n = 0; n < 37; ++n) {
      const double value = Get(c.tensor, 0, m, n);
      CHECK(m == 3 ? std::isnan(value) : n == 36 ? std::isinf(value) && value > 0 : std::isfinite(value));
    }
  }
}

// The documented order: FMAs over k, restarted every 512 k.
TEST(OrderOfTheSum) {
  std::normal_distribution<float> normal;
  for (const Case& x :
       std::vector<Case>{{1, 64, 1300, 48, Layout::kRowMajor, Layout::kRowMajor, Layout::kRowMajor},
                         {1, 200, 700, 300, Layout::kTransposed, Layout::kTransposed, Layout::kRowMajor},
                         {1, 16, 700, 300, Layout::kRowMajor, Layout::kTransposed, Layout::kRowMajor}}) {
    Stack a = MakeStack(DType::kF32, 1, x.m, x.k, x.a), b = MakeStack(DType::kF32, 1, x.k, x.n, x.b);
    Stack c = MakeStack(DType::kF32, 1, x.m, x.n, x.c);
    for (std::int64_t i = 0; i < x.m * x.k; ++i) a.tensor.as<float>()[i] = normal(Random());
    for (std::int64_t i = 0; i < x.k * x.n; ++i) b.tensor.as<float>()[i] = normal(Random());
    RunGemm(a.tensor, b.tensor, c.tensor);
    std::int64_t different = 0;
    for (std::int64_t m = 0; m < x.m; ++m) {
      for (std::int64_t n = 0; n < x.n; ++n) {
        float total = 0;
        for (std::int64_t begin = 0; begin < x.k; begin += 512) {
          float sum = 0;
          for (std::int64_t k = begin; k < std::min(begin + 512, x.k); ++k)
            sum = std::fma(At<float>(a.tensor, 0, m, k), At<float>(b.tensor, 0, k, n), sum);
          total = begin == 0 ? sum : total + sum;
        }
        different += total != At<float>(c.tensor, 0, m, n);
      }
    }
    CHECK_EQ(different, 0);
  }
}

// Operands in either order. Those against the panels' order are transposed in registers.
template <typename T>
void CheckInstructionSetsAgree(DType type) {
  std::normal_distribution<T> normal;
  const std::int64_t m = 45, k = 700, n = 61;
  std::vector<T> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n));
  for (T& x : a) x = normal(Random());
  for (T& x : b) x = normal(Random());
  for (const bool transposed : {false, true}) {
    std::vector<T> narrow(static_cast<std::size_t>(m * n)), wide(static_cast<std::size_t>(m * n));
    GemmProblem p;
    p.m = m, p.n = n, p.k = k;
    p.accumulator = type;
    p.a = {a.data(), type, 0, transposed ? 1 : k, transposed ? m : 1};
    p.b = {b.data(), type, 0, transposed ? 1 : n, transposed ? k : 1};
    p.c = {narrow.data(), type, 0, n, 1};
    Context().scratch.Reset();
    avx2::RunGemm(Context(), p);
    p.c.data = wide.data();
    avx512::RunGemm(Context(), p);
    CHECK(narrow == wide);
  }
}

// Both instruction sets give the same bits.
TEST(InstructionSetsAgree) {
  if (!HasAvx512()) return;
  CheckInstructionSetsAgree<float>(DType::kF32);
  CheckInstructionSetsAgree<double>(DType::kF64);
}

TEST(Accumulators) {
  CHECK(GemmAccumulator(DType::kF16, DType::kBF16, DType::kF16) == DType::kF32);
  CHECK(GemmAccumulator(DType::kF32, DType::kF32, DType::kF64) == DType::kF64);
  CHECK(GemmAccumulator(DType::kS8, DType::kS8, DType::kF32) == DType::kF32);
  CHECK(GemmAccumulator(DType::kS64, DType::kS64, DType::kS32) == DType::kU32);
  CHECK(GemmAccumulator(DType::kF32, DType::kF32, DType::kS32) == DType::kCount);
  CHECK(GemmAccumulator(DType::kC64, DType::kF32, DType::kF32) == DType::kCount);
  CHECK(GemmAccumulator(DType::kC64, DType::kF64, DType::kC64) == DType::kC128);
}

}  // namespace
}  // namespace ipu_model
