// Code of f16, which is f32 in lanes: conversions from and to its bits, and rounding.
#include "kernels/elementwise/vector_code/vector_code.h"

namespace ipu_model {

// The register file has made f32 of the bits when it loaded them, and makes bits when it stores.
Vector VectorCode::EmitHalfBits() { return lane_bytes_ == 4 && IsHalf() ? Use(0) : kNone; }

Vector VectorCode::EmitRound() {
  if (lane_bytes_ != 4 || !IsHalf()) return kNone;
  const Vector a = Use(0), result = registers_->New();
  code_->VexImmediate(vex::kToHalf, wide(), a, 0, result, 0);
  code_->Vex(vex::kFromHalf, wide(), result, 0, result);
  return result;
}

}  // namespace ipu_model
