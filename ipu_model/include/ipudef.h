/* Types of codelets that the compiler of the device knows by itself. */
#ifndef IPUDEF_H
#define IPUDEF_H

#include "poplar/HalfFloat.hpp"
#include "poplar/VectorTypes.hpp"

/* The trip count of a hardware loop. */
typedef unsigned rptsize_t;

#endif /* IPUDEF_H */
