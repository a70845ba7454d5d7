// Compares every form of convolution with a plain reference, over random parameters, layouts and types.
#include "kernels/convolution/convolution.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "check.h"

namespace ipu_model {
namespace {

// A tensor with its memory, with dimensions in any order and possibly with gaps.
struct Stored {
  HostTensor view;
  std::vector<unsigned char> bytes;
};

std::vector<int> RandomOrder(std::mt19937& random, int rank, int style) {
  std::vector<int> order(static_cast<std::size_t>(rank));
  for (int d = 0; d < rank; ++d) order[static_cast<std::size_t>(d)] = d;
  if (style == 1 && rank > 1) {  // second dimension last: NHWC, and [O, *, I] for the kernel
    order.erase(order.begin() + 1);
    order.push_back(1);
  } else if (style == 2) {  // first dimension last, second first: the layout of weight gradients
    std::swap(order[0], order[1]);
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  } else if (style == 3) {  // HWIO
    std::rotate(order.begin(), order.begin() + 2, order.end());
    std::swap(order[static_cast<std::size_t>(rank - 1)], order[static_cast<std::size_t>(rank - 2)]);
  } else if (style == 4) {
    std::shuffle(order.begin(), order.end(), random);
  }
  return order;
}

Stored Make(std::mt19937& random, DType type, const std::vector<std::int64_t>& shape, int style) {
  Stored s;
  s.view.type = type;
  s.view.rank = static_cast<int>(shape.size());
  const auto order = RandomOrder(random, s.view.rank, style);
  std::int64_t step = style == 4 && random() % 4 == 0 ? 2 : 1;
  for (int i = s.view.rank - 1; i >= 0; --i) {
    const int d = order[static_cast<std::size_t>(i)];
    s.view.shape[d] = shape[static_cast<std::size_t>(d)];
    s.view.strides[d] = step;
    step *= s.view.shape[d];
  }
  s.bytes.resize(static_cast<std::size_t>(step) * SizeOf(type) + 64);
  s.view.data = s.bytes.data();
  return s;
}

template <typename T>
void Fill(std::mt19937& random, Stored* s) {
  T* data = s->view.as<T>();
  for (std::size_t i = 0; i < s->bytes.size() / sizeof(T); ++i) {
    const int v = static_cast<int>(random() % 17) - 8;
    if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
      data[i] = T(static_cast<typename T::value_type>(v), static_cast<typename T::value_type>(random() % 5));
    } else {
      data[i] = static_cast<T>(v);
    }
  }
}

// A number type that rounds products before they are added, whatever the compiler's options.
template <typename T>
struct Rounded {
  T value = 0;
  Rounded() = default;
  explicit Rounded(T x) : value(x) {}
  explicit operator T() const { return value; }
  Rounded operator*(Rounded other) const {
    volatile T product = value * other.value;
    return Rounded(product);
  }
  Rounded& operator+=(Rounded other) {
    value += other.value;
    return *this;
  }
};

template <typename In, typename Out, typename Sum>
std::vector<Out> Reference(const ConvolutionGeometry& g, const HostTensor& lhs, const HostTensor& rhs,
                           const HostTensor& out) {
  std::vector<Out> result;
  const std::int64_t channels = rhs.shape[1], features = out.shape[1];
  std::int64_t positions = 1, taps = 1;
  for (int d = 0; d < g.spatial; ++d) {
    positions *= out.shape[d + 2];
    taps *= rhs.shape[d + 2];
  }
  for (std::int64_t n = 0; n < out.shape[0]; ++n) {
    for (std::int64_t o = 0; o < features; ++o) {
      const std::int64_t fg = o / (features / g.feature_groups), bg = o / (features / g.batch_groups);
      for (std::int64_t q = 0; q < positions; ++q) {
        Sum sum{};
        for (std::int64_t k = 0; k < taps; ++k) {
          std::int64_t a = 0, b = 0, q_rest = q, k_rest = k;
          bool inside = true;
          for (int d = g.spatial - 1; d >= 0; --d) {
            const ConvolutionWindow& w = g.window[d];
            const std::int64_t qd = q_rest % out.shape[d + 2], kd = k_rest % rhs.shape[d + 2];
            q_rest /= out.shape[d + 2];
            k_rest /= rhs.shape[d + 2];
            const std::int64_t position = qd * w.stride + kd * w.rhs_dilation - w.padding_low;
            if (position < 0 || position % w.lhs_dilation != 0 ||
                position / w.lhs_dilation >= lhs.shape[d + 2]) {
              inside = false;
              break;
            }
            a += position / w.lhs_dilation * lhs.strides[d + 2];
            b += (w.reversed ? rhs.shape[d + 2] - 1 - kd : kd) * rhs.strides[d + 2];
          }
          if (!inside) continue;
          for (std::int64_t c = 0; c < channels; ++c) {
            const std::int64_t from =
                (bg * out.shape[0] + n) * lhs.strides[0] + (fg * channels + c) * lhs.strides[1] + a;
            sum += static_cast<Sum>(lhs.as<In>()[from]) *
                   static_cast<Sum>(rhs.as<In>()[o * rhs.strides[0] + c * rhs.strides[1] + b]);
          }
        }
        result.push_back(static_cast<Out>(sum));
      }
    }
  }
  return result;
}

// Returns the elements in row-major order.
template <typename T>
std::vector<T> Read(const HostTensor& t) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < t.num_elements(); ++i) {
    std::int64_t rest = i, offset = 0;
    for (int d = t.rank - 1; d >= 0; --d) {
      offset += rest % t.shape[d] * t.strides[d];
      rest /= t.shape[d];
    }
    values.push_back(t.as<T>()[offset]);
  }
  return values;
}

