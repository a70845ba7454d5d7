// The AVX2 instructions of generated code.
#ifndef IPU_MODEL_KERNELS_ELEMENTWISE_VECTOR_CODE_VEX_OPS_H_
#define IPU_MODEL_KERNELS_ELEMENTWISE_VECTOR_CODE_VEX_OPS_H_

#include "kernels/host/machine_code.h"

namespace ipu_model::vex {

constexpr VexOp kLoad32 = {1, 2, 0, 0x10}, kStore32 = {1, 2, 0, 0x11};          // vmovss
constexpr VexOp kLoad64 = {1, 3, 0, 0x10}, kStore64 = {1, 3, 0, 0x11};          // vmovsd
constexpr VexOp kLoad = {1, 0, 0, 0x10}, kStore = {1, 0, 0, 0x11};              // vmovups
constexpr VexOp kMove = {1, 0, 0, 0x28};                                        // vmovaps
constexpr VexOp kMaskLoad = {2, 1, 0, 0x2c}, kMaskStore = {2, 1, 0, 0x2e};      // vmaskmovps
constexpr VexOp kBroadcast = {2, 1, 0, 0x18};                                   // vbroadcastss
constexpr VexOp kFromGpr = {1, 1, 1, 0x6e}, kToGpr = {1, 1, 0, 0x7e};           // vmovq, vmovd
constexpr VexOp kStoreLow32 = {1, 1, 0, 0x7e}, kStoreLow64 = {1, 1, 0, 0xd6};   // vmovd, vmovq
constexpr VexOp kSignExtend64 = {2, 1, 0, 0x25};                                // vpmovsxdq
constexpr VexOp kPackWords = {1, 1, 0, 0x6b}, kPackShorts = {1, 1, 0, 0x63};    // vpackssdw, vpacksswb
constexpr VexOp kPackWordsU = {2, 1, 0, 0x2b}, kPackShortsU = {1, 1, 0, 0x67};  // vpackusdw, vpackuswb
constexpr VexOp kInterleave = {1, 0, 0, 0x14}, kInsert = {3, 1, 0, 0x21};       // vunpcklps, vinsertps
constexpr VexOp kShuffle = {1, 1, 0, 0x70}, kExtract = {3, 1, 0, 0x16};         // vpshufd, vpextrd
constexpr VexOp kUpperHalf = {3, 1, 0, 0x39};                                   // vextracti128
constexpr VexOp kBlend32 = {3, 1, 0, 0x4a}, kBlend64 = {3, 1, 0, 0x4b};         // vblendvps, vblendvpd
constexpr VexOp kRound = {3, 1, 0, 0x08};                                       // vroundps
constexpr VexOp kFromHalf = {2, 1, 0, 0x13}, kToHalf = {3, 1, 0, 0x1d};         // vcvtph2ps, vcvtps2ph
constexpr VexOp kToFloat = {1, 0, 0, 0x5b}, kToInteger = {1, 2, 0, 0x5b};       // vcvtdq2ps, vcvttps2dq

// Of f64: vcvtss2sd, vcvtsd2ss, vmovddup, vunpckhpd, vfmadd231sd, vsubsd, vmulpd, vfmadd213pd, vblendpd.
constexpr VexOp kF32ToF64 = {1, 2, 0, 0x5a}, kF64ToF32 = {1, 3, 0, 0x5a};
constexpr VexOp kDuplicate64 = {1, 3, 0, 0x12}, kUpper64 = {1, 1, 0, 0x15};
constexpr VexOp kMultiplyAddF64 = {2, 1, 1, 0xb9}, kSubtractF64 = {1, 3, 0, 0x5c};  // result += a * b
constexpr VexOp kMultiplyF64 = {1, 3, 0, 0x59}, kMultiplyF64x2 = {1, 1, 0, 0x59};
constexpr VexOp kMultiplyIntoAddF64 = {2, 1, 1, 0xa9},
                kMultiplyIntoAddF64x2 = {2, 1, 1, 0xa8};  // result * a + b
constexpr VexOp kBlendByImmediate64 = {3, 1, 0, 0x0d};
constexpr VexOp kCompareF32 = {1, 0, 0, 0x2e};      // vucomiss: sets the flags
constexpr VexOp kCompareF32Mask = {1, 2, 0, 0xc2};  // vcmpss

// Bits; vpand and so on.
constexpr VexOp kAnd = {1, 1, 0, 0xdb}, kOr = {1, 1, 0, 0xeb}, kXor = {1, 1, 0, 0xef};

// Integers of 32 and 64 bits.
constexpr VexOp kAdd32 = {1, 1, 0, 0xfe}, kSubtract32 = {1, 1, 0, 0xfa}, kMultiply32 = {2, 1, 0, 0x40};
constexpr VexOp kMultiplyEven32 = {1, 1, 0, 0xf4};      // vpmuludq
constexpr VexOp kBlendByImmediate32 = {3, 1, 0, 0x02};  // vpblendd
constexpr VexOp kAdd64 = {1, 1, 0, 0xd4}, kSubtract64 = {1, 1, 0, 0xfb};
constexpr VexOp kAbs32 = {2, 1, 0, 0x1e}, kSign32 = {2, 1, 0, 0x0a};  // vpsignd: a with the sign of b, or 0
constexpr VexOp kMaximumS32 = {2, 1, 0, 0x3d}, kMinimumS32 = {2, 1, 0, 0x39};
constexpr VexOp kMaximumU32 = {2, 1, 0, 0x3f}, kMinimumU32 = {2, 1, 0, 0x3b};
constexpr VexOp kEqual32 = {1, 1, 0, 0x76}, kGreater32 = {1, 1, 0, 0x66};
constexpr VexOp kEqual64 = {2, 1, 0, 0x29}, kGreater64 = {2, 1, 0, 0x37};
constexpr VexOp kShiftLeft32 = {2, 1, 0, 0x47}, kShiftRight32 = {2, 1, 0, 0x45};  // by lane: vpsllvd, vpsrlvd
constexpr VexOp kShiftRightSigned32 = {2, 1, 0, 0x46};                            // vpsravd
constexpr VexOp kShiftByImmediate32 = {1, 1, 0, 0x72};  // the first register is 6 for left and 2 for right
constexpr VexOp kShiftByImmediate64 = {1, 1, 0, 0x73};  // the same
// The first register of a shift by an immediate.
constexpr int kRight = 2, kRightSigned = 4, kLeft = 6;

// Integers of any width: the form for lanes of 1, 2 and 4 bytes.
struct ByLane {
  VexOp lanes1, lanes2, lanes4;
  constexpr VexOp operator()(int lane_bytes) const {
    return lane_bytes == 1 ? lanes1 : lane_bytes == 2 ? lanes2 : lanes4;
  }
};
constexpr ByLane kAdd = {{1, 1, 0, 0xfc}, {1, 1, 0, 0xfd}, kAdd32};
constexpr ByLane kSubtract = {{1, 1, 0, 0xf8}, {1, 1, 0, 0xf9}, kSubtract32};
constexpr ByLane kMaximumS = {{2, 1, 0, 0x3c}, {1, 1, 0, 0xee}, kMaximumS32};
constexpr ByLane kMinimumS = {{2, 1, 0, 0x38}, {1, 1, 0, 0xea}, kMinimumS32};
constexpr ByLane kMaximumU = {{1, 1, 0, 0xde}, {2, 1, 0, 0x3e}, kMaximumU32};
constexpr ByLane kMinimumU = {{1, 1, 0, 0xda}, {2, 1, 0, 0x3a}, kMinimumU32};
constexpr ByLane kEqual = {{1, 1, 0, 0x74}, {1, 1, 0, 0x75}, kEqual32};
constexpr ByLane kGreater = {{1, 1, 0, 0x64}, {1, 1, 0, 0x65}, kGreater32};
constexpr ByLane kAbs = {{2, 1, 0, 0x1c}, {2, 1, 0, 0x1d}, kAbs32};
constexpr ByLane kSign = {{2, 1, 0, 0x08}, {2, 1, 0, 0x09}, kSign32};
constexpr ByLane kBlend = {{3, 1, 0, 0x4c}, {3, 1, 0, 0x4c}, kBlend32};                  // vpblendvb
constexpr ByLane kBroadcastLane = {{2, 1, 0, 0x78}, {2, 1, 0, 0x79}, kBroadcast};        // vpbroadcastb, -w
constexpr VexOp kMultiplyUpper16 = {1, 1, 0, 0xe4}, kAddSaturating16 = {1, 1, 0, 0xdd};  // vpmulhuw, vpaddusw
constexpr VexOp kMultiply16 = {1, 1, 0, 0xd5}, kShiftByImmediate16 = {1, 1, 0, 0x71};    // vpmullw; as above
// vpmovzx and vpmovsx between lanes of these bytes.
constexpr VexOp Extend(int from_bytes, int to_bytes, bool is_signed) {
  const int opcode = (is_signed ? 0x20 : 0x30) + (to_bytes == 2 ? 0 : from_bytes == 1 ? 1 : 3);
  return {2, 1, 0, static_cast<std::uint8_t>(opcode)};
}

}  // namespace ipu_model::vex

#endif  // IPU_MODEL_KERNELS_ELEMENTWISE_VECTOR_CODE_VEX_OPS_H_
