// Text in JSON.
#ifndef IPU_MODEL_CORE_JSON_H_
#define IPU_MODEL_CORE_JSON_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace ipu_model {

inline std::string QuotedJson(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const std::size_t escape = std::string_view("\"\\\b\f\n\r\t").find(c);
    if (escape != std::string_view::npos) {
      quoted += {'\\', "\"\\bfnrt"[escape]};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += {'\\', 'u', '0', '0', c < 0x10 ? '0' : '1', "0123456789abcdef"[c & 15]};
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_JSON_H_
