// Stand-in for Graphcore's unpublished tracing library: nothing is traced.
#pragma once

#include <cstddef>
#include <string>

namespace pvti {

struct TraceChannel {
  explicit TraceChannel(const char* n) : name(n) {}
  std::string name;
};

struct Metadata {
  std::string json;
};
inline Metadata createJsonMetadata(const std::string& json) { return {json}; }

struct Tracepoint {
  Tracepoint(TraceChannel*, const std::string&) {}
  Tracepoint(TraceChannel*, const char*) {}
  Tracepoint(TraceChannel*, const char*, std::size_t, const Metadata* = nullptr) {}
};

}  // namespace pvti
