// Compares bound products of few rows with Gemm, on whole numbers whose sums are exact in any order.
#include "kernels/product/small_product.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "check.h"
#include "kernels/product/gemm.h"
#include "kernels/vector/convert.h"
#include "testing/bound_kernel_check.h"

namespace ipu_model {
namespace {

void Put(DType type, float value, unsigned char* to) {
  const auto put = [to](auto x) { std::memcpy(to, &x, sizeof(x)); };
  switch (type) {
    case DType::kF16:
      return put(F32ToF16(value));
    case DType::kBF16:
      return put(F32ToBF16(value));
    case DType::kF64:
      return put(static_cast<double>(value));
    case DType::kF32:
      return put(value);
    default:
      return put(static_cast<std::int32_t>(value));
  }
}

// A stack of matrices in row-major or column-major order, with elements `spread` apart.
struct Matrices {
  Matrices(DType type, std::int64_t groups, std::int64_t rows, std::int64_t columns, bool transposed,
           std::int64_t spread = 1)
      : bytes(static_cast<std::size_t>(groups * rows * columns * spread) * SizeOf(type)) {
    std::mt19937 random(static_cast<unsigned>(bytes.size()));
    for (std::size_t at = 0; at < bytes.size(); at += SizeOf(type))
      Put(type, static_cast<float>(random() % 7) - 3, bytes.data() + at);
    tensor.data = bytes.data();
    tensor.type = type;
    tensor.rank = 3;
    const std::int64_t shape[3] = {groups, rows, columns};
    const std::int64_t strides[3] = {rows * columns * spread, (transposed ? 1 : columns) * spread,
                                     (transposed ? rows : 1) * spread};
    std::copy(shape, shape + 3, tensor.shape);
    std::copy(strides, strides + 3, tensor.strides);
  }
  std::vector<unsigned char> bytes;
  HostTensor tensor;
};

int Check(const HostTensor& a, const HostTensor& b, const HostTensor& c) {
  Scratch scratch;
  HostContext context{ThreadPool::Global(), scratch};
  return CheckBound(
      {a, b}, {c}, [&] { Gemm(context, a, b, c); },
      [](const auto& in, const auto& out) { return BindSmallProduct(in[0], in[1], out[0]); });
}

TEST(AnyShapeAndOrientation) {
  int bound = 0, cases = 0;
  for (const std::int64_t m : {1, 2, 3, 4, 33}) {
    for (const std::int64_t n : {1, 2, 3, 15, 16, 17, 31, 64, 100, 200, 300}) {
      for (const std::int64_t k : {1, 5, 16, 63, 130}) {
        for (int form = 0; form < 8; ++form) {
          if ((m > 4 && n > 4) || m * n * k > 100000) continue;
          Matrices a(DType::kF32, 1, m, k, form & 1), b(DType::kF32, 1, k, n, form & 2),
              c(DType::kF32, 1, m, n, form & 4);
          bound += Check(a.tensor, b.tensor, c.tensor);
          ++cases;
        }
      }
    }
  }
  CHECK_EQ(bound, 2 * cases);
}

// Short sums use FMAs in the order of k, as in large products.
TEST(FewTermsAreAddedInOrder) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const std::int64_t m : {1, 2, 3, 4}) {
    for (const std::int64_t n : {6, 16, 70}) {
      for (const std::int64_t k : {1, 3, 8, 15}) {
        Matrices a(DType::kF32, 1, m, k, false), b(DType::kF32, 1, k, n, false),
            c(DType::kF32, 1, m, n, false);
        for (std::int64_t i = 0; i < m * k; ++i) a.tensor.as<float>()[i] = normal(random);
        for (std::int64_t i = 0; i < k * n; ++i) b.tensor.as<float>()[i] = normal(random);
        CHECK_EQ(CheckBound(
                     {a.tensor, b.tensor}, {c.tensor},
                     [&] {
                       for (std::int64_t i = 0; i < m * n; ++i) {
                         float sum = 0;
                         for (std::int64_t j = 0; j < k; ++j)
                           sum = std::fma(a.tensor.as<float>()[i / n * k + j],
                                          b.tensor.as<float>()[j * n + i % n], sum);
                         c.tensor.as<float>()[i] = sum;
                       }
                     },
                     [](const auto& in, const auto& out) { return BindSmallProduct(in[0], in[1], out[0]); }),
                 2);
      }
    }
  }
}

