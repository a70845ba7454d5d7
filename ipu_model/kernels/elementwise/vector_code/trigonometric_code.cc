// The machine code of sine and cosine of one f32: Sin and Cos of kernels/vector/vector_math.h, operation by
// operation.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/elementwise/vector_code/rare_calls.h"
#include "kernels/elementwise/vector_code/vector_code.h"
#include "kernels/vector/sine_cosine_terms.h"

namespace ipu_model {
namespace {

constexpr Vector kFirst = RegisterFile::kTemporary;
constexpr std::uint64_t kSignBit = std::uint64_t{1} << 63;

template <typename T>
std::uint64_t BitsOf(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  return bits;
}

}  // namespace

// Two lanes of f64: the sine and the cosine of the reduced angle.
Vector VectorCode::EmitTrigonometric() {
  if (lanes_ != 1 || kind_.type != RegisterType::kF32) return -1;
  const bool cosine = Is(ScalarOp::kCos);
  const auto pool = [this](std::uint64_t sine_lane, std::uint64_t cosine_lane) {
    std::array<unsigned char, 32> bytes;
    for (std::size_t at = 0; at < bytes.size(); at += 16) {
      std::memcpy(bytes.data() + at, &sine_lane, 8);
      std::memcpy(bytes.data() + at + 8, &cosine_lane, 8);
    }
    return Memory{Gpr::kRax, code_->Constant(bytes), true};
  };
  const auto both = [&](auto value) { return pool(BitsOf(value), BitsOf(value)); };
  const auto term = [&](int i) { return pool(BitsOf(kSineTerms[i]), BitsOf(kCosineTerms[i])); };
  const auto vex = [this](VexOp op, Vector result, Vector a, auto b) { code_->Vex(op, false, result, a, b); };
  const Vector x = Use(0), result = registers_->New(), low = registers_->New(), high = registers_->New();
  const Vector r = kFirst, quarter = kFirst + 1, t = kFirst + 2, u = kFirst + 3;

  const Assembler::Label small = code_->NewLabel(), general = code_->NewLabel();
  const RareCalls::Call rare = {code_->NewLabel(), code_->NewLabel(), result, x, cosine ? ::cosf : ::sinf};
  rare_calls_->Add(rare);
  const auto compare_size = [&](float limit) {
    vex(vex::kLoad32, u, 0, Pool32(static_cast<std::uint32_t>(BitsOf(limit))));
    vex(vex::kCompareF32, u, 0, t);
  };
  vex(vex::kAnd, t, x, Pool32(0x7fffffffu));
  vex(vex::kF32ToF64, r, x, x);
  compare_size(kSmallAngle);
  code_->JumpIfAbove(small);
  compare_size(kLargestAngle);
  code_->JumpIfNotAbove(rare.start);  // also for NaN, which compares as unordered

  code_->Bind(general);
  vex(vex::kLoad64, quarter, 0, both(kShift));
  vex(vex::kMultiplyAddF64, quarter, r, both(kTwoOverPi));
  vex(vex::kSubtractF64, t, quarter, both(kShift));
  for (const double minus_half_pi : kMinusHalfPi) vex(vex::kMultiplyAddF64, r, t, both(minus_half_pi));
  vex(vex::kDuplicate64, r, 0, r);
  vex(vex::kMultiplyF64x2, u, r, r);
  // The terms as (term 3 u + term 2) u^2 + (term 1 u + term 0).
  vex(vex::kLoad, high, 0, term(3));
  vex(vex::kMultiplyIntoAddF64x2, high, u, term(2));
  vex(vex::kLoad, low, 0, term(1));
  vex(vex::kMultiplyIntoAddF64x2, low, u, term(0));
  vex(vex::kMultiplyF64x2, result, u, u);
  vex(vex::kMultiplyIntoAddF64x2, high, result, low);
  // The sign, bit 1 of the quarter, is that of both factors of the last step: r u and r, u and 1.
  vex(vex::kDuplicate64, quarter, 0, quarter);
  if (cosine) vex(vex::kAdd64, quarter, quarter, pool(1, 1));
  code_->VexImmediate(vex::kShiftByImmediate64, false, 6, t, quarter, 62);
  vex(vex::kAnd, t, t, pool(kSignBit, kSignBit));
  code_->VexImmediate(vex::kBlendByImmediate64, false, r, r, both(1.0), 2);
  vex(vex::kMultiplyF64x2, u, u, r);
  vex(vex::kXor, r, r, t);
  vex(vex::kXor, u, u, t);
  vex(vex::kMultiplyIntoAddF64x2, high, u, r);
  // Odd quarters take the cosine's lane.
  code_->VexImmediate(vex::kShiftByImmediate64, false, 6, quarter, quarter, 63);
  vex(vex::kUpper64, low, high, high);
  code_->VexImmediate(vex::kBlend64, false, high, high, low, static_cast<std::uint8_t>(quarter << 4));
  vex(vex::kF64ToF32, result, high, high);
  if (!cosine) {
    // Zeros keep their sign, and denormals, which compare as zeros, are returned as they are.
    vex(vex::kXor, t, t, t);
    code_->VexImmediate(vex::kCompareF32Mask, false, t, x, t, 0);
    Blend(result, result, x, t);
  }
  code_->Jump(rare.end);

  // The same for n = 0, without the steps that then change nothing. A branch takes less time than they do.
  code_->Bind(small);
  if (!cosine) {
    vex(vex::kXor, u, u, u);
    vex(vex::kCompareF32, t, 0, u);
    code_->JumpIfZero(general);
  }
  const double* terms = cosine ? kCosineTerms : kSineTerms;
  vex(vex::kMultiplyF64, u, r, r);
  vex(vex::kLoad64, high, 0, both(terms[3]));
  vex(vex::kMultiplyIntoAddF64, high, u, both(terms[2]));
  vex(vex::kLoad64, low, 0, both(terms[1]));
  vex(vex::kMultiplyIntoAddF64, low, u, both(terms[0]));
  vex(vex::kMultiplyF64, t, u, u);
  vex(vex::kMultiplyIntoAddF64, high, t, low);
  if (cosine) {
    vex(vex::kMultiplyIntoAddF64, high, u, both(1.0));
  } else {
    vex(vex::kMultiplyF64, u, u, r);
    vex(vex::kMultiplyIntoAddF64, high, u, r);
  }
  vex(vex::kF64ToF32, result, high, high);
  code_->Bind(rare.end);
  return result;
}

}  // namespace ipu_model
