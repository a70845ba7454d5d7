// The table of element types.
#include "pjrt/abi/element_type.h"

#include <string>

#include "runtime/executable/executable.h"

namespace jax_ipu::pjrt {
namespace {

using ipu_model::DType;

struct Pair {
  PJRT_Buffer_Type pjrt;
  DType type;
};
constexpr Pair kPairs[] = {
    {PJRT_Buffer_Type_PRED, DType::kPred},
    {PJRT_Buffer_Type_S2, DType::kS2},
    {PJRT_Buffer_Type_S4, DType::kS4},
    {PJRT_Buffer_Type_S8, DType::kS8},
    {PJRT_Buffer_Type_S16, DType::kS16},
    {PJRT_Buffer_Type_S32, DType::kS32},
    {PJRT_Buffer_Type_S64, DType::kS64},
    {PJRT_Buffer_Type_U2, DType::kU2},
    {PJRT_Buffer_Type_U4, DType::kU4},
    {PJRT_Buffer_Type_U8, DType::kU8},
    {PJRT_Buffer_Type_U16, DType::kU16},
    {PJRT_Buffer_Type_U32, DType::kU32},
    {PJRT_Buffer_Type_U64, DType::kU64},
    {PJRT_Buffer_Type_F4E2M1FN, DType::kF4E2M1FN},
    {PJRT_Buffer_Type_F8E3M4, DType::kF8E3M4},
    {PJRT_Buffer_Type_F8E4M3, DType::kF8E4M3},
    {PJRT_Buffer_Type_F8E4M3FN, DType::kF8E4M3FN},
    {PJRT_Buffer_Type_F8E4M3FNUZ, DType::kF8E4M3FNUZ},
    {PJRT_Buffer_Type_F8E4M3B11FNUZ, DType::kF8E4M3B11FNUZ},
    {PJRT_Buffer_Type_F8E5M2, DType::kF8E5M2},
    {PJRT_Buffer_Type_F8E5M2FNUZ, DType::kF8E5M2FNUZ},
    {PJRT_Buffer_Type_F8E8M0FNU, DType::kF8E8M0FNU},
    {PJRT_Buffer_Type_F16, DType::kF16},
    {PJRT_Buffer_Type_BF16, DType::kBF16},
    {PJRT_Buffer_Type_F32, DType::kF32},
    {PJRT_Buffer_Type_F64, DType::kF64},
    {PJRT_Buffer_Type_C64, DType::kC64},
    {PJRT_Buffer_Type_C128, DType::kC128},
};

}  // namespace

DType StorageType(PJRT_Buffer_Type type) {
  for (const Pair& pair : kPairs) {
    if (pair.pjrt == type) return pair.type;
  }
  switch (type) {
    case PJRT_Buffer_Type_S1:
    case PJRT_Buffer_Type_U1:
    case PJRT_Buffer_Type_F6E2M3FN:
    case PJRT_Buffer_Type_F6E3M2FN:
      return DType::kU8;
    default:
      throw Error(Code::kUnimplemented,
                  "The IPU has no arrays of PJRT element type " + std::to_string(static_cast<int>(type)));
  }
}

PJRT_Buffer_Type PjrtType(DType type) {
  for (const Pair& pair : kPairs) {
    if (pair.type == type) return pair.pjrt;
  }
  return PJRT_Buffer_Type_INVALID;
}

bool IsSubByte(PJRT_Buffer_Type type) {
  switch (type) {
    case PJRT_Buffer_Type_S1:
    case PJRT_Buffer_Type_U1:
    case PJRT_Buffer_Type_S2:
    case PJRT_Buffer_Type_U2:
    case PJRT_Buffer_Type_S4:
    case PJRT_Buffer_Type_U4:
    case PJRT_Buffer_Type_F4E2M1FN:
    case PJRT_Buffer_Type_F6E2M3FN:
    case PJRT_Buffer_Type_F6E3M2FN:
      return true;
    default:
      return false;
  }
}

}  // namespace jax_ipu::pjrt
