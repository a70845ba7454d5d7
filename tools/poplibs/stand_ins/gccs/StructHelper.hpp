// Stand-in for Graphcore's unpublished helper library: comparison of structs by a list of their members.
#pragma once

#include <tuple>

namespace gccs {

template <typename... Members>
class StructHelper {
 public:
  constexpr StructHelper(Members... members) : members_(members...) {}
  template <typename T>
  bool lt(const T& a, const T& b) const {
    return Tie(a) < Tie(b);
  }
  template <typename T>
  bool eq(const T& a, const T& b) const {
    return Tie(a) == Tie(b);
  }

 private:
  template <typename T>
  auto Tie(const T& object) const {
    return std::apply([&object](auto... m) { return std::tie(object.*m...); }, members_);
  }
  std::tuple<Members...> members_;
};

template <typename... Members>
constexpr auto makeStructHelper(Members... members) {
  return StructHelper<Members...>(members...);
}

}  // namespace gccs