struct Case {
  ConvolutionGeometry geometry;
  std::vector<std::int64_t> lhs, rhs, out;
};

// Values are small integers, so every sum is exact and the results must be equal in any order.
template <typename In, typename Out, typename Sum>
void Compare(std::mt19937& random, const Case& c, DType in, DType out_type, const std::string& what) {
  Stored lhs = Make(random, in, c.lhs, static_cast<int>(random() % 5));
  Stored rhs = Make(random, in, c.rhs, static_cast<int>(random() % 5));
  Stored out = Make(random, out_type, c.out, static_cast<int>(random() % 5));
  Fill<In>(random, &lhs);
  Fill<In>(random, &rhs);
  std::memset(out.bytes.data(), 0x5a, out.bytes.size());
  Scratch scratch;
  HostContext context{ThreadPool::Global(), scratch};
  Convolve(context, c.geometry, lhs.view, rhs.view, out.view);
  const auto expected = Reference<In, Out, Sum>(c.geometry, lhs.view, rhs.view, out.view);
  const auto actual = Read<Out>(out.view);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!(actual[i] == expected[i])) {
      jax_ipu::testing::Fail(__FILE__, __LINE__, what + " differs at " + std::to_string(i));
      return;
    }
  }
}

Case RandomCase(std::mt19937& random, int spatial, bool many_taps, int largest_group) {
  const auto up_to = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
  for (;;) {
    Case c;
    ConvolutionGeometry& g = c.geometry;
    g.spatial = spatial;
    const std::int64_t groups = up_to(3) == 0 ? 1 + up_to(largest_group) : 1;
    const bool by_batch = up_to(2) == 0;
    (by_batch ? g.batch_groups : g.feature_groups) = groups;
    const std::int64_t batch = 1 + up_to(many_taps ? 40 : 6), channels = (up_to(12) == 0 ? 0 : 1) + up_to(40);
    const std::int64_t features = 1 + up_to(50);
    const bool single = groups > 1 && up_to(2) == 0;  // depthwise
    const std::int64_t in_batch = single && by_batch ? 1 : batch;
    const std::int64_t in_channels = single && !by_batch ? 1 : channels;
    c.lhs = {in_batch * (by_batch ? groups : 1), in_channels * (by_batch ? 1 : groups)};
    c.rhs = {groups * (single ? 1 + up_to(3) : features), in_channels};
    c.out = {in_batch, c.rhs[0]};
    double work = static_cast<double>(in_batch * c.rhs[0] * (in_channels + 1));
    bool valid = true;
    for (int d = 0; d < spatial; ++d) {
      ConvolutionWindow& w = g.window[d];
      w.stride = 1 + (up_to(3) == 0 ? up_to(3) : 0);
      w.rhs_dilation = 1 + (up_to(3) == 0 ? up_to(3) : 0);
      w.lhs_dilation = 1 + (up_to(4) == 0 ? up_to(4) : 0);
      w.reversed = up_to(4) == 0;
      std::int64_t input = 1 + up_to(spatial > 2 ? 6 : 14), kernel = 1 + up_to(4);
      if (up_to(20) == 0) kernel = 0;
      if (up_to(20) == 0) input = 0;
      if (many_taps) kernel = std::max<std::int64_t>(1, input - up_to(3));
      w.padding_low = up_to(2) == 0 ? 0 : up_to(7) - 2;
      const std::int64_t high = up_to(2) == 0 ? 0 : up_to(7) - 2;
      const std::int64_t dilated = input == 0 ? 0 : (input - 1) * w.lhs_dilation + 1;
      const std::int64_t reach = kernel == 0 ? 0 : (kernel - 1) * w.rhs_dilation + 1;
      const std::int64_t room = dilated + w.padding_low + high;
      const std::int64_t output = room < reach ? 0 : (room - reach) / w.stride + 1;
      valid = valid && output > 0;
      c.lhs.push_back(input);
      c.rhs.push_back(kernel);
      c.out.push_back(output);
      work *= static_cast<double>(output * std::max<std::int64_t>(kernel, 1));
    }
    if (valid && work < 3e6) return c;
  }
}

// A third of the random convolutions for every change.
int Rounds(int all) { return jax_ipu::testing::Everything() ? all : all / 3; }

TEST(FloatForward) {
  std::mt19937 random(1);
  for (int i = 0; i < Rounds(400); ++i) {
    Compare<float, float, double>(random, RandomCase(random, i % 4, false, 20), DType::kF32, DType::kF32,
                                  "forward " + std::to_string(i));
  }
}

