// What programs log and key their caches by.
#include <cstdint>
#include <cstdio>

#include "codelets/embedded_headers.h"
#include "poplar/Graph.hpp"

namespace poplar {

std::string versionString() { return "jax_ipu ipu_model " IPU_MODEL_VERSION; }

std::string packageHash() {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto mix = [&hash](const char* text) {
    for (; *text != '\0'; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001b3u;
  };
  mix(IPU_MODEL_VERSION);
  for (std::size_t i = 0; i < ipu_model::kNumEmbeddedHeaders; ++i) mix(ipu_model::kEmbeddedHeaders[i].text);
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return std::string(text).substr(0, 10);
}

}  // namespace poplar
