// Stacks of tensors whose items have one tile mapping.
#include "ipu_model/Stacks.hpp"

#include <cstddef>
#include <vector>

#include "check.h"
#include "ipu_model/Blocks.hpp"
#include "poplar/Graph.hpp"
#include "poplar/Target.hpp"
#include "poplar/exceptions.hpp"

namespace {

using poplar::Graph;
using poplar::Tensor;

Graph NewGraph() { return Graph(poplar::Target::createIPUTarget(1, 12, "ipu2")); }

void CheckItems(Graph& graph, const Tensor& item) {
  const Tensor stack = ipu_model::StackLike(graph, item, 3, "stack");
  CHECK_EQ(stack.rank(), item.rank() + 1);
  CHECK_EQ(stack.numElements(), 3 * item.numElements());
  const auto expected = graph.getTileMapping(item);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto found = graph.getTileMapping(stack[i]);
    for (std::size_t tile = 0; tile < expected.size(); ++tile) CHECK(found[tile] == expected[tile]);
  }
}

TEST(ItemsLieAsTheOneThatIsGiven) {
  Graph graph = NewGraph();
  const Tensor in_blocks = graph.addVariable(poplar::FLOAT, {8, 6});
  ipu_model::MapInBlocks(graph, in_blocks, {4, 3});
  CheckItems(graph, in_blocks);
  CheckItems(graph, in_blocks.transpose());
  const Tensor in_intervals = graph.addVariable(poplar::HALF, {10});
  graph.setTileMapping(in_intervals.slice(0, 3), 5);
  graph.setTileMapping(in_intervals.slice(3, 10), 2);
  CheckItems(graph, in_intervals);
}

TEST(PartsOfVariablesAreRefused) {
  Graph graph = NewGraph();
  const Tensor t = graph.addVariable(poplar::FLOAT, {8, 8});
  graph.setTileMapping(t, 1);
  for (const Tensor& part : {t.slice(2, 6), t.slice(0, 1).broadcast(8, 0), poplar::concat(t, t)})
    CHECK_THROWS(poplar::poplar_error, ipu_model::StackLike(graph, part, 2, "stack"));
}

}  // namespace
