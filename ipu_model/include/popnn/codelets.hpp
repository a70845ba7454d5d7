// The codelets of popnn. The model's operations bring theirs, so there is nothing to add.
#ifndef POPNN_CODELETS_HPP
#define POPNN_CODELETS_HPP

#include "poplar/Graph.hpp"

namespace popnn {

inline void addCodelets(poplar::Graph& /*graph*/) {}

}  // namespace popnn

#endif  // POPNN_CODELETS_HPP
