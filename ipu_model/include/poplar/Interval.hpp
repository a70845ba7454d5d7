// Half-open interval of element indices.
#ifndef POPLAR_INTERVAL_HPP
#define POPLAR_INTERVAL_HPP

#include <cstddef>
#include <ostream>

#include "poplar/ArrayRef.hpp"

namespace poplar {

class Interval {
 public:
  using value_type = std::size_t;
  constexpr Interval() = default;
  constexpr Interval(std::size_t begin, std::size_t end) : begin_(begin), end_(end) {}
  constexpr std::size_t begin() const { return begin_; }
  constexpr std::size_t end() const { return end_; }
  constexpr std::size_t lower() const { return begin_; }
  constexpr std::size_t upper() const { return end_; }
  constexpr std::size_t size() const { return end_ - begin_; }
  friend constexpr bool operator==(const Interval& a, const Interval& b) {
    return a.begin_ == b.begin_ && a.end_ == b.end_;
  }
  friend constexpr bool operator!=(const Interval& a, const Interval& b) { return !(a == b); }
  friend constexpr bool operator<(const Interval& a, const Interval& b) {
    return a.begin_ != b.begin_ ? a.begin_ < b.begin_ : a.end_ < b.end_;
  }
  friend std::ostream& operator<<(std::ostream& out, const Interval& i) {
    return out << "[" << i.begin_ << "," << i.end_ << ")";
  }

 private:
  std::size_t begin_ = 0, end_ = 0;
};

}  // namespace poplar

#endif  // POPLAR_INTERVAL_HPP
