// The codelets of poplin. The model's operations bring theirs, so there is nothing to add.
#ifndef POPLIN_CODELETS_HPP
#define POPLIN_CODELETS_HPP

#include "poplar/Graph.hpp"

namespace poplin {

inline void addCodelets(poplar::Graph& /*graph*/) {}

}  // namespace poplin

#endif  // POPLIN_CODELETS_HPP
