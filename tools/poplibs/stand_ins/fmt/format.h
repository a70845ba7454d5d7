// Stand-in for a version of fmt that has the literal _format, which later versions do not have: fmt's own
// header, and the literal. It also prints Poplar's references to arrays, as JSON does.
#pragma once

#include_next <fmt/format.h>

#include <poplar/ArrayRef.hpp>

namespace fmt {
inline namespace literals {

struct FormatLiteral {
  template <typename... Arguments>
  std::string operator()(const Arguments&... arguments) const {
    return fmt::vformat(text, fmt::make_format_args(arguments...));
  }
  fmt::string_view text;
};

inline FormatLiteral operator""_format(const char* text, std::size_t size) { return {{text, size}}; }

}  // namespace literals
template <typename T>
struct formatter<poplar::ArrayRef<T>> : formatter<std::string> {
  template <typename Context>
  auto format(const poplar::ArrayRef<T>& values, Context& context) const {
    std::string text;
    for (const T& value : values) text += (text.empty() ? "" : ",") + fmt::format("{}", value);
    return formatter<std::string>::format("[" + text + "]", context);
  }
};

}  // namespace fmt
