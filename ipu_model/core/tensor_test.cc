// Compares tensor views with a list of elements.
#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "check.h"
#include "core/graph_impl.h"
#include "core/strides.h"
#include "poplar/Graph.hpp"
#include "poplar/exceptions.hpp"
#include "poputil/TileMapping.hpp"

namespace {

using poplar::Tensor;
using Sizes = std::vector<std::size_t>;
using Element = std::pair<ipu_model::VariableId, std::int64_t>;

poplar::Graph NewGraph(unsigned tiles = 8) {
  return poplar::Graph(poplar::Target::createIPUTarget(1, tiles, "ipu2"));
}

std::vector<Element> ElementsOf(const Tensor& tensor) {
  std::vector<Element> elements;
  for (const ipu_model::View& v : tensor.pieces()) {
    for (std::int64_t i = 0; i < v.num_elements(); ++i) {
      std::int64_t rest = i, at = v.offset;
      for (std::size_t d = v.shape.size(); d-- > 0;) {
        at += rest % v.shape[d] * v.strides[d];
        rest /= v.shape[d];
      }
      elements.emplace_back(v.variable, at);
    }
  }
  return elements;
}

// The same methods, on a list of all elements in row-major order.
struct Reference {
  Sizes shape;
  std::vector<Element> elements;

  template <typename F>  // maps every new index to its old index
  Reference Map(const Sizes& new_shape, F&& f) const {
    Reference out{new_shape, {}};
    std::size_t n = 1;
    for (std::size_t d : new_shape) n *= d;
    Sizes index(new_shape.size());
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t rest = i;
      for (std::size_t d = new_shape.size(); d-- > 0;) {
        index[d] = rest % new_shape[d];
        rest /= new_shape[d];
      }
      const Sizes old = f(index);
      std::size_t at = 0;
      for (std::size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + old[d];
      out.elements.push_back(elements.at(at));
    }
    return out;
  }
};

bool Same(const Tensor& tensor, const Reference& reference) {
  if (tensor.shape() != reference.shape || ElementsOf(tensor) != reference.elements) return false;
  if (ElementsOf(tensor.aligned()) != reference.elements) return false;
  std::set<Element> unique(reference.elements.begin(), reference.elements.end());
  return tensor.containsAliases() == (unique.size() != reference.elements.size());
}

// Applies one random method to both. `graph` provides the second part of concatenations.
void Step(std::mt19937* rng, poplar::Graph* graph, Tensor* tensor, Reference* reference) {
  const auto below = [rng](std::size_t n) { return n == 0 ? 0 : (*rng)() % n; };
  const std::size_t rank = tensor->rank();
  const unsigned d = static_cast<unsigned>(below(rank));
  Sizes shape = tensor->shape();
  switch (below(10)) {
    case 0: {
      if (rank == 0) return;
      const std::size_t b = below(shape[d] + 1), e = b + below(shape[d] - b + 1);
      shape[d] = e - b;
      *reference = reference->Map(shape, [=](Sizes i) { return i[d] += b, i; });
      *tensor = tensor->slice(b, e, d);
      return;
    }
    case 1: {
      std::vector<unsigned> permutation(rank);
      for (unsigned k = 0; k < rank; ++k) permutation[k] = k;
      std::shuffle(permutation.begin(), permutation.end(), *rng);
      for (unsigned k = 0; k < rank; ++k) shape[k] = tensor->shape()[permutation[k]];
      *reference = reference->Map(shape, [&](const Sizes& i) {
        Sizes old(rank);
        for (unsigned k = 0; k < rank; ++k) old[permutation[k]] = i[k];
        return old;
      });
      *tensor = tensor->dimShuffle(permutation);
      return;
    }
    case 2:
      if (rank == 0) return;
      *reference = reference->Map(shape, [&](Sizes i) { return i[d] = shape[d] - 1 - i[d], i; });
      *tensor = tensor->reverse(d);
      return;
    case 3: {
      if (rank == 0) return;
      const unsigned stride = 1 + static_cast<unsigned>(below(3));
      shape[d] = (shape[d] + stride - 1) / stride;
      *reference = reference->Map(shape, [=](Sizes i) { return i[d] *= stride, i; });
      *tensor = tensor->subSample(stride, d);
      return;
    }
    case 4: {
      if (rank == 0 || tensor->numElements() > 200) return;
      const unsigned n = static_cast<unsigned>(below(4));
      const std::size_t size = shape[d];
      shape[d] *= n;
      *reference = reference->Map(shape, [=](Sizes i) { return i[d] %= size, i; });
      *tensor = tensor->broadcast(n, d);
      return;
    }
    case 5: {
      if (rank == 0 || tensor->numElements() > 200) return;
      Sizes second = shape;
      second[d] = below(3);
      Tensor other = graph->addVariable(poplar::INT, second, "other");
      Reference all = *reference;
      const std::size_t first = shape[d];
      const Reference o{second, ElementsOf(other)};
      shape[d] += second[d];
      all.shape = shape;
      all.elements.clear();
      std::size_t outer = 1, inner = 1;
      for (std::size_t k = 0; k < rank; ++k) (k < d ? outer : inner) *= k == d ? 1 : shape[k];
      for (std::size_t i = 0; i < outer; ++i) {
        const auto take = [&](const Reference& r, std::size_t n) {
          all.elements.insert(all.elements.end(),
                              r.elements.begin() + static_cast<std::ptrdiff_t>(i * n * inner),
                              r.elements.begin() + static_cast<std::ptrdiff_t>((i + 1) * n * inner));
        };
        take(*reference, first);
        take(o, second[d]);
      }
      *reference = std::move(all);
      *tensor = poplar::concat(*tensor, other, d);
      return;
    }
    case 6:
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(below(rank + 1)), 1);
      if (shape.size() > 5) return;
      reference->shape = shape;
      *tensor = tensor->reshape(shape);
      return;
    case 7:
      if (rank < 2 || d + 1 == rank) return;
      shape[d] *= shape[d + 1];
      shape.erase(shape.begin() + d + 1);
      reference->shape = shape;
      *tensor = tensor->flatten(d, d + 2);
      return;
    case 8: {
      if (rank == 0 || rank > 4 || shape[d] == 0) return;
      const std::size_t n = shape[d], factor = n % 2 == 0 ? 2 : n % 3 == 0 ? 3 : 1;
      *tensor = tensor->reshapePartial(d, d + 1, {n / factor, factor});
      reference->shape = tensor->shape();
      return;
    }
    default:
      if (rank == 0 || shape[0] == 0 || rank < 3) return;
      shape.erase(shape.begin());
      *reference = reference->Map(shape, [](Sizes i) { return i.insert(i.begin(), 0), i; });
      *tensor = (*tensor)[0];
      return;
  }
}

