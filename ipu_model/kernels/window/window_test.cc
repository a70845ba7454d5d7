// Compares the window kernels with plain references: pooling, scans, general combiners, select and scatter.
#include "kernels/window/window.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "check.h"

namespace ipu_model {
namespace {

Expression Binary(ScalarOp op, DType type, DType result) {
  Expression e;
  e.inputs = {type, type};
  e.code = {{op, type, result, {0, 1, 0}, 0}};
  e.outputs = {2};
  return e;
}

template <typename T>
struct Array {
  HostTensor view;
  std::vector<T> data;
};

template <typename T>
constexpr DType TypeOf() {
  return std::is_same_v<T, float>          ? DType::kF32
         : std::is_same_v<T, double>       ? DType::kF64
         : std::is_same_v<T, std::int32_t> ? DType::kS32
         : std::is_same_v<T, std::uint8_t> ? DType::kPred
                                           : DType::kU32;
}

template <typename T>
Array<T> Make(std::mt19937& random, const std::vector<std::int64_t>& shape) {
  Array<T> a;
  a.view.type = TypeOf<T>();
  a.view.rank = static_cast<int>(shape.size());
  std::vector<int> order(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) order[d] = static_cast<int>(d);
  if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
  std::int64_t step = random() % 4 == 0 ? 2 : 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    a.view.shape[order[i]] = shape[static_cast<std::size_t>(order[i])];
    a.view.strides[order[i]] = step;
    step *= a.view.shape[order[i]];
  }
  a.data.resize(static_cast<std::size_t>(step) + 1);
  for (T& v : a.data) v = static_cast<T>(static_cast<int>(random() % 7) - 3);
  a.view.data = a.data.data();
  return a;
}

std::int64_t Offset(const HostTensor& t, std::int64_t flat) {
  std::int64_t offset = 0;
  for (int d = t.rank - 1; d >= 0; --d) {
    offset += flat % t.shape[d] * t.strides[d];
    flat /= t.shape[d];
  }
  return offset;
}

// The elements in row-major order.
template <typename T>
std::vector<T> RowMajor(const Array<T>& a) {
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(a.view.num_elements()));
  for (std::int64_t i = 0; i < a.view.num_elements(); ++i)
    values.push_back(a.data[static_cast<std::size_t>(Offset(a.view, i))]);
  return values;
}

struct Case {
  WindowGeometry geometry;
  std::vector<std::int64_t> in, out;
};

// The flat (row-major) operand positions of the window of output `flat`, without those in the padding or
// between elements.
std::vector<std::size_t> WindowOf(const Case& c, std::int64_t flat) {
  const WindowGeometry& g = c.geometry;
  std::int64_t q[kMaxRank], in[kMaxRank], taps = 1;
  for (int d = g.rank - 1; d >= 0; --d) {
    const std::int64_t extent = c.out[static_cast<std::size_t>(d)];
    in[d] = c.in[static_cast<std::size_t>(d)];
    q[d] = flat % extent;
    flat /= extent;
    taps *= g.dim[d].size;
  }
  std::vector<std::size_t> positions;
  for (std::int64_t k = 0; k < taps; ++k) {
    std::int64_t rest = k, at = 0, step = 1;
    for (int d = g.rank - 1; d >= 0; --d) {
      const WindowDimension& w = g.dim[d];
      const std::int64_t p = q[d] * w.stride + rest % w.size * w.window_dilation - w.padding_low;
      rest /= w.size;
      if (p < 0 || p % w.base_dilation != 0 || p / w.base_dilation >= in[d]) at = -1;
      if (at >= 0) at += p / w.base_dilation * step;
      step *= in[d];
    }
    if (at >= 0) positions.push_back(static_cast<std::size_t>(at));
  }
  return positions;
}

// WindowOf each output; what is compared over the same windows has them in common.
using Windows = std::vector<std::vector<std::size_t>>;
Windows WindowsOf(const Case& c) {
  std::int64_t outputs = 1;
  for (const std::int64_t extent : c.out) outputs *= extent;
  Windows windows;
  for (std::int64_t i = 0; i < outputs; ++i) windows.push_back(WindowOf(c, i));
  return windows;
}

