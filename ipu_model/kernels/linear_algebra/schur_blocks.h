// The standard form of 2 x 2 blocks on the diagonal of a real Schur form, as LAPACK's lanv2.
#ifndef IPU_MODEL_KERNELS_LINEAR_ALGEBRA_SCHUR_BLOCKS_H_
#define IPU_MODEL_KERNELS_LINEAR_ALGEBRA_SCHUR_BLOCKS_H_

#include <algorithm>
#include <cmath>
#include <limits>

namespace ipu_model {
namespace ISA_NAMESPACE {

template <typename R>
struct StandardBlock {
  R a, b, c, d, cosine, sine;
};

template <typename R>
R Length(R x, R y) {
  const R large = std::max(std::abs(x), std::abs(y)), small = std::min(std::abs(x), std::abs(y));
  return large == 0 ? 0 : large * std::sqrt(1 + small / large * (small / large));
}
template <typename R>
R Sign(R x) {
  return x > 0 ? 1 : x < 0 ? -1 : 0;
}

// ((a, b), (c, d)) after a rotation: triangular, or with equal entries on the diagonal and b c < 0. Entries
// are of at most about 1.
template <typename R>
StandardBlock<R> Standardised(R a, R b, R c, R d) {
  constexpr R kEps = std::numeric_limits<R>::epsilon();
  if (c == 0 || (a == d && Sign(b) * Sign(c) < 0)) return {a, b, c, d, 1, 0};
  if (b == 0) return {d, -c, 0, a, 0, 1};
  const R half = (a - d) / 2, larger = std::max(std::abs(b), std::abs(c)),
          smaller = std::min(std::abs(b), std::abs(c)) * Sign(b) * Sign(c);
  const R scale = std::max(std::abs(half), larger);
  const R value = half / scale * half + larger / scale * smaller;
  if (value >= 4 * kEps) {  // two real eigenvalues
    const R root = half + std::copysign(std::sqrt(scale) * std::sqrt(value), half), length = Length(c, root);
    return {d + root, b - c, 0, d - larger / root * smaller, root / length, c / length};
  }
  // Complex or nearly equal eigenvalues: make the diagonal entries equal.
  const R sigma = b + c;
  R length = Length(sigma, a - d);
  if (length == 0) length = 1;
  const R cosine = std::sqrt((1 + std::abs(sigma) / length) / 2);
  const R sine = -(half / (length * cosine)) * std::copysign(R{1}, sigma);
  const R aa = a * cosine + b * sine, bb = b * cosine - a * sine, cc = c * cosine + d * sine,
          dd = d * cosine - c * sine;
  const R b1 = bb * cosine + dd * sine, c1 = cc * cosine - aa * sine;
  const R mean = (aa * cosine + cc * sine + (dd * cosine - bb * sine)) / 2;
  if (c1 == 0) return {mean, b1, 0, mean, cosine, sine};
  if (b1 == 0) return {mean, -c1, 0, mean, -sine, cosine};
  if (Sign(b1) * Sign(c1) < 0) return {mean, b1, c1, mean, cosine, sine};
  const R root_b = std::sqrt(std::abs(b1)), root_c = std::sqrt(std::abs(c1));
  const R shift = std::copysign(root_b * root_c, c1), inverse = 1 / std::sqrt(std::abs(b1 + c1));
  const R turn = root_b * inverse, slide = root_c * inverse;
  return {mean + shift, b1 - c1, 0, mean - shift, cosine * turn - sine * slide, cosine * slide + sine * turn};
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_LINEAR_ALGEBRA_SCHUR_BLOCKS_H_
