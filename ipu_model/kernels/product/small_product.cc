#include "kernels/product/small_product.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

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
  // Transposes the problem: (A B)^T = B^T A^T.
  const bool swapped = p.n < p.m;
  if (swapped) {
    std::swap(p.a, p.b);
    std::swap(p.m, p.n);
    for (GemmMatrix* matrix : {&p.a, &p.b, &p.c}) std::swap(matrix->row, matrix->column);
  }
  // A dimension of extent 1 may have any stride.
  if (p.k == 1) p.b.row = 1;
  if (p.n == 1 && p.b.row != 1) p.b.column = 1;
  const std::int64_t elements = p.groups * p.k * p.n;
  if (p.m > kFewRows || p.m * elements > kMostWork || (p.b.row != 1 && p.b.column != 1) ||
      elements * static_cast<std::int64_t>(SizeOf(p.b.type)) > kMostBytes)
    return nullptr;
  const MicroFunction function = HasAvx512() ? avx512::FindSmallProduct(p) : avx2::FindSmallProduct(p);
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
