// poplar::OptionFlags from and to JSON.
#include <cctype>
#include <cstdlib>
#include <sstream>
#include <utility>
#include <vector>

#include "core/json.h"
#include "poplar/OptionFlags.hpp"

namespace poplar {
namespace {

class JsonReader {
 public:
  explicit JsonReader(const std::string& text) : text_(text) {}

  std::vector<std::pair<std::string, std::string>> Object() {
    std::vector<std::pair<std::string, std::string>> options;
    Expect('{');
    if (Peek() != '}') {
      do {
        std::string name = String();
        Expect(':');
        options.emplace_back(std::move(name), Value());
      } while (Take(','));
    }
    Expect('}');
    if (Peek() != '\0') Fail("the end of the text");
    return options;
  }

 private:
  [[noreturn]] void Fail(const std::string& expected) const {
    throw parse_error("readJSON: expected " + expected + " at character " + std::to_string(at_ + 1) +
                      " of '" + text_ +
                      "': an object of names and values that are strings, numbers or booleans");
  }
  char Peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  void Expect(char c) {
    if (!Take(c)) Fail(std::string("'") + c + "'");
  }

  std::string String() {
    Expect('"');
    std::string value;
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c == '\\') {
        static const std::string kEscapes = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
        const std::size_t escape = at_ < text_.size() ? kEscapes.find(text_[at_]) : std::string::npos;
        if (escape == std::string::npos) Fail("one of \"\\/bfnrt");
        c = kMeant[escape];
        ++at_;
      }
      value += c;
    }
    if (at_ == text_.size()) Fail("'\"'");
    ++at_;
    return value;
  }

  std::string Value() {
    if (Peek() == '"') return String();
    std::string value;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  std::string("+-.").find(text_[at_]) != std::string::npos)) {
      value += text_[at_++];
    }
    char* end = nullptr;
    std::strtod(value.c_str(), &end);
    const bool number =
        !value.empty() && *end == '\0' && value.find_first_not_of("+-.0123456789eE") == std::string::npos;
    if (value != "true" && value != "false" && !number) Fail("a value");
    return value;
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

}  // namespace

std::ostream& operator<<(std::ostream& stream, const OptionFlags& flags) {
  stream << "{";
  const char* separator = "";
  for (const auto& [name, value] : flags) {
    stream << separator << ipu_model::QuotedJson(name) << ":" << ipu_model::QuotedJson(value);
    separator = ",";
  }
  return stream << "}";
}

void readJSON(const std::string& text, OptionFlags& flags) {
  for (const auto& [name, value] : JsonReader(text).Object()) flags.set(name, value);
}

void readJSON(std::istream& stream, OptionFlags& flags) {
  std::ostringstream text;
  text << stream.rdbuf();
  readJSON(text.str(), flags);
}

void readJSONFromEnv(const std::string& variable, OptionFlags& flags) {
  const char* const text = std::getenv(variable.c_str());
  if (text == nullptr) return;
  try {
    readJSON(std::string(text), flags);
  } catch (const parse_error& error) {
    throw parse_error("the environment variable " + variable + ": " + error.what());
  }
}

}  // namespace poplar
