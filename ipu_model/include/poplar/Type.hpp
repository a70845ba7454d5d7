// Element types. Names and meaning as in Graphcore's documentation. The model has further types, whose names
// are those of ipu_model/Types.hpp.
#ifndef POPLAR_TYPE_HPP
#define POPLAR_TYPE_HPP

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>

#include "ipu_model/Types.hpp"
#include "poplar/StringRef.hpp"

namespace poplar {

// Types of equal representation are distinct: CHAR and SIGNED_CHAR, LONG and LONGLONG (64 bits, as on the
// host), QUARTER, QUARTER_METADATA and UNSIGNED_CHAR.
class Type {
 public:
  constexpr Type() = default;
  constexpr explicit Type(ipu_model::DType id, const char* name = nullptr) : name_(name), id_(id) {}
  // The number of the type, which the templates of TypeConversion.hpp need. It is not part of Poplar, whose
  // users call ipu_model::DTypeOf.
  constexpr ipu_model::DType id() const { return id_; }
  // As in C++: "unsigned int", "half". Types that C++ and Poplar lack have the model's names.
  std::string toString() const {
    if (name_ != nullptr) return name_;
    switch (id_) {
      case ipu_model::DType::kPred:
        return "bool";
      case ipu_model::DType::kS8:
        return "signed char";
      case ipu_model::DType::kU8:
        return "unsigned char";
      case ipu_model::DType::kS16:
        return "short";
      case ipu_model::DType::kU16:
        return "unsigned short";
      case ipu_model::DType::kS32:
        return "int";
      case ipu_model::DType::kU32:
        return "unsigned int";
      case ipu_model::DType::kS64:
        return "long long";
      case ipu_model::DType::kU64:
        return "unsigned long long";
      case ipu_model::DType::kF16:
        return "half";
      case ipu_model::DType::kF32:
        return "float";
      default:
        return ipu_model::NameOf(id_);
    }
  }
  // Whether tensors of this type have a tensor of QUARTER_METADATA beside them.
  bool requiresMetadata() const { return IsNamed("quarter"); }
  bool isFloatingPoint() const {
    return id_ == ipu_model::DType::kF16 || id_ == ipu_model::DType::kBF16 || id_ == ipu_model::DType::kF32 ||
           id_ == ipu_model::DType::kF64 || requiresMetadata();
  }
  // Whether it is one of several types with the representation id(), and not the usual one.
  constexpr bool isVariant() const { return name_ != nullptr; }
  friend bool operator==(const Type& a, const Type& b) {
    return a.id_ == b.id_ && (a.name_ == b.name_ || (a.name_ != nullptr && b.IsNamed(a.name_)));
  }
  friend bool operator!=(const Type& a, const Type& b) { return !(a == b); }
  friend bool operator<(const Type& a, const Type& b) {
    return a.id_ != b.id_ ? a.id_ < b.id_ : a.Name() < b.Name();
  }
  friend std::ostream& operator<<(std::ostream& out, const Type& type) { return out << type.toString(); }

 private:
  bool IsNamed(std::string_view name) const { return name_ != nullptr && name == name_; }
  std::string_view Name() const { return name_ == nullptr ? "" : name_; }

  const char* name_ = nullptr;
  ipu_model::DType id_ = ipu_model::DType::kPred;
};

inline constexpr Type BOOL{ipu_model::DType::kPred};
inline constexpr Type CHAR{ipu_model::DType::kS8, "char"};
inline constexpr Type SIGNED_CHAR{ipu_model::DType::kS8};
inline constexpr Type UNSIGNED_CHAR{ipu_model::DType::kU8};
inline constexpr Type SHORT{ipu_model::DType::kS16};
inline constexpr Type UNSIGNED_SHORT{ipu_model::DType::kU16};
inline constexpr Type INT{ipu_model::DType::kS32};
inline constexpr Type UNSIGNED_INT{ipu_model::DType::kU32};
inline constexpr Type LONG{ipu_model::DType::kS64, "long"};
inline constexpr Type UNSIGNED_LONG{ipu_model::DType::kU64, "unsigned long"};
inline constexpr Type LONGLONG{ipu_model::DType::kS64};
inline constexpr Type UNSIGNED_LONGLONG{ipu_model::DType::kU64};
inline constexpr Type HALF{ipu_model::DType::kF16};
inline constexpr Type FLOAT{ipu_model::DType::kF32};
// An 8-bit float; its format and scale are in the tensor's metadata (poplar/Quarter.hpp).
inline constexpr Type QUARTER{ipu_model::DType::kU8, "quarter"};
inline constexpr Type QUARTER_METADATA{ipu_model::DType::kU8, "quarter_metadata"};

// The type of elements that hold a C++ type: of `double` FLOAT, as Poplar has no wider one.
template <typename T>
struct equivalent_device_type;
#define POPLAR_EQUIVALENT(cpp, type)           \
  template <>                                  \
  struct equivalent_device_type<cpp> {         \
    static constexpr const Type& value = type; \
  };
POPLAR_EQUIVALENT(bool, BOOL)
POPLAR_EQUIVALENT(char, CHAR)
POPLAR_EQUIVALENT(signed char, SIGNED_CHAR)
POPLAR_EQUIVALENT(unsigned char, UNSIGNED_CHAR)
POPLAR_EQUIVALENT(short, SHORT)
POPLAR_EQUIVALENT(unsigned short, UNSIGNED_SHORT)
POPLAR_EQUIVALENT(int, INT)
POPLAR_EQUIVALENT(unsigned int, UNSIGNED_INT)
POPLAR_EQUIVALENT(long, LONG)
POPLAR_EQUIVALENT(unsigned long, UNSIGNED_LONG)
POPLAR_EQUIVALENT(long long, LONGLONG)
POPLAR_EQUIVALENT(unsigned long long, UNSIGNED_LONGLONG)
POPLAR_EQUIVALENT(float, FLOAT)
POPLAR_EQUIVALENT(double, FLOAT)
#undef POPLAR_EQUIVALENT

}  // namespace poplar

namespace std {
template <>
struct hash<poplar::Type> {
  size_t operator()(const poplar::Type& t) const { return hash<string>()(t.toString()); }
};
}  // namespace std

#endif  // POPLAR_TYPE_HPP
