#include "codelets/class_names.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <utility>

namespace ipu_model {
namespace {

// An entry of the debug information, with the attributes that are of use here.
struct Entry {
  int depth = 0;
  std::uint64_t offset = 0, type = 0;
  std::string tag, name;
  int accessibility = 0;  // 0: as the kind of class says
  bool declaration = false, artificial = false, external = false, bit_field = false;
};

struct FieldEntry {
  std::string name;
  std::uint64_t type = 0;
  bool is_public = false, bit_field = false;
};

struct ClassEntry {
  Entry entry;
  std::string scope;  // "ns::", or empty
  std::vector<std::uint64_t> bases;
  std::vector<FieldEntry> fields;
  bool computes = false, has_constructor = false;
};

// The value of a line "<4a>   DW_AT_name   : (strp) (offset: 0x2e4): half", whatever the version of readelf:
// without the form and the offset.
std::string TextValue(const std::string& line) {
  std::size_t at = line.find(':');
  if (at == std::string::npos) return "";
  ++at;
  while (true) {
    while (at < line.size() && (line[at] == ' ' || line[at] == '\t' || line[at] == ':')) ++at;
    if (at >= line.size() || line[at] != '(') break;
    const std::size_t end = line.find(')', at);
    if (end == std::string::npos) break;
    at = end + 1;
  }
  std::size_t end = line.size();
  while (end > at && std::isspace(static_cast<unsigned char>(line[end - 1])) != 0) --end;
  return line.substr(at, end - at);
}

std::uint64_t ReferenceValue(const std::string& line) {
  const std::size_t at = line.find("<0x", line.find(':'));
  return at == std::string::npos ? 0 : std::strtoull(line.c_str() + at + 1, nullptr, 16);
}

// The class's name without template arguments.
std::string PlainName(const std::string& name) { return name.substr(0, name.find('<')); }

class Reader {
 public:
  void Line(const std::string& line) {
    // " <1><2a>: Abbrev Number: 1 (DW_TAG_typedef)"
    if (line.compare(0, 2, " <") == 0) {
      const std::size_t tag = line.find("(DW_TAG_");
      const std::size_t second = line.find("><");
      if (second == std::string::npos) return;
      Finish();
      if (tag == std::string::npos) return;  // the end of a list of children
      entry_ = {};
      entry_.depth = static_cast<int>(std::strtol(line.c_str() + 2, nullptr, 16));
      entry_.offset = std::strtoull(line.c_str() + second + 2, nullptr, 16);
      entry_.tag = line.substr(tag + 8, line.find(')', tag) - tag - 8);
      open_ = true;
      return;
    }
    const std::size_t attribute = line.find("DW_AT_");
    if (!open_ || attribute == std::string::npos) return;
    const auto is = [&](const char* name) {
      const std::size_t n = std::char_traits<char>::length(name);
      return line.compare(attribute + 6, n, name) == 0 &&
             (line[attribute + 6 + n] == ' ' || line[attribute + 6 + n] == ':');
    };
    const std::string value = line.substr(attribute);
    if (is("name")) {
      entry_.name = TextValue(value);
    } else if (is("type")) {
      entry_.type = ReferenceValue(value);
    } else if (is("accessibility")) {
      entry_.accessibility = std::atoi(TextValue(value).c_str());
    } else if (is("declaration")) {
      entry_.declaration = true;
    } else if (is("artificial")) {
      entry_.artificial = true;
    } else if (is("external")) {
      entry_.external = true;
    } else if (is("bit_size")) {
      entry_.bit_field = true;
    } else if (is("const_value")) {
      value_ = TextValue(value);
    }
  }

  std::vector<ClassNames> Take() {
    Finish();
    std::vector<ClassNames> result;
    for (const auto& [offset, entry] : classes_) {
      if (entry.entry.declaration || entry.entry.name.empty() || !IsVertex(offset, 0)) continue;
      ClassNames names;
      names.cpp_name = entry.scope + entry.entry.name;
      if (names.cpp_name.find("(anonymous") != std::string::npos || IsApi(entry)) continue;
      bool computes = false;
      Collect(offset, 0, &names, &computes);
      if (!computes) continue;
      names.has_constructor = entry.has_constructor;
      names.name = CanonicalName(WithEnumerators(names.cpp_name));
      result.push_back(std::move(names));
    }
    return result;
  }

