// Conversions between element types and the types in which sums are computed, a row of elements at a time.
#ifndef IPU_MODEL_KERNELS_COPY_CONVERT_ROWS_H_
#define IPU_MODEL_KERNELS_COPY_CONVERT_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "ipu_model/Types.hpp"

namespace ipu_model {

// Converts n contiguous elements. Floats round to nearest even, integers wrap, and a real number becomes a
// complex one with imaginary part 0.
using ConvertRow = void (*)(const void* from, void* to, std::int64_t n);

// `sum` is kF32, kF64, kU32, kU64, kC64 or kC128. Null if no sum of that type has such elements: integer sums
// have integer elements, and real sums have real elements.
ConvertRow RowToSums(DType from, DType sum);
ConvertRow RowFromSums(DType sum, DType to);

// The elements of a row in memory. The stride is in elements of `size` bytes: 1, 2, 4, 8 or 16.
struct StridedRow {
  std::size_t size;
  std::int64_t stride;
};
// The same for rows whose elements lie apart. They are converted in contiguous pieces.
void ConvertStrided(ConvertRow row, const void* from, StridedRow from_row, void* to, StridedRow to_row,
                    std::int64_t n);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_COPY_CONVERT_ROWS_H_
