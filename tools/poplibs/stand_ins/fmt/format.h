// Stand-in for a version of fmt that has the literal _format, which later versions do not have: fmt's own
// header, and the literal.
#pragma once

#include_next <fmt/format.h>

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
}  // namespace fmt
