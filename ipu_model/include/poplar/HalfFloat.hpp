// `half` in codelets on the host: the compiler's own 16-bit float. Compilers without one (g++ before 12,
// clang before 15) have no `half`.
#ifndef POPLAR_HALFFLOAT_HPP
#define POPLAR_HALFFLOAT_HPP

#ifdef __FLT16_MANT_DIG__
__extension__ typedef _Float16 half;
#define IPU_MODEL_HAS_HALF 1
#endif

#endif  // POPLAR_HALFFLOAT_HPP
