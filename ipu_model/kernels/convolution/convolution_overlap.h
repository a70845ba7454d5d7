// Finds the output and kernel positions of one spatial dimension that read inside the input.
#ifndef IPU_MODEL_KERNELS_CONVOLUTION_CONVOLUTION_OVERLAP_H_
#define IPU_MODEL_KERNELS_CONVOLUTION_CONVOLUTION_OVERLAP_H_

#include <algorithm>
#include <cstdint>

#include "kernels/host/context.h"
#include "kernels/host/integer_division.h"

namespace ipu_model {

// Positions [begin, end) of one side (output or kernel), which all pair with exactly the positions
// [other_begin, other_end) of the other side. Borders then need neither multiplications by zero nor a padded
// copy.
struct OverlapClass {
  std::int64_t begin, end, other_begin, other_end;
};

struct OverlapClasses {
  OverlapClass* data = nullptr;
  int size = 0;
};

// Splits [0, n) into classes: i pairs with j < m if 0 <= i * step + j * other_step - padding < input.
inline OverlapClasses FindOverlap(Scratch& scratch, std::int64_t n, std::int64_t step, std::int64_t m,
                                  std::int64_t other_step, std::int64_t padding, std::int64_t input) {
  OverlapClasses classes;
  for (const bool fill : {false, true}) {
    if (fill) classes.data = scratch.Allocate<OverlapClass>(static_cast<std::size_t>(classes.size));
    int count = 0;
    OverlapClass last{0, 0, -1, -1};
    for (std::int64_t i = 0; i < n;) {
      std::int64_t begin = std::clamp<std::int64_t>(CeilDivide(padding - i * step, other_step), 0, m);
      std::int64_t end =
          std::clamp<std::int64_t>(FloorDivide(input - 1 + padding - i * step, other_step) + 1, 0, m);
      std::int64_t next = i + 1;
      if (begin >= end) {
        begin = end = 0;
      } else if (begin == 0 && end == m && step > 0) {
        // All positions pair with the whole other side until its last position leaves the input.
        const std::int64_t room = input - 1 + padding - (m - 1) * other_step;
        next = std::clamp<std::int64_t>(FloorDivide(room, step) + 1, i + 1, n);
      }
      if (begin == last.other_begin && end == last.other_end) {
        last.end = next;
      } else {
        last = {i, next, begin, end};
        ++count;
      }
      if (fill) classes.data[count - 1] = last;
      i = next;
    }
    classes.size = count;
  }
  return classes;
}

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_CONVOLUTION_CONVOLUTION_OVERLAP_H_
