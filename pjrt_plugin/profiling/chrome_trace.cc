#include "profiling/chrome_trace.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <utility>
#include <variant>

#include "runtime/executable/utf8.h"

namespace jax_ipu {
namespace {

std::string Quoted(std::string_view text) {
  const std::string valid = AsUtf8(text);
  std::string out = "\"";
  for (const char c : valid) {
    if (c == '"' || c == '\\') out.push_back('\\');
    if (static_cast<unsigned char>(c) >= 0x20) {
      out.push_back(c);
    } else {
      char code[8];
      std::snprintf(code, sizeof(code), "\\u%04x", static_cast<unsigned>(c));
      out += code;
    }
  }
  return out + '"';
}

std::string Value(const TraceStat& stat) {
  if (const auto* real = std::get_if<double>(&stat.value)) {
    if (!std::isfinite(*real)) return "null";
    char text[32];
    std::snprintf(text, sizeof(text), "%.17g", *real);
    return text;
  }
  if (const auto* natural = std::get_if<std::uint64_t>(&stat.value)) return std::to_string(*natural);
  // Too large for the numbers of JavaScript: programs' ids.
  if (const auto* integer = std::get_if<std::int64_t>(&stat.value)) return Quoted(std::to_string(*integer));
  return Quoted(std::get<std::string>(stat.value));
}

// The members of an object, without braces.
std::string Members(const TraceStats& stats) {
  std::string out;
  for (const TraceStat& stat : stats) out += (out.empty() ? "" : ",") + Quoted(stat.name) + ":" + Value(stat);
  return out;
}

// Picoseconds as microseconds, exactly.
std::string Microseconds(std::uint64_t picoseconds) {
  char text[40];
  std::snprintf(text, sizeof(text), "%llu.%06llu", static_cast<unsigned long long>(picoseconds / 1000000),
                static_cast<unsigned long long>(picoseconds % 1000000));
  return text;
}

class Writer {
 public:
  void Plane(const TracePlane& plane) {
    const std::string process = "\"pid\":" + std::to_string(plane.id + 1);
    Metadata("process_name", process,
             "\"name\":" + Quoted(plane.name) + (plane.stats.empty() ? "" : ",") + Members(plane.stats));
    std::vector<std::string> kinds, events;
    for (const TraceEventKind& kind : plane.kinds) kinds.push_back(Members(kind.stats));
    for (const TraceStats& stats : plane.event_stats) events.push_back(Members(stats));
    for (const TraceLine& line : plane.lines) {
      const std::string thread = process + ",\"tid\":" + std::to_string(line.id);
      Metadata("thread_name", thread, "\"name\":" + Quoted(line.name));
      Metadata("thread_sort_index", thread, "\"sort_index\":" + std::to_string(line.id));
      for (const TraceEvent& event : line.events) {
        const std::string &first = kinds[event.kind], &second = events[event.statistics];
        Begin();
        out_ += "{\"ph\":\"X\"," + thread + ",\"name\":" + Quoted(plane.kinds[event.kind].name) +
                ",\"ts\":" + Microseconds(event.begin_ps) + ",\"dur\":" + Microseconds(event.duration_ps) +
                ",\"args\":{" + first + (first.empty() || second.empty() ? "" : ",") + second + "}}";
      }
    }
  }
  std::string Take() && { return out_ + "\n]}\n"; }

 private:
  void Begin() {
    out_ += is_first_ ? "\n" : ",\n";
    is_first_ = false;
  }
  void Metadata(const char* name, const std::string& where, const std::string& args) {
    Begin();
    out_ += "{\"ph\":\"M\"," + where + ",\"name\":\"" + name + "\",\"args\":{" + args + "}}";
  }

  std::string out_ = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  bool is_first_ = true;
};

}  // namespace

std::string SerializeChromeTrace(const std::vector<TracePlane>& planes) {
  Writer writer;
  for (const TracePlane& plane : planes) writer.Plane(plane);
  return std::move(writer).Take();
}

}  // namespace jax_ipu
