// The boxes of a tensor that each tile holds: what the vertices of elementwise functions compute.
#ifndef HLO_PARTS_H_
#define HLO_PARTS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "poplar/Graph.hpp"

namespace hlo {

// Half-open box [begin, end) of a tensor that is on one tile. A scalar has no dimensions.
struct Part {
  unsigned tile = 0;
  std::vector<std::size_t> begin, end;

  std::size_t elements() const;
  poplar::Tensor of(const poplar::Tensor& tensor) const;  // as one dimension
  friend bool operator==(const Part& a, const Part& b) {
    return a.tile == b.tile && a.begin == b.begin && a.end == b.end;
  }
};

// The dimensions of the tensor, which has no aliases, from the one with the largest step in memory to the one
// with the smallest; those of extent 1 come last.
std::vector<unsigned> memoryOrder(const poplar::Graph& graph, const poplar::Tensor& tensor);

// Boxes that together are the tensor, which has no aliases. Each is on one tile; a row of elements that lie
// in memory one after another is cut into as few boxes as its dimensions allow, in the order of memory.
std::vector<Part> partsOf(const poplar::Graph& graph, const poplar::Tensor& tensor);

// A vertex of the class on the tile of the part, with its cycles.
poplar::VertexRef addVertex(poplar::Graph& graph, const poplar::ComputeSet& computeSet,
                            const std::string& vertexClass, const Part& part, std::size_t cycles);

// Adds the codelets, unless the graph has this class already.
void addCodelets(poplar::Graph& graph, const std::string& vertexClass, const std::string& source);

}  // namespace hlo

#endif  // HLO_PARTS_H_