 private:
  bool IsClass(const Entry& e) const { return e.tag == "class_type" || e.tag == "structure_type"; }

  // Files an entry whose attributes are all known.
  void Finish() {
    if (!open_) return;
    open_ = false;
    const Entry& e = entry_;
    while (!scopes_.empty() && scopes_.back().depth >= e.depth) scopes_.pop_back();
    std::string scope;
    bool in_function = false;
    for (const Entry& s : scopes_) {
      if (s.tag == "compile_unit") continue;
      in_function = in_function || s.tag == "subprogram" || s.tag == "lexical_block";
      scope += (s.name.empty() ? "(anonymous)" : s.name) + "::";
    }
    const Entry* const parent = scopes_.empty() ? nullptr : &scopes_.back();
    if (parent != nullptr && IsClass(*parent)) Member(e, &classes_[parent->offset], IsPublic(e, *parent));
    if (parent != nullptr && parent->tag == "enumeration_type" && e.tag == "enumerator") {
      const std::string type = scope.substr(0, scope.size() - 2);
      enumerators_.emplace("(" + type + ")" + value_, type + "::" + e.name);
    }
    if (IsClass(e)) {
      ClassEntry& entry = classes_[e.offset];
      entry.entry = e;
      entry.scope = scope;
      if (in_function) entry.entry.declaration = true;  // out of reach for the table
    }
    if (e.tag == "typedef" || e.tag == "const_type" || e.tag == "volatile_type") typedefs_[e.offset] = e.type;
    if (e.tag == "base_type" || e.tag == "enumeration_type") numbers_.insert(e.offset);
    scopes_.push_back(e);
  }

  static bool IsPublic(const Entry& e, const Entry& parent) {
    return e.accessibility != 0 ? e.accessibility == 1 : parent.tag == "structure_type";
  }

  static void Member(const Entry& e, ClassEntry* of, bool is_public) {
    if (e.tag == "inheritance") of->bases.push_back(e.type);
    // Static members are external.
    if (e.tag == "member" && !e.external && !e.artificial && !e.name.empty())
      of->fields.push_back({e.name, e.type, is_public, e.bit_field});
    if (e.tag != "subprogram") return;
    if (e.name == "compute" && is_public) of->computes = true;
    if (e.name == PlainName(of->entry.name) && !e.artificial) of->has_constructor = true;
  }

  static bool IsApi(const ClassEntry& e) {
    return e.scope == "poplar::" &&
           (e.entry.name == "Vertex" || e.entry.name == "MultiVertex" || e.entry.name == "SupervisorVertex");
  }

  const ClassEntry* Find(std::uint64_t type) const {
    for (int steps = 0; steps < 64; ++steps) {
      if (const auto found = classes_.find(type); found != classes_.end()) return &found->second;
      const auto alias = typedefs_.find(type);
      if (alias == typedefs_.end()) return nullptr;
      type = alias->second;
    }
    return nullptr;
  }

  bool IsVertex(std::uint64_t type, int depth) const {
    const ClassEntry* const e = Find(type);
    if (e == nullptr || depth > 64) return false;
    if (IsApi(*e)) return true;
    return std::any_of(e->bases.begin(), e->bases.end(),
                       [&](std::uint64_t base) { return IsVertex(base, depth + 1); });
  }

  // Whether a field has a class of Poplar for edges and vectors.
  bool IsPoplarField(std::uint64_t type) const {
    const ClassEntry* const e = Find(type);
    if (e == nullptr || e->scope != "poplar::") return false;
    const std::string name = PlainName(e->entry.name);
    return name == "Input" || name == "Output" || name == "InOut" || name == "Vector" || name == "VectorList";
  }

