// The public headers that codelets include, inside the library: compiling a codelet needs no installed files.
#ifndef IPU_MODEL_CODELETS_EMBEDDED_HEADERS_H_
#define IPU_MODEL_CODELETS_EMBEDDED_HEADERS_H_

#include <cstddef>

namespace ipu_model {

struct EmbeddedHeader {
  const char* path;  // as codelets include it
  const char* text;
};
// The build makes the list (embedded_headers.cmake, and a rule in BUILD.bazel).
extern const EmbeddedHeader kEmbeddedHeaders[];
extern const std::size_t kNumEmbeddedHeaders;

}  // namespace ipu_model

#endif  // IPU_MODEL_CODELETS_EMBEDDED_HEADERS_H_
