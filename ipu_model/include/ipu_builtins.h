/* Instructions of the device that have a meaning on the host, as functions. */
#ifndef IPU_BUILTINS_H
#define IPU_BUILTINS_H

#include <cmath>

#include "ipudef.h"

inline float __builtin_ipu_exp(float x) { return std::exp(x); }
inline float __builtin_ipu_exp2(float x) { return std::exp2(x); }
inline float __builtin_ipu_ln(float x) { return std::log(x); }
inline float __builtin_ipu_log2(float x) { return std::log2(x); }
inline float __builtin_ipu_tanh(float x) { return std::tanh(x); }
inline float __builtin_ipu_sigm(float x) { return 1.0f / (1.0f + std::exp(-x)); }
inline float __builtin_ipu_rsqrt(float x) { return 1.0f / std::sqrt(x); }
inline float __builtin_ipu_sqrt(float x) { return std::sqrt(x); }
inline float __builtin_ipu_max(float x, float y) { return std::fmax(x, y); }
inline float __builtin_ipu_min(float x, float y) { return std::fmin(x, y); }
inline bool __builtin_ipu_isnan(float x) { return std::isnan(x); }
inline bool __builtin_ipu_isinf(float x) { return std::isinf(x); }
inline bool __builtin_ipu_isfinite(float x) { return std::isfinite(x); }

#endif /* IPU_BUILTINS_H */
