#include "kernels/reduce/reduce_pack.h"

#include "kernels/host/isa.h"
#include "kernels/vector/convert.h"

namespace ipu_model {
namespace {

template <typename T>
void PackLoop(T* __restrict target, const T* __restrict source, std::int64_t stride, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) target[i] = source[i * stride];
}
template <typename T>
void PackAs(void* to, const void* from, std::int64_t stride, std::int64_t n) {
  const T* source = static_cast<const T*>(from);
  T* target = static_cast<T*>(to);
  // With a stride that is a constant, the compiler makes vector instructions of the loop.
  if (stride == 0) return PackLoop<T>(target, source, 0, n);
  if (stride == 2) return PackLoop<T>(target, source, 2, n);
  if (stride == 4) return PackLoop<T>(target, source, 4, n);
  PackLoop<T>(target, source, stride, n);
}

}  // namespace

void Pack(void* to, const void* from, std::int64_t stride, std::int64_t n, std::size_t size) {
  switch (size) {
    case 1:
      return PackAs<std::uint8_t>(to, from, stride, n);
    case 2:
      return PackAs<std::uint16_t>(to, from, stride, n);
    case 4:
      return PackAs<std::uint32_t>(to, from, stride, n);
    default:
      return PackAs<std::uint64_t>(to, from, stride, n);
  }
}

MicroFunction LoadFunction(DType type) { return JAX_IPU_FOR_ISA(FindLoad(type)); }

}  // namespace ipu_model
