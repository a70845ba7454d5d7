// The block functions of the block interpreter: each applies one operation to a block of registers. Narrow
// floats are held as f32 and sub-byte integers as bytes; rounding and wrapping are separate operations.
#ifndef IPU_MODEL_KERNELS_ELEMENTWISE_PROGRAM_MICRO_OP_H_
#define IPU_MODEL_KERNELS_ELEMENTWISE_PROGRAM_MICRO_OP_H_

#include <cstddef>
#include <cstdint>

#include "ipu_model/Types.hpp"
#include "kernels/elementwise/program/expression.h"

namespace ipu_model {

// The element type of a register. kPred is stored as kU8 with the values 0 and 1.
enum class RegisterType : std::uint8_t {
  kS8,
  kS16,
  kS32,
  kS64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF32,
  kF64,
  kC64,
  kC128
};

constexpr RegisterType RegisterTypeOf(DType type) {
  switch (type) {
    case DType::kS2:
    case DType::kS4:
    case DType::kS8:
      return RegisterType::kS8;
    case DType::kS16:
      return RegisterType::kS16;
    case DType::kS32:
      return RegisterType::kS32;
    case DType::kS64:
      return RegisterType::kS64;
    case DType::kPred:
    case DType::kU2:
    case DType::kU4:
    case DType::kU8:
      return RegisterType::kU8;
    case DType::kU16:
      return RegisterType::kU16;
    case DType::kU32:
      return RegisterType::kU32;
    case DType::kU64:
      return RegisterType::kU64;
    case DType::kF64:
      return RegisterType::kF64;
    case DType::kC64:
      return RegisterType::kC64;
    case DType::kC128:
      return RegisterType::kC128;
    default:
      return RegisterType::kF32;
  }
}
constexpr std::size_t SizeOf(RegisterType type) {
  constexpr std::size_t kSizes[] = {1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 8, 16};
  return kSizes[static_cast<int>(type)];
}

struct MicroArguments {
  void* result;
  const void* operand[4];
  std::int64_t n;
  std::uint32_t immediate;
  unsigned scalar;  // bit i: operand i is one element for the whole block
};
// `result` may be exactly an operand of the same element size.
using MicroFunction = void (*)(const MicroArguments&);

// Operations of the interpreter that have no ScalarOp.
enum class FusedOp : std::uint16_t {
  kRound,                // f32 rounded to a value of the DType in `immediate`
  kWrap,                 // 8-bit integer wrapped to its low `immediate` bits
  kSaturate,             // 8-bit integer saturated to `immediate` bits
  kLogicalNot,           // on kPred
  kToPred,               // x != 0
  kToOddF32,             // f64 to f32, rounded to odd
  kMultiplySubtract,     // a * b - c, one rounding
  kSubtractMultiply,     // c - a * b, one rounding
  kRotateLeft,           // by `immediate` bits, less than the width
  kAddMultiply,          // (a + b) * c
  kSubtractTimes,        // (a - b) * c
  kMultiplyMultiply,     // (a * b) * c
  kAddAdd,               // (a + b) + c
  kDivideAdd,            // a / b + c
  kMultiplyDivide,       // (a * b) / c
  kSelectCompare,        // a <immediate: ScalarOp kEq..kGe> b ? c : d
  kRotateXor,            // rotate_left(a, immediate) ^ b
  kFromBits,             // bits of the DType in `immediate` (u8 or u16) to its value in f32
  kToBits,               // the inverse of kFromBits
  kAddMultiplyMultiply,  // ((a + b) * c) * d
  kFmaMultiply,          // fma(a, b, c) * d
  kMultiplyFma,          // fma(a * b, c, d)
  kProductPlus,          // (a * b) + c, f64
  kProductMinus,         // (a * b) - c, f64
  kMinusProduct,         // c - (a * b), f64
  kMultiplyUpper,        // upper half of (a + immediate) * b, unsigned, of division by constants
};

// What a block function computes, for code that is generated in its place: a ScalarOp, kFusedCode + a
// FusedOp, or one of the other codes.
struct MicroKind {
  static constexpr std::uint16_t kFusedCode = 1000;
  // A move, and those of dynamic slices (kernels/host/bound_slice.h): neither are operations on elements.
  static constexpr std::uint16_t kSliceStart = 0xfffb, kMoveFrom = 0xfffc, kMoveTo = 0xfffd, kMove = 0xfffe;
  static constexpr std::uint16_t kOther = 0xffff;

  std::uint16_t code = kOther;
  RegisterType type = RegisterType::kU8, result = RegisterType::kU8;  // of the value operands and the result
  bool predicates = false, predicate_result = false;                  // kU8 registers of kPred values
};

// Return null if the operation does not exist for the type. The type is that of the value operands. kConvert,
// kBitcast, kSelect between other types, kComplex, kReal and kImag have separate functions.
#define JAX_IPU_MICRO_OPS                                                                              \
  MicroFunction FindArithmetic(ScalarOp op, RegisterType type);                                        \
  MicroFunction FindInteger(ScalarOp op, RegisterType type);                                           \
  MicroFunction FindMath(ScalarOp op, RegisterType type);                                              \
  MicroFunction FindFused(FusedOp op, RegisterType type);                                              \
  MicroFunction FindProduct(FusedOp op, RegisterType type);                                            \
  MicroFunction FindComplexArithmetic(ScalarOp op, RegisterType type);                                 \
  MicroFunction FindConversion(FusedOp op, RegisterType type);                                         \
  MicroFunction FindIntegerFused(FusedOp op, RegisterType type);                                       \
  MicroFunction FindConvert(RegisterType from, RegisterType to);                                       \
  /* Dense host elements of a narrow type to registers and back; null when they are the same bytes. */ \
  MicroFunction FindLoad(DType type);                                                                  \
  MicroFunction FindStore(DType type);
namespace avx2 {
JAX_IPU_MICRO_OPS
}
namespace avx512 {
JAX_IPU_MICRO_OPS
}
// Other functions of complex numbers and rare scalar functions are compiled for one instruction set only.
MicroFunction FindComplex(ScalarOp op, RegisterType type);
MicroFunction FindNextAfter(DType type);
MicroFunction FindReducePrecisionF16();

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_ELEMENTWISE_PROGRAM_MICRO_OP_H_
