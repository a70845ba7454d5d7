#include "kernels/product/gemm_convert.h"

#include <cassert>
#include <cstring>

#include "kernels/copy/convert_rows.h"

namespace ipu_model {
namespace {

void ConvertMatrices(HostContext& context, ConvertRow convert, const GemmMatrix& from, const GemmMatrix& to,
                     void* to_data, std::int64_t groups, std::int64_t rows, std::int64_t columns) {
  assert(convert != nullptr && "GemmAccumulator does not pair these types");
  const StridedRow from_row{SizeOf(from.type), from.column}, to_row{SizeOf(to.type), to.column};
  const auto* in = static_cast<const unsigned char*>(from.data);
  auto* out = static_cast<unsigned char*>(to_data);
  constexpr std::int64_t kGrainElements = 1 << 14;
  ParallelFor(context.pool, groups * rows, kGrainElements / columns + 1,
              [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) {
                  const std::int64_t x = i / rows * from.group + i % rows * from.row;
                  const std::int64_t y = i / rows * to.group + i % rows * to.row;
                  ConvertStrided(convert, in + x * static_cast<std::int64_t>(from_row.size), from_row,
                                 out + y * static_cast<std::int64_t>(to_row.size), to_row, columns);
                }
              });
}

}  // namespace

void LoadMatrices(HostContext& context, const GemmMatrix& from, const GemmMatrix& to, void* to_data,
                  std::int64_t groups, std::int64_t rows, std::int64_t columns) {
  ConvertMatrices(context, RowToSums(from.type, to.type), from, to, to_data, groups, rows, columns);
}

void StoreMatrices(HostContext& context, const GemmMatrix& from, const GemmMatrix& to, void* to_data,
                   std::int64_t groups, std::int64_t rows, std::int64_t columns) {
  ConvertMatrices(context, RowFromSums(from.type, to.type), from, to, to_data, groups, rows, columns);
}

void ZeroMatrices(const GemmMatrix& to, void* to_data, std::int64_t groups, std::int64_t rows,
                  std::int64_t columns) {
  const std::size_t size = SizeOf(to.type);
  for (std::int64_t g = 0; g < groups; ++g) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c)
        std::memset(static_cast<unsigned char*>(to_data) +
                        (g * to.group + r * to.row + c * to.column) * static_cast<std::int64_t>(size),
                    0, size);
    }
  }
}

}  // namespace ipu_model
