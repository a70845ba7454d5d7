#include "runtime/executable/utf8.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace jax_ipu {

bool IsUtf8(std::string_view bytes) {
  constexpr std::uint32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};  // by number of continuation bytes
  for (std::size_t i = 0; i < bytes.size();) {
    const auto lead = static_cast<unsigned char>(bytes[i++]);
    if (lead < 0x80) continue;
    std::size_t more = 0;
    std::uint32_t code = 0;
    if (lead >= 0xc0 && lead < 0xe0) {
      more = 1;
      code = lead & 0x1fu;
    } else if (lead >= 0xe0 && lead < 0xf0) {
      more = 2;
      code = lead & 0x0fu;
    } else if (lead >= 0xf0 && lead < 0xf8) {
      more = 3;
      code = lead & 0x07u;
    } else {
      return false;
    }
    if (bytes.size() - i < more) return false;
    for (std::size_t k = 0; k < more; ++k) {
      const auto next = static_cast<unsigned char>(bytes[i++]);
      if ((next & 0xc0u) != 0x80u) return false;
      code = code << 6 | (next & 0x3fu);
    }
    if (code < kSmallest[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
  }
  return true;
}

std::string AsUtf8(std::string_view bytes) {
  std::string text(bytes);
  if (IsUtf8(text)) return text;
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, '?');
  return text;
}

}  // namespace jax_ipu
