// The operations of popops::reduce. Source: PopLibs, include/popops/Operation.hpp.
#ifndef POPOPS_OPERATION_HPP
#define POPOPS_OPERATION_HPP

namespace popops {

enum class Operation { ADD, MUL, MIN, MAX, LOGICAL_AND, LOGICAL_OR, SQUARE_ADD, LOG_ADD };

}  // namespace popops

#endif  // POPOPS_OPERATION_HPP
