// The host's memory of a stream that moves through it.
#ifndef IPU_MODEL_ENGINE_RUN_STREAM_MEMORY_H_
#define IPU_MODEL_ENGINE_RUN_STREAM_MEMORY_H_

#include <cstddef>
#include <string>

#include "core/graph/graph_impl.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {

inline std::size_t BytesOf(const Stream& stream) {
  return static_cast<std::size_t>(stream.num_elements) * SizeOf(stream.type);
}

// Throws stream_connection_error if [begin, end) is not a number of transfers, one at least.
inline void CheckStreamMemory(const Stream& stream, const unsigned char* begin, const unsigned char* end) {
  const std::size_t bytes = BytesOf(stream);
  const std::ptrdiff_t size = begin == end ? 0 : end - begin;
  if (bytes == 0 ? size >= 0 : size > 0 && static_cast<std::size_t>(size) % bytes == 0) return;
  throw poplar::stream_connection_error("stream '" + stream.name + "' transfers " + std::to_string(bytes) +
                                        " bytes; its host memory of " + std::to_string(size) +
                                        " bytes is not a multiple of that");
}

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_RUN_STREAM_MEMORY_H_
