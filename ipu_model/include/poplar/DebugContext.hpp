// The name that errors and reports use for the objects that a call creates.
#ifndef POPLAR_DEBUGCONTEXT_HPP
#define POPLAR_DEBUGCONTEXT_HPP

#include <string>
#include <utility>

namespace poplar {

class DebugContext {
 public:
  DebugContext() = default;
  DebugContext(const char* name) : name_(name) {}
  DebugContext(std::string name) : name_(std::move(name)) {}
  DebugContext(const DebugContext& parent, const std::string& suffix)
      : name_(parent.name_.empty() ? suffix : parent.name_ + "/" + suffix) {}
  const std::string& getPathName() const { return name_; }

 private:
  std::string name_;
};

}  // namespace poplar

#endif  // POPLAR_DEBUGCONTEXT_HPP
