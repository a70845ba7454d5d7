// The names that errors and reports use for the objects that a call creates, and what the call was given.
// Source: Graphcore's Poplar and PopLibs API reference, classes poplar::DebugContext, poplar::DebugInfo,
// poplar::DebugNameAndId and poplar::SourceLocation.
#ifndef POPLAR_DEBUGCONTEXT_HPP
#define POPLAR_DEBUGCONTEXT_HPP

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>

#include "poplar/ProfileValue.hpp"
#include "poplar/StringRef.hpp"

namespace poplar {

using DebugId = std::uint64_t;

// Where a function was called.
class SourceLocation {
 public:
  SourceLocation() = default;
  SourceLocation(StringRef functionName, StringRef fileName, unsigned lineNumber)
      : function_(functionName), file_(fileName), line_(lineNumber), valid_(true) {}
  static SourceLocation Current(const char* function = __builtin_FUNCTION(),
                                const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return SourceLocation(function, file, line);
  }
  const std::string& getFunctionName() const { return function_; }
  const std::string& getFileName() const { return file_; }
  unsigned getLineNumber() const { return line_; }
  bool isValid() const { return valid_; }

 private:
  std::string function_, file_;
  unsigned line_ = 0;
  bool valid_ = false;
};

class DebugContext;
class DebugInfo;

// A name below the path of the names above it, and the id of the DebugInfo that it belongs to.
class DebugNameAndId {
 public:
  DebugNameAndId(StringRef name = "", DebugId debugId = 0, StringRef parentPath = "")
      : name_(name.cloneAsString()), parent_(parentPath.cloneAsString()), id_(debugId) {}
  DebugNameAndId(std::string name, DebugId debugId = 0, std::string parentPath = "")
      : name_(std::move(name)), parent_(std::move(parentPath)), id_(debugId) {}
  DebugNameAndId(const char* name) : name_(name) {}
  DebugNameAndId(const DebugInfo& info, StringRef name = "");
  DebugNameAndId(const DebugNameAndId& other, StringRef name);
  DebugNameAndId(const DebugNameAndId& other) = default;
  DebugNameAndId(DebugNameAndId&& other) = default;
  DebugNameAndId& operator=(const DebugNameAndId& other) = default;

  DebugId getParentId() const { return id_; }
  const std::string& getName() const { return name_; }
  // "parent/name"; empty parts have no slash.
  std::string getPathName() const { return Joined(parent_, name_); }

  friend std::ostream& operator<<(std::ostream& out, const DebugNameAndId& name) {
    return out << name.getPathName();
  }
  static std::string Joined(const std::string& parent, const std::string& name) {
    return parent.empty() ? name : name.empty() ? parent : parent + "/" + name;
  }

 private:
  std::string name_, parent_;
  DebugId id_ = 0;
};

class DebugContext {
 public:
  DebugContext() = default;
  DebugContext(SourceLocation) {}
  DebugContext(const char* name) : name_(name) {}
  DebugContext(std::string name) : name_(std::move(name)) {}
  DebugContext(StringRef name) : name_(name.cloneAsString()) {}
  DebugContext(const DebugInfo& info, StringRef name = "");
  DebugContext(const DebugNameAndId& parent, StringRef name = "")
      : name_(DebugNameAndId::Joined(parent.getPathName(), name)), id_(parent.getParentId()) {}
  DebugContext(const DebugContext& parent, StringRef name)
      : name_(DebugNameAndId::Joined(parent.name_, name)), id_(parent.id_) {}
  DebugContext(const DebugContext&) = default;
  DebugContext(DebugContext&&) = default;
  DebugContext& operator=(const DebugContext&) = default;
  DebugContext& operator=(DebugContext&&) = default;

  const std::string& getPathName() const { return name_; }
  friend std::ostream& operator<<(std::ostream& out, const DebugContext& context) {
    return out << context.name_;
  }
  DebugId getParentId() const { return id_; }  // of the DebugInfo that it was made from; 0: none

 private:
  std::string name_;
  DebugId id_ = 0;
};

enum class DebugSerializationFormat { JSON };

// What a call of a library was given and returned. With initializeStreamer, each one is written when it
// ends; without, nothing is kept.
class DebugInfo {
 public:
  DebugInfo(const DebugContext& debugContext, std::string layer);
  DebugInfo(const DebugInfo&) = delete;
  DebugInfo& operator=(const DebugInfo&) = delete;
  virtual ~DebugInfo();

  DebugId getId() const { return id_; }
  std::string getPathName() const { return path_; }
  // Returns false, and changes nothing, if the name is one of the class's own: id, parentId, layer, name.
  bool setValue(std::string name, ProfileValue value);

  // Writes a JSON object {"contexts": [...]} to the file, until closeStreamer. Throws poplar_error if the
  // file cannot be written.
  static void initializeStreamer(const std::string& fileName,
                                 const DebugSerializationFormat& format = DebugSerializationFormat::JSON);
  static void closeStreamer();

 private:
  DebugId id_, parent_;
  std::string path_, layer_;
  ProfileValue::Map values_;
};

inline DebugContext::DebugContext(const DebugInfo& info, StringRef name)
    : name_(DebugNameAndId::Joined(info.getPathName(), name)), id_(info.getId()) {}
inline DebugNameAndId::DebugNameAndId(const DebugInfo& info, StringRef name)
    : name_(name.cloneAsString()), parent_(info.getPathName()), id_(info.getId()) {}
inline DebugNameAndId::DebugNameAndId(const DebugNameAndId& other, StringRef name)
    : name_(name.cloneAsString()), parent_(other.getPathName()), id_(other.id_) {}

}  // namespace poplar

#endif  // POPLAR_DEBUGCONTEXT_HPP
