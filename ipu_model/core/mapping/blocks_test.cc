// Tensors that are mapped in blocks of several dimensions.
#include "ipu_model/Blocks.hpp"

#include <cstddef>
#include <vector>

#include "check.h"
#include "poplar/Graph.hpp"
#include "poplar/Target.hpp"
#include "poplar/exceptions.hpp"

namespace {

using poplar::Graph;
using poplar::Tensor;

Graph NewGraph() { return Graph(poplar::Target::createIPUTarget(1, 12, "ipu2")); }

// The number of elements on each tile.
std::vector<std::size_t> ElementsPerTile(const Graph& graph, const Tensor& tensor) {
  std::vector<std::size_t> counts;
  for (const auto& intervals : graph.getTileMapping(tensor)) {
    std::size_t count = 0;
    for (const poplar::Interval& interval : intervals) count += interval.size();
    counts.push_back(count);
  }
  return counts;
}

TEST(EachBlockIsOnATileOfItsOwn) {
  Graph graph = NewGraph();
  const Tensor t = graph.addVariable(poplar::FLOAT, {7, 3, 10});
  ipu_model::MapInBlocks(graph, t, {3, 1, 2});
  const auto mapping = graph.getTileMapping(t);
  unsigned tile = 0;
  // Rows are cut between pairs of floats, the vectors of this chip.
  const std::vector<std::size_t> rows = {0, 2, 4, 7}, columns = {0, 4, 10};
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t c = 0; c < 2; ++c, ++tile) {
      const Tensor block = t.slice({rows[r], 0, columns[c]}, {rows[r + 1], 3, columns[c + 1]});
      const auto of_block = graph.getTileMapping(block);
      for (unsigned other = 0; other < of_block.size(); ++other)
        CHECK_EQ(!of_block[other].empty(), other == tile);
    }
  }
  CHECK_EQ(tile, 6u);
}

TEST(TensorsOfAnyShape) {
  Graph graph = NewGraph();
  const Tensor scalar = graph.addVariable(poplar::INT, {});
  ipu_model::MapInBlocks(graph, scalar, {});
  const auto of_scalar = ElementsPerTile(graph, scalar);
  CHECK_EQ(of_scalar[0], 1u);
  const Tensor empty = graph.addVariable(poplar::HALF, {0, 5});
  ipu_model::MapInBlocks(graph, empty, {2, 3});
  const Tensor halves = graph.addVariable(poplar::HALF, {2, 9});
  ipu_model::MapInBlocks(graph, halves, {2, 3});
  // Nine halves are three vectors of four, the last one short.
  const std::vector<std::size_t> expected = {4, 4, 1, 4, 4, 1};
  const auto counts = ElementsPerTile(graph, halves);
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK_EQ(counts[i], expected[i]);
}

TEST(WrongPartsAreRefused) {
  Graph graph = NewGraph();
  const Tensor t = graph.addVariable(poplar::FLOAT, {8, 8});
  for (const std::vector<std::size_t>& parts : {std::vector<std::size_t>{2},
                                                {2, 2, 1},
                                                {0, 2},
                                                {4, 4},
                                                {std::size_t{1} << 32, std::size_t{1} << 32}}) {
    CHECK_THROWS(poplar::poplar_error, ipu_model::MapInBlocks(graph, t, parts));
  }
}

}  // namespace