Case RandomCase(std::mt19937& random, int rank, bool dilated) {
  const auto up_to = [&](unsigned n) { return static_cast<std::int64_t>(random() % n); };
  for (;;) {
    Case c;
    c.geometry.rank = rank;
    bool valid = true;
    for (int d = 0; d < rank; ++d) {
      WindowDimension& w = c.geometry.dim[d];
      const std::int64_t input = 1 + up_to(d == rank - 1 ? 40 : 9);
      std::int64_t high = 0;
      if (up_to(3) > 0) {
        w.size = 1 + up_to(4);
        w.stride = 1 + up_to(3);
        if (dilated && up_to(3) == 0) w.base_dilation = 1 + up_to(3);
        if (dilated && up_to(3) == 0) w.window_dilation = 1 + up_to(3);
        if (up_to(2) == 0) {
          w.padding_low = up_to(5) - 1;
          high = up_to(5) - 1;
        }
      }
      const std::int64_t room = (input - 1) * w.base_dilation + 1 + w.padding_low + high;
      const std::int64_t reach = (w.size - 1) * w.window_dilation + 1;
      c.in.push_back(input);
      c.out.push_back(room < reach ? 0 : (room - reach) / w.stride + 1);
      valid = valid && c.out.back() > 0;
    }
    if (valid) return c;
  }
}

HostTensor Scalar(void* value, DType type) {
  HostTensor t;
  t.data = value;
  t.type = type;
  return t;
}

template <typename T>
void CompareReduction(std::mt19937& random, const Case& c, const Windows& windows, const Expression& e,
                      T init, const std::function<T(T, T)>& combine, const std::string& what) {
  Array<T> in = Make<T>(random, c.in), out = Make<T>(random, c.out);
  Scratch scratch;
  HostContext context{ThreadPool::Global(), scratch};
  ReduceWindowKernel(e).Run(context, c.geometry, {in.view, Scalar(&init, in.view.type)}, {out.view});
  const std::vector<T> operand = RowMajor(in), actual = RowMajor(out);
  for (std::size_t i = 0; i < actual.size(); ++i) {
    T expected = init;
    for (const std::size_t p : windows[i]) expected = combine(expected, operand[p]);
    if (!(actual[i] == expected)) {
      jax_ipu::testing::Fail(__FILE__, __LINE__, what + " differs at " + std::to_string(i));
      return;
    }
  }
}

template <typename T>
void CompareAll(std::mt19937& random, const Case& c, const Windows& windows, const std::string& what) {
  const DType t = TypeOf<T>();
  CompareReduction<T>(
      random, c, windows, Binary(ScalarOp::kAdd, t, t), T{2}, [](T a, T b) { return a + b; }, what + " add");
  CompareReduction<T>(
      random, c, windows, Binary(ScalarOp::kMultiply, t, t), T{1}, [](T a, T b) { return a * b; },
      what + " multiply");
  CompareReduction<T>(
      random, c, windows, Binary(ScalarOp::kMaximum, t, t), std::numeric_limits<T>::lowest(),
      [](T a, T b) { return std::max(a, b); }, what + " maximum");
  CompareReduction<T>(
      random, c, windows, Binary(ScalarOp::kMinimum, t, t), std::numeric_limits<T>::max(),
      [](T a, T b) { return std::min(a, b); }, what + " minimum");
}

TEST(Pooling) {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const Case c = RandomCase(random, 1 + i % 4, i % 2 == 1);
    const Windows windows = WindowsOf(c);
    CompareAll<float>(random, c, windows, "f32 " + std::to_string(i));
    CompareAll<std::int32_t>(random, c, windows, "s32 " + std::to_string(i));
    CompareAll<std::uint32_t>(random, c, windows, "u32 " + std::to_string(i));
    CompareAll<double>(random, c, windows, "f64 " + std::to_string(i));
  }
}

// 2 acc + value is neither commutative nor associative, so that a wrong order changes the result.
TEST(GeneralCombinerKeepsTheOrder) {
  std::mt19937 random(2);
  Expression e;
  e.inputs = {DType::kU32, DType::kU32};
  e.code = {{ScalarOp::kAdd, DType::kU32, DType::kU32, {0, 0, 0}, 0},
            {ScalarOp::kAdd, DType::kU32, DType::kU32, {2, 1, 0}, 0}};
  e.outputs = {3};
  for (int i = 0; i < 100; ++i) {
    const Case c = RandomCase(random, 1 + i % 4, true);
    CompareReduction<std::uint32_t>(
        random, c, WindowsOf(c), e, 5u, [](std::uint32_t a, std::uint32_t b) { return 2 * a + b; },
        "general " + std::to_string(i));
  }
}

