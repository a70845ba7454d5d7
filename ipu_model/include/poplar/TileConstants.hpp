// Constants of a tile that have a meaning on the host.
#ifndef POPLAR_TILECONSTANTS_HPP
#define POPLAR_TILECONSTANTS_HPP

#define CTXT_WORKERS 6
#define CTXT_TOTAL 7
/* Of a stride in a load with increments. */
#define NUM_STRIDE_BITS 10

#endif  // POPLAR_TILECONSTANTS_HPP
