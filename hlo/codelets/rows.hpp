// Rows of dense boxes, and their division among workers.
#include "common.hpp"

namespace hlo {

// The elements of a row, `step` apart, in a box whose rows have `length` elements. Row r of a box is row
// r % step of its block r / step.
struct Row {
  unsigned begin, step;
  Row(unsigned row, unsigned length, unsigned step)
      : begin(row / step * length * step + row % step), step(step) {}
  unsigned operator[](unsigned k) const { return begin + k * step; }
};

// The rows of one worker: no other worker stores into the same 64-bit words. As many rows side by side as
// there are elements in 64 bits end with a word, and so do as many blocks.
template <unsigned kGrain = 8>  // elements of one byte in 64 bits
inline Share rowsOf(unsigned worker, unsigned workers, unsigned rows, unsigned step) {
  const unsigned grain = step == 1 || step % kGrain == 0 ? kGrain : kGrain * step;
  const Share share = shareOf<1>(worker, workers, (rows + grain - 1) / grain);
  const unsigned begin = share.begin * grain, end = share.end * grain;
  return {begin < rows ? begin : rows, end < rows ? end : rows};
}

}  // namespace hlo