TEST(FloatManyTaps) {
  std::mt19937 random(2);
  for (int i = 0; i < Rounds(400); ++i) {
    Compare<float, float, double>(random, RandomCase(random, 1 + i % 3, true, 20), DType::kF32, DType::kF32,
                                  "many taps " + std::to_string(i));
  }
}

TEST(OtherTypes) {
  std::mt19937 random(3);
  for (int i = 0; i < Rounds(60); ++i) {
    const auto next = [&] { return RandomCase(random, 1 + i % 2, i % 3 == 0, 5); };
    const std::string n = std::to_string(i);
    Compare<double, double, double>(random, next(), DType::kF64, DType::kF64, "f64 " + n);
    Compare<std::int32_t, std::int32_t, std::int64_t>(random, next(), DType::kS32, DType::kS32, "s32 " + n);
    Compare<std::int8_t, std::int8_t, std::int64_t>(random, next(), DType::kS8, DType::kS8, "s8 " + n);
    Compare<std::int8_t, std::int32_t, std::int64_t>(random, next(), DType::kS8, DType::kS32, "s8->s32 " + n);
    Compare<std::uint32_t, std::uint64_t, std::uint64_t>(random, next(), DType::kU32, DType::kU64,
                                                         "u32->u64 " + n);
    Compare<std::int64_t, std::int64_t, std::int64_t>(random, next(), DType::kS64, DType::kS64, "s64 " + n);
    Compare<std::complex<float>, std::complex<float>, std::complex<double>>(random, next(), DType::kC64,
                                                                            DType::kC64, "c64 " + n);
    Compare<std::complex<double>, std::complex<double>, std::complex<double>>(random, next(), DType::kC128,
                                                                              DType::kC128, "c128 " + n);
    Compare<_Float16, float, double>(random, next(), DType::kF16, DType::kF32, "f16->f32 " + n);
    Compare<_Float16, _Float16, double>(random, next(), DType::kF16, DType::kF16, "f16 " + n);
  }
}

// Sums of at most 4 products have the same bits as separate multiplications and additions, even if they
// nearly cancel.
template <typename T>
void CheckShortSums(DType type) {
  std::mt19937 random(5);
  std::normal_distribution<T> normal;
  struct Shapes {
    std::vector<std::int64_t> lhs, rhs, out;
    std::int64_t groups, dilation;
  };
  for (const Shapes& x : std::vector<Shapes>{{{2, 3, 9}, {12, 1, 3}, {2, 12, 5}, 3, 2},
                                             {{2, 40, 30}, {40, 1, 4}, {2, 40, 27}, 40, 1},
                                             {{3, 4, 5, 6}, {37, 4, 1, 1}, {3, 37, 5, 6}, 1, 1},
                                             {{2, 1, 9, 7}, {5, 1, 2, 2}, {2, 5, 8, 6}, 1, 1},
                                             {{4, 2, 6}, {8, 1, 4}, {4, 8, 3}, 2, 1}}) {
    for (int i = 0; i < 20; ++i) {
      const auto style = [&] { return static_cast<int>(random() % 5); };
      Stored lhs = Make(random, type, x.lhs, style()), rhs = Make(random, type, x.rhs, style());
      Stored out = Make(random, type, x.out, style());
      for (Stored* s : {&lhs, &rhs}) {
        T* const data = s->view.as<T>();
        std::generate(data, data + s->bytes.size() / sizeof(T), [&] { return normal(random); });
      }
      ConvolutionGeometry g;
      g.spatial = static_cast<int>(x.lhs.size()) - 2;
      g.feature_groups = x.groups;
      for (int d = 0; d < g.spatial; ++d) g.window[d].rhs_dilation = x.dilation;
      Scratch scratch;
      HostContext context{ThreadPool::Global(), scratch};
      Convolve(context, g, lhs.view, rhs.view, out.view);
      CHECK((Reference<T, T, Rounded<T>>(g, lhs.view, rhs.view, out.view) == Read<T>(out.view)));
    }
  }
}
TEST(ShortSumsOfRoundedProducts) {
  CheckShortSums<float>(DType::kF32);
  CheckShortSums<double>(DType::kF64);
}

// The values are 1.5 and 3 in bfloat16. The sum 257 * 1.5 * 3 = 1156.5 is rounded once, at the end, to 1160.
TEST(BFloat16SumsInFloat) {
  const std::int64_t channels = 257;
  std::vector<std::uint16_t> x(static_cast<std::size_t>(channels), 0x3fc0), w(x.size(), 0x4040);
  std::uint16_t y = 0;
  const auto tensor = [](void* data, std::int64_t c) {
    HostTensor t;
    t.data = data;
    t.type = DType::kBF16;
    t.rank = 2;
    t.shape[0] = 1;
    t.shape[1] = c;
    t.strides[0] = c;
    t.strides[1] = 1;
    return t;
  };
  Scratch scratch;
  HostContext context{ThreadPool::Global(), scratch};
  Convolve(context, {}, tensor(x.data(), channels), tensor(w.data(), channels), tensor(&y, 1));
  CHECK_EQ(y, 0x4491);  // 1160
}

}  // namespace
}  // namespace ipu_model
