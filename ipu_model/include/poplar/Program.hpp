// Programs, and the graph: those who include this header use both.
#ifndef POPLAR_PROGRAM_HPP
#define POPLAR_PROGRAM_HPP

#include "poplar/Graph.hpp"
#include "poplar/ProgramTypes.hpp"

#endif  // POPLAR_PROGRAM_HPP
