// The codelets of popops. The model's operations bring theirs, so there is nothing to add.
#ifndef POPOPS_CODELETS_HPP
#define POPOPS_CODELETS_HPP

#include "poplar/Graph.hpp"

namespace popops {

inline void addCodelets(poplar::Graph& /*graph*/) {}

}  // namespace popops

#endif  // POPOPS_CODELETS_HPP
