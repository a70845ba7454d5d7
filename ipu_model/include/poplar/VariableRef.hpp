// A variable of a graph, and elements of it. Source: Graphcore's Poplar and PopLibs API reference, classes
// poplar::VariableRef and poplar::VariableInterval.
#ifndef POPLAR_VARIABLEREF_HPP
#define POPLAR_VARIABLEREF_HPP

#include <cstddef>
#include <functional>

#include "poplar/Interval.hpp"

namespace poplar {

class VariableRef {
 public:
  VariableRef() = default;
  explicit VariableRef(unsigned id) : id_(id) {}
  unsigned id() const { return id_; }
  friend bool operator==(const VariableRef& a, const VariableRef& b) { return a.id_ == b.id_; }
  friend bool operator!=(const VariableRef& a, const VariableRef& b) { return a.id_ != b.id_; }
  friend bool operator<(const VariableRef& a, const VariableRef& b) { return a.id_ < b.id_; }

 private:
  unsigned id_ = 0;
};

struct VariableInterval {
  VariableInterval() = default;
  VariableInterval(VariableRef v, Interval i) : var(v), interval(i) {}
  friend bool operator==(const VariableInterval& a, const VariableInterval& b) {
    return a.var == b.var && a.interval == b.interval;
  }
  friend bool operator!=(const VariableInterval& a, const VariableInterval& b) { return !(a == b); }
  friend bool operator<(const VariableInterval& a, const VariableInterval& b) {
    return a.var != b.var ? a.var < b.var : a.interval < b.interval;
  }

  VariableRef var;
  Interval interval;
};

}  // namespace poplar

namespace std {
template <>
struct hash<poplar::VariableRef> {
  size_t operator()(const poplar::VariableRef& v) const { return hash<unsigned>()(v.id()); }
};
}  // namespace std

#endif  // POPLAR_VARIABLEREF_HPP