TEST(RandomViewsReferToTheRightElements) {
  std::mt19937 rng(1);
  int strided = 0, pieces = 0;
  for (int round = 0; round < 3000; ++round) {
    poplar::Graph graph = NewGraph();
    const Sizes shape = {1 + rng() % 4, 1 + rng() % 4, 1 + rng() % 6};
    Tensor tensor = graph.addVariable(poplar::INT, shape, "x");
    Reference reference{shape, ElementsOf(tensor)};
    for (int step = 0; step < 8; ++step) {
      Step(&rng, &graph, &tensor, &reference);
      CHECK(Same(tensor, reference));
      ipu_model::View view;
      const bool one = tensor.asView(&view);
      (one ? strided : pieces) += 1;
      if (one) CHECK(ipu_model::Shape(tensor.shape().begin(), tensor.shape().end()) == view.shape);
    }
  }
  CHECK(strided > 1000);
  CHECK(pieces > 1000);
}

TEST(StridedViewsStayStrided) {
  poplar::Graph graph = NewGraph();
  const Tensor x = graph.addVariable(poplar::FLOAT, {4, 6, 5}, "x");
  ipu_model::View view;
  CHECK(x.slice(1, 3, 0).slice(2, 6, 1).dimShuffle({2, 0, 1}).reverse(1).asView(&view));
  CHECK_EQ(view.offset, 2 * 30 + 2 * 5);
  CHECK(view.strides == (ipu_model::Shape{1, -30, 5}));
  CHECK(x.reshape({2, 2, 30}).asView(&view));
  CHECK(x.dimShuffle({0, 2, 1}).reshape({2, 2, 5, 3, 2}).asView(&view));
  CHECK(!x.dimShuffle({0, 2, 1}).flatten().asView(&view));
  CHECK(x.dimShuffle({0, 2, 1}).flatten().reshape({4, 5, 6}).asView(&view));
  CHECK(poplar::concat({x.slice(0, 2, 1), x.slice(2, 5, 1), x.slice(5, 6, 1)}, 1).asView(&view));
  CHECK(view.strides == (ipu_model::Shape{30, 5, 1}));
  CHECK(x.expand({0, 3}).broadcast(7, 0).asView(&view));
  CHECK(view.shape == (ipu_model::Shape{7, 4, 6, 5, 1}));
  CHECK_EQ(view.strides[0], 0);
}

TEST(MisuseThrowsWithShapes) {
  poplar::Graph graph = NewGraph();
  const Tensor x = graph.addVariable(poplar::FLOAT, {4, 6}, "x");
  CHECK_THROWS(poplar::poplar_error, x.slice(3, 2, 0));
  CHECK_THROWS(poplar::poplar_error, x.slice(0, 7, 1));
  CHECK_THROWS(poplar::poplar_error, x.slice(0, 1, 2));
  CHECK_THROWS(poplar::poplar_error, x.reshape({5, 5}));
  CHECK_THROWS(poplar::poplar_error, x.dimShuffle({0, 0}));
  CHECK_THROWS(poplar::poplar_error, x.squeeze({0}));
  CHECK_THROWS(poplar::poplar_error, x.expand({3}));
  CHECK_THROWS(poplar::poplar_error, x.subSample(0, 0));
  CHECK_THROWS(poplar::poplar_error, x[4]);
  CHECK_THROWS(poplar::poplar_error, poplar::concat(x, x.slice(0, 3, 0), 1));
  CHECK_THROWS(poplar::poplar_error, Tensor().flatten());
  CHECK_THROWS(poplar::type_error, x.reinterpret(poplar::HALF));
  try {
    x.slice(0, 7, 1);
  } catch (const poplar::poplar_error& error) {
    CHECK(std::string(error.what()).find("{4,6}") != std::string::npos);
  }
}

