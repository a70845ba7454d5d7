/* Loops of codelets: on the host the compiler's own are enough. */
#ifndef POPLAR_LOOPS_HPP
#define POPLAR_LOOPS_HPP
#include "ipudef.h"
#endif /* POPLAR_LOOPS_HPP */
