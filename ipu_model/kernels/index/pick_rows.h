// Picks the same elements of each of many rows.
#ifndef IPU_MODEL_KERNELS_INDEX_PICK_ROWS_H_
#define IPU_MODEL_KERNELS_INDEX_PICK_ROWS_H_

#include <cstddef>
#include <cstdint>

namespace ipu_model {

// Element i < n of the result's row r < rows is element places[i] of the operand's row r; `least` and
// `largest` are those of the places. Steps are from row to row, in elements.
struct RowPicks {
  const std::int32_t* places;
  std::int64_t n;
  std::int32_t least, largest;
  std::int64_t rows, from_step, out_step;
};

// For elements of `size` bytes: 1, 2, 4, 8 or 16.
namespace avx2 {
void PickRows(const RowPicks& picks, std::size_t size, const void* from, void* out);
}
namespace avx512 {
void PickRows(const RowPicks& picks, std::size_t size, const void* from, void* out);
}

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_INDEX_PICK_ROWS_H_
