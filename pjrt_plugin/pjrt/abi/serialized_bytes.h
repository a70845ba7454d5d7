// Bytes that stay valid until the caller calls the deleter that comes with them.
#ifndef JAX_IPU_PJRT_ABI_SERIALIZED_BYTES_H_
#define JAX_IPU_PJRT_ABI_SERIALIZED_BYTES_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "pjrt/abi/c_api.h"
#include "pjrt/abi/entry.h"

struct PJRT_SerializedBytes {
  std::string bytes;
};

namespace jax_ipu::pjrt {

class SerializedBytes {
 public:
  explicit SerializedBytes(std::string bytes)
      : owned_(std::make_unique<PJRT_SerializedBytes>(PJRT_SerializedBytes{std::move(bytes)})) {}
  // Fills the four out fields that all such entry points have.
  void Give(const char*& data, std::size_t& size, PJRT_SerializedBytes*& owner,
            void (*&deleter)(PJRT_SerializedBytes*)) {
    data = owned_->bytes.data();
    size = owned_->bytes.size();
    owner = Release(std::move(owned_));
    deleter = [](PJRT_SerializedBytes* bytes) { Destroy(bytes); };
  }

 private:
  std::unique_ptr<PJRT_SerializedBytes> owned_;
};

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_ABI_SERIALIZED_BYTES_H_
