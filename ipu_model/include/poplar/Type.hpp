// Element types. Names and meaning as in Graphcore's documentation; the extensions at the end exist in the
// model only.
#ifndef POPLAR_TYPE_HPP
#define POPLAR_TYPE_HPP

#include <cstddef>
#include <functional>
#include <string>

#include "ipu_model/Types.hpp"

namespace poplar {

class Type {
 public:
  constexpr Type() = default;
  constexpr explicit Type(ipu_model::DType id) : id_(id) {}
  constexpr ipu_model::DType id() const { return id_; }
  std::string toString() const { return ipu_model::NameOf(id_); }
  friend constexpr bool operator==(Type a, Type b) { return a.id_ == b.id_; }
  friend constexpr bool operator!=(Type a, Type b) { return a.id_ != b.id_; }
  friend constexpr bool operator<(Type a, Type b) { return a.id_ < b.id_; }

 private:
  ipu_model::DType id_ = ipu_model::DType::kPred;
};

inline constexpr Type BOOL{ipu_model::DType::kPred};
inline constexpr Type CHAR{ipu_model::DType::kS8};
inline constexpr Type SIGNED_CHAR{ipu_model::DType::kS8};
inline constexpr Type UNSIGNED_CHAR{ipu_model::DType::kU8};
inline constexpr Type SHORT{ipu_model::DType::kS16};
inline constexpr Type UNSIGNED_SHORT{ipu_model::DType::kU16};
inline constexpr Type INT{ipu_model::DType::kS32};
inline constexpr Type UNSIGNED_INT{ipu_model::DType::kU32};
inline constexpr Type LONGLONG{ipu_model::DType::kS64};
inline constexpr Type UNSIGNED_LONGLONG{ipu_model::DType::kU64};
inline constexpr Type HALF{ipu_model::DType::kF16};
inline constexpr Type FLOAT{ipu_model::DType::kF32};

}  // namespace poplar

namespace std {
template <>
struct hash<poplar::Type> {
  size_t operator()(poplar::Type t) const { return static_cast<size_t>(t.id()); }
};
}  // namespace std

#endif  // POPLAR_TYPE_HPP
