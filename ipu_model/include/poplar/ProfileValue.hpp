// A value of a profile or of debug information, with the kinds that JSON has. Source: Graphcore's Poplar and
// PopLibs API reference, class poplar::ProfileValue.
#ifndef POPLAR_PROFILEVALUE_HPP
#define POPLAR_PROFILEVALUE_HPP

#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "poplar/StringRef.hpp"

namespace poplar {

class OptionFlags;

class ProfileValue {
 public:
  using Boolean = bool;
  using Number = double;
  using String = std::string;
  using Vector = std::vector<ProfileValue>;
  using Map = std::map<std::string, ProfileValue>;
  enum class Type { NUMBER, STRING, BOOL, VECTOR, MAP };

  ProfileValue() = default;  // the number 0
  template <typename T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  ProfileValue(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      value_ = value;
    } else if constexpr (std::is_integral_v<T>) {
      value_ = static_cast<std::int64_t>(value);
    } else {
      value_ = static_cast<double>(value);
    }
  }
  ProfileValue(String value) : value_(std::move(value)) {}
  ProfileValue(const char* value) : value_(String(value)) {}
  ProfileValue(StringRef value) : value_(value.cloneAsString()) {}
  ProfileValue(Vector value) : value_(std::move(value)) {}
  ProfileValue(Map value) : value_(std::move(value)) {}

  Type type() const {
    constexpr Type kTypes[] = {Type::NUMBER, Type::NUMBER, Type::STRING, Type::BOOL, Type::VECTOR, Type::MAP};
    return kTypes[value_.index()];
  }
  // Each throws poplar_error for a value of another type.
  bool asBool() const;
  double asDouble() const;
  double sumDouble() const { return asDouble(); }
  std::int64_t asInt() const;
  std::uint64_t asUint() const { return static_cast<std::uint64_t>(asInt()); }
  const String& asString() const;
  const Vector& asVector() const;
  const Map& asMap() const;
  // An element of a map or a vector; throws poplar_error if there is none.
  const ProfileValue& operator[](StringRef key) const;
  const ProfileValue& operator[](std::size_t index) const;
  const ProfileValue* getOrNull(StringRef key) const;
  std::size_t size() const;  // of a vector or a map

  friend bool operator==(const ProfileValue& a, const ProfileValue& b) { return a.value_ == b.value_; }
  friend bool operator!=(const ProfileValue& a, const ProfileValue& b) { return !(a == b); }

 private:
  friend void serializeToJSON(std::ostream& out, const ProfileValue& value, bool prettyPrint);
  void Write(std::ostream& out, int indent) const;  // indent < 0: on one line

  std::variant<std::int64_t, double, String, bool, Vector, Map> value_;
};

void serializeToJSON(std::ostream& out, const ProfileValue& value, bool prettyPrint = false);
inline std::ostream& operator<<(std::ostream& out, const ProfileValue& value) {
  serializeToJSON(out, value);
  return out;
}

// A map from the options' names to their values.
ProfileValue getAsProfileValue(const OptionFlags& flags);

}  // namespace poplar

#endif  // POPLAR_PROFILEVALUE_HPP
