// Field numbers: tsl/profiler/protobuf/xplane.proto.
#include "profiling/xspace.h"

#include <cstring>
#include <map>
#include <string_view>
#include <utility>
#include <variant>

#include "runtime/executable/utf8.h"

namespace jax_ipu {
namespace {

// Writes the fields of one protobuf message.
class Message {
 public:
  void Integer(int field, std::uint64_t value) {
    Varint(static_cast<std::uint64_t>(field) << 3);
    Varint(value);
  }
  void Integer(int field, std::int64_t value) { Integer(field, static_cast<std::uint64_t>(value)); }
  void Double(int field, double value) {
    Varint(static_cast<std::uint64_t>(field) << 3 | 1);
    std::uint64_t bits;
    static_assert(sizeof(bits) == sizeof(value), "IEEE 754");
    std::memcpy(&bits, &value, sizeof(bits));
    for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<char>(bits >> (8 * i)));
  }
  void Bytes(int field, std::string_view value) {
    Varint(static_cast<std::uint64_t>(field) << 3 | 2);
    Varint(value.size());
    bytes_.append(value);
  }
  void Text(int field, std::string_view value) { Bytes(field, AsUtf8(value)); }
  void Nested(int field, const Message& message) { Bytes(field, message.bytes_); }
  void Append(std::string_view fields) { bytes_.append(fields); }
  void Clear() { bytes_.clear(); }
  std::string Take() && { return std::move(bytes_); }

 private:
  void Varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  std::string bytes_;
};

// Names of statistics and the strings that are their values get numbers in each plane.
class PlaneWriter {
 public:
  Message Write(const TracePlane& plane, std::int64_t begin_ns) {
    Message out;
    out.Integer(1, plane.id);
    out.Text(2, plane.name);
    // Also the statistics of its kind are in every event: some readers look there only.
    for (const TraceEventKind& kind : plane.kinds) kind_stats_.push_back(FieldsOf(kind.stats));
    for (const TraceStats& stats : plane.event_stats) event_stats_.push_back(FieldsOf(stats));
    for (const TraceLine& line : plane.lines) out.Nested(3, Line(line, begin_ns));
    for (std::size_t i = 0; i < plane.kinds.size(); ++i) {
      Message kind;
      kind.Integer(1, i + 1);
      kind.Text(2, plane.kinds[i].name);
      AddStats(5, plane.kinds[i].stats, &kind);
      Entry(4, i + 1, kind, &out);
    }
    AddStats(6, plane.stats, &out);
    for (const auto& [name, id] : ids_) {
      Message stat;
      stat.Integer(1, id);
      stat.Text(2, name);
      Entry(5, id, stat, &out);
    }
    return out;
  }

 private:
  // An entry of a map from numbers to messages.
  static void Entry(int field, std::uint64_t key, const Message& value, Message* out) {
    Message entry;
    entry.Integer(1, key);
    entry.Nested(2, value);
    out->Nested(field, entry);
  }

  std::uint64_t IdOf(const std::string& name) {
    return ids_.try_emplace(name, ids_.size() + 1).first->second;
  }
  // Fields of an event.
  std::string FieldsOf(const TraceStats& stats) {
    Message fields;
    AddStats(4, stats, &fields);
    return std::move(fields).Take();
  }

  void AddStats(int field, const TraceStats& stats, Message* out) {
    for (const TraceStat& stat : stats) {
      Message message;
      message.Integer(1, IdOf(stat.name));
      if (const auto* real = std::get_if<double>(&stat.value)) {
        message.Double(2, *real);
      } else if (const auto* natural = std::get_if<std::uint64_t>(&stat.value)) {
        message.Integer(3, *natural);
      } else if (const auto* integer = std::get_if<std::int64_t>(&stat.value)) {
        message.Integer(4, *integer);
      } else {
        message.Integer(7, IdOf(std::get<std::string>(stat.value)));
      }
      out->Nested(field, message);
    }
  }

  Message Line(const TraceLine& line, std::int64_t begin_ns) const {
    Message out;
    out.Integer(1, line.id);
    out.Text(2, line.name);
    out.Integer(3, begin_ns);
    Message message;
    for (const TraceEvent& event : line.events) {
      message.Clear();
      message.Integer(1, std::uint64_t{event.kind} + 1);
      message.Integer(2, event.begin_ps);
      message.Integer(3, event.duration_ps);
      message.Append(kind_stats_[event.kind]);
      message.Append(event_stats_[event.statistics]);
      out.Nested(4, message);
    }
    return out;
  }

  std::map<std::string, std::uint64_t> ids_;
  std::vector<std::string> kind_stats_, event_stats_;  // the fields of those of TracePlane
};

}  // namespace

std::string SerializeXSpace(const std::vector<TracePlane>& planes, std::int64_t begin_ns) {
  Message out;
  for (const TracePlane& plane : planes) out.Nested(1, PlaneWriter().Write(plane, begin_ns));
  for (const std::string& warning : WarningsOf(planes)) out.Text(3, warning);
  return std::move(out).Take();
}

}  // namespace jax_ipu
