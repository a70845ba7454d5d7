#include "storage.h"

#include "hlo/Expansion.hpp"

namespace hlo {

poplar::Type bitsOf(DType type, const std::string& function) {
  switch (ipu_model::SizeOf(type)) {
    case 1:
      return poplar::UNSIGNED_CHAR;
    case 2:
      return poplar::UNSIGNED_SHORT;
    case 4:
      return poplar::UNSIGNED_INT;
    case 8:
      return poplar::UNSIGNED_LONGLONG;
    default:
      refuse(function, std::string("the type ") + ipu_model::NameOf(type));
  }
}

poplar::Type storedAs(DType type, const std::string& function) {
  switch (type) {
    case DType::kPred:
      return poplar::BOOL;
    case DType::kS2:
    case DType::kS4:
    case DType::kS8:
      return poplar::SIGNED_CHAR;
    case DType::kS16:
      return poplar::SHORT;
    case DType::kS32:
      return poplar::INT;
    case DType::kS64:
      return poplar::LONGLONG;
    case DType::kF16:
      return poplar::HALF;
    case DType::kF32:
      return poplar::FLOAT;
    default:
      return bitsOf(type, function);
  }
}

unsigned unusedBits(DType type) {
  if (type == DType::kS4 || type == DType::kU4) return 4;
  return type == DType::kS2 || type == DType::kU2 ? 6 : 0;
}

poplar::Type singleAs(DType type, const std::string& function) {
  if (type != DType::kF32 && type != DType::kC64)
    refuse(function, std::string("the type ") + ipu_model::NameOf(type));
  return storedAs(type, function);
}

std::string cppName(const poplar::Type& type) {
  if (type == poplar::BOOL) return "bool";
  if (type == poplar::SIGNED_CHAR) return "signed char";
  if (type == poplar::UNSIGNED_CHAR) return "unsigned char";
  if (type == poplar::SHORT) return "short";
  if (type == poplar::UNSIGNED_SHORT) return "unsigned short";
  if (type == poplar::INT) return "int";
  if (type == poplar::UNSIGNED_INT) return "unsigned int";
  if (type == poplar::LONGLONG) return "long long";
  if (type == poplar::UNSIGNED_LONGLONG) return "unsigned long long";
  return type == poplar::HALF ? "half" : "float";
}

void refuse(const std::string& function, const std::string& what) {
  throw NotExpanded(
      function + ": " + what +
      " is not expanded into vertices yet; run the operation by its kernel (docs/op_support.md)");
}

}  // namespace hlo
