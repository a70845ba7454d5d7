// Batches of factorisations and triangular systems. Each matrix is first brought into one dense form.
#include "kernels/linear_algebra/linear_algebra.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/copy/strided_copy.h"
#include "kernels/host/dense_tensor.h"
#include "kernels/host/isa.h"
#include "kernels/linear_algebra/linear_algebra_loops.h"

namespace ipu_model {
namespace {

constexpr std::int64_t kPanel = 64;
// Batches of matrices with at most so many rows are made dense at once, up to so many bytes: a copy of each
// would take longer than its system.
constexpr std::int64_t kFewRows = 16, kMostDenseBytes = 16 << 20;

// Returns matrix number `index` of a batch as a rank-2 tensor.
HostTensor Matrix(const HostTensor& t, std::int64_t index) {
  std::int64_t offset = 0;
  for (int d = t.rank - 3; d >= 0; --d) {
    offset += index % t.shape[d] * t.strides[d];
    index /= t.shape[d];
  }
  HostTensor m = t;
  m.data = t.as<char>() + offset * static_cast<std::int64_t>(SizeOf(t.type));
  m.rank = 2;
  for (int d = 0; d < 2; ++d) {
    m.shape[d] = t.shape[t.rank - 2 + d];
    m.strides[d] = t.strides[t.rank - 2 + d];
  }
  return m;
}

HostTensor Transposed(const HostTensor& m) {
  HostTensor t = m;
  std::swap(t.shape[0], t.shape[1]);
  std::swap(t.strides[0], t.strides[1]);
  return t;
}

void Copy(const HostTensor& from, const HostTensor& to) {
  CopyStrided(nullptr, 2, from.shape, from.data, from.strides, to.data, to.strides, SizeOf(from.type));
}

HostTensor Dense(DType type, std::int64_t rows, std::int64_t columns, void* data) {
  HostTensor m;
  m.data = data;
  m.type = type;
  m.rank = 2;
  m.shape[0] = rows;
  m.shape[1] = m.strides[0] = columns;
  m.strides[1] = 1;
  return m;
}

// Negates the imaginary parts of a dense complex matrix.
void Conjugate(const HostTensor& m) {
  const std::int64_t n = m.shape[0] * m.shape[1];
  if (m.type == DType::kC64) {
    for (std::int64_t i = 0; i < n; ++i) m.as<float>()[2 * i + 1] *= -1;
  } else if (m.type == DType::kC128) {
    for (std::int64_t i = 0; i < n; ++i) m.as<double>()[2 * i + 1] *= -1;
  }
}

// Sets the part above the diagonal to zero. Every failure makes the last pivot NaN; then sets everything to
// NaN.
template <typename R>
void FinishAs(std::int64_t n, std::int64_t parts, R* a) {
  if (std::isnan(a[(n * n - 1) * parts])) {
    std::fill(a, a + n * n * parts, std::numeric_limits<R>::quiet_NaN());
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) std::fill(a + (i * n + i + 1) * parts, a + (i + 1) * n * parts, R{0});
}

void FinishFactor(const HostTensor& m) {
  const std::int64_t n = m.shape[0], parts = IsComplex(m.type) ? 2 : 1;
  if (m.type == DType::kF32 || m.type == DType::kC64) {
    FinishAs(n, parts, m.as<float>());
  } else {
    FinishAs(n, parts, m.as<double>());
  }
}

HostTensor LastTransposed(const HostTensor& t) {
  HostTensor turned = t;
  std::swap(turned.shape[t.rank - 1], turned.shape[t.rank - 2]);
  std::swap(turned.strides[t.rank - 1], turned.strides[t.rank - 2]);
  return turned;
}

// A dense copy of a tensor in scratch memory.
HostTensor DenseCopy(HostContext& context, const HostTensor& from) {
  HostTensor to = from;
  const auto elements = static_cast<std::size_t>(SetDenseStrides(&to));
  to.data = context.scratch.Allocate<char>(elements * SizeOf(from.type));
  CopyTensor(context, from, to);
  return to;
}

// Calls task(matrix) for all of a batch whose matrices take `products` products each.
template <typename Task>
void ForEachMatrix(ThreadPool& pool, std::int64_t batch, std::int64_t products, const Task& task) {
  constexpr std::int64_t kSharedProducts = 32 << 10;
  const int workers =
      batch * products > kSharedProducts ? static_cast<int>(std::min<std::int64_t>(batch, pool.size())) : 1;
  auto part = [&](int w) {
    for (std::int64_t i = batch * w / workers; i < batch * (w + 1) / workers; ++i) task(i);
  };
  workers > 1 ? pool.Run(workers, TaskRef(part)) : part(0);
}

bool IsBatchOfSmall(const HostTensor& a, std::int64_t batch) {
  return batch > 1 && a.shape[a.rank - 1] <= kFewRows &&
         a.num_elements() * static_cast<std::int64_t>(SizeOf(a.type)) <= kMostDenseBytes;
}

// As Cholesky, of many small matrices.
void SmallCholesky(HostContext& context, bool lower, const HostTensor& a, const HostTensor& out) {
  const std::int64_t n = a.shape[a.rank - 1], bytes = n * n * static_cast<std::int64_t>(SizeOf(a.type));
  const HostTensor dense = DenseCopy(context, lower ? a : LastTransposed(a));
  ForEachMatrix(context.pool, a.num_elements() / (n * n), n * n * n, [&](std::int64_t i) {
    const HostTensor matrix = Dense(a.type, n, n, dense.as<char>() + i * bytes);
    if (!lower) Conjugate(matrix);
    JAX_IPU_FOR_ISA(CholeskyFactor)(nullptr, a.type, n, matrix.data, nullptr);  // no panel for few rows
    FinishFactor(matrix);
    if (!lower) Conjugate(matrix);
  });
  CopyTensor(context, dense, lower ? out : LastTransposed(out));
}

// As TriangularSolve, of many small matrices.
void SmallTriangularSolve(HostContext& context, const TriangularOptions& options, bool transposed,
                          bool backward, const HostTensor& a, const HostTensor& b, const HostTensor& out) {
  const std::int64_t m = a.shape[a.rank - 1], batch = a.num_elements() / (m * m),
                     n = out.num_elements() / (batch * m);
  const auto bytes = static_cast<std::int64_t>(SizeOf(a.type));
  const HostTensor matrices = DenseCopy(context, transposed ? LastTransposed(a) : a);
  const HostTensor x = DenseCopy(context, options.left_side ? b : LastTransposed(b));
  ForEachMatrix(context.pool, batch, m * m * n, [&](std::int64_t i) {
    char* const matrix = matrices.as<char>() + i * m * m * bytes;
    if (options.transpose == Transpose::kAdjoint) Conjugate(Dense(a.type, m, m, matrix));
    JAX_IPU_FOR_ISA(SolveLeft)(a.type, m, n, matrix, backward, options.unit_diagonal,
                               x.as<char>() + i * m * n * bytes, n);
  });
  CopyTensor(context, x, options.left_side ? out : LastTransposed(out));
}

}  // namespace

void Cholesky(HostContext& context, bool lower, const HostTensor& a, const HostTensor& out) {
  const std::int64_t n = a.shape[a.rank - 1];
  if (a.num_elements() == 0) return;
  const std::int64_t batch = a.num_elements() / (n * n);
  if (IsBatchOfSmall(a, batch)) return SmallCholesky(context, lower, a, out);
  const std::int64_t bytes = static_cast<std::int64_t>(SizeOf(a.type));
  const int workers = static_cast<int>(std::min<std::int64_t>(batch, context.pool.size()));
  const std::int64_t per_worker = (n * n + kPanel * n) * bytes;
  char* memory = context.scratch.Allocate<char>(static_cast<std::size_t>(per_worker * workers));
  auto task = [&](int w) {
    char* data = memory + w * per_worker;
    const HostTensor dense = Dense(a.type, n, n, data);
    for (std::int64_t i = batch * w / workers; i < batch * (w + 1) / workers; ++i) {
      const HostTensor from = Matrix(a, i), to = Matrix(out, i);
      Copy(lower ? from : Transposed(from), dense);
      if (!lower) Conjugate(dense);
      JAX_IPU_FOR_ISA(CholeskyFactor)(workers == 1 ? &context.pool : nullptr, a.type, n, data,
                                      data + n * n * bytes);
      FinishFactor(dense);
      if (!lower) Conjugate(dense);
      Copy(dense, lower ? to : Transposed(to));
    }
  };
  if (workers > 1) {
    context.pool.Run(workers, TaskRef(task));
  } else {
    task(0);
  }
}

void TriangularSolve(HostContext& context, const TriangularOptions& options, const HostTensor& a,
                     const HostTensor& b, const HostTensor& out) {
  if (out.num_elements() == 0) return;
  const std::int64_t m = a.shape[a.rank - 1], batch = a.num_elements() / (m * m);
  const std::int64_t bytes = static_cast<std::int64_t>(SizeOf(a.type));
  // X op(a) = b is op(a)^T X^T = b^T: the matrix is transposed once for the side and once for op.
  const bool transposed = options.left_side == (options.transpose != Transpose::kNone);
  const bool backward = options.lower == transposed;
  const std::int64_t n = out.num_elements() / (batch * m);  // number of right-hand sides
  if (IsBatchOfSmall(a, batch) && n <= kFewRows)
    return SmallTriangularSolve(context, options, transposed, backward, a, b, out);
  // The workers share the matrices and, within each, the right-hand sides.
  const std::int64_t cuts =
      std::clamp<std::int64_t>(context.pool.size() / batch, 1, std::max<std::int64_t>(1, n / 16));
  const std::int64_t tasks = batch * cuts, widest = (n + cuts - 1) / cuts;
  const int workers = static_cast<int>(std::min<std::int64_t>(tasks, context.pool.size()));
  const std::int64_t per_worker = (m * m + m * widest) * bytes;
  char* memory = context.scratch.Allocate<char>(static_cast<std::size_t>(per_worker * workers));
  auto task = [&](int w) {
    char* data = memory + w * per_worker;
    for (std::int64_t t = tasks * w / workers; t < tasks * (w + 1) / workers; ++t) {
      const HostTensor dense = Dense(a.type, m, m, data);
      const HostTensor matrix = Matrix(a, t / cuts);
      Copy(transposed ? Transposed(matrix) : matrix, dense);
      if (options.transpose == Transpose::kAdjoint) Conjugate(dense);
      const std::int64_t first = n * (t % cuts) / cuts, last = n * (t % cuts + 1) / cuts;
      if (first == last) continue;
      HostTensor from = Matrix(b, t / cuts), to = Matrix(out, t / cuts);
      if (!options.left_side) {
        from = Transposed(from);
        to = Transposed(to);
      }
      const std::int64_t begin[] = {0, first}, shape[] = {m, last - first};
      const HostTensor x = Dense(a.type, m, last - first, data + m * m * bytes);
      Copy(SubTensor(from, begin, shape), x);
      JAX_IPU_FOR_ISA(SolveLeft)(a.type, m, last - first, data, backward, options.unit_diagonal, x.data,
                                 last - first);
      Copy(x, SubTensor(to, begin, shape));
    }
  };
  if (workers > 1 && out.num_elements() * m > (32 << 10)) {
    context.pool.Run(workers, TaskRef(task));
  } else {
    for (int w = 0; w < workers; ++w) task(w);
  }
}

void FactorBlock(const HostTensor& a) {
  const std::int64_t n = a.shape[0];
  std::vector<char> panel(static_cast<std::size_t>(kPanel * n) * SizeOf(a.type));
  JAX_IPU_FOR_ISA(CholeskyFactor)(nullptr, a.type, n, a.data, panel.data());
}

void SolveBlock(const HostTensor& l, const HostTensor& b) {
  JAX_IPU_FOR_ISA(SolveRightAdjoint)(b.type, b.shape[0], b.shape[1], l.data, l.strides[0], b.data,
                                     b.strides[0]);
}

void SubtractProduct(const HostTensor& a, bool conjugate_a, const HostTensor& b, bool conjugate_b,
                     const HostTensor& c) {
  const std::int64_t m = c.shape[0], n = c.shape[1], k = a.shape[1];
  std::vector<char> left(static_cast<std::size_t>(m * k) * SizeOf(a.type)),
      right(static_cast<std::size_t>(k * n) * SizeOf(b.type));
  const HostTensor dense_a = Dense(a.type, m, k, left.data()), dense_b = Dense(b.type, k, n, right.data());
  Copy(a, dense_a);
  Copy(b, dense_b);
  if (conjugate_a) Conjugate(dense_a);
  if (conjugate_b) Conjugate(dense_b);
  JAX_IPU_FOR_ISA(MultiplySubtract)(c.type, m, n, k, left.data(), k, right.data(), n, c.data, c.strides[0]);
}

void CopyMatrix(const HostTensor& from, bool adjoint, const HostTensor& to) {
  Copy(adjoint ? Transposed(from) : from, to);
  if (adjoint) Conjugate(to);
}

HostTensor LastMatrix(const HostTensor& t) { return Matrix(t, 0); }

HostTensor TransposedMatrix(const HostTensor& m) { return Transposed(m); }

}  // namespace ipu_model