TEST(ZeroElementsAreLegal) {
  poplar::Graph graph = NewGraph();
  const Tensor x = graph.addVariable(poplar::FLOAT, {4, 0, 3}, "x");
  CHECK_EQ(x.reshape({0, 7}).numElements(), 0u);
  CHECK_EQ(x.dimShuffle({2, 0, 1}).slice(1, 2, 0).reverse(2).rank(), 3u);
  CHECK_EQ(poplar::concat(x, x, 1).dim(1), 0u);
  const Tensor y = graph.addVariable(poplar::FLOAT, {4, 2, 3}, "y");
  CHECK_EQ(poplar::concat({x, y, x}, 1).dim(1), 2u);
  CHECK_EQ(y.broadcast(0, 1).numElements(), 0u);
  CHECK(!x.containsAliases());
  poputil::mapTensorLinearly(graph, x);
  CHECK_EQ(graph.clone(x).numElements(), 0u);
}

TEST(TileMappingOfViews) {
  poplar::Graph graph = NewGraph();
  const Tensor x = graph.addVariable(poplar::FLOAT, {4, 6}, "x");
  graph.setTileMapping(x, 3);
  graph.setTileMapping(x.slice(2, 4, 1), 5);
  const auto mapping = graph.getTileMapping(x);
  std::size_t on_three = 0, on_five = 0;
  for (const poplar::Interval& i : mapping[3]) on_three += i.size();
  for (const poplar::Interval& i : mapping[5]) {
    on_five += i.size();
    CHECK_EQ(i.begin() % 6, 2u);
  }
  CHECK_EQ(on_three, 16u);
  CHECK_EQ(on_five, 8u);
  const auto columns = graph.getTileMapping(x.transpose());
  CHECK(columns[5] == (std::vector<poplar::Interval>{{8, 16}}));

  // Clones keep the mapping and the memory order.
  const Tensor c = graph.clone(x.transpose());
  CHECK(c.shape() == (Sizes{6, 4}));
  CHECK(graph.getTileMapping(c) == columns);
  ipu_model::View view;
  CHECK(c.asView(&view));
  CHECK(view.strides == (ipu_model::Shape{1, 6}));
  // With CREATE_NEW_ORDER, clones have the memory order of their dimensions.
  const Tensor n = graph.clone(poplar::HALF, x.transpose(), {}, poplar::TensorCloneMethod::CREATE_NEW_ORDER);
  CHECK(graph.getTileMapping(n) == columns);
  CHECK(n.elementType() == poplar::HALF);
  CHECK(n.asView(&view));
  CHECK(view.strides == (ipu_model::Shape{4, 1}));
  const Tensor b = graph.clone(x.slice(0, 1, 0).broadcast(3, 0));
  CHECK(!b.containsAliases());
  CHECK(graph.getTileMapping(b) == graph.getTileMapping(x.slice(0, 1, 0).broadcast(3, 0)));

  // Mapping by intervals, through a view with gaps.
  poplar::Graph::TileToTensorMapping wanted(3);
  wanted[0] = {{0, 3}, {7, 8}};
  wanted[2] = {{3, 7}};
  const Tensor y = graph.addVariable(poplar::FLOAT, {4, 4}, "y");
  graph.setTileMapping(y.subSample(2, 1), wanted);
  auto got = graph.getTileMapping(y.subSample(2, 1));
  got.resize(3);
  CHECK(got == wanted);
  CHECK_THROWS(poplar::invalid_tile_mapping, graph.setTileMapping(y, 8));
  wanted[1] = {{2, 4}};
  CHECK_THROWS(poplar::invalid_tile_mapping, graph.setTileMapping(y.subSample(2, 1), wanted));
}

TEST(LinearMappingIsBalanced) {
  poplar::Graph graph = NewGraph(16);
  const Tensor x = graph.addVariable(poplar::FLOAT, {1000}, "x");
  poputil::mapTensorLinearly(graph, x);
  const auto mapping = graph.getTileMapping(x);
  std::size_t total = 0;
  for (const auto& intervals : mapping) {
    for (const poplar::Interval& i : intervals) total += i.size();
  }
  CHECK_EQ(total, 1000u);
  CHECK(mapping == poputil::calcLinearTileMapping(graph, x));
  const Tensor small = graph.addVariable(poplar::FLOAT, {32}, "small");
  poputil::mapTensorLinearly(graph, small);
  CHECK_EQ(graph.getTileMapping(small)[0].size(), 1u);
  CHECK(graph.getTileMapping(small)[1].empty());
}

}  // namespace

int main() { return jax_ipu::testing::RunTests(); }
