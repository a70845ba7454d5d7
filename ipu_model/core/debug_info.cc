// Debug information of the calls of libraries, and the values that it and profiles have.
#include <atomic>
#include <cmath>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>
#include <utility>

#include "poplar/DebugContext.hpp"
#include "poplar/OptionFlags.hpp"
#include "poplar/ProfileValue.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {

namespace {

void WriteString(std::ostream& out, const std::string& text) {
  out << '"';
  for (const char c : text) {
    switch (c) {
      case '"':
      case '\\':
        out << '\\' << c;
        break;
      case '\n':
        out << "\\n";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          const char* digits = "0123456789abcdef";
          out << "\\u00" << digits[(c >> 4) & 15] << digits[c & 15];
        } else {
          out << c;
        }
    }
  }
  out << '"';
}

template <typename T, typename Variant>
const T& Get(const Variant& value, const char* name) {
  const T* found = std::get_if<T>(&value);
  if (found == nullptr) throw poplar_error(std::string("ProfileValue: the value is no ") + name);
  return *found;
}

struct Streamer {
  std::mutex mutex;
  std::unique_ptr<std::ofstream> file;
  bool first = true;
};
Streamer& TheStreamer() {
  static Streamer streamer;
  return streamer;
}
// So that values are kept only while there is a file for them.
std::atomic<bool> streaming{false};
std::atomic<DebugId> next_id{1};

}  // namespace

bool ProfileValue::asBool() const { return Get<bool>(value_, "boolean"); }
double ProfileValue::asDouble() const {
  if (const auto* integer = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*integer);
  return Get<double>(value_, "number");
}
std::int64_t ProfileValue::asInt() const {
  if (const auto* real = std::get_if<double>(&value_)) return static_cast<std::int64_t>(*real);
  return Get<std::int64_t>(value_, "number");
}
const ProfileValue::String& ProfileValue::asString() const { return Get<String>(value_, "string"); }
const ProfileValue::Vector& ProfileValue::asVector() const { return Get<Vector>(value_, "vector"); }
const ProfileValue::Map& ProfileValue::asMap() const { return Get<Map>(value_, "map"); }

const ProfileValue* ProfileValue::getOrNull(StringRef key) const {
  const Map& map = asMap();
  const auto found = map.find(key.cloneAsString());
  return found == map.end() ? nullptr : &found->second;
}
const ProfileValue& ProfileValue::operator[](StringRef key) const {
  const ProfileValue* found = getOrNull(key);
  if (found == nullptr) throw poplar_error("ProfileValue: there is no '" + key.cloneAsString() + "'");
  return *found;
}
const ProfileValue& ProfileValue::operator[](std::size_t index) const {
  const Vector& vector = asVector();
  if (index >= vector.size())
    throw poplar_error("ProfileValue: there is no element " + std::to_string(index));
  return vector[index];
}
std::size_t ProfileValue::size() const {
  if (const Map* map = std::get_if<Map>(&value_)) return map->size();
  return asVector().size();
}

void ProfileValue::Write(std::ostream& out, int indent) const {
  const auto line = [&](int extra) {
    if (indent >= 0) out << '\n' << std::string(static_cast<std::size_t>(indent + extra), ' ');
  };
  const int inner = indent < 0 ? indent : indent + 2;
  const char* separator = "";
  switch (value_.index()) {
    case 0:
      out << std::get<std::int64_t>(value_);
      break;
    case 1: {
      std::ostringstream number;
      number.precision(17);
      number << std::get<double>(value_);
      // JSON has no infinities and no NaN.
      out << (std::isfinite(std::get<double>(value_)) ? number.str() : "null");
      break;
    }
    case 2:
      WriteString(out, std::get<String>(value_));
      break;
    case 3:
      out << (std::get<bool>(value_) ? "true" : "false");
      break;
    case 4:
      out << '[';
      for (const ProfileValue& element : std::get<Vector>(value_)) {
        out << separator;
        line(2);
        element.Write(out, inner);
        separator = ",";
      }
      if (*separator != 0) line(0);
      out << ']';
      break;
    default:
      out << '{';
      for (const auto& [name, element] : std::get<Map>(value_)) {
        out << separator;
        line(2);
        WriteString(out, name);
        out << (indent < 0 ? ":" : ": ");
        element.Write(out, inner);
        separator = ",";
      }
      if (*separator != 0) line(0);
      out << '}';
  }
}

void serializeToJSON(std::ostream& out, const ProfileValue& value, bool prettyPrint) {
  value.Write(out, prettyPrint ? 0 : -1);
}

ProfileValue getAsProfileValue(const OptionFlags& flags) {
  ProfileValue::Map map;
  for (const auto& [name, value] : flags) map.emplace(name, value);
  return map;
}

DebugInfo::DebugInfo(const DebugContext& debugContext, std::string layer)
    : id_(next_id++),
      parent_(debugContext.getParentId()),
      path_(debugContext.getPathName()),
      layer_(std::move(layer)) {}

DebugInfo::~DebugInfo() {
  if (!streaming) return;
  values_.emplace("id", id_);
  values_.emplace("parentId", parent_);
  values_.emplace("layer", layer_);
  values_.emplace("name", path_);
  Streamer& streamer = TheStreamer();
  const std::lock_guard<std::mutex> lock(streamer.mutex);
  if (!streamer.file) return;
  *streamer.file << (streamer.first ? "\n" : ",\n");
  streamer.first = false;
  serializeToJSON(*streamer.file, values_);
}

bool DebugInfo::setValue(std::string name, ProfileValue value) {
  if (name == "id" || name == "parentId" || name == "layer" || name == "name") return false;
  if (streaming) values_[std::move(name)] = std::move(value);
  return true;
}

void DebugInfo::initializeStreamer(const std::string& fileName, const DebugSerializationFormat& /*format*/) {
  closeStreamer();
  Streamer& streamer = TheStreamer();
  const std::lock_guard<std::mutex> lock(streamer.mutex);
  streamer.file = std::make_unique<std::ofstream>(fileName, std::ios::binary);
  if (!*streamer.file) {
    streamer.file.reset();
    throw poplar_error("DebugInfo::initializeStreamer: the file '" + fileName + "' cannot be written");
  }
  *streamer.file << "{\"contexts\":[";
  streamer.first = true;
  streaming = true;
}

void DebugInfo::closeStreamer() {
  Streamer& streamer = TheStreamer();
  const std::lock_guard<std::mutex> lock(streamer.mutex);
  streaming = false;
  if (!streamer.file) return;
  *streamer.file << "\n]}\n";
  streamer.file.reset();
}

}  // namespace poplar
