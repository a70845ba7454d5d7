// Dense factorisations and triangular systems, batched, in f32, f64, c64 and c128.
#ifndef IPU_MODEL_KERNELS_LINEAR_ALGEBRA_LINEAR_ALGEBRA_H_
#define IPU_MODEL_KERNELS_LINEAR_ALGEBRA_LINEAR_ALGEBRA_H_

#include <cstdint>

#include "hlo/TriangularOptions.hpp"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

constexpr bool LinearAlgebraSupports(DType type) {
  return type == DType::kF32 || type == DType::kF64 || IsComplex(type);
}

using hlo::Transpose;
using hlo::TriangularOptions;

// `out` = L with L L^H = a (lower), or U with U^H U = a, for a [..., n, n], of which only that triangle is
// read. The other triangle of the result is zero. A matrix that is not positive definite gives NaN
// everywhere.
void Cholesky(HostContext& context, bool lower, const HostTensor& a, const HostTensor& out);

// `out` = X with op(a) X = b (left side) or X op(a) = b, for a [..., m, m], of which only one triangle is
// read.
void TriangularSolve(HostContext& context, const TriangularOptions& options, const HostTensor& a,
                     const HostTensor& b, const HostTensor& out);

// The steps of blocked algorithms, on single matrices (rank 2) that do not overlap. FactorBlock replaces the
// lower triangle of the dense a [n, n] by its Cholesky factor; the rest does not change.
void FactorBlock(const HostTensor& a);
// Replaces the dense b [m, n] by b l^-H for the factor l [n, n].
void SolveBlock(const HostTensor& l, const HostTensor& b);
// Dense c [m, n] -= a [m, k] * b [k, n]. a and b may be conjugated and have any strides.
void SubtractProduct(const HostTensor& a, bool conjugate_a, const HostTensor& b, bool conjugate_b,
                     const HostTensor& c);
// Copies the matrix or its adjoint.
void CopyMatrix(const HostTensor& from, bool adjoint, const HostTensor& to);
// Returns the matrix in the last two dimensions of a tensor whose other dimensions have extent 1.
HostTensor LastMatrix(const HostTensor& t);
HostTensor TransposedMatrix(const HostTensor& m);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_LINEAR_ALGEBRA_LINEAR_ALGEBRA_H_