// The largest value and its index, as in JAX's max pooling with indices.
TEST(TwoOperands) {
  std::mt19937 random(3);
  Expression e;
  e.inputs = {DType::kF32, DType::kS32, DType::kF32, DType::kS32};
  e.code = {{ScalarOp::kGe, DType::kF32, DType::kPred, {0, 2, 0}, 0},
            {ScalarOp::kSelect, DType::kF32, DType::kF32, {4, 0, 2}, 0},
            {ScalarOp::kSelect, DType::kS32, DType::kS32, {4, 1, 3}, 0}};
  e.outputs = {5, 6};
  const ReduceWindowKernel kernel(e);
  for (int i = 0; i < 60; ++i) {
    const Case c = RandomCase(random, 1 + i % 3, true);
    Array<float> x = Make<float>(random, c.in), y = Make<float>(random, c.out);
    Array<std::int32_t> index = Make<std::int32_t>(random, c.in), chosen = Make<std::int32_t>(random, c.out);
    float lowest = -100;
    std::int32_t none = -1;
    Scratch scratch;
    HostContext context{ThreadPool::Global(), scratch};
    kernel.Run(context, c.geometry,
               {x.view, index.view, Scalar(&lowest, DType::kF32), Scalar(&none, DType::kS32)},
               {y.view, chosen.view});
    const Windows windows = WindowsOf(c);
    const auto values = RowMajor(x), largest = RowMajor(y);
    const auto indices = RowMajor(index), of_largest = RowMajor(chosen);
    for (std::size_t o = 0; o < windows.size(); ++o) {
      float best = lowest;
      std::int32_t at = none;
      for (const std::size_t p : windows[o]) {
        if (best >= values[p]) continue;
        best = values[p];
        at = indices[p];
      }
      CHECK_EQ(largest[o], best);
      CHECK_EQ(of_largest[o], at);
    }
  }
}

Case ScanCase(const std::vector<std::int64_t>& shape, int dimension, bool backwards) {
  Case c;
  c.in = c.out = shape;
  c.geometry.rank = static_cast<int>(shape.size());
  WindowDimension& w = c.geometry.dim[dimension];
  w.size = shape[static_cast<std::size_t>(dimension)];
  w.padding_low = backwards ? 0 : w.size - 1;
  return c;
}

// The last non-zero value: associative but not commutative, so that a wrong order changes the result.
Expression LastNotZero() {
  Expression e;
  e.inputs = {DType::kU32, DType::kU32};
  e.constants = {{DType::kU32, {}}};
  e.code = {{ScalarOp::kEq, DType::kU32, DType::kPred, {1, 2, 0}, 0},
            {ScalarOp::kSelect, DType::kU32, DType::kU32, {3, 0, 1}, 0}};
  e.outputs = {4};
  return e;
}

TEST(Scans) {
  std::mt19937 random(4);
  const std::vector<std::vector<std::int64_t>> shapes = {{1},     {17},        {1000},     {3, 70},
                                                         {70, 3}, {5, 300, 2}, {4, 3, 130}};
  for (const auto& shape : shapes) {
    for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
      for (const bool backwards : {false, true}) {
        const Case c = ScanCase(shape, d, backwards);
        const Windows windows = WindowsOf(c);
        const std::string what =
            "scan of " + std::to_string(shape.size()) + " dims along " + std::to_string(d);
        for (int repeat = 0; repeat < 3; ++repeat) {
          CompareReduction<float>(
              random, c, windows, Binary(ScalarOp::kAdd, DType::kF32, DType::kF32), 1.0f,
              [](float a, float b) { return a + b; }, what);
          CompareReduction<std::int32_t>(
              random, c, windows, Binary(ScalarOp::kMaximum, DType::kS32, DType::kS32), -9,
              [](std::int32_t a, std::int32_t b) { return std::max(a, b); }, what);
          CompareReduction<std::uint32_t>(
              random, c, windows, Binary(ScalarOp::kMultiply, DType::kU32, DType::kU32), 1u,
              [](std::uint32_t a, std::uint32_t b) { return a * b; }, what);
          CompareReduction<std::uint32_t>(
              random, c, windows, LastNotZero(), 0u,
              [](std::uint32_t a, std::uint32_t b) { return b == 0 ? a : b; }, what);
        }
      }
    }
  }
}

// A row that is long enough for several workers.
TEST(LongScan) {
  std::mt19937 random(5);
  const std::int64_t n = 200003;
  Array<float> in = Make<float>(random, {n});
  std::vector<float> out(static_cast<std::size_t>(n));
  HostTensor to = in.view;
  to.strides[0] = 1;
  to.data = out.data();
  in.view.strides[0] = 1;
  float init = 0;
  for (const bool backwards : {false, true}) {
    Scratch scratch;
    HostContext context{ThreadPool::Global(), scratch};
    ReduceWindowKernel(Binary(ScalarOp::kAdd, DType::kF32, DType::kF32))
        .Run(context, ScanCase({n}, 0, backwards).geometry, {in.view, Scalar(&init, DType::kF32)}, {to});
    float sum = 0;
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(backwards ? n - 1 - i : i);
      sum += in.data[at];
      wrong += out[at] != sum;
    }
    CHECK_EQ(wrong, 0);
  }
}

