// The vector types of codelets, as the compiler's vectors: arithmetic and comparison by element, v[i], and
// construction from a list. They need no more alignment than the device's 64-bit data path.
#ifndef POPLAR_VECTORTYPES_HPP
#define POPLAR_VECTORTYPES_HPP

#include "poplar/HalfFloat.hpp"

typedef float float2 __attribute__((vector_size(8)));
typedef float float4 __attribute__((vector_size(16), aligned(8)));
typedef int int2 __attribute__((vector_size(8)));
typedef int int4 __attribute__((vector_size(16), aligned(8)));
typedef unsigned uint2 __attribute__((vector_size(8)));
typedef unsigned uint4 __attribute__((vector_size(16), aligned(8)));
typedef short short2 __attribute__((vector_size(4)));
typedef short short4 __attribute__((vector_size(8)));
typedef unsigned short ushort2 __attribute__((vector_size(4)));
typedef unsigned short ushort4 __attribute__((vector_size(8)));
typedef signed char char2 __attribute__((vector_size(2)));
typedef signed char char4 __attribute__((vector_size(4)));
typedef unsigned char uchar2 __attribute__((vector_size(2)));
typedef unsigned char uchar4 __attribute__((vector_size(4)));
typedef unsigned char uchar8 __attribute__((vector_size(8)));
typedef long long longlong2 __attribute__((vector_size(16), aligned(8)));
#ifdef IPU_MODEL_HAS_HALF
typedef half half2 __attribute__((vector_size(4)));
typedef half half4 __attribute__((vector_size(8)));
typedef half half8 __attribute__((vector_size(16), aligned(8)));
#endif

#endif  // POPLAR_VECTORTYPES_HPP
