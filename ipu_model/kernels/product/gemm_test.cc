// Compares Gemm with the sum written out, over shapes that reach every path, strides, and all type
// combinations.
#include "kernels/product/gemm.h"

#include <cmath>
#include <complex>
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
#include "kernels/vector/convert.h"

namespace ipu_model {
namespace {

// The memory layouts of a stack's matrices.
enum class Layout { kRowMajor, kTransposed, kPadded, kGeneral, kReversed, kGroupsInside };

struct Stack {
  std::vector<unsigned char> bytes;
  HostTensor tensor;
};

Stack MakeStack(DType type, std::int64_t g, std::int64_t r, std::int64_t c, Layout layout) {
  Stack stack;
  HostTensor& t = stack.tensor;
  t.type = type;
  t.rank = 3;
  t.shape[0] = g;
  t.shape[1] = r;
  t.shape[2] = c;
  std::int64_t size = g * r * c, offset = 0;
  switch (layout) {
    case Layout::kRowMajor:
      t.strides[0] = r * c, t.strides[1] = c, t.strides[2] = 1;
      break;
    case Layout::kTransposed:
      t.strides[0] = r * c, t.strides[1] = 1, t.strides[2] = r;
      break;
    case Layout::kPadded:
      t.strides[0] = r * (c + 3) + 5, t.strides[1] = c + 3, t.strides[2] = 1;
      size = g * (r * (c + 3) + 5);
      break;
    case Layout::kGeneral:
      t.strides[0] = r * 2 * (c + 1), t.strides[1] = 2 * (c + 1), t.strides[2] = 2;
      size = g * r * 2 * (c + 1);
      break;
    case Layout::kReversed:
      t.strides[0] = r * c, t.strides[1] = -c, t.strides[2] = -1;
      offset = r * c - 1;
      break;
    case Layout::kGroupsInside:
      t.strides[0] = c, t.strides[1] = g * c, t.strides[2] = 1;
      break;
  }
  const std::size_t width = SizeOf(type);
  stack.bytes.resize(static_cast<std::size_t>(size + 1) * width);
  t.data = stack.bytes.data() + static_cast<std::size_t>(offset) * width;
  return stack;
}

template <typename T>
T& At(const HostTensor& t, std::int64_t g, std::int64_t r, std::int64_t c) {
  return t.as<T>()[g * t.strides[0] + r * t.strides[1] + c * t.strides[2]];
}

HostContext& Context() {
  static Scratch scratch;
  static HostContext context{ThreadPool::Global(), scratch};
  return context;
}

void RunGemm(const HostTensor& a, const HostTensor& b, const HostTensor& c) {
  Context().scratch.Reset();
  Gemm(Context(), a, b, c);
}

// Returns the value of an element of any type except complex ones; exact for all types tested here.
double Get(const HostTensor& t, std::int64_t g, std::int64_t r, std::int64_t c) {
  switch (t.type) {
    case DType::kF64:
      return At<double>(t, g, r, c);
    case DType::kF32:
      return static_cast<double>(At<float>(t, g, r, c));
    case DType::kBF16:
      return static_cast<double>(BF16ToF32(At<std::uint16_t>(t, g, r, c)));
    case DType::kF8E8M0FNU:
      return static_cast<double>(E8M0ToF32(At<std::uint8_t>(t, g, r, c)));
    case DType::kS2:
    case DType::kS4:
    case DType::kS8:
      return At<std::int8_t>(t, g, r, c);
    case DType::kPred:
    case DType::kU2:
    case DType::kU4:
    case DType::kU8:
      return At<std::uint8_t>(t, g, r, c);
    case DType::kS16:
      return At<std::int16_t>(t, g, r, c);
    case DType::kU16:
      return At<std::uint16_t>(t, g, r, c);
    case DType::kS32:
      return At<std::int32_t>(t, g, r, c);
    case DType::kU32:
      return At<std::uint32_t>(t, g, r, c);
    case DType::kS64:
      return static_cast<double>(At<std::int64_t>(t, g, r, c));
    case DType::kU64:
      return static_cast<double>(At<std::uint64_t>(t, g, r, c));
    default: {
      double value = 0;
      CHECK(VisitFormat(t.type, [&](auto format) {
        using F = decltype(format);
        value = static_cast<double>(Decode<F>(At<typename F::Storage>(t, g, r, c)));
      }));
      return value;
    }
  }
}

void Set(const HostTensor& t, std::int64_t g, std::int64_t r, std::int64_t c, double value) {
  switch (t.type) {
    case DType::kF64:
      At<double>(t, g, r, c) = value;
      return;
    case DType::kF32:
      At<float>(t, g, r, c) = static_cast<float>(value);
      return;
    case DType::kBF16:
      At<std::uint16_t>(t, g, r, c) = F32ToBF16(static_cast<float>(value));
      return;
    case DType::kF8E8M0FNU:
      At<std::uint8_t>(t, g, r, c) = F32ToE8M0(static_cast<float>(value));
      return;
    default:
      break;
  }
  if (IsInteger(t.type) || t.type == DType::kPred) {
    const std::int64_t integer = static_cast<std::int64_t>(value);
    std::memcpy(&At<unsigned char>(t, 0, 0, 0) + (g * t.strides[0] + r * t.strides[1] + c * t.strides[2]) *
                                                     static_cast<std::int64_t>(SizeOf(t.type)),
                &integer, SizeOf(t.type));
    return;
  }
  CHECK(VisitFormat(t.type, [&](auto format) {
    using F = decltype(format);
    At<typename F::Storage>(t, g, r, c) = Encode<F>(static_cast<float>(value));
  }));
}

std::mt19937& Random() {
  static std::mt19937 random(7);
  return random;
}

// Fills with small whole numbers, so that every sum is exact in every type and order.
void FillWhole(const HostTensor& t, int low, int high) {
  std::uniform_int_distribution<int> pick(low, high);
  for (std::int64_t g = 0; g < t.shape[0]; ++g) {
    for (std::int64_t r = 0; r < t.shape[1]; ++r) {
      for (std::int64_t c = 0; c < t.shape[2]; ++c) Set(t, g, r, c, pick(Random()));
    }
  }
}

// Returns all elements in row-major order.
std::vector<double> Values(const HostTensor& t) {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(t.num_elements()));
  for (std::int64_t g = 0; g < t.shape[0]; ++g) {
    for (std::int64_t r = 0; r < t.shape[1]; ++r) {
      for (std::int64_t c = 0; c < t.shape[2]; ++c) values.push_back(Get(t, g, r, c));
    }
  }
  return values;
}

std::vector<double> Product(const HostTensor& a, const HostTensor& b) {
  const std::int64_t m = a.shape[1], k = a.shape[2], n = b.shape[2];
  const std::vector<double> x = Values(a), y = Values(b);
  std::vector<double> sums(static_cast<std::size_t>(a.shape[0] * m * n), 0);
  for (std::int64_t row = 0; row < a.shape[0] * m; ++row) {
    double* out = sums.data() + row * n;
    for (std::int64_t i = 0; i < k; ++i) {
      const double factor = x[static_cast<std::size_t>(row * k + i)];
      const double* in = y.data() + (row / m * k + i) * n;
      for (std::int64_t j = 0; j < n; ++j) out[j] += factor * in[j];
    }
  }
  return sums;
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
  const std::vector<double> expected = Product(a.tensor, b.tensor), got = Values(c.tensor);
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) wrong += got[i] == expected[i] ? 0 : 1;
  for (std::int64_t g = 0; g < x.g; ++g) {
    for (std::int64_t m = 0; m < x.m; ++m) {
      for (std::int64_t n = 0; n < x.n; ++n) Set(c.tensor, g, m, n, 0);
    }
  }
  // After the result is set to zero, only the fill bytes between its elements are left to compare.
  const Stack untouched = [&] {
    Stack clean = MakeStack(c_type, x.g, x.m, x.n, x.c);
    std::memset(clean.bytes.data(), 0x5a, clean.bytes.size());
    for (std::int64_t g = 0; g < x.g; ++g) {
      for (std::int64_t m = 0; m < x.m; ++m) {
        for (std::int64_t n = 0; n < x.n; ++n) Set(clean.tensor, g, m, n, 0);
      }
    }
    return clean;
  }();
  if (wrong != 0 || c.bytes != untouched.bytes)
    std::printf("  %s %s x %s -> %s: %lld wrong\n", Describe(x).c_str(), NameOf(a_type), NameOf(b_type),
                NameOf(c_type), static_cast<long long>(wrong));
  CHECK_EQ(wrong, 0);
  CHECK(c.bytes == untouched.bytes);
}

