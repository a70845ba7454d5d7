// The form of a triangular system of equations. Plain declarations: kernels include this header as well.
// Source: the StableHLO specification, triangular_solve.
#ifndef HLO_TRIANGULAROPTIONS_HPP
#define HLO_TRIANGULAROPTIONS_HPP

#include <cstdint>

namespace hlo {

// op of a matrix a: a itself, its transpose, its conjugate transpose.
// The numeric values are written to serialised executables: append only.
enum class Transpose : std::uint8_t { kNone = 0, kTranspose, kAdjoint, kCount };

struct TriangularOptions {
  bool left_side = true;       // op(a) X = b, otherwise X op(a) = b
  bool lower = true;           // the triangle of a that is read
  bool unit_diagonal = false;  // the diagonal of a is not read, but taken as ones
  Transpose transpose = Transpose::kNone;
};

}  // namespace hlo

#endif  // HLO_TRIANGULAROPTIONS_HPP
