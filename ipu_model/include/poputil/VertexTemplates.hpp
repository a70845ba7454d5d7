// Names of vertices that are templates. Source: PopLibs, include/poputil/VertexTemplates.hpp.
#ifndef POPUTIL_VERTEXTEMPLATES_HPP
#define POPUTIL_VERTEXTEMPLATES_HPP

#include <string>

#include "poplar/Type.hpp"

namespace poputil {

// How a template argument of a vertex is written; specialised for enumerations.
template <typename T>
struct VertexTemplateToString {
  static std::string to_string(const T& value) { return std::to_string(value); }
};
template <>
struct VertexTemplateToString<std::string> {
  static std::string to_string(const std::string& value) { return value; }
};
template <>
struct VertexTemplateToString<const char*> {
  static std::string to_string(const char* value) { return value; }
};
template <>
struct VertexTemplateToString<bool> {
  static std::string to_string(bool value) { return value ? "true" : "false"; }
};
template <>
struct VertexTemplateToString<poplar::Type> {
  static std::string to_string(const poplar::Type& type) { return type.toString(); }
};

// "Name<float,2,true>" of ("Name", poplar::FLOAT, 2, true); the name alone where there are no arguments.
template <typename... Args>
std::string templateVertex(const std::string& name, Args... args) {
  std::string text;
  ((text += (text.empty() ? "<" : ",") + VertexTemplateToString<Args>::to_string(args)), ...);
  return text.empty() ? name : name + text + ">";
}

}  // namespace poputil

#endif  // POPUTIL_VERTEXTEMPLATES_HPP
