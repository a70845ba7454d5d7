// Layouts and shardings of several tensors, as the C API returns them.
#ifndef JAX_IPU_PJRT_ABI_TENSOR_LISTS_H_
#define JAX_IPU_PJRT_ABI_TENSOR_LISTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "pjrt/abi/layout.h"

// Arrays are dense, so a layout is the order of their dimensions.
struct PJRT_Layouts_MemoryLayout {
  std::vector<std::int64_t> minor_to_major;
};

namespace jax_ipu::pjrt {

// Layouts of several tensors, in the form that the C API returns.
class LayoutList {
 public:
  LayoutList() = default;
  LayoutList(const LayoutList&) = delete;
  LayoutList& operator=(const LayoutList&) = delete;
  void Add(const DimensionOrder& order, std::size_t rank) {
    pointers_.push_back(&layouts_.emplace_back(PJRT_Layouts_MemoryLayout{MinorToMajor(order, rank)}));
  }
  PJRT_Layouts_MemoryLayout* const* data() const { return pointers_.data(); }
  std::size_t size() const { return layouts_.size(); }

 private:
  std::deque<PJRT_Layouts_MemoryLayout> layouts_;
  std::vector<PJRT_Layouts_MemoryLayout*> pointers_;
};

// Serialised xla.OpSharding messages of several tensors, owned elsewhere.
class ShardingList {
 public:
  void Add(const std::string& sharding) {
    data_.push_back(sharding.data());
    sizes_.push_back(sharding.size());
  }
  const char* const* data() const { return data_.data(); }
  const std::size_t* sizes() const { return sizes_.data(); }
  std::size_t size() const { return data_.size(); }

 private:
  std::vector<const char*> data_;
  std::vector<std::size_t> sizes_;
};

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_ABI_TENSOR_LISTS_H_
