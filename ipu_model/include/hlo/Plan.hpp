// The work of a function as it was planned: the supersteps, what each vertex computes, reads and writes, and
// what that takes. Expansions whose division over tiles is more than a Grid follow such a plan.
#ifndef HLO_PLAN_HPP
#define HLO_PLAN_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "poplar/Graph.hpp"

namespace hlo {

// Half-open box [begin, end) of a tensor. A scalar has no dimensions.
struct Region {
  std::vector<std::size_t> begin, end;

  std::size_t extent(std::size_t dimension) const { return end[dimension] - begin[dimension]; }
  // From an element to the next one along the dimension, in the row-major order of the box's elements.
  std::size_t stride(std::size_t dimension) const {
    std::size_t n = 1;
    for (std::size_t d = dimension + 1; d < begin.size(); ++d) n *= extent(d);
    return n;
  }
  std::vector<std::size_t> shape() const {
    std::vector<std::size_t> extents;
    for (std::size_t d = 0; d < begin.size(); ++d) extents.push_back(extent(d));
    return extents;
  }
};

// A tensor of the function, or one that is only live between its supersteps.
struct PlannedTensor {
  enum class Kind { kInput, kOutput, kTemporary } kind;
  unsigned index;
};

struct PlannedVertex {
  unsigned tile;
  std::uint64_t cycles;
  Region box;                         // of the iteration space, which each function defines
  std::vector<Region> reads, writes;  // by read and write of the group
};

// Vertices of one codelet.
struct PlannedGroup {
  std::vector<PlannedTensor> reads, writes;
  std::vector<PlannedVertex> vertices;
  std::string codelet;  // the operation's name for it
};

struct PlannedTemporary {
  poplar::Type type;
  std::vector<std::size_t> shape;
  poplar::Graph::TileToTensorMapping mapping;
};

// The supersteps [begin, end) run `trips` times.
struct PlannedLoop {
  std::size_t begin, end;
  std::uint64_t trips;
};

struct Plan {
  std::vector<PlannedTemporary> temporaries;
  std::vector<std::vector<PlannedGroup>> supersteps;
  std::vector<PlannedLoop> loops;  // disjoint, in order
};

}  // namespace hlo

#endif  // HLO_PLAN_HPP