// Products of so few elements are steps for machine code.
TEST(TinyProductsAreAddedInOrder) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  int bound = 0;
  for (int round = 0; round < 400; ++round) {
    const auto up_to = [&random](std::uint32_t n) { return static_cast<std::int64_t>(1 + random() % n); };
    const std::int64_t groups = up_to(2), m = up_to(5), n = up_to(9), k = up_to(3);
    if (groups * m * n * k > 16) continue;
    Matrices a(DType::kF32, groups, m, k, random() % 2 == 0), b(DType::kF32, groups, k, n, random() % 2 == 0),
        c(DType::kF32, groups, m, n, random() % 2 == 0, up_to(2));
    for (Matrices* x : {&a, &b})
      for (std::size_t i = 0; i < x->bytes.size() / sizeof(float); ++i)
        x->tensor.as<float>()[i] = normal(random);
    const auto at = [](const HostTensor& t, std::int64_t g, std::int64_t i, std::int64_t j) -> float& {
      return t.as<float>()[g * t.strides[0] + i * t.strides[1] + j * t.strides[2]];
    };
    bound += CheckBound(
        {a.tensor, b.tensor}, {c.tensor},
        [&] {
          for (std::int64_t i = 0; i < groups * m * n; ++i) {
            float sum = 0;
            for (std::int64_t j = 0; j < k; ++j)
              sum = std::fma(at(a.tensor, i / n / m, i / n % m, j), at(b.tensor, i / n / m, j, i % n), sum);
            at(c.tensor, i / n / m, i / n % m, i % n) = sum;
          }
        },
        [](const auto& in, const auto& out) { return BindSmallProduct(in[0], in[1], out[0]); });
  }
  CHECK(bound > 100);
}

TEST(TypesGroupsAndStrides) {
  const DType types[] = {DType::kF32, DType::kF16, DType::kBF16};
  for (const std::int64_t m : {1, 3}) {
    for (const DType left : types) {
      for (const DType right : types) {
        for (const DType result : types) {
          for (int form = 0; form < 8; ++form) {
            Matrices a(left, 3, m, 37, form & 1, 2), b(right, 3, 37, 50, form & 2),
                c(result, 3, m, 50, form & 4, 3);
            CHECK_EQ(Check(a.tensor, b.tensor, c.tensor), 2);
          }
        }
      }
    }
    Matrices a(DType::kF64, 2, m, 37, true), b(DType::kF64, 2, 37, 50, false),
        c(DType::kF64, 2, m, 50, false);
    CHECK_EQ(Check(a.tensor, b.tensor, c.tensor), 2);
  }
}

TEST(OtherProductsAreNotBound) {
  const auto is_bound = [](DType type, std::int64_t m, std::int64_t k, std::int64_t n, std::int64_t spread) {
    Matrices a(type, 1, m, k, false), b(type, 1, k, n, false, spread), c(type, 1, m, n, false);
    return Check(a.tensor, b.tensor, c.tensor) > 0;
  };
  CHECK(is_bound(DType::kF32, 1, 64, 64, 1));
  CHECK(!is_bound(DType::kF32, 5, 8, 8, 1));
  CHECK(!is_bound(DType::kF32, 1, 512, 512, 1));
  CHECK(!is_bound(DType::kF32, 2, 64, 64, 2));
  CHECK(!is_bound(DType::kS32, 1, 64, 64, 1));
  CHECK(!is_bound(DType::kF32, 1, 0, 64, 1));
}

}  // namespace
}  // namespace ipu_model
