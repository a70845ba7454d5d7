// Element types and the limit on ranks. Plain declarations: kernels include this header as well.
// Poplar's equivalents: poplar::Type and Target::getTypeSize (poplar/Type.hpp).
#ifndef IPU_MODEL_TYPES_HPP
#define IPU_MODEL_TYPES_HPP

#include <cstddef>
#include <cstdint>

namespace ipu_model {

// The most dimensions that a tensor may have.
constexpr int kMaxRank = 16;

// The numeric values are written to serialised executables: append only.
enum class DType : std::uint8_t {
  kPred = 0,
  kS2,
  kS4,
  kS8,
  kS16,
  kS32,
  kS64,
  kU2,
  kU4,
  kU8,
  kU16,
  kU32,
  kU64,
  kF4E2M1FN,
  kF8E3M4,
  kF8E4M3,
  kF8E4M3FN,
  kF8E4M3FNUZ,
  kF8E4M3B11FNUZ,
  kF8E5M2,
  kF8E5M2FNUZ,
  kF8E8M0FNU,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,
  kC128,
  kCount
};

// Bytes of one element in host memory. Sub-byte types take one byte each, as PJRT delivers them.
constexpr std::size_t SizeOf(DType type) {
  switch (type) {
    case DType::kS16:
    case DType::kU16:
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kS32:
    case DType::kU32:
    case DType::kF32:
      return 4;
    case DType::kS64:
    case DType::kU64:
    case DType::kF64:
    case DType::kC64:
      return 8;
    case DType::kC128:
      return 16;
    default:
      return 1;
  }
}

constexpr bool IsComplex(DType type) { return type == DType::kC64 || type == DType::kC128; }
constexpr bool IsFloat(DType type) { return type >= DType::kF4E2M1FN && type <= DType::kF64; }
constexpr bool IsSigned(DType type) { return type >= DType::kS2 && type <= DType::kS64; }
constexpr bool IsUnsigned(DType type) { return type >= DType::kU2 && type <= DType::kU64; }
constexpr bool IsInteger(DType type) { return IsSigned(type) || IsUnsigned(type); }

// Returns the name in StableHLO's spelling, except "u8" for ui8 (likewise for other widths) and "pred" for
// i1. Internal linkage: otherwise the linker could keep a copy that is compiled for a wider instruction set
// than the processor has.
static constexpr const char* NameOf(DType type) {
  constexpr const char* kNames[] = {
      "pred",      "s2",     "s4",       "s8",         "s16",           "s32",    "s64",
      "u2",        "u4",     "u8",       "u16",        "u32",           "u64",    "f4e2m1fn",
      "f8e3m4",    "f8e4m3", "f8e4m3fn", "f8e4m3fnuz", "f8e4m3b11fnuz", "f8e5m2", "f8e5m2fnuz",
      "f8e8m0fnu", "f16",    "bf16",     "f32",        "f64",           "c64",    "c128"};
  return type < DType::kCount ? kNames[static_cast<int>(type)] : "invalid";
}

}  // namespace ipu_model

#endif  // IPU_MODEL_TYPES_HPP
