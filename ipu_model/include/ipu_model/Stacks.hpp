// Stacks of tensors whose items have one tile mapping, as weights of layers that a program takes by number.
#ifndef IPU_MODEL_STACKS_HPP
#define IPU_MODEL_STACKS_HPP

#include <cstddef>
#include <string>

#include "poplar/Graph.hpp"
#include "poplar/Tensor.hpp"

namespace ipu_model {

// A new variable [count, ...] of the item's type, each item mapped as `item` and in its order in memory.
// `item` is a whole variable. Throws poplar::poplar_error if it is not. Poplar's equivalent: poplar::concat
// of clones.
poplar::Tensor StackLike(poplar::Graph& graph, const poplar::Tensor& item, std::size_t count,
                         const std::string& name);

}  // namespace ipu_model

#endif  // IPU_MODEL_STACKS_HPP