const std::vector<Layout> kLayouts = {Layout::kRowMajor, Layout::kTransposed, Layout::kPadded,
                                      Layout::kGeneral,  Layout::kReversed,   Layout::kGroupsInside};

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
    CheckExact(x, DType::kF32, DType::kF32, DType::kF32, -4, 4);
    CheckExact(x, DType::kF64, DType::kF64, DType::kF64, -4, 4);
    CheckExact(x, DType::kBF16, DType::kBF16, DType::kF32, -4, 4);
    CheckExact(x, DType::kF16, DType::kF16, DType::kF16, -1, 1);
    CheckExact(x, DType::kS8, DType::kS8, DType::kS32, -128, 127);
    CheckExact(x, DType::kS64, DType::kS64, DType::kS64, -4, 4);
  }
}

// Products that are thin along all but one dimension, and many tiny ones.
TEST(ThinAndTiny) {
  std::uniform_int_distribution<std::int64_t> size(1, 5);
  std::uniform_int_distribution<std::size_t> layout(0, kLayouts.size() - 1);
  const auto any = [&] { return kLayouts[layout(Random())]; };
  for (const std::int64_t length : {63, 64, 79, 500, 9000}) {
    for (int i = 0; i < 60; ++i) {
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

template <typename Real>
void CheckComplex(DType type, std::int64_t rows, std::int64_t terms, std::int64_t columns) {
  using Complex = std::complex<Real>;
  for (const Layout layout : kLayouts) {
    Stack a = MakeStack(type, 2, rows, terms, layout), b = MakeStack(type, 2, terms, columns, layout);
    Stack c = MakeStack(type, 2, rows, columns, layout);
    std::uniform_int_distribution<int> pick(-4, 4);
    const auto fill = [&](const HostTensor& t) {
      for (std::int64_t i = 0; i < t.num_elements(); ++i) {
        const std::int64_t n = t.shape[2], m = t.shape[1];
        At<Complex>(t, i / n / m, i / n % m, i % n) =
            Complex(static_cast<Real>(pick(Random())), static_cast<Real>(pick(Random())));
      }
    };
    fill(a.tensor);
    fill(b.tensor);
    RunGemm(a.tensor, b.tensor, c.tensor);
    for (std::int64_t i = 0; i < c.tensor.num_elements(); ++i) {
      const std::int64_t g = i / columns / rows, m = i / columns % rows, n = i % columns;
      Complex sum = 0;
      for (std::int64_t k = 0; k < terms; ++k)
        sum += At<Complex>(a.tensor, g, m, k) * At<Complex>(b.tensor, g, k, n);
      CHECK(At<Complex>(c.tensor, g, m, n) == sum);
    }
  }
}
TEST(Complex) {
  for (const std::int64_t terms : {1, 3, 8, 9, 33}) {
    CheckComplex<float>(DType::kC64, 21, terms, 18);
    CheckComplex<float>(DType::kC64, 21, terms, 2);
    CheckComplex<double>(DType::kC128, 1, terms, 37);
    CheckComplex<double>(DType::kC128, 30, terms, 1);
  }
}

// Few terms that nearly cancel: re re - im im and re im + im re of sums of rounded products. Both instruction
// sets and the transposed product give the same bits, which are close to the exact value.
template <typename Real>
void CheckCancellingComplex(DType type) {
  using Complex = std::complex<Real>;
  const std::int64_t m = 40, n = 21;
  std::normal_distribution<Real> normal;
  for (const std::int64_t k : {1, 2, 3, 8}) {
    Stack a = MakeStack(type, 1, m, k, Layout::kRowMajor), b = MakeStack(type, 1, k, n, Layout::kRowMajor);
    Stack narrow = MakeStack(type, 1, m, n, Layout::kRowMajor), wide = narrow;
    wide.tensor.data = wide.bytes.data();
    for (Complex* x = a.tensor.as<Complex>(); x != a.tensor.as<Complex>() + m * k; ++x)
      *x = {normal(Random()), normal(Random())};
    for (Complex* x = b.tensor.as<Complex>(); x != b.tensor.as<Complex>() + k * n; ++x)
      *x = {normal(Random()), normal(Random())};
    // In the first column, the last term cancels the sum of the others.
    for (std::int64_t row = 0; row < m; ++row) {
      Complex sum = 0;
      for (std::int64_t i = 0; i + 1 < k; ++i)
        sum += At<Complex>(a.tensor, 0, row, i) * At<Complex>(b.tensor, 0, i, 0);
      if (k > 1) At<Complex>(a.tensor, 0, row, k - 1) = -sum / At<Complex>(b.tensor, 0, k - 1, 0);
    }
    GemmProblem p;
    p.m = m, p.n = n, p.k = k;
    p.accumulator = type;
    p.a = {a.tensor.data, type, 0, k, 1};
    p.b = {b.tensor.data, type, 0, n, 1};
    p.c = {narrow.tensor.data, type, 0, n, 1};
    Context().scratch.Reset();
    avx2::RunShortComplex(Context(), p);
    RunGemm(a.tensor, b.tensor, wide.tensor);
    CHECK(narrow.bytes == wide.bytes);
    Stack flipped = MakeStack(type, 1, n, m, Layout::kRowMajor);
    const auto transpose = [](HostTensor t) {
      std::swap(t.shape[1], t.shape[2]);
      std::swap(t.strides[1], t.strides[2]);
      return t;
    };
    RunGemm(transpose(b.tensor), transpose(a.tensor), flipped.tensor);
    for (std::int64_t i = 0; i < m * n; ++i) {
      volatile Real sums[4] = {};  // volatile, so that products are rounded whatever the compiler's options
      long double exact[2] = {}, size[2] = {};
      for (std::int64_t j = 0; j < k; ++j) {
        const Complex x = At<Complex>(a.tensor, 0, i / n, j), y = At<Complex>(b.tensor, 0, j, i % n);
        const Real parts[2][2] = {{x.real(), x.imag()}, {y.real(), y.imag()}};
        for (int part = 0; part < 4; ++part) {
          const int left = part / 2, right = part % 2;
          volatile const Real product = parts[0][left] * parts[1][right];
          sums[part] = sums[part] + product;
          const long double term = static_cast<long double>(parts[0][left]) * parts[1][right];
          exact[left ^ right] += left + right == 2 ? -term : term;
          size[left ^ right] += std::abs(term);
        }
      }
      const Complex got = At<Complex>(wide.tensor, 0, i / n, i % n);
      CHECK(got == Complex(sums[0] - sums[3], sums[1] + sums[2]));
      CHECK(got == At<Complex>(flipped.tensor, 0, i % n, i / n));
      // Every product passes through k + 1 roundings.
      const long double bound = static_cast<long double>(k + 1) * std::numeric_limits<Real>::epsilon() / 2;
      CHECK(std::abs(got.real() - exact[0]) <= bound * size[0]);
      CHECK(std::abs(got.imag() - exact[1]) <= bound * size[1]);
    }
  }
}
TEST(ShortComplexSumsOfRoundedProducts) {
  CheckCancellingComplex<float>(DType::kC64);
  CheckCancellingComplex<double>(DType::kC128);
}

TEST(ComplexTimesReal) {
  Stack a = MakeStack(DType::kF32, 1, 3, 2, Layout::kRowMajor),
        b = MakeStack(DType::kC64, 1, 2, 2, Layout::kRowMajor);
  Stack c = MakeStack(DType::kC64, 1, 3, 2, Layout::kRowMajor);
  FillWhole(a.tensor, 2, 2);
  for (std::int64_t i = 0; i < 4; ++i) b.tensor.as<std::complex<float>>()[i] = {1.0f, static_cast<float>(i)};
  RunGemm(a.tensor, b.tensor, c.tensor);
  CHECK((c.tensor.as<std::complex<float>>()[0] == std::complex<float>(4, 4)));  // 2 (1) + 2 (1 + 2i)
  CHECK((c.tensor.as<std::complex<float>>()[5] == std::complex<float>(4, 8)));  // 2 (1 + i) + 2 (1 + 3i)
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

int main() { return jax_ipu::testing::RunTests(); }
