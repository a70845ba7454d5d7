// What Graph::clone keeps besides shape and tile mapping.
#ifndef POPLAR_TENSOR_CLONE_METHOD_HPP
#define POPLAR_TENSOR_CLONE_METHOD_HPP

namespace poplar {

enum class TensorCloneMethod {
  // The order of the elements in memory.
  PRESERVE_ORDER_UNLESS_ALIASES,
  // Nothing: the elements are in memory in the order of the tensor's dimensions.
  CREATE_NEW_ORDER,
};

}  // namespace poplar

#endif  // POPLAR_TENSOR_CLONE_METHOD_HPP
