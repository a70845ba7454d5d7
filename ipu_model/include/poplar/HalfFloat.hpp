// `half` in codelets on the host: the compiler's own 16-bit float. Compilers without one (g++ before 12,
// clang before 15) have no `half`.
#ifndef POPLAR_HALFFLOAT_HPP
#define POPLAR_HALFFLOAT_HPP

#ifdef __FLT16_MANT_DIG__
__extension__ typedef _Float16 half;
#define IPU_MODEL_HAS_HALF 1

// The C++ library has these from C++23 on.
#if defined(__cplusplus) && !defined(__STDCPP_FLOAT16_T__)
#include <cmath>
namespace std {
#define IPU_MODEL_HALF_FUNCTION(name) \
  inline half name(half x) { return static_cast<half>(name(static_cast<float>(x))); }
IPU_MODEL_HALF_FUNCTION(sqrt)
IPU_MODEL_HALF_FUNCTION(exp)
IPU_MODEL_HALF_FUNCTION(log)
IPU_MODEL_HALF_FUNCTION(tanh)
IPU_MODEL_HALF_FUNCTION(fabs)
IPU_MODEL_HALF_FUNCTION(abs)
#undef IPU_MODEL_HALF_FUNCTION
}  // namespace std
#endif
#endif

#endif  // POPLAR_HALFFLOAT_HPP
