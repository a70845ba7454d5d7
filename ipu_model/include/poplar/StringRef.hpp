// A reference to characters that something else owns.
#ifndef POPLAR_STRINGREF_HPP
#define POPLAR_STRINGREF_HPP

#include <cstddef>
#include <cstring>
#include <ostream>
#include <string>
#include <string_view>

#include "poplar/ArrayRef.hpp"

namespace poplar {

class StringRef : public ArrayRef<char> {
 public:
  constexpr StringRef() = default;
  StringRef(const char* text) : ArrayRef<char>(text, std::strlen(text)) {}
  StringRef(const std::string& text) : ArrayRef<char>(text.data(), text.size()) {}
  constexpr StringRef(std::string_view text) : ArrayRef<char>(text.data(), text.size()) {}
  constexpr StringRef(const char* text, std::size_t size) : ArrayRef<char>(text, size) {}

  std::string cloneAsString() const { return std::string(data(), size()); }
  operator std::string() const { return cloneAsString(); }
  std::string_view view() const { return {data(), size()}; }

  friend bool operator==(StringRef a, StringRef b) { return a.view() == b.view(); }
  friend bool operator!=(StringRef a, StringRef b) { return a.view() != b.view(); }
  friend bool operator<(StringRef a, StringRef b) { return a.view() < b.view(); }
  friend std::string operator+(StringRef a, StringRef b) { return a.cloneAsString() + b.cloneAsString(); }
  friend std::ostream& operator<<(std::ostream& out, StringRef text) { return out << text.view(); }
};

}  // namespace poplar

#endif  // POPLAR_STRINGREF_HPP