  bool IsNumber(std::uint64_t type) const {
    for (int steps = 0; steps < 64; ++steps) {
      if (numbers_.count(type) > 0) return true;
      const auto alias = typedefs_.find(type);
      if (alias == typedefs_.end()) return false;
      type = alias->second;
    }
    return false;
  }

  // The fields of the bases come first. Of private members, edges, vectors and numbers are fields.
  void Collect(std::uint64_t type, int depth, ClassNames* to, bool* computes) const {
    const ClassEntry* const e = Find(type);
    if (e == nullptr || depth > 64) return;
    for (const std::uint64_t base : e->bases) Collect(base, depth + 1, to, computes);
    for (const FieldEntry& field : e->fields) {
      if (!field.is_public && !IsPoplarField(field.type) && (field.bit_field || !IsNumber(field.type)))
        continue;
      if (std::find(to->fields.begin(), to->fields.end(), field.name) != to->fields.end()) continue;
      to->fields.push_back(field.name);
      to->has_private_fields = to->has_private_fields || !field.is_public;
    }
    *computes = *computes || e->computes;
  }

  // Replaces "(ns::Enum)1" by "ns::Enum::NAME".
  std::string WithEnumerators(std::string name) const {
    for (std::size_t at = name.find('('); at != std::string::npos; at = name.find('(', at + 1)) {
      std::size_t end = name.find(')', at);
      if (end == std::string::npos) break;
      ++end;
      while (end < name.size() &&
             (std::isdigit(static_cast<unsigned char>(name[end])) != 0 || name[end] == '-'))
        ++end;
      const auto found = enumerators_.find(name.substr(at, end - at));
      if (found != enumerators_.end()) name.replace(at, end - at, found->second);
    }
    return name;
  }

  Entry entry_;
  std::string value_;
  bool open_ = false;
  std::vector<Entry> scopes_;  // the entries around the next one
  std::map<std::uint64_t, ClassEntry> classes_;
  std::map<std::uint64_t, std::uint64_t> typedefs_;
  std::set<std::uint64_t> numbers_;
  std::map<std::string, std::string> enumerators_;
};

// One argument of a template, or a whole name without any.
std::string CanonicalWord(const std::string& word) {
  std::istringstream words(word);
  std::vector<std::string> parts;
  for (std::string part; words >> part;) parts.push_back(part);
  const auto count = [&](const char* name) { return std::count(parts.begin(), parts.end(), name); };
  const std::ptrdiff_t longs = count("long"), shorts = count("short"), chars = count("char"),
                       is_unsigned = count("unsigned"), is_signed = count("signed");
  const std::ptrdiff_t known = longs + shorts + chars + is_unsigned + is_signed + count("int");
  if (!parts.empty() && known == static_cast<std::ptrdiff_t>(parts.size())) {
    std::string size = longs == 2   ? "long long"
                       : longs == 1 ? "long"
                       : shorts     ? "short"
                       : chars      ? "char"
                                    : "int";
    if (is_unsigned > 0) return "unsigned " + size;
    return chars > 0 && is_signed > 0 ? "signed char" : size;
  }
  std::string joined;
  for (const std::string& part : parts) joined += (joined.empty() ? "" : " ") + part;
  if (joined == "_Float16") return "half";
  if (!joined.empty() && std::isdigit(static_cast<unsigned char>(joined[0])) != 0) {
    while (joined.size() > 1 && std::string("uUlL").find(joined.back()) != std::string::npos)
      joined.pop_back();
  }
  return joined;
}

}  // namespace

std::vector<ClassNames> VertexClassesIn(const std::string& text) {
  Reader reader;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    reader.Line(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return reader.Take();
}

std::string CanonicalName(const std::string& name) {
  std::string result, word;
  const auto flush = [&] {
    result += CanonicalWord(word);
    word.clear();
  };
  for (const char c : name) {
    if (c == '<' || c == '>' || c == ',') {
      flush();
      result += c;
    } else {
      word += c;
    }
  }
  flush();
  return result;
}

}  // namespace ipu_model
