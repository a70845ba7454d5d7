#include "pjrt/abi/layout.h"

#include <algorithm>
#include <string>

#include "runtime/memory/strided_copy.h"

namespace jax_ipu::pjrt {
namespace {

[[noreturn]] void Refuse(const std::string& what) {
  throw Error(Code::kUnimplemented,
              "The layout of an array on an IPU is an order of its dimensions, " + what);
}

void CheckRank(std::size_t given, std::size_t rank) {
  if (given == rank) return;
  throw Error(Code::kInvalidArgument, "The layout has " + std::to_string(given) +
                                          " dimensions, the array has " + std::to_string(rank));
}

DimensionOrder OrderOf(const PJRT_Buffer_MemoryLayout_Tiled& layout, std::size_t rank) {
  if (layout.num_tiles != 0) Refuse("without tiles");
  CheckRank(layout.minor_to_major_size, rank);
  DimensionOrder order(layout.minor_to_major, layout.minor_to_major + rank);
  std::reverse(order.begin(), order.end());
  if (!IsOrder(order, rank)) {
    throw Error(Code::kInvalidArgument, "The layout does not name each dimension of the array once");
  }
  return order;
}

// Sorts by descending stride; dimensions of size 1, whose stride is arbitrary, keep their places.
DimensionOrder OrderOf(const PJRT_Buffer_MemoryLayout_Strides& layout, const TensorSpec& array) {
  const std::size_t rank = array.shape.size();
  CheckRank(layout.num_byte_strides, rank);
  const Strides strides(layout.byte_strides, layout.byte_strides + rank);
  std::vector<std::size_t> places;
  for (std::size_t d = 0; d < rank; ++d) {
    if (array.shape[d] != 1) places.push_back(d);
  }
  std::vector<std::size_t> dimensions = places;
  std::stable_sort(dimensions.begin(), dimensions.end(),
                   [&](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
  DimensionOrder order = RowMajor(rank);
  for (std::size_t i = 0; i < places.size(); ++i) order[places[i]] = static_cast<std::int64_t>(dimensions[i]);
  if (!IsDense(InMemory(array.shape, order), ipu_model::SizeOf(array.type), InMemory(strides, order))) {
    Refuse("without gaps between elements");
  }
  return order;
}

}  // namespace

DimensionOrder ReadLayout(const PJRT_Buffer_MemoryLayout* layout, const TensorSpec& array) {
  if (layout == nullptr) return {};
  const DimensionOrder order = layout->type == PJRT_Buffer_MemoryLayout_Type_Tiled
                                   ? OrderOf(layout->tiled, array.shape.size())
                                   : OrderOf(layout->strides, array);
  return order == RowMajor(order.size()) ? DimensionOrder() : order;
}

std::shared_ptr<const TensorSpec> SpecInMemory(std::shared_ptr<const TensorSpec> array,
                                               const DimensionOrder& order) {
  if (order.empty()) return array;
  return std::make_shared<TensorSpec>(TensorSpec{array->type, InMemory(array->shape, order)});
}

std::shared_ptr<const TensorSpec> SpecFromMemory(std::shared_ptr<const TensorSpec> memory,
                                                 const DimensionOrder& order) {
  if (order.empty()) return memory;
  return std::make_shared<TensorSpec>(TensorSpec{memory->type, FromMemory(memory->shape, order)});
}

std::vector<std::int64_t> MinorToMajor(const DimensionOrder& order, std::size_t rank) {
  std::vector<std::int64_t> dimensions = order.empty() ? RowMajor(rank) : order;
  std::reverse(dimensions.begin(), dimensions.end());
  return dimensions;
}

}  // namespace jax_ipu::pjrt
