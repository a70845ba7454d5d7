// Programs, and the graph: those who include this header use both.
#ifndef POPLAR_PROGRAM_HPP
#define POPLAR_PROGRAM_HPP

#include <iosfwd>

#include "poplar/Graph.hpp"
#include "poplar/ProgramTypes.hpp"

namespace poplar::program {

// Writes a program as JSON: objects with type, name, and children in order. All computation, by vertices or
// by a function of a library, has the type Execute.
void dumpProgram(const Graph& graph, const Program& program, std::ostream& out);

}  // namespace poplar::program

#endif  // POPLAR_PROGRAM_HPP
