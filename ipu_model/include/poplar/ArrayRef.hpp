// A reference to elements in a row that something else owns: a vector, an array, or a list of arguments.
#ifndef POPLAR_ARRAYREF_HPP
#define POPLAR_ARRAYREF_HPP

// Besides what this header needs: programs take these from Poplar's headers.
#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <map>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace poplar {

// Refers to a list of arguments as long as the expression is evaluated that has the list.
template <typename T>
class ArrayRef {
 public:
  using value_type = T;
  using size_type = std::size_t;
  using iterator = const T*;
  using const_iterator = const T*;

  constexpr ArrayRef() = default;
  constexpr ArrayRef(const T* data, std::size_t size) : data_(data), size_(size) {}
  constexpr ArrayRef(const T* begin, const T* end)
      : data_(begin), size_(static_cast<std::size_t>(end - begin)) {}
  ArrayRef(const std::vector<T>& values) : data_(values.data()), size_(values.size()) {}
  template <std::size_t N>
  constexpr ArrayRef(const std::array<T, N>& values) : data_(values.data()), size_(N) {}
  template <std::size_t N>
  constexpr ArrayRef(const T (&values)[N]) : data_(values), size_(N) {}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"
#endif
  constexpr ArrayRef(std::initializer_list<T> values) : data_(values.begin()), size_(values.size()) {}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + size_; }
  constexpr const T* data() const { return data_; }
  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T& operator[](std::size_t i) const { return data_[i]; }
  // Throws std::out_of_range.
  const T& at(std::size_t i) const {
    if (i >= size_) throw std::out_of_range("ArrayRef::at");
    return data_[i];
  }
  constexpr const T& front() const { return data_[0]; }
  constexpr const T& back() const { return data_[size_ - 1]; }
  std::vector<T> cloneAsVector() const { return std::vector<T>(begin(), end()); }
  operator std::vector<T>() const { return cloneAsVector(); }
  bool equals(ArrayRef other) const {
    if (size_ != other.size_) return false;
    for (std::size_t i = 0; i < size_; ++i) {
      if (!(data_[i] == other.data_[i])) return false;
    }
    return true;
  }
  friend bool operator==(const ArrayRef& a, const ArrayRef& b) { return a.equals(b); }
  friend bool operator!=(const ArrayRef& a, const ArrayRef& b) { return !a.equals(b); }

 private:
  const T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace poplar

#endif  // POPLAR_ARRAYREF_HPP
