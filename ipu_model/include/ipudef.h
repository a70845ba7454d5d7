/* Types of codelets that the compiler of the device knows by itself. */
#ifndef IPUDEF_H
#define IPUDEF_H

#include "poplar/HalfFloat.hpp"
#include "poplar/VectorTypes.hpp"

/* The trip count of a hardware loop. */
typedef unsigned rptsize_t;

#if !defined(__clang__) && !defined(__builtin_assume)
#define __builtin_assume(condition)            \
  do {                                         \
    if (!(condition)) __builtin_unreachable(); \
  } while (false)
#endif

#endif /* IPUDEF_H */
