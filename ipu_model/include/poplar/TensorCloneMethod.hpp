// What Graph::clone keeps besides shape and tile mapping.
#ifndef POPLAR_TENSOR_CLONE_METHOD_HPP
#define POPLAR_TENSOR_CLONE_METHOD_HPP

#include <ostream>
#include <string>

namespace poplar {

enum class TensorCloneMethod {
  // The order of the elements in memory, and which of them are one element in memory.
  PRESERVE_ORDER_AND_ALIASES,
  // Nothing: the elements are in memory in the order of the tensor's dimensions.
  CREATE_NEW_ORDER,
  // The order of the elements in memory; CREATE_NEW_ORDER for a tensor with aliases.
  PRESERVE_ORDER_UNLESS_ALIASES,
  // As the first; besides, the elements of each tile are together, in one variable.
  GATHER_AND_PRESERVE_TILE_ORDER_AND_ALIASES,
};

// The order in memory of the copies that Graph::cloneN makes.
enum class TensorCloneDuplicationMethod {
  DUPLICATE_BY_OUTER_DIMENSION,         // one whole copy after another
  DUPLICATE_BY_TILE_CONTIGUOUS_REGION,  // on each tile, the copies of a region one after another
};

inline std::string toString(const TensorCloneMethod& method) {
  switch (method) {
    case TensorCloneMethod::PRESERVE_ORDER_AND_ALIASES:
      return "PRESERVE_ORDER_AND_ALIASES";
    case TensorCloneMethod::CREATE_NEW_ORDER:
      return "CREATE_NEW_ORDER";
    case TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES:
      return "PRESERVE_ORDER_UNLESS_ALIASES";
    default:
      return "GATHER_AND_PRESERVE_TILE_ORDER_AND_ALIASES";
  }
}
inline std::ostream& operator<<(std::ostream& out, const TensorCloneMethod& method) {
  return out << toString(method);
}

}  // namespace poplar

#endif  // POPLAR_TENSOR_CLONE_METHOD_HPP
