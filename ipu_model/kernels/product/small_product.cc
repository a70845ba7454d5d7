#include "kernels/product/small_product.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/elementwise/program/micro_op.h"
#include "kernels/host/isa.h"
#include "kernels/product/gemm.h"

namespace ipu_model {
namespace {

// Up to this many bytes of all matrices and this many multiply-adds, a second worker does not pay.
constexpr std::int64_t kMostBytes = 256 << 10, kMostWork = 48 * 48 * 48;
// The longest vector in elements, a multiple of the lanes of any instruction set.
constexpr std::int64_t kRowUnit = 16;

GemmMatrix MatrixOf(const HostTensor& tensor) {
  return {nullptr, tensor.type, tensor.strides[0], tensor.strides[1], tensor.strides[2]};
}

// Transposes the problem: (A B)^T = B^T A^T.
void Transpose(GemmProblem* p) {
  std::swap(p->a, p->b);
  std::swap(p->m, p->n);
  for (GemmMatrix* matrix : {&p->a, &p->b, &p->c}) std::swap(matrix->row, matrix->column);
}

// A product of so few multiply-adds, steps and elements of a row is a list of steps on rows of its result, of
// which loops make machine code.
constexpr std::int64_t kMostSteps = 16, kMostTinyWork = 64, kTinyRow = 8;

// Binds a tiny product of f32 in steps of one multiply-add each, in the order of k. Returns null for other
// products.
std::unique_ptr<BoundKernel> BindTinyProduct(GemmProblem p) {
  bool swapped = false;
  if (p.a.type != DType::kF32 || p.b.type != DType::kF32 || p.c.type != DType::kF32 ||
      p.groups * p.m * p.n * p.k > kMostTinyWork)
    return nullptr;
  // Rows of the result along n or, in the transposed problem, along m; single elements otherwise.
  const auto in_rows = [](const GemmMatrix& factor, const GemmMatrix& result, std::int64_t elements) {
    return elements <= kTinyRow && factor.column == 1 && result.column == 1;
  };
  const auto transposed = [](GemmMatrix matrix) {
    std::swap(matrix.row, matrix.column);
    return matrix;
  };
  const bool along_n = in_rows(p.b, p.c, p.n), along_m = in_rows(transposed(p.a), transposed(p.c), p.m);
  if (along_m && (!along_n || p.m > p.n)) {
    Transpose(&p);
    swapped = !swapped;
  }
  const std::int64_t lanes = along_n || along_m ? p.n : 1;
  if (p.groups * p.m * (p.n / lanes) * p.k > kMostSteps) return nullptr;

  auto list = std::make_unique<CallList>();
  const auto find = JAX_IPU_FOR_ISA(FindArithmetic);
  const MicroFunction fma = find(ScalarOp::kFma, RegisterType::kF32);
  MicroKind kind;
  kind.code = static_cast<std::uint16_t>(ScalarOp::kFma);
  kind.type = kind.result = RegisterType::kF32;
  const CallList::Place zero = list->Keep(0.0f);
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(float));
  const auto place = [kSize](std::size_t input, const GemmMatrix& matrix, std::int64_t g, std::int64_t row,
                             std::int64_t column) {
    return CallList::Input(input, (g * matrix.group + row * matrix.row + column * matrix.column) * kSize);
  };
  for (std::int64_t g = 0; g < p.groups; ++g) {
    for (std::int64_t r = 0; r < p.m; ++r) {
      for (std::int64_t j = 0; j < p.n; j += lanes) {
        CallList::Place sum = zero;
        for (std::int64_t i = 0; i < p.k; ++i) {
          CallList::Place result = list->NewScratch(static_cast<std::size_t>(kTinyRow * kSize));
          if (i == p.k - 1) {
            result = CallList::Output(0, (g * p.c.group + r * p.c.row + j * p.c.column) * kSize);
          }
          const CallList::Place operands[] = {place(swapped ? 1 : 0, p.a, g, r, i),
                                              place(swapped ? 0 : 1, p.b, g, i, j), sum};
          const unsigned scalar = lanes == 1 ? 0 : i == 0 ? 5 : 1;
          list->AddStep(fma, result, operands, 3, lanes, 0, scalar, kind);
          sum = result;
        }
      }
    }
  }
  return list;
}

}  // namespace

std::unique_ptr<BoundKernel> BindSmallProduct(const HostTensor& a, const HostTensor& b,
                                              const HostTensor& out) {
  SmallProduct product;
  GemmProblem& p = product.problem;
  p.groups = out.shape[0];
  p.m = out.shape[1];
  p.n = out.shape[2];
  p.k = a.shape[2];
  if (p.groups == 0 || p.m == 0 || p.n == 0 || p.k == 0) return nullptr;
  p.a = MatrixOf(a);
  p.b = MatrixOf(b);
  p.c = MatrixOf(out);
  p.accumulator = GemmAccumulator(a.type, b.type, out.type);
  if (auto tiny = BindTinyProduct(p)) return tiny;
  const bool swapped = p.n < p.m;
  if (swapped) Transpose(&p);
  // A dimension of extent 1 may have any stride.
  if (p.k == 1) p.b.row = 1;
  if (p.n == 1 && p.b.row != 1) p.b.column = 1;
  const std::int64_t elements = p.groups * p.k * p.n;
  if (p.m > kFewRows || p.m * elements > kMostWork || (p.b.row != 1 && p.b.column != 1) ||
      elements * static_cast<std::int64_t>(SizeOf(p.b.type)) > kMostBytes)
    return nullptr;
  const MicroFunction function = JAX_IPU_FOR_ISA(FindSmallProduct(p));
  if (function == nullptr) return nullptr;
  product.row = (std::max(p.k, p.n) + kRowUnit) / kRowUnit * kRowUnit;
  auto list = std::make_unique<CallList>();
  const CallList::Place scratch =
      list->NewScratch(static_cast<std::size_t>(2 * p.m * product.row) * SizeOf(p.accumulator));
  const CallList::Place left = CallList::Input(swapped ? 1 : 0), right = CallList::Input(swapped ? 0 : 1);
  list->Add(function, CallList::Output(0), {left, right, list->Keep(product), scratch}, 0);
  return list;
}

}  // namespace ipu_model
