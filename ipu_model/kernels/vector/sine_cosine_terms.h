// Numbers of the sine and cosine of f32, which vector_math.h and generated code share so that their results
// are equal.
#ifndef IPU_MODEL_KERNELS_VECTOR_SINE_COSINE_TERMS_H_
#define IPU_MODEL_KERNELS_VECTOR_SINE_COSINE_TERMS_H_

namespace ipu_model {

// For smaller arguments they are within 0.502 units in the last place, which f64 makes easy.
constexpr float kLargestAngle = 1e6f;
// Of smaller arguments, which are less than pi / 4, the quarter is 0 and r = x.
constexpr float kSmallAngle = 0.785f;
// x = quarter * pi / 2 + r. Adding kShift rounds to an integer, whose low bits are then those of the sum.
constexpr double kTwoOverPi = 0.63661977236758134, kShift = 0x1.8p52;
constexpr double kMinusHalfPi[] = {-1.5707963267948966, -6.123233995736766e-17};
// sin r = r + r u S(u) and cos r = 1 + u C(u), u = r r, |r| <= pi / 4: minimax polynomials of the relative
// error, which is 5.2e-12 and 6.4e-11. The constant term is first.
constexpr double kSineTerms[] = {-0.16666666640796904, 0.0083333293048274831, -0.00019839312264852962,
                                 2.7181215849561768e-06};
constexpr double kCosineTerms[] = {-0.49999999694474756, 0.041666620356998058, -0.0013886681643861868,
                                   2.4383566926095326e-05};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_VECTOR_SINE_COSINE_TERMS_H_