TEST(MaximumOfNanAndZeros) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  float x[] = {1, nan, -0.0f, 0.0f, 0.0f, -0.0f, -0.0f, -0.0f};
  float y[4];
  HostTensor in, out;
  in.data = x;
  in.rank = out.rank = 1;
  in.shape[0] = 8;
  in.strides[0] = out.strides[0] = 1;
  out.data = y;
  out.shape[0] = 4;
  WindowGeometry g;
  g.rank = 1;
  g.dim[0].size = g.dim[0].stride = 2;
  float lowest = -std::numeric_limits<float>::infinity();
  Scratch scratch;
  HostContext context{ThreadPool::Global(), scratch};
  ReduceWindowKernel(Binary(ScalarOp::kMaximum, DType::kF32, DType::kF32))
      .Run(context, g, {in, Scalar(&lowest, DType::kF32)}, {out});
  CHECK(std::isnan(y[0]));
  CHECK(!std::signbit(y[1]) && !std::signbit(y[2]) && std::signbit(y[3]));
}

template <typename T>
void CompareScatter(std::mt19937& random, const Case& c, const Windows& windows, const Expression& select,
                    const Expression& scatter, const std::function<bool(T, T)>& keep,
                    const std::function<T(T, T)>& combine, const std::string& what) {
  Array<T> operand = Make<T>(random, c.in), source = Make<T>(random, c.out), out = Make<T>(random, c.in);
  if constexpr (std::is_same_v<T, float>) {
    for (T& v : operand.data) v = random() % 9 == 0 ? std::numeric_limits<float>::quiet_NaN() : v;
  }
  T init{1};
  Scratch scratch;
  HostContext context{ThreadPool::Global(), scratch};
  SelectAndScatterKernel(select, scatter)
      .Run(context, c.geometry, {operand.view, source.view, Scalar(&init, operand.view.type)}, out.view);
  std::vector<T> expected(static_cast<std::size_t>(out.view.num_elements()), init);
  const std::vector<T> values = RowMajor(operand), added = RowMajor(source), actual = RowMajor(out);
  for (std::size_t i = 0; i < windows.size(); ++i) {
    if (windows[i].empty()) continue;
    std::size_t selected = windows[i][0];
    for (const std::size_t p : windows[i])
      if (p != selected && !keep(values[selected], values[p])) selected = p;
    expected[selected] = combine(expected[selected], added[i]);
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!(actual[i] == expected[i])) {
      jax_ipu::testing::Fail(__FILE__, __LINE__, what + " differs at " + std::to_string(i));
      return;
    }
  }
}

TEST(SelectAndScatter) {
  std::mt19937 random(6);
  const auto compare = [](ScalarOp op, DType t) { return Binary(op, t, DType::kPred); };
  Expression affine;  // 3 result + source
  affine.inputs = {DType::kS32, DType::kS32};
  ScalarConstant three;
  three.type = DType::kS32;
  three.bytes[0] = 3;
  affine.constants = {three};
  affine.code = {{ScalarOp::kMultiply, DType::kS32, DType::kS32, {0, 2, 0}, 0},
                 {ScalarOp::kAdd, DType::kS32, DType::kS32, {3, 1, 0}, 0}};
  affine.outputs = {4};
  for (int i = 0; i < 150; ++i) {
    const Case c = RandomCase(random, 1 + i % 4, false);
    const Windows windows = WindowsOf(c);
    const std::string n = std::to_string(i);
    const auto add = [](auto a, auto b) { return a + b; };
    const auto f = DType::kF32, s = DType::kS32;
    CompareScatter<float>(
        random, c, windows, compare(ScalarOp::kGe, f), Binary(ScalarOp::kAdd, f, f),
        [](float a, float b) { return a >= b; }, add, "ge add " + n);
    CompareScatter<float>(
        random, c, windows, compare(ScalarOp::kLt, f), Binary(ScalarOp::kAdd, f, f),
        [](float a, float b) { return a < b; }, add, "lt add " + n);
    CompareScatter<float>(
        random, c, windows, compare(ScalarOp::kNe, f), Binary(ScalarOp::kAdd, f, f),
        [](float a, float b) { return a != b; }, add, "general select " + n);
    CompareScatter<std::int32_t>(
        random, c, windows, compare(ScalarOp::kGt, s), Binary(ScalarOp::kAdd, s, s),
        [](std::int32_t a, std::int32_t b) { return a > b; }, add, "s32 " + n);
    // With overlapping windows, the order of source elements affects the result.
    CompareScatter<std::int32_t>(
        random, c, windows, compare(ScalarOp::kGe, s), affine,
        [](std::int32_t a, std::int32_t b) { return a >= b; },
        [](std::int32_t a, std::int32_t b) {
          return static_cast<std::int32_t>(3u * static_cast<std::uint32_t>(a) +
                                           static_cast<std::uint32_t>(b));
        },
        "general scatter " + n);
  }
}

}  // namespace
}  // namespace ipu_model
